#pragma once
// Attention as graphs of cuDNN's operations: what its fused kernels are recognised by. Queries,
// keys, values and outputs lie as [batch, tokens, heads, head size] in memory.
#include "cudnn_graph.hpp"
#include "probe/plugin_abi.hpp"

namespace meshplan::device::cudnn {

struct ForwardGraph {
  Graph graph;
  Tensor q = 0, k = 0, v = 0, o = 0;
  Tensor stats = 0;  // [batch, heads, queries, 1] fp32: logarithm of each row's sum of exponentials
};

struct BackwardGraph {
  Graph graph;
  Tensor q = 0, k = 0, v = 0, o = 0, stats = 0, d_o = 0, d_q = 0, d_k = 0, d_v = 0;
  // Room of the kernel, fp32: row sums of dO x O, and dQ while it is added up.
  Tensor row_sums = 0, d_q_sum = 0;
};

// o = softmax(scale q k^T, masked) v. Throws ImpossibleError where cuDNN has no kernel for it.
[[nodiscard]] ForwardGraph forward_graph(const meshplan_probe_attention& a);
[[nodiscard]] BackwardGraph backward_graph(const meshplan_probe_attention& a);

[[nodiscard]] float scale_of(const meshplan_probe_attention& a);

}  // namespace meshplan::device::cudnn
