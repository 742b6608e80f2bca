#pragma once
// Time and memory of pipeline ranks as functions of the layers they hold: the table that the
// division of layers is chosen from.
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "partition/in_flight_cache.hpp"
#include "partition/known_fits.hpp"
#include "partition/partition.hpp"
#include "partition/stage_layout.hpp"
#include "partition/value_table.hpp"
#include "spec/division_rules.hpp"

namespace meshplan {

// [F-SEARCH-2] Wall times of one microbatch over one of each block, forward and backward, in
// quanta of the whole model's time / 2^40: sums of them are exact, so that equal divisions are
// recognised as equal.
struct BlockQuanta {
  PerBlock<std::int64_t> pass;       // forward and backward
  PerBlock<std::int64_t> full;       // full recomputation on top
  PerBlock<std::int64_t> selective;  // selective recomputation on top
  double seconds = 1;                // of one quantum
};
[[nodiscard]] BlockQuanta block_quanta(const BlockCosts& blocks, const LayerPrefix& prefix,
                                       const ModelSpec& m);

enum class Measure { kTime, kMemory };

class StageChains;  // partition/stage_chains.hpp

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
  std::int64_t uniform;  // kUniform: how many; kFewest: at least so many
  const std::vector<std::int64_t>* given;  // kGiven: per rank
  // Of the divisions looked at, where StageLayout::needs_rounds(); nothing: the most even ones.
  const Rounds* rounds = nullptr;
  std::int64_t most_recomputed = std::numeric_limits<std::int64_t>::max();  // kFewest: of a rank
  const StageChains* chains = nullptr;  // moves() leaves out shares that these rule out
  // Every share fits, with `uniform` recomputed layers or all it has: kNone, and kFewest where
  // stages are one rank.
  bool any_memory = false;
};

// A pipeline rank, or the two ranks of DualPipe that hold the same two chunks.
class Stages {
 public:
  explicit Stages(const StageContext& context);

  // Table of partition.hpp.
  [[nodiscard]] int num_stages() const { return layout_.num_stages(); }
  [[nodiscard]] int num_states() const { return layout_.num_states(); }
  [[nodiscard]] int start() const { return layout_.start(); }
  [[nodiscard]] bool is_goal(int state) const { return layout_.is_goal(state); }
  template <class Visit>
  std::int64_t moves(int stage, int state, std::int64_t limit, Visit visit) const;

  // Whether what a stage cannot hold, wherever its layers are, it cannot hold with more layers
  // either.
  [[nodiscard]] bool more_never_fits() const {
    return layout_.is_contiguous() && more_from_there_never_fits();
  }
  // The same of layers that begin at the same place: then the chunks of the larger share hold all
  // that those of the smaller do. Of multi-token prediction on the first rank it may: that is
  // recomputed only in a chunk that has layers.
  [[nodiscard]] bool more_from_there_never_fits() const {
    const bool counted = x_.counts == CountRule::kGiven || x_.counts == CountRule::kUniform;
    const bool mtp_first = layout_.shares_both_ends() && x_.model.mtp_layers > 0;
    return !layout_.is_bidirectional() && !counted && !mtp_first;
  }
  // Whether a rank may have a chunk of multi-token prediction and no layers, which is not
  // recomputed: with a layer more it may take less memory.
  [[nodiscard]] bool may_predict_alone(int stage) const {
    const int holder = layout_.shares_both_ends() ? 0 : num_stages() - 1;
    return x_.model.mtp_layers > 0 && x_.strategy.vp > 1 && stage == holder;
  }
  // Of kFewest, without ranks that share two ends: asks again for other numbers, and keeps what
  // stages must recompute whatever is asked for. The limit must stay.
  void set_counts(std::int64_t uniform, std::int64_t most_recomputed);
  // Stages that take longer count as not fitting from now on.
  void limit_to(std::int64_t most) { limit_ = most; }
  // Whether some division fits. May say yes where none does.
  [[nodiscard]] bool may_fit() const;
  // The same, cheaper where the limit leaves stages little choice.
  [[nodiscard]] bool may_fit_limit() const;

  // Whether all layers are of one kind, and may be counted instead of told apart.
  [[nodiscard]] bool are_alike() const;
  // Of such layers: whether the stages can take all of them within the limit. Else `over` is the
  // smallest time of one layer more on some stage.
  [[nodiscard]] bool reach_all(std::int64_t limit, std::int64_t& over) const;

