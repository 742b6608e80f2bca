#include "spec/lengths.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/check.hpp"
#include "base/quantity.hpp"
#include "base/text.hpp"

namespace meshplan {
namespace {

constexpr double kMostTokens = 1 << 30;

double documents_of(const std::vector<LengthBin>& bins) {
  double sum = 0;
  for (const LengthBin& bin : bins) sum += bin.documents;
  return sum;
}

double normal_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

std::vector<LengthBin> lognormal(double mean, double deviation) {
  constexpr int kBins = 512;
  constexpr double kReach = 4;
  const double variance = std::log1p(deviation * deviation / (mean * mean));
  const double sigma = std::sqrt(variance);
  // Share of documents, and of tokens over the mean, of which ln l is up to mu + z sigma.
  const auto documents = [](double z) { return normal_below(z); };
  const auto tokens = [&](double z) { return normal_below(z - sigma); };
  if (sigma < 1e-6) return {{mean, 1}};
  std::vector<LengthBin> bins;
  double low_documents = 0, low_tokens = 0;
  for (int i = 1; i <= kBins + 1; ++i) {
    const bool last = i == kBins + 1;
    const double z = kReach * (2.0 * i / kBins - 1);
    const double high_documents = last ? 1 : documents(z), high_tokens = last ? 1 : tokens(z);
    const double share = high_documents - low_documents;
    if (share > 0) {
      bins.push_back({std::max(1.0, mean * (high_tokens - low_tokens) / share), share});
    }
    low_documents = high_documents, low_tokens = high_tokens;
  }
  return bins;
}

std::vector<LengthBin> zipf(double exponent, std::int64_t most) {
  std::vector<LengthBin> bins;
  for (std::int64_t l = 1; l <= most; ++l) {
    const auto tokens = static_cast<double>(l);
    bins.push_back({tokens, std::pow(tokens, -exponent)});
  }
  return bins;
}

struct Distribution {
  std::string_view name;
  std::size_t numbers;
  std::string_view example;
};
constexpr std::array kDistributions{Distribution{"fixed", 1, "fixed(2048)"},
                                    Distribution{"zipf", 2, "zipf(1.2, 8192)"},
                                    Distribution{"lognormal", 2, "lognormal(900, 700)"}};

const Distribution* distribution_of(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('('));
  for (const Distribution& row : kDistributions) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The numbers between the brackets; nothing where there are no brackets, or other words.
std::optional<std::vector<double>> numbers_of(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return std::nullopt;
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  std::vector<double> numbers;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const Result<double> number = parse_real(std::string(trimmed(rest.substr(0, comma))));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (more) rest.remove_prefix(comma + 1);
  }
  return numbers;
}

bool is_length(double tokens) { return tokens >= 1 && tokens <= kMostTokens; }

}  // namespace

std::vector<LengthBin> merged(std::vector<LengthBin> bins) {
  constexpr double kPerOctave = 64;
  constexpr std::size_t kFew = 512;
  std::erase_if(bins, [](const LengthBin& bin) { return bin.documents <= 0; });
  std::sort(bins.begin(), bins.end(),
            [](const LengthBin& a, const LengthBin& b) { return a.tokens < b.tokens; });
  const auto place = [&](const LengthBin& bin, bool fine) {
    return fine ? bin.tokens : std::floor(kPerOctave * std::log2(bin.tokens));
  };
  const auto merge = [&](bool fine) {
    std::vector<LengthBin> all;
    double at = 0;
    for (const LengthBin& bin : bins) {
      const bool longest = !fine && bin.tokens == bins.back().tokens;
      if (all.empty() || longest || place(bin, fine) != at) {
        all.push_back(bin);
        at = place(bin, fine);
        continue;
      }
      LengthBin& sum = all.back();
      const double tokens = sum.tokens * sum.documents + bin.tokens * bin.documents;
      sum.documents += bin.documents;
      sum.tokens = fine ? bin.tokens : tokens / sum.documents;
    }
    return all;
  };
  bins = merge(true);
  return bins.size() > kFew ? merge(false) : bins;
}

