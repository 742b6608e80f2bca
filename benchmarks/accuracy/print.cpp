// Text for people.
#include "print.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

constexpr std::size_t kWorst = 5;

std::string percent(double fraction) { return fixed(100 * fraction, 1); }

std::string percent(const std::optional<double>& fraction) {
  return fraction ? percent(*fraction) : std::string("-");
}

std::string share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string padded(std::string text, std::size_t width, bool left = false) {
  if (text.size() >= width) return text;
  const std::string space(width - text.size(), ' ');
  return left ? text + space : space + text;
}

void add_stats(Cells& cells, const std::optional<ErrorStats>& stats) {
  if (!stats) {
    cells.insert(cells.end(), 4, "-");
    return;
  }
  for (const double value : {stats->bias, stats->median_abs, stats->mean_abs, stats->p90_abs})
    cells.push_back(percent(value));
}

void add_feasibility(Cells& cells, const Feasibility& f) {
  cells.push_back(share(f.ran_not_fitting, f.ran));
  cells.push_back(share(f.oom_fitting, f.out_of_memory));
}

Cells source_cells(const SourceScore& s) {
  Cells cells{s.name, std::to_string(s.runs.size())};
  add_stats(cells, s.step_time);
  cells.push_back(s.memory ? percent(s.memory->bias) : "-");
  cells.push_back(s.memory ? percent(s.memory->median_abs) : "-");
  add_feasibility(cells, s.feasibility.value_or(Feasibility{}));
  cells.push_back(s.choice ? std::to_string(s.choice->groups) : "-");
  cells.push_back(s.choice ? percent(s.choice->regret_mean) : "-");
  cells.push_back(s.choice ? percent(s.choice->regret_max) : "-");
  const auto rank = [](const std::optional<double>& r) { return r ? fixed(*r, 2) : "-"; };
  cells.push_back(s.choice ? rank(s.choice->kendall_tau) : "-");
  cells.push_back(s.choice ? rank(s.choice->spearman) : "-");
  return cells;
}

Cells macro_cells(const Macro& m) {
  Cells cells{"mean of " + std::to_string(m.sources) + " sources", ""};
  add_stats(cells, m.step_time);
  cells.push_back(m.memory ? percent(m.memory->bias) : "-");
  cells.push_back(m.memory ? percent(m.memory->median_abs) : "-");
  add_feasibility(cells, m.feasibility);
  cells.push_back("");
  cells.push_back(percent(m.regret_mean));
  cells.push_back("");
  cells.push_back(m.kendall_tau ? fixed(*m.kendall_tau, 2) : "-");
  cells.push_back(m.spearman ? fixed(*m.spearman, 2) : "-");
  return cells;
}

std::string run_line(const ScoredRun& run) {
  std::string line = "  " + padded(percent(run.error) + " %", 9) + "  " + run.prediction->run->id +
                     "  predicted " + human_time(run.prediction->cost.step_time) + ", measured " +
                     human_time(Seconds{run.measured_s});
  if (run.memory_error) line += ", memory " + percent(*run.memory_error) + " %";
  return line + "\n";
}

std::string worst_runs(const SourceScore& source) {
  std::vector<const ScoredRun*> runs;
  for (const ScoredRun& run : source.runs) runs.push_back(&run);
  std::stable_sort(runs.begin(), runs.end(), [](const ScoredRun* a, const ScoredRun* b) {
    return std::abs(a->error) > std::abs(b->error);
  });
  if (runs.size() > kWorst) runs.resize(kWorst);
  std::string text;
  for (const ScoredRun* run : runs) text += run_line(*run);
  return text;
}

// A row per source with memory, or with longest sequences, of which no step time is scored.
std::string memory_table(const Report& report) {
  std::vector<Cells> rows{{"source", "what", "runs", "bias %", "median %", "mean %", "p90 %"}};
  const auto add = [&](const SourceScore& s, const char* what, std::size_t runs,
                       const std::optional<ErrorStats>& stats) {
    if (!stats) return;
    rows.push_back({s.name, what, std::to_string(runs)});
    add_stats(rows.back(), stats);
  };
  for (const SourceScore& s : report.sources) {
    if (s.runs.empty()) add(s, "memory", s.memories.size(), s.memory);
    add(s, "longest sequence", s.lengths.size(), s.length);
  }
  return rows.size() == 1 ? std::string() : "\n" + aligned(rows);
}

