#pragma once
// Time and memory of pipeline ranks as functions of the layers they hold: the table that the
// division of layers is chosen from.
#include <cstdint>
#include <optional>
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "search/choice.hpp"
#include "search/in_flight.hpp"
#include "search/partition.hpp"

namespace meshplan {

// Blocks of each kind in the first n decoder layers, for n = 0 .. num_layers.
using LayerPrefix = std::vector<BlockCounts>;
[[nodiscard]] LayerPrefix layer_prefix(const ModelSpec& m);

// [F-SEARCH-2] Wall times of one microbatch over one block of each kind, forward and backward, in
// quanta of the whole model's time / 2^40: sums of them are exact, so that equal divisions are
// recognised as equal.
struct BlockQuanta {
  std::array<std::int64_t, kNumBlockKinds> pass{};       // forward and backward
  std::array<std::int64_t, kNumBlockKinds> full{};       // full recomputation on top
  std::array<std::int64_t, kNumBlockKinds> selective{};  // selective recomputation on top
  double seconds = 1;                                    // of one quantum
};
[[nodiscard]] BlockQuanta block_quanta(const BlockCosts& blocks, const LayerPrefix& prefix,
                                       const ModelSpec& m);

enum class Measure { kTime, kMemory };

// Everything about one candidate that does not depend on the division of layers.
struct StageContext {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const Strategy& strategy;  // `recompute` and `offload` included
  const BlockCosts& blocks;
  const LayerPrefix& prefix;
  const std::vector<InFlight>& in_flight;
  Bytes communicators;
  Bytes capacity;        // per device
  Bytes host_capacity;   // of host memory, per device
  bool states_only;      // activations do not count
  Measure measure;       // what a stage's "time" in the table is: quanta, or bytes of peak memory
  CountRule counts;      // layers that each rank recomputes
  std::int64_t uniform;  // kUniform: how many
  const std::vector<std::int64_t>* given;  // kGiven: per rank
};

// A pipeline rank (DualPipe: the two ranks that hold the same two chunks).
class Stages {
 public:
  explicit Stages(const StageContext& context);

  // Table of partition.hpp. A unit is vp layers: one per chunk of an interleaved rank.
  [[nodiscard]] int num_stages() const { return stages_; }
  [[nodiscard]] int num_states() const { return mirrored_ ? 3 * (units_ / 2 + 3) : units_ + 1; }
  [[nodiscard]] int start() const { return mirrored_ ? 1 : 0; }
  [[nodiscard]] bool is_goal(int state) const;
  template <class Visit>
  std::int64_t moves(int stage, int state, std::int64_t limit, Visit visit) const;

  // Whether some division fits. May say yes where none does.
  [[nodiscard]] bool may_fit() const;

  // x = sum + weight * largest of partition.hpp.
  [[nodiscard]] std::int64_t weight() const;
  [[nodiscard]] std::int64_t least_sum() const { return least_sum_; }
  [[nodiscard]] std::int64_t least_largest() const;
  // The largest stage of a division with which a step takes no more than `step` seconds.
  [[nodiscard]] std::int64_t most_largest(double step) const;

  // Layers and recomputed layers per pipeline rank.
  struct Lists {
    std::vector<std::int64_t> layers, recomputed;
  };
  [[nodiscard]] Lists lists(const Division& division) const;
  // The division with these layers per rank, if every rank fits.
  [[nodiscard]] std::optional<Division> with_layers(const std::vector<std::int64_t>& layers) const;

  // The division that minimises the largest peak of memory instead.
  [[nodiscard]] bool measures_memory() const { return x_.measure == Measure::kMemory; }

  // A rank that holds `first` units from `position` on (DualPipe: and its mirror image `second`
  // units that end `back` units before the last).
  static constexpr std::int64_t kTooMuch = -1, kUnknown = -2;
  struct Holding {
    int position = 0, first = 0, back = 0, second = 0;
  };
  struct Value {
    std::int64_t time = kUnknown;  // quanta, or kTooMuch
    std::int32_t recomputed_first = 0, recomputed_second = 0;
  };
  [[nodiscard]] const Value& value(int stage, const Holding& holding) const;
  // Memory of a rank that recomputes so many layers (DualPipe: of each of its chunks); more than
  // there is by what the host lacks, where offloading needs more than the host has.
  [[nodiscard]] Bytes need(int stage, const Holding& holding, std::int64_t recomputed_first,
                           std::int64_t recomputed_second) const;

  [[nodiscard]] int units() const { return units_; }

