#pragma once
// Which division of layers a candidate is given first, by stage times alone.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition/stages.hpp"
#include "spec/division_rules.hpp"

namespace meshplan {

// The better of two divisions as partition.hpp ranks them: [F-SEARCH-1].
[[nodiscard]] bool ranks_before(const Division& a, const Division& b, std::int64_t weight);

// The division of layers that the rule picks by stage times: [F-SEARCH-1]. Nothing if none
// fits, or none of those that do lets a step take `most` seconds or less.
struct Divided {
  std::optional<Stages::Lists> lists;
  bool fits = false;  // whether some division does, as far as that was looked at
};
[[nodiscard]] Divided divide(StageContext context, const DivisionRules& rules, double most);

}  // namespace meshplan
