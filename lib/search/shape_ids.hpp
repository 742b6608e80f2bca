#pragma once
// A small number for each shape of group, so that keys of caches can tell them apart.
#include <array>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "layout/groups.hpp"
#include "search/key_hash.hpp"

namespace meshplan {

class ShapeIds {
 public:
  explicit ShapeIds(const ClusterSpec& c) : cluster_(c) {}

  // Shared by threads; the numbers depend on who asks first and mean nothing else.
  std::int64_t id(const Strategy& s, Group g);

 private:
  const ClusterSpec& cluster_;
  using Axes = std::array<std::int64_t, 8>;  // what a group's shape depends on

  std::shared_mutex mutex_;
  std::unordered_map<Axes, std::int64_t, KeyHash<8>> known_;
  std::map<std::vector<std::int64_t>, std::int64_t> ids_;
};

}  // namespace meshplan
