#include "cost/timeline.hpp"

#include <algorithm>

#include "cost/step_model.hpp"

namespace meshplan {

// What a rank has allocated, from what is there between two steps on: every forward pass leaves
// what it saves, a backward pass works beside that and frees it, the update makes its copies. Late
// gradients ([F-MEM-5]) grow with the layers that are done.
void StepModel::add_allocated(const Strategy& s, std::size_t r, StepTimeline& t) const {
  const RankGroup& group = groups_[group_of_rank_[r]];
  RankMemory memory = group.memory;
  memory.activations = activations_[r];
  const StateBytes states = on_device(memory.states, s.offload);
  const Bytes kept =
      states.weights + states.gradients - states.late + states.optimizer + memory.kept.sum();
  const Bytes between = kept + memory.inputs + states.stays;
  RankTimeline& rank = t.ranks[r];
  std::vector<AllocatedAt>& all = rank.allocated;
  all.push_back({Seconds{}, between});
  // Beside all that is saved, whichever of a backward pass's moments is the fuller.
  const BackwardMoment fuller = fuller_moment(memory, s.offload);
  const Bytes whole = s.offload.activations ? memory.resident : memory.activations;
  const Bytes beside = fuller.activations + fuller.buffers - whole;
  Bytes saved;
  // Of offloaded activations no more stay on the device [F-OFF-8].
  const auto here = [&] {
    return kept + (s.offload.activations ? std::min(saved, memory.resident) : saved);
  };
  for (const TimelineEntry& entry : rank.tasks) {
    const auto chunk = static_cast<std::size_t>(entry.task.chunk);
    const ChunkSaved& bytes = kinds_[kind_of_chunk_[chunk]].saved;
    if (entry.task.kind == TaskKind::kForward) {
      saved += bytes.whole;
      all.push_back({entry.end, here()});
      continue;
    }
    all.push_back({entry.start, here() + beside});
    const bool split = entry.task.kind != TaskKind::kBackward;
    const bool first = entry.task.kind == TaskKind::kBackwardInput;
    saved -= split ? (first ? bytes.whole - bytes.for_weight : bytes.for_weight) : bytes.whole;
    all.push_back({entry.end, here()});
  }
  const Bytes done = kept + states.late + memory.inputs;
  all.push_back({rank.reduction.end, done});
  all.push_back({t.optimizer.start, done + states.update});
  all.push_back({t.optimizer.end, between});
}

StepTimeline StepModel::timeline(const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  sends_.assign(times_.size() - 1, send_.time);
  const PipelineResult& run = runner_.run(shape, times_, sends_, sends_, true);
  StepTimeline t;
  t.shape = shape;
  Seconds reduced;
  for (std::size_t r = 0; r < run.timeline.size(); ++r) {
    const RankGroup& group = groups_[group_of_rank_[r]];
    RankTimeline& rank = t.ranks.emplace_back();
    rank.tasks = run.timeline[r];
    const Seconds exposed = step_end(cluster_, s, group.end, group.passes).exposed;
    const Seconds done = run.finish[r] + group.deferred.total();
    rank.reduction = {done, done + exposed};
    reduced = std::max(reduced, rank.reduction.end);
  }
  for (const TimedMessage& message : run.messages) {
    t.ranks[static_cast<std::size_t>(message.from)].sends.push_back(message);
  }
  for (RankTimeline& rank : t.ranks) {  // two links leave a rank, each in order
    std::stable_sort(
        rank.sends.begin(), rank.sends.end(),
        [](const TimedMessage& x, const TimedMessage& y) { return x.start < y.start; });
  }
  const StepTail tail = tail_of(s);
  const auto then = [](const Span& before, Seconds takes) {
    return Span{before.end, before.end + takes};
  };
  const PassTime alone = unpaired_time(s);
  t.unpaired = then({reduced, reduced}, alone.ep + alone.launch);
  t.tied_embedding = then(t.unpaired, placement_->tied());
  t.optimizer = then(t.tied_embedding, tail.optimizer);
  t.offload = then(t.optimizer, tail.offload);
  t.step_time = t.offload.end;
  for (std::size_t r = 0; r < t.ranks.size(); ++r) add_allocated(s, r, t);
  return t;
}

StepTimeline step_timeline(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, c, s);
  return OneStep(m, c, s, blocks).model().timeline(s);
}

}  // namespace meshplan
