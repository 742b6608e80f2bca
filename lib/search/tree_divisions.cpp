// The second part of a search: the divisions of the layers of what is left of the tree.
#include <algorithm>

#include "search/tree_search.hpp"

namespace meshplan {
namespace {

// Effort on the divisions of one leaf, as DivisionQuery counts it.
constexpr std::int64_t kStarts = 4096, kLeastStarts = 512;
// Nodes of the tree that take as long as a leaf whose divisions are looked at. Partial divisions
// that take as long as a node.
constexpr std::int64_t kNodesEach = 2, kStartsOfNode = 8;
// Of leaves that are asked again: the effort, and how many.
constexpr std::int64_t kTimes = 8, kManyTimes = 64;
constexpr std::size_t kMostDecided = 128;
// How much faster than the best plan another one may be that is not looked for any more.
constexpr double kGap = 0.025;

}  // namespace

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
    divide_batch(std::span(first).subspan(i, n), outcome_.best.front().score(x_.objective), {},
                 stop);
    for (std::size_t k = 0; k < n; ++k) take_best_division(expanded_[k].examined, first[i + k]);
  }
}

// While the tree is opened each leaf stands for one division of its layers, and another one may be
// several per cent faster. So now and then the leaves that may have the best one, and those of the
// best plans, are divided: each time after twice as many nodes.
void TreeSearch::divide_promising(const std::function<bool()>& stop) {
  constexpr std::size_t kEach = 8, kBest = 3;
  const bool by_time = x_.objective != Objective::kMemory;
  const bool asks = breadth_ == Breadth::kAll && !prepares_ && !keeps() && by_time;
  if (!asks || x_.nodes < divide_at_ || x_.is_at_node_limit()) return;
  std::vector<std::size_t> next;  // of the leaves, those that may be fastest
  for (std::size_t i = 0; i < undivided_.size(); ++i) {
    if (!undivided_[i].divided && undivided_[i].least <= cutoff()) next.push_back(i);
  }
  const auto is_best = [&](std::size_t i) {
    const std::size_t n = std::min(kBest, outcome_.best.size());
    return std::any_of(outcome_.best.begin(),
                       outcome_.best.begin() + static_cast<std::ptrdiff_t>(n),
                       [&](const Found& found) { return found.leaf == undivided_[i].node.number; });
  };
  std::sort(next.begin(), next.end(), [&](std::size_t a, std::size_t b) {
    const Undivided &one = undivided_[a], &other = undivided_[b];
    if (is_best(a) != is_best(b)) return is_best(a);
    return one.least != other.least ? one.least < other.least : one.node.number < other.node.number;
  });
  next.resize(std::min(kEach, next.size()));
  std::vector<Undivided> leaves;
  for (const std::size_t i : next) {
    undivided_[i].divided = true;
    leaves.push_back(undivided_[i]);
  }
  if (!leaves.empty()) {
    const double limit = outcome_.best.empty() ? cutoff() : outcome_.best.front().step_time.si();
    divide_batch(leaves, std::min(cutoff(), limit), {}, stop);
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      take_best_division(expanded_[k].examined, leaves[k]);
    }
  }
  divide_at_ = 2 * x_.nodes - first_node_;
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
    divide_batch(std::span(undivided_).subspan(i, n), cutoff(), {}, stop);
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
  if (decide_best({.times = kTimes, .most = kMostDecided, .batch = 4}, stop, progress)) return;
  const Patience most{.times = kManyTimes, .most = kMostDecided, .batch = 2, .all_or_none = true};
  if (!decide_best(most, stop, progress)) close_gap(stop, progress);
}

// Whether all are decided.
bool TreeSearch::decide_best(const Patience& patience, const std::function<bool()>& stop,
                             const Progress& progress) {
  sort_undecided();
  const auto best = [&] { return wanted_score() * kAsGood; };
  // Where one of them stays undecided the others would not make the proof exact.
  const std::size_t tried = std::min(patience.most, undecided_.size());
  for (std::size_t i = 0; i < tried && undecided_[i].least < best(); i += patience.batch) {
    if (stop() || x_.is_at_node_limit()) return false;
    const double limit = wanted_score();
    const std::size_t n = std::min(patience.batch, tried - i);
    divide_batch(std::span(undecided_).subspan(i, n), limit, patience, stop);
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

// Where the best plan is not proved to be, how much faster another one may be is worth knowing:
// that none is faster by more than a few per cent is proved far sooner than that none is faster at
// all.
void TreeSearch::close_gap(const std::function<bool()>& stop, const Progress& progress) {
  constexpr std::size_t kFew = 4;  // leaves that are worth the most effort
  close_gap({.times = kTimes, .most = kMostDecided}, stop, progress);
  const double limit = wanted_score() * (1 - kGap);
  const auto is_open = [&](const Undivided& leaf) { return leaf.least < limit; };
  const auto open = std::count_if(undecided_.begin(), undecided_.end(), is_open);
  if (open <= static_cast<std::ptrdiff_t>(kFew)) {
    close_gap({.times = kManyTimes, .most = kFew}, stop, progress);
  }
}

void TreeSearch::close_gap(const Patience& patience, const std::function<bool()>& stop,
                           const Progress& progress) {
  sort_undecided();
  double limit = wanted_score() * (1 - kGap);
  for (std::size_t i = 0; i < std::min(patience.most, undecided_.size()); ++i) {
    Undivided& leaf = undecided_[i];
    if (leaf.least >= limit || stop() || x_.is_at_node_limit()) return;
    divide_batch({&leaf, 1}, limit, patience, stop);
    leaf.least = std::max(leaf.least, std::min(limit, expanded_[0].examined.left));
    take_best_division(expanded_[0].examined, leaf);
    // Others need not be closed farther than this one.
    limit = std::min({limit, leaf.least, wanted_score() * (1 - kGap)});
    if (progress) progress(so_far(1, leaf.least));
  }
}

// What a plan must score less than to be the best.
double TreeSearch::wanted_score() const {
  const double known = std::min(given_cutoff_, known_score_);
  if (outcome_.best.empty()) return known;
  return std::min(known, outcome_.best.front().score(x_.objective));
}

void TreeSearch::sort_undecided() {
  std::sort(undecided_.begin(), undecided_.end(), [](const Undivided& a, const Undivided& b) {
    return a.least != b.least ? a.least < b.least : a.node.number < b.node.number;
  });
}

// Those that may keep the limit, each with so many times the usual effort, into `expanded_`; what
// was stopped is marked.
void TreeSearch::divide_batch(std::span<const Undivided> leaves, double limit,
                              const Patience& patience, const std::function<bool()>& stop) {
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
    expanded_[k].examined =
        divide(leaves[k].node, limit, patience.times * starts, patience.all_or_none, *chains[k]);
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

Examined TreeSearch::divide(const Node& node, double limit, std::int64_t starts, bool all_or_none,
                            const KnownChains& chains) const {
  const PartialStrategy c = expander_.choice(node);
  // At first for some bound on an option's divisions; then what decides one is not short for
  // others.
  const std::int64_t least = starts > kStarts ? starts : kLeastStarts;
  return examine(x_, c, x_.space.options(x_.space.meshes()[node.mesh]), node.recompute_modes,
                 node.pipeline, limit,
                 {true, starts, least, all_or_none, known_division(node, c), &chains});
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
