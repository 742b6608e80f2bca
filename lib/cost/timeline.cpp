#include "cost/timeline.hpp"

#include <algorithm>

#include "cost/step_parts.hpp"

namespace meshplan {

StepTimeline step_timeline(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, c, s);
  const Assembly a = assemble(m, s, blocks);
  const SendTime send = s.pp > 1 ? boundary_send(m, c, s).time : SendTime{};
  PipelineResult run = run_assembly(s, a, send, true);
  const StepEnds ends = step_ends(m, c, s, blocks, a, run.finish);

  StepTimeline t;
  t.shape = pipeline_shape(s);
  Seconds reduced;
  for (std::size_t r = 0; r < run.timeline.size(); ++r) {
    RankTimeline rank;
    rank.tasks = std::move(run.timeline[r]);
    rank.reduction = {run.finish[r], run.finish[r] + ends.ranks[r].exposed};
    reduced = std::max(reduced, rank.reduction.end);
    t.ranks.push_back(std::move(rank));
  }
  for (const Message& message : run.messages) {
    t.ranks[static_cast<std::size_t>(message.from)].sends.push_back(message);
  }
  for (RankTimeline& rank : t.ranks) {  // two links leave a rank, each in order
    std::stable_sort(rank.sends.begin(), rank.sends.end(),
                     [](const Message& x, const Message& y) { return x.start < y.start; });
  }
  const auto then = [](const Span& before, Seconds takes) {
    return Span{before.end, before.end + takes};
  };
  t.tied_embedding = then({reduced, reduced}, ends.tied);
  t.optimizer = then(t.tied_embedding, ends.optimizer);
  t.offload = then(t.optimizer, ends.offload);
  t.step_time = t.offload.end;
  return t;
}

}  // namespace meshplan
