#include <algorithm>

#include "comm/collectives.hpp"
#include "cost/block_ops.hpp"
#include "spec/expert_load.hpp"

namespace meshplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

// [F-ACT-1] Activation over n local features: plain reads and writes once (bias included when
// fused), gated reads both halves and writes one; backward reads what forward read and the output
// gradient and writes the input gradient. Unfused: a pass per operation.
void append_activation(const BlockContext& x, double features, BlockOps& ops) {
  const double e = x.shape.bytes;
  const bool fused = x.strategy.kernels.fused_activation;
  const bool selective = x.strategy.flash_attention;
  if (x.model.gated_mlp) {
    append_elementwise(x, "activation", (fused ? 3 : 5) * e * features, fused ? 1 : 2,
                       (fused ? 5 : 12) * e * features, fused ? 1 : 4, ops, selective,
                       fused ? KernelKind::kGatedActivation : KernelKind::kOther);
  } else {
    append_elementwise(x, "activation", (fused ? 2 : 4) * e * features, fused ? 1 : 2,
                       (fused ? 3 : 5) * e * features, fused ? 1 : 2, ops, selective);
  }
}

void append_dense_mlp(const BlockContext& x, std::int64_t ffn, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const ModelSpec& m = x.model;
  if (!(m.parallel_block && m.parallel_shared_norm)) {
    append_residual_norm(x, "mlp norm", ops);
  }
  const LinearTimes up = append_linear(x, "mlp up", l.tokens, ffn * (m.gated_mlp ? 2 : 1), l.hidden,
                                       m.linear_bias, ops);
  append_activation(x, real(l.tokens) * real(ffn), ops);
  const LinearTimes down =
      append_linear(x, "mlp down", l.tokens, l.hidden, ffn, m.linear_bias, ops);
  // A parallel block sums attention and MLP before one reduction, counted with attention.
  if (!m.parallel_block) append_tp_collectives(x, up, down, ops);
  append_residual(x, ops);
}

namespace {

void push_ep(const BlockContext& x, Pass pass, double bytes, BlockOps& ops) {
  const Strategy& s = x.strategy;
  CommOp comm;
  comm.dimension = CommDimension::kEp;
  comm.pass = pass;
  comm.operation = Collective::kAllToAll;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kEp);
  comm.kind = Group::kEp;
  comm.dtype = activation_dtype(s.precision);
  comm.time_each = collective_time(x.cluster, comm.operation, comm.bytes, comm.group).total;
  if (s.overlap.ep) comm.hidden = comm.time_each;  // as far as limit_hidden_dispatch() leaves it
  ops.comm.push_back(comm);
}

// [F-EP-2] Of a token's top_k copies, how many distinct parts of the expert-parallel group get one,
// experts drawn evenly: p (1 - C(E - E/p, k) / C(E, k)) of p equal parts of E experts. The parts
// are its ranks inside a node and its nodes where it spans several, whose members forward to each
// other over NVLink (DeepEP; DeepSeek-V3, 2412.19437 sec. 3.2.2).
double copies_sent(const BlockContext& x) {
  const MoeSpec& moe = *x.model.moe;
  const double k = real(moe.top_k), all = real(moe.num_experts);
  if (!x.strategy.kernels.flex_dispatcher) return k;
  const GroupShape& g = x.group(Group::kEp);
  const std::int64_t blocks = g.blocks[0] > 1 ? g.blocks[0] : g.size;
  const double parts = real(blocks), elsewhere = all - all / parts;
  double missed = 1;  // the chance that no copy goes to one given part
  for (double i = 0; i < k; ++i) missed *= std::max(0.0, elsewhere - i) / (all - i);
  return std::min(k, parts * (1 - missed));
}

void push_etp(const BlockContext& x, Pass pass, Collective op, double bytes, BlockOps& ops) {
  const Strategy& s = x.strategy;
  CommOp comm;
  comm.dimension = CommDimension::kEp;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kEtp);
  comm.kind = Group::kEtp;
  comm.dtype = activation_dtype(s.precision);
  comm.time_each = collective_time(x.cluster, op, comm.bytes, comm.group).total;
  ops.comm.push_back(comm);
}

}  // namespace

