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
constexpr double kFragmentationCeiling = 1.25;   // over what the allocator loses, per byte

std::size_t index(BlockKind kind) { return static_cast<std::size_t>(kind); }

std::array<Seconds, 3> seconds_of(const BlockCost& b) {
  return {b.forward.total() + b.backward_input.total() + b.backward_weight.total(),
          b.recompute_full.total(), b.recompute_selective.total()};
}

bool is_mirrored(const Strategy& s) { return s.schedule == Schedule::kDualPipe; }

}  // namespace

LayerPrefix layer_prefix(const ModelSpec& m) {
  LayerPrefix prefix(1);
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    prefix.push_back(prefix.back());
    ++prefix.back()[index(block_kind(m, i))];
  }
  return prefix;
}

BlockQuanta block_quanta(const BlockCosts& blocks, const LayerPrefix& prefix, const ModelSpec& m) {
  BlockCounts all = prefix.back();
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
    : x_(context), quanta_(block_quanta(x_.blocks, x_.prefix, x_.model)) {
  const Strategy& s = x_.strategy;
  mirrored_ = is_mirrored(s);
  stages_ = static_cast<int>(mirrored_ ? s.pp / 2 : s.pp);
  unit_layers_ = s.vp;
  units_ = static_cast<int>(x_.model.num_layers / unit_layers_);
  const BlockCounts& all = x_.prefix.back();
  alike_ = std::count_if(all.begin(), all.end(), [](std::int64_t n) { return n > 0; }) == 1;
  const bool selective = s.recompute == Recompute::kSelective;
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    least_[k] = quanta_.pass[k];
    if (x_.counts == CountRule::kAll) {
      least_[k] += quanta_.full[k];
    } else if (selective) {
      least_[k] += std::min(quanta_.selective[k], quanta_.full[k]);
    }
    const SavedActivations& saved = x_.blocks[k].saved;
    most_saved_ = std::max(most_saved_, (saved.none - saved.full).si());
  }
  add_up_least_times();
  const auto n = static_cast<std::size_t>(units_ + 1);
  std::size_t slots = static_cast<std::size_t>(stages_) * n;
  if (!alike_) slots *= n;
  if (mirrored_) slots *= alike_ ? 5 : 15;
  values_.resize(slots);
}

bool Stages::is_goal(int state) const {
  if (!mirrored_) return state == units_;
  return 2 * (state / 3) + state % 3 - 1 == units_;
}

std::int64_t Stages::weight() const {
  const std::int64_t m = num_microbatches(x_.strategy);
  return std::min(kMostWeight, m * x_.strategy.vp - 1);
}

// The slowest rank works that long on every microbatch. Rounding to quanta moves each block's time
// by half a quantum at most.
std::int64_t Stages::most_largest(double step) const {
  if (measures_memory() || step >= std::numeric_limits<double>::max()) return kUnbounded / 4;
  const double each = step / static_cast<double>(num_microbatches(x_.strategy));
  const double of_pair = mirrored_ ? 2 * each : each;
  const double quanta = of_pair / quanta_.seconds + static_cast<double>(x_.model.num_layers + 8);
  return quanta < 4e18 ? static_cast<std::int64_t>(quanta) : kUnbounded / 4;
}

// A rank that fits also fits with any unit less at either end. So the stages together reach
// farthest if each of them takes as much as fits.
bool Stages::may_fit() const {
  const bool known_counts = x_.counts == CountRule::kGiven || x_.counts == CountRule::kUniform;
  if (mirrored_ || known_counts) return true;
  int position = 0;
  for (int r = 0; r < stages_; ++r) {
    int fits = 0, too_many = units_ - position - (stages_ - r - 1) + 1;
    for (int n = std::min(too_many - 1, 2 * units_ / stages_ + 1); fits + 1 < too_many;) {
      (value(r, {position, n, 0, 0}).time >= 0 ? fits : too_many) = n;
      n = fits + (too_many - fits) / 2;
    }
    if (fits == 0) return false;
    position += fits;
  }
  return position == units_;
}

