#include "validate/operations.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"

namespace meshplan {
namespace {

// Distance of neighbouring members, 0 where they are not evenly spaced.
std::int64_t even_stride(const std::vector<std::int64_t>& ranks) {
  const std::int64_t stride = ranks[1] - ranks[0];
  for (std::size_t i = 2; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != stride) return 0;
  }
  return stride;
}

PlannedOperation planned_collective(const ClusterSpec& c, const PlanCost& plan,
                                    const CommEntry& e) {
  const Strategy& s = plan.strategy;
  PlannedOperation p;
  p.part = std::string(name_of(e.dimension));
  p.name = std::string(name_of(e.operation));
  p.count_per_step = e.count_per_step;
  p.exposed = e.exposed;
  p.group = group_shape(s, c, e.group);
  p.predicted = collective_time(c, e.operation, e.bytes, *p.group).total;
  p.collective = exact_key(e.operation, e.bytes, *p.group);
  p.ranks = group_members(s, e.group, 0);
  p.groups_at_once =
      num_gpus(s) / std::max<std::int64_t>(1, static_cast<std::int64_t>(p.ranks.size()));
  const std::int64_t stride = even_stride(p.ranks);
  CollectiveOperation op{e.operation, e.bytes, e.dtype, {e.group_size, stride, 0, true}, false};
  // A ring's sends all run at once: between neighbours they pair up, both ways.
  if (e.operation == Collective::kSendRecv && e.group != Group::kPpNeighbour) {
    op.group.size = 2;
    op.bidirectional = true;
    if (p.group->size > 2 && p.group->level > 0) {
      p.why_not = "sends of a ring across several blocks of devices are not those of pairs";
    }
  }
  if (stride == 0) p.why_not = "the group's ranks are not evenly spaced";
  if (p.why_not.empty()) p.operation = op;
  return p;
}

GemmLayout layout_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return GemmLayout::kForward;
    case Pass::kBackwardInput:
      return GemmLayout::kInputGradient;
    case Pass::kBackwardWeight:
      return GemmLayout::kWeightGradient;
  }
  return GemmLayout::kForward;
}

void plan_attention(const AttentionShape& a, bool backward, Dtype dtype, PlannedOperation& p) {
  // Benchmarks mask nothing or everything above the diagonal of a square.
  constexpr double kNear = 0.02;
  const double causal = causal_fraction(a.queries, a.keys, 0);
  const bool square = a.queries == a.keys;
  const bool is_causal = square && std::abs(a.pair_fraction - causal) < kNear;
  if (!is_causal && std::abs(a.pair_fraction - 1) >= kNear) {
    p.why_not = square ? "attention with a sliding window is not benchmarked"
                       : "attention over a part of the causal mask is not benchmarked";
    return;
  }
  p.operation = AttentionOperation{a.batch,   a.heads,   a.kv_heads > 0 ? a.kv_heads : a.heads,
                                   a.queries, a.keys,    a.qk_dim,
                                   a.v_dim,   is_causal, backward,
                                   dtype};
}

std::optional<MemoryKernel> memory_kernel(KernelKind kind, bool backward) {
  switch (kind) {
    case KernelKind::kNorm:
      return backward ? MemoryKernel::kRmsNormBackward : MemoryKernel::kRmsNorm;
    case KernelKind::kGatedActivation:
      return backward ? MemoryKernel::kGatedActivationBackward : MemoryKernel::kGatedActivation;
    case KernelKind::kRotary:
      return MemoryKernel::kRotary;
    case KernelKind::kResidual:
      return MemoryKernel::kResidual;
    case KernelKind::kOptimizer:
      return MemoryKernel::kAdam;
    case KernelKind::kGemm:
    case KernelKind::kAttention:
    case KernelKind::kOther:
      return std::nullopt;
  }
  return std::nullopt;
}

// The kernel of that kind which moves as many bytes: a memory-bound kernel's time is its traffic.
MemoryOperation of_traffic(MemoryKernel kernel, std::int64_t columns, Dtype dtype, double bytes) {
  MemoryOperation op{kernel, 1, columns, dtype};
  const double one = traffic(op).si();
  op.rows = 2;
  const double row = traffic(op).si() - one;
  op.rows = std::max<std::int64_t>(1, 1 + std::llround((bytes - one) / row));
  return op;
}

PlannedOperation planned_kernel(const ModelSpec& m, const Strategy& s, const KernelCall& call) {
  const KernelOp& op = call.op;
  const bool backward = op.pass != Pass::kForward;
  const Dtype dtype = activation_dtype(s.precision);
  PlannedOperation p;
  const bool is_step = op.name == "optimizer step";
  p.part = is_step ? "optimizer" : "compute";
  p.name = std::string(op.name);
  if (!is_step) {
    p.name += op.pass == Pass::kForward          ? " forward"
              : op.pass == Pass::kBackwardWeight ? " weight gradient"
                                                 : " backward";
  }
  p.count_per_step = call.count_per_step * op.calls;
  p.predicted = op.time / op.calls;
  p.exposed = call.per_step;
  p.kernel = exact_key(op);
  if (op.gemm) {
    const GemmShape& g = *op.gemm;
    p.operation = GemmOperation{
        g.m, g.n, g.k, g.count, layout_of(op.pass), op.precision, g.accumulate_bytes > 0};
  } else if (op.attention) {
    plan_attention(*op.attention, backward, dtype, p);
  } else if (const auto kernel = memory_kernel(op.kind, backward)) {
    p.operation = of_traffic(*kernel, m.hidden_size, dtype, op.bytes);
  } else {
    p.why_not = "no micro-benchmark is like it";
  }
  return p;
}

}  // namespace

std::vector<PlannedOperation> planned_operations(const ModelSpec& m, const ClusterSpec& c,
                                                 const PlanCost& plan) {
  std::vector<PlannedOperation> all;
  for (const CommEntry& e : plan.communication) {
    if (e.group_size > 1 && e.bytes > Bytes{}) all.push_back(planned_collective(c, plan, e));
  }
  const auto stage = static_cast<std::int64_t>(plan.last_stage);
  for (const KernelCall& call : step_kernels(m, c, plan.strategy, stage)) {
    all.push_back(planned_kernel(m, plan.strategy, call));
  }
  return all;
}

}  // namespace meshplan
