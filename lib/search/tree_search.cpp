#include "search/tree_search.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// Effort on the divisions of one leaf, as DivisionQuery counts it.
constexpr std::int64_t kStarts = 4096, kLeastStarts = 512;
// Nodes of the tree that take as long as a leaf whose divisions are looked at. Partial divisions,
// and shares of layers whose memory is worked out, that take as long as a node.
constexpr std::int64_t kNodesEach = 2, kStartsOfNode = 8, kSharesOfNode = 40;

// Nodes of the first pass that are opened from the deepest on, as long as there is no plan.
constexpr std::int64_t kDive = 2'048;

}  // namespace

TreeSearch::TreeSearch(SearchContext& x, std::size_t wanted, WorkerPool& pool, Breadth breadth,
                       Keep keep)
    : x_(x),
      wanted_(std::max<std::size_t>(1, wanted)),
      pool_(pool),
      breadth_(breadth),
      keep_(keep),
      expander_(x, breadth),
      later_{x.objective == Objective::kMemory && breadth == Breadth::kAll} {}

Outcome TreeSearch::run(double cutoff_given, const std::function<bool()>& stop,
                        const Progress& progress) {
  given_cutoff_ = cutoff_given;
  start();
  first_node_ = x_.nodes;
  const double first = queue_.empty() ? 0 : queue_.front().bound;
  double share = 0;
  if (prepares_) open_deepest(true);
  for (drop_hopeless(); !queue_.empty() && queue_.front().bound <= cutoff(); drop_hopeless()) {
    if (stop() || x_.is_at_node_limit()) {
      outcome_.exact = false;
      outcome_.least_bound = least_waiting();
      break;
    }
    open_batch(stop);
    if (prepares_ && (!outcome_.best.empty() || x_.nodes - first_node_ > kDive)) {
      open_deepest(false);
    }
    if (is_settled()) break;
    if (!progress) continue;
    const bool every = breadth_ == Breadth::kAll;  // of what is usual alone nothing is known
    if (every && !queue_.empty() && cutoff() < kNothingFound && cutoff() > first) {
      share = std::max(share, (queue_.front().bound - first) / (cutoff() - first));
    }
    progress(so_far(std::min(1.0, share), every && !queue_.empty()
                                              ? std::min(queue_.front().bound, least_undivided_)
                                              : 0));
  }
  if (prepares_ && outcome_.exact) divide_first(stop);
  if (breadth_ == Breadth::kAll && outcome_.exact) {
    divide_all(stop, progress);
    if (outcome_.exact && !x_.plans_only()) decide_best(stop, progress);
  }
  for (const Undivided& leaf : undecided_) {
    if (leaf.least <= cutoff()) outcome_.undecided.push_back(leaf.least);
  }
  if (!outcome_.exact) count_undivided();
  if (cutoff() == ranked_to()) outcome_.ranked_to = ranked_to();  // else all are ranked
  // What was met on the way while nothing better was known.
  std::erase_if(outcome_.best,
                [&](const Found& found) { return found.score(x_.objective) > given_cutoff_; });
  if (keeps()) finish();
  return std::move(outcome_);
}

// No plan that scores worse than this is wanted any more.
double TreeSearch::cutoff() const {
  const double most = std::min(given_cutoff_, ranked_to());
  if (outcome_.best.size() < wanted_) return most;
  return std::min(most, outcome_.best.back().score(x_.objective));
}

// A first plan is found sooner from one mesh to its shardings than from all meshes at once.
void TreeSearch::open_deepest(bool deepest) {
  if (x_.objective == Objective::kMemory || later_.deepest_first == deepest) return;
  later_.deepest_first = deepest;
  std::make_heap(queue_.begin(), queue_.end(), later_);
}

bool TreeSearch::is_settled() const {
  constexpr std::int64_t kLeast = 16'384;  // nodes
  if (!prepares_ || outcome_.best.size() < wanted_) return false;
  return x_.nodes - first_node_ > std::max(kLeast, 2 * (settled_at_ - first_node_));
}

double TreeSearch::ranked_to() const {
  if (within_ == kNothingFound || x_.nodes < few_nodes_) return kNothingFound;
  if (outcome_.best.empty()) return within_ * known_score_;
  return within_ * std::min(outcome_.best.front().score(x_.objective), known_score_);
}

