#pragma once
// Block costs by the keys that they depend on, each computed once and shared by all threads.
#include "base/shared_memo.hpp"
#include "cost/block.hpp"
#include "search/shape_ids.hpp"

namespace meshplan {

class BlockCache {
 public:
  BlockCache(const ModelSpec& m, const ClusterSpec& c, ShapeIds& shapes)
      : model_(m), cluster_(c), shapes_(shapes) {}

  // Without the communication tables, which a search has no use for. `base`: which of the search's
  // bases `s` was made from. The reference stays good.
  const BlockCosts& costs(const Strategy& s, std::size_t base);

  // Of ZeRO-2 or 3: the same, not kept.
  BlockCosts sharded_costs(const Strategy& s, std::size_t base);

  // What `of` says of costs() under ZeRO-2 or 3, always the same function: of most shardings that
  // is all that is asked, so that their costs are not kept.
  template <class Of>
  double of_sharded(const Strategy& s, std::size_t base, Of of) {
    return of_sharded_.get(few_keys(s, base), [&] { return of(sharded_costs(s, base)); });
  }

 private:
  using Key = IntegerKey<21>;
  Key key_of(const Strategy& s, std::size_t base);
  static IntegerKey<12> few_keys(const Strategy& s, std::size_t base);
  const BlockCosts& costs_of_groups(const Strategy& s, std::size_t base);

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  ShapeIds& shapes_;
  SharedMemo<21, BlockCosts> costs_;                // by the shapes of groups
  SharedMemo<12, const BlockCosts*> costs_of_all_;  // by all keys that shapes depend on
  SharedMemo<12, double> of_sharded_;
};

}  // namespace meshplan
