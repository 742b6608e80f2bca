#include "launch/imported_run.hpp"

#include <algorithm>

namespace meshplan {

Strategy with_world(const ImportedRun& run, std::int64_t world_size) {
  Strategy s = run.strategy;
  if (world_size > 0 && !run.states_dp)
    s.dp = world_size / std::max<std::int64_t>(s.tp * s.pp * s.cp, 1);
  if (run.accumulation > 0) {
    s.global_batch = s.micro_batch * run.accumulation * std::max<std::int64_t>(s.dp, 1);
  }
  if (run.replicas > 1) s.zero_group = s.dp * s.cp / run.replicas;
  return s;
}

std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& layers, std::int64_t each) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : layers) counts.push_back(count / std::max<std::int64_t>(each, 1));
  return counts;
}

}  // namespace meshplan
