#include "search/division_bound.hpp"

#include <algorithm>

#include "schedule/pipeline.hpp"

namespace meshplan {
namespace {

struct Times {
  double forward = 0, input = 0, weight = 0;
  [[nodiscard]] double all() const { return forward + input + weight; }
  Times& operator+=(const Times& o) {
    forward += o.forward, input += o.input, weight += o.weight;
    return *this;
  }
  friend Times operator+(Times a, const Times& b) { return a += b; }
  friend Times operator*(const Times& t, double n) {
    return {t.forward * n, t.input * n, t.weight * n};
  }
  friend Times operator-(const Times& a, const Times& b) {
    return {a.forward - b.forward, a.input - b.input, a.weight - b.weight};
  }
};

Times times_of(const BlockCost& b) {
  return {b.forward.total().si(), b.backward_input.total().si(), b.backward_weight.total().si()};
}

Times fastest(const std::array<Times, kNumBlockKinds>& kinds, const BlockCounts& present) {
  Times least{1e300, 1e300, 1e300};
  for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
    if (present[k] == 0) continue;
    least.forward = std::min(least.forward, kinds[k].forward);
    least.input = std::min(least.input, kinds[k].input);
    least.weight = std::min(least.weight, kinds[k].weight);
  }
  return least;
}

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

class Chains {
 public:
  Chains(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks, const LayerPrefix& prefix)
      : schedule_(s.schedule),
        ranks_(s.pp),
        vp_(s.vp),
        microbatches_(static_cast<double>(num_microbatches(s))),
        units_(m.num_layers / s.vp) {
    std::array<Times, kNumBlockKinds> kinds;
    for (std::size_t k = 0; k < kNumBlockKinds; ++k) kinds[k] = times_of(blocks[k]);
    embedding_ = kinds[index_of(BlockKind::kEmbedding)];
    head_ = kinds[index_of(BlockKind::kHead)];
    for (std::int64_t i = 0; i < m.mtp_layers; ++i) head_ += kinds[index_of(BlockKind::kMtp)];
    const BlockCounts& all = prefix.all();
    Times layers;
    for (std::size_t k = 0; k < kNumBlockKinds; ++k) {
      layers += kinds[k] * static_cast<double>(all[k]);
    }
    whole_ = layers + embedding_ + head_;
    spread_ = vp_ > 1 && prefix.has_free_chunks();
    const auto layer = [&](std::int64_t i) {
      std::size_t k = 0;
      while (prefix.until(i + 1)[k] == prefix.until(i)[k]) ++k;
      return kinds[k];
    };
    alike_ = std::count_if(all.begin(), all.end(), [](std::int64_t n) { return n > 0; }) == 1;
    // Spread layers are counted as if each were the fastest kind.
    if (spread_) units_ = m.num_layers;
    const Times least = spread_ ? fastest(kinds, all) : Times{};
    first_.resize(1), rank_.resize(1);
    for (std::int64_t u = 0; u < units_; ++u) {
      first_.push_back(first_.back() + (spread_ ? least * (1.0 / vp()) : layer(u)));
      Times unit = spread_ ? least : layer(u);
      for (std::int64_t c = 1; c < vp_ && !spread_; ++c) {
        unit += layer(schedule_ == Schedule::kZbV ? m.num_layers - 1 - u : c * units_ + u);
      }
      rank_.push_back(rank_.back() + unit);
    }
    rounding_ = spread_ ? least * ((vp() - 1) / vp()) : Times{};
  }

  [[nodiscard]] double least() const {
    double low = microbatches_ * whole_.all() / static_cast<double>(ranks_);
    if (schedule_ == Schedule::kDualPipe) return low;
    if (possible(low)) return low;
    double high = 2 * low;
    while (!possible(high)) low = high, high *= 2;
    for (const double precision = low / 2048; high - low > precision;) {
      const double middle = (low + high) / 2;
      (possible(middle) ? high : low) = middle;
    }
    return low;
  }

 private:
  static std::size_t index_of(BlockKind kind) { return static_cast<std::size_t>(kind); }

  [[nodiscard]] bool possible(double limit) const {
    std::int64_t begin = 0;
    for (std::int64_t r = 0; r < ranks_; ++r) {
      const std::int64_t fewest = spread_ && (r == 0 || r == ranks_ - 1) ? vp_ - 1
                                  : spread_                              ? vp_
                                                                         : 1;
      const std::int64_t later = r == ranks_ - 1 ? 0
                                 : spread_       ? (ranks_ - r - 1) * vp_ - 1
                                                 : ranks_ - r - 1;
      std::int64_t fits = begin, too_far = units_ - later + 1;
      while (fits + 1 < too_far) {
        const std::int64_t middle = fits + (too_far - fits) / 2;
        (chain(r, begin, middle) <= limit ? fits : too_far) = middle;
      }
      if (fits - begin < fewest) return false;
      begin = fits;
    }
    return begin == units_;
  }

