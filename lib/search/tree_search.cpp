#include "search/tree_search.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// Shares of layers whose memory is worked out, that take as long as a node.
constexpr std::int64_t kSharesOfNode = 40;

// Nodes of the second pass after which the first of its leaves are divided in every way.
constexpr std::int64_t kFirstDivided = 8'192;

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
  divide_at_ = first_node_ + kFirstDivided;
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
    divide_promising(stop);
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
  if (breadth_ == Breadth::kAll && !prepares_ && outcome_.exact) {
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
  return x_.nodes - first_node_ > std::max(kLeast, 3 * (settled_at_ - first_node_) / 2);
}

double TreeSearch::ranked_to() const {
  if (within_ == kNothingFound || x_.nodes < few_nodes_) return kNothingFound;
  constexpr std::int64_t kTimes = 4;
  const double within = x_.nodes < kTimes * few_nodes_ ? within_ : 1;
  if (outcome_.best.empty()) return within * known_score_;
  return within * std::min(outcome_.best.front().score(x_.objective), known_score_);
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

}  // namespace meshplan
