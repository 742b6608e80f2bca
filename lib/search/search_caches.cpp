#include "search/search_caches.hpp"

#include <algorithm>

#include "cost/memory.hpp"

namespace meshplan {
namespace {

// What the groups of a strategy and their collectives depend on, besides its base.
IntegerKey<9> place_key(const Strategy& s, std::size_t base) {
  std::int64_t order = s.zero;
  for (const Axis axis : s.order) order = order * 8 + static_cast<std::int64_t>(axis);
  return {
      s.tp, s.pp, s.cp, s.dp, s.ep, s.etp, order, s.zero_group, static_cast<std::int64_t>(base)};
}

}  // namespace

SearchCaches::SearchCaches(const ModelSpec& m, const ClusterSpec& c)
    : model(m),
      cluster(c),
      shapes_(c),
      parts(m, c, shapes_),
      blocks(m, c, shapes_),
      pipelines(m),
      models(m, c),
      alike_(layer_prefix(m, Strategy{})) {}

std::size_t SearchCaches::base_number(const Strategy& base) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find(bases_.begin(), bases_.end(), base);
  const auto number = static_cast<std::size_t>(known - bases_.begin());
  if (known == bases_.end()) bases_.push_back(base);
  return number;
}

Bytes SearchCaches::communicators(const Strategy& s, std::size_t base) {
  return communicators_.get(place_key(s, base),
                            [&] { return communicator_bytes(model, cluster, s); });
}

const LayerPrefix& SearchCaches::prefix(const Strategy& s) const {
  if (!has_bf16_layers(s)) return alike_;
  return prefixes_.get({s.runtime.num_layers_at_start_in_bf16, s.runtime.num_layers_at_end_in_bf16},
                       [&] { return layer_prefix(model, s); });
}

const Placement& SearchCaches::placement(const Strategy& s, std::size_t base) {
  return placements_.get(place_key(s, base),
                         [&] { return Placement(model, cluster, s, communicators(s, base)); });
}

}  // namespace meshplan
