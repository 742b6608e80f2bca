#if __has_include(<cudnn.h>)
#include "attention_graph.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "spec/kinds.hpp"

namespace meshplan::device::cudnn {
namespace {

cudnnDataType_t type_of(const meshplan_probe_attention& a) {
  switch (static_cast<Dtype>(a.dtype)) {
    case Dtype::kBf16:
      return CUDNN_DATA_BFLOAT16;
    case Dtype::kFp16:
      return CUDNN_DATA_HALF;
    case Dtype::kFp32:
    case Dtype::kFp8:
      break;
  }
  throw ImpossibleError("fused attention takes bf16 and fp16");
}

// Versions of cuDNN with known faults (the checks of cudnn-frontend 1.x,
// node/scaled_dot_product_flash_attention.h and node/sdpa_support_surface.h).
void refuse_known_faults(const meshplan_probe_attention& a) {
  constexpr std::size_t kZeroedSum = 90600, kFaulty = 91000, kRepaired = 91002, kWholeTiles = 91500;
  constexpr std::int64_t kTile = 128;
  const std::size_t version = api().version();
  const std::string ours = "; this is version " + std::to_string(version);
  if (version >= kFaulty && version < kRepaired) {
    throw ImpossibleError("attention has known faults in cuDNN 9.10.0 and 9.10.1" + ours);
  }
  if (a.backward == 0) return;
  if (version < kZeroedSum) {
    throw ImpossibleError("attention's backward pass needs cuDNN 9.6 or later" + ours);
  }
  if (version <= kWholeTiles && a.keys % kTile != 0) {
    throw ImpossibleError("up to 9.15.0, cuDNN's backward pass needs keys in multiples of 128" +
                          ours);
  }
}

// The dimensions that its tensors are made of, and the steps that both directions share.
struct Shapes {
  explicit Shapes(const meshplan_probe_attention& a)
      : a(a),
        type(type_of(a)),
        scores{a.batch, a.heads, a.queries, a.keys},
        rows{a.batch, a.heads, a.queries, 1} {}

  const meshplan_probe_attention& a;
  cudnnDataType_t type;
  Dims scores, rows;

  // [batch, heads, tokens, size] of memory that lies as [batch, tokens, heads, size].
  Tensor given(Graph& g, std::int64_t heads, std::int64_t tokens, std::int64_t size) const {
    return g.tensor({a.batch, heads, tokens, size}, {tokens * heads * size, size, heads * size, 1},
                    type);
  }
  // The same memory with tokens and sizes exchanged.
  Tensor transposed(Graph& g, std::int64_t heads, std::int64_t tokens, std::int64_t size) const {
    return g.tensor({a.batch, heads, size, tokens}, {tokens * heads * size, size, 1, heads * size},
                    type);
  }
  Tensor queries(Graph& g) const { return given(g, a.heads, a.queries, a.qk_dim); }
  Tensor outputs(Graph& g) const { return given(g, a.heads, a.queries, a.v_dim); }

  Tensor scaled(Graph& g, Tensor x, Tensor scale) const {
    const Tensor y = g.hidden(scores);
    g.pointwise(CUDNN_POINTWISE_MUL, {x, scale}, y);
    return y;
  }

  // Row of the causal mask that each query has: its own number, moved down where there are more
  // keys than queries (the steps that cuDNN knows a mask aligned at the bottom right by).
  Tensor mask_row(Graph& g, Tensor x) const {
    const auto whole = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const Tensor row = g.hidden(scores, CUDNN_DATA_INT32);
    g.index(x, 2, row);
    if (a.queries == a.keys) return row;
    const Tensor beyond = g.hidden(scores, CUDNN_DATA_INT32);
    const Tensor moved = g.hidden(scores, CUDNN_DATA_INT32);
    g.pointwise(CUDNN_POINTWISE_ADD, {row, g.constant(whole(a.keys))}, beyond, CUDNN_DATA_INT32);
    g.pointwise(CUDNN_POINTWISE_SUB, {beyond, g.constant(whole(a.queries))}, moved,
                CUDNN_DATA_INT32);
    return moved;
  }

  // Scores of keys behind their query become minus infinity.
  Tensor masked(Graph& g, Tensor x) const {
    if (a.causal == 0) return x;
    const Tensor column = g.hidden(scores, CUDNN_DATA_INT32);
    const Tensor seen = g.hidden(scores, CUDNN_DATA_BOOLEAN), y = g.hidden(scores);
    // Before 9.10 an infinity came out as no number.
    const bool infinity = api().version() >= 91000;
    const Tensor none = g.constant(infinity ? -std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::lowest());
    const Tensor row = mask_row(g, x);
    g.index(x, 3, column);
    g.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, seen, CUDNN_DATA_BOOLEAN);
    g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {x, none, seen}, y);
    return y;
  }

  // x^T dy for an operand of one of the products: [.., keys, queries] of [.., queries, keys].
  Tensor turned(Graph& g, Tensor x) const {
    const Tensor y = g.hidden({a.batch, a.heads, a.keys, a.queries},
                              {a.heads * a.queries * a.keys, a.queries * a.keys, 1, a.keys}, type);
    g.reshape(x, y);
    return y;
  }

