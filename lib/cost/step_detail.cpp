// The value of a step explained: its terms, what every rank does and holds, and all messages.
#include <algorithm>

#include "cost/block.hpp"
#include "cost/data_parallel.hpp"
#include "cost/step_model.hpp"
#include "model/flops.hpp"
#include "model/packing.hpp"
#include "schedule/chunk_map.hpp"

namespace meshplan {
namespace {

void add_communication(std::vector<CommEntry>& table, const CommEntry& entry) {
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

}  // namespace

void StepModel::explain_stages(const Strategy& s, PlanCost& plan) const {
  const PipelineShape shape = pipeline_shape(s);
  const BlockTable& table = prefix_.table;
  for (std::size_t r = 0; r < group_of_rank_.size(); ++r) {
    const RankGroup& group = groups_[group_of_rank_[r]];
    RankMemory memory = group.memory;
    memory.activations = activations_[r];
    if (!graph_inputs_.empty()) memory.graph_inputs = graph_inputs_[r];
    if (!graph_saved_.empty()) memory.graph_saved = graph_saved_[r];
    StageCost& stage = plan.stages.emplace_back();
    stage.layers = s.stage_layers[r];
    stage.kinds = layer_kinds(table, group.mine.blocks);
    stage.recomputed_layers = s.recompute_layers[r];
    stage.embedding = group.mine.blocks.embedding() > 0;
    stage.head = group.mine.blocks.head() > 0;
    stage.forward = group.passes.forward.total();
    stage.backward = group.passes.backward.total() + group.passes.recompute.total();
    stage.in_flight = peak_in_flight(shape, static_cast<std::int64_t>(r));
    stage.memory = memory_breakdown(cluster_, memory, s, placement_->communicators());
    stage.cached = cached_bytes(model_, s, memory, stage.memory);
    stage.ledger = ledger_of(memory, s.offload);
    stage.trained_parameters = memory.parameters.dense + memory.parameters.experts;
    stage.parameters = stage.trained_parameters + memory.parameters.frozen;
    if (stage.memory.peak > plan.memory().peak) plan.fullest_stage = r;
  }
}

// Those of the last rank.
void StepModel::explain_messages(const Strategy& s, const RankGroup& last, PlanCost& plan) const {
  std::vector<CommEntry>& table = plan.communication;
  const double passes = microbatches_ * share_;
  const RankChunks own = chunks_on_rank(pipeline_shape(s), static_cast<std::int64_t>(last.first));
  for (std::int64_t i = 0; i < own.count; ++i) {
    const ChunkKind& kind = kinds_[kind_of_chunk_[own[i]]];
    for (std::size_t k = 0; k < kind.blocks.size(); ++k) {
      const auto once = static_cast<double>(kind.blocks[k]) * passes;
      const auto again = static_cast<double>(kind.recomputed[k]) * passes;
      if (once == 0) continue;
      for (CommEntry entry : blocks_->of(k, last.mine.device).communication) {
        double times = entry.repeated ? once + again : once;
        if (entry.selective && s.recompute == Recompute::kSelective) times += once - again;
        entry.count_per_step *= times;
        entry.exposed *= times;
        add_communication(table, entry);
      }
    }
  }
  // [F-EP-18] What is seen more of the first and the last passes, in proportion to the messages.
  Seconds exchanged;
  for (const CommEntry& entry : table) {
    if (entry.dimension == CommDimension::kEp) exchanged += entry.time_each * entry.count_per_step;
  }
  for (CommEntry& entry : table) {
    if (entry.dimension != CommDimension::kEp || exchanged == Seconds{}) continue;
    entry.exposed += unpaired_time(s).ep * (entry.time_each * entry.count_per_step / exchanged);
  }
  if (s.pp > 1) {
    const double sends = 2 * microbatches_ * static_cast<double>(s.vp);
    table.push_back({CommDimension::kPp, Collective::kSendRecv, 2, placement_->neighbours().level,
                     send_.message, sends, send_.time.transfer, plan.time.pp_comm_exposed,
                     Group::kPpNeighbour, activation_dtype(s.precision), false,
                     send_.bidirectional});
  }
  static_cast<void>(step_end(cluster_, s, last.end, last.passes, &table));
  static_cast<void>(embedding_reduction(model_, cluster_, s, &table));
}

// [F-MFU-1] Model and hardware FLOP utilisation: operations of the model (with what recomputation
// repeats, for hardware) over GPUs x peak rate of the training precision x step time.
void StepModel::explain_utilisation(const Strategy& s, PlanCost& plan) const {
  plan.tokens_per_step = real_tokens(model_, s);
  const std::int64_t document = document_length(model_, s);
  plan.model_flops =
      model_flops(model_, document, plan.tokens_per_step, AttentionCount::kFull, trained_parts(s));
  if (s.loss == Loss::kDpo) {  // the reference model's forward pass is the method's work
    plan.model_flops +=
        model_flops(model_, document, plan.tokens_per_step, AttentionCount::kFull, {}) / 3.0;
  }
  Flops again;
  const bool selective = s.recompute == Recompute::kSelective;
  for (const Chunk& chunk : chunks_) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const BlockCost& block = blocks_->of(k, chunk.device);
      const auto full = static_cast<double>(chunk.recomputed[k]);
      const auto rest = static_cast<double>(chunk.blocks[k] - chunk.recomputed[k]);
      again += block.recompute_full_flops * full;
      if (selective) again += block.recompute_selective_flops * rest;
    }
  }
  const auto replicas = static_cast<double>(s.tp * s.cp * s.dp);
  plan.hardware_flops = plan.model_flops + again * (replicas * microbatches_);
  const Seconds device_time = plan.step_time * static_cast<double>(num_gpus(s));
  const FlopsPerSecond peak = peak_rate(cluster_.device, s.precision);
  plan.mfu = plan.model_flops.si() / (device_time.si() * peak.si());
  Flops causal = model_flops(model_, document, plan.tokens_per_step, AttentionCount::kCausal,
                             trained_parts(s));
  if (s.loss == Loss::kDpo) {
    causal +=
        model_flops(model_, document, plan.tokens_per_step, AttentionCount::kCausal, {}) / 3.0;
  }
  plan.mfu_causal = causal.si() / (device_time.si() * peak.si());
  plan.hfu = plan.hardware_flops.si() / (device_time.si() * peak.si());
}

PlanCost StepModel::explain(const Strategy& s) {
  PlanCost plan;
  plan.strategy = s;
  explain_stages(s, plan);
  const StepTail tail = tail_of(s);
  plan.last_stage = tail.last->first;
  while (finish_[plan.last_stage] != tail.last->finish) ++plan.last_stage;
  plan.time = terms_of(s, tail);
  plan.step_time = total(plan.time);
  if (s.pp > 1) {
    sends_.assign(times_.size() - 1, SendTime{});
    const Seconds alone =
        runner_.finish(pipeline_shape(s), times_, sends_, sends_)[plan.last_stage];
    sends_.assign(times_.size() - 1, send_.time);
    split_idle(plan.time, tail.last->finish - alone);
  }
  plan.bubble_fraction = plan.time.pp_bubble / plan.step_time;
  explain_messages(s, *tail.last, plan);
  explain_utilisation(s, plan);
  return plan;
}

}  // namespace meshplan
