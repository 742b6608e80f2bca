#include "cost/step.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "cost/remedies.hpp"
#include "cost/step_model.hpp"
#include "frameworks/target.hpp"

namespace meshplan {

Seconds total(const TimeTerms& t) {
  return t.compute + t.recompute + t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed +
         t.pp_comm_exposed + t.pp_bubble + t.dp_comm_exposed + t.optimizer + t.uneven + t.other;
}

std::string_view name_of(InfeasibleReason r) {
  constexpr std::array<std::string_view, 4> kNames{"illegal", "model_states", "activations",
                                                   "host_memory"};
  return kNames[static_cast<std::size_t>(r)];
}

Strategy complete(Strategy s, const ModelSpec& m, const ClusterSpec& c) {
  if (s.dp <= 0) s.dp = std::max<std::int64_t>(1, num_gpus(c) / (s.tp * s.pp * s.cp));
  if (s.stage_layers.empty()) s.stage_layers = stage_layers(s, m);
  if (s.recompute_layers.empty()) {
    s.recompute_layers.assign(static_cast<std::size_t>(s.pp), 0);
    if (s.recompute == Recompute::kFull) s.recompute_layers = s.stage_layers;
  }
  return s;
}

PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  return cost_of(m, c, s, block_costs(m, c, s));
}

PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const BlockCosts& blocks) {
  return OneStep(m, c, s, blocks).model().explain(s);
}

namespace {

Infeasible not_fitting(const PlanCost& plan, const ClusterSpec& c, const ModelSpec& m,
                       bool with_remedies) {
  const MemoryBreakdown& full = plan.memory();
  Infeasible result;
  const Bytes states = full.weights + full.gradients + full.optimizer + full.reserved;
  result.reason =
      states > full.capacity ? InfeasibleReason::kModelStates : InfeasibleReason::kActivations;
  result.shortfall = full.peak - full.capacity;
  result.messages.push_back("pipeline rank " + std::to_string(plan.fullest_stage) + " needs " +
                            human_bytes(full.peak) + " of " + human_bytes(full.capacity));
  if (with_remedies) result.remedies = memory_remedies(m, c, plan.strategy);
  return result;
}

// Host memory that offloading needs per node, against what a node has.
std::optional<Infeasible> host_overflow(Bytes node, const ClusterSpec& c, const Offload& offload) {
  if (c.host_memory == Bytes{} || node <= c.host_memory) return std::nullopt;
  Infeasible result;
  result.reason = InfeasibleReason::kHostMemory;
  result.shortfall = node - c.host_memory;
  result.messages.push_back("offloading needs " + human_bytes(node) +
                            " of host memory per node, it has " + human_bytes(c.host_memory));
  if (offload.activations) {
    result.remedies.push_back(
        "recompute activations instead (offload.activations=false,recompute=full)");
  }
  if (offload.optimizer) {
    result.remedies.push_back(
        "keep the optimizer on the device (offload.optimizer=false) or use more nodes");
  }
  return result;
}

}  // namespace

Verdict evaluate(const ModelSpec& m, const ClusterSpec& c, Strategy s,
                 const EvaluateOptions& options) {
  Verdict verdict;
  s = complete(std::move(s), m, c);
  Infeasible illegal;
  std::vector<std::string> warnings;
  for (const Diagnostic& d : validate(s, m, c)) {
    std::string text = d.message + (d.hint.empty() ? "" : "; " + d.hint);
    (d.severity == Severity::kError ? illegal.messages : warnings).push_back(std::move(text));
  }
  if (!illegal.messages.empty()) {
    verdict.state = std::move(illegal);
    return verdict;
  }
  const BlockCosts blocks = block_costs(m, c, s);
  OneStep step(m, c, s, blocks);
  PlanCost plan = step.model().explain(s);
  plan.warnings = std::move(warnings);
  if (std::string unknown = inexpressible(s, m, c); !unknown.empty()) {
    plan.warnings.push_back(std::move(unknown));
  }
  verdict.stages = plan.stages;
  if (!options.ignore_memory) {
    if (plan.memory().peak > plan.memory().capacity) {
      verdict.state = not_fitting(plan, c, m, options.with_remedies);
      return verdict;
    }
    if (auto overflow = host_overflow(step.model().evaluate(s).host, c, s.offload)) {
      verdict.state = std::move(*overflow);
      return verdict;
    }
  }
  verdict.state = std::move(plan);
  return verdict;
}

}  // namespace meshplan
