// Mamba-2 (Dao and Gu, 2405.21060): a state-space model whose scan is products over chunks.
#include <array>

#include "model/state_mixer.hpp"

namespace meshplan {
namespace {

// One tensor rank's share, per token.
struct ScanShape {
  double heads = 0, groups = 0;
  double inner = 0;        // elements of all heads
  double state = 0;        // of one head's input and output projection
  double projections = 0;  // of all groups, input and output projection each
  double chunk = 0;
};

ScanShape shape_of(const Mamba2Spec& kind, const Strategy& s) {
  ScanShape a;
  a.heads = real(ceil_div(kind.num_heads, s.tp));
  a.groups = real(ceil_div(kind.num_groups, s.tp));
  a.inner = a.heads * real(kind.head_dim);
  a.state = real(kind.state_size);
  a.projections = a.groups * a.state;
  a.chunk = real(kind.chunk_size);
  return a;
}

// Gate, input, both projections and step sizes.
double input_features(const ScanShape& a) { return 2 * a.inner + 2 * a.projections + a.heads; }
double convolved(const ScanShape& a) { return a.inner + 2 * a.projections; }
// Elements of the states of all chunks, per token.
double states(const ScanShape& a) { return a.inner * a.state / a.chunk; }

// Of one product of states with inner features, and of one inside of the chunks, per token: blocks
// of 64 rows of the causal square are computed.
double state_product(const ScanShape& a) { return 2 * a.inner * a.state; }
double chunk_product(const ScanShape& a) {
  constexpr double kTile = 64;
  return a.inner * (a.chunk + kTile);
}

// [F-SSM-2] The scan's kernels one after the other, per token, for N = state_size, C = chunk_size,
// d = inner features, g N of each projection (mamba_ssm ops/triton/ssd_combined.py). Forward:
// states of the chunks 2 d N; passing them on (fp32 read, 16 bit written); products of both
// projections 2 C g N; output 2 d N and d (C + 64).
constexpr std::size_t kScanForward = 4, kScanBackward = 9;

std::array<FusedWork, kScanForward> forward_work(const ScanShape& a, double e) {
  const double products = 4 * a.chunk * a.groups;
  return {{{state_product(a), e * (a.inner + a.projections) + 4 * states(a) + 12 * a.heads, 2},
           {0, (4 + e) * states(a), 1},
           {2 * a.chunk * a.projections, 2 * e * a.projections + products, 1},
           {state_product(a) + chunk_product(a),
            4 * e * a.inner + e * (states(a) + a.projections) + products, 1}}};
}

// Backward: states, passing and products again; gradients of the gate, of states 2 d N and back
// through the chunks, of inputs 2 d N and d (C + 64), of both projections 2 d N each, of their
// products d (C + 64), of the decay d (C + 64), and 4 C g N for the products of projections.
// Products backward take 2.5 times what flash-linear-attention's take, as [F-SCAN-1] counts them:
// its simple gated attention does the same work forward in half of mamba_ssm's time (fla-org/
// flash-linear-attention pull request 50); runs of Nemotron-H and Nemotron 3 on six devices ask for
// more. No times of these kernels by themselves are public.
constexpr double kSlowerBackward = 2.5;

std::array<FusedWork, kScanBackward> backward_work(const ScanShape& a, double e) {
  const double products = 4 * a.chunk * a.groups;
  return {
      {{state_product(a), e * (a.inner + a.projections) + (8 + e) * states(a) + 12 * a.heads, 3},
       {2 * a.chunk * a.projections, 2 * e * a.projections + products, 1},
       {0, 5 * e * a.inner, 1},
       {state_product(a), e * (a.inner + a.projections) + 4 * states(a), 1},
       {0, (4 + 3 * e) * states(a), 1},
       {state_product(a) + chunk_product(a),
        3 * e * a.inner + e * (a.projections + states(a)) + products, 1},
       {2 * state_product(a), 2 * e * (a.inner + states(a)) + 2 * (4 + e) * a.projections, 2},
       {2 * chunk_product(a), 4 * e * a.inner + 3 * products, 2},
       {4 * a.chunk * a.projections, 2 * products + 4 * e * a.projections + 12 * a.heads, 2}}};
}

}  // namespace

// [F-SSM-1] In projection h (2 d + 2 g N + a), out projection d h, convolution of d + 2 g N
// channels with biases, decay, skip and step bias of a heads each, and the gated norm's d: d inner
// size, g groups, N state size, a heads. Dao and Gu 2405.21060 sec. 8; Megatron-Core
// ssm/mamba_mixer.py.
void add_parameters(const Mamba2Spec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t inner = kind.num_heads * kind.head_dim;
  const std::int64_t projections = 2 * kind.num_groups * kind.state_size;
  p.attention_linear +=
      m.hidden_size * (2 * inner + projections + kind.num_heads) + inner * m.hidden_size;
  p.attention_linear += (inner + projections) * (kind.conv_kernel + 1) + 3 * kind.num_heads + inner;
}

std::int64_t copied_parameters(const Mamba2Spec&, const ModelSpec&, std::int64_t) { return 0; }

// Seven operations per element of the state (Megatron-LM training.py, mamba_layer_flops).
double token_flops(const Mamba2Spec& kind, std::int64_t) {
  return 7 * real(kind.num_heads) * real(kind.head_dim) * real(kind.state_size);
}

void append_operations(const Mamba2Spec& kind, const BlockContext& x, BlockOps& ops) {
  const ScanShape a = shape_of(kind, x.strategy);
  const LocalShape& l = x.shape;
  const double e = l.bytes, tokens = real(l.tokens);
  append_residual_norm(x, "input norm", ops);
  const auto features = static_cast<std::int64_t>(input_features(a));
  const LinearTimes column =
      append_linear(x, "mamba in", l.tokens, features, l.hidden, false, ops, 1, &kStateInput);
  append_head_exchange(x, input_features(a), a.inner, ops);
  if (x.strategy.micro_batch > 1) {  // sequences become the outer dimension, and the inner again
    const double moved = 2 * e * tokens * (input_features(a) + a.inner);
    append_elementwise(x, "mamba layout", moved, 2, moved, 2, ops);
  }
  append_convolution(x, convolved(a), ops);
  append_fused(x, "mamba scan", Pass::kForward, forward_work(a, e), tokens, ops);
  std::array<FusedWork, kScanBackward> backward = backward_work(a, e);
  for (FusedWork& work : backward) work.flops *= kSlowerBackward;
  append_fused(x, "mamba scan", Pass::kBackwardInput, backward, tokens, ops);
  ops.kernels.back().flops /= kSlowerBackward;  // slower, not more
  const auto inner = static_cast<std::int64_t>(a.inner);
  append_norm(x, "mamba norm", l.tokens * inner, ops);
  append_mixer_output(x, "mamba out", inner, column, ops);
}

// [F-SSM-3] The fused scan keeps its whole input and its output before the gate, and recomputes the
// rest; the norm behind it keeps its own input (mamba_ssm ops/triton/ssd_combined.py,
// MambaSplitConv1dScanCombinedFn.forward, save_for_backward).
KeptBytes saved_bytes(const Mamba2Spec& kind, const BlockContext& x) {
  const ScanShape a = shape_of(kind, x.strategy);
  const double tokens = real(x.shape.tokens), e = x.shape.bytes;
  const double inside =
      tokens * e * (input_features(a) + a.inner) + norm_bytes(x, tokens * a.inner);
  return state_mixer_bytes(x, inside, static_cast<std::int64_t>(a.inner));
}

// The convolution's output again, gradients of the scan's input and output, states and their
// gradients, fp32 gradients of both projections, and products of projections with their gradients.
double temporary_bytes(const Mamba2Spec& kind, const BlockContext& x) {
  const ScanShape a = shape_of(kind, x.strategy);
  const double e = x.shape.bytes;
  return real(x.shape.tokens) *
         (e * (convolved(a) + input_features(a) + a.inner) + (4 + 2 * e) * states(a) +
          8 * a.projections + 8 * a.chunk * a.groups);
}

}  // namespace meshplan
