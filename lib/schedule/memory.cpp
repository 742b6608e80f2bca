#include "schedule/in_flight.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {

std::int64_t peak_in_flight(const PipelineShape& s, std::int64_t rank) {
  const InFlight moments = in_flight(s, rank);
  const std::vector<Bytes> ones(moments.chunks.size(), Bytes{1});
  return moments.peak(ones, ones).count();
}

}  // namespace meshplan
