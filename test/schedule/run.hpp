#pragma once
// One run of a schedule, and the most that one of its ranks holds, as the cost model asks for them.
#include <span>
#include <vector>

#include "base/check.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan::testing {

inline PipelineResult run_pipeline(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                   std::span<const SendTime> forward_send,
                                   std::span<const SendTime> backward_send,
                                   bool with_timeline = false) {
  PipelineRunner runner;
  return runner.run(s, chunks, forward_send, backward_send, with_timeline);
}

// Bytes per chunk of one microbatch (num_chunks by depth), and of them what a weight gradient that
// is split off still needs.
inline Bytes peak_activation(const PipelineShape& s, std::int64_t rank,
                             std::span<const Bytes> per_microbatch,
                             std::span<const Bytes> saved_for_weight_gradient) {
  const auto chunks = static_cast<std::size_t>(num_chunks(s));
  PLAN_CHECK(per_microbatch.size() == chunks && saved_for_weight_gradient.size() == chunks);
  const InFlight moments = in_flight(s, rank);
  std::vector<Bytes> saved, kept;
  for (const std::size_t c : moments.chunks) {
    saved.push_back(per_microbatch[c]);
    kept.push_back(saved_for_weight_gradient[c]);
  }
  return moments.peak(saved, kept);
}

}  // namespace meshplan::testing
