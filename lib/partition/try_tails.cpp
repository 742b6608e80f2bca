// A search for the fastest division that asks what its last ranks say.
#include <algorithm>

#include "partition/rounds_search.hpp"
#include "partition/tail_bound.hpp"

namespace meshplan {
namespace {

// Effort that is worth bounds from the last rank on; what of it widens them by one; work that takes
// as long as a partial division.
constexpr std::int64_t kWorthTails = 2048, kTailsWidth = 512;
constexpr std::int64_t kPartForTies = 16;
constexpr double kWorkOfStart = 12000;

}  // namespace

bool DivisionSearch::try_tails() {
  constexpr int kTurns = 4;
  const PipelineShape shape = pipeline_shape(x_.strategy);
  if (!is(DivisionAsk::kFastest) || given_ < kWorthTails || !TailBound::knows(shape)) {
    return false;
  }
  const std::size_t width = static_cast<std::size_t>(given_ / kTailsWidth);
  DivisionGraph graph(stages_, shape, stages_.max_bottleneck(limit() - q_.end));
  built_ += static_cast<std::int64_t>(graph.edges().size() + graph.shares().size());
  if (graph.empty()) return true;
  std::vector<double> exposed;
  find_ends(graph, exposed);
  if (!set_alone(graph, exposed)) return true;
  TailBound tails(graph, shape, send_, {std::move(exposed), ends_, tied_, q_.end});
  double work = 0;
  for (int turn = 0; turn < kTurns && left_ > 0; ++turn) {
    const TailBound::Answer answer = tails.least(limit() / kRounding, width);
    left_ -= static_cast<std::int64_t>((tails.work() - work) / kWorkOfStart);
    work = tails.work();
    told_ = std::max(told_, answer.least * kRounding);
    if (told_ > limit()) return true;
    const bool better = consider(division_of(answer.path));
    if (best_ && told_ >= best_time_ * (1 - kSame)) {
      // None is faster, which of those as fast ranks before is worth a part of the effort.
      const std::int64_t part = given_ / kPartForTies;
      spared_ += std::max<std::int64_t>(0, left_ - part), left_ = std::min(left_, part);
      break;
    }
    if (!better) break;
  }
  return false;
}

}  // namespace meshplan
