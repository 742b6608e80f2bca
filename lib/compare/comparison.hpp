#pragma once
// A measured run beside what the cost model says of it.
#include <optional>
#include <string>
#include <vector>

#include "compare/log_step.hpp"
#include "compare/losses.hpp"
#include "compare/memory_measure.hpp"
#include "compare/step_terms.hpp"
#include "compare/trace_comparison.hpp"
#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// One part of a step; at least one of the two is known.
struct ComparedTerm {
  StepTerm term = StepTerm::kForward;
  std::optional<TermTime> measured, predicted;
  std::string source;  // of what is measured
};

struct ComparedRun {
  std::string file;       // the log, or the first trace
  std::string framework;  // whose log; empty: there is none
  std::string read_from;  // what says model and strategy, for people
  ModelSpec model;
  ClusterSpec cluster;               // of the run's size
  PlanCost predicted;                // of the run's strategy
  std::optional<SteadySteps> steps;  // of the log
  Bytes allocated, reserved;         // of the fullest rank that says it; 0: not in the log
  std::vector<ComparedTerm> terms;
  std::optional<TraceComparison> trace;
  std::optional<MemoryMeasure> memory;
  std::vector<TimeLoss> losses;    // of the traces, else of the log's timers
  std::vector<std::string> notes;  // what is not compared, and why

  // The log's where there is one, since a profiler slows the run down.
  [[nodiscard]] Seconds measured_step() const;
};

// Measured beside predicted; of several measurements of a part the first counts. A part that a
// program does not time and that is predicted to take no time is left out.
[[nodiscard]] std::vector<ComparedTerm> compared_terms(const PlanCost& plan,
                                                       const std::vector<MeasuredTerm>& measured);

}  // namespace meshplan
