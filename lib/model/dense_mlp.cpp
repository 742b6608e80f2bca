// A plain or gated MLP on every token.
#include <algorithm>

#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

void add_parameters(const DenseMlpSpec& kind, const ModelSpec& m, LayerParameters& p) {
  add_mlp(m, kind.ffn_hidden_size, p);
}

void append_operations(const DenseMlpSpec& kind, const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const ModelSpec& m = x.model;
  const std::int64_t ffn = ceil_div(kind.ffn_hidden_size, x.strategy.tp);
  PartBegin begin = part_begin(ops);
  if (has_own_norm(m)) append_residual_norm(x, "mlp norm", ops);
  if (!norm_is_inside(x)) begin = part_begin(ops);
  const AdapterSite second{.layer = LoraTarget::kFc2, .row_parallel = true};
  const LinearTimes up = append_mlp_first(x, "mlp up", l.tokens, ffn, has_mlp_bias(m), ops);
  const bool split = x.strategy.runtime.split_projections;
  repeat_product(x, "mlp up", !m.gated_mlp ? 0 : split ? 1 : 0.5, ops);
  append_activation(x, real(l.tokens) * real(ffn), ops);
  const LinearTimes down =
      append_linear(x, "mlp down", l.tokens, l.hidden, ffn, has_mlp_bias(m), ops, 1, &second);
  repeat_product(x, "mlp down", m.gated_mlp ? 0 : 1, ops);
  // A parallel block sums attention and MLP before one reduction, counted with attention.
  if (!m.parallel_block) append_tp_collectives(x, up, down, ops);
  if (repeats(x, RecomputeModule::kMlp, false)) repeat_part(begin, ops);
  append_residual(x, ops);
}

KeptBytes saved_bytes(const DenseMlpSpec& kind, const BlockContext& x) {
  const double features = widest_features(kind, x);
  KeptBytes saved{activation_function_bytes(x, features) + hidden_mask(x), 0};
  if (has_own_norm(x.model)) {
    saved.all += norm_bytes(x, real(x.shape.norm_tokens) * real(x.shape.hidden)) +
                 kept_input(x, kFirstTargets);
  }
  if (x.strategy.runtime.op_recompute) {
    // The first product, and the last of three.
    const LocalShape& l = x.shape;
    const double down = x.model.gated_mlp ? real(l.norm_tokens) * real(l.hidden) : 0;
    saved.selective = std::max(0.0, saved.all - l.bytes * (features + down));
    return saved;
  }
  if (x.strategy.recompute_modules.empty()) {
    if (x.strategy.flash_attention) saved.selective = repeated_features(x, features);
    return saved;
  }
  // Module mlp keeps its input: the norm's output, or the norm's own where that is inside of it.
  const double normed = has_own_norm(x.model) ? kept_input(x, kFirstTargets) : 0;
  if (repeats(x, RecomputeModule::kMlp, false)) {
    saved.together = activation_function_bytes(x, features) + (norm_is_inside(x) ? normed : 0);
    saved.selective += saved.together;
  }
  if (repeats_norms(x) && !norm_is_inside(x)) {
    saved.selective += normed;
  }
  return saved;
}

double widest_features(const DenseMlpSpec& kind, const BlockContext& x) {
  return real(x.shape.tokens) * real(ceil_div(kind.ffn_hidden_size, x.strategy.tp));
}

}  // namespace meshplan
