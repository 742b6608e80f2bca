#include "search/pipeline_bounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "partition/division_bound.hpp"

namespace meshplan {

double PipelineBounds::least(const Strategy& s, const BlockCosts& blocks, const LayerPrefix& prefix,
                             double limit) {
  const Key key{static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(&blocks)), s.pp, s.vp,
                static_cast<std::int64_t>(s.schedule), num_microbatches(s)};
  Part& part = parts_[IntegerKeyHash<5>()(key) % kParts];
  {
    const std::lock_guard lock(part.mutex);
    const auto it = part.known.find(key);
    if (it != part.known.end() && (std::isfinite(it->second.least) || limit <= it->second.limit)) {
      return it->second.least;
    }
  }
  const double least = division_bound(model_, s, blocks, prefix, limit);
  const std::lock_guard lock(part.mutex);
  Known& known = part.known[key];
  known.least = least;
  known.limit = std::max(known.limit, limit);
  return least;
}

}  // namespace meshplan
