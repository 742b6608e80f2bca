#include "search/best_first.hpp"

#include <algorithm>
#include <limits>
#include <queue>

#include "cost/memory.hpp"
#include "search/bounds.hpp"
#include "search/node.hpp"
#include "spec/axes.hpp"

namespace meshplan {
namespace {

constexpr double kNothingFound = std::numeric_limits<double>::infinity();

// A first pass over usual strategies alone finds good plans soon, so that the second one never
// keeps nodes that cannot compete.
enum class Breadth { kUsual, kAll };

class BestFirst {
 public:
  BestFirst(SearchContext& x, std::size_t wanted, WorkerPool& pool, Breadth breadth,
            double cutoff = kNothingFound)
      : x_(x),
        wanted_(std::max<std::size_t>(1, wanted)),
        pool_(pool),
        breadth_(breadth),
        given_cutoff_(cutoff),
        queue_(Later{x.objective == Objective::kMemory}) {}

  Outcome run(const std::function<bool()>& stop, const Progress& progress) {
    add_roots();
    const double first = queue_.empty() ? 0 : queue_.top().bound;
    double share = 0;
    for (drop_hopeless(); !queue_.empty(); drop_hopeless()) {
      if (stop()) {
        outcome_.exact = false;
        outcome_.least_bound = least_waiting();
        break;
      }
      open_batch();
      if (progress && !queue_.empty() && cutoff() < kNothingFound && cutoff() > first) {
        share = std::max(share, (queue_.top().bound - first) / (cutoff() - first));
        progress(std::min(1.0, share));
      }
    }
    if (breadth_ == Breadth::kAll && outcome_.exact) divide_all(stop);
    if (!outcome_.exact) count_undivided();
    std::erase_if(outcome_.undecided, [&](double least) { return least > cutoff(); });
    return std::move(outcome_);
  }

  // No plan that scores worse than this is wanted any more.
  [[nodiscard]] double cutoff() const {
    return outcome_.best.size() < wanted_
               ? given_cutoff_
               : std::min(given_cutoff_, outcome_.best.back().score(x_.objective));
  }

 private:
  void drop_hopeless() {
    while (!queue_.empty() && queue_.top().bound > cutoff()) queue_.pop();
  }

  // What was stopped has not seen every division of the leaves that it opened either.
  void count_undivided() {
    double& least = outcome_.least_bound;
    for (const Undivided& leaf : undivided_) least = std::min(least, leaf.least);
    for (const double other : outcome_.undecided) least = std::min(least, other);
  }

  // The least bound of the nodes that wait.
  double least_waiting() {
    double least = kNothingFound;
    for (; !queue_.empty(); queue_.pop()) least = std::min(least, queue_.top().bound);
    return least;
  }

  void push(Node node) {
    node.number = created_++;
    queue_.push(node);
  }

  // The nodes of the least bounds, together. Their number does not depend on the threads, so that
  // the same nodes are opened whatever their number.
  void open_batch() {
    constexpr std::size_t kBatch = 64;
    batch_.clear();
    const double limit = cutoff();
    while (!queue_.empty() && batch_.size() < kBatch) {
      if (queue_.top().bound <= limit) batch_.push_back(queue_.top());
      queue_.pop();
    }
    opened_.assign(batch_.size(), {});
    pool_.run(batch_.size(), [&](std::size_t i) { opened_[i] = open(batch_[i], limit); });
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      for (const Node& child : opened_[i].children) push(child);
      take(opened_[i].examined, batch_[i]);
    }
  }

  void take(const Examined& examined, const Node& node) {
    outcome_.evaluated += examined.evaluated;
    outcome_.feasible += examined.feasible;
    for (const auto& [reason, n] : examined.infeasible) outcome_.infeasible[reason] += n;
    const bool divisible = examined.left < kNothingFound && examined.left <= cutoff();
    if (divisible) undivided_.push_back({node, examined.left, examined.feasible});
    if (examined.best) insert(*examined.best, node);
  }

