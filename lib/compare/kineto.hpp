#pragma once
// Traces in Chrome's format as records of what devices did.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "compare/byte_stream.hpp"
#include "compare/device_trace.hpp"

namespace meshplan {

// One entry per device (PyTorch's profiler writes one file per rank; a trace of 'meshplan report'
// has every pipeline rank). `file` is how diagnostics call it. A file that breaks off or is damaged
// gives what it holds, with a note; fails where that is nothing of a device.
[[nodiscard]] Result<std::vector<DeviceTrace>> read_chrome_trace(ByteStream bytes,
                                                                 const std::string& file);

// The rank that a file's name states: "rank-3.json.gz", "rank12_trace.json", "trace_rank_7.json";
// -1 where it states none.
[[nodiscard]] std::int64_t rank_of_name(std::string_view file);

}  // namespace meshplan
