#include "report/plan_table.hpp"

#include "base/text.hpp"
#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "report/estimate_text.hpp"
#include "report/rates.hpp"
#include "report/uncertainty_text.hpp"

namespace meshplan {
namespace {

// "77%": a percent sign without a space, as narrow columns need it.
std::string percent(double ratio, int decimals) { return fixed(100 * ratio, decimals) + "%"; }

std::string memory_cell(const MemoryBreakdown& m) {
  const double share = m.capacity.count() > 0 ? m.peak.si() / m.capacity.si() : 0;
  return human_bytes(m.peak) + " " + percent(share, 0);
}

std::string oom_cell(const MemoryBreakdown& m) {
  const double p = out_of_memory_probability(m);
  return p < 0.01 ? "<1%" : p > 0.99 ? ">99%" : percent(p, 0);
}

std::string count_of(std::int64_t n, const std::string& what) {
  return with_thousands(n) + " " + what;
}

std::string miss_text(const SearchResult& result, const TextOptions& options) {
  if (!result.closest_miss || !result.closest_strategy) return {};
  return "The closest miss:\n" + strategy_line(*result.closest_strategy) + '\n' +
         infeasible_text(*result.closest_miss, options);
}

}  // namespace

std::string plan_table(const SearchResult& result, const ClusterSpec& c, const TextOptions& options,
                       std::span<const Goodput> goodput) {
  const bool failures = goodput.size() == result.plans.size() && !goodput.empty();
  std::vector<Column> columns{{"#"},    {"strategy", Align::kLeft, true},
                              {"step"}, {"tok/s/GPU"},
                              {"MFU"},  {"memory"},
                              {"OOM"},  {"bubble"},
                              {"comm"}};
  if (failures) columns.insert(columns.begin() + 4, {"goodput"});
  Table table(columns, failures ? 1 : 2);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const PlanCost& p = result.plans[i];
    const double comm = exposed_communication(p.time) / p.step_time;
    const bool tied = i > 0 && practically_tied(result.plans.front(), p);
    std::vector<std::string> row{
        std::to_string(i + 1) + (tied ? "=" : ""), short_text(p.strategy), human_time(p.step_time),
        with_thousands(static_cast<std::int64_t>(rates(p, c).tokens_per_s_per_gpu))};
    if (failures) {
      const double each = goodput[i].tokens_per_s / static_cast<double>(num_gpus(p.strategy));
      row.push_back(with_thousands(static_cast<std::int64_t>(each)));
    }
    row.insert(row.end(), {percent(p.mfu, 1), memory_cell(p.memory()), oom_cell(p.memory()),
                           percent(p.bubble_fraction, 1), percent(comm, 1)});
    table.add_row(std::move(row));
  }
  const std::string legend =
      "memory: peak of the fullest pipeline rank, and its share of what the device offers; OOM: "
      "probability of running out of it; comm: communication that nothing hides";
  return table.text(options) +
         paragraph("", legend + (failures ? "; goodput: tok/s/GPU that failures leave" : ""),
                   options) +
         tied_text(result, options);
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
  Table reasons({{"ruled out because", Align::kLeft, true}, {"strategies"}});
  for (const auto& [reason, count] : s.infeasible) {
    reasons.add_row({reason, with_thousands(count)});
  }
  return text + '\n' + reasons.text(options);
}

std::string search_report(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                          const SearchResult& result, const SearchTextOptions& what,
                          const TextOptions& options) {
  // The subject has no single strategy: only the workload and the number of devices count.
  std::string text = subject_text(m, c, request.base, options) + '\n';
  if (request.ignore_activations) {
    text += paragraph("warning: ",
                      "activations and buffers are not counted, as in rules of thumb: "
                      "plans listed here may not fit",
                      options) +
            '\n';
  }
  if (result.plans.empty()) {
    // A search that was stopped has not seen everything.
    const std::string_view found =
        result.proof.exact ? "No plan fits." : "No plan was found in time.";
    text += emphasised(found, Emphasis::kBad, options) + '\n' + miss_text(result, options);
    return text + '\n' + search_text(result, what, options);
  }
  text += plan_table(result, c, options, what.goodput) + '\n';
  const PlanCost& best = result.plans.front();
  text += "Best:\n" + strategy_line(best.strategy);
  for (const std::string& warning : best.warnings) text += paragraph("warning: ", warning, options);
  const PlanCost* start = &best;
  if (what.runnable != nullptr) {
    text += runnable_text(*what.runnable, options);
    if (what.runnable->plan) start = &*what.runnable->plan;
  }
  if (what.safer != nullptr) text += safer_text(*what.safer, *start, options);
  text += expert_load_text(m, c, best, options);
  const std::vector<std::string> reasons = explain(m, c, result);
  if (!reasons.empty()) text += '\n' + emphasised("Why", Emphasis::kHeading, options) + '\n';
  for (const std::string& reason : reasons) text += paragraph("- ", reason, options);
  return text + '\n' + search_text(result, what, options);
}

}  // namespace meshplan
