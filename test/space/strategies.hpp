#pragma once
// The strategies of a space, one by one.
#include "space/space.hpp"

namespace meshplan::search_test {

// Calls visit(strategy, option) for every combination of legal values, without lists of layers.
template <class Visit>
void for_each_legal(const SearchSpace& space, Visit visit) {
  for (const Mesh& mesh : space.meshes()) {
    PartialStrategy k;
    k.base = mesh.base, k.tp = mesh.tp, k.pp = mesh.pp, k.cp = mesh.cp, k.dp = mesh.dp;
    const auto with_options = [&] {
      for (const MemoryOption& option : space.options(mesh)) {
        Strategy s = with_partial(space.bases()[k.base], k);
        s = with_option(s, option);
        visit(s, option);
      }
    };
    for (const std::int64_t b : space.micro_batches(mesh)) {
      k.micro_batch = b;
      for (const ScheduleChoice& schedule : space.schedules(mesh, b)) {
        k.schedule = schedule.schedule, k.vp = schedule.vp;
        for (const CpKind kind : space.cp_kinds(mesh)) {
          k.cp_kind = kind;
          for (const Split& split : space.splits(mesh)) {
            k.ep = split.ep, k.etp = split.etp, k.sequence_parallel = split.sequence_parallel;
            for (const Sharding& sharding : space.shardings(mesh)) {
              k.zero = sharding.zero, k.zero_group = sharding.zero_group, k.order = sharding.order;
              with_options();
            }
          }
        }
      }
    }
  }
}

}  // namespace meshplan::search_test
