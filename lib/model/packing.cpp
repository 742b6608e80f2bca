#include "model/packing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "base/check.hpp"

namespace meshplan {
namespace {

double documents_of(const LengthSpec& lengths) {
  double sum = 0;
  for (const LengthBin& bin : lengths.bins) sum += bin.documents;
  return sum;
}

bool packs(Packing p) { return p == Packing::kPack || p == Packing::kBalanced; }

// Lengths at evenly spaced quantiles, longest first: enough for some hundred rows.
std::vector<std::int64_t> sample(const LengthSpec& cut, std::int64_t seq_len) {
  constexpr double kRows = 384, kFewest = 2048, kMost = 131072;
  const double wanted =
      std::clamp(kRows * static_cast<double>(seq_len) / mean_length(cut), kFewest, kMost);
  const auto n = static_cast<std::size_t>(wanted);
  const double each = documents_of(cut) / static_cast<double>(n);
  std::vector<std::int64_t> all;
  all.reserve(n);
  std::size_t bin = 0;
  double before = 0, tokens = 0;  // of the bins passed; carried from rounding
  for (std::size_t i = 0; i < n; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * each;
    while (bin + 1 < cut.bins.size() && before + cut.bins[bin].documents < at) {
      before += cut.bins[bin++].documents;
    }
    tokens += cut.bins[bin].tokens;
    const auto whole = std::max<std::int64_t>(1, std::llround(tokens));
    all.push_back(std::min(whole, seq_len));
    tokens -= static_cast<double>(whole);
  }
  std::sort(all.rbegin(), all.rend());
  return all;
}

double square(double x) { return x * x; }

// Of the largest of b documents: the share of each bin.
std::vector<Weighted> largest_of(const LengthSpec& cut, std::int64_t b) {
  const double all = documents_of(cut);
  std::vector<Weighted> shares;
  double sum = 0, before = 0;
  for (const LengthBin& bin : cut.bins) {
    sum += bin.documents;
    const double until = std::pow(std::min(1.0, sum / all), static_cast<double>(b));
    shares.push_back({bin.tokens, until - before});
    before = until;
  }
  return shares;
}

std::int64_t square_sum(const std::vector<std::int64_t>& row) {
  std::int64_t sum = 0;
  for (const std::int64_t n : row) sum += n * n;
  return sum;
}

using Rows = std::vector<std::vector<std::int64_t>>;

Rows best_fit(const LengthSpec& lengths, std::int64_t seq_len) {
  Rows rows;
  std::multimap<std::int64_t, std::size_t> open;  // tokens left -> row
  for (const std::int64_t n : sample(cut_at(lengths, seq_len), seq_len)) {
    const auto at = open.lower_bound(n);
    std::size_t row = rows.size();
    std::int64_t left = seq_len;
    if (at == open.end()) {
      rows.emplace_back();
    } else {
      left = at->first, row = at->second;
      open.erase(at);
    }
    rows[row].push_back(n);
    if (left > n) open.emplace(left - n, row);
  }
  return rows;
}

// What searches ask again and again; a search has one model and one seq_len.
struct Known {
  LengthSpec lengths;
  std::int64_t seq_len = 0;
  Rows rows;
  RowStatistics packed;
  std::map<std::int64_t, RowStatistics> unpacked;  // by micro_batch
  std::map<std::int64_t, double> imbalance;        // by cp
};

RowStatistics packed_statistics(const Rows& rows, std::int64_t seq_len) {
  RowStatistics r;
  r.documents = 0;
  for (const auto& row : rows) {
    r.documents += static_cast<double>(row.size());
    for (const std::int64_t n : row) r.real += static_cast<double>(n);
    r.squares += static_cast<double>(square_sum(row));
  }
  // The emptiest row is what a sample happens to leave over: where it is less than half full, it
  // counts as so much of a row.
  double n = static_cast<double>(rows.size()), emptiest = 1;
  for (const auto& row : rows) {
    const auto tokens = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    emptiest = std::min(emptiest, static_cast<double>(tokens) / static_cast<double>(seq_len));
  }
  if (rows.size() > 1 && emptiest < 0.5) n += emptiest - 1;
  r.documents /= n, r.real /= n, r.squares /= n;
  r.real_squares = r.squares;
  r.computed = static_cast<double>(seq_len);
  return r;
}

Known& known(const LengthSpec& lengths, std::int64_t seq_len) {
  thread_local std::array<Known, 2> kept;
  thread_local std::size_t next = 0;
  for (Known& k : kept) {
    if (k.seq_len == seq_len && k.lengths == lengths) return k;
  }
  Known& k = kept[next++ % kept.size()];
  k = {lengths, seq_len, best_fit(lengths, seq_len), {}, {}, {}};
  k.packed = packed_statistics(k.rows, seq_len);
  return k;
}

// Pairs that tokens [from, to) of a row see of their documents, which begin at `starts`.
double seen_pairs(const std::vector<std::int64_t>& starts, std::int64_t from, std::int64_t to) {
  const auto triangle = [](double n) { return n * (n + 1) / 2; };
  double sum = 0;
  auto document = std::prev(std::upper_bound(starts.begin(), starts.end(), from));
  while (from < to) {
    const auto next = std::next(document);
    const std::int64_t end = next == starts.end() ? to : std::min(to, *next);
    sum += triangle(static_cast<double>(end - *document)) -
           triangle(static_cast<double>(from - *document));
    from = end, document = next;
  }
  return sum;
}

double imbalance_of(const Rows& rows, std::int64_t seq_len, std::int64_t cp) {
  constexpr std::size_t kMostRows = 128;
  std::mt19937_64 engine(20240721);
  double sum = 0;
  const std::size_t step = std::max<std::size_t>(1, rows.size() / kMostRows);
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows.size(); i += step, ++count) {
    std::vector<std::int64_t> row = rows[i];
    for (std::size_t k = row.size(); k > 1; --k) std::swap(row[k - 1], row[engine() % k]);
    std::vector<std::int64_t> starts{0};
    for (const std::int64_t n : row) starts.push_back(starts.back() + n);
    if (starts.back() >= seq_len) starts.pop_back();  // else what pads the row is one more
    const auto edge = [&](std::int64_t chunk) { return seq_len * chunk / (2 * cp); };
    double most = 0, all = 0;
    for (std::int64_t r = 0; r < cp; ++r) {
      const std::int64_t mirror = 2 * cp - 1 - r;
      const double work = seen_pairs(starts, edge(r), edge(r + 1)) +
                          seen_pairs(starts, edge(mirror), edge(mirror + 1));
      most = std::max(most, work), all += work;
    }
    sum += all > 0 ? most * static_cast<double>(cp) / all : 1;
  }
  return sum / static_cast<double>(count);
}

RowStatistics unpacked_statistics(const LengthSpec& lengths, std::int64_t seq_len,
                                  std::int64_t micro_batch) {
  const LengthSpec cut = cut_at(lengths, seq_len);
  const double all = documents_of(cut);
  RowStatistics r;
  for (const LengthBin& bin : cut.bins) {
    r.real += bin.tokens * bin.documents / all;
    r.real_squares += square(bin.tokens) * bin.documents / all;
  }
  for (const Weighted& w : largest_of(cut, micro_batch)) {
    r.computed += w.value * w.share;
    r.squares += square(w.value) * w.share;
  }
  return r;
}

}  // namespace