bool is_length_distribution(std::string_view text) {
  return distribution_of(text) != nullptr && text.find('/') == std::string_view::npos;
}

Result<LengthSpec> parse_length_distribution(std::string_view text) {
  const Distribution* kind = distribution_of(text);
  const std::string hint = "fixed(2048), zipf(1.2, 8192) or lognormal(900, 700), or a file";
  if (kind == nullptr) return error("'" + std::string(text) + "' is no distribution", hint);
  const std::optional<std::vector<double>> numbers = numbers_of(text);
  const std::string example = "for example " + std::string(kind->example);
  if (!numbers || numbers->size() != kind->numbers) {
    return error("'" + std::string(text) + "' needs " + std::to_string(kind->numbers) +
                     (kind->numbers == 1 ? " number" : " numbers") + " in brackets",
                 example);
  }
  const double first = numbers->front(), last = numbers->back();
  LengthSpec spec{std::string(text), {}};
  const std::string range = "lengths are 1 to " + with_thousands(1 << 30) + " tokens";
  if (kind->name == "zipf") {
    constexpr double kMostExponent = 8, kMostListed = 1 << 22;
    if (!(first >= 0 && first <= kMostExponent)) {
      return error("the exponent of zipf must be 0 to 8", example);
    }
    if (!(last >= 1 && last <= kMostListed) || last != std::floor(last)) {
      return error("the longest of zipf must be a whole number from 1 to " +
                       with_thousands(1 << 22) + " tokens",
                   example);
    }
    spec.bins = merged(zipf(first, static_cast<std::int64_t>(last)));
  } else if (kind->name == "lognormal") {
    if (!is_length(first)) return error("the mean of lognormal is no length: " + range, example);
    if (!(last >= 0 && last <= 100 * first)) {
      return error("the standard deviation of lognormal must be 0 to 100 means", example);
    }
    spec.bins = merged(lognormal(first, last));
  } else {
    if (!is_length(first)) return error("fixed is no length: " + range, example);
    spec.bins = {{first, 1}};
  }
  return spec;
}

double longest(const LengthSpec& lengths) { return lengths.bins.back().tokens; }

double length_quantile(const LengthSpec& lengths, double share) {
  const double wanted = share * documents_of(lengths.bins) * (1 - 1e-12);
  double sum = 0;
  for (const LengthBin& bin : lengths.bins) {
    sum += bin.documents;
    if (sum >= wanted) return bin.tokens;
  }
  return longest(lengths);
}

double mean_length(const LengthSpec& lengths) {
  double tokens = 0;
  for (const LengthBin& bin : lengths.bins) tokens += bin.tokens * bin.documents;
  return tokens / documents_of(lengths.bins);
}

LengthSpec cut_at(const LengthSpec& lengths, std::int64_t tokens) {
  const auto most = static_cast<double>(tokens);
  LengthSpec cut{lengths.name, {}};
  for (const LengthBin& bin : lengths.bins) {
    if (bin.tokens < most || cut.bins.empty() || cut.bins.back().tokens < most) {
      cut.bins.push_back({std::min(bin.tokens, most), bin.documents});
    } else {
      cut.bins.back().documents += bin.documents;
    }
  }
  PLAN_CHECK(!cut.bins.empty());
  return cut;
}

LengthSpec dropped_above(const LengthSpec& lengths, std::int64_t tokens) {
  const auto most = static_cast<double>(tokens);
  LengthSpec left{lengths.name, {}};
  for (const LengthBin& bin : lengths.bins) {
    if (bin.tokens <= most || left.bins.empty()) left.bins.push_back(bin);
  }
  return left;
}

double cut_share(const LengthSpec& lengths, std::int64_t tokens) {
  return std::max(0.0, 1 - mean_length(cut_at(lengths, tokens)) / mean_length(lengths));
}

}  // namespace meshplan
