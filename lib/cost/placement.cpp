#include "cost/placement.hpp"

#include <atomic>

#include "cost/memory.hpp"
#include "cost/step_parts.hpp"

namespace meshplan {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Placement::Placement(const ModelSpec& m, const ClusterSpec& c, const Strategy& s)
    : Placement(m, c, s, communicator_bytes(m, c, s)) {}

Placement::Placement(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                     Bytes communicators)
    : number_(next_number()),
      strategy_(s),
      groups_(step_end_groups(m, c, s)),
      communicators_(communicators),
      tied_(embedding_reduction(m, c, s, nullptr)) {
  if (s.pp == 1) return;
  neighbours_ = group_shape(s, c, Group::kPpNeighbour);
  tensor_ = group_shape(s, c, Group::kTp);
}

}  // namespace meshplan
