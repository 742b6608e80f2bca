#pragma once
// Least times of pipelines however their layers are divided (division_bound.hpp), kept for the
// passes and searches that ask again.
#include <array>
#include <mutex>
#include <unordered_map>

#include "base/shared_memo.hpp"
#include "cost/block.hpp"
#include "model/layer_prefix.hpp"

namespace meshplan {

// Shared by threads.
class PipelineBounds {
 public:
  explicit PipelineBounds(const ModelSpec& m) : model_(m) {}

  // Seconds; infinite where that exceeds `limit` by far. `blocks` must stay where they are;
  // `prefix`: of `s`.
  [[nodiscard]] double least(const Strategy& s, const BlockCosts& blocks, const LayerPrefix& prefix,
                             double limit);

 private:
  using Key = IntegerKey<5>;
  // Nothing but the limit that was asked decides whether the time itself is worked out.
  struct Known {
    double least = 0;  // or infinite
    double limit = 0;  // which an infinite one exceeds
  };
  static constexpr std::size_t kParts = 61;
  struct alignas(64) Part {
    std::mutex mutex;
    std::unordered_map<Key, Known, IntegerKeyHash<5>> known;
  };

  const ModelSpec& model_;
  std::array<Part, kParts> parts_;
};

}  // namespace meshplan
