#pragma once
// Which layers a pipeline rank gets when the ranks before it have taken theirs.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cost/chunks.hpp"
#include "model/layer_prefix.hpp"
#include "schedule/traits.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// What has been taken when a stage's turn comes. Units from the front, or of the first round of
// chunks; DualPipe also from the back.
struct LayerCursor {
  int taken = 0;
  int front = 0;
  int back = 0;
};

// What a stage takes: units of its rank (DualPipe: of the rank nearer to the front, and of the
// other rank with the same two chunks).
struct StageAssignment {
  LayerCursor place;
  int first = 0;
  int second = 0;
};

struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class StageLayout {
 public:
  StageLayout(const ModelSpec& m, const Strategy& s, const LayerPrefix& prefix);

  // DualPipe: the units taken from the two ends differ by no more at any rank.
  static constexpr int kMostLead = 3;

  [[nodiscard]] int num_stages() const { return stages_; }  // DualPipe: pairs of ranks
  [[nodiscard]] int units() const { return units_; }
  [[nodiscard]] std::int64_t unit_layers() const { return unit_layers_; }
  [[nodiscard]] int leading() const { return leading_; }
  [[nodiscard]] bool is_bidirectional() const { return kind_ == Kind::kBidirectional; }
  // Whether the ranks of a stage hold both the embedding and the head.
  [[nodiscard]] bool shares_both_ends() const { return shares_both_ends_; }
  // Whether a rank's layers follow each other, so that a part of what fits fits as well.
  [[nodiscard]] bool is_contiguous() const { return kind_ == Kind::kContiguous || leading_ == 0; }
  // Whether all layers behind the leading ones are alike, and each chunk holds what follows.
  [[nodiscard]] bool is_uniform() const { return kind_ != Kind::kRows; }
  // Whether a rank's layers are spread over its chunks, the leading ones over the first round.
  [[nodiscard]] bool spreads() const { return kind_ == Kind::kSpread; }

  // States of partition.hpp, one per place.
  [[nodiscard]] int num_states() const;
  [[nodiscard]] int start() const { return is_bidirectional() ? kMostLead : 0; }
  [[nodiscard]] bool is_goal(int state) const;
  [[nodiscard]] LayerCursor place(int state) const;
  [[nodiscard]] LayerCursor after(int stage, const StageAssignment& share) const {
    LayerCursor p = share.place;
    p.taken += share.first + share.second;
    p.back += share.second;
    if (kind_ != Kind::kSpread) {
      p.front += share.first;
    } else if (p.front < leading_) {
      p.front = std::min(leading_, p.front + spread_chunk(stage, share.first, 0));
    }
    return p;
  }
  [[nodiscard]] int state(const LayerCursor& place) const;

  // Fewest units of the rank (DualPipe: of each of the two), and of all later stages.
  [[nodiscard]] int fewest(int stage) const;
  [[nodiscard]] int fewest_later(int stage) const;

  // Layers of each chunk, by depth.
  void ranges(int stage, const StageAssignment& share, std::vector<LayerRange>& result) const;

  // Shares with the same slot hold the same kinds of layers.
  [[nodiscard]] std::size_t num_slots() const;
  [[nodiscard]] std::size_t slot(int stage, const StageAssignment& share) const;
  // Whether the two ranks of the share may differ as much as they do.
  [[nodiscard]] static bool has_slot(const StageAssignment& share) {
    return std::abs(share.second - share.first) <= 2 * kMostLead;
  }

  // Units of one chunk, where a rank's layers are spread over its chunks.
  [[nodiscard]] int spread_chunk(int stage, int units, int chunk) const {
    const bool last = stage == (shares_both_ends_ ? 0 : stages_ - 1);
    return static_cast<int>(chunk_layers(units, vp_, chunk, stage == 0, last));
  }

 private:
  enum class Kind {
    kContiguous,     // one chunk per rank
    kRows,           // chunks of a rank of one size: unit u is layer u of every round
    kSpread,         // chunks as even as the rank's layers go
    kBidirectional,  // DualPipe
  };

  Kind kind_ = Kind::kContiguous;
  ChunkLayout chunk_layout_;
  int stages_ = 1, units_ = 1, vp_ = 1, leading_ = 0;
  std::int64_t layers_ = 1, unit_layers_ = 1;
  bool shares_both_ends_ = false;
  bool few_leading_ = false;  // the back half holds none of the leading layers
};

}  // namespace meshplan
