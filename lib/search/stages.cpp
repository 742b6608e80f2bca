#include "search/stages.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "cost/memory.hpp"

namespace meshplan {
namespace {

constexpr double kQuanta = 1099511627776.0;      // 2^40
constexpr std::int64_t kMostWeight = 1LL << 20;  // keeps weight * time below 2^63

std::size_t index(BlockKind kind) { return static_cast<std::size_t>(kind); }

std::array<Seconds, 3> seconds_of(const BlockCost& b) {
  return {b.forward.total() + b.backward_input.total() + b.backward_weight.total(),
          b.recompute_full.total(), b.recompute_selective.total()};
}

}  // namespace

BlockQuanta block_quanta(const BlockCosts& blocks, const LayerPrefix& prefix, const ModelSpec& m) {
  BlockCounts all = prefix.all();
  all[index(BlockKind::kEmbedding)] = all[index(BlockKind::kHead)] = 1;
  all[index(BlockKind::kMtp)] = m.mtp_layers;
  double model = 0;
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    if (all[k] > 0) model += seconds_of(blocks[k])[0].si() * static_cast<double>(all[k]);
  }
  const double quantum = model > 0 ? model / kQuanta : 1;
  BlockQuanta quanta;
  quanta.seconds = quantum;
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
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
      layout_(x_.model, x_.strategy, x_.prefix),
      quanta_(block_quanta(x_.blocks, x_.prefix, x_.model)) {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    least_[k] = quanta_.pass[k];
    if (x_.counts == CountRule::kAll) {
      least_[k] += quanta_.full[k];
    } else if (selective) {
      least_[k] += std::min(quanta_.selective[k], quanta_.full[k]);
    }
  }
  add_up_least_times();
  add_up_activations();
  values_.resize(layout_.num_slots());
}

std::int64_t Stages::weight() const {
  const std::int64_t m = num_microbatches(x_.strategy);
  return std::min(kMostWeight, m * x_.strategy.vp - 1);
}

// The slowest rank works that long on every microbatch (DualPipe: each of two ranks on half of
// them). Rounding to quanta moves each block's time by half a quantum at most.
std::int64_t Stages::most_largest(double step) const {
  if (measures_memory() || step >= std::numeric_limits<double>::max()) return kUnbounded / 4;
  const double each = step / static_cast<double>(num_microbatches(x_.strategy));
  const double of_stage = layout_.is_mirrored() ? 2 * each : each;
  const double quanta = of_stage / quanta_.seconds + static_cast<double>(x_.model.num_layers + 8);
  return quanta < 4e18 ? static_cast<std::int64_t>(quanta) : kUnbounded / 4;
}

std::int64_t Stages::least_largest() const {
  return measures_memory() ? 0 : ceil_div(least_sum_, num_stages());
}

// A rank that fits also fits with any unit less at either end. So the stages together reach
// farthest if each of them takes as much as fits.
bool Stages::may_fit() const {
  const bool known_counts = x_.counts == CountRule::kGiven || x_.counts == CountRule::kUniform;
  if (layout_.is_mirrored() || known_counts || !layout_.is_contiguous()) return true;
  Place place;
  for (int r = 0; r < num_stages(); ++r) {
    const int fewest = layout_.fewest(r);
    int fits = fewest - 1;
    int too_many = layout_.units() - place.taken - layout_.fewest_later(r) + 1;
    for (int n = std::min(too_many - 1, 2 * layout_.units() / num_stages() + 1);
         fits + 1 < too_many;) {
      n = std::max(n, fewest);
      (value(r, {place, n, 0}).time >= 0 ? fits : too_many) = n;
      n = fits + (too_many - fits) / 2;
    }
    if (fits < fewest) return false;
    place = layout_.after(r, {place, fits, 0});
  }
  return place.taken == layout_.units();
}

