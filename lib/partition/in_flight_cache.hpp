#pragma once
// What each rank of a pipeline holds at its fullest moments, each shape computed once.
#include <vector>

#include "base/shared_memo.hpp"
#include "schedule/in_flight.hpp"

namespace meshplan {

// Shared by threads.
class InFlightCache {
 public:
  const std::vector<InFlight>& of(const PipelineShape& s);

 private:
  SharedMemo<4, std::vector<InFlight>> known_;
};

}  // namespace meshplan
