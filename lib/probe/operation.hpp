#pragma once
// What can be measured on a machine: one collective, kernel or copy, as a plain value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/units.hpp"
#include "probe/operation_kinds.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

// Groups of ranks that talk among themselves, as the axes of a rank order make them.
// Evenly spaced: rank r is member (r / stride) % size of a group that starts at
// (r / (size * stride)) * size * stride + r % stride. With `run`: runs of so many members `stride`
// apart, the runs' first members `jump` apart, as where the pipeline lies between data and context
// parallelism. Each group lies within one block of `period` ranks (of as many as the members span
// where it is 0); ranks whose group would not, and those beyond the last whole block, stay idle.
struct RankGroup {
  std::int64_t size = 1;
  std::int64_t stride = 1;  // distance of neighbouring members of one run
  std::int64_t nodes = 0;   // that one group touches; filled in by the backend (0: not yet known)
  bool concurrent = true;   // all sibling groups at once, as training does; else the first alone
  std::int64_t run = 0;     // members of one run, a divisor of size; 0: one run of all
  std::int64_t jump = 0;    // distance of neighbouring runs, a multiple of run * stride
  std::int64_t period = 0;  // ranks of one block; 0: as many as fit together
  bool operator==(const RankGroup&) const = default;
};

// Why there is no such group in any job; nothing if there is.
[[nodiscard]] std::optional<std::string> malformed(const RankGroup& g);

// From its first to its last member, both counted. Of a group that is not malformed.
[[nodiscard]] std::int64_t reach_of(const RankGroup& g);
// Ranks of one block.
[[nodiscard]] std::int64_t period_of(const RankGroup& g);

// bytes follow nccl-tests, as in comm/collectives.hpp: all-reduce, broadcast, send-recv: the buffer
// of one rank; all-gather, reduce-scatter, all-to-all: ranks x the part of one rank.
// send-recv: the first of two members sends to the second; bidirectional in groups of any size:
// every member sends to the next one, the last to the first, and receives from the one before;
// ping-pong: the second of two members sends back what it received before the next call begins, so
// that the time is of two messages, one after the other, and none hides behind the next.
struct CollectiveOperation {
  Collective collective = Collective::kAllReduce;
  Bytes bytes{};
  Dtype dtype = Dtype::kBf16;
  RankGroup group{};
  bool bidirectional = false;  // send-recv only
  bool ping_pong = false;      // send-recv one way and back
  bool operator==(const CollectiveOperation&) const = default;
};

// `count` products C[m,n] (+)= A[m,k] B[k,n] in one call.
struct GemmOperation {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  GemmLayout layout = GemmLayout::kForward;
  Precision precision = Precision::kBf16;
  bool accumulate = false;  // C is fp32 and added to
  bool operator==(const GemmOperation&) const = default;
};

struct AttentionOperation {
  std::int64_t batch = 1;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;  // tokens per sequence
  std::int64_t keys = 0;
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;
  bool causal = true;  // query i of n sees the keys up to i + keys - n: the last rows of the mask
  bool backward = false;
  Dtype dtype = Dtype::kBf16;
  bool operator==(const AttentionOperation&) const = default;
};

// rows x columns elements; columns is the feature dimension (norms reduce over it).
struct MemoryOperation {
  MemoryKernel kernel = MemoryKernel::kRmsNorm;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::kBf16;
  bool operator==(const MemoryOperation&) const = default;
};

struct CopyOperation {
  CopyDirection direction = CopyDirection::kHostToDevice;
  Bytes bytes{};  // of one direction, from pinned memory
  bool operator==(const CopyOperation&) const = default;
};

// Host time to issue one empty kernel: `kernels` launched in a row, per kernel.
struct LaunchOperation {
  std::int64_t kernels = 1000;
  bool graph = false;  // replayed from a captured graph: what remains on the device
  bool operator==(const LaunchOperation&) const = default;
};

// A product and a collective alone and at the same time on two streams.
struct OverlapOperation {
  GemmOperation compute{};
  CollectiveOperation communication{};
  bool operator==(const OverlapOperation&) const = default;
};

using Operation = std::variant<CollectiveOperation, GemmOperation, AttentionOperation,
                               MemoryOperation, CopyOperation, LaunchOperation, OverlapOperation>;

// "all-reduce of 16.0 MiB bf16 in groups of 2, stride 8": for messages and tables.
[[nodiscard]] std::string describe(const Operation& op);

// Bytes that a rank's buffers take, about: backends refuse what does not fit before they allocate.
[[nodiscard]] Bytes buffer_bytes(const Operation& op);

// Bytes that a memory-bound kernel must read and write at least.
[[nodiscard]] Bytes traffic(const MemoryOperation& op);

// Where `rank` sits in a job of `ranks`.
struct GroupPlace {
  std::int64_t group = -1;  // index of the group; -1: this rank is idle
  std::int64_t member = 0;
  bool operator==(const GroupPlace&) const = default;
};
[[nodiscard]] GroupPlace place_of(const RankGroup& g, std::int64_t rank, std::int64_t ranks);

// The group of an operation that communicates, else null.
[[nodiscard]] const RankGroup* group_of(const Operation& op);
[[nodiscard]] RankGroup* group_of(Operation& op);

}  // namespace meshplan
