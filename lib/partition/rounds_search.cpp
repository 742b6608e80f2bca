#include "partition/rounds_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost/step_parts.hpp"

namespace meshplan {
namespace {

// Of an evaluation, in partial divisions; and chunks of the pipeline that make one more of them.
constexpr std::int64_t kCostOfRun = 8, kChunksOfStart = 2;
constexpr std::int64_t kPassesOfStart = 256;  // of a micro-batch through a chunk
// Shares whose memory is worked out, and edges and shares of a graph, that take as long as one
// more.
constexpr std::int64_t kSharesOfStart = 5, kBuiltOfStart = 8;
constexpr std::int64_t kAtOnce = 128;  // partial divisions looked at before a good one is known
constexpr std::int64_t kShortPipeline = 8;  // ranks between which every layer is moved for a tie
constexpr std::int64_t kImproving = 4096;   // effort at least that improves the best one known

Recompute recompute_of(const StageContext& x) {
  if (x.counts == CountRule::kAll) return Recompute::kFull;
  const bool selective = x.strategy.recompute == Recompute::kSelective;
  return selective ? Recompute::kSelective : Recompute::kNone;
}

SendTime send_of(const StageContext& x, const Placement& placement) {
  if (x.strategy.pp == 1) return {};
  return boundary_send(x.model, x.cluster, x.strategy, placement).time;
}

}  // namespace

DivisionSearch::DivisionSearch(const DivisionQuery& q, const StageContext& context,
                               std::int64_t effort)
    : q_(q),
      x_(context),
      stages_(x_),
      send_(is(DivisionAsk::kAnySharding) ? SendTime{} : send_of(x_, q.placement)),
      bound_(x_.model, x_.strategy, x_.blocks, x_.prefix, recompute_of(x_), send_),
      step_(q.models.borrow()),
      strategy_(x_.strategy),
      limit_(q.most),
      tied_(is(DivisionAsk::kAnySharding) ? 0 : q.placement.tied().si()),
      unpaired_(x_.strategy.overlap.ep
                    ? unpaired_passes(x_.blocks, x_.prefix.with_ends(x_.model)).total().si()
                    : 0),
      given_(effort),
      left_(effort) {}

std::int64_t DivisionSearch::work() const {
  return given_ - left_ - spared_ + stages_.worked_out() / kSharesOfStart + built_ / kBuiltOfStart;
}

void DivisionSearch::try_all(const std::vector<std::vector<std::int64_t>>& all) {
  for (const std::vector<std::int64_t>& layers : all) {
    const std::int64_t most = stages_.max_bottleneck(limit() - q_.end);
    const std::int64_t largest = *std::max_element(layers.begin(), layers.end());
    if (stages_.least_time(largest) > most) continue;
    const std::optional<Division> d = stages_.with_layers(layers, most);
    if (d && may_keep(*d)) consider(*d);
  }
}

bool DivisionSearch::try_every() {
  stages_.limit_to(stages_.max_bottleneck(limit_ - q_.end));
  const bool in_order = !stages_.layout().shares_both_ends();
  if (in_order && try_in_order(kAtOnce)) return true;
  if (!gave_up_ && (is(DivisionAsk::kFastest) || left_ > 1)) first_guess();
  const bool chains = !in_order || !gave_up_;
  if (chains && !is(DivisionAsk::kAnySharding) && try_known_chains()) return true;
  if (try_tails()) return true;
  bool every = chains && try_chains();
  if (in_order && !every && no_chains_) {
    left_ = std::exchange(spared_, 0), gave_up_ = false;
    every = try_in_order(left_);
  }
  if (every) return true;
  // Where none is faster only one that takes as long can rank before it.
  const bool may_be_faster = !best_ || told_ < best_time_ * (1 - kSame);
  if (may_be_faster || x_.strategy.pp <= kShortPipeline) improve();
  return false;
}

bool DivisionSearch::try_in_order(std::int64_t most) {
  const std::int64_t kept = std::max<std::int64_t>(0, left_ - most);
  left_ -= kept;
  Division begun;
  extend(begun, stages_.start(), 0, {q_.end + tied_, 0});
  const bool every = left_ > 0;
  (gave_up_ ? spared_ : left_) += kept;
  return every;
}

void DivisionSearch::first_guess() {
  const std::int64_t most = stages_.max_bottleneck(limit() - q_.end);
  std::optional<Division> guess;
  if (q_.known != nullptr) guess = stages_.with_layers(*q_.known, most);
  if (!guess && is(DivisionAsk::kFastest)) {
    guess = Partitioner<Stages>(stages_).best(stages_.weight(), stages_.least_sum(),
                                              stages_.min_bottleneck(most), most);
  }
  if (guess) consider(*guess);
}

bool DivisionSearch::consider(const Division& d) {
  left_ -= kCostOfRun + x_.strategy.pp * x_.strategy.vp / kChunksOfStart;
  if (stages_.layout().shares_both_ends()) {  // few of their rounds are alike
    left_ -= x_.strategy.pp * x_.strategy.vp * num_microbatches(x_.strategy) / kPassesOfStart;
  }
  last_time_.reset();
  last_chain_.reset();
  const Stages::Lists lists = stages_.lists(d);
  const bool recomputes = std::any_of(lists.recomputed.begin(), lists.recomputed.end(),
                                      [](std::int64_t n) { return n > 0; });
  const bool unwanted = !recomputes && q_.require_recompute;
  if (unwanted && !wants_chains_) return false;
  strategy_.stage_layers = lists.layers, strategy_.recompute_layers = lists.recomputed;
  const bool plain = x_.strategy.recompute == Recompute::kFull && !recomputes;
  strategy_.recompute = plain ? Recompute::kNone : x_.strategy.recompute;
  step_->set_pipeline(strategy_, x_.blocks, q_.placement, x_.in_flight);
  if (is(DivisionAsk::kAnySharding)) {
    find_chain();
    if (!last_chain_) {  // then nothing is known of it
      give_up();
      return false;
    }
    last_time_ = step_->length(*last_chain_).si();
  } else {
    step_->set_sharding(strategy_, q_.placement);
    last_time_ = step_->evaluate(strategy_).step_time.si();
  }
  const double time = *last_time_;
  if (!is(DivisionAsk::kFastest)) {
    if (time * kRounding <= limit()) give_up();  // this one may be fast enough
    return false;
  }
  if (unwanted) return false;
  if (time > limit()) return false;
  const bool same = best_ && std::abs(time - best_time_) <= kSame * best_time_;
  if (same ? !stages_.prefers(d, *best_) : best_ && time > best_time_) return false;
  best_ = d, best_time_ = time;
  limit_ = std::min(limit_, time);
  return true;
}

DivisionBound::RankChains DivisionSearch::chains_of(int stage, const StageAssignment& share) {
  return bound_.chains(stages_.layout(), stage, share, chunks_);
}

void DivisionSearch::extend(Division& begun, int state, int stage, const Begun& before) {
  if (stage == stages_.num_stages()) {
    if (stages_.is_goal(state)) consider(begun);
    return;
  }
  const LayerCursor place = stages_.layout().place(state);
  const std::int64_t most = stages_.max_bottleneck(limit() - q_.end);
  stages_.moves(stage, state, most, [&](const StageMove& move) {
    if (--left_ <= 0) return;
    const StageAssignment share{place, move.first, move.second};
    Begun now = before;
    const double recompute_time = recompute_time_of_stage(stage, share, move.time);
    const std::int64_t to = place.taken + move.first;
    const double own = static_cast<double>(num_microbatches(x_.strategy)) * recompute_time;
    const DivisionBound::RankChains chains = chains_of(stage, share);
    const double chain = chains.step + own + before.carried;
    now.carried += bound_.carried() * recompute_time;
    const double longest = std::max(chain, bound_.loop(stage, place.taken, to) + now.carried);
    if ((longest + before.end) * kRounding > limit()) return;
    const StepEnd end = end_of(stage, share);
    const double own_end = (end.optimizer + end.offload).si() + unpaired_,
                 exposed = end.exposed.si();
    const double rank = chains.until_last + own + exposed + own_end + tied_;
    if (rank * kRounding > limit()) return;
    if (stage == 0 && bound_.comes_back()) {
      now.end = exposed + std::max(q_.end, own_end) + tied_;
      if ((longest + now.end) * kRounding > limit()) return;
    }
    if (!bound_.possible(limit() / kRounding - now.end - now.carried, stage + 1, to)) return;
    begun.stages.push_back(move);
    const std::int64_t largest = begun.largest;
    begun.sum += move.time, begun.largest = std::max(begun.largest, move.time);
    extend(begun, move.to, stage + 1, now);
    begun.stages.pop_back();
    begun.sum -= move.time, begun.largest = largest;
  });
}

void DivisionSearch::find_ends(const DivisionGraph& graph) {
  for (const DivisionGraph::Taken& t : graph.shares()) {
    const StepEnd end = end_of(t.stage, t.share);
    exposed_.push_back(end.exposed.si());
    ends_.push_back((end.optimizer + end.offload).si() + unpaired_);
  }
}

bool DivisionSearch::set_graph() {
  if (!graph_) {
    const bool both_ways = stages_.layout().is_bidirectional();
    const double m = static_cast<double>(num_microbatches(x_.strategy));
    const auto keeps = [&](int stage, int state, const StageMove& move) {
      if (both_ways) return true;
      const StageAssignment share{stages_.layout().place(state), move.first, move.second};
      const double more = m * recompute_time_of_stage(stage, share, move.time);
      const DivisionBound::RankChains chains = chains_of(stage, share);
      return (chains.step + more + q_.end + tied_) * kRounding <= limit();
    };
    graph_.emplace(stages_, pipeline_shape(x_.strategy), stages_.max_bottleneck(limit() - q_.end),
                   keeps);
    built_ += static_cast<std::int64_t>(graph_->edges().size() + graph_->shares().size());
    find_ends(*graph_);
  }
  return !graph_->empty() && set_alone(*graph_);
}

bool DivisionSearch::set_alone(DivisionGraph& graph) {
  const bool both_ways = stages_.layout().is_bidirectional();
  const double m = static_cast<double>(num_microbatches(x_.strategy));
  std::vector<double> work(graph.shares().size(), 0.0);
  if (stages_.layout().shares_both_ends()) {  // each rank has all its work to do
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (const ChunkTime& c : graph.times(i)) {
        work[i] += (c.forward + c.backward_input + c.backward_weight).si();
      }
      work[i] = (both_ways ? m / 2 : m) * work[i] + exposed_[i] + ends_[i] + tied_;
    }
  }
  // What the layers before those of a share change: the same share is on several edges.
  std::vector<char> too_long;
  too_long.reserve(graph.edges().size());
  alone_.assign(work.size(), kNoDivision);
  for (const DivisionGraph::Edge& e : graph.edges()) {
    const std::size_t i = index(e.taken);
    const auto& [stage, share] = graph.shares()[i];
    double alone = work[i];
    if (!both_ways) {
      const double more = m * recompute_time_of_stage(stage, share, e.move.time);
      const LayerCursor place = stages_.layout().place(e.state);
      const DivisionBound::RankChains chains = chains_of(stage, {place, share.first, share.second});
      alone = std::max({alone, chains.step + std::max(q_.end, ends_[i]) + more + tied_,
                        chains.until_last + exposed_[i] + ends_[i] + more + tied_});
    }
    too_long.push_back(alone * kRounding > limit() ? 1 : 0);
    if (too_long.back() == 0) alone_[i] = std::min(alone_[i], alone);
  }
  return graph.leave_out(too_long);
}

