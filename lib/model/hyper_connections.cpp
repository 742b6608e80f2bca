#include "model/hyper_connections.hpp"

#include <algorithm>

#include "model/attention_residuals.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// Coefficients per token: of what is read, of what is written, and of streams to streams.
std::int64_t coefficients(const ModelSpec& m) {
  const std::int64_t n = m.mhc_num_residual_streams;
  return n * n + 2 * n;
}

// Kernels of one Sinkhorn-Knopp iteration that normalises rows and columns one operation after
// another: sum, clamp and quotient each; backward the same again, and of each quotient two
// products, a square, a negation and a sum, of each clamp a mask and a product, of each sum an
// expansion (Megatron-Core transformer/hyper_connection.py, SinkhornKnopp).
constexpr double kSinkhornForward = 6, kSinkhornBackward = 6 + 16;

}  // namespace

// [F-MHC-1] A projection of the n h streams to n^2 + 2 n coefficients, a bias for each and three
// scales (Megatron-Core transformer/hyper_connection.py, HyperConnectionModule); before the output
// layer n h n, a bias each and a scale (DeepSeek-V4's hc_head, Primus HyperHead).
std::int64_t connection_parameters(const ModelSpec& m) {
  if (!has_streams(m)) return 0;
  const std::int64_t width = m.mhc_num_residual_streams * m.hidden_size;
  return width * coefficients(m) + coefficients(m) + 3;
}

std::int64_t contraction_parameters(const ModelSpec& m) {
  if (!has_streams(m)) return 0;
  const std::int64_t n = m.mhc_num_residual_streams;
  return n * m.hidden_size * n + n + 1;
}

namespace {

bool in_fp32(const BlockContext& x) {
  return x.strategy.runtime.fp32_mhc && !x.strategy.runtime.fused_mhc;
}

}  // namespace

bool repeats_streams(const BlockContext& x) {
  return has_streams(x.model) && repeats(x, RecomputeModule::kMhc, false);
}

// [F-MHC-2] Around one part, with n h elements of streams a token: the projection and the streams'
// norm, the mixture that is read (n h + h), and streams mixed and written with the part's output
// (2 n h + h). Backward the last reads two gradients' worth and writes two (3 n h + 2 h), the
// mixture 2 n h + h, the norm 3 n h. Fused, each is one kernel and the norm is the projection's
// (Megatron-Bridge use_fused_mhc; Primus hyper_connection.py). Else the norm reads the streams by
// itself, streams are mixed, the output expanded and both added one after another (5 n h + h more),
// and the coefficients are normalised in 2 x iterations steps of several small kernels. In fp32 the
// streams are cast first, and their gradient back (4 / e more each). [F-MHC-4] The mixture and the
// streams' update are repeated.
void append_connection(const BlockContext& x, bool ends_layer, BlockOps& ops) {
  if (!has_streams(x.model)) return;
  const LocalShape& l = x.shape;
  const bool fused = x.strategy.runtime.fused_mhc;
  const double tokens = real(l.norm_tokens), e = l.bytes, h = tokens * real(l.hidden) * e;
  const double n = real(x.model.mhc_num_residual_streams), streams = n * h;
  Strategy wide = unquantised(x.strategy);
  LocalShape shape = l;
  if (in_fp32(x)) {
    wide.precision = Precision::kFp32, shape.bytes = 4;
    const double cast = streams * (e + 4) / e;
    append_elementwise(x, "stream cast", cast, 1, cast, 1, ops);
  }
  const BlockContext plain{x.model, x.cluster, wide, shape, x.groups};
  append_linear(plain, "stream coefficients", l.norm_tokens, coefficients(x.model),
                x.model.mhc_num_residual_streams * l.hidden, false, ops);
  append_elementwise(x, "stream norm", fused ? 0 : streams, fused ? 0 : 1, 3 * streams, 1, ops);
  const double table = 4 * tokens * n * n, each = 2 * table;
  const double iterations = real(x.model.mhc_sinkhorn_iterations);
  const double forward = fused ? 1 : kSinkhornForward * iterations;
  const double backward = fused ? 1 : kSinkhornBackward * iterations;
  append_elementwise(x, "stream normalisation", forward * each, forward, backward * each, backward,
                     ops);
  const bool again = repeats_streams(x);
  append_elementwise(x, "stream mixture", streams + h, 1, 2 * streams + h, 1, ops, again);
  const double apart = fused ? 0 : 4 * streams;
  const std::size_t update = ops.kernels.size();
  append_elementwise(x, "stream update", 2 * streams + h + apart, fused ? 1 : 3,
                     3 * streams + 2 * h + apart, fused ? 1 : 4, ops, again);
  if (!again) return;
  ops.checkpoints += 2;
  // The last of the layers that come back at once has handed its streams on.
  const std::int64_t layers = x.strategy.runtime.mhc_recompute_layers;
  if (ends_layer && layers > 0) ops.kernels[update].selective = 1 - 1 / real(layers);
}

