#include "spec/axes.hpp"

namespace meshplan {

std::int64_t axis_size(const Strategy& s, Axis axis, bool expert) {
  switch (axis) {
    case Axis::kTp:
      return expert ? s.etp : s.tp;
    case Axis::kCp:
      return expert ? 1 : s.cp;
    case Axis::kEp:
      return expert ? s.ep : 1;
    case Axis::kDp:
      return expert ? expert_dp(s) : s.dp;
    case Axis::kPp:
      return s.pp;
  }
  return 1;
}

}  // namespace meshplan
