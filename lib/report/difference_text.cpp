#include "report/difference_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/estimate_text.hpp"
#include "report/terms.hpp"

namespace meshplan {
namespace {

std::string signed_fixed(double value, int decimals) {
  const std::string text = fixed(std::abs(value), decimals);
  const bool zero = text.find_first_not_of("0.") == std::string::npos;
  return (zero ? "" : value < 0 ? "-" : "+") + text;
}

// "12.3 % slower", "as fast", "3.1 % faster".
std::string against(Seconds time, Seconds reference) {
  const double ratio = time / reference - 1;
  if (std::abs(ratio) < 0.0005) return "as fast";
  return human_percent(std::abs(ratio)) + (ratio > 0 ? " slower" : " faster");
}

bool is_illegal(const Verdict& v) {
  return !v.feasible() && v.infeasible().reason == InfeasibleReason::kIllegal;
}

std::string verdict_cell(const Verdict& v, Seconds reference) {
  if (v.feasible()) {
    return human_time(v.cost().step_time) + ", " + against(v.cost().step_time, reference);
  }
  if (is_illegal(v)) return "illegal";
  return "does not fit (" + human_bytes(v.infeasible().shortfall) + " are missing)";
}

std::string fit_sentence(const Difference& d) {
  if (d.verdict.feasible()) return {};
  return "it does not fit: " + human_bytes(d.verdict.infeasible().shortfall) +
         " are missing; its times below are what it would take with more memory";
}

// "pipeline communication": the label of tables, written out.
std::string term_name(const TimeTermRow& row) {
  std::string name(row.label);
  constexpr std::string_view kShort = "comm.";
  if (name.ends_with(kShort)) name.replace(name.size() - 1, 1, "unication");
  return name;
}

// The terms in the order of what they add, as far as they matter.
std::string terms_sentence(const Difference& d) {
  std::vector<TimeTermRow> rows(kTimeTerms.begin(), kTimeTerms.end());
  std::stable_sort(rows.begin(), rows.end(), [&](const TimeTermRow& a, const TimeTermRow& b) {
    return std::abs((d.terms.*a.term).si()) > std::abs((d.terms.*b.term).si());
  });
  const double least = 0.001 * d.best.step_time.si();
  std::vector<std::string> parts;
  for (const TimeTermRow& row : rows) {
    const double t = (d.terms.*row.term).si();
    constexpr std::size_t kShown = 3;
    if (std::abs(t) < least || parts.size() == kShown) continue;
    parts.push_back(human_time(Seconds{std::abs(t)}) + (t > 0 ? " more " : " less ") +
                    term_name(row));
  }
  if (parts.empty()) return "its step takes as long as the best plan's";
  return "its step is " + against(d.cost->step_time, d.best.step_time) + ": " + join_words(parts);
}

std::string keys_text(const KeyChange& change) {
  return join_words(change.keys, " and ") + " of the best plan";
}

std::string key_sentence(const Difference& d) {
  if (d.changes.empty()) return "no key differs from the best plan's";
  const KeyChange& most = d.changes.front();
  if (!most.verdict.feasible()) {
    return "no single change makes it fit: more than one key has to change";
  }
  const Seconds now = d.cost->step_time, then = most.verdict.cost().step_time;
  if (d.verdict.feasible() && against(now, d.best.step_time) == "as fast") {
    return "what its keys change weighs nothing";
  }
  if (d.verdict.feasible() && then >= now) {
    return "no single key of the best plan helps: they have to change together";
  }
  return "what helps most is " + keys_text(most) + ": then it " +
         (d.verdict.feasible() ? "" : "fits and ") + "takes " + human_time(then) + ", " +
         against(then, d.best.step_time) +
         (against(then, d.best.step_time) == "as fast" ? " as the best plan"
                                                       : " than the best plan");
}

std::string term_table(const Difference& d, const TextOptions& options) {
  Table table({{"time of one step", Align::kLeft}, {"this"}, {"best"}, {"difference"}});
  for (const TimeTermRow& row : kTimeTerms) {
    const Seconds mine = d.cost->time.*row.term, best = d.best.time.*row.term;
    if (mine == Seconds{} && best == Seconds{}) continue;
    table.add_row({std::string(row.label), fixed(mine.si(), 4), fixed(best.si(), 4),
                   signed_fixed((d.terms.*row.term).si(), 4)});
  }
  table.add_row({"step, seconds", fixed(d.cost->step_time.si(), 4), fixed(d.best.step_time.si(), 4),
                 signed_fixed(d.step_time.si(), 4)});
  if (d.cost->like_runs.any() || d.best.like_runs.any()) {
    const double mine = d.cost->expected_time().si(), best = d.best.expected_time().si();
    table.add_row(
        {"by runs like it", fixed(mine, 4), fixed(best, 4), signed_fixed(mine - best, 4)});
  }
  return table.text(options);
}

std::string memory_difference(const Difference& d, const TextOptions& options) {
  Table table({{"memory of the fullest rank", Align::kLeft}, {"this"}, {"best"}, {"difference"}});
  const auto gib = [](Bytes n) { return n.si() / static_cast<double>(kGiB); };
  const std::vector<std::pair<Bytes MemoryBreakdown::*, std::string>> rows{
      {&MemoryBreakdown::weights, "weights"},     {&MemoryBreakdown::gradients, "gradients"},
      {&MemoryBreakdown::optimizer, "optimizer"}, {&MemoryBreakdown::activations, "activations"},
      {&MemoryBreakdown::buffers, "buffers"},     {&MemoryBreakdown::reserved, "reserved"},
      {&MemoryBreakdown::peak, "peak, GiB"}};
  for (const auto& [term, label] : rows) {
    const Bytes mine = d.cost->memory().*term, best = d.best.memory().*term;
    table.add_row(
        {label, fixed(gib(mine), 2), fixed(gib(best), 2), signed_fixed(gib(mine) - gib(best), 2)});
  }
  return table.text(options);
}

std::string change_table(const Difference& d, const TextOptions& options) {
  Table table({{"taken from the best plan", Align::kLeft, true},
               {"then, against the best plan", Align::kLeft, true}});
  for (const KeyChange& change : d.changes) {
    table.add_row({join_words(change.keys), verdict_cell(change.verdict, d.best.step_time)});
  }
  return table.text(options);
}

}  // namespace

std::vector<std::string> difference_sentences(const Difference& d) {
  if (!d.cost) return {"it is illegal: " + d.verdict.infeasible().messages.front()};
  std::vector<std::string> sentences{fit_sentence(d), terms_sentence(d), key_sentence(d)};
  if (d.verdict.feasible() && d.step_time < Seconds{}) {
    sentences.push_back(
        "it beats the best plan of the search: it sets keys that the search leaves as they are");
  }
  std::erase(sentences, std::string());
  return sentences;
}

std::string difference_report(const ModelSpec& m, const ClusterSpec& c, const Difference& d,
                              const TextOptions& options) {
  std::string text = subject_text(m, c, d.best.strategy, options) + '\n';
  text += "This: " + strategy_line(d.given) + "Best: " + strategy_line(d.best.strategy) + '\n';
  if (!d.cost) return text + infeasible_text(d.verdict, options);
  for (const std::string& sentence : difference_sentences(d)) {
    text += paragraph("- ", sentence, options);
  }
  text += '\n' + term_table(d, options) + '\n' + memory_difference(d, options);
  if (!d.changes.empty()) text += '\n' + change_table(d, options);
  if (d.verdict.feasible()) return text;
  const Infeasible& no = d.verdict.infeasible();
  if (!no.remedies.empty()) text += "\nWhat would make it fit, cheapest first:\n";
  for (std::size_t i = 0; i < no.remedies.size(); ++i) {
    text += paragraph("  " + std::to_string(i + 1) + ". ", no.remedies[i], options);
  }
  return text;
}

}  // namespace meshplan
