#include "cost/step.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "base/text.hpp"
#include "cost/block_ops.hpp"
#include "cost/flops.hpp"
#include "cost/memory.hpp"
#include "cost/remedies.hpp"
#include "cost/step_parts.hpp"
#include "spec/target.hpp"

namespace meshplan {

Seconds total(const TimeTerms& t) {
  return t.compute + t.recompute + t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed +
         t.pp_comm_exposed + t.pp_bubble + t.dp_comm_exposed + t.optimizer + t.other;
}

std::string_view name_of(CommDimension d) {
  constexpr std::array<std::string_view, 7> kNames{"tp", "cp",        "ep",  "pp",
                                                   "dp", "embedding", "loss"};
  return kNames[static_cast<std::size_t>(d)];
}

std::string_view name_of(InfeasibleReason r) {
  constexpr std::array<std::string_view, 4> kNames{"illegal", "model_states", "activations",
                                                   "host_memory"};
  return kNames[static_cast<std::size_t>(r)];
}

Strategy complete(Strategy s, const ModelSpec& m, const ClusterSpec& c) {
  if (s.dp <= 0) s.dp = std::max<std::int64_t>(1, num_gpus(c) / (s.tp * s.pp * s.cp));
  if (s.stage_layers.empty()) s.stage_layers = stage_layers(s, m);
  if (s.recompute_layers.empty()) {
    s.recompute_layers.assign(static_cast<std::size_t>(s.pp), 0);
    if (s.recompute == Recompute::kFull) s.recompute_layers = s.stage_layers;
  }
  return s;
}

namespace {

void add_communication(std::vector<CommEntry>& table, CommEntry entry) {
  for (CommEntry& row : table) {
    if (row.dimension == entry.dimension && row.operation == entry.operation &&
        row.group == entry.group && row.bytes == entry.bytes && row.dtype == entry.dtype &&
        row.bidirectional == entry.bidirectional) {
      row.count_per_step += entry.count_per_step;
      row.exposed += entry.exposed;
      return;
    }
  }
  table.push_back(entry);
}

void block_communication(const Assembly& a, const BlockCosts& blocks, const Strategy& s,
                         std::int64_t rank, std::vector<CommEntry>& table) {
  for (const std::size_t i : chunks_of_rank(s, rank)) {
    const Chunk& chunk = a.chunks[i];
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const auto once = static_cast<double>(chunk.blocks[k]) * a.microbatches * a.share;
      const auto again = static_cast<double>(chunk.recomputed[k]) * a.microbatches * a.share;
      if (once == 0) continue;
      for (CommEntry entry : blocks.of(k, chunk.device).communication) {
        const double times = entry.forward ? once + again : once;
        entry.count_per_step *= times;
        entry.exposed *= times;
        add_communication(table, entry);
      }
    }
  }
}

struct PipelineTimes {
  std::vector<Seconds> finish;        // per rank, with sends
  std::vector<Seconds> finish_alone;  // per rank, if sends took no time
  BoundarySend send;
};

PipelineTimes run_schedule(const ClusterSpec& c, const ModelSpec& m, const Strategy& s,
                           const Assembly& a) {
  PipelineTimes t;
  if (s.pp == 1) {
    t.finish = t.finish_alone = {a.ranks[0].total() * a.microbatches};
    return t;
  }
  t.send = boundary_send(m, c, s);
  t.finish = run_assembly(s, a, t.send.time, false).finish;
  t.finish_alone = run_assembly(s, a, SendTime{}, false).finish;
  return t;
}

StageCost stage_cost(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                     const BlockCosts& blocks, const Assembly& a, std::int64_t rank) {
  const auto r = static_cast<std::size_t>(rank);
  StageCost stage;
  stage.layers = s.stage_layers[r];
  stage.recomputed_layers = s.recompute_layers[r];
  for (const std::size_t i : chunks_of_rank(s, rank)) {
    stage.embedding |= a.chunks[i].blocks.embedding() > 0;
    stage.head |= a.chunks[i].blocks.head() > 0;
  }
  stage.forward = a.ranks[r].forward.total();
  stage.backward = a.ranks[r].backward.total() + a.ranks[r].recompute.total();
  stage.in_flight = peak_in_flight(pipeline_shape(s), rank);
  stage.memory = rank_memory(m, c, s, blocks, a.chunks, rank);
  const BlockParameters p = rank_parameters(m, s, blocks, a.chunks, rank);
  stage.parameters = p.dense + p.experts;
  return stage;
}

// [F-ALLOC-1] Where the peak exceeds the device, PyTorch's caching allocator lives on giving blocks
// back: every message's allocation fails first, waits for the device, frees and maps again. All of
// them from 5 % over the capacity on; a stage sends and receives at most four messages per
// microbatch.
Seconds retry_time(const Strategy& s, const MemoryBreakdown& full, double microbatches) {
  if (s.kernels.retry_stall == 0) return {};
  constexpr double kAllFail = 0.05;
  const double over = full.peak.si() / full.capacity.si() - 1;
  const double share = std::min(1.0, std::max(0.0, over / kAllFail));
  const double messages = static_cast<double>(std::min<std::int64_t>(2 * (s.pp - 1), 4));
  return Seconds{s.kernels.retry_stall} * (share * std::max(1.0, messages) * microbatches);
}

// The rank that ends last, and what its step consists of.
void fill_time(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
               const BlockCosts& blocks, const Assembly& a, PlanCost& plan) {
  const PipelineTimes pipeline = run_schedule(c, m, s, a);
  const StepEnds ends = step_ends(m, c, s, blocks, a, pipeline.finish);
  const std::size_t last = ends.last;
  plan.last_stage = last;
  plan.time =
      step_terms({a.ranks[last], a.microbatches, pipeline.finish[last], pipeline.finish_alone[last],
                  ends.ranks[last].exposed, ends.tied, ends.optimizer, ends.offload});
  plan.time.other = plan.time.other + retry_time(s, plan.memory(), a.microbatches);
  const TimeTerms& t = plan.time;
  plan.step_time = total(t);
  plan.bubble_fraction = t.pp_bubble / plan.step_time;

  block_communication(a, blocks, s, static_cast<std::int64_t>(last), plan.communication);
  if (s.pp > 1) {
    const GroupShape g = group_shape(s, c, Group::kPpNeighbour);
    const double sends = 2 * a.microbatches * static_cast<double>(s.vp);
    plan.communication.push_back(
        {CommDimension::kPp, Collective::kSendRecv, 2, g.level, pipeline.send.message, sends,
         pipeline.send.time.transfer, t.pp_comm_exposed, Group::kPpNeighbour,
         activation_dtype(s.precision), false, pipeline.send.bidirectional});
  }
  for (const CommEntry& entry : ends.reductions) plan.communication.push_back(entry);
  for (const CommEntry& entry : ends.embedding) plan.communication.push_back(entry);
}

// [F-MFU-1] Model and hardware FLOP utilisation: operations of the model (with what recomputation
// repeats, for hardware) over GPUs x peak rate of the training precision x step time.
void fill_utilisation(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                      const BlockCosts& blocks, const Assembly& a, PlanCost& plan) {
  plan.tokens_per_step = static_cast<double>(s.global_batch) * static_cast<double>(s.seq_len);
  plan.model_flops = model_flops(m, s.seq_len, plan.tokens_per_step);
  Flops again;
  const bool selective = s.recompute == Recompute::kSelective;
  for (const Chunk& chunk : a.chunks) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const auto full = static_cast<double>(chunk.recomputed[k]);
      const auto rest = static_cast<double>(chunk.blocks[k] - chunk.recomputed[k]);
      const BlockCost& block = blocks.of(k, chunk.device);
      again += block.forward_flops * full;
      if (selective) again += block.recompute_selective_flops * rest;
    }
  }
  const auto replicas = static_cast<double>(s.tp * s.cp * s.dp);
  plan.hardware_flops = plan.model_flops + again * (replicas * a.microbatches);
  const Seconds device_time = plan.step_time * static_cast<double>(num_gpus(s));
  const FlopsPerSecond peak = peak_rate(c.device, s.precision);
  plan.mfu = plan.model_flops.si() / (device_time.si() * peak.si());
  plan.hfu = plan.hardware_flops.si() / (device_time.si() * peak.si());
}

}  // namespace

PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  return cost_of(m, c, s, block_costs(m, c, s));
}

PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const BlockCosts& blocks) {
  PlanCost plan;
  plan.strategy = s;
  const Assembly a = assemble(m, s, blocks);
  for (std::int64_t r = 0; r < s.pp; ++r) {
    plan.stages.push_back(stage_cost(m, c, s, blocks, a, r));
    if (plan.stages.back().memory.peak > plan.stages[plan.fullest_stage].memory.peak) {
      plan.fullest_stage = static_cast<std::size_t>(r);
    }
  }
  fill_time(m, c, s, blocks, a, plan);
  fill_utilisation(m, c, s, blocks, a, plan);
  return plan;
}

MemoryBreakdown stage_memory(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                             const BlockCosts& blocks, std::int64_t stage) {
  return rank_memory(m, c, s, blocks, chunk_plan(m, s), stage);
}

Seconds step_lower_bound(const BlockCounts& all, const Strategy& s, const BlockCosts& blocks) {
  // Every microbatch passes every block without recomputation; the fullest rank does at least its
  // even share of that. Ends of the step only add.
  Seconds work;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const BlockCost& b = blocks[k];
    work += (b.forward.total() + b.backward_input.total() + b.backward_weight.total()) *
            static_cast<double>(all[k]);
  }
  return work * (static_cast<double>(num_microbatches(s)) / static_cast<double>(s.pp));
}

