#pragma once
// Times and bytes that no candidate below a node of the search can undercut.
#include <cstdint>

#include "search/candidate.hpp"

namespace meshplan {

// [F-SEARCH-3] Step time from matrix products alone: operations of the linear layers over devices
// and the fastest sustained rate, as many microbatches as there are over as many pipeline ranks.
[[nodiscard]] double flops_bound(const SearchContext& x, const Strategy& s);

// Step time from the kernels and collectives of the layers, evenly on all pipeline ranks, and of
// one microbatch's forward and input-gradient passes.
[[nodiscard]] double parts_bound(const Strategy& s, const PartTime& layers);

// All work of all microbatches, evenly on all pipeline ranks.
[[nodiscard]] double work_bound(const SearchContext& x, const Strategy& s,
                                const BlockCosts& blocks);

// Step time of a pipeline however its layers are divided (division_bound.hpp).
[[nodiscard]] double pipeline_bound(const SearchContext& x, const Strategy& s,
                                    const BlockCosts& blocks);

// All work, and every layer recomputed as `s` says, evenly on all ranks.
[[nodiscard]] double recompute_bound(const SearchContext& x, const Strategy& s,
                                     const BlockCosts& blocks);

// The optimizer or its offloaded step on the average rank: the slowest one takes no less.
[[nodiscard]] double end_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks);

// [F-SEARCH-6] Of a complete strategy: the schedule's lower bound with its layers and
// recomputation, its slowest optimizer step, and the least data-parallel communication that a rank
// leaves exposed. Gives up adding terms once the sum exceeds `cutoff`.
[[nodiscard]] double complete_bound(const SearchContext& x, const Strategy& s,
                                    const BlockCosts& blocks, double cutoff);

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
[[nodiscard]] Bytes memory_bound(const SearchContext& x, const Strategy& s,
                                 const BlockCosts& blocks, const std::vector<InFlight>& in_flight,
                                 Bytes communicators, bool offloads);

}  // namespace meshplan
