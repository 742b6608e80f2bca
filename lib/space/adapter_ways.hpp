#pragma once
// Ways in which adapters keep what they read: those that a space holds beside the stated one.
#include <vector>

#include "space/partial_strategy.hpp"
#include "spec/limits.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// `base` with adapters that gather their input again backward (lora.input_regather), which
// Megatron-Bridge can: less memory for a little time, and so at times the faster, where less is
// recomputed for it. False, and `base` as it was, where the limits say it or the key is of no use.
[[nodiscard]] bool set_regathered_input(const std::vector<Limit>& limits, Strategy& base);

// Whether a base of that kind differs with the option from the one it was made from, which it does
// with sequence parallelism alone.
[[nodiscard]] bool may_regather(const Strategy& base, const MemoryOption& option);

}  // namespace meshplan
