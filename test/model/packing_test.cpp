#include "model/packing.hpp"

#include <numeric>

#include "support/catch.hpp"

using namespace meshplan;

namespace {

LengthSpec lengths(std::vector<LengthBin> bins) { return {"test", std::move(bins)}; }

RowStatistics row(const LengthSpec& l, Packing p, std::int64_t seq_len, std::int64_t b = 1) {
  return row_statistics(l, p, seq_len, b);
}

}  // namespace

TEST_CASE("[F-LEN-2] padding by hand") {
  // Half the documents 100, half 300 tokens.
  const LengthSpec l = lengths({{100, 1}, {300, 1}});
  const RowStatistics padded = row(l, Packing::kPad, 400, 2);
  CHECK(padded.real == Approx(200));
  CHECK(padded.computed == Approx(400));
  CHECK(padded.padding() == Approx(0.5));
  CHECK(padded.squares == Approx(160'000));
  CHECK(padded.real_squares == Approx((10'000 + 90'000) / 2.0));
  // Alone a document needs no padding; of two, three pairs of four have a long one.
  CHECK(row(l, Packing::kNone, 400, 1).padding() == Approx(0).margin(1e-12));
  const RowStatistics pair = row(l, Packing::kNone, 400, 2);
  CHECK(pair.computed == Approx(0.25 * 100 + 0.75 * 300));
  CHECK(pair.squares == Approx(0.25 * 10'000 + 0.75 * 90'000));
  // Cut off at 200: 150 tokens on average.
  CHECK(row(l, Packing::kPad, 200).real == Approx(150));
}

TEST_CASE("[F-LEN-2] best fit packs what fits exactly without padding") {
  // As many of 300 as of 100: one of each fills a row of 400.
  const RowStatistics r = row(lengths({{100, 1}, {300, 1}}), Packing::kPack, 400);
  CHECK(r.documents == Approx(2));
  CHECK(r.real == Approx(400));
  CHECK(r.padding() == Approx(0).margin(1e-12));
  CHECK(r.squares == Approx(100'000));
  CHECK(r.attended() == Approx(250));
  CHECK(r.real_length() == Approx(250));
  // Nothing fits beside a document of 300 in a row of 350.
  const RowStatistics alone = row(lengths({{300, 1}}), Packing::kPack, 350);
  CHECK(alone.documents == Approx(1));
  CHECK(alone.padding() == Approx(50.0 / 350));
}

TEST_CASE("[F-LEN-2] documents that fill rows are not changed by packing") {
  const LengthSpec l = lengths({{512, 3}});
  for (const auto& choice : NameTable<Packing>::rows) {
    const RowStatistics r = row(l, choice.value, 512, 4);
    CHECK(r.documents == 1);
    CHECK(r.real == Approx(512));
    CHECK(r.computed == Approx(512));
    CHECK(r.squares == Approx(512.0 * 512));
  }
}

TEST_CASE("[F-LEN-2] packed rows hold every document once and nothing above seq_len") {
  const Result<LengthSpec> l = parse_length_distribution("lognormal(700, 900)");
  REQUIRE(l);
  double documents = 0, tokens = 0;
  for (const auto& one : packed_rows(*l, 4096)) {
    const std::int64_t sum = std::accumulate(one.begin(), one.end(), std::int64_t{0});
    CHECK(sum <= 4096);
    CHECK_FALSE(one.empty());
    documents += static_cast<double>(one.size()), tokens += static_cast<double>(sum);
  }
  CHECK(tokens / documents == Approx(mean_length(cut_at(*l, 4096))).epsilon(0.003));
  // Best fit with so many short documents leaves next to nothing over.
  CHECK(row(*l, Packing::kPack, 4096).padding() < 0.01);
  CHECK(row(*l, Packing::kPack, 4096) == row(*l, Packing::kBalanced, 4096));
}

TEST_CASE("[F-LEN-3] one document a row is balanced over context ranks, several are not") {
  CHECK(chunk_imbalance(lengths({{4096, 1}}), 4096, 1) == 1);
  CHECK(chunk_imbalance(lengths({{4096, 1}}), 4096, 4) == Approx(1).epsilon(1e-3));
  // Two documents of 2,048 on two ranks with chunks of 1,024: chunks one and four see
  // 1/2 + 3/2, two and three 3/2 + 1/2 squares of 1,024.
  CHECK(chunk_imbalance(lengths({{2048, 1}}), 4096, 2) == Approx(1).epsilon(1e-3));
  // 3,072 and 1,024: chunks see 1/2, 3/2, 5/2 and 1/2; ranks 1 and 4. In the other order 1/2, 1/2,
  // 3/2 and 5/2: 3 and 2. The busiest has 4 or 3 of 5, 1.6 or 1.2 times the mean.
  const double mixed = chunk_imbalance(lengths({{1024, 1}, {3072, 1}}), 4096, 2);
  CHECK(mixed > 1.25);
  CHECK(mixed < 1.55);
}
