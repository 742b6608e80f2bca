#pragma once
// What a pipeline rank holds at its fullest moments, in microbatches per chunk: with it the peak
// of activations is a few products instead of a walk over the whole schedule.
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "schedule/schedule.hpp"

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

  // `held`: by chunk.
  void add_moment(std::span<const Held> held);
  // [F-PIPE-7] Most bytes held at once: a forward adds what its chunk saves; the backward releases
  // it; of a split backward the input gradient releases all but what is kept for the weight
  // gradient, which that releases (Qi et al. 2023 sec. 2.3). The spans are indexed like
  // `chunks`; kept bytes are a part of the saved ones.
  [[nodiscard]] Bytes peak(std::span<const Bytes> saved, std::span<const Bytes> kept) const;
  // Most whole microbatches of the last chunk.
  [[nodiscard]] std::int32_t most_of_last() const;
  // Whole microbatches that every chunk holds at some one moment.
  std::int32_t least_held = 0;
};

// [F-PIPE-8] Activations in flight: GPipe m; 1F1B min(m, p - r); interleaved
// min(m v, 2 (p - r - 1) + (v - 1) g + 1) (Narayanan et al. 2021, sec. 2.2; Megatron-Core
// schedules.py). The other orders are walked: ZB-H1 min(m, p) (Qi et al. 2023, sec. 2.1), ZB-V 2p
// for m >= 2p - 1, DualPipe p + 1 (DeepSeek-V3, table 2). The shape is legal.
[[nodiscard]] InFlight in_flight(const PipelineShape& s, std::int64_t rank);

// One chunk, of which so many microbatches are held at the fullest moment.
[[nodiscard]] InFlight one_chunk_in_flight(std::int64_t chunk, std::int64_t microbatches);

}  // namespace meshplan