  // Whether some shares are left out whatever the limit.
  [[nodiscard]] bool knows_chains() const { return x_.chains != nullptr; }

  // x = sum + weight * largest of partition.hpp.
  [[nodiscard]] std::int64_t weight() const;
  [[nodiscard]] std::int64_t least_sum() const { return least_sum_; }
  // The largest stage of a division takes no less.
  [[nodiscard]] std::int64_t min_bottleneck() const;
  // The same by what fits, of divisions whose largest stage takes `most` or less.
  [[nodiscard]] std::int64_t min_bottleneck(std::int64_t most) const;
  // The largest stage of a division that scores `score` or less: with which a step takes no more
  // than so many seconds, or a rank no more than so many bytes.
  [[nodiscard]] std::int64_t max_bottleneck(double score) const;
  [[nodiscard]] bool measures_memory() const { return x_.measure == Measure::kMemory; }

  // Layers and recomputed layers per pipeline rank.
  struct Lists {
    std::vector<std::int64_t> layers, recomputed;
  };
  [[nodiscard]] Lists lists(const Division& division) const;
  // The division with these layers per rank, if the space has it, every rank fits, and no stage
  // takes more than `most`.
  [[nodiscard]] std::optional<Division> with_layers(const std::vector<std::int64_t>& layers,
                                                    std::int64_t most = kUnbounded) const;
  // No stage of so many layers takes less.
  [[nodiscard]] std::int64_t least_time(std::int64_t layers) const { return layers * least_layer_; }
  // Nor does a stage with these layers, whatever it recomputes beyond what every layer must.
  [[nodiscard]] std::int64_t least_time(int stage, const StageAssignment& share) const {
    return base_time(stage, share, layout_.after(stage, share));
  }
  [[nodiscard]] double quantum() const { return quanta_.seconds; }  // of times; seconds
  // Layers of a stage with what it recomputes. Valid until the next value is worked out.
  [[nodiscard]] const Chunk& blocks_of(int stage, const StageAssignment& share) const {
    const Value& v = value(stage, share);
    return fill(stage, share, v.recomputed_first, v.recomputed_second);
  }
  // Times of each of its chunks, by depth, with recomputation.
  void chunk_times(int stage, const StageAssignment& share, std::vector<ChunkTime>& times) const;
  // Whether the first of two divisions is the better one, as partition.hpp ranks them:
  // [F-SEARCH-1].
  [[nodiscard]] bool prefers(const Division& a, const Division& b) const;
  // A division with a longer stage than this is not preferred to `best`.
  [[nodiscard]] std::int64_t most_useful(const Division& best) const;

  static constexpr std::int64_t kTooMuch = StageValue::kTooMuch, kUnknown = StageValue::kUnknown;
  using Value = StageValue;
  [[nodiscard]] const Value& value(int stage, const StageAssignment& share) const;
  // Memory of a rank that recomputes so many layers (DualPipe: of each of its chunks); more than
  // there is by what the host lacks, where offloading needs more than the host has.
  [[nodiscard]] Bytes need(int stage, const StageAssignment& share, std::int64_t recomputed_first,
                           std::int64_t recomputed_second) const;

  // Whether that is no more than there is. `least_room`: whether it would be if the backward pass
  // needed no room for what it makes again.
  [[nodiscard]] bool fits(int stage, const StageAssignment& share, std::int64_t recomputed_first,
                          std::int64_t recomputed_second, bool least_room = false) const;

  [[nodiscard]] const StageLayout& layout() const { return layout_; }
  // Times that the memory of a share had to be worked out so far.
  [[nodiscard]] std::int64_t worked_out() const { return worked_out_; }

