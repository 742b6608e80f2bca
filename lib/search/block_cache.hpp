#pragma once
// Block costs by the keys that they depend on, each computed once and shared by all threads.
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "cost/block.hpp"
#include "search/choice.hpp"
#include "search/key_hash.hpp"
#include "search/shape_ids.hpp"

namespace meshplan {

class BlockCache {
 public:
  BlockCache(const ModelSpec& m, const ClusterSpec& c, ShapeIds& shapes)
      : model_(m), cluster_(c), shapes_(shapes) {}

  // Without the communication tables, which a search has no use for. `base`: which of the search's
  // bases `s` was made from. The reference stays good.
  const BlockCosts& costs(const Strategy& s, std::size_t base);

  [[nodiscard]] std::size_t size() const;

 private:
  using Key = std::array<std::int64_t, 18>;

  Key key_of(const Strategy& s, std::size_t base);

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  ShapeIds& shapes_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<const BlockCosts>, KeyHash<18>> costs_;
};

}  // namespace meshplan
