// [F-SEARCH-11] A search for the fastest division by the chains of those that are costed.
#include <algorithm>
#include <utility>

#include "partition/begun_division.hpp"
#include "partition/rounds_search.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kTriesOfStart = 64;  // sums over stages that take as long as one of chains
constexpr std::int64_t kFew = 4096;         // divisions of which each is looked at
// More say less than a split does.
constexpr int kRaisesOfAll = 12, kRaises = 3, kSteps = 4;

}  // namespace

bool DivisionSearch::try_known_chains() {
  if (q_.chains == nullptr || q_.chains->chains.empty()) return false;
  if (!set_graph()) return true;
  DivisionCuts cuts(*graph_, exposed_);
  DivisionBranch root = cuts.all(*q_.chains);
  close_longer(root, *graph_);
  if (!is_open(root, *graph_)) return true;
  cuts.raise(root, kSteps, limit() / kRounding - root.end);
  return !is_open(root, *graph_);
}

bool DivisionSearch::try_chains() {
  wants_chains_ = true;
  if (!set_graph()) return true;
  const DivisionGraph& graph = *graph_;
  DivisionCuts cuts(graph, exposed_);
  DivisionBranch root = cuts.all(q_.chains == nullptr ? KnownChains{} : *q_.chains);
  close_longer(root, graph);
  if (!is_open(root, graph)) return true;
  if (cuts.empty() && !add_cut(best_ ? *best_ : even_division(graph), cuts)) {
    no_chains_ = true;
    give_up();
    return false;
  }
  // The least bound first: what is left when the effort is spent has the largest that is known.
  const auto later = [](const DivisionBranch& a, const DivisionBranch& b) {
    return a.step_time() > b.step_time();
  };
  std::vector<DivisionBranch> waiting;
  const auto wait = [&](DivisionBranch branch) {
    bound(branch, graph, cuts, kRaises);
    if (!is_open(branch, graph)) return;
    waiting.push_back(std::move(branch));
    std::push_heap(waiting.begin(), waiting.end(), later);
  };
  bound(root, graph, cuts, kRaisesOfAll);
  chains_ = cuts.chains_of(root);
  if (!is_open(root, graph)) return true;
  least_ = root.step_time() * kRounding;
  cuts.set_levels(root);
  root.free = static_cast<int>(graph.num_stages());
  for (DivisionBranch& part : cuts.by_level(root)) wait(std::move(part));
  while (!waiting.empty()) {
    least_ = waiting.front().step_time() * kRounding;
    if (least_ > limit()) return true;
    if (left_ <= 0) return false;
    std::pop_heap(waiting.begin(), waiting.end(), later);
    const DivisionBranch branch = std::move(waiting.back());
    waiting.pop_back();
    if (!is_open(branch, graph)) continue;
    if (has_few(graph, branch, kFew)) {
      BegunDivision begun(graph, cuts, branch);
      dig(begun, branch.end);
      if (left_ <= 0) return false;
      continue;
    }
    std::vector<DivisionBranch> parts =
        cuts.has_levels(branch) ? cuts.by_level(branch) : cuts.split(branch);
    if (parts.empty()) parts = halve(graph, branch);
    for (DivisionBranch& part : parts) wait(std::move(part));
  }
  return true;
}

bool DivisionSearch::is_open(const DivisionBranch& branch, const DivisionGraph& graph) const {
  const double least = branch.step_time() * kRounding;
  if (least > limit()) return false;
  const bool same = best_ && least >= best_time_ * (1 - kSame);
  if (!same) return true;
  const DivisionScore score = scores_to_go(graph, branch).front();
  const DivisionScore best = DivisionScore::of(*best_);
  return score == best || score.ranks_before(best, stages_.weight());
}

void DivisionSearch::dig(BegunDivision& begun, double end) {
  if (begun.is_whole()) {
    consider(division_of(begun.edges()));
    return;
  }
  for (const DivisionGraph::Edge& e : begun.next()) {
    if (++tried_ % kTriesOfStart == 0) --left_;
    if (left_ <= 0) return;
    const double after = std::max(end, ends_[static_cast<std::size_t>(e.taken)] + tied_);
    begun.push(e);
    const double least = (begun.least() + after) * kRounding;
    const bool same = best_ && least >= best_time_ * (1 - kSame);
    if (least <= limit() && (!same || begun.may_rank_before(*best_, stages_.weight()))) {
      dig(begun, after);
    }
    begun.pop();
  }
}

void DivisionSearch::bound(DivisionBranch& branch, const DivisionGraph& graph, DivisionCuts& cuts,
                           int raises) {
  close_longer(branch, graph);
  const auto step = static_cast<std::int64_t>(8 + graph.edges().size() / 256);
  bool more = true;
  const bool of_all = raises == kRaisesOfAll && !is(DivisionAsk::kAnySharding);
  for (int i = 0; i < raises && more && (left_ > 0 || (of_all && i < kRaises)); ++i) {
    if (branch.step_time() * kRounding > limit()) return;
    left_ -= step;
    more = cuts.raise(branch, kSteps, limit() / kRounding - branch.end);
    if (branch.step_time() * kRounding > limit()) return;
    cuts.set_seen();
    more |= add_cut(division_of(cuts.latest()), cuts);
    // What the game weighs may be long by a chain that it has not got yet.
    while (!more && left_ > 0 && cuts.turn_to_unseen(branch)) {
      more = add_cut(division_of(cuts.latest()), cuts);
    }
  }
  cuts.close_longer(branch, limit() / kRounding - branch.end);
  left_ -= step;
}

void DivisionSearch::close_longer(DivisionBranch& branch, const DivisionGraph& graph) const {
  std::vector<double> alone = alone_;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    if (alone[i] * kRounding > limit()) branch.closed[i] = 1;
    if (branch.closed[i] != 0) alone[i] = kNoDivision;
  }
  branch.alone = graph.min_bottleneck(alone);
  branch.end = end_of_branch(branch, graph);
}

double DivisionSearch::end_of_branch(const DivisionBranch& branch,
                                     const DivisionGraph& graph) const {
  std::vector<double> least(static_cast<std::size_t>(graph.num_stages()), 1e300);
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    double& of_stage = least[static_cast<std::size_t>(graph.shares()[i].stage)];
    if (branch.closed[i] == 0) of_stage = std::min(of_stage, ends_[i]);
  }
  return std::max(q_.end, *std::max_element(least.begin(), least.end())) + tied_;
}

bool DivisionSearch::add_cut(const Division& d, DivisionCuts& cuts) {
  consider(d);
  if (!last_time_) return false;
  if (!last_chain_) find_chain();
  if (!last_chain_ || !cuts.is_longer(*last_chain_)) return false;
  cuts.add(*last_chain_);
  return true;
}

Division DivisionSearch::even_division(const DivisionGraph& graph) {
  std::vector<double> squares;
  for (std::size_t i = 0; i < graph.shares().size(); ++i) {
    double time = 0;
    for (const ChunkTime& c : graph.times(i)) {
      time += (c.forward + c.backward_input + c.backward_weight).si();
    }
    squares.push_back(time * time);
  }
  return division_of(graph.shortest(squares, graph.least_to_go(squares)));
}

}  // namespace meshplan
