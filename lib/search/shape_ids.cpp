#include "search/shape_ids.hpp"

namespace meshplan {

std::int64_t ShapeIds::id(const Strategy& s, Group g) {
  auto layout = static_cast<std::int64_t>(g);
  for (const Axis axis : s.order) layout = layout * 8 + static_cast<std::int64_t>(axis);
  return by_axes_.get({s.tp, s.pp, s.cp, s.dp, s.ep, s.etp, s.zero_group, layout}, [&] {
    const GroupShape shape = group_shape(s, cluster_, g);
    std::vector<std::int64_t> flat{shape.size, shape.stride,
                                   static_cast<std::int64_t>(shape.level)};
    for (std::size_t l = 0; l < shape.num_levels; ++l) {
      flat.insert(flat.end(), {shape.within[l], shape.blocks[l], shape.fewest[l]});
    }
    const std::lock_guard lock(mutex_);
    const auto next = static_cast<std::int64_t>(by_shape_.size());
    return by_shape_.try_emplace(std::move(flat), next).first->second;
  });
}

}  // namespace meshplan
