#pragma once
// A small number for each shape of group, so that keys of memos can tell them apart.
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/shared_memo.hpp"
#include "layout/groups.hpp"

namespace meshplan {

class ShapeIds {
 public:
  explicit ShapeIds(const ClusterSpec& c) : cluster_(c) {}

  // The numbers depend on who asks first and mean nothing else.
  std::int64_t id(const Strategy& s, Group g);

 private:
  const ClusterSpec& cluster_;
  SharedMemo<8, std::int64_t> by_axes_;  // all that a group's shape depends on
  std::mutex mutex_;
  std::map<std::vector<std::int64_t>, std::int64_t> by_shape_;
};

}  // namespace meshplan
