#pragma once
// What a report shows beyond the numbers of its plans.
#include <optional>
#include <vector>

#include "cost/timeline.hpp"
#include "search/survey.hpp"

namespace meshplan {

struct PlanDetail {
  std::vector<SurveyedPlan> surveyed;    // empty: not looked at
  std::optional<StepTimeline> timeline;  // of the best plan; none where nothing fits
};

// Chunks times microbatches of a step that is shown: each is two tasks or three and a message each
// way. Nobody can look at more, and as a trace they take 42 MB.
inline constexpr std::int64_t kMostPasses = 64'000;

// Costs a few hundred plans more than the search did. A step of more than kMostPasses gets no
// timeline.
[[nodiscard]] PlanDetail plan_detail(const ModelSpec& m, const ClusterSpec& c,
                                     const SearchRequest& request, const SearchResult& result);

// The timeline alone; `s` must be legal and complete.
[[nodiscard]] std::optional<StepTimeline> timeline_of(const ModelSpec& m, const ClusterSpec& c,
                                                      const Strategy& s);

}  // namespace meshplan
