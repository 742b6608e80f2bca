#include "search/node_expander.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/traits.hpp"
#include "search/bounds.hpp"
#include "search/sharding_bounds.hpp"
#include "search/usual_choices.hpp"
#include "spec/axes.hpp"

namespace meshplan {
std::vector<Node> NodeExpander::roots() const {
  std::vector<Node> all;
  const auto& meshes = x_.space.meshes();
  for (std::uint32_t i = 0; i < meshes.size(); ++i) {
    auto n = static_cast<std::uint32_t>(x_.space.micro_batches(meshes[i]).size());
    if (!by_time() && breadth_ == Breadth::kUsual) n = std::min(n, 1U);  // the smallest
    const bool something = n > 0 && !x_.space.cp_kinds(meshes[i]).empty();
    const double weights = !by_time() && something ? least_weights(i) : 0;
    for (std::uint32_t b = 0; b < n; ++b) {
      Node node;
      node.mesh = i, node.micro_batch = b;
      if (by_time()) {
        const Strategy s = strategy(node);
        node.bound = flops_bound(x_.model, x_.cluster, x_.prefix(s), s);
      } else {
        node.bound = weights;
      }
      all.push_back(node);
    }
  }
  return all;
}

// Of all splits of the experts.
double NodeExpander::least_weights(std::uint32_t mesh) const {
  Node node;
  node.level = Level::kSplit;
  node.mesh = mesh;
  double least = kNothingFound;
  for (; node.split < x_.space.splits(x_.space.meshes()[mesh]).size(); ++node.split) {
    least = std::min(least, weights_bound(x_, most_sharded(node, true)).si());
  }
  return least;
}

Strategy NodeExpander::strategy(const Node& node) const {
  const PartialStrategy c = choice(node);
  return with_partial(x_.space.bases()[c.base], c);
}

// Works on its own node only; everything shared is constant or locks itself.
Expansion NodeExpander::expand(const Node& node, double limit, double ahead) const {
  Expansion expansion;
  switch (node.level) {
    case Level::kMesh:
      expand_mesh(node, ahead, expansion);
      break;
    case Level::kSplit:
      expand_split(node, limit, ahead, expansion);
      break;
    case Level::kSchedule:
      expand_schedule(node, limit, expansion);
      break;
    case Level::kSharding: {
      Examined& leaf = expansion.examined;
      const std::vector<MemoryOption>& all = x_.space.options(x_.space.meshes()[node.mesh]);
      const std::vector<MemoryOption> some = by_time() ? all : options_within(node, limit);
      if (some.empty()) break;
      leaf = examine(x_, choice(node), some, node.recompute_modes, node.pipeline, limit);
      expansion.later = std::min(limit, leaf.left);
      if (leaf.best) expansion.later = std::min(expansion.later, leaf.best->score(x_.objective));
      break;
    }
  }
  return expansion;
}

void NodeExpander::expand_mesh(const Node& node, double limit, Expansion& expansion) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  for (std::uint32_t k = 0; k < x_.space.cp_kinds(mesh).size(); ++k) {
    PartTime rest;  // of the layers' parts that do not depend on where the experts are
    for (std::uint32_t i = 0; i < x_.space.splits(mesh).size(); ++i) {
      const Split& split = x_.space.splits(mesh)[i];
      if (!all() && (k > 0 || !is_usual(x_.space.splits(mesh), split, mesh.tp))) continue;
      Node child = node;
      child.level = Level::kSplit;
      child.cp_kind = k, child.split = i;
      child.made_to = kNothingMade;
      const Strategy s = strategy(child);
      double bound = 0;
      if (by_time() && x_.space.bounding_orders(mesh).size() > 1) {
        bound = layers_bound(s, mesh);
      } else if (by_time()) {
        const Split* before = i > 0 ? &x_.space.splits(mesh)[i - 1] : nullptr;
        if (rest.all == 0 || before->sequence_parallel != split.sequence_parallel) {
          rest = x_.without_experts(s, mesh.base);
        }
        bound = parts_bound(s, rest);
        if (bound <= limit) bound = parts_bound(s, rest + x_.experts(s, mesh.base));
      } else {
        bound = least_states(child).si();
      }
      // With less memory less fits: that is dropped for good.
      const bool counts = by_time() && bound <= limit && plans_only();
      if (counts && least_states(child) > x_.capacity(least_communicators(child))) continue;
      // Of a node that is expanded again those that were not made before.
      child.bound = std::max(child.bound, bound);
      if (child.bound > limit) {
        expansion.later = std::min(expansion.later, child.bound);
      } else if (bound > node.made_to) {
        expansion.children.push_back(child);
      }
    }
  }
}