void TreeSearch::start() {
  outcome_ = {};
  undivided_.clear(), undecided_.clear();
  least_undivided_ = kNothingFound;
  if (!started_) {
    for (const Node& root : expander_.roots()) push(root);
  }
  started_ = true;
  std::erase_if(waiting_, [&](const Node& node) { return node.memory > x_.capacity(); });
  queue_.insert(queue_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  std::make_heap(queue_.begin(), queue_.end(), later_);
}

// What is below a leaf depends on the budget: it is made again from its schedule.
void TreeSearch::finish() {
  for (const Node& node : queue_) {
    if (node.level == Level::kSharding) {
      double& later = parked_[node.parent].later;
      later = std::min(later, node.bound);
    } else {
      waiting_.push_back(node);
    }
  }
  queue_.clear();
  for (Parked& parked : parked_) {
    if (parked.later == kNothingFound) continue;  // nothing below may fit
    parked.node.bound = std::max(parked.node.bound, parked.later);
    waiting_.push_back(parked.node);
  }
  parked_.clear();
}

void TreeSearch::drop_hopeless() {
  if (keeps()) return;
  while (!queue_.empty() && queue_.front().bound > cutoff()) pop();
}

// What was stopped has not seen every division of the leaves that it expanded either.
void TreeSearch::count_undivided() {
  double& least = outcome_.least_bound;
  for (const Undivided& leaf : undivided_) least = std::min(least, leaf.least);
  for (const double other : outcome_.undecided) least = std::min(least, other);
}

// `bound`: no plan that is still to be found scores less.
SearchProgress TreeSearch::so_far(double share, double bound) const {
  SearchProgress now{.share = share};
  if (x_.objective == Objective::kMemory || outcome_.best.empty()) return now;
  const double best = outcome_.best.front().step_time.si();
  now.best = Seconds{best};
  if (bound > 0) now.gap = std::max(0.0, 1 - bound / best);
  return now;
}

// The least bound of the nodes that wait.
double TreeSearch::least_waiting() const {
  double least = kNothingFound;
  for (const Node& node : queue_) least = std::min(least, node.bound);
  return least;
}

void TreeSearch::push(Node node) {
  node.number = created_++;
  queue_.push_back(node);
  std::push_heap(queue_.begin(), queue_.end(), later_);
}

Node TreeSearch::pop() {
  std::pop_heap(queue_.begin(), queue_.end(), later_);
  const Node node = queue_.back();
  queue_.pop_back();
  return node;
}

// The nodes of the least bounds, together. Their number does not depend on the threads, so that
// the same nodes are expanded whatever their number.
void TreeSearch::open_batch(const std::function<bool()>& stop) {
  const std::size_t most = x_.request.node_limit ? 16 : 64;  // a limit is kept to
  constexpr double kAhead = 1.25;  // of the limit: so far later budgets find their nodes made
  batch_.clear();
  const double limit = cutoff();
  const double ahead = keeps() ? limit * kAhead : limit;
  while (!queue_.empty() && batch_.size() < most) {
    if (queue_.front().bound <= limit) {
      batch_.push_back(pop());
    } else if (keeps()) {
      break;
    } else {
      pop();
    }
  }
  x_.nodes += static_cast<std::int64_t>(batch_.size());
  expanded_.assign(batch_.size(), {});
  stopped_.assign(batch_.size(), 0);
  pool_.run(batch_.size(), [&](std::size_t i) {
    stopped_[i] = i > 0 && stop() ? 1 : 0;  // some progress however long a node takes
    if (stopped_[i] == 0) expanded_[i] = expander_.expand(batch_[i], limit, ahead);
  });
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (stopped_[i] != 0) {
      push(batch_[i]);
      continue;
    }
    x_.nodes += expanded_[i].examined.effort / kSharesOfNode;
    if (keeps()) park(batch_[i], expanded_[i], ahead);
    for (Node child : expanded_[i].children) {
      child.parent = static_cast<std::uint32_t>(parked_.size() - 1);
      push(child);
    }
    take(expanded_[i].examined, batch_[i]);
  }
}

void TreeSearch::park(const Node& node, const Expansion& expansion, double ahead) {
  if (node.level == Level::kSharding) {
    double& later = parked_[node.parent].later;
    later = std::min(later, expansion.later);
  } else if (node.level == Level::kSchedule) {
    parked_.push_back({node, expansion.later});
  } else if (expansion.later < kNothingFound) {
    waiting_.push_back(node);
    waiting_.back().bound = std::max(node.bound, expansion.later);
    waiting_.back().made_to = ahead;
  }
}

