#pragma once
// The kernels and collectives of one block for one microbatch, as lists: the times and the
// communication tables are sums over them, and validation runs the same lists on hardware.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost/block.hpp"
#include "cost/kernels.hpp"
#include "cost/plan_cost.hpp"
#include "layout/groups.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

enum class Pass { kForward, kBackwardInput, kBackwardWeight };

struct KernelOp {
  std::string_view name;  // static text
  Pass pass = Pass::kForward;
  Seconds time;                   // on the device
  double flops = 0;               // matrix products and attention only
  double launches = 1;            // kernels that the host issues
  bool selective = false;         // repeated by selective recomputation
  bool awaited = false;           // issued only once the device has told the tokens per expert
  std::optional<GemmShape> gemm;  // shape, where it is a matrix product
  KernelKind kind = KernelKind::kOther;
  Precision precision = Precision::kBf16;   // of a matrix product
  std::optional<AttentionShape> attention;  // of one call, where it is fused attention
  double calls = 1;                         // of that shape, one after the other
  double bytes = 0;                         // moved by a memory-bound kernel
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
  Group kind = Group::kTp;  // whose shape `group` is
  Dtype dtype = Dtype::kBf16;
  bool bidirectional = false;  // send-recv: every member sends while it receives
};

struct BlockOps {
  std::vector<KernelOp> kernels;
  std::vector<CommOp> comm;
};

// Sizes of one rank's share of a microbatch. Elements unless said otherwise.
struct LocalShape {
  std::int64_t tokens = 0;       // per sequence-and-context share: seq_len / cp * micro_batch
  std::int64_t norm_tokens = 0;  // in norm and residual regions: / tp with sequence parallelism
  std::int64_t sequence = 0;     // seq_len / cp
  std::int64_t hidden = 0;
  std::int64_t heads = 0;       // query heads / tp
  std::int64_t groups = 0;      // key/value heads on this rank (copied when tp exceeds them)
  std::int64_t query_size = 0;  // heads * head_dim (MLA: heads * (nope + rope))
  std::int64_t kv_size = 0;     // groups * head_dim, of keys or of values
  std::int64_t value_size = 0;  // heads * v head size: input of the output projection
  std::int64_t ffn = 0;         // dense ffn_hidden_size / tp
  std::int64_t vocab = 0;       // padded vocabulary / tp
  int bytes = 2;                // of one stored activation element
};

[[nodiscard]] LocalShape local_shape(const ModelSpec& m, const Strategy& s);

// Vocabulary as stored: padded to a multiple of 128 * tp (Megatron-LM tokenizer padding).
[[nodiscard]] std::int64_t padded_vocab(const ModelSpec& m, const Strategy& s);

struct BlockContext {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const Strategy& strategy;
  LocalShape shape;

  // The shape of a group that a block's collectives run in (kTp, kCp, kEp, kEtp): worked out the
  // first time, since every collective asks. For one thread.
  [[nodiscard]] const GroupShape& group(Group g) const;
  mutable std::array<std::optional<GroupShape>, 4> groups{};
};

// Type of activations as collectives move them.
[[nodiscard]] Dtype activation_dtype(Precision p);

// All kernels and collectives of each block of the model, ZeRO-2 and ZeRO-3 traffic aside (that is
// in BlockCost::communication alone).
[[nodiscard]] std::vector<BlockOps> block_ops(const ModelSpec& m, const ClusterSpec& c,
                                              const Strategy& s);

// Whether scale, mask and softmax of materialised scores run as one kernel: Megatron-LM's takes
// 16-bit scores and multiples of four matrices (fused_softmax.py, is_kernel_available).
[[nodiscard]] bool softmax_is_fused(const BlockContext& x);

// Appenders, one per part of a block.
void append_attention(const BlockContext& x, bool windowed, BlockOps& ops);
void append_dense_mlp(const BlockContext& x, std::int64_t ffn_per_rank, BlockOps& ops);
void append_moe_mlp(const BlockContext& x, BlockOps& ops);
void append_embedding(const BlockContext& x, BlockOps& ops);
void append_head(const BlockContext& x, BlockOps& ops);
void append_mtp_projection(const BlockContext& x, BlockOps& ops);

// Building stones of the appenders.
void append_norm(const BlockContext& x, std::string_view name, std::int64_t elements, BlockOps& ops,
                 bool selective = false);
void append_residual_norm(const BlockContext& x, std::string_view name, BlockOps& ops);
void append_gradient_sum(const BlockContext& x, std::int64_t elements, BlockOps& ops);
// y[tokens, n] = x[tokens, k] W; `stored` parameters for weight-gradient accumulation.
// Returns the times of the input- and weight-gradient products, behind which collectives may hide.
struct LinearTimes {
  Seconds forward, backward_input, backward_weight;
};
LinearTimes append_linear(const BlockContext& x, std::string_view name, std::int64_t tokens,
                          std::int64_t n, std::int64_t k, bool bias, BlockOps& ops,
                          std::int64_t count = 1);
void append_elementwise(const BlockContext& x, std::string_view name, double forward_bytes,
                        double forward_kernels, double backward_bytes, double backward_kernels,
                        BlockOps& ops, bool selective = false,
                        KernelKind kind = KernelKind::kOther);
void append_residual(const BlockContext& x, BlockOps& ops);
void append_activation(const BlockContext& x, double features, BlockOps& ops);
// Collective of tensor parallelism around a column- or row-parallel linear layer.
void append_tp_collectives(const BlockContext& x, const LinearTimes& column, const LinearTimes& row,
                           BlockOps& ops);

}  // namespace meshplan
