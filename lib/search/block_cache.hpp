#pragma once
// Block costs by the keys that they depend on, each computed once and shared by all threads.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "cost/block.hpp"
#include "search/choice.hpp"

namespace meshplan {

class BlockCache {
 public:
  BlockCache(const ModelSpec& m, const ClusterSpec& c) : model_(m), cluster_(c) {}

  // Without the communication tables, which a search has no use for. `base`: which of the search's
  // bases `s` was made from. The reference stays good.
  const BlockCosts& costs(const Strategy& s, std::size_t base);

  [[nodiscard]] std::size_t size() const;

 private:
  using Key = std::array<std::int64_t, 18>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  Key key_of(const Strategy& s, std::size_t base);
  // A small number for each shape of group.
  std::int64_t shape_id(const GroupShape& shape);

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<const BlockCosts>, KeyHash> costs_;
  std::map<std::vector<std::int64_t>, std::int64_t> shapes_;
};

}  // namespace meshplan
