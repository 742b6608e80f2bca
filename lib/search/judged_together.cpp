#include <algorithm>
#include <limits>
#include <optional>

#include "search/bounds.hpp"
#include "search/judged_options.hpp"
#include "search/listed_memory.hpp"
#include "search/node_expander.hpp"

// What is asked once for many strategies: for all shardings of a schedule, or all of a kind.

namespace meshplan {

// Whether a division with the fewest recomputed layers, or with each list of modules, takes no
// longer than any option of the mesh.
bool NodeExpander::judges_options_together(const Mesh& mesh) const {
  const auto differs = [](const MemoryOption& o) {
    return o.offload_activations || o.counts == CountRule::kGiven;
  };
  const std::vector<MemoryOption>& options = x_.space.options(mesh);
  return std::none_of(options.begin(), options.end(), differs) &&
         listed_modules(options).size() <= RecomputeModes::kMostLists;
}

// With each list of modules, or the framework's own, as least_blocks().
JudgedOptions NodeExpander::judged_options(const Node& node, const RankOrder& order,
                                           Bytes communicators) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  JudgedOptions judged{x_.space.options(mesh), least_blocks(node, order), {}, communicators};
  for (const RecomputeModules& modules : listed_modules(judged.options)) {
    judged.listed.push_back(&least_blocks(node, order, modules));
  }
  return judged;
}

// ZeRO-1 takes no more memory than ZeRO-0, all else being equal. Of the others each has buffers of
// its own.
int NodeExpander::kind_of_sharding(const Node& leaf) const {
  return std::max(1, x_.space.shardings(x_.space.meshes()[leaf.mesh])[leaf.sharding].zero);
}

// Where memory is the objective: options of which some division may need no more than the limit.
// Told from the costs that all shardings of a schedule share, as those of each sharding take longer
// to work out than anything that is asked of most.
std::vector<MemoryOption> NodeExpander::options_within(const Node& leaf, double limit) const {
  const Mesh& mesh = x_.space.meshes()[leaf.mesh];
  const Strategy plain = strategy(leaf);
  const std::vector<InFlight>& in_flight = x_.in_flight.of(pipeline_shape(plain));
  const Bytes communicators = x_.communicators(plain, mesh.base);
  const RankOrder& order = x_.space.bounding_orders(mesh).front();
  std::vector<MemoryOption> some;
  const bool only_saved = lists_change_only_saved(plain);
  for (const MemoryOption& option : x_.space.options(mesh)) {
    std::optional<Recompute> alike;
    if (option.counts == CountRule::kNone) alike = option.recompute;
    if (option.counts == CountRule::kAll) alike = Recompute::kFull;
    const Strategy s = with_option(plain, option);
    const bool told = only_saved && !option.modules.empty();
    const BlockCosts& blocks =
        least_blocks(leaf, order, told ? RecomputeModules{} : option.modules);
    PerBlock<SavedActivations> listed;
    if (told) listed = listed_saved(x_.model, x_.cluster, s, x_.prefix(s), blocks);
    const Bytes least = memory_bound(x_, s, blocks, in_flight, communicators,
                                     option.offload_activations, alike, told ? &listed : nullptr);
    if (least.si() <= limit) some.push_back(option);
  }
  return some;
}

// Of all shardings up to as much as the mesh has, `zero` at least. An optimizer on the host takes
// less memory and more time.
double NodeExpander::least_end(const Node& node, const BlockCosts& blocks, int zero) const {
  double end = kNothingFound;
  for (const bool on_host : {false, true}) {
    Strategy s = most_sharded(node, on_host);
    s.zero = std::max(s.zero, zero);
    end = std::min(end, end_bound(x_, s, blocks));
  }
  return end;
}

// Whether the layers alone let no division of the schedule keep the limit, whatever memory there
// is. The bound that the node has does not know whole layers of chunks.
bool NodeExpander::takes_longer_alone(const Node& node, double limit) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  const std::vector<RankOrder>& orders = x_.space.bounding_orders(mesh);
  if (!by_time() || limit == kNothingFound || orders.size() > 1) return false;
  const JudgedOptions judged{x_.space.options(mesh), least_blocks(node, orders.front()), {}, {}};
  const double end = least_end(node, judged.blocks, 0);
  return !may_divide_any_memory(x_, choice(node), judged, limit - end);
}

bool NodeExpander::shardings_take_longer(Node leaf, double limit, std::int64_t& effort,
                                         KnownChains& chains) const {
  const Mesh& mesh = x_.space.meshes()[leaf.mesh];
  const std::vector<RankOrder>& orders = x_.space.bounding_orders(mesh);
  if (orders.size() > 1 || !judges_options_together(mesh)) return false;
  const int zero = kind_of_sharding(leaf);
  leaf.level = Level::kSchedule;
  leaf.sharding = 0;
  const JudgedOptions judged = judged_options(leaf, orders.front(), least_communicators(leaf));
  PartialStrategy choice = this->choice(leaf);
  choice.zero = zero;
  const double end = least_end(leaf, judged.blocks, zero);
  return takes_longer(x_, choice, judged, limit - end, effort, chains);
}

// Memory decides how much must be recomputed: asked once for all shardings of the same kind.
void NodeExpander::drop_too_slow(const Node& node, const RankOrder& order, double limit, int zero,
                                 std::vector<Node>& children, std::int64_t& effort) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  const auto concerns = [&](const Node& child) { return kind_of_sharding(child) == zero; };
  if (!judges_options_together(mesh)) return;
  if (std::count_if(children.begin(), children.end(), concerns) < 2) return;
  double end = kNothingFound;
  Bytes communicators{std::numeric_limits<std::int64_t>::max()};
  for (const Node& child : children) {
    if (!concerns(child)) continue;
    end = std::min(end, child.bound - node.pipeline);
    communicators = std::min(communicators, x_.communicators(strategy(child), mesh.base));
  }
  PartialStrategy most_sharded = choice(node);
  most_sharded.zero = zero;
  const RecomputeModes recompute_modes =
      may_divide(x_, most_sharded, judged_options(node, order, communicators), limit - end, effort);
  for (Node& child : children) {
    if (concerns(child)) child.recompute_modes = recompute_modes;
  }
  if (!recompute_modes.any()) std::erase_if(children, concerns);
}

}  // namespace meshplan
