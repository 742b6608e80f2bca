#include "spec/lengths.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace meshplan;

namespace {

double deviation(const LengthSpec& lengths) {
  double sum = 0, documents = 0;
  const double mean = mean_length(lengths);
  for (const LengthBin& bin : lengths.bins) {
    sum += (bin.tokens - mean) * (bin.tokens - mean) * bin.documents;
    documents += bin.documents;
  }
  return std::sqrt(sum / documents);
}

LengthSpec distribution(const std::string& text) {
  Result<LengthSpec> spec = parse_length_distribution(text);
  REQUIRE(spec);
  return *spec;
}

}  // namespace

TEST_CASE("[F-LEN-1] a lognormal distribution has the mean and deviation that it states") {
  for (const auto& [mean, sd] : {std::pair{900.0, 300.0}, std::pair{2000.0, 1000.0}}) {
    const LengthSpec l =
        distribution("lognormal(" + std::to_string(mean) + ", " + std::to_string(sd) + ")");
    CHECK(mean_length(l) == Approx(mean).epsilon(1e-9));
    // What lies beyond four deviations of the logarithm counts as one length.
    CHECK(deviation(l) == Approx(sd).epsilon(0.01));
    // The median is the mean over sqrt(1 + (sd / mean)^2).
    const double median = mean / std::sqrt(1 + sd * sd / (mean * mean));
    CHECK(length_quantile(l, 0.5) == Approx(median).epsilon(0.02));
  }
  CHECK(distribution("lognormal(512, 0)").bins == std::vector<LengthBin>{{512, 1}});
}

TEST_CASE("[F-LEN-1] Zipf lengths by hand") {
  // Shares 1, 1/2, 1/3, 1/4 of lengths 1 to 4: the mean is 4 over 25 / 12.
  const LengthSpec l = distribution("zipf(1, 4)");
  REQUIRE(l.bins.size() == 4);
  CHECK(l.bins[2].documents == Approx(1.0 / 3));
  CHECK(mean_length(l) == Approx(48.0 / 25));
  CHECK(longest(l) == 4);
  CHECK(length_quantile(l, 0.5) == 2);
}

TEST_CASE("many lengths become few bins of the same mean and nearly the same squares") {
  std::vector<LengthBin> bins;
  double tokens = 0, squares = 0;
  for (int n = 20'000; n >= 1; --n) {
    const double documents = n % 7;
    bins.push_back({static_cast<double>(n), documents});
    tokens += n * documents, squares += 1.0 * n * n * documents;
  }
  const std::vector<LengthBin> few = merged(bins);
  CHECK(few.size() < 1000);
  double few_tokens = 0, few_squares = 0, before = 0;
  for (const LengthBin& bin : few) {
    CHECK(bin.tokens > before);
    CHECK(bin.documents > 0);
    before = bin.tokens;
    few_tokens += bin.tokens * bin.documents,
        few_squares += bin.tokens * bin.tokens * bin.documents;
  }
  CHECK(few_tokens == Approx(tokens));
  CHECK(few_squares == Approx(squares).epsilon(2e-5));
  CHECK(few.back().tokens == 20'000);
}

TEST_CASE("few lengths stay as they are, in order, each once") {
  CHECK(merged({{512, 2}, {64, 1}, {512, 3}, {100, 0}}) ==
        std::vector<LengthBin>{{64, 1}, {512, 5}});
}

TEST_CASE("documents are cut off") {
  const LengthSpec l{"x", {{100, 1}, {300, 1}, {500, 2}}};
  CHECK(cut_at(l, 200).bins == std::vector<LengthBin>{{100, 1}, {200, 3}});
  CHECK(cut_at(l, 1000).bins == l.bins);
  CHECK(cut_at(l, 50).bins == std::vector<LengthBin>{{50, 4}});
  // 1,400 tokens, of which 700 stay.
  CHECK(cut_share(l, 200) == Approx(0.5));
  CHECK(cut_share(l, 500) == 0);
}

TEST_CASE("what is no distribution is refused with the way out") {
  for (const char* text : {"lognormal", "lognormal(5)", "lognormal(a, b)", "lognormal(900, -1)",
                           "lognormal(0, 1)", "zipf(9, 100)", "zipf(1, 2.5)", "zipf(1, 1e9)",
                           "fixed(0)", "fixed(1, 2)", "normal(1, 2)", "fixed(3"}) {
    const Result<LengthSpec> spec = parse_length_distribution(text);
    INFO(text);
    REQUIRE_FALSE(spec);
    CHECK_FALSE(spec.errors().front().hint.empty());
  }
  CHECK(is_length_distribution("zipf(1, 2)"));
  CHECK_FALSE(is_length_distribution("zipf.txt"));
  CHECK_FALSE(is_length_distribution("lengths/fixed"));
}
