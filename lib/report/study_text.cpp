#include "report/study_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/rates.hpp"

namespace meshplan {
namespace {

std::string heading(std::string_view text, const TextOptions& options) {
  return '\n' + emphasised(text, Emphasis::kHeading, options) + '\n';
}

std::string change_text(double ratio) {
  const std::string text = narrow_percent(ratio, 1);
  if (text == "-0.0%" || text == "0.0%") return "0.0%";
  return (ratio > 0 ? "+" : "") + text;
}

std::string usd(double value) {
  return value < 1 ? fixed(value, 4) : value < 1000 ? fixed(value, 2) : rounded(value);
}

std::string price_cell(const PlanCost& p, const ClusterSpec& c) {
  const Rates r = rates(p, c);
  return r.usd_per_step ? usd(*r.usd_per_step) : "";
}

std::string gpus_text(std::int64_t n) { return with_thousands(n) + (n == 1 ? " GPU" : " GPUs"); }

std::string knee_text(const Sweep& sweep, const TextOptions& options) {
  if (!sweep.knee) return paragraph("", "No size has a plan that fits.", options);
  const SweepPoint& knee = sweep.points[*sweep.knee];
  std::string text = "Knee: " + gpus_text(knee.gpus) +
                     ", where efficiency over step time is largest (Eager, Zahorjan and Lazowska "
                     "1989)";
  const bool beyond =
      std::any_of(sweep.points.begin() + static_cast<std::ptrdiff_t>(*sweep.knee) + 1,
                  sweep.points.end(), [](const SweepPoint& p) { return p.fits(); });
  text += beyond ? "; beyond it more GPUs cost more than they gain."
                 : ": the largest size asked for, so more GPUs may still pay.";
  if (sweep.recommended == sweep.knee || !sweep.recommended) return paragraph("", text, options);
  const SweepPoint& cheapest = sweep.points[*sweep.recommended];
  return paragraph("", text, options) +
         paragraph("",
                   "Cheapest: " + gpus_text(cheapest.gpus) +
                       ", whose step takes the fewest GPU-hours; the plans shown are for it.",
                   options);
}

// Sizes before the first that fits, which take one row together.
std::size_t leading_misses(const Sweep& sweep) {
  const auto fits = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [](const auto& p) { return p.fits(); });
  const auto stopped =
      std::find_if(sweep.points.begin(), fits, [](const auto& p) { return !p.result.proof.exact; });
  return static_cast<std::size_t>(stopped - sweep.points.begin());
}

// What of a change is worth a cell: the time per token against the base.
std::string kept_cell(const Change& change, const PlanCost& base) {
  if (!change.kept) return change.kept_is_legal ? "no fit" : "illegal";
  return change_text(relative_change(*change.kept, base));
}

std::string replanned_cell(const Change& change, const PlanCost& base) {
  if (!change.best) return "no fit ";
  return change_text(relative_change(*change.best, base)) + (change.same_choice ? " " : "*");
}

std::string row_name(const SensitivityRow& row, const PlanCost& base) {
  if (row.less.scenario.lever != Lever::kBatch) return row.name;
  const auto batch = [&](const Change& change) {
    return with_thousands(
        std::llround(static_cast<double>(base.strategy.global_batch) * change.scenario.factor));
  };
  return row.name + " (" + batch(row.less) + ", " + batch(row.more) + ")";
}

std::string factor_text(const Scenario& s) { return change_text(s.factor - 1); }

std::string reshard_text(const Reshard& r) {
  switch (r.kind) {
    case ReshardKind::kUnchanged:
      return "same shards";
    case ReshardKind::kAtLoad:
      return "at load";
    case ReshardKind::kOption:
      return "with option";
    case ReshardKind::kConverted:
      return "converted";
    case ReshardKind::kNo:
      return "no";
  }
  return {};
}

// One line per way of resharding that the book needs.
std::string reshard_notes(const FallbackBook& book, const TextOptions& options) {
  std::vector<std::string> notes;
  for (const Fallback& f : book.entries) {
    if (!f.plan || f.reshard.how.empty()) continue;
    std::string note =
        reshard_text(f.reshard) + ": " + f.reshard.how + " (" + f.reshard.source + ")";
    if (std::find(notes.begin(), notes.end(), note) == notes.end())
      notes.push_back(std::move(note));
  }
  std::string text;
  for (const std::string& note : notes) text += paragraph("- ", note, options);
  return text;
}

}  // namespace

