#include "study/default_space.hpp"

#include "io/limits.hpp"
#include "search/cases.hpp"
#include "study/sweep.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

Case case_of(std::string_view framework, const char* fixed) {
  Case c;
  c.model = small_model(4, 2048);
  c.cluster = small_cluster(2, 4, Bytes{16 * kGiB});
  c.request.base = shipped_strategy(framework);
  c.request.base.global_batch = 16, c.request.base.seq_len = 4096;
  Result<std::vector<Limit>> limits = parse_limits(fixed, "--fix");
  REQUIRE(limits.ok());
  c.request.limits = std::move(limits).value();
  return c;
}

DefaultSpace space_of_case(const Case& c, std::vector<std::int64_t> sizes = {}) {
  return default_space(c.model, c.cluster, c.request, sizes);
}

}  // namespace

TEST_CASE("what is searched unless told is what the framework's exporter accepts") {
  CHECK(space_of_case(case_of("megatron", "pp=2")).space == Space::kMegatron);
  CHECK(space_of_case(case_of("fsdp", "zero=3")).space == Space::kFsdp);
  CHECK(space_of_case(case_of("fsdp", "zero=3")).why_full.empty());
}

TEST_CASE("what no exporter accepts is searched among everything that is legal, and said") {
  const Case c = case_of("megatron", "pp=2,schedule=zb-h1");
  const DefaultSpace found = space_of_case(c);
  CHECK(found.space == Space::kFull);
  CHECK(found.why_full.find("megatron's exporter accepts no plan of this") != std::string::npos);
  // One size of several on which something is accepted is enough.
  const Case wide = case_of("megatron", "tp=4");
  CHECK(space_of_case(wide, {1, 2}).space == Space::kFull);
  CHECK(space_of_case(wide, {1, 4}).space == Space::kMegatron);
}

TEST_CASE("sizes of interest double within a node, then in nodes, and end with the cluster") {
  CHECK(every_size(small_cluster(6, 8, Bytes{kGiB})) ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 48});
  CHECK(every_size(small_cluster(1, 2, Bytes{kGiB})) == std::vector<std::int64_t>{1, 2});
}
