#include <algorithm>
#include <limits>

#include "search/bounds.hpp"
#include "search/node_expander.hpp"
#include "search/usual_choices.hpp"
#include "spec/axes.hpp"

// What the strategies below a node must hold at least, and the count of those that cannot.

namespace meshplan {

// Of all shardings; none where there is no sharding, or activations and buffers do not count.
Bytes NodeExpander::least_communicators(const Node& node) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  if (x_.request.ignore_activations || x_.space.shardings(mesh).empty()) return {};
  const Split& split = x_.space.splits(mesh)[node.split];
  return x_.least_communicators.get({node.mesh, split.ep, split.etp}, [&] {
    Bytes least{std::numeric_limits<std::int64_t>::max()};
    Strategy s = strategy(node);
    for (const Sharding& sharding : x_.space.shardings(mesh)) {
      s.zero = sharding.zero, s.zero_group = sharding.zero_group, s.order = sharding.order;
      least = std::min(least, x_.communicators(s, mesh.base));
    }
    return least;
  });
}

// Of a split: before anything is known of its blocks.
Bytes NodeExpander::least_states(const Node& node) const {
  return weights_bound(x_, most_sharded(node, true)) + least_communicators(node);
}

// With the fewest microbatches in flight that a pipeline has.
Bytes NodeExpander::least_memory(const Node& node, const BlockCosts& blocks,
                                 Bytes communicators) const {
  const Strategy s = most_sharded(node, true);
  InFlight one;
  one.least_held = 1;
  const std::vector<InFlight> in_flight(static_cast<std::size_t>(s.pp), one);
  return memory_bound(x_, s, blocks, in_flight, communicators,
                      may_offload_activations(x_.space.meshes()[node.mesh]));
}

// Whether the strategies of a split may fit at all, by states alone as fits_sharded() has them:
// before anything is known of its blocks. Those that do not are counted.
bool NodeExpander::fits_somehow(const Node& node, Expansion& expansion) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  Strategy s = strategy(node);
  s.zero = 3, s.offload.optimizer = true;
  if (weights_bound(x_, s) <= x_.capacity(Bytes{})) return true;
  const std::int64_t micro_batch = x_.space.micro_batches(mesh)[node.micro_batch];
  const std::vector<ScheduleChoice>& schedules = x_.space.schedules(mesh, micro_batch);
  for (std::uint32_t i = 0; i < schedules.size(); ++i) {
    if (!all() && !is_usual(schedules, schedules[i])) continue;
    Node child = node;
    child.schedule = i;
    count_out(mesh, placed_shardings(child), true, expansion.examined);
  }
  return false;
}

// Whether the strategies of a schedule may fit at all: with the most sharding, offloaded. Those
// that do not are counted. Where memory is the objective, what they need bounds it.
bool NodeExpander::fits_sharded(Node& node, const Mesh& mesh, const BlockCosts& blocks,
                                Expansion& expansion) const {
  Strategy s = strategy(node);
  const std::vector<InFlight>& in_flight = x_.in_flight.of(pipeline_shape(s));
  s.zero = 3, s.offload.optimizer = true;
  const Bytes least =
      memory_bound(x_, s, blocks, in_flight, Bytes{}, may_offload_activations(mesh));
  if (least <= x_.capacity(Bytes{})) {
    if (by_time() && !plans_only()) return true;
    node.memory = memory_bound(x_, most_sharded(node, true), blocks, in_flight, node.communicators,
                               may_offload_activations(mesh));
    if (!by_time()) node.bound = std::max(node.bound, node.memory.si());
    return !by_time() || node.memory <= x_.capacity(node.communicators);
  }
  if (plans_only()) return false;
  count_out(mesh, placed_shardings(node),
            states_bound(x_, s, blocks, Bytes{}) > x_.capacity(Bytes{}), expansion.examined);
  return false;
}

// Shardings whose rank order the node's experts may have.
std::int64_t NodeExpander::placed_shardings(const Node& node) const {
  const std::vector<Sharding>& all = x_.space.shardings(x_.space.meshes()[node.mesh]);
  Strategy s = strategy(node);
  return std::count_if(all.begin(), all.end(), [&](const Sharding& sharding) {
    s.order = sharding.order;
    return keeps_pipeline_ranks(s, x_.model);
  });
}

// Without a pipeline, where some way of it does.
bool NodeExpander::may_offload_activations(const Mesh& mesh) const {
  const std::vector<MemoryOption>& options = x_.space.options(mesh);
  return std::any_of(options.begin(), options.end(),
                     [](const MemoryOption& o) { return o.offload_activations; });
}

// Counts the options of so many shardings as not fitting.
void NodeExpander::count_out(const Mesh& mesh, std::int64_t shardings, bool states,
                             Examined& examined) const {
  const auto n = shardings * static_cast<std::int64_t>(x_.space.options(mesh).size());
  const auto reason = states ? InfeasibleReason::kModelStates : InfeasibleReason::kActivations;
  examined.evaluated += n;
  examined.infeasible[std::string(name_of(reason))] += n;
}

}  // namespace meshplan
