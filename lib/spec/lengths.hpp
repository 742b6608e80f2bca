#pragma once
// How long documents are: a histogram of their lengths in tokens, counted or of a distribution.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

struct LengthBin {
  double tokens = 0;     // mean length of the documents in it
  double documents = 0;  // how many, or their share

  bool operator==(const LengthBin&) const = default;
};

struct LengthSpec {
  std::string name;             // where the lengths are from
  std::vector<LengthBin> bins;  // by length, each once; none is empty

  bool operator==(const LengthSpec&) const = default;
};

// Few bins of many lengths: neighbours that differ by less than 1/64 of an octave become one of
// their mean length, so that sums of tokens are kept and sums of squares to 1e-5. The longest has a
// bin of its own. Sorts; bins without documents are left out.
[[nodiscard]] std::vector<LengthBin> merged(std::vector<LengthBin> bins);

// "fixed(2048)", "zipf(1.2, 8192)" or "lognormal(900, 700)". Fails where the name or a number is
// not one of these.
//
// [F-LEN-1] zipf(s, n): share of length l in 1..n proportional to l^-s. lognormal(m, d): mean m and
// standard deviation d of the lengths, so that ln l is normal with variance v = ln(1 + (d / m)^2)
// and mean ln m - v / 2; what lies beyond four standard deviations of ln l is one bin of its own
// mean. Shares and means of bins: partial expectations (Johnson, Kotz and Balakrishnan 1994,
// Continuous Univariate Distributions, ch. 14).
[[nodiscard]] Result<LengthSpec> parse_length_distribution(std::string_view text);
// Whether the text is meant as one, and not as a file.
[[nodiscard]] bool is_length_distribution(std::string_view text);

[[nodiscard]] double longest(const LengthSpec& lengths);
// Smallest length that at least this share of the documents does not exceed.
[[nodiscard]] double length_quantile(const LengthSpec& lengths, double share);
[[nodiscard]] double mean_length(const LengthSpec& lengths);

// The lengths with every document cut off at so many tokens.
[[nodiscard]] LengthSpec cut_at(const LengthSpec& lengths, std::int64_t tokens);
// The lengths without documents of more tokens; the shortest alone where all have more.
[[nodiscard]] LengthSpec dropped_above(const LengthSpec& lengths, std::int64_t tokens);
// Share of all tokens that cut_at() cuts off.
[[nodiscard]] double cut_share(const LengthSpec& lengths, std::int64_t tokens);

}  // namespace meshplan
