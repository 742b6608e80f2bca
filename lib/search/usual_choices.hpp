#pragma once
// Choices that nearly all good plans make alike: a first pass looks at nothing else. Where a list
// has no usual choice, all of its choices count as usual.
#include <cstdint>
#include <vector>

#include "space/space.hpp"

namespace meshplan {

// Sequence parallelism wherever there is tensor parallelism, experts not split over its ranks.
[[nodiscard]] bool is_usual(const std::vector<Split>& all, const Split& split, std::int64_t tp);
// A schedule that many frameworks have.
[[nodiscard]] bool is_usual(const std::vector<ScheduleChoice>& all, const ScheduleChoice& choice);
// ZeRO-1 or 3 over all replicas, in the default order of ranks.
[[nodiscard]] bool is_usual(const std::vector<Sharding>& all, const Sharding& sharding);

}  // namespace meshplan
