#include "compare/step_terms.hpp"

#include <algorithm>

namespace meshplan {
namespace {

TermTime same(Seconds t) { return {t, t}; }

// Over the pipeline's ranks.
TermTime passes(const PlanCost& plan, Seconds StageCost::*pass) {
  const auto [least, most] = std::minmax_element(
      plan.stages.begin(), plan.stages.end(),
      [&](const StageCost& a, const StageCost& b) { return a.*pass < b.*pass; });
  const auto microbatches = static_cast<double>(num_microbatches(plan.strategy));
  return {(*least).*pass * microbatches, (*most).*pass * microbatches};
}

}  // namespace

std::optional<TermTime> predicted_term(const PlanCost& plan, StepTerm term) {
  const TimeTerms& t = plan.time;
  switch (term) {
    case StepTerm::kForward:
      return passes(plan, &StageCost::forward);
    case StepTerm::kBackward:
      return passes(plan, &StageCost::backward);
    case StepTerm::kForwardBackward:
      return same(plan.step_time - t.dp_comm_exposed - t.optimizer);
    case StepTerm::kCompute:
      return same(t.compute + t.recompute);
    case StepTerm::kOptimizer:
      return same(t.optimizer);
    case StepTerm::kDataParallel:
      return same(t.dp_comm_exposed);
    case StepTerm::kTensorParallel:
      return same(t.tp_comm_exposed);
    case StepTerm::kContextParallel:
      return same(t.cp_comm_exposed);
    case StepTerm::kExpertParallel:
      return same(t.ep_comm_exposed);
    case StepTerm::kPipeline:
      return same(t.pp_comm_exposed);
    case StepTerm::kBubble:
      return same(t.pp_bubble);
    case StepTerm::kPipelineWait:
      return same(t.pp_comm_exposed + t.pp_bubble);
    case StepTerm::kLaunch:
      return same(t.other);
    case StepTerm::kCopies:
    case StepTerm::kDataLoading:
    case StepTerm::kCheckpointing:
    case StepTerm::kStalls:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace meshplan
