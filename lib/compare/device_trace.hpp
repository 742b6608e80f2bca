#pragma once
// What one device did during a profiled span of training, as records that every kind of trace is
// read into. Times are microseconds from the first event of the file, as traces count.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace meshplan {

// Of one file: what names more is no trace.
inline constexpr std::size_t kMostDevices = 1024;

// What a kernel does, as its name tells.
enum class OpClass : std::uint8_t {
  kProduct,    // matrix products
  kAttention,  // fused attention
  kNorm,
  kSoftmax,      // of unfused attention, and of the loss
  kElementwise,  // activations, rotary embedding, residuals, dropout, casts, sums
  kRouting,      // of tokens to experts
  kOptimizer,
  kCommunication,
  kCopy,  // between host and device, and within the device by the copy engine
  kOther
};
MESHPLAN_NAMES(OpClass, {{OpClass::kProduct, "product"},
                         {OpClass::kAttention, "attention"},
                         {OpClass::kNorm, "norm"},
                         {OpClass::kSoftmax, "softmax"},
                         {OpClass::kElementwise, "elementwise"},
                         {OpClass::kRouting, "routing"},
                         {OpClass::kOptimizer, "optimizer"},
                         {OpClass::kCommunication, "communication"},
                         {OpClass::kCopy, "copy"},
                         {OpClass::kOther, "other"}});

enum class CommKind : std::uint8_t {
  kNone,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kSendRecv,
  kBroadcast
};
MESHPLAN_NAMES(CommKind, {{CommKind::kNone, "none"},
                          {CommKind::kAllReduce, "all-reduce"},
                          {CommKind::kReduceScatter, "reduce-scatter"},
                          {CommKind::kAllGather, "all-gather"},
                          {CommKind::kAllToAll, "all-to-all"},
                          {CommKind::kSendRecv, "send-recv"},
                          {CommKind::kBroadcast, "broadcast"}});

enum class Direction : std::uint8_t { kUnknown, kForward, kBackward };

struct OpName {
  std::string text;
  OpClass cls = OpClass::kOther;
  CommKind comm = CommKind::kNone;
  Direction direction = Direction::kUnknown;  // as far as the name tells
  bool wide = false;                          // a product in fp32 or TF32
};
// What a kernel's name says: cuBLAS's, CUTLASS's, cuDNN's, flash-attention's, Transformer Engine's,
// apex's, Triton's, PyTorch's, NCCL's and their counterparts on AMD's devices.
[[nodiscard]] OpName classified(std::string name);
// The collective that a name in lower case speaks of: of a kernel, or PyTorch's "_allgather_base".
[[nodiscard]] CommKind comm_kind(std::string_view lower);

// Sizes of a matrix product as the framework's operator states them; m, n and k in no order.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  bool operator==(const ProductShape&) const = default;
};

// Ranks that a collective joins, as far as the trace says.
struct CommGroup {
  std::int64_t size = 0;            // 0: not said
  std::string description;          // of the process group
  std::vector<std::int64_t> ranks;  // empty: not said
  bool operator==(const CommGroup&) const = default;
};

struct DeviceOp {
  double start = 0, duration = 0;
  std::uint32_t name = 0;   // place in `names`
  std::uint32_t shape = 0;  // place in `shapes`; 0: not known
  std::uint32_t group = 0;  // place in `groups`; 0: not known
  std::int32_t stream = 0;
  Direction direction = Direction::kUnknown;
  CommKind comm = CommKind::kNone;
  double bytes = 0;  // of a collective, as nccl-tests counts them; 0: not said
};

struct TimeSpan {
  double start = 0, end = 0;
};

// A task of a pipeline rank in a trace of 'meshplan report'.
struct TaskSpan {
  double start = 0, end = 0;
  std::string category, name;
};

struct DeviceTrace {
  std::string file;
  std::int64_t rank = -1;     // -1: the trace does not say
  std::int64_t world = 0;     // 0: likewise
  std::vector<DeviceOp> ops;  // by start
  std::vector<OpName> names;
  std::vector<ProductShape> shapes = std::vector<ProductShape>(1);
  std::vector<CommGroup> groups = std::vector<CommGroup>(1);
  bool own = false;  // of 'meshplan report': `tasks` in place of `ops`
  std::vector<TaskSpan> tasks;
  std::vector<TimeSpan> steps;         // that the profiler marks
  double earlier_until = 0;            // when the device has done what earlier steps gave it
  std::vector<TimeSpan> data_loading;  // of the host
  std::int64_t allocations = 0;        // cudaMalloc and cudaFree of the host
  double allocation_time = 0;
  std::vector<std::string> notes;  // what is missing of the file, and why
};

}  // namespace meshplan
