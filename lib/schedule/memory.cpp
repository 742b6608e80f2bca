#include "base/check.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {

std::int64_t peak_in_flight(const PipelineShape& s, std::int64_t rank) {
  const InFlight moments = in_flight(s, rank);
  const std::vector<Bytes> ones(moments.chunks.size(), Bytes{1});
  return moments.peak(ones, ones).count();
}

Bytes peak_activation(const PipelineShape& s, std::int64_t rank,
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

}  // namespace meshplan
