#include "partition/stages.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.hpp"
#include "partition/stage_chains.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

constexpr double kQuanta = 1099511627776.0;      // 2^40
constexpr std::int64_t kMostWeight = 1LL << 20;  // keeps weight * time below 2^63

std::array<Seconds, 3> seconds_of(const BlockCost& b) {
  return {b.forward.total() + b.backward_input.total() + b.backward_weight.total(),
          b.recompute_full.total(), b.recompute_selective.total()};
}

}  // namespace

BlockQuanta block_quanta(const BlockCosts& blocks, const LayerPrefix& prefix, const ModelSpec& m) {
  const BlockCounts all = prefix.with_ends(m);
  double model = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k] > 0) model += seconds_of(blocks[k])[0].si() * static_cast<double>(all[k]);
  }
  const double quantum = model > 0 ? model / kQuanta : 1;
  const PerBlock<std::int64_t> none(all.size());
  BlockQuanta quanta{none, none, none, quantum};
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (all[k] == 0) continue;
    const auto [pass, full, selective] = seconds_of(blocks[k]);
    quanta.pass[k] = std::llround(pass.si() / quantum);
    quanta.full[k] = std::llround(full.si() / quantum);
    quanta.selective[k] = std::llround(selective.si() / quantum);
  }
  return quanta;
}

Stages::Stages(const StageContext& context)
    : x_(context),
      layout_(x_.model, x_.strategy, x_.prefix, x_.rounds),
      quanta_(block_quanta(x_.blocks, x_.prefix, x_.model)),
      rates_(memory_rates(x_.model, x_.cluster, x_.strategy)),
      saved_rates_(saved_rates(x_.blocks, x_.strategy.recompute)),
      least_(x_.prefix.table.size()),
      values_(layout_.num_slots()) {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  least_full_ = kUnbounded;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(x_.prefix.table.size()); ++k) {
    const std::int64_t recompute_time =
        quanta_.full[k] - (selective ? std::min(quanta_.selective[k], quanta_.full[k]) : 0);
    least_full_ = std::min(least_full_, recompute_time);
  }
  quanta_each_ = 1 / (quanta_.seconds * static_cast<double>(num_microbatches(x_.strategy)));
  measures_memory() ? set_least_bytes() : set_least_times();
  add_up_least();
  if (layout_.follow_each_other() || are_alike()) set_run_times();
  if (!time_until_.empty() && more_never_fits()) holds_.emplace(num_stages(), layout_.layers());
  // The values themselves are worked out without asking for memory.
  const auto chunks = static_cast<std::size_t>(x_.strategy.vp);
  ranges_.reserve(chunks), saved_.reserve(chunks), kept_.reserve(chunks);
  stored_.resize(kStoredPlaces);
}

std::int64_t Stages::weight() const {
  const std::int64_t m = num_microbatches(x_.strategy);
  return std::min(kMostWeight, m * x_.strategy.vp - 1);
}

// The slowest rank works that long on every microbatch (DualPipe: each of two ranks on half of
// them). Rounding to quanta moves each block's time by half a quantum at most.
std::int64_t Stages::max_bottleneck(double score) const {
  if (score >= 4e18) return kUnbounded / 4;
  if (measures_memory()) return static_cast<std::int64_t>(score);
  const double each = score / static_cast<double>(num_microbatches(x_.strategy));
  const double of_stage = layout_.is_bidirectional() ? 2 * each : each;
  const double quanta = of_stage / quanta_.seconds + static_cast<double>(x_.model.num_layers + 8);
  return quanta < 4e18 ? static_cast<std::int64_t>(quanta) : kUnbounded / 4;
}

// Rounding to quanta moves each block's time by half a quantum at most.
std::int64_t Stages::left_by_chains(int stage, const StageAssignment& share) const {
  if (x_.chains == nullptr) return kUnbounded;
  const double left = x_.chains->left(layout_, stage, share, ranges_);
  return left < 0 ? -1 : static_cast<std::int64_t>(left * quanta_each_) + layout_.layers() + 8;
}

std::int64_t Stages::min_bottleneck() const { return ceil_div(least_sum_, num_stages()); }

// A rank that fits also fits with any layer less at either end. So the stages together reach
// farthest if each of them takes as much as fits.
bool Stages::may_fit() const {
  if (!more_never_fits()) return true;
  LayerCursor place;
  for (int r = 0; r < num_stages(); ++r) {
    const int fewest = layout_.fewest(r);
    int fits = fewest - 1;
    int too_many = layout_.layers() - place.taken - layout_.fewest_later(r) + 1;
    for (int n = std::min(too_many - 1, 2 * layout_.layers() / num_stages() + 1);
         fits + 1 < too_many;) {
      n = std::max(n, fewest);
      (value(r, {place, n, 0}).time >= 0 ? fits : too_many) = n;
      n = fits + (too_many - fits) / 2;
    }
    if (fits < fewest) return false;
    place = layout_.after(r, {place, fits, 0});
  }
  return place.taken == layout_.layers();
}