  // Embedding and head, where rank r holds them.
  [[nodiscard]] Times ends(std::int64_t r) const {
    Times t;
    if (r == 0) t += embedding_;
    if (r == (schedule_ == Schedule::kZbV ? 0 : ranks_ - 1)) t += head_;
    return t;
  }

  // The longest chain through rank r with units begin .. end - 1.
  [[nodiscard]] double chain(std::int64_t r, std::int64_t begin, std::int64_t end) const {
    const Times own = rank_[index(end)] - rank_[index(begin)] + ends(r);
    const double work = microbatches_ * own.all();
    Times before = first_[index(begin)] + (r > 0 ? embedding_ : Times{});
    // First chunks hold an even share of their rank's layers at least, the first rank's less than
    // one layer less: there the embedding counts as a burden.
    if (r > 0) before = at_least_zero(before - rounding_);
    const double ahead =
        std::min(microbatches_, static_cast<double>(ranks_ - r));  // forwards before a backward
    switch (schedule_) {
      case Schedule::kGpipe:
        return whole_.all() + work - own.all();
      case Schedule::k1f1b:
        return std::max(before.all() + work,
                        whole_.all() + work - own.input - own.weight - ahead * own.forward);
      case Schedule::kInterleaved:
        return std::max(before.all() + work, interleaved(r, begin, end, work));
      case Schedule::kZbH1: {
        const Times until = rank_[index(end)] + embedding_;
        const double behind = r == ranks_ - 1 ? 0 : whole_.input - until.input;  // input gradients
        return std::max(before.forward + work,
                        whole_.forward + behind + work - ahead * own.forward);
      }
      case Schedule::kZbV:
      case Schedule::kDualPipe:
        return before.forward + work;
    }
    return work;
  }

  // Through the last chunks of the ranks behind, and the first chunks of those before. Chunks of
  // spread layers hold an even share, up to less than a layer.
  [[nodiscard]] double interleaved(std::int64_t r, std::int64_t begin, std::int64_t end,
                                   double work) const {
    if (!alike_) return 0;  // the chunks of a rank differ
    const double p = static_cast<double>(ranks_), v = vp();
    const double behind_ranks = p - static_cast<double>(r) - 1;
    const double ahead = std::min(microbatches_ * v, 2 * behind_ranks + (v - 1) * p + 1);
    const Times share = first_[index(end)] - first_[index(begin)];
    const Times behind =
        at_least_zero(first_.back() - first_[index(end)] - rounding_ * behind_ranks);
    Times before = first_[index(begin)];
    if (r > 0) before = at_least_zero(before - rounding_) + embedding_;
    double backward = behind.input + behind.weight + before.input + before.weight;
    if (r < ranks_ - 1) backward += head_.input + head_.weight;
    // p forwards of each chunk, less those of the last chunks or plus those of the first.
    double forward = p * v * share.forward;
    if (ahead < p * v) {
      forward -= (p * v - ahead) * std::max(0.0, share.forward - rounding_.forward);
    } else {
      forward += (ahead - p * v) * (share.forward + rounding_.forward);
    }
    if (r == 0) forward += std::min(microbatches_, ahead) * embedding_.forward;
    if (r == ranks_ - 1) forward += std::max(0.0, ahead - (v - 1) * p) * head_.forward;
    return whole_.forward + backward + work - forward;
  }

  static Times at_least_zero(const Times& t) {
    return {std::max(0.0, t.forward), std::max(0.0, t.input), std::max(0.0, t.weight)};
  }
  [[nodiscard]] double vp() const { return static_cast<double>(vp_); }

  Schedule schedule_;
  std::int64_t ranks_, vp_;
  double microbatches_;
  std::int64_t units_;
  bool alike_ = false;   // all layers are of one kind
  bool spread_ = false;  // a rank's layers are spread over its chunks as even as they go
  Times rounding_;       // what a chunk may hold less, or more, than an even share
  Times embedding_, head_, whole_;
  std::vector<Times> first_;  // first chunk of a rank, summed over the units before
  std::vector<Times> rank_;   // all chunks of a rank, likewise
};

}  // namespace

double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                      const LayerPrefix& prefix) {
  return Chains(m, s, blocks, prefix).least();
}

}  // namespace meshplan