bool DivisionSearch::may_keep(const Division& d) const {
  if (stages_.layout().is_bidirectional()) return true;
  int state = stages_.start();
  double carried = 0;
  const double m = static_cast<double>(num_microbatches(x_.strategy));
  for (int r = 0; r < stages_.num_stages(); ++r) {
    const StageMove& move = d.stages[static_cast<std::size_t>(r)];
    const LayerCursor place = stages_.layout().place(state);
    const double recompute_time = recompute_time_of_stage(r, {place, move.first, 0}, move.time);
    const double chain =
        bound_.chains(r, place.taken, place.taken + move.first).step + m * recompute_time + carried;
    if ((chain + q_.end + tied_) * kRounding > limit()) return false;
    carried += bound_.carried() * recompute_time;
    state = move.to;
  }
  return true;
}

// With as much effort again as a search is given: between fifty ranks there are thousands of moves.
void DivisionSearch::improve() {
  bool better = best_.has_value();
  const std::int64_t least = left_ - std::max(given_, kImproving);
  while (better && left_ > least) {
    better = false;
    const std::vector<std::int64_t> start = stages_.lists(*best_).layers;
    const std::int64_t most = stages_.max_bottleneck(limit() - q_.end);
    std::vector<std::int64_t> layers = start;
    for (std::size_t from = 0; from < start.size(); ++from) {
      for (std::size_t to = 0; to < start.size() && left_ > least; ++to) {
        if (from == to || start[from] == 0) continue;
        --layers[from], ++layers[to];
        const std::optional<Division> d = stages_.with_layers(layers, most);
        if (d && may_keep(*d)) better |= consider(*d);
        ++layers[from], --layers[to];
      }
    }
  }
}

FastestDivision DivisionSearch::result(bool every) const {
  FastestDivision found;
  found.every = every;
  found.least = std::max(least_, told_);
  found.chains = chains_;
  if (!best_) return found;
  found.lists = stages_.lists(*best_);
  found.step_time = best_time_;
  return found;
}

}  // namespace meshplan
