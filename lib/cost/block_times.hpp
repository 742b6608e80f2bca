#pragma once
// What the operations of a block take, pass by pass.
#include "cost/block.hpp"
#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

// Sets the passes of `cost`, what recomputation adds to them, and lists the messages.
void add_times(const BlockOps& ops, const BlockContext& x, BlockCost& cost);

}  // namespace meshplan
