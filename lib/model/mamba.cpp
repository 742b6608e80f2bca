// Mamba (Gu and Dao, 2312.00752): a selective scan with one state per channel.
#include <algorithm>

#include "model/state_mixer.hpp"

namespace meshplan {
namespace {

double channels_of(const MambaSpec& kind, const Strategy& s) {
  return real(ceil_div(kind.inner_size, s.tp));
}

// Step sizes at their rank, and both projections of the state.
std::int64_t projections(const MambaSpec& kind) { return kind.dt_rank + 2 * kind.state_size; }

}  // namespace

// [F-SSM-4] In projection 2 h d, convolution d k with biases, projection of d to the step sizes'
// rank r and both of the state 2 N, r d + d back, d N decays, d skips, out projection d h; norms of
// r and 2 N where the model has them. 2312.00752 sec. 3.4; transformers modeling_mamba.py,
// modeling_jamba.py.
void add_parameters(const MambaSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t d = kind.inner_size;
  p.attention_linear += 3 * m.hidden_size * d + d * (kind.conv_kernel + 1) + d * projections(kind) +
                        kind.dt_rank * d + d + d * kind.state_size + d;
  if (kind.inner_norms) p.attention_other += projections(kind);
}

std::int64_t copied_parameters(const MambaSpec&, const ModelSpec&, std::int64_t) { return 0; }

// Seven operations per element of the state, as for Mamba-2.
double token_flops(const MambaSpec& kind, std::int64_t) {
  return 7 * real(kind.inner_size) * real(kind.state_size);
}

// [F-SSM-5] The scan's kernel keeps states on chip and reads inputs, step sizes and gate and writes
// the output, 4 d; backward 8 d and what it computes again (mamba_ssm
// ops/selective_scan_interface.py, csrc/selective_scan). It multiplies no matrices: nine operations
// per element of the state in fp32, twice as many backward, whose time is that of vector units.
void append_operations(const MambaSpec& kind, const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const auto d = static_cast<std::int64_t>(channels_of(kind, x.strategy));
  const double features = real(d), tokens = real(l.tokens), e = l.bytes;
  append_residual_norm(x, "input norm", ops);
  const LinearTimes column =
      append_linear(x, "mamba in", l.tokens, 2 * d, l.hidden, false, ops, 1, &kStateInput);
  append_head_exchange(x, 2 * features, features, ops);
  append_convolution(x, features, ops);
  append_linear(x, "mamba step", l.tokens, projections(kind), d, false, ops);
  append_linear(x, "mamba step up", l.tokens, d, kind.dt_rank, false, ops);
  const double vector_flops = peak_rate(x.cluster.device, Precision::kFp32).si();
  const double work = 9 * tokens * features * real(kind.state_size);
  const auto scan = [&](Pass pass, double times, double bytes) {
    KernelOp op;
    op.name = "mamba scan";
    op.pass = pass;
    op.bytes = bytes;
    op.time = std::max(memory_time(x.cluster.device, bytes, 1),
                       Seconds{vector_flops > 0 ? times * work / vector_flops : 0});
    ops.kernels.push_back(op);
  };
  scan(Pass::kForward, 1, 4 * e * tokens * features);
  scan(Pass::kBackwardInput, 2, 8 * e * tokens * features);
  append_mixer_output(x, "mamba out", d, column, ops);
}

// Both halves of the projection, the convolution's output, step sizes, and the scan's output.
KeptBytes saved_bytes(const MambaSpec& kind, const BlockContext& x) {
  const double d = channels_of(kind, x.strategy), tokens = real(x.shape.tokens);
  const double inside = tokens * x.shape.bytes * (5 * d + real(projections(kind)));
  return state_mixer_bytes(x, inside, static_cast<std::int64_t>(d));
}

double temporary_bytes(const MambaSpec& kind, const BlockContext& x) {
  return 4 * x.shape.bytes * real(x.shape.tokens) * channels_of(kind, x.strategy);
}

}  // namespace meshplan
