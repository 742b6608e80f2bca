#include "cost/operations.hpp"

#include <algorithm>

#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/placement.hpp"
#include "schedule/chunk_map.hpp"

namespace meshplan {
namespace {

bool is_alike(const KernelOp& a, const KernelOp& b) {
  return a.name == b.name && a.pass == b.pass && a.time == b.time && a.kind == b.kind &&
         a.bytes == b.bytes && a.calls == b.calls && exact_key(a) == exact_key(b);
}

void add(std::vector<KernelCall>& all, const KernelOp& op, double count) {
  if (count == 0 || op.time == Seconds{}) return;
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&](const KernelCall& call) { return is_alike(call.op, op); });
  if (same == all.end()) {
    all.push_back({op, count, {}});
  } else {
    same->count_per_step += count;
  }
}

// How often the step runs an operation of a block: full recomputation repeats the forward pass,
// selective recomputation what is marked for it in the other blocks.
double runs(const KernelOp& op, const Strategy& s, const Chunk& chunk, std::size_t kind) {
  const auto blocks = static_cast<double>(chunk.blocks[kind]);
  const auto full = static_cast<double>(chunk.recomputed[kind]);
  double count = blocks;
  if (op.pass == Pass::kForward && op.repeated) count += full;
  if (s.recompute == Recompute::kSelective) count += op.selective * (blocks - full);
  return count;
}

void add_optimizer(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, const Chunk& mine,
                   std::vector<KernelCall>& all) {
  const double share = s.offload.device_share();
  if (share == 0) return;
  const BlockParameters p = held_parameters(memory_rates(m, c, s), block_costs(m, c, s), mine);
  const Seconds step = Placement(m, c, s).end_of(m, c, p).optimizer * share;
  const Seconds fused = optimizer_time(c.device, s, p) * share;
  KernelOp op;
  op.name = "optimizer step";
  op.time = step;
  // Slower than the kernel itself: the host's launches decide, which no kernel's time shows.
  const bool on_device = s.runtime.fused_optimizer && step <= fused;
  op.kind = on_device ? KernelKind::kOptimizer : KernelKind::kOther;
  op.bytes = optimizer_traffic(s, p) * share;
  if (step > Seconds{}) all.push_back({op, 1, step});
}

}  // namespace

std::vector<KernelCall> step_kernels(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                     std::int64_t rank) {
  const std::vector<BlockOps> blocks = block_ops(m, c, s);
  const std::vector<Chunk> chunks = chunk_plan(m, s);
  const double passes = static_cast<double>(num_microbatches(s)) * traits_of(s.schedule).share();
  std::vector<KernelCall> all;
  Chunk mine(blocks.size());
  const RankChunks own = chunks_on_rank(pipeline_shape(s), rank);
  for (std::int64_t i = 0; i < own.count; ++i) {
    const Chunk& chunk = chunks[own[i]];
    add_blocks(chunk, mine);
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (chunk.blocks[k] == 0) continue;
      for (const KernelOp& op : blocks[k].kernels) {
        add(all, op, runs(op, s, chunk, k) * passes);
      }
    }
  }
  const double slowest = slowest_of(c.device, num_gpus(s));
  for (KernelCall& call : all) call.per_step = call.op.time * (call.count_per_step * slowest);
  add_optimizer(m, c, s, mine, all);
  return all;
}

LayerTime mean_layer(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                     std::int64_t rank) {
  const std::vector<BlockOps> blocks = block_ops(m, c, s);
  const BlockTable table = block_table(m, s);
  const std::vector<Chunk> chunks = chunk_plan(m, s);
  const RankChunks own = chunks_on_rank(pipeline_shape(s), rank);
  LayerTime mean;
  mean.chunks = own.count;
  double layers = 0;
  for (std::int64_t i = 0; i < own.count; ++i) {
    const Chunk& chunk = chunks[own[i]];
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (chunk.blocks[k] == 0 || !table.is_layer(k)) continue;
      const auto count = static_cast<double>(chunk.blocks[k]);
      layers += count;
      bool attends = false;
      for (const KernelOp& op : blocks[k].kernels) {
        const double once = op.pass == Pass::kForward ? count : 0;
        mean.forward += op.time * once;
        mean.backward += op.time * (runs(op, s, chunk, k) - once);
        attends = attends || (op.pass == Pass::kForward && op.attention.has_value());
      }
      if (attends) mean.attention_layers += chunk.blocks[k];
    }
  }
  const double each = layers > 0 ? slowest_of(c.device, num_gpus(s)) / layers : 0;
  mean.forward = mean.forward * each;
  mean.backward = mean.backward * each;
  return mean;
}

std::optional<KernelKey> exact_key(const KernelOp& op) {
  if (op.gemm) return exact_key(*op.gemm, op.precision);
  if (op.attention) return exact_key(*op.attention, op.pass != Pass::kForward);
  if (op.kind == KernelKind::kOther) return std::nullopt;
  return exact_key(op.kind, op.pass != Pass::kForward, op.bytes);
}

}  // namespace meshplan