std::int64_t Stages::least_largest() const {
  return measures_memory() ? 0 : ceil_div(least_sum_, stages_);
}

std::size_t Stages::slot(int stage, const Holding& h) const {
  const auto n = static_cast<std::size_t>(units_ + 1);
  std::size_t at = static_cast<std::size_t>(stage);
  if (!alike_) at = at * n + static_cast<std::size_t>(h.position);
  at = at * n + static_cast<std::size_t>(h.first);
  if (!mirrored_) return at;
  if (!alike_) at = at * 3 + static_cast<std::size_t>(h.back - h.position + 1);
  return at * 5 + static_cast<std::size_t>(h.second - h.first + 2);
}

void Stages::add_up_least_times() {
  const auto of_layer = [&](std::int64_t layer) {
    const auto i = static_cast<std::size_t>(layer);
    std::int64_t time = 0;
    for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
      time += least_[k] * (x_.prefix[i + 1][k] - x_.prefix[i][k]);
    }
    return time;
  };
  const std::int64_t all = x_.model.num_layers;
  least_until_.assign(1, 0);
  for (std::int64_t u = 0; u < units_; ++u) {
    std::int64_t time = 0;
    for (std::int64_t c = 0; c < unit_layers_; ++c) {
      std::int64_t layer = c * units_ + u;
      if (mirrored_) layer = unit_layers_ * u + c;
      if (x_.strategy.schedule == Schedule::kZbV && c == 1) layer = all - 1 - u;
      time += of_layer(layer);
    }
    least_until_.push_back(least_until_.back() + time);
  }
  ends_.assign(static_cast<std::size_t>(stages_), 0);
  const bool folded = mirrored_ || x_.strategy.schedule == Schedule::kZbV;
  ends_.front() += least_[index(BlockKind::kEmbedding)];
  (folded ? ends_.front() : ends_.back()) +=
      least_[index(BlockKind::kHead)] + least_[index(BlockKind::kMtp)] * x_.model.mtp_layers;
  ends_after_.assign(static_cast<std::size_t>(stages_), 0);
  for (std::size_t r = ends_.size() - 1; r-- > 0;)
    ends_after_[r] = ends_after_[r + 1] + ends_[r + 1];
  least_sum_ = least_until_.back() + ends_after_.front() + ends_.front();
}

void Stages::add_chunk(std::int64_t begin, std::int64_t end, std::int64_t recomputed) const {
  Chunk& chunk = chunks_.emplace_back();
  chunk.first_layer = begin;
  chunk.layers = end - begin;
  const auto at = [&](std::int64_t layer) -> const BlockCounts& {
    return x_.prefix[static_cast<std::size_t>(layer)];
  };
  const std::int64_t middle = begin + std::min(recomputed, end - begin);
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    chunk.blocks[k] = at(end)[k] - at(begin)[k];
    chunk.recomputed[k] = at(middle)[k] - at(begin)[k];
  }
}

// Embedding and head sit on the first and the last chunk, wherever those are.
void Stages::add_ends(int stage, std::int64_t first, std::int64_t second) const {
  const bool folded = mirrored_ || x_.strategy.schedule == Schedule::kZbV;
  if (stage == 0) ++chunks_.front().blocks[index(BlockKind::kEmbedding)];
  if (stage != (folded ? 0 : stages_ - 1)) return;
  Chunk& last = chunks_.back();
  ++last.blocks[index(BlockKind::kHead)];
  last.blocks[index(BlockKind::kMtp)] = x_.model.mtp_layers;
  const std::int64_t recomputed = mirrored_ ? second : first;
  if (x_.strategy.recompute == Recompute::kFull && recomputed > 0) {
    last.recomputed[index(BlockKind::kMtp)] = x_.model.mtp_layers;
  }
}

