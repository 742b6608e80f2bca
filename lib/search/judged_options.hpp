#pragma once
// Whether any strategy of one pipeline keeps a limit on time, asked once for all of its shardings.
#include <cstdint>
#include <vector>

#include "search/candidate.hpp"

namespace meshplan {

// Options of one pipeline that are judged together, with what none of their strategies undercuts.
struct JudgedOptions {
  const std::vector<MemoryOption>& options;
  const BlockCosts& blocks;
  std::vector<const BlockCosts*> listed;  // of listed_modules()
  Bytes communicators;
};

// [F-SEARCH-7] Whether some division of the layers fits and lets the pipeline alone take `most`
// seconds or less if states are sharded over all replicas as the choice's `zero` says, and
// optimizer states offloaded. Where none does, none does with smaller shard groups or with ZeRO-0
// instead of 1, offloaded or not. `effort`: as of may_divide_within().
[[nodiscard]] RecomputeModes may_divide(SearchContext& x, const PartialStrategy& choice,
                                        const JudgedOptions& judged, double most,
                                        std::int64_t& effort);

// The same of time alone, whatever a rank can hold: none of the options does with less.
[[nodiscard]] bool may_divide_any_memory(SearchContext& x, const PartialStrategy& choice,
                                         const JudgedOptions& judged, double most);

// [F-SEARCH-13] Whether the layers of every division that fits take a pipeline longer than `most`
// seconds, with states sharded as the choice's `zero` says, over all replicas, and optimizer states
// offloaded. `effort`: what may be spent; what is left of it is given back.
[[nodiscard]] bool takes_longer(SearchContext& x, const PartialStrategy& choice,
                                const JudgedOptions& judged, double most, std::int64_t& effort,
                                KnownChains& chains);

}  // namespace meshplan
