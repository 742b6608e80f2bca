#pragma once
// What ranks certainly show of the reductions at the end of a step, by how many layers they have.
#include <array>
#include <cstdint>
#include <vector>

#include "base/shared_memo.hpp"
#include "cost/block.hpp"
#include "cost/placement.hpp"
#include "model/layer_prefix.hpp"
#include "partition/layer_reductions.hpp"
#include "partition/stage_layout.hpp"
#include "schedule/divided.hpp"

namespace meshplan {

// What searches of one model on one cluster keep: largest ends by placement, and least ones by
// placement, embedding and head, and layers. Shared by threads.
struct LeastEndsMemo {
  SharedMemo<1, RankEnd> largest;
  SharedMemo<1, RankEnd> layers;  // of a rank with all layers, embedding and head apart
  SharedMemo<3, LeastRankEnd> least;
};

// [F-SEARCH-16] [F-DP-5] of a rank by its number of layers n: it has the parameters of the n
// smallest at least, dense and experts' by themselves, and a forward pass of the n slowest at most,
// which hides the gather of weights. What it hides may grow faster than what there is to gather:
// so the least of n or more counts. A slower backward pass hides more gradients, but all
// microbatches take as much longer, and no more of them hide it: that of the n fastest counts.
// Where layers differ in parameters the n smallest are few, so what the layers themselves reduce
// [F-SEARCH-18] counts where it is more.
class LeastEnds {
 public:
  // Of `s`; all must live as long. `recompute`: how every layer is recomputed at least. `most`:
  // seconds; no rank with more work is asked about.
  LeastEnds(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, const BlockCosts& blocks,
            const LayerPrefix& prefix, const Placement& placement, LeastEndsMemo& memo,
            Recompute recompute, double most);

  // Whether there is anything to reduce.
  [[nodiscard]] bool any() const { return any_; }
  // Of rank r with layers begin .. end - 1, in the order in which ranks take them, and least passes
  // of one microbatch through all its chunks: seconds between its last task and the optimizer.
  [[nodiscard]] double exposed(std::int64_t rank, std::size_t begin, std::size_t end,
                               const TaskTimes& own) const;
  // The same of a rank whose chunks hold these layers: what each of them reduces is known then.
  [[nodiscard]] double exposed(std::int64_t rank, const std::vector<LayerRange>& chunks,
                               const TaskTimes& own) const;

 private:
  // Layers of one kind.
  struct Kind {
    std::int64_t number = 0, dense = 0, experts = 0;
    double forward = 0, all = 0;
  };
  // Of n layers, by n; as far as one rank may have so many.
  struct ByLayers {
    std::vector<LeastReduced> gradients;
    std::vector<double> gathers;  // seconds exposed
  };

  // What layers reduce, in the order in which ranks take them.
  struct InOrder {
    std::vector<double> until;       // seconds of the layers before
    std::vector<double> until_mean;  // the same if all were alike; of ranks of several chunks
    double below = 0;                // that all chunks of a rank may have less than that, together
    double hides = 0;

    [[nodiscard]] double exposed(std::size_t begin, std::size_t end, double pass) const;
    [[nodiscard]] double exposed(const std::vector<LayerRange>& chunks, double pass) const;
  };

  void set_layers(Recompute recompute, double most);
  // By the number of layers alone.
  struct Least {
    double gradients = 0, gathers = 0;
  };
  [[nodiscard]] Least least(std::int64_t rank, std::size_t layers, double backward) const;
  [[nodiscard]] InOrder in_order(const LayerReductions::Kind& kind) const;
  [[nodiscard]] const RankEnd& largest_end() const;
  [[nodiscard]] ByLayers by_layers(bool embedding, bool head) const;
  [[nodiscard]] const LeastRankEnd& end_of(bool embedding, bool head, std::size_t layers) const;
  [[nodiscard]] BlockParameters parameters(bool embedding, bool head, std::size_t layers) const;

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const Strategy& strategy_;
  const BlockCosts& blocks_;
  const LayerPrefix& prefix_;
  const Placement& placement_;
  LeastEndsMemo& memo_;
  bool any_ = false;
  double beside_ = 1;            // microbatches that hide reductions
  bool hides_gradients_ = true;  // fewer than there are; else all of them may be hidden
  std::vector<std::int64_t> dense_, experts_;  // of the smallest layers, by their number
  std::vector<double> forward_;                // of the slowest, likewise
  ByLayers first_, inner_, last_;              // ranks
  InOrder gradients_, weights_;
};

}  // namespace meshplan