const std::vector<Chunk>& Stages::fill(int stage, const Holding& h, std::int64_t first,
                                       std::int64_t second) const {
  const std::int64_t all = x_.model.num_layers;
  chunks_.clear();
  if (mirrored_) {
    const std::int64_t begin = layers(h.position), end = all - layers(h.back);
    add_chunk(begin, begin + layers(h.first), first);
    add_chunk(end - layers(h.second), end, second);
  } else if (x_.strategy.schedule == Schedule::kZbV) {
    add_chunk(h.position, h.position + h.first, first);
    add_chunk(all - h.position - h.first, all - h.position,
              std::max<std::int64_t>(0, first - h.first));
  } else {
    for (std::int64_t c = 0; c < x_.strategy.vp; ++c) {
      const std::int64_t begin = c * units_ + h.position;
      add_chunk(begin, begin + h.first, std::max<std::int64_t>(0, first - c * h.first));
    }
  }
  add_ends(stage, first, second);
  return chunks_;
}

std::int64_t Stages::time_of(const std::vector<Chunk>& mine) const {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  std::int64_t time = 0;
  for (const Chunk& chunk : mine) {
    for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
      time += quanta_.pass[k] * chunk.blocks[k] + quanta_.full[k] * chunk.recomputed[k];
      if (selective) time += quanta_.selective[k] * (chunk.blocks[k] - chunk.recomputed[k]);
    }
  }
  return time;
}

Bytes Stages::rank_need(std::size_t rank, const std::vector<Chunk>& mine) const {
  const Strategy& s = x_.strategy;
  const BlockParameters parameters = held_parameters(x_.model, s, x_.blocks, mine);
  const StateBytes states = state_bytes(s, parameters);
  Bytes host = offloaded_bytes(s, parameters);
  Bytes needed = states.weights + states.gradients + states.optimizer;
  if (!x_.states_only) {
    saved_.clear(), kept_.clear();
    for (const Chunk& chunk : mine) {
      saved_.push_back(saved_bytes(chunk, x_.blocks, s.recompute));
      kept_.push_back(kept_bytes(chunk, x_.blocks, s.recompute));
    }
    Bytes activations = x_.in_flight[rank].peak(saved_, kept_);
    if (s.offload.activations) {
      host += activations;
      activations = resident_activations(s, x_.blocks, mine);
    }
    const Bytes buffers = buffer_bytes(x_.model, s, x_.blocks, mine);
    needed = memory_breakdown(x_.cluster, states, activations, buffers, x_.communicators).peak;
  }
  if (host > x_.host_capacity) needed = std::max(needed, x_.capacity + (host - x_.host_capacity));
  return needed;
}

Bytes Stages::need(int stage, const Holding& h, std::int64_t first, std::int64_t second) const {
  const std::vector<Chunk>& mine = fill(stage, h, first, second);
  const auto rank = static_cast<std::size_t>(stage);
  const Bytes near = rank_need(rank, mine);
  if (!mirrored_) return near;
  return std::max(near, rank_need(static_cast<std::size_t>(x_.strategy.pp) - 1 - rank, mine));
}

const Stages::Value& Stages::value(int stage, const Holding& holding) const {
  Value& known = values_[slot(stage, holding)];
  if (known.time == kUnknown) known = compute(stage, holding);
  return known;
}

Stages::Value Stages::compute(int stage, const Holding& h) const {
  const std::int64_t most_first = layers(h.first), most_second = layers(h.second);
  std::int64_t first = 0, second = 0;
  switch (x_.counts) {
    case CountRule::kNone:
      break;
    case CountRule::kFewest:
      return mirrored_ ? fewest_pair(stage, h) : fewest(stage, h);
    case CountRule::kUniform:
      first = std::min(x_.uniform, most_first), second = std::min(x_.uniform, most_second);
      break;
    case CountRule::kAll:
      first = most_first, second = most_second;
      break;
    case CountRule::kGiven:
      first = (*x_.given)[static_cast<std::size_t>(stage)];
      if (mirrored_) second = (*x_.given)[static_cast<std::size_t>(x_.strategy.pp - 1 - stage)];
      if (first > most_first || second > most_second) return {kTooMuch, 0, 0};
      break;
  }
  const Bytes needed = need(stage, h, first, second);
  if (needed > x_.capacity) return {kTooMuch, 0, 0};
  const std::int64_t cost =
      measures_memory() ? needed.count() : time_of(fill(stage, h, first, second));
  return {cost, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second)};
}