  // Gradient of keys or values from turned probabilities: heads that share them are added up.
  void gradient(Graph& g, Tensor probabilities, Tensor other, std::int64_t size,
                Tensor result) const {
    if (a.kv_heads == a.heads) return g.multiply(probabilities, other, result);
    const Tensor of_heads = g.hidden({a.batch, a.heads, a.keys, size}, type);
    g.multiply(probabilities, other, of_heads);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, result);
  }
};

}  // namespace

float scale_of(const meshplan_probe_attention& a) {
  return 1.0F / std::sqrt(static_cast<float>(a.qk_dim));
}

ForwardGraph forward_graph(const meshplan_probe_attention& a) {
  refuse_known_faults(a);
  ForwardGraph f;
  Graph& g = f.graph;
  const Shapes s(a);
  f.q = s.queries(g);
  f.k = s.transposed(g, a.kv_heads, a.keys, a.qk_dim);
  f.v = s.given(g, a.kv_heads, a.keys, a.v_dim);
  f.o = s.outputs(g);
  f.stats = g.tensor(s.rows, row_major(s.rows), CUDNN_DATA_FLOAT);

  const Tensor product = g.hidden(s.scores);
  g.multiply(f.q, f.k, product);
  const Tensor x = s.masked(g, s.scaled(g, product, g.constant(scale_of(a))));

  const Tensor most = g.hidden(s.rows), sum = g.hidden(s.rows), log = g.hidden(s.rows);
  const Tensor below = g.hidden(s.scores), exponentials = g.hidden(s.scores);
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, most);
  g.pointwise(CUDNN_POINTWISE_SUB, {x, most}, below);
  g.pointwise(CUDNN_POINTWISE_EXP, {below}, exponentials);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  g.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  g.pointwise(CUDNN_POINTWISE_ADD, {most, log}, f.stats);
  const Tensor probabilities = g.hidden(s.scores, s.type);
  g.pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum}, probabilities);
  g.multiply(probabilities, f.v, f.o);
  g.build();
  return f;
}

BackwardGraph backward_graph(const meshplan_probe_attention& a) {
  BackwardGraph b;
  Graph& g = b.graph;
  const Shapes s(a);
  b.q = s.queries(g);
  b.k = s.transposed(g, a.kv_heads, a.keys, a.qk_dim);
  b.v = s.transposed(g, a.kv_heads, a.keys, a.v_dim);
  b.o = s.outputs(g);
  b.d_o = s.outputs(g);
  b.stats = g.tensor(s.rows, row_major(s.rows), CUDNN_DATA_FLOAT);
  b.d_q = s.queries(g);
  b.d_k = s.given(g, a.kv_heads, a.keys, a.qk_dim);
  b.d_v = s.given(g, a.kv_heads, a.keys, a.v_dim);
  const Tensor scale = g.constant(scale_of(a));

  // Row sums of dO x O.
  const Dims out{a.batch, a.heads, a.queries, a.v_dim};
  const Tensor products = g.hidden(out), sums = g.hidden(s.rows);
  b.row_sums = g.tensor(s.rows, row_major(s.rows), CUDNN_DATA_FLOAT);
  g.pointwise(CUDNN_POINTWISE_MUL, {b.d_o, b.o}, products);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  // The kernel is known by this product, also where nothing is dropped out.
  g.pointwise(CUDNN_POINTWISE_MUL, {sums, g.constant(1)}, b.row_sums);

  // P = exp(scale q k^T - stats), masked; dV = P^T dO.
  const Tensor product = g.hidden(s.scores), below = g.hidden(s.scores);
  const Tensor probabilities = g.hidden(s.scores);
  g.multiply(b.q, b.k, product);
  g.pointwise(CUDNN_POINTWISE_SUB, {s.scaled(g, product, scale), b.stats}, below);
  g.pointwise(CUDNN_POINTWISE_EXP, {s.masked(g, below)}, probabilities);
  s.gradient(g, s.turned(g, probabilities), b.d_o, a.v_dim, b.d_v);

  // dS = scale P (dO v^T - row sums); dK = dS^T q; dQ = dS k.
  const Tensor d_p = g.hidden(s.scores), centred = g.hidden(s.scores), d_s = g.hidden(s.scores);
  g.multiply(b.d_o, b.v, d_p);
  g.pointwise(CUDNN_POINTWISE_SUB, {d_p, b.row_sums}, centred);
  g.pointwise(CUDNN_POINTWISE_MUL, {centred, probabilities}, d_s);
  const Tensor scaled = s.scaled(g, d_s, scale);
  s.gradient(g, s.turned(g, scaled), b.q, a.qk_dim, b.d_k);
  const Tensor keys = g.hidden({a.batch, a.kv_heads, a.keys, a.qk_dim},
                               {a.keys * a.kv_heads * a.qk_dim, a.qk_dim, a.kv_heads * a.qk_dim, 1},
                               CUDNN_DATA_FLOAT);
  g.reshape(b.k, keys);
  const Dims dq{a.batch, a.heads, a.queries, a.qk_dim};
  b.d_q_sum = g.tensor(dq, row_major(dq), CUDNN_DATA_FLOAT);
  g.multiply(scaled, keys, b.d_q_sum);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, {b.d_q_sum}, b.d_q);
  g.build();
  return b;
}

}  // namespace meshplan::device::cudnn
#endif
