#include "probe/agenda.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "probe/backend.hpp"
#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

std::size_t count(const std::vector<Operation>& all, OperationKind kind) {
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const Operation& op) { return kind_of(op) == kind; }));
}

bool has(const std::vector<RankGroup>& all, const RankGroup& g) {
  return std::find(all.begin(), all.end(), g) != all.end();
}

TEST_CASE("the groups of two nodes of eight are those that training uses") {
  const std::vector<RankGroup> all = group_shapes(fake_machine(16, 8));
  CHECK(has(all, {.size = 8}));  // a whole node
  CHECK(has(all, {.size = 2}));  // parts of it
  CHECK(has(all, {.size = 4}));
  CHECK(has(all, {.size = 16}));                                   // everything
  CHECK(has(all, {.size = 2, .stride = 8, .concurrent = true}));   // data parallel, all at once
  CHECK(has(all, {.size = 2, .stride = 8, .concurrent = false}));  // one card of each node
  CHECK(has(all, {.size = 2, .stride = 4}));                       // strided inside the node
  CHECK(has(all, {.size = 4, .stride = 4}));  // data parallel beside tensor parallel halves
}

TEST_CASE("one rank has nothing to say to anybody") {
  CHECK(group_shapes(fake_machine(1, 1)).empty());
  const std::vector<Operation> all = agenda(fake_machine(1, 1), {});
  CHECK(count(all, OperationKind::kCollective) == 0);
  CHECK(count(all, OperationKind::kOverlap) == 0);
  CHECK(count(all, OperationKind::kGemm) > 0);
}

TEST_CASE("processors without an accelerator are measured for communication alone") {
  Machine m = fake_machine(2, 2);
  m.accelerator = false;
  const std::vector<Operation> all = agenda(m, {});
  CHECK(count(all, OperationKind::kCollective) == all.size());
  // Seven operations of 28 powers of two, 8 B to 1 GiB; groups of two have them all. Three
  // ping-pongs.
  CHECK(all.size() == 7 * 28 + 3);
}

TEST_CASE("every pair of ranks plays ping-pong, inside of a node and across") {
  std::vector<RankGroup> groups;
  for (const Operation& op : agenda(fake_machine(16, 8), {})) {
    const auto* c = std::get_if<CollectiveOperation>(&op);
    if (c != nullptr && c->ping_pong && c->bytes == Bytes{8}) groups.push_back(c->group);
  }
  CHECK(has(groups, {.size = 2}));
  CHECK(has(groups, {.size = 2, .stride = 8}));
}

TEST_CASE("what fills the device is a few large shapes of each precision") {
  std::size_t products = 0, attention = 0;
  const std::vector<Operation> all = agenda(fake_machine(1, 1), {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!fills_device(all[i])) continue;
    ++(kind_of(all[i]) == OperationKind::kGemm ? products : attention);
    CHECK(buffer_bytes(all[i]) > Bytes{kMiB});
  }
  CHECK(products == 3 * 3 * 3);  // shapes, layouts, precisions
  CHECK(attention == 2 * 2);     // lengths, both directions
  CHECK_FALSE(fills_device(GemmOperation{8192, 8192, 1024}));
  CHECK_FALSE(fills_device(CopyOperation{CopyDirection::kHostToDevice, Bytes{kGiB}}));
}

TEST_CASE("a short time is enough for every precision, layout and direction") {
  const std::vector<Operation> all =
      agenda(fake_machine(1, 1), {.kinds = {OperationKind::kGemm, OperationKind::kAttention}});
  std::set<std::pair<Precision, GemmLayout>> products;
  std::set<bool> directions;
  std::size_t needed = 0;
  for (; needed < all.size() && (products.size() < 9 || directions.size() < 2); ++needed) {
    const Operation& op = all[needed];
    if (const auto* g = std::get_if<GemmOperation>(&op)) {
      products.insert({g->precision, g->layout});
      CHECK((g->precision == Precision::kBf16 || !fills_device(op)));  // no steady runs of others
    } else {
      directions.insert(std::get<AttentionOperation>(op).backward);
    }
  }
  CHECK(products.size() == 9);
  CHECK(needed <= 40);  // of some 290
}

TEST_CASE("ranks that share one device are tested, not timed") {
  Machine m = fake_machine(2, 2);
  m.time_sliced = true;
  const std::vector<Operation> all = agenda(m, {});
  CHECK(count(all, OperationKind::kCollective) == all.size());
  CHECK_FALSE(all.empty());
}

TEST_CASE("everything on the agenda can be measured, once") {
  for (const auto& [ranks, per_node] :
       {std::pair{1, 1}, {2, 2}, {8, 8}, {16, 8}, {12, 8}, {6, 3}, {64, 4}}) {
    const Machine m = fake_machine(ranks, per_node);
    std::vector<Operation> all = agenda(m, {});
    for (const Operation& op : all) {
      INFO(describe(op));
      CHECK_FALSE(why_impossible(op, m));
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 200); ++i) {
      CHECK(std::count(all.begin(), all.end(), all[i]) == 1);
    }
  }
}

TEST_CASE("small, middle and large messages come before the sizes between them") {
  Machine m = fake_machine(2, 2);
  m.accelerator = false;
  const std::vector<Operation> all = agenda(m, {});
  std::vector<std::int64_t> first;
  for (std::size_t i = 0; i < all.size() / 4; ++i) {
    const auto& c = std::get<CollectiveOperation>(all[i]);
    if (c.collective == Collective::kAllReduce) first.push_back(c.bytes.count());
  }
  CHECK(first == std::vector<std::int64_t>{8, 128, 2048, 32768, 524288, 8388608, 134217728});
}

TEST_CASE("kinds and sizes can be chosen") {
  const std::vector<Operation> gemms =
      agenda(fake_machine(8, 8), {.kinds = {OperationKind::kGemm}});
  CHECK(count(gemms, OperationKind::kGemm) == gemms.size());
  const std::vector<Operation> small =
      agenda(fake_machine(2, 2), {.kinds = {OperationKind::kCollective}, .largest = Bytes{1024}});
  for (const Operation& op : small) CHECK(std::get<CollectiveOperation>(op).bytes <= Bytes{1024});
}

TEST_CASE("a linear layer's three products do the same work") {
  const std::vector<GemmOperation> all = gemm_agenda(Precision::kBf16);
  REQUIRE(all.size() % 3 == 0);
  for (std::size_t i = 0; i < all.size(); i += 3) {
    CHECK(all[i].m * all[i].n * all[i].k == all[i + 1].m * all[i + 1].n * all[i + 1].k);
    CHECK(all[i].m * all[i].n * all[i].k == all[i + 2].m * all[i + 2].n * all[i + 2].k);
    CHECK(all[i + 1].k == all[i].n);
    CHECK(all[i + 2].k == all[i].m);
  }
}

}  // namespace
}  // namespace meshplan