bool Stages::are_alike() const {
  return layout_.leading() == 0 && !layout_.is_bidirectional() && x_.model.mtp_layers == 0 &&
         x_.counts != CountRule::kGiven;
}

// A stage that fits within a limit also does with a layer less, whichever layers they are. So
// stages that take as many as fit say whether there is a division.
bool Stages::reach_all(std::int64_t limit, std::int64_t& over) const {
  over = kUnbounded;
  int all = 0, guess = 0;
  for (int r = 0; r < num_stages(); ++r) {
    guess = most_that_fit(r, limit, guess, over);
    if (guess < layout_.fewest(r)) return false;
    all += guess;
  }
  return all >= layout_.layers();
}

std::int64_t Stages::min_bottleneck(std::int64_t most) const {
  const std::int64_t least = min_bottleneck();
  if (!are_alike()) return least;
  std::int64_t over = 0;
  std::int64_t low = least, high = most;
  for (std::int64_t step = std::max<std::int64_t>(1, least / 64); low < high; step *= 2) {
    const std::int64_t next = low + std::min(step, (high - low) / 2);
    if (reach_all(next, over)) {
      high = next, step = 0;
    } else {
      low = std::min(over, high);
    }
  }
  return low;
}

// Of layers that are all alike; `over`: no more than the time of one layer more, if that may fit.
int Stages::most_that_fit(int stage, std::int64_t limit, int guess, std::int64_t& over) const {
  const auto share = [](int n) { return StageAssignment{{}, n, 0}; };
  const auto keeps = [&](int n) {
    const std::int64_t time = value(stage, share(n)).time;
    return time >= 0 && time <= limit;
  };
  int fit = layout_.fewest(stage) - 1, too_many = most_layers(stage, limit) + 1;
  for (int n = guess, tried = 0; fit + 1 < too_many; ++tried) {
    n = std::clamp(n, fit + 1, too_many - 1);
    const bool kept = keeps(n);
    (kept ? fit : too_many) = n;
    n = tried == 0 ? n + (kept ? 1 : -1) : fit + (too_many - fit) / 2;
  }
  if (fit < layout_.layers()) {
    const StageAssignment more = share(fit + 1);
    const std::int64_t least = base_time(stage, more, layout_.after(stage, more));
    const std::int64_t time = least > limit ? least : value(stage, more).time;
    if (time > limit) over = std::min(over, time);
  }
  return fit;
}

// No share of this stage that keeps the limit has more layers of its rank, or ranks.
int Stages::most_layers(int stage, std::int64_t limit) const {
  const std::int64_t left = limit - ends_[static_cast<std::size_t>(stage)];
  if (left < 0) return 0;
  const std::int64_t fit = least_layer_ > 0 ? left / least_layer_ : layout_.layers();
  return static_cast<int>(std::min<std::int64_t>(layout_.layers(), fit));
}

// Whatever the other stages take, a stage must take what they leave, and all of them together must
// be able to take everything. A share that fits within the limit also does with fewer layers.
bool Stages::may_fit_limit() const {
  if (layout_.is_bidirectional() || x_.counts == CountRule::kGiven) return true;
  const int all = layout_.layers(), leading = layout_.leading();
  int most = 0;  // layers that the stages can take together, as far as is known
  for (int r = 0; r < num_stages(); ++r) most += most_layers(r, limit_);
  const int slack = most - all;
  int guess = 0;   // layers that the last stage took
  int before = 0;  // layers, or those of the first round, that the stages before take at least
  for (int r = 0; r < num_stages() && most >= all; ++r) {
    const int high = most_layers(r, limit_);
    const int low = std::max(layout_.fewest(r), high - slack);
    // Which layers a stage gets is known for the first, and where it cannot get leading ones.
    const bool known = r == 0 || (before >= leading && layout_.is_uniform());
    before += layout_.spreads() ? layout_.spread_chunk(r, low, 0) : low;
    if (!known) continue;
    const LayerCursor place{0, r == 0 ? 0 : leading, 0, 0};
    int fit = low - 1, too_many = std::min(high, all - place.front) + 1;
    // Of layers that differ more may take less time, and beside the prediction of more tokens less
    // memory.
    if ((r == 0 && leading > 0) || may_predict_alone(r)) {
      fit = too_many - 1;
      while (fit >= low && !may_take(r, {place, fit, 0})) --fit;
    } else if (low < too_many && may_take(r, {place, low, 0})) {
      fit = low;
      for (int n = std::clamp(guess, fit + 1, too_many); fit + 1 < too_many;) {
        n = std::min(n, too_many - 1);
        const bool fits = may_take(r, {place, n, 0});
        (fits ? fit : too_many) = n;
        n = n == guess ? (fits ? n + 1 : n - 1) : fit + (too_many - fit) / 2;
        n = std::max(n, fit + 1);
      }
      guess = fit;
    }
    if (fit < low) return false;
    most -= high - fit;
  }
  return most >= all;
}