std::string memory_line(const ScoredMemory& run, bool tokens) {
  const auto amount = [&](double x) {
    return tokens ? fixed(x, 0) + " tokens" : human_bytes(ceil_bytes(x));
  };
  return "  " + padded(percent(run.error) + " %", 9) + "  " + run.prediction->run->id +
         "  predicted " + amount(run.predicted) + ", measured " + amount(run.measured) + "\n";
}

std::string memory_runs(std::vector<ScoredMemory> runs, bool tokens, bool verbose) {
  if (!verbose) {
    std::stable_sort(runs.begin(), runs.end(), [](const ScoredMemory& a, const ScoredMemory& b) {
      return std::abs(a.error) > std::abs(b.error);
    });
    if (runs.size() > kWorst) runs.resize(kWorst);
  }
  std::string text;
  for (const ScoredMemory& run : runs) text += memory_line(run, tokens);
  return text;
}

std::string skipped_text(const Report& report, bool verbose) {
  if (report.skipped.empty()) return {};
  std::map<std::string, std::int64_t> reasons;
  for (const Skipped& s : report.skipped) ++reasons[s.source->name + ": " + s.reason];
  std::string text =
      "\nskipped " + std::to_string(report.skipped.size()) + " runs, never for their error:\n";
  for (const auto& [reason, count] : reasons)
    text += "  " + padded(std::to_string(count), 5) + "  " + reason + "\n";
  if (!verbose) return text;
  for (const Skipped& s : report.skipped) text += "    " + s.run->id + ": " + s.reason + "\n";
  return text;
}

std::string searched_text(const Report& report) {
  std::string text;
  for (const SourceScore& source : report.sources) {
    for (const auto& [field, count] : source.searched)
      text += "  " + padded(std::to_string(count), 5) + "  " + source.name + ": " + field + "\n";
  }
  return text.empty()
             ? text
             : "\nruns whose source leaves a field open (best legal value taken):\n" + text;
}

}  // namespace

std::string to_text(const Report& report, bool verbose) {
  std::vector<Cells> rows{{"source", "runs", "bias %", "median %", "mean %", "p90 %", "mem bias %",
                           "mem med %", "ran, no fit %", "oom, fits %", "groups", "regret %",
                           "max %", "tau", "rho"}};
  for (const SourceScore& source : report.sources) rows.push_back(source_cells(source));
  rows.push_back(macro_cells(report.macro));
  std::string text = aligned(rows);
  text +=
      "\nStep-time error is predicted / measured - 1 (bias: its mean; median, mean and p90 of its\n"
      "size). The last line averages the sources' values; its feasibility shares count runs.\n";
  text += memory_table(report);
  for (const SourceScore& source : report.sources) {
    const std::string title = "\n" + source.name + (verbose ? "\n" : ", worst runs:\n");
    if (source.runs.empty() && !source.memories.empty())
      text += title + memory_runs(source.memories, false, verbose);
    if (!source.lengths.empty()) text += title + memory_runs(source.lengths, true, verbose);
    if (source.runs.empty()) continue;
    text += title;
    if (!verbose) text += worst_runs(source);
    if (!verbose) continue;
    for (const ScoredRun& run : source.runs) text += run_line(run);
  }
  text += skipped_text(report, verbose) + searched_text(report);
  const std::int64_t others = report.macro.feasibility.other_failures;
  if (others > 0)
    text += "\n" + std::to_string(others) +
            " runs failed for another reason than memory, or without one: not counted\n";
  if (report.sanity_runs > 0)
    text += "\n" + std::to_string(report.sanity_runs) +
            " runs of files that are not for scoring were read and left out\n";
  return text;
}

}  // namespace meshplan::accuracy