// [F-EP-1] Mixture of experts: each of T tokens of a rank goes to top_k experts. Dispatch and
// combine are all-to-alls of T top_k h elements (fewer with flex_dispatcher, [F-EP-2]) over the
// expert-parallel group, forward and again backward; expert tensor parallelism gathers and
// reduce-scatters the received tokens. All wait for the busiest rank, whose load is that of
// [F-MOE-2] or [F-MOE-3]: the median over placements. (Megatron-Core moe/token_dispatcher.py.)
void append_moe_mlp(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const ModelSpec& m = x.model;
  const MoeSpec& moe = *m.moe;
  const Strategy& s = x.strategy;
  const double e = l.bytes, h = real(l.hidden);
  append_residual_norm(x, "mlp norm", ops);
  append_gradient_sum(x, l.norm_tokens * l.hidden, ops);  // of router and experts

  const double tokens = real(l.norm_tokens);
  // Router: fp32 scores, softmax or sigmoid, top-k, auxiliary loss, and the maps for permutation.
  const GemmShape router{l.norm_tokens, moe.num_experts, l.hidden, 1, 4, 0};
  const bool has_bf16 = peak_rate(x.cluster.device, Precision::kBf16).si() > 0;
  const Precision router_precision = has_bf16 ? Precision::kBf16 : s.precision;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    KernelOp op;
    op.name = "router";
    op.pass = pass;
    op.time =
        gemm_time(x.cluster.device, router_precision, router) * (pass == Pass::kForward ? 1 : 2);
    op.flops = gemm_flops(router).si() * (pass == Pass::kForward ? 1 : 2);
    op.launches = pass == Pass::kForward ? 1 : 2;
    ops.kernels.push_back(op);
  }
  const double scores = tokens * real(moe.num_experts);
  append_elementwise(x, "routing", 40 * scores, 10, 40 * scores, 8, ops);

  const double routed = tokens * real(moe.top_k);  // token copies this rank sends
  const double busiest = rank_load(moe, s.ep).median;
  append_elementwise(x, "permute", 2 * e * routed * h, 2, 2 * e * routed * h, 2, ops);
  if (s.ep > 1) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      const double bytes = tokens * copies_sent(x) * h * e * busiest;
      push_ep(x, pass, bytes, ops);
      push_ep(x, pass, bytes, ops);
    }
  }
  const bool etp_gather = s.etp > 1 && s.sequence_parallel;
  const double received = routed * busiest * (etp_gather ? real(s.etp) : 1);
  if (etp_gather) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      push_etp(x, pass, Collective::kAllGather, received * h * e, ops);
      push_etp(x, pass, Collective::kReduceScatter, received * h * e, ops);
    }
  }
  const std::int64_t local_experts = std::max<std::int64_t>(moe.num_experts / s.ep, 1);
  const auto per_expert =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(received / real(local_experts)));
  const std::int64_t ffn = ceil_div(moe.expert_ffn_hidden_size, s.etp);
  const std::size_t first_expert = ops.kernels.size();
  append_linear(x, "experts up", per_expert, ffn * (m.gated_mlp ? 2 : 1), l.hidden, m.expert_bias,
                ops, local_experts);
  append_activation(x, received * real(ffn), ops);
  append_linear(x, "experts down", per_expert, l.hidden, ffn, m.expert_bias, ops, local_experts);
  for (std::size_t i = first_expert; i < ops.kernels.size(); ++i) {
    ops.kernels[i].awaited = ops.kernels[i].pass == Pass::kForward;
  }
  // Sorting by local expert and back, then the weighted sum over top_k copies.
  append_elementwise(x, "unpermute", (2 * e * received + 2 * e * routed) * h, 3,
                     (2 * e * received + 2 * e * routed) * h, 3, ops);
  if (moe.shared_expert_ffn_hidden_size > 0) {
    const std::int64_t shared = ceil_div(moe.shared_expert_ffn_hidden_size, s.tp);
    const LinearTimes up = append_linear(x, "shared expert up", l.tokens,
                                         shared * (m.gated_mlp ? 2 : 1), l.hidden, false, ops);
    append_activation(x, real(l.tokens) * real(shared), ops);
    const LinearTimes down =
        append_linear(x, "shared expert down", l.tokens, l.hidden, shared, false, ops);
    append_tp_collectives(x, up, down, ops);
    append_gradient_sum(x, l.norm_tokens * l.hidden, ops);
  } else if (s.tp > 1 && !s.sequence_parallel) {
    append_tp_collectives(x, {}, {}, ops);  // experts split by tp: one reduction each way
  }
  append_residual(x, ops);
}

}  // namespace meshplan