void Stages::set_run_times() {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  time_until_.assign(1, 0), recompute_until_.assign(1, 0);
  for (const std::size_t k : x_.prefix.table.of_layer) {
    const std::int64_t some = selective ? quanta_.selective[k] : 0;
    time_until_.push_back(time_until_.back() + quanta_.pass[k] + some);
    recompute_until_.push_back(recompute_until_.back() + quanta_.full[k] - some);
  }
}

void Stages::set_least_times() {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  for (std::size_t k = 0; k < least_.size(); ++k) {
    least_[k] = quanta_.pass[k];
    if (!x_.prefix.table.is_layer(k)) continue;  // of an end: only layers are surely recomputed
    if (x_.counts == CountRule::kAll) {
      least_[k] += quanta_.full[k];
    } else if (selective) {
      least_[k] += std::min(quanta_.selective[k], quanta_.full[k]);
    }
  }
}

// States, and what every rank saves of each of its chunks at one of its moments at least.
void Stages::set_least_bytes() {
  const Strategy& s = x_.strategy;
  std::int64_t held = std::numeric_limits<std::int32_t>::max();
  for (const InFlight& rank : x_.in_flight) {
    held = std::min<std::int64_t>(held, rank.least_held);
  }
  if (x_.states_only || s.offload.activations) held = 0;
  const Recompute rest = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  for (std::size_t k = 0; k < least_.size(); ++k) {
    const BlockCost& block = x_.blocks[k];
    const StateBytes states = on_device(state_bytes(rates_, block.parameters), x_.strategy.offload);
    // Shards are rounded up once per rank, not once per block.
    const auto shards =
        (rates_.weights.bytes_each + rates_.gradients.bytes_each + rates_.optimizer.bytes_each +
         rates_.optimizer.of_embedding + rates_.optimizer.of_head + 6) *
        2;
    const Bytes all = states.weights + states.gradients + states.optimizer - states.late;
    const double bytes = all.si() - shards;
    Bytes saved = x_.counts == CountRule::kNone ? block.saved.of(rest) : block.saved.full;
    if (x_.counts != CountRule::kNone && x_.counts != CountRule::kAll) {
      saved = std::min(saved, block.saved.of(rest));
    }
    least_[k] =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(bytes)) + (saved * held).count();
  }
  if (!x_.states_only) least_rank_ = (x_.communicators + x_.cluster.device.context).count();
}

void Stages::add_up_least() {
  const auto of_layer = [&](std::int64_t layer) {
    return least_[x_.prefix.table.of_layer[static_cast<std::size_t>(layer)]];
  };
  const std::int64_t all = x_.model.num_layers;
  least_tail_ = least_layer_ = of_layer(all - 1);
  for (std::int64_t i = 0; i < layout_.leading(); ++i) {
    least_layer_ = std::min(least_layer_, of_layer(i));
  }
  least_until_.assign(1, 0);
  for (std::int64_t i = 0; i < all; ++i) {
    least_until_.push_back(least_until_.back() + of_layer(i));
  }
  ends_.assign(static_cast<std::size_t>(num_stages()), least_rank_);
  ends_.front() += least_.embedding();
  (layout_.shares_both_ends() ? ends_.front() : ends_.back()) +=
      least_.head() + least_.mtp() * x_.model.mtp_layers;
  ends_after_.assign(ends_.size(), 0);
  for (std::size_t r = ends_.size() - 1; r-- > 0;) {
    ends_after_[r] = ends_after_[r + 1] + ends_[r + 1];
  }
  least_sum_ = least_until_.back() + ends_after_.front() + ends_.front();
}

std::int64_t Stages::base_time(int stage, const StageAssignment& share,
                               const LayerCursor& next) const {
  const LayerCursor& p = share.place;
  std::int64_t time = ends_[static_cast<std::size_t>(stage)];
  if (layout_.rounds() != nullptr) return time + until_cursor(next) - until_cursor(p);
  time += until(next.front) - until(p.front);
  if (layout_.spreads()) time += (share.first - (next.front - p.front)) * least_tail_;
  if (layout_.takes_from_back()) {
    time += until(layout_.layers() - p.back) - until(layout_.layers() - next.back);
  }
  return time;
}

std::int64_t Stages::rest_time(const LayerCursor& p) const {
  const int layers = layout_.layers();
  if (layout_.rounds() != nullptr) return until(layers) - until_cursor(p);
  if (layout_.spreads()) {
    const int leading = layout_.leading();
    return until(leading) - until(p.front) + (layers - p.taken - (leading - p.front)) * least_tail_;
  }
  return until(layers - p.back) - until(p.front);
}