// No share of this stage that keeps the limit has more units of its rank, or ranks.
int Stages::most_units(int stage, std::int64_t limit) const {
  const std::int64_t each = least_layer_ * layout_.unit_layers();
  const std::int64_t left = limit - ends_[static_cast<std::size_t>(stage)];
  if (left < 0) return 0;
  const std::int64_t fit = each > 0 ? left / each : layout_.units();
  return static_cast<int>(std::min<std::int64_t>(layout_.units(), fit));
}

// Whatever the other stages take, a stage must take what they leave within the limit.
bool Stages::may_fit(std::int64_t limit) const {
  if (measures_memory() || layout_.is_mirrored()) return true;
  int most = 0;
  for (int r = 0; r < num_stages(); ++r) most += most_units(r, limit);
  if (most < layout_.units()) return false;
  const bool anywhere = layout_.leading() == 0;
  int before = 0;  // units that the stages before take at least
  for (int r = 0; r < num_stages(); ++r) {
    const int high = most_units(r, limit);
    const int low = std::max(layout_.fewest(r), layout_.units() - (most - high));
    // Which layers a stage gets is known for the first, and where it cannot get leading ones.
    const bool tail = before >= layout_.leading() && !layout_.spreads() && layout_.is_uniform();
    before += low;
    if (r > 0 && !anywhere && !tail) continue;
    const Place place{0, r == 0 ? 0 : layout_.leading(), 0};
    bool some = false;
    for (int n = low; n <= high && !some; ++n) {
      if (n > layout_.units() - place.front) break;
      const std::int64_t time = value(r, {place, n, 0}).time;
      some = time >= 0 && time <= limit;
    }
    if (!some) return false;
  }
  return true;
}

void Stages::add_up_least_times() {
  const auto of_layer = [&](std::int64_t layer) {
    std::int64_t time = 0;
    for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
      time += least_[k] * (x_.prefix.until(layer + 1)[k] - x_.prefix.until(layer)[k]);
    }
    return time;
  };
  const std::int64_t all = x_.model.num_layers;
  least_tail_ = least_layer_ = of_layer(all - 1);
  for (std::int64_t i = 0; i < layout_.leading(); ++i) {
    least_layer_ = std::min(least_layer_, of_layer(i));
  }
  least_until_.assign(1, 0);
  for (std::int64_t u = 0; u < layout_.units(); ++u) {
    std::int64_t time = of_layer(u);
    for (std::int64_t c = 1; c < layout_.unit_layers(); ++c) {
      const bool back = x_.strategy.schedule == Schedule::kZbV;
      time += of_layer(back ? all - 1 - u : c * layout_.units() + u);
    }
    least_until_.push_back(least_until_.back() + time);
  }
  ends_.assign(static_cast<std::size_t>(num_stages()), 0);
  ends_.front() += least_[index(BlockKind::kEmbedding)];
  (layout_.is_folded() ? ends_.front() : ends_.back()) +=
      least_[index(BlockKind::kHead)] + least_[index(BlockKind::kMtp)] * x_.model.mtp_layers;
  ends_after_.assign(ends_.size(), 0);
  for (std::size_t r = ends_.size() - 1; r-- > 0;) {
    ends_after_[r] = ends_after_[r + 1] + ends_[r + 1];
  }
  least_sum_ = least_until_.back() + ends_after_.front() + ends_.front();
}

std::int64_t Stages::base_time(int stage, const Share& share) const {
  if (measures_memory()) return 0;
  const Place& p = share.place;
  const Place next = layout_.after(stage, share);
  std::int64_t time = ends_[static_cast<std::size_t>(stage)] + until(next.front) - until(p.front);
  if (layout_.spreads()) time += (share.first - (next.front - p.front)) * least_tail_;
  if (layout_.is_mirrored()) {
    time += until(layout_.units() - p.back) - until(layout_.units() - next.back);
  }
  return time;
}

