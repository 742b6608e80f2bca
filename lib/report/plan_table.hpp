#pragma once
// Ranked plans and the search that found them, for people.
#include <span>
#include <string>

#include "report/table.hpp"
#include "search/rivals.hpp"
#include "search/search.hpp"
#include "study/alternatives.hpp"
#include "study/goodput.hpp"
#include "study/runnable.hpp"

namespace meshplan {

struct SearchTextOptions {
  bool every_reason = false;               // a line per reason instead of the total
  std::span<const Goodput> goodput = {};   // of each plan, where failures are counted
  const RunnablePlan* runnable = nullptr;  // where the best plan's framework cannot run it
  Alternatives alternatives = {};          // faster plans that the request does not ask for
  std::vector<Rival> rivals = {};          // what the best plan is compared with
  std::string note = {};                   // a paragraph below the subject; empty for none
};

// One row per decision, with the number of its variants: strategy, step time, throughput, memory of
// the fullest stage, what is idle.
[[nodiscard]] std::string plan_table(const SearchResult& result, const ClusterSpec& c,
                                     const TextOptions& options,
                                     std::span<const Goodput> goodput = {});

// What was searched, what was ruled out, and how far the answer is proved.
[[nodiscard]] std::string search_text(const SearchResult& result, const SearchTextOptions& what,
                                      const TextOptions& options);

// What to print for a search: table, warnings of the best plan, its command-line form, why it
// wins, the search itself; or, where nothing fits, the closest miss and the cheapest change.
[[nodiscard]] std::string search_report(const ModelSpec& m, const ClusterSpec& c,
                                        const SearchRequest& request, const SearchResult& result,
                                        const SearchTextOptions& what, const TextOptions& options);

}  // namespace meshplan
