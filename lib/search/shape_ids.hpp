#pragma once
// A small number for each shape of group, so that keys of caches can tell them apart.
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <vector>

#include "layout/groups.hpp"

namespace meshplan {

class ShapeIds {
 public:
  explicit ShapeIds(const ClusterSpec& c) : cluster_(c) {}

  // Shared by threads; the numbers depend on who asks first and mean nothing else.
  std::int64_t id(const Strategy& s, Group g);

 private:
  const ClusterSpec& cluster_;
  std::shared_mutex mutex_;
  std::map<std::vector<std::int64_t>, std::int64_t> known_;
};

}  // namespace meshplan
