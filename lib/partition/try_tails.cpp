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

// So wide that a turn of bounds takes half of the effort at most; 0: it would take more.
std::size_t width_of(const DivisionGraph& graph, const PipelineShape& shape, std::int64_t effort) {
  const auto messages = static_cast<double>(TailBound::messages(shape));
  const double of_one = static_cast<double>(graph.edges().size()) * messages * messages * messages;
  const double affordable = static_cast<double>(effort) * kWorkOfStart / (2 * of_one);
  return static_cast<std::size_t>(std::min(affordable, static_cast<double>(effort / kTailsWidth)));
}

}  // namespace

bool DivisionSearch::try_tails() {
  constexpr int kTurns = 4;
  const PipelineShape shape = pipeline_shape(x_.strategy);
  if (!is(DivisionAsk::kFastest) || given_ < kWorthTails || !TailBound::knows(shape)) {
    return false;
  }
  if (!set_graph()) return true;
  const DivisionGraph& graph = *graph_;
  const std::size_t width = width_of(graph, shape, given_);
  if (width == 0) return false;
  TailBound tails(graph, shape, send_, {exposed_, ends_, tied_, q_.end});
  double work = 0;
  for (int turn = 0; turn < kTurns && left_ > 0; ++turn) {
    const TailBound::Answer answer =
        tails.least(limit() / kRounding, width, static_cast<double>(left_) * kWorkOfStart);
    left_ -= static_cast<std::int64_t>((tails.work() - work) / kWorkOfStart);
    work = tails.work();
    told_ = std::max(told_, answer.least * kRounding);
    if (told_ > limit()) return true;
    if (answer.path.empty()) break;
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