int Stages::fewest_to_take(int stage, const LayerCursor& place, int most, std::int64_t room) const {
  int low = layout_.fewest(stage), high = most + 1;
  while (low < high) {
    const int n = low + (high - low) / 2;
    const bool fits = rest_time(layout_.after(stage, {place, n, 0})) + rest_ends(stage) <= room;
    if (fits) {
      high = n;
    } else {
      low = n + 1;
    }
  }
  return high;
}

// Of what all rounds have taken.
std::int64_t Stages::until_cursor(const LayerCursor& p) const {
  const Rounds& rounds = *layout_.rounds();
  std::int64_t time = 0;
  for (int c = 0; c < static_cast<int>(x_.strategy.vp); ++c) {
    time += until(rounds.next_layer(p.taken, p.lead, c)) - until(rounds.begin(c));
  }
  return time;
}

Stages::Lists Stages::lists(const Division& division) const {
  Lists lists;
  const auto pp = static_cast<std::size_t>(x_.strategy.pp);
  lists.layers.resize(pp), lists.recomputed.resize(pp);
  LayerCursor place = layout_.place(start());
  for (int r = 0; r < num_stages(); ++r) {
    const StageMove& move = division.stages[static_cast<std::size_t>(r)];
    const StageAssignment share{place, move.first, move.second};
    const Value& v = value(r, share);
    const auto near = static_cast<std::size_t>(r);
    lists.layers[near] = move.first;
    lists.recomputed[near] = v.recomputed_first;
    if (layout_.is_bidirectional()) {
      lists.layers[pp - 1 - near] = move.second;
      lists.recomputed[pp - 1 - near] = v.recomputed_second;
    }
    place = layout_.after(r, share);
  }
  return lists;
}

bool Stages::prefers(const Division& a, const Division& b) const {
  const auto cost = [&](const Division& d) {
    return measures_memory() ? d.largest : d.sum + weight() * d.largest;
  };
  const auto squares = [](const Division& d) {
    return std::accumulate(d.stages.begin(), d.stages.end(), std::int64_t{0},
                           [](std::int64_t n, const StageMove& move) {
                             return n + std::int64_t{move.first} * move.first +
                                    std::int64_t{move.second} * move.second;
                           });
  };
  if (cost(a) != cost(b)) return cost(a) < cost(b);
  if (a.largest != b.largest) return a.largest < b.largest;
  if (a.sum != b.sum) return a.sum < b.sum;  // of bytes: else the same by now
  if (squares(a) != squares(b)) return squares(a) < squares(b);
  return std::lexicographical_compare(a.stages.begin(), a.stages.end(), b.stages.begin(),
                                      b.stages.end(), [](const StageMove& x, const StageMove& y) {
                                        return std::pair(x.first, x.second) <
                                               std::pair(y.first, y.second);
                                      });
}

std::int64_t Stages::most_useful(const Division& best) const {
  if (measures_memory()) return best.largest;
  if (weight() == 0) return kUnbounded;
  return (best.sum - least_sum_ + weight() * best.largest) / weight();
}

std::optional<Division> Stages::with_layers(const std::vector<std::int64_t>& sizes,
                                            std::int64_t most) const {
  const auto pp = static_cast<std::size_t>(x_.strategy.pp);
  if (sizes.size() != pp) return std::nullopt;
  Division division;
  LayerCursor place = layout_.place(start());
  for (int r = 0; r < num_stages(); ++r) {
    const auto near = static_cast<std::size_t>(r);
    const std::int64_t first = sizes[near];
    const std::int64_t second = layout_.is_bidirectional() ? sizes[pp - 1 - near] : 0;
    if (first < layout_.fewest(r) || first + second > layout_.layers() - place.taken) {
      return std::nullopt;
    }
    const StageAssignment share{place, static_cast<int>(first), static_cast<int>(second)};
    if (!layout_.allows(r, share)) return std::nullopt;
    const LayerCursor next = layout_.after(r, share);
    if (layout_.is_bidirectional() &&
        (second < layout_.fewest(r) || std::abs(next.front - next.back) > StageLayout::kMostLead)) {
      return std::nullopt;
    }
    if (base_time(r, share, next) > most) return std::nullopt;
    const Value& v = value(r, share);
    if (v.time < 0 || v.time > most) return std::nullopt;
    division.stages.push_back({layout_.state(next), v.time, share.first, share.second});
    division.sum += v.time;
    division.largest = std::max(division.largest, v.time);
    place = next;
  }
  if (!is_goal(layout_.state(place))) return std::nullopt;
  return division;
}

}  // namespace meshplan
