#include "probe/operation.hpp"

#include "support/catch.hpp"
#include "support/group_members.hpp"

namespace meshplan {
namespace {

using test::members_of;

TEST_CASE("groups are the axes of a rank order") {
  // 8 ranks: pairs two apart are {0,2} {1,3} {4,6} {5,7}, as dp=2 over tp=2 within pp=2.
  const RankGroup pairs{.size = 2, .stride = 2};
  CHECK(members_of(pairs, 0, 8) == std::vector<std::int64_t>{0, 2});
  CHECK(members_of(pairs, 1, 8) == std::vector<std::int64_t>{1, 3});
  CHECK(members_of(pairs, 2, 8) == std::vector<std::int64_t>{4, 6});
  CHECK(members_of(pairs, 3, 8) == std::vector<std::int64_t>{5, 7});
  CHECK(members_of(pairs, 4, 8).empty());
  CHECK(place_of(pairs, 6, 8) == GroupPlace{2, 1});
}

TEST_CASE("ranks beyond the last whole block are idle") {
  const RankGroup threes{.size = 3, .stride = 1};
  CHECK(place_of(threes, 5, 8) == GroupPlace{1, 2});
  CHECK(place_of(threes, 6, 8).group == -1);
  CHECK(place_of(threes, 7, 8).group == -1);
}

TEST_CASE("runs of members, as cp=2 and dp=2 with pp=2 between them") {
  // Ranks of 16: tp=2 innermost, then cp, pp, dp.
  const RankGroup g{.size = 4, .stride = 2, .run = 2, .jump = 8};
  CHECK(members_of(g, 0, 16) == std::vector<std::int64_t>{0, 2, 8, 10});
  CHECK(members_of(g, 1, 16) == std::vector<std::int64_t>{1, 3, 9, 11});
  CHECK(members_of(g, 2, 16) == std::vector<std::int64_t>{4, 6, 12, 14});
  CHECK(members_of(g, 3, 16) == std::vector<std::int64_t>{5, 7, 13, 15});
  CHECK(place_of(g, 12, 16) == GroupPlace{2, 2});
  CHECK(reach_of(g) == 11);
  CHECK(describe(CollectiveOperation{.bytes = Bytes{kMiB}, .group = g}) ==
        "all-reduce of 1.00 MiB bf16 in groups of 4 as runs of 2, stride 2, 8 apart");
  // A second job's worth of ranks makes groups of its own.
  CHECK(members_of(g, 4, 32) == std::vector<std::int64_t>{16, 18, 24, 26});
}

TEST_CASE("groups within periods: the first and the last stage of pipelines of three") {
  const RankGroup ends{.size = 2, .stride = 4, .period = 6};  // two ranks per stage
  CHECK(members_of(ends, place_of(ends, 0, 12).group, 12) == std::vector<std::int64_t>{0, 4});
  CHECK(members_of(ends, place_of(ends, 11, 12).group, 12) == std::vector<std::int64_t>{7, 11});
  for (const std::int64_t middle : {2, 3, 8, 9}) CHECK(place_of(ends, middle, 12).group == -1);
  // Neighbours: the third stage has none left.
  const RankGroup pairs{.size = 2, .stride = 2, .period = 6};
  CHECK(members_of(pairs, 0, 12) == std::vector<std::int64_t>{0, 2});
  CHECK(place_of(pairs, 4, 12).group == -1);
  CHECK(place_of(pairs, 6, 12).group >= 0);
  CHECK(place_of(pairs, 6, 12).group != place_of(pairs, 0, 12).group);
}

TEST_CASE("groups that no job can have") {
  CHECK_FALSE(malformed({.size = 4, .stride = 2, .run = 2, .jump = 8}));
  CHECK(malformed({.size = 0}));
  CHECK(malformed({.size = 2, .stride = 0}));
  CHECK(malformed({.size = 4, .run = 3, .jump = 8}));               // no whole runs
  CHECK(malformed({.size = 4, .stride = 2, .run = 2, .jump = 2}));  // runs lie over each other
  CHECK(malformed({.size = 4, .stride = 2, .run = 2, .jump = 6}));
  CHECK(malformed({.size = 4, .jump = 6}));
  CHECK(malformed({.size = 4, .period = 3}));
  CHECK(malformed({.size = INT64_MAX, .stride = INT64_MAX}));
  CHECK(place_of({.size = 4, .run = 3, .jump = 8}, 0, 100).group == -1);
}

TEST_CASE("without siblings only the first group talks") {
  const RankGroup alone{.size = 2, .stride = 4, .concurrent = false};
  CHECK(place_of(alone, 4, 8) == GroupPlace{0, 1});
  CHECK(place_of(alone, 1, 8).group == -1);
}

TEST_CASE("every rank of a whole job is in exactly one group") {
  const RankGroup g =
      GENERATE(RankGroup{.size = 4, .stride = 1}, RankGroup{.size = 4, .stride = 4},
               RankGroup{.size = 2, .stride = 8}, RankGroup{.size = 16, .stride = 1});
  std::vector<int> seen(16, 0);
  for (std::int64_t group = 0; group < 16 / g.size; ++group) {
    const auto members = members_of(g, group, 16);
    CHECK(static_cast<std::int64_t>(members.size()) == g.size);
    for (std::size_t i = 0; i < members.size(); ++i) {
      ++seen[static_cast<std::size_t>(members[i])];
      CHECK(place_of(g, members[i], 16).member == static_cast<std::int64_t>(i));
    }
  }
  CHECK(seen == std::vector<int>(16, 1));
}

TEST_CASE("an operation says what it is in one line") {
  CHECK(
      describe(CollectiveOperation{.bytes = Bytes{16 * kMiB}, .group = {.size = 2, .stride = 8}}) ==
      "all-reduce of 16.0 MiB bf16 in groups of 2, stride 8");
  CHECK(describe(GemmOperation{.m = 4096, .n = 1024, .k = 512}) ==
        "forward gemm 4096x1024x512 bf16");
  CHECK(describe(AttentionOperation{.batch = 1,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .queries = 4096,
                                    .keys = 4096,
                                    .qk_dim = 128,
                                    .v_dim = 128}) ==
        "causal attention forward batch 1, 32 heads (8 of keys), 4096x4096 tokens, head size 128 "
        "bf16");
}

TEST_CASE("traffic of memory-bound kernels, by hand") {
  // 10 rows of 100 features in bf16: 1000 elements.
  const auto bytes = [](MemoryKernel kernel) {
    return traffic({.kernel = kernel, .rows = 10, .columns = 100}).count();
  };
  CHECK(bytes(MemoryKernel::kResidual) == 6000);  // two reads, one write
  CHECK(bytes(MemoryKernel::kGatedActivation) == 6000);
  CHECK(bytes(MemoryKernel::kGatedActivationBackward) == 10000);
  CHECK(bytes(MemoryKernel::kRmsNorm) == 4000 + 200 + 40);  // x, y, weights, statistics
  CHECK(bytes(MemoryKernel::kAdam) ==
        30 * 1000);  // gradient 4, three fp32 states both ways, copy 2
  CHECK(bytes(MemoryKernel::kCast) == 6000);
  CHECK(bytes(MemoryKernel::kFill) == 2000);
}

}  // namespace
}  // namespace meshplan