std::vector<std::vector<std::int64_t>> packed_rows(const LengthSpec& lengths,
                                                   std::int64_t seq_len) {
  return known(lengths, seq_len).rows;
}

RowStatistics row_statistics(const LengthSpec& lengths, Packing packing, std::int64_t seq_len,
                             std::int64_t micro_batch) {
  Known& k = known(lengths, seq_len);
  if (packs(packing)) return k.packed;
  const auto [at, made] = k.unpacked.try_emplace(micro_batch);
  if (made) at->second = unpacked_statistics(lengths, seq_len, micro_batch);
  RowStatistics r = at->second;
  if (packing == Packing::kPad) {
    r.computed = static_cast<double>(seq_len);
    r.squares = square(r.computed);
  }
  return r;
}

RowVariety row_variety(const LengthSpec& lengths, Packing packing, std::int64_t seq_len,
                       std::int64_t micro_batch) {
  const auto b = static_cast<double>(micro_batch), whole = static_cast<double>(seq_len);
  RowVariety v;
  if (packing == Packing::kPad) return {{{b * whole, 1}}, {{square(whole), 1}}};
  if (packing == Packing::kNone) {
    for (const Weighted& w : largest_of(cut_at(lengths, seq_len), micro_batch)) {
      v.tokens.push_back({b * w.value, w.share});
      v.squares.push_back({b * square(w.value), w.share});
    }
    return v;
  }
  v.tokens = {{b * whole, 1}};
  const Rows& rows = known(lengths, seq_len).rows;
  for (const auto& row : rows) {
    v.squares.push_back(
        {static_cast<double>(square_sum(row)), 1 / static_cast<double>(rows.size())});
  }
  return v;
}

double record_growth(const LengthSpec& lengths, Packing packing, std::int64_t seq_len,
                     std::int64_t micro_batch) {
  std::vector<Weighted> all = row_variety(lengths, packing, seq_len, micro_batch).tokens;
  std::sort(all.begin(), all.end(),
            [](const Weighted& a, const Weighted& b) { return a.value > b.value; });
  double from_here = 0, sum = 0;
  for (const Weighted& w : all) {
    if (w.share <= 0) continue;
    from_here += w.share;
    sum += w.value * w.share / from_here;
  }
  return std::max(1.0, sum / all.front().value);
}

double chunk_imbalance(const LengthSpec& lengths, std::int64_t seq_len, std::int64_t cp) {
  if (cp == 1) return 1;
  Known& k = known(lengths, seq_len);
  const auto [at, made] = k.imbalance.try_emplace(cp);
  if (made) at->second = imbalance_of(k.rows, seq_len, cp);
  return at->second;
}

double real_tokens(const ModelSpec& m, const Strategy& s) {
  const auto rows = static_cast<double>(s.global_batch);
  if (!m.lengths) return rows * static_cast<double>(s.seq_len);
  return rows * row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch).real;
}

std::int64_t document_length(const ModelSpec& m, const Strategy& s) {
  if (!m.lengths) return s.seq_len;
  const RowStatistics row = row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch);
  return std::max<std::int64_t>(1, std::llround(row.real_length()));
}

double computed_tokens(const ModelSpec& m, const Strategy& s) {
  const auto rows = static_cast<double>(s.global_batch);
  if (!m.lengths) return rows * static_cast<double>(s.seq_len);
  return rows * row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch).computed;
}

}  // namespace meshplan