std::string sizes_text(const Sweep& sweep, Objective objective) {
  const std::string range =
      with_thousands(sweep.points.front().gpus) + " to " + gpus_text(sweep.points.back().gpus);
  const std::string searched = "--gpus is not given: of " +
                               with_thousands(static_cast<std::int64_t>(sweep.points.size())) +
                               " sizes, " + range + ", ";
  if (!sweep.base || !sweep.recommended) return searched + "none has a plan that fits.";
  const std::string fewest = gpus_text(sweep.points[*sweep.base].gpus);
  const std::string why = objective == Objective::kCost
                              ? "whose step takes the fewest GPU-hours"
                              : "where efficiency over step time is largest";
  const SweepPoint& recommended = sweep.points[*sweep.recommended];
  return searched + "the smallest with a plan that fits is " + fewest + "; " +
         gpus_text(recommended.gpus) + (recommended.gpus == 1 ? " is" : " are") + " recommended, " +
         why + " (Sizes, below). --gpus N plans one size.";
}

std::string sweep_text(const Sweep& sweep, const ClusterSpec& c, const TextOptions& options) {
  const bool failures = std::any_of(sweep.points.begin(), sweep.points.end(),
                                    [](const SweepPoint& p) { return p.goodput.has_value(); });
  std::vector<Column> columns{
      {"GPUs"}, {"strategy", Align::kLeft, true}, {"step"}, {"tok/s/GPU"}, {"speedup"}, {"effic."}};
  if (failures) columns.push_back({"goodput"});
  if (c.usd_per_gpu_hour) columns.push_back({"USD/step"});
  Table table(columns, failures ? 1 : 2);
  const std::size_t misses = leading_misses(sweep);
  for (std::size_t i = misses > 1 ? misses - 1 : 0; i < sweep.points.size(); ++i) {
    const SweepPoint& p = sweep.points[i];
    std::vector<std::string> row{with_thousands(p.gpus)};
    if (misses > 1 && i + 1 == misses) {
      row.front() = with_thousands(sweep.points.front().gpus) + ".." + row.front();
    }
    if (!p.fits()) {
      row.push_back(p.result.proof.exact ? "nothing fits" : "nothing found yet");
      row.resize(columns.size());
      table.add_row(std::move(row));
      continue;
    }
    const PlanCost& plan = p.result.plans.front();
    row.insert(row.end(), {short_text(plan.strategy), human_time(plan.step_time),
                           rounded(rates(plan, c).tokens_per_s_per_gpu), fixed(p.speedup, 2),
                           narrow_percent(p.efficiency, 0)});
    if (failures) {
      row.push_back(p.goodput ? rounded(p.goodput->tokens_per_s / static_cast<double>(p.gpus))
                              : "");
    }
    if (c.usd_per_gpu_hour) row.push_back(price_cell(plan, c));
    table.add_row(std::move(row));
  }
  std::string legend = "effic.: of the smallest size that fits";
  if (failures) legend += "; goodput: tokens/s/GPU that failures leave, which speedups count";
  return table.text(options) + paragraph("", legend, options) + knee_text(sweep, options);
}

std::string pareto_text(const ParetoFront& front, const ClusterSpec& c,
                        const TextOptions& options) {
  if (front.points.empty()) return paragraph("", "Nothing fits.", options);
  std::vector<Column> columns{
      {"GPUs"}, {"strategy", Align::kLeft, true}, {"step"}, {"memory free"}};
  if (c.usd_per_gpu_hour) columns.push_back({"USD/step"});
  Table table(columns);
  for (const ParetoPoint& p : front.points) {
    const double share = p.headroom().si() / p.plan.memory().capacity.si();
    std::vector<std::string> row{with_thousands(p.gpus), short_text(p.plan.strategy),
                                 human_time(p.plan.step_time),
                                 human_bytes(p.headroom()) + " " + narrow_percent(share, 0)};
    if (c.usd_per_gpu_hour) row.push_back(price_cell(p.plan, c));
    table.add_row(std::move(row));
  }
  return table.text(options) +
         paragraph(
             "",
             std::string("No plan is at least as good as one of these in step time, free "
                         "memory and GPUs (and so in price) and better in one; plans within ") +
                 human_bytes(front.resolution) + " of memory of a listed one are left out" +
                 (front.exact ? "." : "; some searches were stopped early."),
             options);
}

