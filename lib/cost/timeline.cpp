#include "cost/timeline.hpp"

#include <algorithm>

#include "cost/step_model.hpp"

namespace meshplan {

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
    rank.reduction = {run.finish[r], run.finish[r] + exposed};
    reduced = std::max(reduced, rank.reduction.end);
  }
  for (const Message& message : run.messages) {
    t.ranks[static_cast<std::size_t>(message.from)].sends.push_back(message);
  }
  for (RankTimeline& rank : t.ranks) {  // two links leave a rank, each in order
    std::stable_sort(rank.sends.begin(), rank.sends.end(),
                     [](const Message& x, const Message& y) { return x.start < y.start; });
  }
  const StepTail tail = tail_of(s);
  const auto then = [](const Span& before, Seconds takes) {
    return Span{before.end, before.end + takes};
  };
  t.tied_embedding = then({reduced, reduced}, placement_->tied());
  t.optimizer = then(t.tied_embedding, tail.optimizer);
  t.offload = then(t.optimizer, tail.offload);
  t.step_time = t.offload.end;
  return t;
}

StepTimeline step_timeline(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, c, s);
  return OneStep(m, c, s, blocks).model().timeline(s);
}

}  // namespace meshplan