// Of the order in which the layers take least.
double NodeExpander::layers_bound(Strategy s, const Mesh& mesh) const {
  double least = kNothingFound;
  for (const RankOrder& order : x_.space.bounding_orders(mesh)) {
    s.order = order;
    const PartTime all = x_.without_experts(s, mesh.base) + x_.experts(s, mesh.base);
    least = std::min(least, parts_bound(s, all));
  }
  return least;
}

// Block costs that no sharding and no rank order that `order` stands for undercuts: without the
// traffic of sharded weights and gradients, without pipeline messages that slow the hosts, and with
// weight gradients that wait where they do with some schedule.
const BlockCosts& NodeExpander::least_blocks(const Node& node, const RankOrder& order,
                                             RecomputeModules modules) const {
  Strategy s = strategy(node);
  if (!modules.empty()) s.recompute = Recompute::kSelective, s.recompute_modules = modules;
  s.order = order;
  s.zero = 0;
  s.runtime.contended_launches = 0;
  if (s.runtime.defer_embedding_wgrad_compute) s.schedule = Schedule::k1f1b;
  return x_.blocks(s, x_.space.meshes()[node.mesh].base);
}

// Of those that are looked at.
ShardingBounds NodeExpander::sharding_bounds(const Node& node, const BlockCosts& blocks) const {
  const std::vector<Sharding>& every = x_.space.shardings(x_.space.meshes()[node.mesh]);
  std::vector<std::uint32_t> some;
  for (std::uint32_t i = 0; i < every.size(); ++i) {
    if (all() || is_usual(every, every[i])) some.push_back(i);
  }
  return {x_, strategy(node), node.mesh, blocks, std::move(some)};
}

void NodeExpander::expand_split(const Node& node, double limit, double ahead,
                                Expansion& expansion) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  const std::int64_t micro_batch = x_.space.micro_batches(mesh)[node.micro_batch];
  if (x_.space.schedules(mesh, micro_batch).empty()) return;
  const std::vector<RankOrder>& orders = x_.space.bounding_orders(mesh);
  // More than that is not wanted, or of no use.
  const bool bounds_memory = plans_only() || !by_time();
  Bytes communicators;
  double most = limit;
  if (bounds_memory) {
    communicators = least_communicators(node);
    if (by_time()) most = x_.capacity(communicators).si();
    if (least_states(node).si() > most) return;
  }
  // Without a limit on time what does not fit is all that can be left out.
  const bool unlimited = by_time() && limit == kNothingFound;
  if (unlimited && !bounds_memory && !fits_somehow(node, expansion)) return;
  std::vector<const BlockCosts*> blocks;  // which schedule they go through makes no difference
  for (const RankOrder& order : orders) {
    blocks.push_back(&least_blocks(node, order));
    if (!by_time()) break;  // memory does not depend on it
  }
  if (bounds_memory && least_memory(node, *blocks.front(), communicators).si() > most) return;
  std::optional<ShardingBounds> shardings;
  if (by_time() && orders.size() == 1) shardings.emplace(sharding_bounds(node, *blocks.front()));
  for (std::uint32_t i = 0; i < x_.space.schedules(mesh, micro_batch).size(); ++i) {
    const std::vector<ScheduleChoice>& schedules = x_.space.schedules(mesh, micro_batch);
    if (!all() && !is_usual(schedules, schedules[i])) continue;
    Node child = node;
    child.level = Level::kSchedule;
    child.schedule = i;
    child.communicators = communicators;
    double bound = 0;
    if (by_time()) {
      bound = kNothingFound;
      const Strategy s = strategy(child);
      for (const BlockCosts* each : blocks) {
        bound = std::min(bound, pipeline_bound(x_, s, *each, ahead));
      }
      // Of a node that waited for a later limit the bound holds for whole steps.
      child.pipeline = node.made_to == kNothingMade ? std::max(node.bound, bound) : bound;
      if (shardings && bound <= ahead) bound = shardings->least(s, bound);
      if (bound > ahead) {
        expansion.later = std::min(expansion.later, ahead);
        continue;
      }
      if (bound <= node.made_to) continue;
    }
    child.bound = std::max(node.bound, bound);
    if (!fits_sharded(child, mesh, *blocks.front(), expansion)) continue;
    if (judges_together(mesh, limit)) {
      const double later = later_than_limit(child, *blocks.front(), limit);
      if (later == kNothingFound) continue;
      child.bound = std::max(child.bound, later);
    }
    // What is too slow now is kept for a later limit, if any are made ahead.
    if (child.bound <= limit || ahead > limit) expansion.children.push_back(child);
  }
}

