#include "search/block_cache.hpp"

namespace meshplan {

std::size_t BlockCache::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (const std::int64_t value : key) {
    hash ^= static_cast<std::uint64_t>(value);
    hash *= 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  }
  return hash;
}

std::int64_t BlockCache::shape_id(const GroupShape& shape) {
  std::vector<std::int64_t> flat{shape.size, shape.stride, static_cast<std::int64_t>(shape.level)};
  for (std::size_t l = 0; l < shape.num_levels; ++l) {
    flat.push_back(shape.within[l]);
    flat.push_back(shape.blocks[l]);
    flat.push_back(shape.fewest[l]);
  }
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = shapes_.find(flat); it != shapes_.end()) return it->second;
  }
  const std::unique_lock lock(mutex_);
  return shapes_.try_emplace(std::move(flat), static_cast<std::int64_t>(shapes_.size()))
      .first->second;
}

BlockCache::Key BlockCache::key_of(const Strategy& s, std::size_t base) {
  Key key{static_cast<std::int64_t>(base),
          s.tp,
          s.cp,
          s.cp > 1 ? static_cast<std::int64_t>(s.cp_kind) : 0,
          s.ep,
          s.etp,
          s.sequence_parallel ? 1 : 0,
          s.micro_batch,
          shape_id(group_shape(s, cluster_, Group::kTp)),
          shape_id(group_shape(s, cluster_, Group::kCp))};
  if (model_.moe) {
    key[10] = shape_id(group_shape(s, cluster_, Group::kEp));
    key[11] = shape_id(group_shape(s, cluster_, Group::kEtp));
  }
  if (s.zero >= 2) {
    key[12] = s.zero;
    key[13] = shard_group(s);
    key[14] = shape_id(group_shape(s, cluster_, Group::kZeroShard));
    key[15] = shape_id(group_shape(s, cluster_, Group::kZeroReplica));
    key[16] = shape_id(group_shape(s, cluster_, Group::kExpertDp));
  }
  return key;
}

const BlockCosts& BlockCache::costs(const Strategy& s, std::size_t base) {
  const Key key = key_of(s, base);
  {
    const std::shared_lock lock(mutex_);
    if (const auto it = costs_.find(key); it != costs_.end()) return *it->second;
  }
  auto made = std::make_unique<BlockCosts>(block_costs(model_, cluster_, s));
  for (BlockCost& block : *made) block.communication = {};
  const std::unique_lock lock(mutex_);
  return *costs_.try_emplace(key, std::move(made)).first->second;
}

std::size_t BlockCache::size() const {
  const std::shared_lock lock(mutex_);
  return costs_.size();
}

}  // namespace meshplan
