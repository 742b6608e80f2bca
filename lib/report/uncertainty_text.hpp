#pragma once
// How sure a prediction is, in words: the interval of a step time, the chance of running out of
// memory, and plans whose order the predictions cannot tell.
#include <string>

#include "cost/uncertainty.hpp"
#include "report/table.hpp"
#include "search/groups.hpp"
#include "search/search.hpp"
#include "spec/cluster.hpp"
#include "study/alternatives.hpp"
#include "study/runnable.hpp"

namespace meshplan {

// "1.24 s, in four runs of five between 1.10 s and 1.50 s (from ...)".
[[nodiscard]] std::string step_time_text(const PlanCost& p, const ClusterSpec& c);

// "3 %": a chance without more digits than it deserves.
[[nodiscard]] std::string chance_text(double probability);

// "3 %: the peak lies between ... in four runs of five; activations that grow by 25 % tip it".
[[nodiscard]] std::string out_of_memory_text(const MemoryBreakdown& m);

// The best plan that the framework can run: its time, its command-line form.
[[nodiscard]] std::string runnable_text(const RunnablePlan& runnable, const TextOptions& options);

// What more risk of running out of memory, or what no framework has built yet, would bring: a line
// each, of those that were looked for.
[[nodiscard]] std::string alternatives_text(const Alternatives& all, const TextOptions& options);

// What to measure so that the time of this term is known.
[[nodiscard]] std::string_view how_to_measure(Seconds TimeTerms::*term);

// Groups whose plan is practically tied with the first, and what would separate them; empty if none
// is.
[[nodiscard]] std::string tied_text(const SearchResult& result,
                                    const std::vector<PlanGroup>& groups,
                                    const TextOptions& options);

}  // namespace meshplan
