#include "study/sensitivity.hpp"

#include <algorithm>
#include <cmath>

#include "cost/step.hpp"
#include "cost/uncertainty.hpp"
#include "study/steps.hpp"

namespace meshplan {
namespace {

struct NamedLever {
  Lever lever;
  std::size_t level;
  std::string name;
};

std::vector<NamedLever> levers(const ClusterSpec& c, const PlanCost& base) {
  std::vector<NamedLever> all;
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    all.push_back({Lever::kBandwidth, i, "bandwidth of " + c.levels[i].name});
    all.push_back({Lever::kLatency, i, "latency of " + c.levels[i].name});
  }
  all.push_back({Lever::kMemory, 0, "GPU memory"});
  all.push_back({Lever::kMemoryBandwidth, 0, "GPU memory bandwidth"});
  all.push_back({Lever::kFlops, 0, "GPU FLOP/s"});
  const Offload& offload = base.strategy.offload;
  if (offload.optimizer || offload.activations) {
    all.push_back({Lever::kHostLink, 0, "host link"});
  }
  all.push_back({Lever::kHostTime, 0, "kernel launch time"});
  all.push_back({Lever::kBatch, 0, "global batch"});
  return all;
}

// A measured curve is latency, the time of its smallest message, plus what the size adds.
void scale_curves(ClusterSpec& c, const std::string& level, double latency, double bandwidth) {
  for (CollectiveFit& fit : c.collectives) {
    if (fit.level != level || fit.points.empty()) continue;
    const Seconds first = fit.points.front().second;
    for (auto& [size, time] : fit.points) {
      time = first * latency + (time - first) / bandwidth;
    }
  }
}

// Whole data-parallel rounds, so that the plan stays legal, where there are enough of them; else
// half the batch or twice of it. Never the base's own, unless that is one sequence.
std::int64_t changed_batch(const Strategy& s, double factor) {
  const std::int64_t round = s.dp * s.micro_batch;
  const std::int64_t rounds = s.global_batch / round;
  auto then = static_cast<std::int64_t>(std::llround(static_cast<double>(rounds) * factor));
  if (then == rounds && factor != 1) then += factor > 1 ? 1 : -1;
  return then > 0 ? then * round : std::max<std::int64_t>(1, s.global_batch / 2);
}

class Study {
 public:
  Study(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
        const PlanCost& base)
      : model_(m), cluster_(c), request_(request), base_(base) {
    request_.top = 1;
    request_.plans_only = true;
  }

  Result<Change> run(Scenario scenario, const Progress& progress) {
    SearchRequest request = request_;
    Strategy kept = base_.strategy;
    if (scenario.lever == Lever::kBatch) {
      kept.global_batch = changed_batch(base_.strategy, scenario.factor);
      request.base.global_batch = kept.global_batch;
      scenario.factor =
          static_cast<double>(kept.global_batch) / static_cast<double>(base_.strategy.global_batch);
    }
    const ClusterSpec c = changed(cluster_, scenario);
    Change change;
    change.scenario = scenario;
    change.kept_is_legal = false;
    if (has_errors(validate(c))) return change;  // no such machine: less memory than its context
    EvaluateOptions options;
    options.with_remedies = false;
    options.ignore_memory = request.ignore_activations;
    const Verdict verdict = evaluate(model_, c, kept, options);
    if (verdict.feasible()) {
      change.kept = verdict.cost();
    } else {
      change.kept_is_legal = verdict.infeasible().reason != InfeasibleReason::kIllegal;
    }
    // Where the plan still is as safe as asked for only better ones are of interest.
    request.with_closest_miss = false;
    const bool stays = change.kept && accepts(*change.kept);
    if (stays) request.cutoff = score_of(*change.kept);
    const Result<SearchResult> found = search(model_, c, request, progress);
    if (!found) return change;  // no such run: a batch beyond what is accepted
    if (!found->plans.empty()) {
      change.best = found->plans.front();
    } else if (stays) {
      change.best = change.kept;
    }
    change.same_choice = change.best && change.best->strategy == kept;
    return change;
  }

 private:
  [[nodiscard]] bool accepts(const PlanCost& plan) const {
    return request_.memory_risk >= 1 || request_.ignore_activations ||
           out_of_memory_probability(plan.memory()) <= request_.memory_risk;
  }
  [[nodiscard]] double score_of(const PlanCost& plan) const {
    return request_.objective == Objective::kMemory ? plan.memory().peak.si() : plan.step_time.si();
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  SearchRequest request_;
  const PlanCost& base_;
};

}  // namespace

ClusterSpec changed(ClusterSpec c, const Scenario& s) {
  switch (s.lever) {
    case Lever::kBandwidth:
      c.levels[s.level].bandwidth *= s.factor;
      scale_curves(c, c.levels[s.level].name, 1, s.factor);
      break;
    case Lever::kLatency:
      c.levels[s.level].latency *= s.factor;
      scale_curves(c, c.levels[s.level].name, s.factor, 1);
      break;
    case Lever::kMemory:
      c.device.memory = Bytes{static_cast<std::int64_t>(c.device.memory.si() * s.factor)};
      break;
    case Lever::kMemoryBandwidth:
      c.device.memory_bandwidth *= s.factor;
      break;
    case Lever::kFlops:
      for (FlopsPerSecond& rate : c.device.peak) rate *= s.factor;
      break;
    case Lever::kHostLink:
      c.device.host_link *= s.factor;
      break;
    case Lever::kHostTime:
      c.device.launch_gap *= s.factor;
      c.device.kernel_overhead *= s.factor;
      break;
    case Lever::kBatch:
      break;
  }
  return c;
}

double relative_change(const PlanCost& then, const PlanCost& base) {
  return (then.step_time / base.step_time) * (base.tokens_per_step / then.tokens_per_step) - 1;
}

Result<Sensitivity> sensitivity(const ModelSpec& m, const ClusterSpec& c,
                                const SearchRequest& request, const PlanCost& base, double share,
                                const Progress& progress) {
  Sensitivity result{base, share, {}};
  const std::vector<NamedLever> all = levers(c, base);
  const Steps steps(progress, 2 * all.size());
  Study study(m, c, request, base);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const NamedLever& lever = all[i];
    Result<Change> less = study.run({lever.lever, lever.level, 1 - share}, steps.of(2 * i));
    if (!less) return less.errors();
    Result<Change> more = study.run({lever.lever, lever.level, 1 + share}, steps.of(2 * i + 1));
    if (!more) return more.errors();
    result.rows.push_back({lever.name, std::move(less).value(), std::move(more).value()});
  }
  return result;
}

}  // namespace meshplan