 private:
  // Least time of units [begin, end) of every chunk row, of a stage, of all units not yet taken,
  // and of embedding and head where they are on a later stage.
  [[nodiscard]] std::int64_t base_time(int stage, const Holding& h) const {
    if (measures_memory()) return 0;
    const std::int64_t middle =
        least_until_[index_of(h.position + h.first)] - least_until_[index_of(h.position)];
    if (!mirrored_) return middle + ends_[index_of(stage)];
    return middle + ends_[index_of(stage)] + least_until_[index_of(units_ - h.back)] -
           least_until_[index_of(units_ - h.back - h.second)];
  }
  [[nodiscard]] std::int64_t rest_time(int front, int back) const {
    if (measures_memory()) return 0;
    return least_until_[index_of(units_ - back)] - least_until_[index_of(front)];
  }
  [[nodiscard]] std::int64_t rest_ends(int stage) const {
    return measures_memory() ? 0 : ends_after_[index_of(stage)];
  }
  static std::size_t index_of(int i) { return static_cast<std::size_t>(i); }
  void add_up_least_times();
  // Chunks of the stage's rank or ranks, with the first layers of each recomputed.
  const std::vector<Chunk>& fill(int stage, const Holding& holding, std::int64_t first,
                                 std::int64_t second) const;
  void add_chunk(std::int64_t begin, std::int64_t end, std::int64_t recomputed) const;
  void add_ends(int stage, std::int64_t first, std::int64_t second) const;
  [[nodiscard]] Bytes rank_need(std::size_t rank, const std::vector<Chunk>& mine) const;
  [[nodiscard]] std::int64_t time_of(const std::vector<Chunk>& mine) const;
  [[nodiscard]] Value compute(int stage, const Holding& holding) const;
  [[nodiscard]] Value fewest(int stage, const Holding& holding) const;
  [[nodiscard]] Value fewest_pair(int stage, const Holding& holding) const;
  [[nodiscard]] std::int64_t fewest_first(int stage, const Holding& holding,
                                          std::int64_t second) const;
  [[nodiscard]] std::size_t slot(int stage, const Holding& holding) const;
  [[nodiscard]] std::int64_t layers(std::int32_t units) const { return units * unit_layers_; }

  StageContext x_;
  BlockQuanta quanta_;
  bool mirrored_ = false;  // DualPipe: a stage is a pair of ranks with the same two chunks
  bool alike_ = false;     // every decoder layer costs the same, wherever it is
  int stages_ = 0, units_ = 0;
  std::int64_t unit_layers_ = 1;
  std::int64_t least_sum_ = 0;
  double most_saved_ = 0;  // bytes that recomputing one more layer may free, per microbatch held
  std::array<std::int64_t, kNumBlockKinds> least_{};  // least quanta of one block
  std::vector<std::int64_t> least_until_;             // of the units before
  std::vector<std::int64_t> ends_, ends_after_;       // embedding and head, by stage
  mutable std::vector<Value> values_;
  mutable std::vector<Chunk> chunks_;
  mutable std::vector<Bytes> saved_, kept_;
};

template <class Visit>
std::int64_t Stages::moves(int stage, int state, std::int64_t limit, Visit visit) const {
  std::int64_t over = kUnbounded;
  const std::int64_t left = stages_ - stage - 1;
  // False if the stage is too slow already without what may have to be recomputed.
  const auto try_move = [&](const Holding& h, int to) {
    const std::int64_t least = base_time(stage, h);
    if (least > limit) {
      over = std::min(over, least);
      return false;
    }
    // The later stages must be able to take what is left.
    if (left > 0 && limit < kUnbounded / (left + 1)) {
      const std::int64_t rest =
          rest_time(h.position + h.first, h.back + h.second) + rest_ends(stage);
      if (rest > left * limit) {
        over = std::min(over, (rest + left - 1) / left);
        return true;
      }
    }
    const Value& v = value(stage, h);
    if (v.time < 0) return true;
    if (v.time > limit) {
      over = std::min(over, v.time);
    } else {
      visit(StageMove{to, v.time, h.first, h.second});
    }
    return true;
  };
  const int later = static_cast<int>(left);
  if (!mirrored_) {
    const int most = units_ - state - later;
    for (int n = later == 0 ? most : 1; n <= most; ++n) {
      if (!try_move({state, n, 0, 0}, state + n)) break;
    }
    return over;
  }
  const int a = state / 3, b = a + state % 3 - 1;
  for (int first = 1; a + b + first + 1 + 2 * later <= units_; ++first) {
    for (int second = std::max(1, a + first - b - 1); second <= a + first - b + 1; ++second) {
      if (a + b + first + second + 2 * later > units_) break;
      const int to = 3 * (a + first) + (b + second) - (a + first) + 1;
      if (!try_move({a, first, b, second}, to)) break;
    }
  }
  return over;
}

}  // namespace meshplan
