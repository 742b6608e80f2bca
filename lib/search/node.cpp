#include "search/node.hpp"

namespace meshplan {

PartialStrategy partial_of(const SearchSpace& space, const Node& node) {
  const Mesh& mesh = space.meshes()[node.mesh];
  PartialStrategy c;
  c.base = mesh.base;
  c.order = space.bounding_orders(mesh).front();
  c.tp = mesh.tp, c.pp = mesh.pp, c.cp = mesh.cp, c.dp = mesh.dp;
  c.micro_batch = space.micro_batches(mesh)[node.micro_batch];
  if (node.level >= Level::kSplit) {
    c.cp_kind = space.cp_kinds(mesh)[node.cp_kind];
    const Split& split = space.splits(mesh)[node.split];
    c.sequence_parallel = split.sequence_parallel, c.ep = split.ep, c.etp = split.etp;
  }
  if (node.level >= Level::kSchedule) {
    const ScheduleChoice& s = space.schedules(mesh, c.micro_batch)[node.schedule];
    c.schedule = s.schedule, c.vp = s.vp;
  }
  if (node.level >= Level::kSharding) {
    const Sharding& s = space.shardings(mesh)[node.sharding];
    c.zero = s.zero, c.zero_group = s.zero_group, c.order = s.order;
  }
  return c;
}

}  // namespace meshplan
