#pragma once
// The largest sequence, or microbatch, with which some plan fits the memory.
#include <cstdint>
#include <optional>

#include "base/names.hpp"
#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

enum class MaximisedKey { kSeqLen, kMicroBatch };
MESHPLAN_NAMES(MaximisedKey,
               {{MaximisedKey::kSeqLen, "seq-len"}, {MaximisedKey::kMicroBatch, "micro-batch"}});

struct Maximum {
  MaximisedKey key = MaximisedKey::kSeqLen;
  std::int64_t value = 0;  // 0: nothing fits
  // The smallest value tried with which nothing fits; none where `most` fits.
  std::optional<std::int64_t> next;
  std::int64_t most = 0;   // no larger value was asked for
  std::int64_t least = 0;  // the smallest that was asked for
  std::int64_t searches = 0;
};

// Sequences: multiples of 1,024 tokens up to request.base.seq_len, and that itself; of 128 where it
// is below 8,192. Longer ones take more memory, so that the values in between are halved until two
// neighbours are left, the smaller with a plan and the larger without. Microbatches: divisors of
// request.base.global_batch, from the largest down, since not each goes with each number of ranks.
// Fails if the request is invalid.
[[nodiscard]] Result<Maximum> maximise(const ModelSpec& m, const ClusterSpec& c,
                                       const SearchRequest& request, MaximisedKey key,
                                       const Progress& progress = {});

// The request with the key at a value.
[[nodiscard]] SearchRequest with_value(SearchRequest request, MaximisedKey key, std::int64_t value);

}  // namespace meshplan