namespace {

Infeasible not_fitting(const PlanCost& plan, const ClusterSpec& c, const ModelSpec& m,
                       bool with_remedies) {
  const MemoryBreakdown& full = plan.memory();
  Infeasible result;
  const Bytes states = full.weights + full.gradients + full.optimizer + full.reserved;
  result.reason =
      states > full.capacity ? InfeasibleReason::kModelStates : InfeasibleReason::kActivations;
  result.shortfall = full.peak - full.capacity;
  result.messages.push_back("pipeline rank " + std::to_string(plan.fullest_stage) + " needs " +
                            human_bytes(full.peak) + " of " + human_bytes(full.capacity));
  if (with_remedies) result.remedies = memory_remedies(m, c, plan.strategy);
  return result;
}

// Host memory that offloading needs per node, against what a node has.
std::optional<Infeasible> host_overflow(const PlanCost& plan, const ModelSpec& m,
                                        const ClusterSpec& c, const BlockCosts& blocks) {
  if (c.host_memory == Bytes{}) return std::nullopt;
  const Offload& offload = plan.strategy.offload;
  const Bytes node = host_bytes(m, c, plan.strategy, blocks);
  if (node <= c.host_memory) return std::nullopt;
  Infeasible result;
  result.reason = InfeasibleReason::kHostMemory;
  result.shortfall = node - c.host_memory;
  result.messages.push_back("offloading needs " + human_bytes(node) +
                            " of host memory per node, it has " + human_bytes(c.host_memory));
  if (offload.activations) {
    result.remedies.push_back(
        "recompute activations instead (offload.activations=false,recompute=full)");
  }
  if (offload.optimizer) {
    result.remedies.push_back(
        "keep the optimizer on the device (offload.optimizer=false) or use more nodes");
  }
  return result;
}

}  // namespace

Verdict evaluate(const ModelSpec& m, const ClusterSpec& c, Strategy s,
                 const EvaluateOptions& options) {
  Verdict verdict;
  s = complete(std::move(s), m, c);
  Infeasible illegal;
  std::vector<std::string> warnings;
  for (const Diagnostic& d : validate(s, m, c)) {
    std::string text = d.message + (d.hint.empty() ? "" : "; " + d.hint);
    (d.severity == Severity::kError ? illegal.messages : warnings).push_back(std::move(text));
  }
  if (!illegal.messages.empty()) {
    verdict.state = std::move(illegal);
    return verdict;
  }
  const BlockCosts blocks = block_costs(m, c, s);
  PlanCost plan = cost_of(m, c, s, blocks);
  plan.warnings = std::move(warnings);
  if (std::string unknown = inexpressible(s, m, c); !unknown.empty()) {
    plan.warnings.push_back(std::move(unknown));
  }
  verdict.stages = plan.stages;
  if (!options.ignore_memory) {
    if (plan.memory().peak > plan.memory().capacity) {
      verdict.state = not_fitting(plan, c, m, options.with_remedies);
      return verdict;
    }
    if (auto overflow = host_overflow(plan, m, c, blocks)) {
      verdict.state = std::move(*overflow);
      return verdict;
    }
  }
  verdict.state = std::move(plan);
  return verdict;
}

}  // namespace meshplan