std::int64_t Stages::rest_time(const Place& p) const {
  if (measures_memory()) return 0;
  const int units = layout_.units();
  if (layout_.spreads()) {
    const int leading = layout_.leading();
    return until(leading) - until(p.front) + (units - p.taken - (leading - p.front)) * least_tail_;
  }
  return until(units - p.back) - until(p.front);
}

void Stages::add_up_activations() {
  const Recompute mode =
      x_.strategy.recompute == Recompute::kSelective ? Recompute::kSelective : Recompute::kNone;
  saved_until_.resize(1), recomputed_until_.resize(1), kept_until_.resize(1);
  for (const BlockKind kind : x_.prefix.kinds) {
    const BlockCost& block = x_.blocks[index(kind)];
    saved_until_.push_back(saved_until_.back() + block.saved.of(mode));
    recomputed_until_.push_back(recomputed_until_.back() + block.saved.full);
    kept_until_.push_back(kept_until_.back() + block.kept_for_weight);
  }
}

void Stages::add_chunk(const LayerRange& range, std::int64_t recomputed) const {
  const std::int64_t middle = range.begin + std::min(recomputed, range.end - range.begin);
  const BlockCounts &begin = x_.prefix.until(range.begin), &again = x_.prefix.until(middle),
                    &end = x_.prefix.until(range.end);
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    mine_.blocks[k] += end[k] - begin[k];
    mine_.recomputed[k] += again[k] - begin[k];
  }
  const auto b = static_cast<std::size_t>(range.begin), m = static_cast<std::size_t>(middle),
             e = static_cast<std::size_t>(range.end);
  saved_.push_back(recomputed_until_[m] - recomputed_until_[b] + saved_until_[e] - saved_until_[m]);
  kept_.push_back(kept_until_[e] - kept_until_[m]);
}

// Embedding and head sit on the first and the last chunk, wherever those are.
void Stages::add_ends(int stage, bool has_last_layers, std::int64_t recomputed) const {
  Chunk ends;
  if (stage == 0) {
    ends.blocks[index(BlockKind::kEmbedding)] = 1;
    saved_.front() += saved_bytes(ends, x_.blocks, x_.strategy.recompute);
    ++mine_.blocks[index(BlockKind::kEmbedding)];
  }
  if (stage != (layout_.is_folded() ? 0 : num_stages() - 1)) return;
  ends = {};
  ends.blocks[index(BlockKind::kHead)] = 1;
  ends.blocks[index(BlockKind::kMtp)] = x_.model.mtp_layers;
  if (x_.strategy.recompute == Recompute::kFull && has_last_layers && recomputed > 0) {
    ends.recomputed[index(BlockKind::kMtp)] = x_.model.mtp_layers;
  }
  saved_.back() += saved_bytes(ends, x_.blocks, x_.strategy.recompute);
  for (const BlockKind kind : {BlockKind::kHead, BlockKind::kMtp}) {
    const std::size_t k = index(kind);
    mine_.blocks[k] = ends.blocks[k], mine_.recomputed[k] = ends.recomputed[k];
    kept_.back() += x_.blocks[k].kept_for_weight * (ends.blocks[k] - ends.recomputed[k]);
  }
}

const Chunk& Stages::fill(int stage, const Share& share, std::int64_t first,
                          std::int64_t second) const {
  layout_.ranges(stage, share, ranges_);
  mine_ = {};
  saved_.clear(), kept_.clear();
  if (layout_.is_mirrored()) {
    add_chunk(ranges_[0], first);
    add_chunk(ranges_[1], second);
  } else {
    std::int64_t left = first;
    for (const LayerRange& range : ranges_) {
      add_chunk(range, left);
      left = std::max<std::int64_t>(0, left - (range.end - range.begin));
    }
  }
  const LayerRange& last = ranges_.back();
  add_ends(stage, last.end > last.begin, layout_.is_mirrored() ? second : first);
  if (stage == 0) kept_.front() += x_.blocks[index(BlockKind::kEmbedding)].kept_for_weight;
  for (std::size_t c = 0; c < kept_.size(); ++c) kept_[c] = std::min(kept_[c], saved_[c]);
  return mine_;
}

