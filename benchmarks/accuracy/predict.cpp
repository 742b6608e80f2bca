#include "predict.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "cost/step.hpp"
#include "io/load.hpp"
#include "parallel.hpp"
#include "schedule/pipeline.hpp"
#include "summary.hpp"

namespace meshplan::accuracy {
namespace {

// What a source leaves open was chosen so that it ran, and predicted memory is low by this share in
// the mean of the sources that print it.
constexpr double kRoom = 0.05;

bool fits_everywhere(const PlanCost& cost, double room = 0) {
  return std::all_of(cost.stages.begin(), cost.stages.end(), [&](const StageCost& stage) {
    return stage.memory.peak.si() * (1 + room) <= stage.memory.capacity.si();
  });
}

// Fits with room, then fits, then faster.
bool better(const Prediction& a, const Prediction& b) {
  const bool room = fits_everywhere(a.cost, kRoom);
  if (room != fits_everywhere(b.cost, kRoom)) return room;
  if (a.fits != b.fits) return a.fits;
  return a.cost.step_time < b.cost.step_time;
}

// A layout whose chunks differ in layers. The planner's own rules want equal ones; frameworks take
// others as an explicit layout (Megatron-LM --pipeline-model-parallel-layout), and sources use
// them. Every other rule must hold.
std::optional<PlanCost> uneven_chunks(const Candidate& candidate, const ClusterSpec& cluster) {
  const Strategy& stated = candidate.strategy;
  const ModelSpec& m = candidate.model;
  if (stated.vp <= 1 || m.num_layers % (stated.pp * stated.vp) == 0) return std::nullopt;
  Strategy s = stated;
  s.vp = 1;
  s.schedule = Schedule::k1f1b;
  s = complete(s, m, cluster);
  if (has_errors(validate(s, m, cluster))) return std::nullopt;
  s.vp = stated.vp;
  s.schedule = stated.schedule;
  const PipelineShape shape{s.schedule, s.pp, s.vp, num_microbatches(s), 0};
  if (!illegal_reason(shape).empty()) return std::nullopt;
  return cost_of(m, cluster, s);
}

// The longest sequence with which the candidate's fullest stage fits; 0: not even one token.
std::int64_t longest_sequence(Candidate c, const ClusterSpec& cluster) {
  const auto fits = [&](std::int64_t tokens) {
    c.strategy.seq_len = c.model.max_seq_length = tokens;
    const Verdict verdict =
        evaluate(c.model, cluster, c.strategy, {.ignore_memory = true, .with_remedies = false});
    return verdict.feasible() && fits_everywhere(verdict.cost());
  };
  constexpr std::int64_t kMost = 1 << 26;
  std::int64_t good = 0, bad = 1;
  while (bad < kMost && fits(bad)) good = bad, bad *= 2;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::string first_line(const Diagnostics& all) {
  return all.empty() ? std::string("no reason given") : all.front().message;
}

}  // namespace

std::variant<Task, Skipped> prepare(const Source& source, const Run& run, Machines& machines,
                                    const std::vector<std::string>& overrides) {
  const auto skip = [&](std::string reason) { return Skipped{&source, &run, std::move(reason)}; };
  if (is_doubtful(run.status)) return skip(run.status);
  const auto choice = choose_machine(source, run);
  if (const NoMachine* none = std::get_if<NoMachine>(&choice)) return skip(none->reason);
  std::variant<Mapped, Skip> mapped = map_run(source, run);
  if (const Skip* why = std::get_if<Skip>(&mapped)) return skip(why->reason);
  Result<ClusterSpec> cluster = machines.cluster(std::get<MachineChoice>(choice), *run.gpus);
  if (!cluster) return skip("cluster not usable: " + first_line(cluster.errors()));
  Task task{&source, &run, std::move(cluster.value()), std::move(std::get<Mapped>(mapped))};
  for (Candidate& candidate : task.mapped.candidates) {
    for (const std::string& key_value : overrides) {
      Result<Strategy> changed = load_strategy(key_value, candidate.strategy);
      if (!changed) return skip("--set " + key_value + ": " + first_line(changed.errors()));
      candidate.strategy = std::move(changed.value());
    }
  }
  return task;
}

std::variant<Prediction, Skipped> predict(const Task& task) {
  std::optional<Prediction> best;
  std::string reason = "no candidate";
  for (const Candidate& candidate : task.mapped.candidates) {
    const Verdict verdict = evaluate(candidate.model, task.cluster, candidate.strategy,
                                     {.ignore_memory = true, .with_remedies = false});
    std::optional<PlanCost> legal;
    if (verdict.feasible()) legal = verdict.cost();
    if (!legal) legal = uneven_chunks(candidate, task.cluster);
    if (!legal) {
      const std::vector<std::string>& messages = verdict.infeasible().messages;
      reason = "illegal: " + (messages.empty() ? "no reason given" : messages.front());
      continue;
    }
    const PlanCost& cost = *legal;
    Prediction next{task.source,
                    task.run,
                    candidate.model,
                    task.cluster.name,
                    task.cluster.device.name,
                    cost,
                    step_time_interval(task.cluster, cost),
                    fits_everywhere(cost),
                    task.mapped.searched,
                    {}};
    if (!best || better(next, *best)) best = std::move(next);
  }
  if (!best) return Skipped{task.source, task.run, reason};
  if (task.run->longest) {
    best->longest = longest_sequence(task.mapped.candidates.front(), task.cluster);
  }
  return std::move(*best);
}

Bytes comparable_memory(const MemoryBreakdown& m, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return m.peak;
    case MemoryKind::kAllocator:
    case MemoryKind::kReserved:
      return m.peak - m.context - m.communicators;
    case MemoryKind::kAllocated:
      return m.allocated();
  }
  return m.peak;
}

Bytes comparable_memory(const PlanCost& cost, MemoryKind kind) {
  const bool sees_cached = kind == MemoryKind::kDevice || kind == MemoryKind::kReserved;
  const Bytes cached = sees_cached ? cost.stages[cost.fullest_stage].cached : Bytes{};
  return comparable_memory(cost.memory(), kind) + cached;
}

std::vector<std::variant<Prediction, Skipped>> predict_all(const std::vector<Task>& tasks,
                                                           int threads) {
  std::vector<std::size_t> places(tasks.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return predict_some(tasks, places, threads);
}

std::vector<std::variant<Prediction, Skipped>> predict_some(const std::vector<Task>& tasks,
                                                            std::span<const std::size_t> places,
                                                            int threads) {
  std::vector<std::variant<Prediction, Skipped>> results(places.size(), Skipped{});
  for_each_place(places.size(), threads,
                 [&](std::size_t i) { results[i] = predict(tasks[places[i]]); });
  return results;
}

}  // namespace meshplan::accuracy
