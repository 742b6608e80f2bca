// How tokens reach their experts in Megatron-LM, and how many of them these take.
#include <algorithm>

#include "launch/megatron_parts.hpp"

namespace meshplan {

void read_dispatch(ProgramOptions& options, ImportedRun& run) {
  Strategy& s = run.strategy;
  const bool given = options.has("--moe-token-dispatcher-type");
  const bool deepep = options.has("--moe-enable-deepep");
  const std::string kind = options.text("--moe-token-dispatcher-type", "allgather");
  (void)options.has("--moe-flex-dispatcher-backend");
  // A negative factor is none (core/transformer/transformer_config.py, moe_expert_capacity_factor).
  const double capacity = std::max(options.real("--moe-expert-capacity-factor", 0), 0.0);
  const bool pads = options.has("--moe-pad-expert-input-to-capacity");
  s.runtime.expert_capacity_factor = run.model.moe ? capacity : 0;
  s.runtime.pad_to_capacity = pads && s.runtime.expert_capacity_factor > 0;
  s.overlap.shared_experts = options.has("--moe-shared-expert-overlap");
  // Without groups of experts no dispatcher differs from another.
  if (s.ep * s.etp == 1) return;
  s.runtime.flex_dispatcher = kind == "flex" || deepep;
  // A recipe's overrides do not say what the recipe has.
  const bool own = given || options.has("--num-layers");
  s.runtime.allgather_dispatcher = kind == "allgather" && own && !deepep;
  if (given || !s.runtime.allgather_dispatcher) return;
  run.assumed.push_back({"kernels.allgather_dispatcher", "true",
                         "Megatron-LM's --moe-token-dispatcher-type where none is given"});
}

}  // namespace meshplan