std::int64_t Stages::time_of(const Chunk& mine) const {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  std::int64_t time = 0;
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    time += quanta_.pass[k] * mine.blocks[k] + quanta_.full[k] * mine.recomputed[k];
    if (selective) time += quanta_.selective[k] * (mine.blocks[k] - mine.recomputed[k]);
  }
  return time;
}

Bytes Stages::rank_need(std::size_t rank, const Chunk& mine) const {
  const Strategy& s = x_.strategy;
  const std::span<const Chunk> all(&mine, 1);
  const BlockParameters parameters = held_parameters(x_.model, s, x_.blocks, all);
  const StateBytes states = state_bytes(s, parameters);
  Bytes host = offloaded_bytes(s, parameters);
  Bytes needed = states.weights + states.gradients + states.optimizer;
  if (!x_.states_only) {
    Bytes activations = x_.in_flight[rank].peak(saved_, kept_);
    if (s.offload.activations) {
      host += activations;
      activations = resident_activations(s, x_.blocks, all);
    }
    const Bytes buffers = buffer_bytes(x_.model, s, x_.blocks, all);
    needed = memory_breakdown(x_.cluster, states, activations, buffers, x_.communicators).peak;
  }
  if (host > x_.host_capacity) needed = std::max(needed, x_.capacity + (host - x_.host_capacity));
  return needed;
}

Bytes Stages::need(int stage, const Share& share, std::int64_t first, std::int64_t second) const {
  const Chunk& mine = fill(stage, share, first, second);
  const auto rank = static_cast<std::size_t>(stage);
  const Bytes near = rank_need(rank, mine);
  if (!layout_.is_mirrored()) return near;
  return std::max(near, rank_need(static_cast<std::size_t>(x_.strategy.pp) - 1 - rank, mine));
}

const Stages::Value& Stages::value(int stage, const Share& holding) const {
  Value& known = values_[layout_.slot(stage, holding)];
  if (known.time == kUnknown) known = compute(stage, holding);
  return known;
}

Stages::Value Stages::compute(int stage, const Share& h) const {
  const std::int64_t most_first = layers(h.first), most_second = layers(h.second);
  std::int64_t first = 0, second = 0;
  switch (x_.counts) {
    case CountRule::kNone:
      break;
    case CountRule::kFewest:
      return layout_.is_mirrored() ? fewest_pair(stage, h) : fewest(stage, h);
    case CountRule::kUniform:
      first = std::min(x_.uniform, most_first), second = std::min(x_.uniform, most_second);
      break;
    case CountRule::kAll:
      first = most_first, second = most_second;
      break;
    case CountRule::kGiven:
      first = (*x_.given)[static_cast<std::size_t>(stage)];
      if (layout_.is_mirrored())
        second = (*x_.given)[static_cast<std::size_t>(x_.strategy.pp - 1 - stage)];
      if (first > most_first || second > most_second) return {kTooMuch, 0, 0};
      break;
  }
  const Bytes needed = need(stage, h, first, second);
  if (needed > x_.capacity) return {kTooMuch, 0, 0};
  const std::int64_t cost =
      measures_memory() ? needed.count() : time_of(fill(stage, h, first, second));
  return {cost, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second)};
}

