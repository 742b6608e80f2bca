#include "compare/comparison.hpp"

#include <algorithm>

namespace meshplan {
namespace {

// Parts that hold others, which are shown where something measured them only.
bool holds_others(StepTerm term) {
  return term == StepTerm::kForwardBackward || term == StepTerm::kCompute ||
         term == StepTerm::kPipelineWait;
}

}  // namespace

std::vector<ComparedTerm> compared_terms(const PlanCost& plan,
                                         const std::vector<MeasuredTerm>& measured) {
  std::vector<ComparedTerm> terms;
  for (const auto& row : NameTable<StepTerm>::rows) {
    ComparedTerm term{.term = row.value, .measured = {}, .predicted = {}, .source = {}};
    const auto found = std::find_if(measured.begin(), measured.end(),
                                    [&](const MeasuredTerm& m) { return m.term == row.value; });
    term.predicted = predicted_term(plan, row.value);
    if (found != measured.end()) {
      term.measured = found->time;
      term.source = found->source;
    } else if (!term.predicted || !(term.predicted->most.si() > 0) || holds_others(row.value)) {
      continue;
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

Seconds ComparedRun::measured_step() const {
  if (steps) return steps->median;
  return trace ? trace->step : Seconds{};
}

}  // namespace meshplan
