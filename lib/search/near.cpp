#include "search/near.hpp"

#include <utility>

#include "base/units.hpp"

namespace meshplan {

void keep_near(SearchRequest& request, const Strategy& s, std::string_view open) {
  const std::pair<const char*, std::int64_t> degrees[] = {
      {"tp", s.tp}, {"pp", s.pp}, {"vp", s.vp},
      {"cp", s.cp}, {"ep", s.ep}, {"micro_batch", s.micro_batch}};
  for (const auto& [key, n] : degrees) {
    if (key == open) continue;
    request.limits.push_back({key, LimitOp::kAtMost, {2 * n}});
    request.limits.push_back({key, LimitOp::kAtLeast, {ceil_div(n, 2)}});
  }
}

}  // namespace meshplan
