#include "learnt_profile.hpp"

#include <cmath>
#include <map>

#include "calibrate/posterior.hpp"
#include "compare/trace_dimensions.hpp"
#include "cost/operations.hpp"
#include "cost/step.hpp"
#include "fitted_profile.hpp"

namespace meshplan {
namespace {

// What of a run is observed: names in the order of its values.
using Values = std::vector<std::pair<std::string, double>>;

bool is_memory_bound(OpClass c) {
  return c == OpClass::kNorm || c == OpClass::kSoftmax || c == OpClass::kElementwise ||
         c == OpClass::kOptimizer;
}

// Only what both sides have is an observation: `other` is the other side's value.
void add(Values& values, const std::string& name, double value, double other) {
  if (value > 0 && other > 0) values.emplace_back(name, value);
}

struct TraceSums {
  double products = 0, memory_bound = 0;
  std::map<CommDimension, double> communication;
};

TraceSums predicted_sums(const ComparedRun& run, const ClusterSpec& c, const PlanCost& plan) {
  TraceSums sums;
  const DeviceMeasure& d = run.trace->devices[run.trace->shown];
  const std::int64_t rank = pipeline_rank_of(plan.strategy, d.rank);
  for (const KernelCall& call : step_kernels(run.model, c, plan.strategy, rank)) {
    const OpClass cls = class_of(call.op);
    if (cls == OpClass::kProduct) sums.products += call.per_step.si();
    if (is_memory_bound(cls)) sums.memory_bound += call.per_step.si();
  }
  for (const CommEntry& e : plan.communication) {
    if (e.dimension == CommDimension::kPp) continue;  // received: mostly waiting
    sums.communication[e.dimension] += e.time_each.si() * e.count_per_step;
  }
  return sums;
}

TraceSums measured_sums(const DeviceMeasure& d) {
  TraceSums sums;
  for (const auto& row : NameTable<OpClass>::rows) {
    if (row.value == OpClass::kProduct) sums.products = d.of(row.value).time.si();
    if (is_memory_bound(row.value)) sums.memory_bound += d.of(row.value).time.si();
  }
  for (const CommTime& c : d.communication) {
    if (c.dimension && *c.dimension != CommDimension::kPp) {
      sums.communication[*c.dimension] += c.all.time.si();
    }
  }
  return sums;
}

bool has_operations(const ComparedRun& run) { return run.trace && !run.trace->classes.empty(); }

// `mine`: the side whose values are wanted; `other` decides which there are.
Values values_of(const ComparedRun& run, double step, const TraceSums& mine,
                 const TraceSums& other) {
  Values values{{run.file, step}};
  if (!has_operations(run)) return values;
  add(values, run.file + ": products", mine.products, other.products);
  add(values, run.file + ": memory-bound kernels", mine.memory_bound, other.memory_bound);
  for (const auto& [dimension, time] : mine.communication) {
    const auto same = other.communication.find(dimension);
    if (same == other.communication.end()) continue;
    add(values, run.file + ": " + std::string(name_of(dimension)) + " communication", time,
        same->second);
  }
  return values;
}

}  // namespace

std::optional<LearntProfile> learnt_profile(std::span<const ComparedRun> runs,
                                            const ClusterSpec& whole, Diagnostics& problems) {
  std::vector<Precision> used;
  std::vector<Observation> observations;
  std::vector<TraceSums> measured;
  for (const ComparedRun& run : runs) {
    used.push_back(run.predicted.strategy.precision);
    TraceSums sums, predicted;
    if (has_operations(run)) {
      sums = measured_sums(run.trace->devices[run.trace->shown]);
      predicted = predicted_sums(run, run.cluster, run.predicted);
    }
    measured.push_back(sums);
    // The median of n steps scatters less than one step does.
    const double noise =
        run.steps ? run.steps->spread / std::sqrt(static_cast<double>(run.steps->reports)) : 0.02;
    for (const auto& [name, value] : values_of(run, run.measured_step().si(), sums, predicted)) {
      observations.push_back({name, value, noise});
    }
  }
  const std::vector<ProfileParameter> parameters = profile_parameters(whole, used);
  std::vector<Parameter> plain;
  for (const ProfileParameter& p : parameters) plain.push_back(p.parameter);
  const Predictor predict = [&](std::span<const double> values) {
    std::vector<double> all;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const ComparedRun& run = runs[i];
      const ClusterSpec c = with_parameters(run.cluster, parameters, values);
      const PlanCost plan = cost_of(run.model, c, run.predicted.strategy);
      TraceSums sums;
      if (has_operations(run)) sums = predicted_sums(run, c, plan);
      for (const auto& [name, value] : values_of(run, plan.step_time.si(), sums, measured[i])) {
        all.push_back(value);
      }
    }
    return all;
  };
  const std::optional<Posterior> posterior =
      take(update_parameters(plain, observations, predict, LeaveOneOut::kNo), "--update-profile",
           problems);
  if (!posterior) return std::nullopt;
  const ParameterFit& fit = posterior->fit;
  LearntProfile learnt;
  learnt.parameters = fitted_parameters(parameters, fit);
  std::string basis = "learnt by meshplan compare on " + today() + " from " +
                      std::to_string(observations.size()) +
                      (observations.size() == 1 ? " measurement of " : " measurements of ") +
                      std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs");
  learnt.cluster = documented(with_fitted(whole, parameters, fit), learnt.parameters, basis,
                              "training logs and traces");
  learnt.cluster.seen_runs = posterior->seen;
  return learnt;
}

}  // namespace meshplan
