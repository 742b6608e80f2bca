#include "search/shape_ids.hpp"

#include <mutex>

namespace meshplan {

std::int64_t ShapeIds::id(const Strategy& s, Group g) {
  const GroupShape shape = group_shape(s, cluster_, g);
  std::vector<std::int64_t> flat{shape.size, shape.stride, static_cast<std::int64_t>(shape.level)};
  for (std::size_t l = 0; l < shape.num_levels; ++l) {
    flat.insert(flat.end(), {shape.within[l], shape.blocks[l], shape.fewest[l]});
  }
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = known_.find(flat); it != known_.end()) return it->second;
  }
  const std::unique_lock lock(mutex_);
  const auto next = static_cast<std::int64_t>(known_.size());
  return known_.try_emplace(std::move(flat), next).first->second;
}

}  // namespace meshplan
