#pragma once
// What a process says of its device's memory: torch.cuda.memory's snapshots, memory_stats() and
// memory_summary(), and the message of an out-of-memory error.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

enum class MemoryPart { kWeights, kGradients, kOptimizer, kActivations, kBuffers, kUnknown };
MESHPLAN_NAMES(MemoryPart, {{MemoryPart::kWeights, "weights"},
                            {MemoryPart::kGradients, "gradients"},
                            {MemoryPart::kOptimizer, "optimizer"},
                            {MemoryPart::kActivations, "activations"},
                            {MemoryPart::kBuffers, "buffers"},
                            {MemoryPart::kUnknown, "unknown"}});
inline constexpr std::size_t kMemoryParts = NameTable<MemoryPart>::rows.size();

// Bytes; 0: not said.
struct OutOfMemory {
  Bytes wanted, free, capacity;
  Bytes allocated;    // by PyTorch
  Bytes unallocated;  // reserved by PyTorch and not allocated
};

struct MemoryMeasure {
  std::string file;
  std::string kind;           // "snapshot", "statistics", "out of memory"
  Bytes allocated, reserved;  // at most; 0: not said
  std::int64_t retries = 0;   // allocations for which memory had to be given back first
  std::int64_t out_of_memory_errors = 0;
  // At the fullest moment of a snapshot, by the Python frames that allocated it.
  std::optional<std::vector<Bytes>> parts;  // by MemoryPart
  std::optional<OutOfMemory> failed;
  std::vector<std::string> notes;
};

// The kind is told from the bytes. Fails on a file that says nothing of memory.
[[nodiscard]] Result<MemoryMeasure> parse_memory(std::string_view bytes, const std::string& file);

// The message of an out-of-memory error in a text, the last one.
[[nodiscard]] std::optional<OutOfMemory> find_out_of_memory(std::string_view text);

// What of the predicted peak is of a part.
[[nodiscard]] Bytes predicted_part(const MemoryBreakdown& memory, MemoryPart part);

}  // namespace meshplan
