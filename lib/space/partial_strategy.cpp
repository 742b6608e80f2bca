#include "space/partial_strategy.hpp"

#include <algorithm>

namespace meshplan {

Strategy with_partial(Strategy base, const PartialStrategy& choice) {
  base.tp = choice.tp, base.pp = choice.pp, base.vp = choice.vp, base.cp = choice.cp;
  base.ep = choice.ep, base.etp = choice.etp, base.dp = choice.dp;
  base.cp_kind = choice.cp_kind;
  base.zero = choice.zero, base.zero_group = choice.zero_group;
  base.sequence_parallel = choice.sequence_parallel;
  base.micro_batch = choice.micro_batch;
  // Where none is chosen yet, the smallest that is legal: two answers make a pair.
  if (base.loss == Loss::kDpo) base.micro_batch = std::max<std::int64_t>(base.micro_batch, 2);
  base.schedule = choice.schedule;
  base.order = choice.order;
  base.stage_layers.clear();
  base.chunk_layers.clear();
  base.recompute_layers.clear();
  base.recompute = Recompute::kNone;
  base.recompute_modules = {};
  base.offload.optimizer = base.offload.activations = false;
  return base;
}

Strategy with_option(Strategy s, const MemoryOption& option) {
  s.recompute = option.recompute, s.recompute_modules = option.modules;
  s.offload.optimizer = option.offload_optimizer;
  s.offload.activations = option.offload_activations;
  return s;
}

bool has_one_replica(const Strategy& mesh, const ModelSpec& m) {
  return mesh.dp * mesh.cp == 1 && (!m.moe || mesh.tp == 1);
}

}  // namespace meshplan