 private:
  // Least time (or bytes) of a share, of what nobody has taken yet, and of embedding and head where
  // they are on a later stage: nothing more recomputed than must be.
  [[nodiscard]] std::int64_t base_time(int stage, const StageAssignment& share,
                                       const LayerCursor& next) const;
  [[nodiscard]] std::int64_t rest_time(const LayerCursor& place) const;
  [[nodiscard]] std::int64_t until_cursor(const LayerCursor& place) const;
  // Fewest layers of the stage with which what is left takes no more than `room`, all later ends
  // included; most + 1 where none do. The more it takes, the less is left.
  [[nodiscard]] int fewest_to_take(int stage, const LayerCursor& place, int most,
                                   std::int64_t room) const;
  [[nodiscard]] std::int64_t rest_ends(int stage) const {
    return ends_after_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t until(std::int64_t layers) const {
    return least_until_[static_cast<std::size_t>(layers)];
  }
  void set_least_times();
  void set_least_bytes();
  void add_up_least();
  // The blocks of all chunks of the stage's rank or ranks together, with the first layers of each
  // recomputed; fills saved_ and kept_ by chunk.
  const Chunk& fill(int stage, const StageAssignment& share, std::int64_t first,
                    std::int64_t second) const;
  // Each of the chunks by depth, with the first layers of the rank, or of each of the two,
  // recomputed.
  template <class Visit>
  void visit_chunks(int stage, const StageAssignment& share, std::int64_t first,
                    std::int64_t second, Visit visit) const;
  // need() of the blocks that were filled last.
  [[nodiscard]] Bytes need_of(int stage, const Chunk& mine) const;
  [[nodiscard]] Bytes rank_need(std::size_t rank, const Chunk& mine, bool least_room) const;
  // What a rank with these blocks stores, but for its activations. Valid until the next call.
  [[nodiscard]] RankMemory& stored(const Chunk& mine) const;
  [[nodiscard]] std::int64_t time_of(const Chunk& mine) const;
  // The same of a share whose first layers are recomputed.
  [[nodiscard]] std::int64_t time_of(int stage, const StageAssignment& share, std::int64_t first,
                                     std::int64_t second) const;
  void set_run_times();
  // Where its layers begin, of layers that follow each other; of layers that are alike nowhere.
  [[nodiscard]] int begin_of(const StageAssignment& share) const {
    return layout_.follow_each_other() ? share.place.front : 0;
  }
  // Whether the share fits as little recomputed as the counts ask for, as most shares within the
  // limit do, or do not.
  [[nodiscard]] bool holds(int stage, const StageAssignment& share) const;
  [[nodiscard]] int most_that_fit(int stage, std::int64_t limit, int guess,
                                  std::int64_t& over) const;
  [[nodiscard]] int most_layers(int stage, std::int64_t limit) const;
  [[nodiscard]] Value compute(int stage, const StageAssignment& share) const;
  [[nodiscard]] Value fewest(int stage, const StageAssignment& share) const;
  [[nodiscard]] Value fewest_pair(int stage, const StageAssignment& share) const;
  [[nodiscard]] std::int64_t fewest_first(int stage, const StageAssignment& share,
                                          std::int64_t second, std::int64_t most) const;
  [[nodiscard]] std::int64_t least_recomputed(int stage, const StageAssignment& share,
                                              std::int64_t second, std::int64_t most) const;
  template <class Fits>
  std::int64_t fewest_of_kind(std::int64_t low, std::int64_t high, const Fits& fits) const;
  [[nodiscard]] bool is_too_much(int stage, const StageAssignment& share) const;
  [[nodiscard]] std::int64_t most_recomputed(int stage, const StageAssignment& share) const;
  [[nodiscard]] std::int64_t most_in_time(int stage, const StageAssignment& share) const;
  [[nodiscard]] std::int64_t fewest_known(int stage, const StageAssignment& share) const;
  // What the context's chains leave for recomputation, in quanta of one microbatch; negative: they
  // rule the share out.
  [[nodiscard]] std::int64_t left_by_chains(int stage, const StageAssignment& share) const;
  // Whether the stage may take the share within the limit; cheaper than its value().
  [[nodiscard]] bool may_take(int stage, const StageAssignment& share) const;

  StageContext x_;
  StageLayout layout_;
  BlockQuanta quanta_;
  MemoryRates rates_;
  SavedRates saved_rates_;
  std::int64_t least_sum_ = 0;
  std::int64_t limit_ = kUnbounded / 4;
  std::int64_t least_full_ = 0;            // recomputing one more layer adds at least that
  double quanta_each_ = 0;                 // of one microbatch per second of all
  PerBlock<std::int64_t> least_;           // least quanta, or bytes, of one block
  std::int64_t least_rank_ = 0;            // bytes of a rank without layers
  std::int64_t least_tail_ = 0;            // of one of the last, uniform layers
  std::int64_t least_layer_ = 0;           // of the fastest layer
  std::vector<std::int64_t> least_until_;  // of the layers before
  // Where a rank's layers follow each other, or are alike, of the layers before: quanta, and what
  // full recomputation adds.
  std::vector<std::int64_t> time_until_, recompute_until_;
  std::vector<std::int64_t> ends_, ends_after_;  // embedding and head, by stage
  mutable std::int64_t guess_ = 0;               // layers recomputed by the last stage worked out
  mutable std::int64_t worked_out_ = 0;
  mutable ValueTable values_;
  mutable std::optional<KnownFits> holds_;    // where more layers never fit
  mutable std::optional<ValueTable> fewest_;  // of set_counts(): what must be recomputed
  mutable std::vector<LayerRange> ranges_;
  mutable Chunk mine_, chunk_, plain_;
  // What was stored last, each at the place of its blocks' hash: stages next to each other hold the
  // same blocks, and what they recompute changes nothing but the buffers.
  struct Stored {
    std::size_t device = 0;
    BlockCounts blocks;
    std::uint64_t recomputed = 0;  // which of them are, a bit each
    RankMemory memory;
  };
  static constexpr std::size_t kStoredPlaces = 32;
  mutable std::vector<Stored> stored_;
  mutable std::vector<Bytes> saved_, kept_;
  // Scratch of fewest_first(): layers seen of each block, and those with which another one joins.
  mutable BlockCounts seen_;
  mutable PerBlock<std::int64_t> firsts_;
};

template <class Visit>
std::int64_t Stages::moves(int stage, int state, std::int64_t limit, Visit visit) const {
  std::int64_t over = kUnbounded;
  const std::int64_t left = num_stages() - stage - 1;
  const LayerCursor place = layout_.place(state);
  // False if with more layers the stage is surely too slow, or does not fit.
  const auto try_move = [&](const StageAssignment& share) {
    if (!layout_.allows(stage, share)) return true;
    const LayerCursor next = layout_.after(stage, share);
    const std::int64_t least = base_time(stage, share, next);
    if (least > limit) {
      over = std::min(over, least);
      return false;
    }
    // The later stages must be able to take what is left.
    if (left > 0 && limit < kUnbounded / (left + 1)) {
      const std::int64_t rest = rest_time(next) + rest_ends(stage);
      if (rest > left * limit) {
        over = std::min(over, (rest + left - 1) / left);
        return true;
      }
    }
    const std::int64_t left_by_chains = this->left_by_chains(stage, share);
    if (left_by_chains < 0) return true;
    const Value& v = value(stage, share);
    if (v.time < 0) return may_predict_alone(stage) || !more_from_there_never_fits();
    if (v.time - least > left_by_chains) return true;
    if (v.time > limit) {
      over = std::min(over, v.time);
    } else {
      visit(StageMove{layout_.state(next), v.time, share.first, share.second});
    }
    return true;
  };
  const int fewest = layout_.fewest(stage);
  const int most = layout_.layers() - place.taken - layout_.fewest_later(stage);
  if (!layout_.is_bidirectional()) {
    int n = left == 0 ? std::max(fewest, most) : fewest;
    if (left > 0 && layout_.is_uniform() && limit < kUnbounded / (left + 1)) {
      const int enough = fewest_to_take(stage, place, most, left * limit);
      if (enough > n) {  // with one less the later stages are the first to do with a higher limit
        const LayerCursor next = layout_.after(stage, {place, enough - 1, 0});
        over = (rest_time(next) + rest_ends(stage) + left - 1) / left;
        n = enough;
      }
    }
    for (; n <= most; ++n) {
      if (!try_move({place, n, 0})) break;
    }
    return over;
  }
  // The layers taken from the two ends differ by a few at most.
  const int lead = place.front - place.back;
  for (int first = fewest; first + fewest <= most; ++first) {
    const int last = std::min(first + lead + StageLayout::kMostLead, most - first);
    for (int second = std::max(fewest, first + lead - StageLayout::kMostLead); second <= last;
         ++second) {
      if (!try_move({place, first, second})) break;
    }
  }
  return over;
}

}  // namespace meshplan
