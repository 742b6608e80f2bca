#pragma once
// The tables behind target_rules(), one file each.
#include "spec/target.hpp"

namespace meshplan {

[[nodiscard]] std::span<const TargetRule> megatron_rules();

}  // namespace meshplan
