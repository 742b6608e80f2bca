// The static orders: hand-written examples, and what holds for every schedule and shape.
#include <map>
#include <string>
#include <tuple>

#include "schedule/pipeline.hpp"
#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

// "F0.1 b1.2 w1.2 B3.0": kind, chunk, microbatch; B whole, b input, w weight gradient.
std::string text_of(const std::vector<Task>& order) {
  std::string text;
  for (const Task& t : order) {
    if (!text.empty()) text += ' ';
    text += "FBbw"[static_cast<std::size_t>(t.kind)];
    text += std::to_string(t.chunk) + "." + std::to_string(t.microbatch);
  }
  return text;
}

struct Example {
  PipelineShape shape;
  std::int64_t rank;
  std::string order;
};

TEST_CASE("The orders are those of the papers' figures, written out by hand") {
  const auto row = GENERATE(values<Example>({
      {{Schedule::kGpipe, 2, 1, 3}, 1, "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2"},
      {{Schedule::k1f1b, 3, 1, 4}, 0, "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3"},
      {{Schedule::k1f1b, 3, 1, 4}, 1, "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3"},
      {{Schedule::k1f1b, 3, 1, 4}, 2, "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3"},
      {{Schedule::k1f1b, 4, 1, 2}, 0, "F0.0 F0.1 B0.0 B0.1"},
      {{Schedule::kInterleaved, 2, 2, 4},
       0,
       "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3"},
      {{Schedule::kInterleaved, 2, 2, 4},
       1,
       "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3"},
      {{Schedule::kInterleaved, 2, 2, 5, 3},
       1,
       "F1.0 F1.1 F1.2 F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F1.3 B1.0 F1.4 B1.1 F3.3 B1.2 F3.4 "
       "B3.3 B3.4 B1.3 B1.4"},
      {{Schedule::kZbH1, 3, 1, 3}, 0, "F0.0 F0.1 F0.2 b0.0 w0.0 b0.1 w0.1 b0.2 w0.2"},
      {{Schedule::kZbH1, 3, 1, 4},
       2,
       "F2.0 b2.0 F2.1 b2.1 F2.2 b2.2 w2.0 F2.3 b2.3 w2.1 w2.2 w2.3"},
      {{Schedule::kZbV, 2, 2, 3},
       0,
       "F0.0 F0.1 F0.2 F3.0 b3.0 w3.0 F3.1 b3.1 w3.1 b0.0 w0.0 F3.2 b3.2 w3.2 b0.1 w0.1 b0.2 "
       "w0.2"},
      {{Schedule::kZbV, 2, 2, 3},
       1,
       "F1.0 F2.0 F1.1 F2.1 b2.0 w2.0 F1.2 b1.0 w1.0 F2.2 b2.1 w2.1 b1.1 b2.2 b1.2 w1.1 w2.2 "
       "w1.2"},
      {{Schedule::kZbV, 2, 2, 1}, 1, "F1.0 F2.0 b2.0 w2.0 b1.0 w1.0"},
      {{Schedule::kDualPipe, 2, 2, 4}, 0, "F0.0 F1.1 F0.2 B1.1 F1.3 B0.0 B1.3 b0.2 w0.2"},
      {{Schedule::kDualPipe, 2, 2, 4}, 1, "F0.1 F1.0 F0.3 B1.0 F1.2 B0.1 B1.2 b0.3 w0.3"},
  }));
  CHECK(text_of(task_order(row.shape, row.rank)) == row.order);
}

TEST_CASE(
    "Every rank runs each of its tasks once, forward before backward before weight gradient") {
  RandomShapes random(11);
  for (int i = 0; i < 3000; ++i) {
    const PipelineShape s = random.shape();
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    std::map<std::pair<std::int32_t, std::int32_t>, std::string> tasks;
    for (std::int64_t rank = 0; rank < s.pp; ++rank) {
      for (const Task& t : task_order(s, rank)) {
        REQUIRE(rank_of_chunk(s, t.chunk, t.microbatch % 2) == rank);
        tasks[{t.chunk, t.microbatch}] += "FBbw"[static_cast<std::size_t>(t.kind)];
      }
    }
    REQUIRE(tasks.size() == static_cast<std::size_t>(num_chunks(s) * s.microbatches));
    for (const auto& [where, kinds] : tasks) REQUIRE((kinds == "FB" || kinds == "Fbw"));
  }
}

TEST_CASE("Every rank holds its share of the chunks") {
  RandomShapes random(12);
  for (int i = 0; i < 500; ++i) {
    const PipelineShape s = random.shape();
    const bool both_ways = s.schedule == Schedule::kDualPipe;
    std::map<std::int64_t, std::int64_t> held;
    for (std::int64_t c = 0; c < num_chunks(s); ++c) {
      ++held[rank_of_chunk(s, c)];
      if (both_ways) ++held[rank_of_chunk(s, c, 1)];
    }
    REQUIRE(held.size() == static_cast<std::size_t>(s.pp));
    for (const auto& [rank, chunks] : held) REQUIRE(chunks == s.vp);
  }
}

