#pragma once
// What a pipeline rank holds at its fullest moments, in microbatches per chunk: with it the peak
// of activations is a few products instead of a walk over the whole schedule.
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <tuple>
#include <vector>

#include "schedule/pipeline.hpp"

namespace meshplan {

// Microbatches that one chunk of the rank holds, whole and as what a weight gradient still needs.
struct Held {
  std::int32_t whole = 0;
  std::int32_t kept = 0;
  bool operator==(const Held&) const = default;
};

// Moments that no other moment exceeds in every chunk.
struct InFlight {
  std::vector<std::size_t> chunks;  // of the rank, increasing
  std::vector<Held> held;           // moments x chunks

  // Most bytes held at once; the spans are indexed like `chunks`.
  [[nodiscard]] Bytes peak(std::span<const Bytes> saved, std::span<const Bytes> kept) const;
};

[[nodiscard]] InFlight in_flight(const PipelineShape& s, std::int64_t rank);

// The same for every rank, each shape computed once. Shared by threads.
class InFlightCache {
 public:
  const std::vector<InFlight>& of(const PipelineShape& s);

 private:
  using Key = std::tuple<Schedule, std::int64_t, std::int64_t, std::int64_t>;
  std::shared_mutex mutex_;
  std::map<Key, std::unique_ptr<const std::vector<InFlight>>> known_;
};

}  // namespace meshplan
