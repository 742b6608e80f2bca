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
  friend Times operator-(const Times& a, const Times& b) {
    return {a.forward - b.forward, a.input - b.input, a.weight - b.weight};
  }
};

Times times_of(const BlockCost& b) {
  return {b.forward.total().si(), b.backward_input.total().si(), b.backward_weight.total().si()};
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
    const auto layer = [&](std::int64_t i) {
      std::size_t k = 0;
      while (prefix[index(i + 1)][k] == prefix[index(i)][k]) ++k;
      return kinds[k];
    };
    const BlockCounts& all = prefix.back();
    alike_ = std::count_if(all.begin(), all.end(), [](std::int64_t n) { return n > 0; }) == 1;
    first_.resize(1), rank_.resize(1);
    for (std::int64_t u = 0; u < units_; ++u) {
      first_.push_back(first_.back() + layer(u));
      Times unit;
      for (std::int64_t c = 0; c < vp_; ++c) {
        unit +=
            layer(schedule_ == Schedule::kZbV && c == 1 ? m.num_layers - 1 - u : c * units_ + u);
      }
      rank_.push_back(rank_.back() + unit);
    }
    whole_ = rank_.back() + embedding_ + head_;
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
      std::int64_t fits = begin, too_far = units_ - (ranks_ - r - 1) + 1;
      while (fits + 1 < too_far) {
        const std::int64_t middle = fits + (too_far - fits) / 2;
        (chain(r, begin, middle) <= limit ? fits : too_far) = middle;
      }
      if (fits == begin) return false;
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
    const Times before = first_[index(begin)] + (r > 0 ? embedding_ : Times{});
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

  // Through the last chunks of the ranks behind, and the first chunks of those before.
  [[nodiscard]] double interleaved(std::int64_t r, std::int64_t begin, std::int64_t end,
                                   double work) const {
    if (!alike_) return 0;  // the chunks of a rank differ
    const auto p = static_cast<double>(ranks_), v = static_cast<double>(vp_);
    const double ahead =
        std::min(microbatches_ * v, 2 * (p - static_cast<double>(r) - 1) + (v - 1) * p + 1);
    const Times chunk = first_[index(end)] - first_[index(begin)];
    double backward = first_.back().input + first_.back().weight - chunk.input - chunk.weight;
    double forward = ahead * chunk.forward;
    if (r == 0) forward += std::min(microbatches_, ahead) * embedding_.forward;
    if (r > 0) backward += embedding_.input + embedding_.weight;
    if (r < ranks_ - 1) backward += head_.input + head_.weight;
    if (r == ranks_ - 1) forward += std::max(0.0, ahead - (v - 1) * p) * head_.forward;
    return whole_.forward + backward + work - forward;
  }

  Schedule schedule_;
  std::int64_t ranks_, vp_;
  double microbatches_;
  std::int64_t units_;
  bool alike_ = false;
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
