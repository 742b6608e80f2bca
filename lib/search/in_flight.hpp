#pragma once
// What a pipeline rank holds at its fullest moments, in microbatches per chunk: with it the peak
// of activations is a few products instead of a walk over the whole schedule.
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/pipeline.hpp"
#include "search/shared_memo.hpp"

namespace meshplan {

// Microbatches that one chunk of the rank holds, whole and as what a weight gradient still needs.
struct Held {
  std::int32_t whole = 0;
  std::int32_t kept = 0;
  bool operator==(const Held&) const = default;
};

// Moments of which one is the fullest, whatever a microbatch of each chunk weighs.
struct InFlight {
  std::vector<std::size_t> chunks;  // of the rank, increasing
  std::vector<Held> until;          // moments x (chunks + 1): sums over the chunks before

  // Most bytes held at once; the spans are indexed like `chunks`.
  [[nodiscard]] Bytes peak(std::span<const Bytes> saved, std::span<const Bytes> kept) const;
  // Whole microbatches that every chunk holds at some one moment.
  std::int32_t least_held = 0;
};

[[nodiscard]] InFlight in_flight(const PipelineShape& s, std::int64_t rank);

// The same for every rank, each shape computed once. Shared by threads.
class InFlightCache {
 public:
  const std::vector<InFlight>& of(const PipelineShape& s);

 private:
  SharedMemo<4, std::vector<InFlight>> known_;
};

}  // namespace meshplan
