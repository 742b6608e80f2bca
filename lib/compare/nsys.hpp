#pragma once
// Nsight Systems' SQLite export ('nsys export --type sqlite') as records of what devices did.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compare/device_trace.hpp"

namespace meshplan {

// Whether a file begins as SQLite's do.
[[nodiscard]] bool is_sqlite(const std::string& path);

// Whether this program was built with SQLite.
[[nodiscard]] bool has_sqlite();

// One entry per device, by kernels, copies, NVTX ranges of steps and calls of the allocator. Where
// a file has several devices their numbers are taken as ranks; a damaged one gives what can be
// read, with a note. Fails where that is nothing of a device, and in a program without SQLite.
[[nodiscard]] Result<std::vector<DeviceTrace>> read_nsys(const std::string& path);
// The same of a database in memory; `file` is how diagnostics call it.
[[nodiscard]] Result<std::vector<DeviceTrace>> read_nsys_bytes(std::span<const std::uint8_t> bytes,
                                                               const std::string& file);

}  // namespace meshplan
