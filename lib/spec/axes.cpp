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

bool keeps_pipeline_ranks(const Strategy& s, const ModelSpec& m) {
  if (!m.moe || s.pp == 1) return true;
  std::int64_t others = 1, experts = 1;  // ranks inside of pp
  for (const Axis axis : s.order) {
    if (axis == Axis::kPp) break;
    others *= axis_size(s, axis, false), experts *= axis_size(s, axis, true);
  }
  return others == experts;
}

}  // namespace meshplan
