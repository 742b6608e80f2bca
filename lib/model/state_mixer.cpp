#include "model/state_mixer.hpp"

namespace meshplan {

void append_convolution(const BlockContext& x, double channels, BlockOps& ops) {
  const double once = real(x.shape.tokens) * channels * x.shape.bytes;
  append_elementwise(x, "convolution", 2 * once, 1, 5 * once, 2, ops);
}

void append_head_exchange(const BlockContext& x, double before, double after, BlockOps& ops) {
  if (x.strategy.cp == 1) return;
  const double one = real(x.shape.tokens) * x.shape.bytes;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    append_cp_collective(x, pass, Collective::kAllToAll, one * before, 1, Seconds{}, ops);
    append_cp_collective(x, pass, Collective::kAllToAll, one * after, 1, Seconds{}, ops);
  }
}

void append_mixer_output(const BlockContext& x, std::string_view name, std::int64_t features,
                         const LinearTimes& column, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const AdapterSite site{.layer = LoraTarget::kOut, .row_parallel = true};
  const LinearTimes row =
      append_linear(x, name, l.tokens, l.hidden, features, false, ops, 1, &site);
  append_tp_collectives(x, column, row, ops);
  append_residual(x, ops);
}

KeptBytes state_mixer_bytes(const BlockContext& x, double inside, std::int64_t features) {
  const LocalShape& l = x.shape;
  const double norm = real(l.norm_tokens) * real(l.hidden);
  const double output = kept(x, {LoraTarget::kOut}) * real(l.tokens) * real(features);
  const double input = kept_input(x, {LoraTarget::kIn});
  const double all = norm_bytes(x, norm) + input + inside + output + hidden_mask(x);
  // Selective recomputation beside fused kernels repeats the norm (Megatron-Core's layernorm).
  const bool again = x.strategy.recompute_modules.empty() ? x.strategy.flash_attention
                                                          : repeats_norms(x) && !norm_is_inside(x);
  return {all, again ? input : 0};
}

}  // namespace meshplan
