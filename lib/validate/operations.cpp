#include "validate/operations.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"

namespace meshplan {
namespace {

// The plan's groups of that kind, all at once.
RankGroup rank_group(const MemberPattern& p) {
  return {.size = p.size, .stride = p.stride, .run = p.run, .jump = p.jump, .period = p.period};
}

// Stages exchange messages in pairs; the other groups have the members that the layout gives them.
std::int64_t groups_at_once(const Strategy& s, Group kind, std::int64_t members) {
  const std::int64_t gpus = num_gpus(s);
  if (kind == Group::kEmbedding) return gpus / s.pp;
  if (kind == Group::kPpNeighbour) return gpus / s.pp * (s.pp / 2);
  return gpus / std::max<std::int64_t>(1, members);
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
  p.predicted = collective_time(c, e.operation, e.bytes, *p.group, e.bidirectional).total;
  p.collective = exact_key(e.operation, e.bytes, *p.group, e.bidirectional);
  p.ranks = group_members(s, e.group, 0);
  p.groups_at_once = groups_at_once(s, e.group, static_cast<std::int64_t>(p.ranks.size()));
  const std::optional<MemberPattern> pattern = member_pattern(s, e.group);
  p.approximate = !pattern;
  const RankGroup group = pattern
                              ? rank_group(*pattern)
                              : RankGroup{.size = e.group_size, .stride = p.ranks[1] - p.ranks[0]};
  p.operation = CollectiveOperation{e.operation, e.bytes, e.dtype, group, e.bidirectional};
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
  // Benchmarks mask nothing, or the last rows of a causal mask.
  constexpr double kNear = 0.02;
  const double from_causal =
      a.queries <= a.keys ? std::abs(a.pair_fraction - causal_fraction(a.queries, a.keys, 0)) : 1;
  const double from_full = std::abs(a.pair_fraction - 1);
  if (std::min(from_causal, from_full) >= kNear) {
    p.why_not = "attention with a sliding window is not benchmarked";
    return;
  }
  const bool is_causal = from_causal < from_full;
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