void append_expansion(const BlockContext& x, BlockOps& ops) {
  if (!has_streams(x.model)) return;
  const double h = real(x.shape.norm_tokens) * real(x.shape.hidden) * x.shape.bytes;
  const double bytes = (real(x.model.mhc_num_residual_streams) + 1) * h;
  append_elementwise(x, "stream expansion", bytes, 1, is_frozen(x.strategy) ? 0 : bytes,
                     is_frozen(x.strategy) ? 0 : 1, ops);
}

void append_contraction(const BlockContext& x, BlockOps& ops) {
  if (!has_streams(x.model)) return;
  const LocalShape& l = x.shape;
  const std::int64_t n = x.model.mhc_num_residual_streams;
  const Strategy wide = unquantised(x.strategy);
  const BlockContext plain{x.model, x.cluster, wide, x.shape, x.groups};
  append_linear(plain, "stream coefficients", l.norm_tokens, n, n * l.hidden, false, ops);
  const double h = real(l.norm_tokens) * real(l.hidden) * l.bytes;
  append_elementwise(x, "stream mixture", (real(n) + 1) * h, 1, (2 * real(n) + 1) * h, 2, ops);
}

double residual_bytes(const BlockContext& x) {
  const double each = hidden_bytes_each(x) * real(x.shape.norm_tokens);
  if (!has_attention_residuals(x.model)) return each * real(x.shape.residual);
  // Of attention residuals the sum, and a block's states once for all of its layers.
  const double blocks = mixed_states(x.model) - 1;
  return each * real(x.shape.hidden) * (1 + blocks / real(x.model.attn_res_block_size));
}

// [F-MHC-3] Streams that are read (n h e), the part's output (h e), the coefficients in fp32
// twice, and of dropout the mask of all that is written, where a part alone has one of its
// output ((n - 1) h more; Megatron-Core hyper_connection.py, _fused_h_res_h_post_bda_native). In
// fp32 the projection keeps the streams' copy, 4 n h.
double connection_saved_bytes(const BlockContext& x) {
  if (!has_streams(x.model)) return 0;
  const double elements = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const double n = real(x.model.mhc_num_residual_streams);
  const double masks = x.model.dropout > 0 ? elements * (n - 1) : 0;
  return residual_bytes(x) + x.shape.bytes * elements +
         8 * real(x.shape.norm_tokens) * real(coefficients(x.model)) + masks +
         (in_fp32(x) ? 4 * n * elements : 0);
}

// [F-MHC-4] Of k layers that come back at once all but the first part's streams are dropped, the
// mixtures that norms read, and all masks but the last part's. What they are mixed by is kept, an
// fp32 copy too, and each part's output. The first gradient that reaches these layers brings all
// of it back (Megatron-Core tensor_parallel/random.py, CheckpointWithoutOutputManager;
// hyper_connection.py, build_mhc_recompute_layer_plan).
RepeatedStreams repeated_streams(const BlockContext& x, int parts) {
  if (!repeats_streams(x)) return {};
  const Strategy& s = x.strategy;
  const std::int64_t stage =
      std::max<std::int64_t>(1, x.model.num_layers / std::max<std::int64_t>(1, s.pp * s.vp));
  const std::int64_t stated = s.runtime.mhc_recompute_layers;
  const double layers = real(stated > 0 ? std::min(stated, stage) : stage);
  const double elements = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const double masks = x.model.dropout > 0 ? elements * real(x.model.mhc_num_residual_streams) : 0;
  const double dropped =
      parts * norm_bytes(x, elements) + (parts - 1 / layers) * (residual_bytes(x) + masks);
  return {dropped, layers * dropped};
}

}  // namespace meshplan
