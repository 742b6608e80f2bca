#include "partition/rounds.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/units.hpp"
#include "cost/chunks.hpp"

namespace meshplan {
namespace {

// What each round gains over the last when a rank takes so many layers more than a multiple of vp.
std::vector<std::int64_t> gains(std::int64_t vp, std::int64_t more, bool first_rank) {
  const auto of = [&](std::int64_t c) { return chunk_layers(more, vp, c, first_rank, false); };
  std::vector<std::int64_t> gain;
  for (std::int64_t c = 0; c < vp; ++c) gain.push_back(of(c) - of(vp - 1));
  return gain;
}

// Ranks after the first lengthen earlier rounds before later ones.
bool falls_to_zero(const std::vector<std::int64_t>& lead) {
  return std::is_sorted(lead.rbegin(), lead.rend()) && lead.back() == 0;
}

std::int64_t unevenness(const std::vector<std::int64_t>& v) {
  const auto [low, high] = std::minmax_element(v.begin(), v.end());
  return *high - *low;
}

// Every way to lengthen the rounds from `round` on, each by no more than the one before.
template <class Visit>
void for_each_fall(std::vector<std::int64_t>& lead, std::size_t round, std::int64_t most,
                   const Visit& visit) {
  if (round + 1 == lead.size()) return visit(lead);
  for (std::int64_t n = 0; n <= most; ++n) {
    lead[round] += n;
    for_each_fall(lead, round + 1, n, visit);
    lead[round] -= n;
  }
}

}  // namespace

std::int64_t most_uneven(std::int64_t vp) { return vp <= 4 ? 3 : vp <= 8 ? 2 : 1; }

std::vector<RoundTotals> all_round_totals(std::int64_t layers, std::int64_t pp, std::int64_t vp) {
  const std::int64_t most = most_uneven(vp);
  std::set<std::vector<std::int64_t>> leads;
  for (std::int64_t more = 0; more < vp; ++more) {
    std::vector<std::int64_t> lead = gains(vp, more, true);
    for_each_fall(lead, 0, std::min(pp - 1, most + 1), [&](const std::vector<std::int64_t>& all) {
      if (unevenness(all) <= most) leads.insert(all);
    });
  }
  std::vector<RoundTotals> totals;
  for (const std::vector<std::int64_t>& lead : leads) {
    const std::int64_t rest = layers - std::accumulate(lead.begin(), lead.end(), std::int64_t{0});
    if (rest < 0 || rest % vp != 0) continue;
    RoundTotals& rounds = totals.emplace_back(lead);
    for (std::int64_t& n : rounds) n += rest / vp;
    if (*std::min_element(rounds.begin(), rounds.end()) < 0) totals.pop_back();
  }
  std::stable_sort(totals.begin(), totals.end(), [](const RoundTotals& a, const RoundTotals& b) {
    return unevenness(a) < unevenness(b);
  });
  return totals;
}

RoundTotals round_totals(const std::vector<std::int64_t>& stage_layers, std::int64_t vp) {
  RoundTotals totals(index(vp), 0);
  for (std::size_t r = 0; r < stage_layers.size(); ++r) {
    for (std::int64_t c = 0; c < vp; ++c) {
      totals[index(c)] +=
          chunk_layers(stage_layers[r], vp, c, r == 0, r + 1 == stage_layers.size());
    }
  }
  return totals;
}

Rounds::Rounds(const RoundTotals& totals, std::int64_t pp)
    : vp_(static_cast<int>(totals.size())), last_(totals.back()) {
  Lead whole;
  for (const std::int64_t n : totals) {
    begin_.push_back(layers_);
    whole.push_back(n - last_);
    layers_ += static_cast<int>(n);
  }
  const auto leads_to_whole = [&](const Lead& lead) {
    Lead rest = whole;
    for (std::size_t c = 0; c < rest.size(); ++c) rest[c] -= lead[c];
    return falls_to_zero(rest);
  };
  const auto after = [&](std::size_t from, std::int64_t more, bool first_rank) {
    Lead lead = gains(vp_, more, first_rank);
    for (std::size_t c = 0; c < lead.size(); ++c) lead[c] += leads_[from][c];
    return leads_to_whole(lead) ? number_of(lead) : -1;
  };
  number_of(Lead(index(vp_), 0));
  for (int more = 0; more < vp_; ++more) first_.push_back(after(0, more, true));
  for (std::size_t from = 0; from < leads_.size() && pp > 1; ++from) {
    for (int more = 0; more < vp_; ++more) later_.push_back(after(from, more, false));
  }
  whole_ = number_of(whole);
}

int Rounds::number_of(const Lead& lead) {
  const auto at = std::find(leads_.begin(), leads_.end(), lead);
  if (at == leads_.end()) {
    leads_.push_back(lead);
    sums_.push_back(std::accumulate(lead.begin(), lead.end(), std::int64_t{0}));
    return num_leads() - 1;
  }
  return static_cast<int>(at - leads_.begin());
}

const std::vector<Rounds>& all_rounds(std::int64_t layers, std::int64_t pp, std::int64_t vp) {
  thread_local std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Rounds>>
      known;
  const auto [at, is_new] = known.try_emplace({layers, pp, vp});
  if (is_new) {
    for (const RoundTotals& totals : all_round_totals(layers, pp, vp)) {
      at->second.emplace_back(totals, pp);
    }
  }
  return at->second;
}

int Rounds::lead_after(int stage, int lead, int layers) const {
  const int more = layers % vp_;
  return stage == 0 ? first_[index(more)] : later_[index(lead * vp_ + more)];
}

}  // namespace meshplan
