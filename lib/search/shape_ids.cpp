#include "search/shape_ids.hpp"

#include <mutex>

namespace meshplan {

std::int64_t ShapeIds::id(const Strategy& s, Group g) {
  std::int64_t order = static_cast<std::int64_t>(g);
  for (const Axis axis : s.order) order = order * 8 + static_cast<std::int64_t>(axis);
  const Axes axes{s.tp, s.pp, s.cp, s.dp, s.ep, s.etp, s.zero_group, order};
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = known_.find(axes); it != known_.end()) return it->second;
  }
  const GroupShape shape = group_shape(s, cluster_, g);
  std::vector<std::int64_t> flat{shape.size, shape.stride, static_cast<std::int64_t>(shape.level)};
  for (std::size_t l = 0; l < shape.num_levels; ++l) {
    flat.insert(flat.end(), {shape.within[l], shape.blocks[l], shape.fewest[l]});
  }
  const std::unique_lock lock(mutex_);
  const auto next = static_cast<std::int64_t>(ids_.size());
  const std::int64_t id = ids_.try_emplace(std::move(flat), next).first->second;
  return known_.try_emplace(axes, id).first->second;
}

}  // namespace meshplan
