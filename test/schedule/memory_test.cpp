#include <algorithm>

#include "schedule/run.hpp"
#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

struct Row {
  const char* why;
  PipelineShape shape;
  std::vector<std::int64_t> in_flight;  // by rank
};

TEST_CASE("[F-PIPE-8] Activations in flight are those of the papers") {
  const auto row = GENERATE(values<Row>({
      {"GPipe holds all", {Schedule::kGpipe, 3, 1, 7}, {7, 7, 7}},
      {"1F1B: p - r", {Schedule::k1f1b, 4, 1, 8}, {4, 3, 2, 1}},
      {"1F1B: never more than there are", {Schedule::k1f1b, 4, 1, 2}, {2, 2, 2, 1}},
      // L (1 + (p - 1)/(p v)) layers on rank 0: 8 chunks of 1/8 and 3 more.
      {"interleaved, p = 4, v = 2", {Schedule::kInterleaved, 4, 2, 16}, {11, 9, 7, 5}},
      {"interleaved, few microbatches", {Schedule::kInterleaved, 4, 2, 4}, {8, 8, 7, 5}},
      {"interleaved, group of 8", {Schedule::kInterleaved, 4, 2, 16, 8}, {15, 13, 11, 9}},
      {"ZB-H1: p on every rank", {Schedule::kZbH1, 4, 1, 9}, {4, 4, 4, 4}},
      {"ZB-V: 2p half-size chunks, 1F1B's first rank", {Schedule::kZbV, 4, 2, 9}, {8, 8, 8, 8}},
      {"DualPipe: p + 1", {Schedule::kDualPipe, 4, 2, 8}, {5, 5, 5, 5}},
      {"DualPipe: p + 1", {Schedule::kDualPipe, 8, 2, 40}, {9, 9, 9, 9, 9, 9, 9, 9}},
  }));
  INFO(row.why);
  for (std::size_t r = 0; r < row.in_flight.size(); ++r)
    CHECK(peak_in_flight(row.shape, static_cast<std::int64_t>(r)) == row.in_flight[r]);
}

// Walks the whole order of the rank, weight by weight.
std::int64_t walked_peak(const PipelineShape& s, std::int64_t rank, const std::vector<Bytes>& bytes,
                         const std::vector<Bytes>& kept) {
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Task& t : task_order(s, rank)) {
    const auto c = static_cast<std::size_t>(t.chunk);
    if (t.kind == TaskKind::kForward) held += bytes[c].count();
    if (t.kind == TaskKind::kBackward) held -= bytes[c].count();
    if (t.kind == TaskKind::kBackwardInput) held -= bytes[c].count() - kept[c].count();
    if (t.kind == TaskKind::kBackwardWeight) held -= kept[c].count();
    peak = std::max(peak, held);
  }
  REQUIRE(held == 0);
  return peak;
}

TEST_CASE("[F-PIPE-7] Peak activations are those of a walk over every task, also in long runs") {
  RandomShapes random(41);
  for (int i = 0; i < 2500; ++i) {
    const PipelineShape s = random.shape(i % 4 == 0 ? 400 : 40);
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    std::vector<Bytes> bytes;
    std::vector<Bytes> kept;
    for (std::int64_t c = 0; c < num_chunks(s); ++c) {
      bytes.push_back(Bytes{random.integer(0, 1'000'000'000'000)});
      kept.push_back(Bytes{random.integer(0, bytes.back().count())});
    }
    const std::vector<Bytes> ones(bytes.size(), Bytes{1});
    for (std::int64_t rank = 0; rank < s.pp; ++rank) {
      REQUIRE(peak_activation(s, rank, bytes, kept).count() == walked_peak(s, rank, bytes, kept));
      REQUIRE(peak_in_flight(s, rank) == walked_peak(s, rank, ones, ones));
    }
  }
}

TEST_CASE("[F-PIPE-7] A split backward that keeps nothing for the weight gradient holds less") {
  const PipelineShape s{.schedule = Schedule::kZbH1, .pp = 4, .microbatches = 12};
  const std::vector<Bytes> bytes(4, Bytes{100});
  // Rank 3 alternates from the start: one microbatch of 100, and 40 of each of three before it.
  CHECK(peak_activation(s, 3, bytes, std::vector<Bytes>(4, Bytes{0})) == Bytes{100});
  CHECK(peak_activation(s, 3, bytes, std::vector<Bytes>(4, Bytes{40})) == Bytes{220});
  CHECK(peak_activation(s, 3, bytes, bytes) == Bytes{400});
}

}  // namespace
}  // namespace meshplan