std::string sensitivity_text(const Sensitivity& s, const TextOptions& options) {
  const std::string less = "-" + narrow_percent(s.share, 0),
                    more = "+" + narrow_percent(s.share, 0);
  Table table({{"time per token if", Align::kLeft, true},
               {less + " kept"},
               {"re-planned"},
               {more + " kept"},
               {"re-planned"}});
  std::vector<std::string> choices;
  const auto remember = [&](const std::string& name, const Change& change) {
    if (change.same_choice || !change.best) return;
    choices.push_back(name + " " + factor_text(change.scenario) + ": " +
                      short_text(change.best->strategy));
  };
  for (const SensitivityRow& row : s.rows) {
    table.add_row({row_name(row, s.base), kept_cell(row.less, s.base),
                   replanned_cell(row.less, s.base), kept_cell(row.more, s.base),
                   replanned_cell(row.more, s.base)});
    remember(row.name, row.less);
    remember(row.name, row.more);
  }
  std::string text = table.text(options);
  text += paragraph("",
                    choices.empty() ? "kept: the best plan as it is; re-planned: the best plan "
                                      "then. The choice never changes."
                                    : "kept: the best plan as it is; re-planned: the best plan "
                                      "then, * another choice:",
                    options);
  for (const std::string& choice : choices) text += paragraph("- ", choice, options);
  return text;
}

std::string fallback_text(const FallbackBook& book, const TextOptions& options) {
  if (book.entries.empty()) {
    return paragraph("", "One node: there is nothing to fall back to.", options);
  }
  Table table({{"lost"},
               {"left"},
               {"used"},
               {"strategy", Align::kLeft, true},
               {"step"},
               {"time"},
               {"checkpoint", Align::kLeft}});
  for (const Fallback& f : book.entries) {
    if (!f.plan) {
      table.add_row({with_thousands(f.nodes_lost), with_thousands(f.nodes_left), "", "nothing fits",
                     "", "", ""});
      continue;
    }
    table.add_row({with_thousands(f.nodes_lost), with_thousands(f.nodes_left),
                   with_thousands(f.nodes_used), short_text(f.plan->strategy),
                   human_time(f.plan->step_time), change_text(f.slowdown - 1),
                   reshard_text(f.reshard)});
  }
  return table.text(options) +
         paragraph("",
                   "lost, left, used: nodes; checkpoint: how that of the best plan reaches the "
                   "shards of this one",
                   options) +
         reshard_notes(book, options);
}

std::string goodput_text(const GoodputStudy& study, const TextOptions& options) {
  if (study.plans.empty()) return paragraph("", "Nothing fits.", options);
  const Goodput& g = study.plans.front();
  std::string text = "A failure every " + human_time(g.between_failures) + "; a checkpoint of " +
                     human_bytes(g.checkpoint_bytes) + " takes " + human_time(g.checkpoint_time) +
                     ". Best written every " + human_time(g.daly) +
                     " (Daly 2006; Young 1974: " + human_time(g.young) +
                     "), for the first plan every " + with_thousands(g.steps_per_checkpoint) +
                     (g.steps_per_checkpoint == 1 ? " step" : " steps") + ": " +
                     human_percent(g.shares.useful) + " of the time is useful, " +
                     human_percent(g.shares.checkpoint) + " goes into checkpoints, " +
                     human_percent(g.shares.lost) + " into lost steps and restarts. That leaves " +
                     rounded(g.tokens_per_s) + " tokens/s.";
  return paragraph("", text, options);
}

std::string studies_text(const Studies& studies, const ClusterSpec& c, const TextOptions& options) {
  std::string text;
  if (studies.goodput) {
    text += heading("With failures", options) + goodput_text(*studies.goodput, options);
  }
  if (studies.sweep) text += heading("Sizes", options) + sweep_text(*studies.sweep, c, options);
  if (studies.pareto) {
    text += heading("Pareto front", options) + pareto_text(*studies.pareto, c, options);
  }
  if (studies.sensitivity) {
    text += heading("Sensitivity", options) + sensitivity_text(*studies.sensitivity, options);
  }
  if (studies.fallback) {
    text += heading("Fallbacks", options) + fallback_text(*studies.fallback, options);
  }
  return text;
}

std::string maximum_text(const Maximum& maximum, const SearchRequest& request) {
  const bool length = maximum.key == MaximisedKey::kSeqLen;
  const std::string unit = length ? " tokens" : " sequences";
  const std::string what = length ? "the longest sequence" : "the largest microbatch";
  const std::string risk =
      request.memory_risk < 1
          ? " with at most " + short_percent(request.memory_risk) + " risk of running out of memory"
          : "";
  if (maximum.value == 0) {
    return what + ": not even " + with_thousands(maximum.least) + unit + " fit" + risk;
  }
  std::string text = what + " that fits" + risk + ": " + with_thousands(maximum.value) + unit;
  if (!maximum.next) return text + ", the most that was asked for";
  return text + "; with " + with_thousands(*maximum.next) + " no plan fits";
}

}  // namespace meshplan