// Whether [F-SEARCH-10] is asked, and of one set of block costs. Without a limit it would only find
// what does not fit, which is counted elsewhere.
bool NodeExpander::judges_together(const Mesh& mesh, double limit) const {
  const bool asked = plans_only() || limit < kNothingFound;
  return asked && by_time() && x_.space.bounding_orders(mesh).size() == 1;
}

namespace {

// Of one way of sharding: FitBound and the end of the step. A time above `limit` that nothing
// undercuts; 0 where something may keep the limit, infinite where nothing fits.
double later_than(const FitBound& fit, double end, double limit) {
  if (fit.may_fit(limit - end)) return 0;
  double later = std::nextafter(limit, kNothingFound);
  for (const double more : {1.05, 1.2, 1.5, 2.0}) {
    if (fit.may_fit(limit * more - end)) return later;
    later = limit * more;
  }
  return fit.may_fit(kNothingFound) ? later : kNothingFound;
}

}  // namespace

// The same where nothing limits the time: a time that nothing undercuts, `time` or more.
double least_fitting(const FitBound& fit, double end, double time) {
  if (!fit.may_fit(kNothingFound)) return kNothingFound;
  double least = time;
  for (const double more : {1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0}) {
    if (fit.may_fit(time * more - end)) break;
    least = time * more;
  }
  return least;
}

// By each list of modules that the space may recompute, without traffic of sharded states.
std::vector<const BlockCosts*> NodeExpander::listed_blocks(const Node& node) const {
  std::vector<const BlockCosts*> blocks;
  if (!x_.lists_modules) return blocks;
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  Strategy s = strategy(node);
  s.zero = 0, s.zero_group = 0, s.recompute = Recompute::kSelective;
  std::vector<RecomputeModules> seen;
  for (const MemoryOption& option : x_.space.options(mesh)) {
    if (option.recompute != Recompute::kSelective) continue;
    if (std::find(seen.begin(), seen.end(), option.modules) != seen.end()) continue;
    seen.push_back(option.modules);
    s.recompute_modules = option.modules;
    blocks.push_back(&x_.blocks(s, mesh.base));
  }
  return blocks;
}

// The same of a schedule, with the most sharding, offloaded or not.
double NodeExpander::later_than_limit(const Node& node, const BlockCosts& blocks,
                                      double limit) const {
  const bool offloads = may_offload_activations(x_.space.meshes()[node.mesh]);
  const std::vector<const BlockCosts*> listed = listed_blocks(node);
  double later = kNothingFound;
  for (const bool on_host : {false, true}) {
    const Strategy s = most_sharded(node, on_host);
    const FitBound fit(x_, s, blocks, listed, x_.in_flight.of(pipeline_shape(s)),
                       node.communicators, offloads);
    // Where the optimizer is on the host, sharding saves no memory, but time.
    Strategy quickest = s;
    quickest.zero = most_sharded(node, false).zero;
    later = std::min(later, later_than(fit, end_bound(x_, quickest, blocks), limit));
    if (later == 0) break;
  }
  return later;
}

// With as much sharding as the mesh has; none for an optimizer that is all on the host.
Strategy NodeExpander::most_sharded(const Node& node, bool on_host) const {
  Strategy s = strategy(node);
  s.zero = 0;
  for (const Sharding& sharding : x_.space.shardings(x_.space.meshes()[node.mesh])) {
    s.zero = std::max(s.zero, sharding.zero);
  }
  s.zero_group = 0;
  s.offload.optimizer = on_host && host_may_hold(x_, s);
  if (s.offload.optimizer && s.zero == 1 && s.offload.device_share() == 0) s.zero = 0;
  return s;
}

