#pragma once
// What the best plan is compared with: the best plan of every decision that is taken otherwise.
#include <optional>
#include <string>
#include <vector>

#include "search/search.hpp"

namespace meshplan {

// The best plan with one key of the recommended one at another value. All other keys are searched
// anew: what is compared is what would be run then, not the recommended plan with one key bent.
struct Rival {
  std::string key, value;        // as strategies write them
  bool exact = true;             // the search ran to its end; else a better one may exist
  std::optional<PlanCost> plan;  // none: where exact, nothing with it that fits takes less than
                                 // kFarSlower times as long as the recommended plan
};

// Beyond this it is of no interest by how much.
inline constexpr double kFarSlower = 1.5;

// What all comparisons together may take.
struct RivalBudget {
  std::int64_t nodes = 0;       // as SearchStatistics counts them
  std::optional<Seconds> time;  // where the request limits it
};

// Half and twice the degrees, no pipeline, the other ZeRO stages and ways of recomputing, and the
// features that the plan makes use of, one at a time; keys that the request fixes are left out, and
// so are values that it excludes. Plans of the result answer first, then searches within the same
// space: of what is usual near the best plan, for every value, and then of everything while the
// budget lasts. Nothing of a search that was stopped.
[[nodiscard]] std::vector<Rival> rivals(const ModelSpec& m, const ClusterSpec& c,
                                        const SearchRequest& request, const SearchResult& result,
                                        const RivalBudget& budget, SearchCaches* caches = nullptr,
                                        const Progress& progress = {});

// What a comparison with the best plan may expand: an eighth of the nodes of the search itself, or
// a tenth of a second's.
[[nodiscard]] std::int64_t nodes_for_comparison(const SearchResult& result);
// A space that must be made from the rules costs about as much as so many nodes: more where the
// search's own is larger.
[[nodiscard]] std::int64_t nodes_of_space(const SearchResult& result);

// So many nodes, within what is left of the time.
[[nodiscard]] RivalBudget rival_budget(const SearchRequest& request, const SearchResult& result);

}  // namespace meshplan
