#include "report/plan_table.hpp"

#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "report/estimate_text.hpp"
#include "report/lengths_text.hpp"
#include "report/rates.hpp"
#include "report/uncertainty_text.hpp"
#include "search/groups.hpp"

namespace meshplan {
namespace {

// "77%": a percent sign without a space, as narrow columns need it.

std::string memory_cell(const MemoryBreakdown& m) {
  const double share = m.capacity.count() > 0 ? m.peak.si() / m.capacity.si() : 0;
  return human_bytes(m.peak) + " " + narrow_percent(share, 0);
}

std::string oom_cell(const MemoryBreakdown& m) {
  const double p = out_of_memory_probability(m);
  return p < 0.01 ? "<1%" : p > 0.99 ? ">99%" : narrow_percent(p, 0);
}

std::string count_of(std::int64_t n, const std::string& what) {
  return with_thousands(n) + " " + what;
}

std::string reasons_table(const SearchStatistics& s, const TextOptions& options) {
  Table reasons({{"ruled out because", Align::kLeft, true}, {"strategies"}});
  for (const auto& [reason, count] : s.infeasible) {
    if (count > 0) reasons.add_row({reason, with_thousands(count)});
  }
  return reasons.text(options);
}

struct NumberedPlan {
  std::string number, strategy;
  std::vector<std::string> cells;
};

// A plan takes a line, or two. Where the terminal is too narrow for that its strategy stands below
// its figures.
std::string rows_text(const std::vector<Column>& columns, const std::vector<NumberedPlan>& plans,
                      const TextOptions& options) {
  std::vector<Column> beside = columns, alone = columns;
  beside.insert(beside.begin(), {{"#"}, {"strategy", Align::kLeft, true}});
  alone.insert(alone.begin(), {"#"});
  Table one(beside), two(alone);
  std::size_t most = 0, longest = 0, below = 0;  // columns: of a strategy, of a word of it
  for (const NumberedPlan& p : plans) {
    std::vector<std::string> cells = p.cells;
    cells.insert(cells.begin(), p.number);
    two.add_row(cells);
    cells.insert(cells.begin() + 1, p.strategy);
    one.add_row(std::move(cells));
    most = std::max(most, display_width(p.strategy));
    std::istringstream words(p.strategy);
    for (std::string word; words >> word;) longest = std::max(longest, display_width(word));
    below = std::max(below, p.number.size());
  }
  const std::string text = two.text(options);
  const std::size_t figures = display_width(text.substr(0, text.find('\n')));
  constexpr std::size_t kGap = 2;
  const std::size_t room =
      options.width > figures + kGap ? options.width - figures - kGap : std::size_t{};
  const bool fits = std::all_of(plans.begin(), plans.end(), [&](const NumberedPlan& p) {
    return room > 0 && wrap_text(p.strategy, room).size() <= 2;
  });
  if (most <= room || (longest <= room && fits)) return one.text(options);
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t n = 0; begin < text.size(); ++n) {
    const std::size_t end = text.find('\n', begin) + 1;
    lines += text.substr(begin, end - begin);
    begin = end;
    if (n < 2) continue;  // header and rule
    lines += paragraph(std::string(below + kGap, ' '), plans[n - 2].strategy, options);
  }
  return lines;
}

// The plan in one paragraph, and as the next command takes it.
std::string answer_text(const PlanCost& p, const ClusterSpec& c, const SearchRequest& request,
                        const TextOptions& options) {
  const Rates r = rates(p, c);
  const std::string text =
      short_text(p.strategy) + ": " + human_time(p.step_time) + " a step" +
      (p.like_runs.any() ? " (" + human_time(p.expected_time()) + " by runs like it), " : ", ") +
      with_thousands(static_cast<std::int64_t>(r.tokens_per_s_per_gpu)) + " tokens/s/GPU, MFU " +
      narrow_percent(p.mfu_causal, 1) + " (" + narrow_percent(p.mfu, 1) +
      " with causal attention counted in full), " +
      chance_text(out_of_memory_probability(p.memory())) + " likely to run out of memory";
  const std::string_view first = request.space == Space::kFull ? "Best: " : "Recommended: ";
  return paragraph(first, text, options) + strategy_line(p.strategy);
}

std::string miss_text(const SearchResult& result, const TextOptions& options) {
  if (!result.closest_miss || !result.closest_strategy) return {};
  return "The closest miss:\n" + strategy_line(*result.closest_strategy) + '\n' +
         infeasible_text(*result.closest_miss, options);
}

// Where the request leaves no plan: why not, and what would.
std::string none_text(const SearchRequest& request, const SearchResult& result,
                      const ClusterSpec& c, const SearchTextOptions& what,
                      const TextOptions& options) {
  const std::optional<Alternative>& fastest = what.alternatives.fastest;
  const bool risky = fastest && fastest->plan;
  // A search that was stopped has not seen everything.
  const std::string found = !result.proof.exact ? "No plan was found before the search was stopped."
                            : risky ? "No plan is at most " + short_percent(request.memory_risk) +
                                          " likely to run out of memory."
                                    : "No plan fits.";
  std::string text = emphasised(found, Emphasis::kBad, options) + '\n';
  if (!result.refused.empty()) {
    text += paragraph("", "Nothing has what is fixed: " + result.refused + ".", options);
  } else if (result.proof.exact && result.statistics.space_size == 0) {
    text += paragraph("",
                      "Nothing has what is fixed: tp * pp * cp must divide the " +
                          count_of(num_gpus(c), "GPUs") + ", and dp is what they leave.",
                      options);
  } else if (result.statistics.illegal == result.statistics.space_size) {
    text += "Every strategy breaks a rule:\n" + reasons_table(result.statistics, options);
  }
  Alternatives shown = what.alternatives;
  if (!risky) shown.fastest.reset();  // as there is no plan, neither is there a faster one
  if (risky || (shown.unbuilt && shown.unbuilt->plan)) text += alternatives_text(shown, options);
  return text + miss_text(result, options);
}

// What the numbers in brackets behind a strategy are.
std::string variants_text(const std::vector<PlanGroup>& groups, const TextOptions& options) {
  std::vector<std::string> keys;
  for (const PlanGroup& g : groups) {
    for (const std::string& key : g.keys) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  if (keys.empty()) return {};
  return paragraph("",
                   "(+n): n more plans with the same degrees, sharding and recomputation, "
                   "practically tied with that one, which differ in " +
                       join_words(keys, " and ") + " (--json lists them)",
                   options);
}

}  // namespace

std::string plan_table(const SearchResult& result, const ClusterSpec& c, const TextOptions& options,
                       std::span<const Goodput> goodput) {
  const bool failures = goodput.size() == result.plans.size() && !goodput.empty();
  const bool pipelines = std::any_of(result.plans.begin(), result.plans.end(),
                                     [](const PlanCost& p) { return p.bubble_fraction > 0; });
  std::vector<Column> columns{{"step"}, {"tok/s/GPU"}, {"MFU"}, {"memory"}, {"OOM"}};
  if (failures) columns.insert(columns.begin() + 2, {"goodput"});
  if (pipelines) columns.push_back({"bubble"});
  columns.push_back({"comm"});
  std::vector<NumberedPlan> rows;
  const std::vector<PlanGroup> groups = grouped(result.plans);
  const std::vector<std::string> names = group_names(result.plans, groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t i = groups[g].first;
    const PlanCost& p = result.plans[i];
    const double comm = exposed_communication(p.time) / p.step_time;
    const bool tied = i > 0 && practically_tied(result.plans.front(), p);
    std::vector<std::string> row{
        human_time(p.step_time),
        with_thousands(static_cast<std::int64_t>(rates(p, c).tokens_per_s_per_gpu))};
    if (failures) {
      const double each = goodput[i].tokens_per_s / static_cast<double>(num_gpus(p.strategy));
      row.push_back(with_thousands(static_cast<std::int64_t>(each)));
    }
    row.insert(row.end(),
               {narrow_percent(p.mfu_causal, 1), memory_cell(p.memory()), oom_cell(p.memory())});
    if (pipelines) row.push_back(narrow_percent(p.bubble_fraction, 1));
    row.push_back(narrow_percent(comm, 1));
    const std::size_t alike = groups[g].variants.size();
    rows.push_back({std::to_string(i + 1) + (tied ? "=" : ""),
                    names[g] + (alike > 0 ? " (+" + std::to_string(alike) + ")" : ""),
                    std::move(row)});
  }
  const std::string legend =
      "MFU: causal attention counted half; memory: peak of the fullest pipeline rank, and its "
      "share of what the device offers; OOM: "
      "probability of running out of it; comm: communication that nothing hides";
  return rows_text(columns, rows, options) +
         paragraph("", legend + (failures ? "; goodput: tok/s/GPU that failures leave" : ""),
                   options) +
         variants_text(groups, options) + tied_text(result, groups, options);
}

std::string search_text(const SearchResult& result, const SearchTextOptions& what,
                        const TextOptions& options) {
  const SearchStatistics& s = result.statistics;
  std::string counts = "Searched " + count_of(s.space_size, "strategies in ") + human_time(s.wall) +
                       ": " + count_of(s.illegal, "illegal, ") +
                       count_of(s.pruned, result.proof.exact ? "ruled out by a bound, "
                                                             : "ruled out or not looked at, ") +
                       count_of(s.evaluated, "evaluated, ") + count_of(s.feasible, "of them fit.");
  std::string text = paragraph("", counts, options);
  if (!result.proof.statement.empty())
    text += paragraph("Proof: ", result.proof.statement, options);
  if (!what.every_reason || s.infeasible.empty()) return text;
  return text + '\n' + reasons_table(s, options);
}

std::string search_report(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                          const SearchResult& result, const SearchTextOptions& what,
                          const TextOptions& options) {
  // The subject has no single strategy: only the workload and the number of devices count.
  std::string text = subject_text(m, c, request.base, options);
  if (!what.note.empty()) text += paragraph("", what.note, options);
  text += '\n';
  if (request.ignore_activations) {
    text += paragraph("warning: ",
                      "activations and buffers are not counted, as in rules of thumb: "
                      "plans listed here may not fit",
                      options) +
            '\n';
  }
  if (result.plans.empty()) {
    text += none_text(request, result, c, what, options);
    return text + '\n' + search_text(result, what, options);
  }
  const PlanCost& best = result.plans.front();
  text += answer_text(best, c, request, options);
  for (const std::string& warning : best.warnings) text += paragraph("warning: ", warning, options);
  if (what.runnable != nullptr) text += runnable_text(*what.runnable, options);
  text += alternatives_text(what.alternatives, options);
  text += '\n' + plan_table(result, c, options, what.goodput);
  text += expert_load_text(m, c, best, options) + lengths_text(m, c, best, options);
  const std::vector<std::string> reasons = explain(m, c, result, what.rivals);
  if (!reasons.empty()) text += '\n' + emphasised("Why", Emphasis::kHeading, options) + '\n';
  for (const std::string& reason : reasons) text += paragraph("- ", reason, options);
  return text + '\n' + search_text(result, what, options);
}

}  // namespace meshplan
