#pragma once
// One value of one key of a strategy, in that key's own type.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "spec/strategy.hpp"

namespace meshplan {

// Every type that a key of for_each_key() has.
using KeyValue = std::variant<bool, int, std::int64_t, double, std::vector<std::int64_t>, RankOrder,
                              RecomputeModules, CudaGraphModules, OffloadModules, FrozenParts,
                              Framework, Release, CpKind, Schedule, Recompute, Precision, Dtype,
                              ScalingRecipe, AttentionKernel, StageSplit, CudaGraph, LoraTargets,
                              FrozenDtype, Packing, Optimizer, Loss>;

// As strategies write it: 8, true, bf16, [7,8,8,7], tp-cp-ep-dp-pp.
[[nodiscard]] std::string key_text(const KeyValue& value);

}  // namespace meshplan
