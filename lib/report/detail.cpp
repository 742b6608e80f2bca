#include "report/detail.hpp"

#include <algorithm>

#include "cost/chunks.hpp"

namespace meshplan {

std::optional<StepTimeline> timeline_of(const ModelSpec& m, const ClusterSpec& c,
                                        const Strategy& s) {
  if (num_microbatches(s) > kMostPasses / num_chunks(pipeline_shape(s))) return std::nullopt;
  return step_timeline(m, c, s);
}

namespace {

// A drawn strategy costs what some dozens of the search's nodes do: what is shown beside the plans
// must not take longer than finding them.
std::size_t num_surveyed(const SearchResult& result) {
  constexpr std::int64_t kFewest = 60, kMost = 240, kNodesEach = 128;
  return static_cast<std::size_t>(std::clamp(result.statistics.nodes / kNodesEach, kFewest, kMost));
}

}  // namespace

PlanDetail plan_detail(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                       const SearchResult& result) {
  PlanDetail detail;
  detail.surveyed = survey(m, c, request, result, num_surveyed(result));
  if (!result.plans.empty()) detail.timeline = timeline_of(m, c, result.plans.front().strategy);
  return detail;
}

}  // namespace meshplan
