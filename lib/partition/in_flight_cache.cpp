#include "partition/in_flight_cache.hpp"

#include "schedule/orders.hpp"

namespace meshplan {

const std::vector<InFlight>& InFlightCache::of(const PipelineShape& s) {
  const bool all = traits_of(s.schedule).forwards_first;  // holds every microbatch
  const PipelineShape few = all ? s : steady_template(s);
  return known_.get({static_cast<std::int64_t>(s.schedule), s.pp, s.vp, few.microbatches}, [&] {
    std::vector<InFlight> ranks;
    for (std::int64_t r = 0; r < s.pp; ++r) ranks.push_back(in_flight(few, r));
    return ranks;
  });
}

}  // namespace meshplan