// The fewest recomputed layers of the first rank with which the stage fits, or -1. One layer more
// frees memory, unless it is the first of its kind: then the backward pass needs room for it. So
// the numbers between the first layers of two kinds are halved, and the others looked at one by
// one.
std::int64_t Stages::fewest_first(int stage, const Share& share, std::int64_t second) const {
  const auto fits = [&](std::int64_t n) { return need(stage, share, n, second) <= x_.capacity; };
  if (fits(0)) return 0;
  layout_.ranges(stage, share, ranges_);
  std::vector<std::int64_t> firsts;  // numbers of layers with which another kind joins
  std::array<bool, kNumBlockKinds> seen{};
  std::int64_t n = 0;
  const std::int64_t all = layers(share.first);
  for (const LayerRange& range : ranges_) {
    for (std::int64_t layer = range.begin; layer < range.end && n < all; ++layer) {
      ++n;
      bool& known = seen[index(x_.prefix.kinds[static_cast<std::size_t>(layer)])];
      if (!known) firsts.push_back(n);
      known = true;
    }
  }
  firsts.push_back(all + 1);
  for (std::size_t i = 0; i + 1 < firsts.size(); ++i) {
    std::int64_t low = firsts[i], high = firsts[i + 1] - 1;
    if (!fits(high)) continue;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (fits(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }
  return -1;
}

Stages::Value Stages::fewest(int stage, const Share& h) const {
  const std::int64_t n = fewest_first(stage, h, 0);
  if (n < 0) return {kTooMuch, 0, 0};
  return {time_of(fill(stage, h, n, 0)), static_cast<std::int32_t>(n), 0};
}

// Of all pairs of numbers that fit, the least time, then the fewest of the first rank.
Stages::Value Stages::fewest_pair(int stage, const Share& h) const {
  Value best{kTooMuch, 0, 0};
  for (std::int64_t second = 0; second <= layers(h.second); ++second) {
    const std::int64_t first = fewest_first(stage, h, second);
    if (first < 0) continue;
    const std::int64_t time = time_of(fill(stage, h, first, second));
    if (best.time < 0 || time < best.time || (time == best.time && first < best.recomputed_first)) {
      best = {time, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second)};
    }
    if (first == 0) break;
  }
  return best;
}

Stages::Lists Stages::lists(const Division& division) const {
  Lists lists;
  const auto pp = static_cast<std::size_t>(x_.strategy.pp);
  lists.layers.resize(pp), lists.recomputed.resize(pp);
  Place place = layout_.place(start());
  for (int r = 0; r < num_stages(); ++r) {
    const StageMove& move = division.stages[static_cast<std::size_t>(r)];
    const Share share{place, move.first, move.second};
    const Value& v = value(r, share);
    const auto near = static_cast<std::size_t>(r);
    lists.layers[near] = layers(move.first);
    lists.recomputed[near] = v.recomputed_first;
    if (layout_.is_mirrored()) {
      lists.layers[pp - 1 - near] = layers(move.second);
      lists.recomputed[pp - 1 - near] = v.recomputed_second;
    }
    place = layout_.after(r, share);
  }
  return lists;
}

std::optional<Division> Stages::with_layers(const std::vector<std::int64_t>& sizes) const {
  const auto pp = static_cast<std::size_t>(x_.strategy.pp);
  if (sizes.size() != pp) return std::nullopt;
  Division division;
  Place place = layout_.place(start());
  for (int r = 0; r < num_stages(); ++r) {
    const auto near = static_cast<std::size_t>(r);
    const std::int64_t first = sizes[near] / layout_.unit_layers();
    const std::int64_t second =
        layout_.is_mirrored() ? sizes[pp - 1 - near] / layout_.unit_layers() : 0;
    const bool whole = sizes[near] % layout_.unit_layers() == 0;
    if (!whole || first < layout_.fewest(r) || first + second > layout_.units() - place.taken) {
      return std::nullopt;
    }
    const Share share{place, static_cast<int>(first), static_cast<int>(second)};
    const Place next = layout_.after(r, share);
    if (layout_.is_mirrored() &&
        (second < layout_.fewest(r) || std::abs(next.front - next.back) > 1)) {
      return std::nullopt;
    }
    const Value& v = value(r, share);
    if (v.time < 0) return std::nullopt;
    division.stages.push_back({layout_.state(next), v.time, share.first, share.second});
    division.sum += v.time;
    division.largest = std::max(division.largest, v.time);
    place = next;
  }
  if (!is_goal(layout_.state(place))) return std::nullopt;
  return division;
}

}  // namespace meshplan
