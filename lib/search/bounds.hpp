#pragma once
// Times and bytes that no candidate below a node of the search can undercut.
#include <cstdint>

#include "search/candidate.hpp"

namespace meshplan {

// [F-SEARCH-3] Step time from matrix products alone: operations of the linear layers over devices
// and the fastest sustained rate, as many microbatches as there are over as many pipeline ranks.
[[nodiscard]] double flops_bound(const SearchContext& x, const Strategy& s);

// [F-SEARCH-4] Step time of a pipeline however its layers are divided; see bounds.cpp.
[[nodiscard]] double pipeline_bound(const SearchContext& x, const Strategy& s,
                                    const BlockCosts& blocks);

// The optimizer or its offloaded step on the average rank: the slowest one takes no less.
[[nodiscard]] double end_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks);

// Their sum.
[[nodiscard]] double time_bound(const SearchContext& x, const Strategy& s,
                                const BlockCosts& blocks);

// [F-SEARCH-5] Model states, context and communicators of the average rank.
[[nodiscard]] Bytes states_bound(const SearchContext& x, const Strategy& s,
                                 const BlockCosts& blocks, Bytes communicators);

}  // namespace meshplan
