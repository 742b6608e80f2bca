#include "compare/losses.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"
#include "cost/step.hpp"

namespace meshplan {

OpTime LossContext::measured(OpClass op) const { return device().of(op); }

OpTime LossContext::predicted(OpClass op) const {
  for (const ComparedClass& row : t.classes) {
    if (row.cls == op) return row.predicted;
  }
  return {};
}

std::optional<Seconds> LossContext::step_with(const std::function<void(Strategy&)>& change) const {
  Strategy s = plan.strategy;
  change(s);
  const Verdict verdict = evaluate(m, c, s, {.ignore_memory = false, .with_remedies = false});
  if (!verdict.feasible()) return std::nullopt;
  return verdict.cost().step_time;
}

std::optional<Seconds> LossContext::gain_of(const std::function<void(Strategy&)>& change) const {
  const std::optional<Seconds> changed = step_with(change);
  if (!changed || *changed >= plan.step_time) return std::nullopt;
  return plan.step_time - *changed;
}

std::string against(Seconds measured, Seconds predicted) {
  return human_time(measured) + " measured, " + human_time(predicted) + " predicted";
}

namespace {

bool is_exposed_communication(LossKind k) {
  return k == LossKind::kGradientReduction || k == LossKind::kParameterGather ||
         k == LossKind::kTensorParallel || k == LossKind::kContextParallel ||
         k == LossKind::kExpertParallel;
}

// What one rank causes shows on it and on those that wait for it: the cause is named, not both.
void explain_by_ranks(std::vector<TimeLoss>& all) {
  Seconds slow, late;
  for (const TimeLoss& loss : all) {
    if (loss.kind == LossKind::kSlowDevice) slow = std::max(slow, loss.lost);
    if (loss.kind == LossKind::kLateRank) late = std::max(late, loss.lost);
  }
  for (TimeLoss& loss : all) {
    if (loss.kind == LossKind::kProducts) loss.lost -= std::min(loss.lost, slow);
    if (!is_exposed_communication(loss.kind)) continue;
    const Seconds part = std::min(loss.lost, late);
    loss.lost -= part;
    late -= part;
  }
}

}  // namespace

std::vector<TimeLoss> losses_of(const TraceComparison& t, const ModelSpec& m, const ClusterSpec& c,
                                const PlanCost& plan) {
  std::vector<TimeLoss> all;
  if (t.devices.empty() || t.classes.empty()) return all;
  const LossContext x{t, m, c, plan, t.step * 0.01};
  find_communication(x, all);
  find_kernels(x, all);
  find_products(x, all);
  find_host(x, all);
  find_ranks(x, all);
  explain_by_ranks(all);
  std::erase_if(all, [&](const TimeLoss& f) { return f.lost < x.least; });
  std::stable_sort(all.begin(), all.end(),
                   [](const TimeLoss& a, const TimeLoss& b) { return a.lost > b.lost; });
  return all;
}

}  // namespace meshplan
