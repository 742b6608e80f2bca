#pragma once
// What a search is asked to look at.
#include <vector>

#include "spec/kinds.hpp"
#include "spec/limits.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

enum class Objective { kStepTime, kCost, kMemory };
MESHPLAN_NAMES(Objective, {{Objective::kStepTime, "step-time"},
                           {Objective::kCost, "cost"},
                           {Objective::kMemory, "memory"}});

enum class Space { kFull, kMegatron, kDeepspeed, kFsdp, kTorchtitan, kAxolotl, kTorchtune };
MESHPLAN_NAMES(Space, {{Space::kFull, "full"},
                       {Space::kMegatron, "megatron"},
                       {Space::kDeepspeed, "deepspeed"},
                       {Space::kFsdp, "fsdp"},
                       {Space::kTorchtitan, "torchtitan"},
                       {Space::kAxolotl, "axolotl"},
                       {Space::kTorchtune, "torchtune"}});

struct SpaceRequest {
  Strategy base;              // workload (global_batch, seq_len), precision, framework, and every
                              // key that the space does not vary
  std::vector<Limit> limits;  // --fix, --limit and --free
  Space space = Space::kFull;
  Objective objective = Objective::kStepTime;
  bool ignore_activations = false;  // count model states only, as rules of thumb do
  bool plans_only = false;  // the statistics are of no interest: what is illegal or does not fit is
                            // not counted
};

}  // namespace meshplan
