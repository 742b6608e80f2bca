// Linear attention whose state a gated delta rule updates (Yang et al. 2412.06464), and Kimi Delta
// Attention (2510.26692), which decays every channel of a key by itself.
#include <algorithm>
#include <array>

#include "model/state_mixer.hpp"

namespace meshplan {
namespace {

constexpr double kChunk = 64;  // tokens of a chunk (flash-linear-attention ops/gated_delta_rule)

// One tensor rank's share, per token.
struct DeltaShape {
  double key_heads = 0, heads = 0;    // of queries and keys; of values
  double key_dim = 0, value_dim = 0;  // of a head
  double keys = 0, values = 0;        // of all key heads; of all value heads
  double repeated_keys = 0;           // keys of as many heads as values have
  double decays = 0;                  // one per head, or one per channel of its keys
};

DeltaShape shape_of(const GatedDeltaNetSpec& kind, const Strategy& s) {
  DeltaShape a;
  a.key_heads = real(ceil_div(kind.num_key_heads, s.tp));
  a.heads = real(ceil_div(kind.num_value_heads, s.tp));
  a.key_dim = real(kind.key_head_dim);
  a.value_dim = real(kind.value_head_dim);
  a.keys = a.key_heads * a.key_dim;
  a.values = a.heads * a.value_dim;
  a.repeated_keys = a.heads * a.key_dim;
  a.decays = kind.gate_rank > 0 ? a.repeated_keys : a.heads;
  return a;
}

double convolved(const DeltaShape& a) { return 2 * a.keys + a.values; }
// Elements of the states of all chunks, per token.
double states(const DeltaShape& a) { return a.heads * a.key_dim * a.value_dim / kChunk; }

// What the projection from the hidden size makes: queries, keys, values, gate, and one step size
// and decay per head. With gates of low rank the gate and the decay have projections of their own.
double input_features(const GatedDeltaNetSpec& kind, const DeltaShape& a) {
  const double direct = convolved(a) + a.heads;
  if (kind.gate_rank == 0) return direct + a.values + a.heads;
  return kind.full_rank_gate ? direct + a.values : direct;
}

// What projections of low rank make.
double gate_features(const GatedDeltaNetSpec& kind, const DeltaShape& a) {
  if (kind.gate_rank == 0) return 0;
  return kind.full_rank_gate ? a.decays : a.decays + a.values;
}

// Their inputs: of the decay, and of the output gate.
std::int64_t gate_ranks(const GatedDeltaNetSpec& kind) {
  return kind.full_rank_gate ? kind.gate_rank : 2 * kind.gate_rank;
}

// Thread blocks of the scan over the sequence: one per sequence, head and 32 values, the least that
// it is tuned over.
double scan_programs(const DeltaShape& a, const BlockContext& x) {
  constexpr double kValues = 32;
  return real(x.strategy.micro_batch) * a.heads / real(x.strategy.cp) *
         std::max(1.0, a.value_dim / kValues);
}

// [F-GDN-2] Kernels of the chunked rule, per token, for C = 64 tokens of a chunk, K keys and V
// values of all value heads, S = heads d_k d_v (flash-linear-attention
// ops/gated_delta_rule/chunk.py). Forward: products of keys 2 C K, their triangular inverse 2/3 C^2
// per head, keys and values through it 2 C (K + V), the scan over chunks 4 S, outputs 2 S + 2 C (K
// + V). Backward: keys and values and the scan again, values' gradients inside of the chunks 2 C (K
// + V), the scan back 6 S, gradients of queries, keys and decays 6 S + 4 C (K + V), and of the
// inverse 4 C (K + V). With a decay per channel (ops/kda) products inside of the chunks are made in
// blocks of 16 rows, with exponentials of their own: what these take follows the bandwidth, and is
// stated as bytes per decay (kDecayForward, kDecayBackward), measured with [F-SCAN-1]'s.
constexpr std::size_t kForwardKernels = 4, kBackwardKernels = 5;
constexpr double kDecayForward = 45, kDecayBackward = 245;

struct Rule {
  std::array<FusedWork, kForwardKernels> forward;
  std::array<FusedWork, kBackwardKernels> backward;
  FusedWork forward_scan, backward_scan;
};

Rule rule_of(const DeltaShape& a, double e) {
  const double both = a.repeated_keys + a.values, state = a.heads * a.key_dim * a.value_dim;
  const double square = kChunk * a.heads;  // elements of the chunks' squares
  const double scanned = e * (2 * a.repeated_keys + 2 * a.values + states(a));
  Rule r;
  // Products of keys (with the decays' sums), their inverse, keys and values through it, outputs.
  r.forward = {{{2 * kChunk * a.repeated_keys, e * a.repeated_keys + 4 * square + 8 * a.decays, 2},
                {2.0 / 3 * kChunk * square, (4 + e) * square, 1},
                {2 * kChunk * both, e * (square + 2 * both) + 4 * a.decays, 1},
                {2 * state + 2 * kChunk * both, scanned, 1}}};
  r.forward_scan = {4 * state, scanned, 1};
  // Keys and values through the inverse again, values' gradients in the chunks, gradients of
  // queries, keys and decays, of the inverse, and the decays' sums.
  r.backward = {
      {{2 * kChunk * both, e * (square + 2 * both) + 4 * a.decays, 1},
       {2 * kChunk * both, e * (a.repeated_keys + 3 * a.values), 1},
       {6 * state + 4 * kChunk * both, e * (6 * a.repeated_keys + 3 * a.values + 2 * states(a)), 1},
       {4 * kChunk * both, e * (4 * both + 2 * square), 1},
       {0, 8 * a.decays, 1}}};
  r.backward_scan = {10 * state, 2 * scanned + e * a.values, 2};
  if (a.decays > a.heads) {
    r.forward[0].bytes += kDecayForward * a.decays;
    r.backward[3].bytes += kDecayBackward * a.decays;
  }
  return r;
}

// [F-GDN-4] With deterministic algorithms the rule of scalar decays is PyTorch's operators in fp32,
// row by row of every chunk's square, then chunk by chunk (Megatron-Core
// ssm/gated_delta_net/gdn.py, torch_chunk_gated_delta_rule). Its C - 1 rows keep what they read of
// the square, i^2 + i elements of each; besides seven tensors of keys, three of values, six squares
// and the states are kept.
bool goes_by_operators(const BlockContext& x, const DeltaShape& a) {
  return x.strategy.runtime.deterministic_mode && a.decays == a.heads;
}

double operator_elements(const DeltaShape& a) {  // per token
  const double rows = (kChunk * kChunk - 1) / 3;
  return 7 * a.repeated_keys + 3 * a.values + a.heads * (6 * kChunk + rows) + states(a);
}

// Each element is read twice and written once; backward the same of two gradients. A row takes six
// operators, a chunk of the scan eighteen, what is before and behind forty, and their gradients
// about twice as many.
void append_operators(const BlockContext& x, const DeltaShape& a, BlockOps& ops) {
  constexpr double kRow = 6, kScanned = 18, kBeside = 40;
  const double chunks = real(x.shape.sequence) / kChunk;
  const double kernels = kRow * (kChunk - 1) + kScanned * chunks + kBeside;
  const double bytes = 3 * 4 * real(x.shape.tokens) * operator_elements(a);
  append_elementwise(x, "delta rule", bytes, kernels, 2 * bytes, 2 * kernels, ops);
  for (auto op = ops.kernels.end() - 2; op != ops.kernels.end(); ++op) {
    op->launches *= plain_operator(x);
  }
}

void append_rule(const BlockContext& x, const DeltaShape& a, BlockOps& ops) {
  if (goes_by_operators(x, a)) return append_operators(x, a, ops);
  const double tokens = real(x.shape.tokens);
  Rule r = rule_of(a, x.shape.bytes);
  r.forward_scan.programs = r.backward_scan.programs = scan_programs(a, x);
  append_fused(x, "delta rule", Pass::kForward, r.forward, tokens, ops);
  append_fused(x, "delta rule scan", Pass::kForward, {&r.forward_scan, 1}, tokens, ops);
  append_fused(x, "delta rule", Pass::kBackwardInput, r.backward, tokens, ops);
  append_fused(x, "delta rule scan", Pass::kBackwardInput, {&r.backward_scan, 1}, tokens, ops);
}

// Norms of queries and keys, their copies for the heads of values, step sizes and decays in fp32.
void append_preparation(const BlockContext& x, const DeltaShape& a, BlockOps& ops) {
  const double tokens = real(x.shape.tokens), e = x.shape.bytes;
  append_elementwise(x, "delta norm", 4 * e * tokens * a.keys, 2, 6 * e * tokens * a.keys, 2, ops);
  if (a.heads > a.key_heads) {
    const double copied = 2 * e * tokens * (a.keys + a.repeated_keys);
    append_elementwise(x, "delta copies", copied, 2, copied, 2, ops);
  }
  const double gates = tokens * ((e + 4) * a.decays + 2 * e * a.heads);
  append_elementwise(x, "delta gates", gates, 3, 2 * gates, 4, ops);
}

}  // namespace

// [F-GDN-1] Projections h (2 K + 2 V + 2 a_v), convolution of 2 K + V channels without biases,
// decay and step bias of a_v each, the norm of one head, out projection V h (Qwen3-Next;
// Megatron-Core ssm/gated_delta_net). With gates of rank r: h (2 K + V + a_v), decay and gate 2 h r
// + r (K + V), a bias per channel of the keys, one decay per head (Kimi Linear, fla/layers/kda.py);
// with an output gate of full rank h V and the decay's h r + r K (Kimi K3, Megatron-Bridge
// models/kimi/kimi_k3_layers.py).
void add_parameters(const GatedDeltaNetSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t h = m.hidden_size, heads = kind.num_value_heads;
  const std::int64_t keys = kind.num_key_heads * kind.key_head_dim;
  const std::int64_t values = heads * kind.value_head_dim;
  p.attention_linear +=
      h * (2 * keys + values + heads) + (2 * keys + values) * kind.conv_kernel + values * h;
  p.attention_other += kind.value_head_dim;
  if (kind.gate_rank == 0) {
    p.attention_linear += h * (values + heads) + 2 * heads;
    return;
  }
  p.attention_linear += kind.gate_rank * keys + keys + heads;
  p.attention_linear += (kind.full_rank_gate ? h : kind.gate_rank) * values;
  p.attention_other += h * gate_ranks(kind);
}

std::int64_t copied_parameters(const GatedDeltaNetSpec&, const ModelSpec&, std::int64_t) {
  return 0;
}

// Four products with the state (Megatron-LM training.py, gdn_layer_flops).
double token_flops(const GatedDeltaNetSpec& kind, std::int64_t) {
  return 8 * real(kind.num_value_heads) * real(kind.key_head_dim) * real(kind.value_head_dim);
}

void append_operations(const GatedDeltaNetSpec& kind, const BlockContext& x, BlockOps& ops) {
  const DeltaShape a = shape_of(kind, x.strategy);
  const LocalShape& l = x.shape;
  const double e = l.bytes, tokens = real(l.tokens);
  append_residual_norm(x, "input norm", ops);
  const auto features = static_cast<std::int64_t>(input_features(kind, a));
  const auto values = static_cast<std::int64_t>(a.values);
  const LinearTimes column =
      append_linear(x, "delta in", l.tokens, features, l.hidden, false, ops, 1, &kStateInput);
  if (kind.gate_rank > 0) {
    append_linear(x, "delta gates down", l.norm_tokens, gate_ranks(kind), l.hidden, false, ops);
    const auto up = static_cast<std::int64_t>(gate_features(kind, a));
    append_linear(x, "delta gates up", l.tokens, up, kind.gate_rank, false, ops);
  }
  append_head_exchange(x, input_features(kind, a) + gate_features(kind, a), a.values, ops);
  append_convolution(x, convolved(a), ops);
  append_preparation(x, a, ops);
  append_rule(x, a, ops);
  const double gated = e * tokens * a.values;
  append_elementwise(x, "gated norm", 3 * gated, 2, 5 * gated, 3, ops);
  append_mixer_output(x, "delta out", values, column, ops);
}

// [F-GDN-3] The projection's output (input of convolution and gate), the convolution's, queries and
// keys for all heads and the values, fp32 decays, step sizes, the inverse of every chunk, and the
// rule's output (flash-linear-attention ops/gated_delta_rule/chunk.py, ctx.save_for_backward).
KeptBytes saved_bytes(const GatedDeltaNetSpec& kind, const BlockContext& x) {
  const DeltaShape a = shape_of(kind, x.strategy);
  const double e = x.shape.bytes;
  const double features = input_features(kind, a) + gate_features(kind, a) + convolved(a) +
                          2 * a.repeated_keys + 2 * a.values + a.heads + kChunk * a.heads;
  const double ranks = real(gate_ranks(kind));
  // In place of the kernels' inverse.
  const double operators =
      goes_by_operators(x, a) ? 4 * operator_elements(a) - e * kChunk * a.heads : 0;
  const double inside = real(x.shape.tokens) * (e * features + 4 * a.decays + operators) +
                        kept(x) * real(x.shape.norm_tokens) * ranks;
  return state_mixer_bytes(x, inside, static_cast<std::int64_t>(a.values));
}

// Keys and values through the inverse, states and their gradients, and gradients of the rule's
// inputs.
double temporary_bytes(const GatedDeltaNetSpec& kind, const BlockContext& x) {
  const DeltaShape a = shape_of(kind, x.strategy);
  const double features =
      2 * (a.repeated_keys + a.values) + 2 * states(a) + 4 * a.repeated_keys + 2 * a.values;
  return x.shape.bytes * real(x.shape.tokens) * features;
}

}  // namespace meshplan
