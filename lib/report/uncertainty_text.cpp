#include "report/uncertainty_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "base/text.hpp"
#include "cost/order.hpp"
#include "report/estimate_text.hpp"
#include "report/terms.hpp"

namespace meshplan {
namespace {

struct Measurement {
  Seconds TimeTerms::*term;
  std::string_view text;
};

constexpr std::array kMeasurements{
    Measurement{&TimeTerms::compute, "one layer's forward and backward pass as each plan cuts it"},
    Measurement{&TimeTerms::recompute, "the forward pass that recomputation repeats"},
    Measurement{&TimeTerms::tp_comm_exposed,
                "the tensor-parallel collectives beside their products"},
    Measurement{&TimeTerms::cp_comm_exposed, "the context-parallel exchange beside attention"},
    Measurement{&TimeTerms::ep_comm_exposed, "the all-to-all of the experts"},
    Measurement{&TimeTerms::pp_comm_exposed, "the sends between pipeline ranks"},
    Measurement{&TimeTerms::pp_bubble, "each pipeline rank's forward and backward pass"},
    Measurement{&TimeTerms::dp_comm_exposed, "the gradient reduction and the parameter gathers"},
    Measurement{&TimeTerms::optimizer, "the optimizer step"},
    Measurement{&TimeTerms::uneven,
                "steps of one rank with its longest and its shortest documents"},
    Measurement{&TimeTerms::other, "the host's launches, in a profile of a few steps"}};

std::string extrapolation_text(const Extrapolation& beyond) {
  std::vector<std::string> reasons;
  if (beyond.device) reasons.emplace_back("device");
  if (beyond.framework) reasons.emplace_back("framework");
  if (beyond.doublings > 0) reasons.emplace_back("number of devices");
  if (reasons.empty()) return {};
  return ", widened: no published run has this " + join_words(reasons, " or ");
}

std::string term_label(Seconds TimeTerms::*term) {
  return std::string(row_of(kTimeTerms, term).label);
}

// Memory tables' headers are cut short; sentences are not.
std::string tipping_text(const TippingTerm& tipping) {
  const auto is = [&](Bytes MemoryBreakdown::*term) { return tipping.term == term; };
  if (is(&MemoryBreakdown::activations)) return "activations";
  if (is(&MemoryBreakdown::buffers)) return "buffers";
  if (is(&MemoryBreakdown::communicators)) return "NCCL's buffers";
  if (is(&MemoryBreakdown::context)) return "the driver's context";
  return "fragmentation";
}

// How a step time compares with that of the first plan.
std::string slower_text(double slowdown) {
  const double slower = slowdown - 1;
  return slower < 0.0005 ? "no slower" : fixed(100 * slower, 1) + " % slower";
}

}  // namespace

std::string step_time_text(const PlanCost& p, const ClusterSpec& c) {
  const StepTimeInterval interval = step_time_interval(c, p);
  const Extrapolation beyond = extrapolation_of(c, p);
  const std::string expected =
      p.like_runs.any() ? ", " + human_time(p.expected_time()) + " by runs like it" : "";
  return human_time(p.step_time) + expected + ", in four runs of five between " +
         human_time(interval.low) + " and " + human_time(interval.high) + " (from " +
         std::string(description_of(regime_of(p))) + extrapolation_text(beyond) + ")";
}

std::string chance_text(double probability) {
  if (probability < 0.01) return "under 1 %";
  if (probability > 0.99) return "over 99 %";
  return fixed(100 * probability, 0) + " %";
}

std::string out_of_memory_text(const MemoryBreakdown& m) {
  const MemoryInterval interval = memory_interval(m);
  std::string text = chance_text(out_of_memory_probability(m)) +
                     " likely; in four runs of five the peak lies between " +
                     human_bytes(interval.low) + " and " + human_bytes(interval.high);
  const TippingTerm tipping = tipping_term(m);
  if (tipping.growth > 0)
    text += "; " + tipping_text(tipping) + " would tip it, " +
            (tipping.growth < 1 ? fixed(100 * tipping.growth, 0) + " % larger"
                                : fixed(1 + tipping.growth, 1) + " times as large");
  return text;
}

std::string runnable_text(const RunnablePlan& runnable, const TextOptions& options) {
  const std::string space = "'--space " + std::string(name_of(runnable.space)) + "'";
  if (!runnable.plan) {
    const std::string none = runnable.exact ? "There is none of " : "None was found yet of ";
    return paragraph("", none + space + ".", options);
  }
  const std::string best = runnable.exact ? "The best plan of " : "The best plan found of ";
  return paragraph("",
                   best + space + " takes " + human_time(runnable.plan->step_time) + ", " +
                       slower_text(runnable.slowdown) + ":",
                   options) +
         strategy_line(runnable.plan->strategy);
}

namespace {

// "12.6 s, 2.4 % faster than the recommended one"
std::string gain_text(const Alternative& a) {
  const std::string time = human_time(a.plan->step_time) + " a step";
  return a.slowdown ? time + ", " + human_percent(1 - *a.slowdown) + " faster" : time;
}

// What no table would show is nothing.
bool is_faster(const Alternative& a) {
  constexpr double kSeen = 0.0005;  // what one decimal of a percentage shows
  return a.plan && (!a.slowdown || *a.slowdown < 1 - kSeen);
}

std::string stopped_text(const Alternative& a) {
  return a.exact ? "" : " (not searched to the end)";
}

}  // namespace

std::string alternatives_text(const Alternatives& all, const TextOptions& options) {
  std::string text;
  if (all.fastest && is_faster(*all.fastest)) {
    const Alternative& a = *all.fastest;
    text += paragraph("- ",
                      "with more risk: " + gain_text(a) + ", " + chance_text(a.out_of_memory) +
                          " likely to run out of memory: " + short_text(a.plan->strategy) +
                          " (--memory-risk 1)" + stopped_text(a),
                      options);
  } else if (all.fastest) {
    text += paragraph("- ", "with more risk: nothing faster" + stopped_text(*all.fastest), options);
  }
  if (all.unbuilt && is_faster(*all.unbuilt)) {
    const Alternative& a = *all.unbuilt;
    text += paragraph("- ",
                      "what no framework has built yet: " + gain_text(a) + ": " +
                          short_text(a.plan->strategy) + " (--space full)" + stopped_text(a),
                      options);
  } else if (all.unbuilt) {
    text += paragraph(
        "- ", "what no framework has built yet: nothing faster" + stopped_text(*all.unbuilt),
        options);
  }
  return text;
}

std::string_view how_to_measure(Seconds TimeTerms::*term) {
  for (const Measurement& row : kMeasurements) {
    if (row.term == term) return row.text;
  }
  PLAN_CHECK(false);
}

std::string tied_text(const SearchResult& result, const std::vector<PlanGroup>& groups,
                      const TextOptions& options) {
  std::string text;
  for (std::size_t g = 1; g < groups.size(); ++g) {
    const std::size_t i = groups[g].first;
    const PlanCost& best = result.plans.front();
    const PlanCost& other = result.plans[i];
    if (!practically_tied(best, other)) continue;
    const double first = probability_faster(best, other);
    const auto term = separating_term(best, other);
    const std::string number = std::to_string(i + 1);
    text += paragraph("  1 and " + number + ": ",
                      "plan 1 is faster with " + chance_text(first) + "; they differ most in " +
                          term_label(term) + " (" + human_time(best.time.*term) + " against " +
                          human_time(other.time.*term) + "): measure " +
                          std::string(how_to_measure(term)),
                      options);
  }
  if (text.empty()) return text;
  return paragraph(
             "",
             "=: practically tied with plan 1. Of measured pairs that differ as little, fewer "
             "than four in five ran in the predicted order. To separate them:",
             options) +
         text;
}

}  // namespace meshplan