// The fewest recomputed layers of the first rank with which the stage fits, or -1. Skips numbers
// that cannot free enough: one layer frees at most its activations of every microbatch held.
std::int64_t Stages::fewest_first(int stage, const Holding& h, std::int64_t second) const {
  const auto rank = static_cast<std::size_t>(stage);
  std::int64_t held = 1;
  for (const Held& now : x_.in_flight[rank].held) {
    held = std::max<std::int64_t>(held, now.whole + now.kept);
  }
  if (mirrored_) {
    const auto far = static_cast<std::size_t>(x_.strategy.pp) - 1 - rank;
    for (const Held& now : x_.in_flight[far].held) {
      held = std::max<std::int64_t>(held, now.whole + now.kept);
    }
  }
  const double most_freed = most_saved_ * static_cast<double>(held) * kFragmentationCeiling + 1;
  for (std::int64_t n = 0; n <= layers(h.first);) {
    const Bytes needed = need(stage, h, n, second);
    if (needed <= x_.capacity) return n;
    n += std::max<std::int64_t>(
        1, static_cast<std::int64_t>((needed - x_.capacity).si() / most_freed));
  }
  return -1;
}

Stages::Value Stages::fewest(int stage, const Holding& h) const {
  const std::int64_t n = fewest_first(stage, h, 0);
  if (n < 0) return {kTooMuch, 0, 0};
  return {time_of(fill(stage, h, n, 0)), static_cast<std::int32_t>(n), 0};
}

// Of all pairs of numbers that fit, the least time, then the fewest of the first rank.
Stages::Value Stages::fewest_pair(int stage, const Holding& h) const {
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
  int position = 0, back = 0;
  for (int r = 0; r < stages_; ++r) {
    const StageMove& move = division.stages[static_cast<std::size_t>(r)];
    const Value& v = value(r, {position, move.first, back, move.second});
    const auto near = static_cast<std::size_t>(r);
    lists.layers[near] = layers(move.first);
    lists.recomputed[near] = v.recomputed_first;
    if (mirrored_) {
      lists.layers[pp - 1 - near] = layers(move.second);
      lists.recomputed[pp - 1 - near] = v.recomputed_second;
    }
    position += move.first, back += move.second;
  }
  return lists;
}

std::optional<Division> Stages::with_layers(const std::vector<std::int64_t>& sizes) const {
  const auto pp = static_cast<std::size_t>(x_.strategy.pp);
  if (sizes.size() != pp) return std::nullopt;
  std::int64_t sum = 0;
  for (const std::int64_t n : sizes) {
    if (n < unit_layers_ || n % unit_layers_ != 0) return std::nullopt;
    sum += n;
  }
  if (sum != x_.model.num_layers) return std::nullopt;
  Division division;
  Holding h;
  for (int r = 0; r < stages_; ++r) {
    const auto near = static_cast<std::size_t>(r);
    h.first = static_cast<int>(sizes[near] / unit_layers_);
    if (mirrored_) h.second = static_cast<int>(sizes[pp - 1 - near] / unit_layers_);
    // Beyond what the table covers: the two chunks of a DualPipe rank differ by a unit at most.
    const int lead = h.back + h.second - h.position - h.first;
    if (mirrored_ && (std::abs(lead) > 1 || std::abs(h.second - h.first) > 2)) return std::nullopt;
    const Value& v = value(r, h);
    if (v.time < 0) return std::nullopt;
    division.stages.push_back({0, v.time, h.first, h.second});
    division.sum += v.time;
    division.largest = std::max(division.largest, v.time);
    h.position += h.first, h.back += h.second;
  }
  return division;
}

}  // namespace meshplan
