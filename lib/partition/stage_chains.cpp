#include "partition/stage_chains.hpp"

#include "partition/least_ends.hpp"

namespace meshplan {

double StageChains::left(const StageLayout& layout, int stage, const StageAssignment& share,
                         std::vector<LayerRange>& chunks) const {
  const DivisionBound::RankChains found = bound_.chains(layout, stage, share, chunks);
  const double left = most_ - found.step;
  if (left < 0 || ends_ == nullptr) return left;
  // More recomputation hides more of what is reduced, but takes no less longer.
  const auto begin = static_cast<std::size_t>(share.place.taken);
  const auto end = begin + static_cast<std::size_t>(share.first);
  const double exposed = bound_.knows_chunks() ? ends_->exposed(stage, chunks, found.own)
                                               : ends_->exposed(stage, begin, end, found.own);
  return found.until_last + exposed <= most_ ? left : -1;
}

}  // namespace meshplan