  void insert(Found found, const Node& node) {
    found.leaf = node.number;
    std::vector<Found>& best = outcome_.best;
    const auto before = [&](const Found& a, const Found& b) {
      return ranks_before(a, b, x_.objective);
    };
    best.insert(std::upper_bound(best.begin(), best.end(), found, before), found);
    if (best.size() > wanted_) best.pop_back();
  }

  // So far each leaf stands for one division of its layers. Those that may be among the best with
  // another one are divided in every way, the most promising first.
  void divide_all(const std::function<bool()>& stop) {
    std::sort(undivided_.begin(), undivided_.end(), [](const Undivided& a, const Undivided& b) {
      return a.least != b.least ? a.least < b.least : a.node.number < b.node.number;
    });
    constexpr std::size_t kBatch = 16;
    for (std::size_t i = 0; i < undivided_.size() && undivided_[i].least <= cutoff();) {
      if (stop()) {
        outcome_.exact = false;
        outcome_.least_bound = undivided_[i].least;
        undivided_.erase(undivided_.begin(), undivided_.begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
      const double limit = cutoff();
      const std::size_t n = std::min(kBatch, undivided_.size() - i);
      opened_.assign(n, {});
      pool_.run(n, [&](std::size_t k) {
        if (undivided_[i + k].least <= limit) {
          opened_[k].examined = divide(undivided_[i + k].node, limit);
        }
      });
      for (std::size_t k = 0; k < n; ++k) take_divided(opened_[k].examined, undivided_[i + k]);
      i += n;
    }
  }

  [[nodiscard]] Examined divide(const Node& node, double limit) const {
    constexpr std::int64_t kStarts = 1024;
    const std::vector<Found>& best = outcome_.best;
    const auto known = std::find_if(best.begin(), best.end(),
                                    [&](const Found& f) { return f.leaf == node.number; });
    return examine(x_, choice(node), x_.space.options(x_.space.meshes()[node.mesh]), node.worth,
                   node.pipeline, limit,
                   {true, kStarts, known == best.end() ? nullptr : &known->strategy.stage_layers});
  }

  void take_divided(const Examined& examined, const Undivided& leaf) {
    const std::int64_t more = std::max<std::int64_t>(0, examined.feasible - leaf.costed);
    outcome_.evaluated += more, outcome_.feasible += more;
    if (examined.left < kNothingFound) outcome_.undecided.push_back(examined.left);
    if (!examined.best) return;
    std::erase_if(outcome_.best, [&](const Found& f) { return f.leaf == leaf.node.number; });
    insert(*examined.best, leaf.node);
  }

  void add_roots() {
    const auto& meshes = x_.space.meshes();
    for (std::uint32_t i = 0; i < meshes.size(); ++i) {
      const auto n = static_cast<std::uint32_t>(x_.space.micro_batches(meshes[i]).size());
      for (std::uint32_t b = 0; b < n; ++b) {
        Node node;
        node.mesh = i, node.micro_batch = b;
        const Strategy s = strategy(node);
        node.bound = by_time() ? flops_bound(x_, s) : 0;
        push(node);
      }
    }
  }

  [[nodiscard]] bool by_time() const { return x_.objective != Objective::kMemory; }

  [[nodiscard]] Choice choice(const Node& node) const { return choice_of(x_.space, node); }

  [[nodiscard]] Strategy strategy(const Node& node) const {
    const Choice c = choice(node);
    return with_choice(x_.space.bases()[c.base], c);
  }

  // Works on its own node only; everything shared is constant or locks itself.
  [[nodiscard]] Opened open(const Node& node, double limit) const {
    Opened opened;
    switch (node.level) {
      case Level::kMesh:
        open_mesh(node, limit, opened);
        break;
      case Level::kSplit:
        open_split(node, limit, opened);
        break;
      case Level::kSchedule:
        open_schedule(node, limit, opened);
        break;
      case Level::kSharding:
        opened.examined = examine(x_, choice(node), x_.space.options(x_.space.meshes()[node.mesh]),
                                  node.worth, node.pipeline, limit);
        break;
    }
    return opened;
  }

  // Fewer choices where nearly all good plans make the same one. True where there is no choice.
  [[nodiscard]] bool is_usual(const Mesh& mesh, std::uint32_t cp_kind, const Split& split) const {
    return breadth_ == Breadth::kAll ||
           (cp_kind == 0 && split.etp == 1 && split.sequence_parallel == (mesh.tp > 1));
  }
  [[nodiscard]] bool is_usual(const ScheduleChoice& s) const {
    return breadth_ == Breadth::kAll || s.schedule == Schedule::k1f1b ||
           s.schedule == Schedule::kInterleaved;
  }
  [[nodiscard]] bool is_usual(const Sharding& s) const {
    return breadth_ == Breadth::kAll ||
           ((s.zero == 1 || s.zero == 3) && s.zero_group == 0 && s.order == kDefaultOrder);
  }

  void open_mesh(const Node& node, double limit, Opened& opened) const {
    const Mesh& mesh = x_.space.meshes()[node.mesh];
    for (std::uint32_t k = 0; k < x_.space.cp_kinds(mesh).size(); ++k) {
      PartTime rest;  // of the layers' parts that do not depend on where the experts are
      for (std::uint32_t i = 0; i < x_.space.splits(mesh).size(); ++i) {
        const Split& split = x_.space.splits(mesh)[i];
        if (!is_usual(mesh, k, split)) continue;
        Node child = node;
        child.level = Level::kSplit;
        child.cp_kind = k, child.split = i;
        const Strategy s = strategy(child);
        if (by_time() && x_.space.bounding_orders(mesh).size() > 1) {
          child.bound = std::max(node.bound, layers_bound(s, mesh));
        } else if (by_time()) {
          const Split* before = i > 0 ? &x_.space.splits(mesh)[i - 1] : nullptr;
          if (rest.all == 0 || before->sequence_parallel != split.sequence_parallel) {
            rest = x_.parts.without_experts(s, mesh.base);
          }
          if (parts_bound(s, rest) > limit) continue;
          const PartTime all = rest + x_.parts.experts(s, mesh.base);
          child.bound = std::max(node.bound, parts_bound(s, all));
        }
        if (child.bound <= limit) opened.children.push_back(child);
      }
    }
  }

  // Of the order in which the layers take least.
  [[nodiscard]] double layers_bound(Strategy s, const Mesh& mesh) const {
    double least = kNothingFound;
    for (const RankOrder& order : x_.space.bounding_orders(mesh)) {
      s.order = order;
      const PartTime all = x_.parts.without_experts(s, mesh.base) + x_.parts.experts(s, mesh.base);
      least = std::min(least, parts_bound(s, all));
    }
    return least;
  }

  // Block costs that no sharding and no rank order that `order` stands for undercuts: without the
  // traffic of sharded weights and gradients, and without pipeline messages that slow the hosts.
  [[nodiscard]] const BlockCosts& least_blocks(const Node& node, const RankOrder& order) const {
    Strategy s = strategy(node);
    s.order = order;
    s.zero = 0;
    s.kernels.contended_launches = 0;
    return x_.blocks.costs(s, x_.space.meshes()[node.mesh].base);
  }

  void open_split(const Node& node, double limit, Opened& opened) const {
    const Mesh& mesh = x_.space.meshes()[node.mesh];
    const std::int64_t micro_batch = x_.space.micro_batches(mesh)[node.micro_batch];
    for (std::uint32_t i = 0; i < x_.space.schedules(mesh, micro_batch).size(); ++i) {
      if (!is_usual(x_.space.schedules(mesh, micro_batch)[i])) continue;
      Node child = node;
      child.level = Level::kSchedule;
      child.schedule = i;
      if (by_time()) {
        double least = kNothingFound;
        for (const RankOrder& order : x_.space.bounding_orders(mesh)) {
          const BlockCosts& blocks = least_blocks(node, order);
          least = std::min(least, pipeline_bound(x_, strategy(child), blocks));
        }
        child.bound = std::max(node.bound, least);
        if (child.bound > limit) continue;
      }
      if (fits_sharded(child, mesh, opened) && child.bound <= limit) {
        opened.children.push_back(child);
      }
    }
  }

  // Whether the strategies of a schedule may fit at all: with the most sharding, offloaded. Those
  // that do not are counted. Where memory is the objective, what they need bounds it.
  [[nodiscard]] bool fits_sharded(Node& node, const Mesh& mesh, Opened& opened) const {
    Strategy s = strategy(node);
    const BlockCosts& blocks = least_blocks(node, x_.space.bounding_orders(mesh).front());
    const std::vector<InFlight>& in_flight = x_.in_flight.of(pipeline_shape(s));
    s.zero = 3, s.offload.optimizer = true;
    const Bytes least =
        memory_bound(x_, s, blocks, in_flight, Bytes{}, may_offload_activations(mesh));
    if (!by_time()) node.bound = std::max(node.bound, least.si());
    if (least <= x_.capacity()) return true;
    count_out(mesh, placed_shardings(node), states_bound(x_, s, blocks, Bytes{}) > x_.capacity(),
              opened.examined);
    return false;
  }

  // Shardings whose rank order the node's experts may have.
  [[nodiscard]] std::int64_t placed_shardings(const Node& node) const {
    const std::vector<Sharding>& all = x_.space.shardings(x_.space.meshes()[node.mesh]);
    Strategy s = strategy(node);
    return std::count_if(all.begin(), all.end(), [&](const Sharding& sharding) {
      s.order = sharding.order;
      return keeps_pipeline_ranks(s, x_.model);
    });
  }

  // Without a pipeline, where some way of it does.
  [[nodiscard]] bool may_offload_activations(const Mesh& mesh) const {
    const std::vector<MemoryOption>& options = x_.space.options(mesh);
    return std::any_of(options.begin(), options.end(),
                       [](const MemoryOption& o) { return o.offload_activations; });
  }

  // Counts the options of so many shardings as not fitting.
  void count_out(const Mesh& mesh, std::int64_t shardings, bool states, Examined& examined) const {
    const auto n = shardings * static_cast<std::int64_t>(x_.space.options(mesh).size());
    const auto reason = states ? InfeasibleReason::kModelStates : InfeasibleReason::kActivations;
    examined.evaluated += n;
    examined.infeasible[std::string(name_of(reason))] += n;
  }

  void open_schedule(const Node& node, double limit, Opened& opened) const {
    const Mesh& mesh = x_.space.meshes()[node.mesh];
    const std::vector<RankOrder>& orders = x_.space.bounding_orders(mesh);
    const BlockCosts& blocks = least_blocks(node, orders.front());
    const std::vector<InFlight>& in_flight = x_.in_flight.of(pipeline_shape(strategy(node)));
    const bool offloads = may_offload_activations(mesh);
    for (std::uint32_t i = 0; i < x_.space.shardings(mesh).size(); ++i) {
      if (!is_usual(x_.space.shardings(mesh)[i])) continue;
      Node child = node;
      child.level = Level::kSharding;
      child.sharding = i;
      Strategy s = strategy(child);
      if (!keeps_pipeline_ranks(s, x_.model)) continue;  // illegal
      const Bytes communicators = x_.communicators(s, mesh.base);
      const auto least = [&](bool offload) {
        s.offload.optimizer = offload;
        return std::pair(node.bound + end_bound(x_, s, blocks),
                         memory_bound(x_, s, blocks, in_flight, communicators, offloads));
      };
      // Traffic of sharded weights and gradients is worth knowing before anything is divided.
      if (by_time() && s.zero >= 2 && work_bound(x_, s, x_.blocks.costs(s, mesh.base)) > limit) {
        continue;
      }
      const auto [plain_time, plain_bytes] = least(false);
      const auto [offload_time, offload_bytes] = least(true);
      if (std::min(plain_bytes, offload_bytes) > x_.capacity()) {
        s.offload.optimizer = true;
        const bool states = states_bound(x_, s, blocks, communicators) > x_.capacity();
        count_out(mesh, 1, states, opened.examined);
        continue;
      }
      child.pipeline = node.bound;
      child.bound = by_time() ? std::min(plain_time, offload_time)
                              : std::min(plain_bytes, offload_bytes).si();
      if (child.bound <= limit) opened.children.push_back(child);
    }
    if (!by_time() || limit == kNothingFound || orders.size() > 1) return;
    for (const int zero : {1, 2, 3}) drop_too_slow(node, blocks, limit, zero, opened.children);
  }

  // Memory decides how much must be recomputed: asked once for all shardings of the same kind.
  void drop_too_slow(const Node& node, const BlockCosts& blocks, double limit, int zero,
                     std::vector<Node>& children) const {
    const Mesh& mesh = x_.space.meshes()[node.mesh];
    const auto concerns = [&](const Node& child) {
      return std::max(1, x_.space.shardings(mesh)[child.sharding].zero) == zero;
    };
    // Neither is what a division with the fewest recomputed layers stands for.
    const auto differs = [](const MemoryOption& o) {
      return o.offload_activations || o.counts == CountRule::kGiven;
    };
    const std::vector<MemoryOption>& options = x_.space.options(mesh);
    if (std::any_of(options.begin(), options.end(), differs)) return;
    if (std::count_if(children.begin(), children.end(), concerns) < 2) return;
    double end = kNothingFound;
    Bytes communicators{std::numeric_limits<std::int64_t>::max()};
    for (const Node& child : children) {
      if (!concerns(child)) continue;
      end = std::min(end, child.bound - node.bound);
      communicators = std::min(communicators, x_.communicators(strategy(child), mesh.base));
    }
    Choice most_sharded = choice(node);
    most_sharded.zero = zero;
    const Recomputing worth = may_divide(x_, most_sharded, blocks, communicators, limit - end);
    for (Node& child : children) {
      if (concerns(child)) child.worth = worth;
    }
    if (!worth.full && !worth.selective) std::erase_if(children, concerns);
  }

  SearchContext& x_;
  std::size_t wanted_;
  WorkerPool& pool_;
  Breadth breadth_;
  double given_cutoff_;
  Outcome outcome_;
  std::priority_queue<Node, std::vector<Node>, Later> queue_;
  std::uint64_t created_ = 0;
  std::vector<Node> batch_;
  std::vector<Opened> opened_;
  std::vector<Undivided> undivided_;
};

}  // namespace

Outcome best_first(SearchContext& x, std::size_t wanted, WorkerPool& pool,
                   const std::function<bool()>& stop, const Progress& progress) {
  const double given = x.cutoff.value_or(kNothingFound);
  BestFirst usual(x, wanted, pool, Breadth::kUsual, given);
  Outcome first = usual.run(stop, {});
  const double cutoff = first.best.size() < wanted ? given : first.best.back().score(x.objective);
  Outcome all = BestFirst(x, wanted, pool, Breadth::kAll, cutoff).run(stop, progress);
  if (!all.exact) {  // stopped: what the first pass found may not have been found again
    for (Found& found : first.best) {
      const bool again = std::any_of(all.best.begin(), all.best.end(), [&](const Found& other) {
        return other.strategy == found.strategy;
      });
      if (!again) all.best.push_back(std::move(found));
    }
    std::sort(all.best.begin(), all.best.end(),
              [&](const Found& a, const Found& b) { return ranks_before(a, b, x.objective); });
    if (all.best.size() > wanted) all.best.resize(wanted);
  }
  if (progress) progress(1.0);
  return all;
}

}  // namespace meshplan
