#include "summary.hpp"

#include <algorithm>
#include <functional>

#include "words.hpp"

namespace meshplan::accuracy {
namespace {

ScoredMemory scored(const Prediction& p, double predicted, double measured) {
  return {&p, predicted, measured, relative_error(predicted, measured)};
}

// nvidia-smi shows what the allocator has taken, used or not: of a full device no more than that.
constexpr double kFull = 0.95;

std::optional<ScoredMemory> scored_memory(const Prediction& p) {
  if (!p.run->memory) return std::nullopt;
  const MemoryBreakdown& memory = p.cost.memory();
  const MeasuredMemory& measured = *p.run->memory;
  const bool full = measured.peak.si() >= kFull * memory.capacity.si();
  if (measured.kind == MemoryKind::kDevice && full) return std::nullopt;
  return scored(p, comparable_memory(p.cost, measured.kind).si(), measured.peak.si());
}

std::optional<ErrorStats> stats_of(const std::vector<ScoredMemory>& runs) {
  if (runs.empty()) return std::nullopt;
  std::vector<double> errors;
  for (const ScoredMemory& run : runs) errors.push_back(run.error);
  return error_stats(errors);
}

std::optional<Choice> choice_of(const std::vector<ScoredRun>& runs) {
  std::map<std::string, std::vector<ChoicePair>> groups;
  for (const ScoredRun& run : runs)
    groups[choice_group(*run.prediction->run)].push_back(
        {run.prediction->cost.step_time.si(), run.measured_s});
  std::vector<double> regrets, taus, rhos;
  for (const auto& [key, group] : groups) {
    if (group.size() < kSmallestGroup) continue;
    regrets.push_back(regret(group));
    if (const auto tau = kendall_tau(group)) taus.push_back(*tau);
    if (const auto rho = spearman(group)) rhos.push_back(*rho);
  }
  if (regrets.empty()) return std::nullopt;
  Choice choice{.groups = static_cast<std::int64_t>(regrets.size()),
                .regret_mean = mean(regrets),
                .regret_max = *std::max_element(regrets.begin(), regrets.end()),
                .kendall_tau = {},
                .spearman = {}};
  if (!taus.empty()) choice.kendall_tau = mean(taus);
  if (!rhos.empty()) choice.spearman = mean(rhos);
  return choice;
}

void add_feasibility(SourceScore& score, const Source& source, const Prediction& p) {
  if (source.use == Use::kMemory) return;
  Feasibility& f = score.feasibility.emplace(score.feasibility.value_or(Feasibility{}));
  if (source.use == Use::kScore) {
    ++f.ran;
    f.ran_not_fitting += !p.fits;
  } else if (is_out_of_memory(p.run->status)) {
    ++f.out_of_memory;
    f.oom_fitting += p.fits;
  }
}

void finish(SourceScore& score) {
  score.memory = stats_of(score.memories);
  score.length = stats_of(score.lengths);
  if (score.runs.empty()) return;
  std::vector<double> errors;
  for (const ScoredRun& run : score.runs) errors.push_back(run.error);
  score.step_time = error_stats(errors);
  score.choice = choice_of(score.runs);
}

using Part = std::optional<ErrorStats> SourceScore::*;

// Each statistic is the mean of the sources' own.
std::optional<ErrorStats> average(const std::vector<SourceScore>& sources, Part part,
                                  std::int64_t& count) {
  ErrorStats sum;
  count = 0;
  for (const SourceScore& s : sources) {
    if (!(s.*part)) continue;
    const ErrorStats& stats = *(s.*part);
    ++count;
    sum.median_abs += stats.median_abs;
    sum.mean_abs += stats.mean_abs;
    sum.p90_abs += stats.p90_abs;
    sum.bias += stats.bias;
    sum.median_bias += stats.median_bias;
  }
  if (count == 0) return std::nullopt;
  const double n = static_cast<double>(count);
  return ErrorStats{sum.median_abs / n, sum.mean_abs / n, sum.p90_abs / n, sum.bias / n,
                    sum.median_bias / n};
}

std::optional<double> average(const std::vector<SourceScore>& sources,
                              const std::function<std::optional<double>(const Choice&)>& value) {
  std::vector<double> values;
  for (const SourceScore& s : sources) {
    if (!s.choice) continue;
    if (const auto v = value(*s.choice)) values.push_back(*v);
  }
  if (values.empty()) return std::nullopt;
  return mean(values);
}

Macro macro_of(const std::vector<SourceScore>& sources) {
  Macro macro;
  macro.step_time = average(sources, &SourceScore::step_time, macro.sources);
  macro.memory = average(sources, &SourceScore::memory, macro.memory_sources);
  macro.regret_mean =
      average(sources, [](const Choice& c) { return std::optional(c.regret_mean); });
  macro.kendall_tau = average(sources, [](const Choice& c) { return c.kendall_tau; });
  macro.spearman = average(sources, [](const Choice& c) { return c.spearman; });
  for (const SourceScore& s : sources) {
    macro.choice_sources += s.choice.has_value();
    if (!s.feasibility) continue;
    macro.feasibility.ran += s.feasibility->ran;
    macro.feasibility.ran_not_fitting += s.feasibility->ran_not_fitting;
    macro.feasibility.out_of_memory += s.feasibility->out_of_memory;
    macro.feasibility.oom_fitting += s.feasibility->oom_fitting;
    macro.feasibility.other_failures += s.feasibility->other_failures;
  }
  return macro;
}

// Rows of a feasibility file that failed for another reason than memory.
std::int64_t other_failures(const Source& source) {
  if (source.use != Use::kFeasibility) return 0;
  return source.rows_without_fields +
         std::count_if(source.runs.begin(), source.runs.end(), [](const Run& run) {
           return !run.longest && !is_out_of_memory(run.status);
         });
}

}  // namespace

std::string choice_group(const Run& run) {
  const PublishedModel& m = run.model;
  std::string key = m.name;
  for (const auto& n :
       {m.num_layers, m.hidden_size, m.seq_length, m.vocab_size, run.gpus, run.global_batch})
    key += "|" + (n ? std::to_string(*n) : std::string("?"));
  return key;
}

bool is_out_of_memory(const std::string& status) {
  // "crashed or oom" does not say which.
  return has_any(status, {"oom", "out of memory", "out-of-memory"}) && !has_word(status, "crash");
}

bool is_doubtful(const std::string& status) { return starts_with_word(status, "doubtful"); }

Report summarise(const std::vector<Source>& sources, const std::vector<Prediction>& predictions,
                 std::vector<Skipped> skipped) {
  Report report;
  report.skipped = std::move(skipped);
  std::map<const Source*, std::size_t> place;
  for (const Source& source : sources) {
    if (source.use == Use::kSanity) {
      report.sanity_runs += static_cast<std::int64_t>(source.runs.size());
      continue;
    }
    place[&source] = report.sources.size();
    SourceScore& score = report.sources.emplace_back();
    score.name = source.name;
    if (source.use == Use::kFeasibility)
      score.feasibility = Feasibility{.other_failures = other_failures(source)};
  }
  for (const Prediction& p : predictions) {
    SourceScore& score = report.sources[place.at(p.source)];
    add_feasibility(score, *p.source, p);
    for (const std::string& field : p.searched) ++score.searched[field];
    const std::optional<ScoredMemory> memory = scored_memory(p);
    if (memory) score.memories.push_back(*memory);
    if (p.longest && p.run->longest->tokens > 0) {
      score.lengths.push_back(
          scored(p, static_cast<double>(*p.longest), static_cast<double>(p.run->longest->tokens)));
    }
    if (p.source->use != Use::kScore) continue;
    const double measured = p.run->step_time->si();
    score.runs.push_back({&p, measured, relative_error(p.cost.step_time.si(), measured),
                          memory ? std::optional(memory->error) : std::nullopt});
  }
  for (SourceScore& score : report.sources) finish(score);
  report.macro = macro_of(report.sources);
  return report;
}

}  // namespace meshplan::accuracy
