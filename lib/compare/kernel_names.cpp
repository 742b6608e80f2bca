#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/text.hpp"
#include "compare/device_trace.hpp"

namespace meshplan {
namespace {

struct Mark {
  std::string_view part;  // of the name in lower case
  OpClass cls;
};
// The first mark that a name has decides: fused attention is also built of CUTLASS's products, an
// optimizer's kernel is also an element-wise one.
constexpr std::array kMarks{Mark{"nccl", OpClass::kCommunication},
                            Mark{"rccl", OpClass::kCommunication},
                            Mark{"userbuffers", OpClass::kCommunication},
                            Mark{"deep_ep", OpClass::kCommunication},
                            Mark{"hybrid_ep", OpClass::kCommunication},
                            Mark{"nvshmem", OpClass::kCommunication},
                            Mark{"multimem_", OpClass::kCommunication},
                            Mark{"memcpy", OpClass::kCopy},
                            Mark{"memset", OpClass::kCopy},
                            Mark{"multi_tensor", OpClass::kOptimizer},
                            Mark{"multitensor", OpClass::kOptimizer},
                            Mark{"adam", OpClass::kOptimizer},
                            Mark{"flash", OpClass::kAttention},
                            Mark{"fmha", OpClass::kAttention},
                            Mark{"sdpa", OpClass::kAttention},
                            Mark{"attn", OpClass::kAttention},
                            Mark{"attention", OpClass::kAttention},
                            Mark{"softmax", OpClass::kSoftmax},
                            Mark{"cross_entropy", OpClass::kSoftmax},
                            Mark{"nll_loss", OpClass::kSoftmax},
                            Mark{"gemm", OpClass::kProduct},
                            Mark{"gemv", OpClass::kProduct},
                            Mark{"gemmk1", OpClass::kProduct},
                            Mark{"nvjet", OpClass::kProduct},
                            Mark{"xmma", OpClass::kProduct},
                            Mark{"cublas", OpClass::kProduct},
                            Mark{"cijk_", OpClass::kProduct},
                            Mark{"wgmma", OpClass::kProduct},
                            Mark{"s16816", OpClass::kProduct},
                            Mark{"splitkreduce", OpClass::kProduct},
                            Mark{"layer_norm", OpClass::kNorm},
                            Mark{"layernorm", OpClass::kNorm},
                            Mark{"rmsnorm", OpClass::kNorm},
                            Mark{"rms_norm", OpClass::kNorm},
                            Mark{"gammabetabackward", OpClass::kNorm},
                            Mark{"ln_fwd", OpClass::kNorm},
                            Mark{"ln_bwd", OpClass::kNorm},
                            Mark{"_norm_", OpClass::kNorm},
                            Mark{"permute", OpClass::kRouting},
                            Mark{"topk", OpClass::kRouting},
                            Mark{"router", OpClass::kRouting},
                            Mark{"moe", OpClass::kRouting},
                            Mark{"radixsort", OpClass::kRouting},
                            Mark{"elementwise", OpClass::kElementwise},
                            Mark{"reduce_kernel", OpClass::kElementwise},
                            Mark{"triton", OpClass::kElementwise},
                            Mark{"swiglu", OpClass::kElementwise},
                            Mark{"silu", OpClass::kElementwise},
                            Mark{"gelu", OpClass::kElementwise},
                            Mark{"glu_", OpClass::kElementwise},
                            Mark{"act", OpClass::kElementwise},
                            Mark{"rope", OpClass::kElementwise},
                            Mark{"rotary", OpClass::kElementwise},
                            Mark{"dropout", OpClass::kElementwise},
                            Mark{"cast", OpClass::kElementwise},
                            Mark{"copy", OpClass::kElementwise},
                            Mark{"cat", OpClass::kElementwise},
                            Mark{"fill", OpClass::kElementwise},
                            Mark{"embedding", OpClass::kElementwise},
                            Mark{"index", OpClass::kElementwise},
                            Mark{"transpose", OpClass::kElementwise},
                            Mark{"distribution", OpClass::kElementwise}};

struct CommMark {
  std::string_view part;
  CommKind kind;
};
constexpr std::array kCommMarks{CommMark{"allreduce", CommKind::kAllReduce},
                                CommMark{"all_reduce", CommKind::kAllReduce},
                                CommMark{"reducescatter", CommKind::kReduceScatter},
                                CommMark{"reduce_scatter", CommKind::kReduceScatter},
                                CommMark{"allgather", CommKind::kAllGather},
                                CommMark{"all_gather", CommKind::kAllGather},
                                CommMark{"alltoall", CommKind::kAllToAll},
                                CommMark{"all_to_all", CommKind::kAllToAll},
                                CommMark{"dispatch", CommKind::kAllToAll},
                                CommMark{"combine", CommKind::kAllToAll},
                                CommMark{"sendrecv", CommKind::kSendRecv},
                                CommMark{"send", CommKind::kSendRecv},
                                CommMark{"recv", CommKind::kSendRecv},
                                CommMark{"broadcast", CommKind::kBroadcast},
                                CommMark{"reduce", CommKind::kAllReduce}};

}  // namespace

CommKind comm_kind(std::string_view lower) {
  const auto mark = std::find_if(kCommMarks.begin(), kCommMarks.end(),
                                 [&](const CommMark& m) { return contains(lower, m.part); });
  return mark == kCommMarks.end() ? CommKind::kNone : mark->kind;
}

OpName classified(std::string name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  OpName op;
  const auto mark = std::find_if(kMarks.begin(), kMarks.end(),
                                 [&](const Mark& m) { return contains(lower, m.part); });
  if (mark != kMarks.end()) op.cls = mark->cls;
  if (op.cls == OpClass::kCommunication) op.comm = comm_kind(lower);
  const bool backward = contains(lower, "bwd") || contains(lower, "backward") ||
                        contains(lower, "bprop") || contains(lower, "wgrad") ||
                        contains(lower, "dgrad") || contains(lower, "grad_");
  const bool forward =
      contains(lower, "fwd") || contains(lower, "forward") || contains(lower, "fprop");
  if (backward != forward) op.direction = backward ? Direction::kBackward : Direction::kForward;
  // cuBLAS: "sgemm", "..._f32f32_tf32f32_...", CUTLASS: "s1688gemm" (TF32; 16-bit ones name a
  // type).
  op.wide = op.cls == OpClass::kProduct &&
            (contains(lower, "sgemm") || contains(lower, "tf32") ||
             (contains(lower, "s1688") && !contains(lower, "f16") && !contains(lower, "bf16")));
  op.text = std::move(name);
  return op;
}

}  // namespace meshplan
