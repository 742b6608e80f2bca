#pragma once
// How tokens travel to their experts and back: one copy for each expert, one for each rank or node
// of their experts (flex_dispatcher), or all tokens to all ranks (allgather_dispatcher).
#include <cstddef>

#include "model/context.hpp"
#include "model/operations.hpp"
#include "spec/model.hpp"

namespace meshplan {

// Whether what is sent is one copy for each rank instead of one for each expert.
[[nodiscard]] bool is_sent_once(const BlockContext& x);
// Whether every rank gathers the tokens of all ranks of the experts' groups [F-EP-14]; and how many
// these are.
[[nodiscard]] bool is_gathered(const BlockContext& x);
[[nodiscard]] double gathered_tokens(const BlockContext& x);
// By how many expert-tensor ranks' tokens a rank receives more than it is sent.
[[nodiscard]] double received_share(const BlockContext& x);
// Copies of a token that leave for other parts of the group [F-EP-2].
[[nodiscard]] double copies_sent(const MoeSpec& moe, const BlockContext& x);

// Whether messages run beside another microbatch's layer.
[[nodiscard]] bool hides_dispatch(const Strategy& s);

// The collectives of a microbatch, both ways, forward and backward. `elements` of a token;
// `busiest`: load of the busiest rank over the mean.
void append_dispatch(const MoeSpec& moe, const BlockContext& x, double elements, double busiest,
                     BlockOps& ops);

// [F-EP-15] With overlap.shared_experts the messages of a pass run beside the same pass of the
// experts that every token passes, whose kernels are `first` .. `last` - 1: they hide as far as
// these last, and slow them (Megatron-Core moe/shared_experts.py, moe_shared_expert_overlap).
void hide_behind_shared_experts(const BlockContext& x, std::size_t first, std::size_t last,
                                BlockOps& ops);

}  // namespace meshplan
