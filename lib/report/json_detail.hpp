#pragma once
// What a report shows beyond the numbers of a plan: when every pipeline rank does what, where the
// ranks sit, and how the plans of the space spread; private to this library.
#include <span>

#include "cost/timeline.hpp"
#include "report/json_value.hpp"
#include "search/survey.hpp"

namespace meshplan {

// Tasks kept, over all ranks: more are cut out of the middle of the step, where the schedule
// repeats itself.
inline constexpr std::size_t kMostTasks = 6000;

[[nodiscard]] Json timeline_json(const StepTimeline& t, std::size_t most_tasks = kMostTasks);

// Nodes with the ranks on them and their positions along each axis. Of more nodes than a picture
// holds, those that rank 0 talks to.
[[nodiscard]] Json rank_map_json(const Strategy& s, const ClusterSpec& c);

[[nodiscard]] Json evaluated_plans_json(std::span<const SurveyedPlan> all, Bytes capacity);

}  // namespace meshplan
