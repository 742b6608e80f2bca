#pragma once
// Times and bytes that no candidate below a node of the search can undercut.
#include <cstdint>
#include <optional>
#include <vector>

#include "search/candidate.hpp"
#include "search/layer_ends.hpp"

namespace meshplan {

// [F-SEARCH-3] Step time from matrix products alone: operations of the linear layers over devices
// and the fastest sustained rate, as many microbatches as there are over as many pipeline ranks.
[[nodiscard]] double flops_bound(const ModelSpec& m, const ClusterSpec& c,
                                 const LayerPrefix& prefix, const Strategy& s);

// Step time from the kernels and collectives of the layers, evenly on all pipeline ranks, and of
// one microbatch's forward and input-gradient passes.
[[nodiscard]] double parts_bound(const Strategy& s, const PartTime& layers);

// All work of all microbatches, evenly on all pipeline ranks.
[[nodiscard]] double work_bound(const SearchContext& x, const Strategy& s,
                                const BlockCosts& blocks);

// The same with the traffic of sharded weights, of ZeRO-2 or 3; `base`: of the space.
[[nodiscard]] double sharded_work_bound(SearchContext& x, const Strategy& s, std::size_t base);

// Step time of a pipeline however its layers are divided; infinite where that exceeds `limit` by
// far. `blocks`: of the context.
[[nodiscard]] double pipeline_bound(const SearchContext& x, const Strategy& s,
                                    const BlockCosts& blocks, double limit);

// All work, and every layer recomputed as `s` says, evenly on all ranks.
[[nodiscard]] double recompute_bound(const SearchContext& x, const Strategy& s,
                                     const BlockCosts& blocks);

// The optimizer or its offloaded step on the average rank: the slowest one takes no less.
[[nodiscard]] double end_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks);

// Sums in another order than the cost model's differ in the last digits.
inline constexpr double kRoundedDown = 1 - 1e-10;
[[nodiscard]] inline double rounded_down(Seconds bound) { return bound.si() * kRoundedDown; }

// [F-SEARCH-5] Model states, context and communicators of the average rank.
[[nodiscard]] Bytes states_bound(const SearchContext& x, const Strategy& s,
                                 const BlockCosts& blocks, Bytes communicators);

// [F-SEARCH-8] Memory of the fullest pipeline rank, however layers are divided and recomputed. With
// a_k bytes of states and b_k of saved activations (the least of all ways of recomputing) per block
// of kind k, N_k blocks, and h_r microbatches that rank r holds at once, every rank needs
// T >= f + sum_k (a_k + b_k h_r) n_kr. Weighted by w_r = 1 / (A + B h_r), A = sum N_k a_k and
// B = sum N_k b_k, and added up over the ranks:
//   T >= f + sum_k N_k min_r w_r (a_k + b_k h_r) / sum_r w_r.
// f: context, communicators and the working set of the smallest layer. The minimum is at the least
// or the largest h. `offloads`: whether saved activations may leave for the host.
// `saved`: how every layer is recomputed, where that is known. `listed`: what blocks save, if that
// is not what `blocks` say.
[[nodiscard]] Bytes memory_bound(const SearchContext& x, const Strategy& s,
                                 const BlockCosts& blocks, const std::vector<InFlight>& in_flight,
                                 Bytes communicators, bool offloads,
                                 std::optional<Recompute> saved = {},
                                 const PerBlock<SavedActivations>* listed = nullptr);

// What the layers' states alone need on the average rank, before block costs are known and without
// communicators.
[[nodiscard]] Bytes weights_bound(const SearchContext& x, const Strategy& s);

// Whether a host may hold what the average pipeline rank's optimizer keeps there, if it is
// offloaded.
[[nodiscard]] bool host_may_hold(const SearchContext& x, const Strategy& s);

// [F-SEARCH-10] Whether the ranks may take all layers within some seconds of the pipeline and the
// capacity. Of n layers with seconds t, bytes of states a and of saved activations b, of which v
// are recomputed (seconds q more, bytes c instead of b), a rank that holds h microbatches at once
// and passes m of them keeps
//   n t + v q <= seconds / m  and  n (a + b h) - v (b - c) h <= capacity - f,  0 <= v <= n.
// f as above. Summed up with prices of a second and a byte on each rank (those of the linear
// program of the mean layer), what the ranks have must pay for all layers at the least price. Asked
// for layers without and with selective recomputation, by each list of modules where there are
// some. `ends` [F-SEARCH-18] count as time of their layers. May say yes where nothing fits.
class FitBound {
 public:
  // `in_flight` must live as long. `listed`: costs of the blocks under each list of modules that
  // may be recomputed; none: the framework's own, which `blocks` know. `communicators`, `offloads`:
  // as of memory_bound(). `ends`: what every strategy that is asked about reduces.
  FitBound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
           const std::vector<const BlockCosts*>& listed, const std::vector<InFlight>& in_flight,
           Bytes communicators, bool offloads, const LayerEnds& ends = {});
  [[nodiscard]] bool may_fit(double most) const;

  // Blocks of one kind: seconds and bytes of one.
  struct Load {
    double number = 0;
    double time = 0, recompute_time = 0;  // of one microbatch; what recomputation adds
    double states = 0;
    double plain = 0, recomputed = 0;  // saved per microbatch in flight
  };
  struct Loads {
    PerBlock<Load> each;
    std::size_t count = 0;
    Load mean;
    void add(const Load& l) { each[count++] = l; }
  };

 private:
  const std::vector<InFlight>& in_flight_;
  bool counts_;  // activations do
  Loads plain_;
  std::vector<Loads> selective_;  // by list
  double bytes_ = 0;              // that a rank has
  double seconds_each_ = 0;       // of a microbatch per second of the pipeline
};

}  // namespace meshplan
