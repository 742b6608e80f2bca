#pragma once
// The kernels and collectives of one block for one microbatch, as lists: the times and the
// communication tables are sums over them, and validation runs the same lists on hardware.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "kernels/kernels.hpp"
#include "layout/groups.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

enum class CommDimension { kTp, kCp, kEp, kPp, kDp, kEmbedding, kLoss };
[[nodiscard]] std::string_view name_of(CommDimension d);

enum class Pass { kForward, kBackwardInput, kBackwardWeight };

// Whose gradient a step makes: of a model's own weights, or of adapters beside them.
enum class WeightUse { kTrained, kTrainedExpert, kFrozen, kAdapter, kExpertAdapter };

struct KernelOp {
  std::string_view name;  // static text
  Pass pass = Pass::kForward;
  Seconds time;                   // on the device
  double flops = 0;               // matrix products and attention only
  double launches = 1;            // kernels that the host issues
  double selective = 0;           // share of it that selective recomputation repeats
  bool repeated = true;           // by full recomputation, where it is of the forward pass
  bool graphed = false;           // issued with all of a CUDA graph, by one call
  std::optional<GemmShape> gemm;  // shape, where it is a matrix product
  KernelKind kind = KernelKind::kOther;
  Precision precision = Precision::kBf16;   // of a matrix product
  std::optional<AttentionShape> attention;  // of one call, where it is fused attention
  double calls = 1;                         // of that shape, one after the other
  double bytes = 0;                         // moved by a memory-bound kernel
  // Elements of the matrices of a linear layer, stated once, by its forward product.
  std::int64_t weights = 0;
  WeightUse use = WeightUse::kTrained;  // of them
  // Ranks that share each matrix, by its outputs unless by its inputs.
  std::int64_t split = 1;
  bool splits_inputs = false;
};

struct CommOp {
  CommDimension dimension = CommDimension::kTp;
  Pass pass = Pass::kForward;
  Collective operation = Collective::kAllReduce;
  Bytes bytes;
  GroupShape group;
  double count = 1;
  Seconds time_each;
  Seconds hidden;           // of one call, behind computation
  Seconds slowdown;         // of the computation that runs beside it
  Seconds awaited{};        // of one call, in which the host can issue nothing
  Group kind = Group::kTp;  // whose shape `group` is
  Dtype dtype = Dtype::kBf16;
  bool bidirectional = false;  // send-recv: every member sends while it receives
  bool selective = false;      // repeated by selective recomputation
  bool repeated = true;        // by full recomputation, where it is of the forward pass
  bool graphed = false;        // issued with all of a CUDA graph, by one call
  std::size_t place = 0;       // so many of the block's kernels are issued before
  bool returns = false;        // brings back what experts made of tokens
};

// Where in the forward pass the host waits until the device tells how many tokens each expert got.
struct HostWait {
  std::size_t place = 0;  // so many of the block's kernels are issued before
  Seconds queued;         // work that the device still has when the host goes on
};

// Kernels of a layer with experts, by the number issued before: those from `sent` on belong to
// tokens that have left, up to `returned`; shared experts, wherever they stand, to those that stay.
struct ExpertsSpan {
  std::size_t sent = 0, returned = 0;
  std::size_t shared_begin = 0, shared_end = 0;
};

struct BlockOps {
  // Parts that selective recomputation repeats, each by itself, outside of CUDA graphs.
  int checkpoints = 0;
  std::vector<KernelOp> kernels;
  std::vector<CommOp> comm;
  std::optional<HostWait> host_wait;
  std::optional<ExpertsSpan> experts_span;
};

}  // namespace meshplan
