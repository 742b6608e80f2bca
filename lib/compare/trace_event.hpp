#pragma once
// Events of a trace in Chrome's format, one by one as they stand in the file: of PyTorch's profiler
// (Kineto) and of 'meshplan report --trace'.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/byte_stream.hpp"

namespace meshplan {

// The fields that are read. What an event lacks is empty, 0 or -1.
struct TraceEvent {
  std::string phase, category, name;
  std::int64_t pid = -1, tid = -1;
  double start = 0, duration = 0;  // microseconds
  // Of "args".
  std::int64_t external = -1, correlation = -1, device = -1, stream = -1;
  std::string collective, group_name, group_description, dtype;
  std::int64_t group_size = 0, in_elements = 0, out_elements = 0;
  std::vector<std::int64_t> group_ranks;
  std::vector<std::vector<std::int64_t>> input_sizes;  // "Input Dims"
  std::int64_t microbatch = -1;

  void clear();
};

// What stands beside the events.
struct TraceHeader {
  std::int64_t rank = -1, world = 0;
  std::string tool;  // "meshplan 0.1.0" of our own traces
};

// Hands each event over as it is read; the reference is good until the callback returns. Returns
// why the rest of the file is missing, empty where it is not: an unfinished or damaged file gives
// the events before that place.
[[nodiscard]] std::string read_trace_events(ByteStream& bytes,
                                            const std::function<void(const TraceEvent&)>& event,
                                            TraceHeader& header);

}  // namespace meshplan
