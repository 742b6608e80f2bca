#include "report/detail.hpp"

#include "cost/chunks.hpp"

namespace meshplan {

std::optional<StepTimeline> timeline_of(const ModelSpec& m, const ClusterSpec& c,
                                        const Strategy& s) {
  if (num_microbatches(s) > kMostPasses / num_chunks(pipeline_shape(s))) return std::nullopt;
  return step_timeline(m, c, s);
}

PlanDetail plan_detail(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                       const SearchResult& result) {
  constexpr std::size_t kMostSurveyed = 240;
  PlanDetail detail;
  detail.surveyed = survey(m, c, request, result, kMostSurveyed);
  if (!result.plans.empty()) detail.timeline = timeline_of(m, c, result.plans.front().strategy);
  return detail;
}

}  // namespace meshplan