TEST_CASE("Neighbouring chunks sit on the same or on neighbouring ranks") {
  RandomShapes random(13);
  for (int i = 0; i < 500; ++i) {
    const PipelineShape s = random.shape();
    for (std::int64_t c = 0; c + 1 < num_chunks(s); ++c) {
      const std::int64_t step = rank_of_chunk(s, c + 1) - rank_of_chunk(s, c);
      const bool around = s.schedule == Schedule::kInterleaved && step == 1 - s.pp;
      REQUIRE((around || (step >= -1 && step <= 1)));
    }
  }
}

struct Illegal {
  PipelineShape shape;
  std::string reason;
};

TEST_CASE("A shape that a schedule cannot run says why and what would be legal") {
  const auto row = GENERATE(values<Illegal>({
      {{Schedule::k1f1b, 4, 2, 8},
       "1f1b holds one chunk per rank, got vp=2; set vp=1 or schedule=interleaved"},
      {{Schedule::kInterleaved, 1, 2, 8}, "interleaved needs pp >= 2; set vp=1 and schedule=1f1b"},
      {{Schedule::kInterleaved, 4, 1, 8}, "interleaved needs vp >= 2; set vp=2 or schedule=1f1b"},
      {{Schedule::kInterleaved, 8, 2, 4},
       "interleaved needs a multiple of 'pp' 8 microbatches, got 4"},
      {{Schedule::kInterleaved, 4, 2, 8, 3},
       "interleaved needs a microbatch group of at least pp=4, got 3"},
      {{Schedule::kInterleaved, 4, 2, 10},
       "interleaved needs a multiple of 'pp' 4 microbatches, got 10"},
      {{Schedule::kInterleaved, 4, 2, 3, 6},
       "interleaved has a microbatch group of 6, more than all 3 microbatches"},
      {{Schedule::kInterleaved, 4, 2, 15, 6},
       "interleaved leaves a last group of 3 of 15 microbatches, less than pp=4; use 12 or 16 "
       "microbatches"},
      {{Schedule::kZbV, 4, 1, 8}, "zb-v holds two chunks per rank, got vp=1; set vp=2"},
      {{Schedule::kDualPipe, 4, 1, 8}, "dualpipe holds two chunks per rank, got vp=1; set vp=2"},
      {{Schedule::kVHalf, 4, 1, 8}, "v-half holds two chunks per rank, got vp=1; set vp=2"},
      {{Schedule::kDualPipe, 3, 2, 8},
       "dualpipe needs an even 'pp' and an even number of microbatches, 2 * pp or more; got pp 3 "
       "and 8 microbatches"},
      {{Schedule::kDualPipe, 4, 2, 6},
       "dualpipe needs an even 'pp' and an even number of microbatches, 2 * pp or more; got pp 4 "
       "and 6 microbatches"},
      {{Schedule::kDualPipe, 4, 2, 9},
       "dualpipe needs an even 'pp' and an even number of microbatches, 2 * pp or more; got pp 4 "
       "and 9 microbatches"},
      {{Schedule::kGpipe, 0, 1, 8},
       "pp, vp and the number of microbatches must be at least 1, the microbatch group at least 0"},
      {{Schedule::kInterleaved, 64, 64, 4096}, "pp * vp is more than 2048 chunks; lower pp or vp"},
      {{Schedule::kInterleaved, 2, 129, 4096}, "vp is more than 128 chunks per rank; lower it"},
      {{Schedule::k1f1b, 4, 1, std::int64_t{1} << 40},
       "more than 2^30 microbatches; raise micro_batch or dp"},
  }));
  CHECK(illegal_reason(row.shape) == row.reason);
  CHECK_THROWS_AS(task_order(row.shape, 0), std::logic_error);
}

TEST_CASE("Every advertised way out of a ragged last group is legal") {
  for (std::int64_t m = 4; m < 60; ++m) {
    for (std::int64_t group = 5; group < 12; ++group) {
      const PipelineShape s{Schedule::kInterleaved, 4, 3, m, group};
      if (group > m) {
        CHECK(illegal_reason(s).find("more than all") != std::string::npos);
        continue;
      }
      if (illegal_reason(s).empty()) continue;
      PipelineShape wider = s;
      wider.microbatches = m - m % group + (m % group < 4 ? 4 : 0);
      CAPTURE(m, group, illegal_reason(s));
      CHECK(illegal_reason(s).find(" or " + std::to_string(wider.microbatches)) !=
            std::string::npos);
      CHECK(illegal_reason(wider).empty());
    }
  }
}

}  // namespace
}  // namespace meshplan
