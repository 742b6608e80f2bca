// Any bytes as an SQLite export of Nsight Systems.
#include <cmath>

#include "compare/nsys.hpp"
#include "fuzz/fuzz.hpp"

MESHPLAN_FUZZ_TARGET(nsys) {
  using namespace meshplan;
  const auto traces = read_nsys_bytes({data, size}, "rank0.sqlite");
  fuzz::require_value_or_errors(traces);
  if (!traces.ok()) return 0;
  for (const DeviceTrace& trace : *traces) {
    for (const DeviceOp& op : trace.ops) {
      fuzz::require(op.duration >= 0 && std::isfinite(op.start) && op.name < trace.names.size());
    }
  }
  return 0;
}