double TreeSearch::known_time() {
  constexpr std::size_t kMost = 256;  // choices of keys tried again
  std::sort(known_.begin(), known_.end(), [](const Known& a, const Known& b) {
    return a.time != b.time ? a.time < b.time : a.leaf.number < b.leaf.number;
  });
  double least = kNothingFound;
  for (const Known& known : known_) {
    if (known.peak <= x_.capacity()) least = std::min(least, known.time);
  }
  // The fastest need not fit any more, but recompute more.
  const std::size_t n = std::min(kMost, known_.size());
  std::vector<Examined> examined(n);
  const double limit = least;
  pool_.run(n, [&](std::size_t i) {
    const Node& leaf = known_[i].leaf;
    examined[i] = examine(x_, expander_.choice(leaf),
                          x_.space.options(x_.space.meshes()[leaf.mesh]), {}, leaf.pipeline, limit);
  });
  for (std::size_t i = 0; i < n; ++i) {
    if (!examined[i].best) continue;
    const double time = examined[i].best->step_time.si();
    least = std::min(least, time);
    known_.push_back({time, examined[i].best->peak, known_[i].leaf});
  }
  return least;
}

void TreeSearch::take(const Examined& examined, const Node& node) {
  outcome_.evaluated += examined.evaluated;
  outcome_.feasible += examined.feasible;
  for (const auto& [reason, n] : examined.infeasible) outcome_.infeasible[reason] += n;
  const double left = std::max(examined.left, node.bound);
  if (left < kNothingFound && left <= cutoff()) {
    undivided_.push_back({node, left, examined.feasible});
    least_undivided_ = std::min(least_undivided_, left);
  }
  if (!examined.best) return;
  x_.met.add(examined.best->strategy, examined.best->step_time);
  if (keeps()) known_.push_back({examined.best->step_time.si(), examined.best->peak, node});
  insert(*examined.best, node);
}

void TreeSearch::insert(Found found, const Node& node) {
  found.leaf = node.number;
  std::vector<Found>& best = outcome_.best;
  const auto before = [&](const Found& a, const Found& b) {
    return ranks_before(a, b, x_.objective);
  };
  const auto place = std::upper_bound(best.begin(), best.end(), found, before);
  if (best.size() < wanted_ || place == best.begin()) settled_at_ = x_.nodes;
  best.insert(place, found);
  if (best.size() > wanted_) best.pop_back();
}

// Of the first plans: whether another division is better than the best of them.
void TreeSearch::divide_first(const std::function<bool()>& stop) {
  constexpr std::int64_t kWorthIt = 8'192;  // nodes of the run; of fewer all divisions take less
  constexpr std::size_t kFirst = 8, kBatch = 4;
  if (x_.nodes - first_node_ < kWorthIt) return;
  std::vector<Undivided> first;
  for (std::size_t i = 0; i < std::min(kFirst, outcome_.best.size()); ++i) {
    const auto leaf = std::find_if(
        undivided_.begin(), undivided_.end(),
        [&](const Undivided& each) { return each.node.number == outcome_.best[i].leaf; });
    if (leaf != undivided_.end()) first.push_back(*leaf);
  }
  for (std::size_t i = 0; i < first.size() && !stop() && !x_.is_at_node_limit(); i += kBatch) {
    const std::size_t n = std::min(kBatch, first.size() - i);
    divide_batch(std::span(first).subspan(i, n), outcome_.best.front().score(x_.objective), 1,
                 stop);
    for (std::size_t k = 0; k < n; ++k) take_best_division(expanded_[k].examined, first[i + k]);
  }
}