void NodeExpander::expand_schedule(const Node& node, double limit, Expansion& expansion) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  const std::vector<RankOrder>& orders = x_.space.bounding_orders(mesh);
  const BlockCosts& blocks = least_blocks(node, orders.front());
  if (judges_together(mesh, limit)) {
    expansion.later = later_than_limit(node, blocks, limit);
    if (expansion.later > 0) return;
    expansion.later = kNothingFound;
  }
  for (std::uint32_t i = 0; i < x_.space.shardings(mesh).size(); ++i) {
    if (!all() && !is_usual(x_.space.shardings(mesh), x_.space.shardings(mesh)[i])) continue;
    Node child = node;
    child.level = Level::kSharding;
    child.sharding = i;
    if (!keeps_pipeline_ranks(strategy(child), x_.model)) continue;  // illegal
    if (!bound_sharding(child, blocks, limit, expansion)) continue;
    if (child.bound <= limit) {
      expansion.children.push_back(child);
    } else {
      expansion.later = std::min(expansion.later, child.bound);
    }
  }
  if (expansion.children.empty() || limit == kNothingFound || orders.size() > 1) return;
  if (!by_time()) return;
  const std::size_t before = expansion.children.size();
  if (takes_longer_alone(node, limit)) expansion.children.clear();
  std::int64_t& effort = expansion.examined.effort;
  for (const int zero : {1, 2, 3}) {
    drop_too_slow(node, orders.front(), limit, zero, expansion.children, effort);
  }
  if (expansion.children.size() < before) expansion.later = std::min(expansion.later, limit);
}

// Sets the bound of a sharding; false where it does not fit, which is counted.
bool NodeExpander::bound_sharding(Node& node, const BlockCosts& blocks, double limit,
                                  Expansion& expansion) const {
  const Mesh& mesh = x_.space.meshes()[node.mesh];
  Strategy s = strategy(node);
  node.bound = kNothingFound;
  // Traffic of sharded weights and gradients is worth knowing before anything is divided.
  double work = node.pipeline;
  if (by_time() && s.zero >= 2) {
    work = std::max(work, sharded_work_bound(x_, s, mesh.base));
    if (work > limit) {
      node.bound = work;
      return true;
    }
  }
  if (by_time() && s.zero < 3 && x_.space.bounding_orders(mesh).size() == 1) {
    const WholeReductions& all = reductions_of(x_, s, node.mesh, node.sharding, blocks);
    work = std::max(work, late_step(x_, s, blocks, all));
  }
  const std::vector<InFlight>& in_flight = x_.in_flight.of(pipeline_shape(s));
  const bool offloads = may_offload_activations(mesh), joint = judges_together(mesh, limit);
  const Bytes communicators = x_.communicators(s, mesh.base);
  const Bytes capacity = x_.capacity(communicators);
  bool fits = false;
  // Kept for all strategies of the sharding, whatever they offload: those say so where they ask.
  const auto placement = [&]() -> const Placement& {
    return x_.placement(strategy(node), mesh.base);
  };
  for (const bool on_host : {false, true}) {
    s.offload.optimizer = on_host;
    const Bytes bytes = memory_bound(x_, s, blocks, in_flight, communicators, offloads);
    if (bytes <= capacity) fits = true;
    if (!by_time()) {
      node.bound = std::min(node.bound, bytes.si());
      continue;
    }
    const double end = end_bound(x_, s, blocks);
    double time = work + end;
    if (joint) {
      if (bytes > capacity) continue;
      if (time <= limit) {
        const LayerEnds ends = layer_ends(x_, s, blocks, placement());
        const FitBound fit(x_, s, blocks, listed_blocks(node), in_flight, communicators, offloads,
                           ends);
        time = limit == kNothingFound ? least_fitting(fit, end, time)
                                      : std::max(time, later_than(fit, end, limit));
      }
    }
    node.bound = std::min(node.bound, time);
  }
  if (fits || plans_only()) return fits;
  s.offload.optimizer = true;
  const bool states = states_bound(x_, s, blocks, communicators) > capacity;
  count_out(mesh, 1, states, expansion.examined);
  return false;
}

}  // namespace meshplan
