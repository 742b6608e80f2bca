#pragma once
// The strategies of a space, one by one.
#include "space/space.hpp"

namespace meshplan::search_test {

// Calls visit(choice, option) for every combination of legal values.
template <class Visit>
void for_each_choice(const SearchSpace& space, Visit visit) {
  for (const Mesh& mesh : space.meshes()) {
    PartialStrategy k;
    k.base = mesh.base, k.tp = mesh.tp, k.pp = mesh.pp, k.cp = mesh.cp, k.dp = mesh.dp;
    const auto with_options = [&] {
      for (const MemoryOption& option : space.options(mesh)) visit(k, option);
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

// The same with strategies, without lists of layers.
template <class Visit>
void for_each_legal(const SearchSpace& space, Visit visit) {
  for_each_choice(space, [&](const PartialStrategy& k, const MemoryOption& option) {
    visit(with_option(with_partial(space.bases()[k.base], k), option), option);
  });
}

// Of a space all that is legal in it, to compare.
struct Choices {
  std::vector<Strategy> bases;
  std::vector<std::pair<PartialStrategy, MemoryOption>> all;
  bool operator==(const Choices&) const = default;
};

inline Choices choices_of(const SearchSpace& space) {
  Choices choices{space.bases(), {}};
  for_each_choice(space, [&](const PartialStrategy& k, const MemoryOption& option) {
    choices.all.emplace_back(k, option);
  });
  return choices;
}

}  // namespace meshplan::search_test