// So far each leaf stands for one division of its layers. Those that may be among the best with
// another one are divided in every way, the most promising first.
void TreeSearch::divide_all(const std::function<bool()>& stop, const Progress& progress) {
  std::sort(undivided_.begin(), undivided_.end(), [](const Undivided& a, const Undivided& b) {
    return a.least != b.least ? a.least < b.least : a.node.number < b.node.number;
  });
  drop_slow_shardings(stop);
  const std::size_t batch = x_.request.node_limit ? 4 : 16;
  for (std::size_t i = 0; i < undivided_.size() && undivided_[i].least <= cutoff();) {
    if (stop() || x_.is_at_node_limit()) {
      outcome_.exact = false;
      outcome_.least_bound = undivided_[i].least;
      undivided_.erase(undivided_.begin(), undivided_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    std::size_t n = std::min(batch, undivided_.size() - i);
    divide_batch(std::span(undivided_).subspan(i, n), cutoff(), 1, stop);
    // What was stopped stays for the next turn, which ends here.
    n = static_cast<std::size_t>(std::find(stopped_.begin(), stopped_.end(), 1) - stopped_.begin());
    for (std::size_t k = 0; k < n; ++k) take_divided(expanded_[k].examined, undivided_[i + k]);
    i += n;
    if (progress && i < undivided_.size()) progress(so_far(1, undivided_[i].least));
  }
}

// Leaves of one schedule differ in sharding alone: those of one kind are ruled out together.
void TreeSearch::drop_slow_shardings(const std::function<bool()>& stop) {
  constexpr std::size_t kBatch = 16, kWorthIt = 3;
  struct Leaves {
    Node leaf;
    std::size_t leaves = 0;
    char is_slow = 0;
    std::int64_t left = kStarts;
  };
  using Key = std::array<std::uint32_t, 6>;
  const auto key_of = [&](const Node& n) {
    const auto kind = static_cast<std::uint32_t>(expander_.kind_of_sharding(n));
    return Key{n.mesh, n.micro_batch, n.cp_kind, n.split, n.schedule, kind};
  };
  std::map<Key, std::size_t> number;
  std::vector<Leaves> groups;
  for (const Undivided& leaf : undivided_) {
    if (leaf.least > cutoff()) break;
    const auto [at, is_new] = number.try_emplace(key_of(leaf.node), groups.size());
    if (is_new) groups.push_back({leaf.node});
    ++groups[at->second].leaves;
  }
  std::erase_if(groups, [](const Leaves& group) { return group.leaves < kWorthIt; });
  const double limit = cutoff();
  for (std::size_t i = 0; i < groups.size() && !stop() && !x_.is_at_node_limit(); i += kBatch) {
    const std::size_t n = std::min(kBatch, groups.size() - i);
    x_.nodes += kNodesEach * static_cast<std::int64_t>(n);
    std::vector<KnownChains*> kept;
    std::vector<KnownChains> chains;
    for (std::size_t k = 0; k < n; ++k) {
      kept.push_back(&chains_of(groups[i + k].leaf)), chains.push_back(*kept.back());
    }
    pool_.run(n, [&](std::size_t k) {
      Leaves& group = groups[i + k];
      group.is_slow =
          expander_.shardings_take_longer(group.leaf, limit, group.left, chains[k]) ? 1 : 0;
    });
    for (std::size_t k = 0; k < n; ++k) {
      *kept[k] = std::move(chains[k]);
      x_.nodes += (kStarts - groups[i + k].left) / kStartsOfNode;
    }
  }
  std::map<Key, bool> slow;
  for (const Leaves& group : groups) slow[key_of(group.leaf)] = group.is_slow != 0;
  std::erase_if(undivided_, [&](const Undivided& leaf) {
    const auto found = slow.find(key_of(leaf.node));
    return found != slow.end() && found->second;
  });
}

// What is undecided so far has run out of effort where another plan of the list was the limit.
// Whether one of its divisions beats the best plan is asked again, with more effort, and with the
// best plan as the limit, which leaves far fewer of them.
void TreeSearch::decide_best(const std::function<bool()>& stop, const Progress& progress) {
  constexpr std::int64_t kTimes = 8, kManyTimes = 64;  // the effort
  constexpr std::size_t kMost = 128;
  if (decide_best({.times = kTimes, .most = kMost, .batch = 4}, stop, progress)) return;
  decide_best({.times = kManyTimes, .most = kMost, .batch = 2}, stop, progress);
}

// Whether all are decided.
bool TreeSearch::decide_best(const Patience& patience, const std::function<bool()>& stop,
                             const Progress& progress) {
  std::sort(undecided_.begin(), undecided_.end(), [](const Undivided& a, const Undivided& b) {
    return a.least != b.least ? a.least < b.least : a.node.number < b.node.number;
  });
  const auto score = [&] {
    const double known = std::min(given_cutoff_, known_score_);
    if (outcome_.best.empty()) return known;
    return std::min(known, outcome_.best.front().score(x_.objective));
  };
  const auto best = [&] { return score() * kAsGood; };
  // Where one of them stays undecided the others would not make the proof exact.
  const std::size_t tried = std::min(patience.most, undecided_.size());
  for (std::size_t i = 0; i < tried && undecided_[i].least < best(); i += patience.batch) {
    if (stop() || x_.is_at_node_limit()) return false;
    const double limit = score();
    const std::size_t n = std::min(patience.batch, tried - i);
    divide_batch(std::span(undecided_).subspan(i, n), limit, patience.times, stop);
    bool all = true;
    for (std::size_t k = 0; k < n; ++k) {
      if (stopped_[k] != 0) return false;
      Undivided& leaf = undecided_[i + k];
      leaf.least = std::max(leaf.least, std::min(limit, expanded_[k].examined.left));
      take_best_division(expanded_[k].examined, leaf);
      all &= leaf.least >= best();
    }
    if (progress) progress(so_far(1, undecided_[i + n - 1].least));
    if (!all) return false;
  }
  return tried == undecided_.size() || undecided_[tried].least >= best();
}

// Those that may keep the limit, each with so many times the usual effort, into `expanded_`; what
// was stopped is marked.
void TreeSearch::divide_batch(std::span<const Undivided> leaves, double limit, std::int64_t times,
                              const std::function<bool()>& stop) {
  const auto n = static_cast<std::int64_t>(leaves.size());
  std::int64_t starts = kStarts;
  if (x_.request.node_limit) {
    starts =
        std::clamp((*x_.request.node_limit - x_.nodes) * kStartsOfNode / n, kLeastStarts, kStarts);
  }
  x_.nodes += kNodesEach * n;
  expanded_.assign(leaves.size(), {});
  stopped_.assign(leaves.size(), 0);
  std::vector<KnownChains*> chains;
  for (const Undivided& leaf : leaves) chains.push_back(&chains_of(leaf.node));
  pool_.run(leaves.size(), [&](std::size_t k) {
    stopped_[k] = k > 0 && stop() ? 1 : 0;
    if (stopped_[k] != 0 || leaves[k].least > limit) return;
    expanded_[k].examined = divide(leaves[k].node, limit, times * starts, *chains[k]);
  });
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    x_.nodes += expanded_[k].examined.effort / kStartsOfNode;
    KnownChains& found = expanded_[k].examined.chains;
    if (!found.chains.empty()) *chains[k] = std::move(found);
  }
}

KnownChains& TreeSearch::chains_of(const Node& node) {
  const Strategy s = with_partial(x_.space.bases().front(), expander_.choice(node));
  const PipelineShape shape = pipeline_shape(s);
  return chains_[{shape.pp, shape.vp, static_cast<std::int64_t>(shape.schedule), shape.microbatches,
                  shape.group}];
}

Examined TreeSearch::divide(const Node& node, double limit, std::int64_t starts,
                            const KnownChains& chains) const {
  const PartialStrategy c = expander_.choice(node);
  // At first for some bound on an option's divisions; then what decides one is not short for
  // others.
  const std::int64_t least = starts > kStarts ? starts : kLeastStarts;
  return examine(x_, c, x_.space.options(x_.space.meshes()[node.mesh]), node.recompute_modes,
                 node.pipeline, limit, {true, starts, least, known_division(node, c), &chains});
}

// Of the leaf itself, or else of the best plan whose layers may be divided alike.
const std::vector<std::int64_t>* TreeSearch::known_division(const Node& node,
                                                            const PartialStrategy& c) const {
  const std::vector<Found>& best = outcome_.best;
  const auto own =
      std::find_if(best.begin(), best.end(), [&](const Found& f) { return f.leaf == node.number; });
  if (own != best.end()) return &own->strategy.stage_layers;
  const auto alike = std::find_if(best.begin(), best.end(), [&](const Found& f) {
    const Strategy& s = f.strategy;
    return s.pp == c.pp && s.vp == c.vp && s.schedule == c.schedule;
  });
  return alike == best.end() ? nullptr : &alike->strategy.stage_layers;
}

void TreeSearch::take_divided(const Examined& examined, const Undivided& leaf) {
  const std::int64_t more = std::max<std::int64_t>(0, examined.feasible - leaf.costed);
  outcome_.evaluated += more, outcome_.feasible += more;
  if (examined.left < kNothingFound) {
    undecided_.push_back({leaf.node, std::max(examined.left, leaf.least), examined.feasible});
  }
  take_best_division(examined, leaf);
}

void TreeSearch::take_best_division(const Examined& examined, const Undivided& leaf) {
  if (!examined.best) return;
  std::erase_if(outcome_.best, [&](const Found& f) { return f.leaf == leaf.node.number; });
  insert(*examined.best, leaf.node);
}

}  // namespace meshplan
