#include "study/default_space.hpp"

#include "study/fixed_case.hpp"
#include "study/sweep.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

DefaultSpace space_of_case(const Case& c, std::vector<std::int64_t> sizes = {}) {
  return default_space(c.model, c.cluster, c.request, sizes);
}

}  // namespace

TEST_CASE("what is searched unless told is what the framework's exporter accepts") {
  CHECK(space_of_case(fixed_case(4, "megatron", "pp=2")).space == Space::kMegatron);
  CHECK(space_of_case(fixed_case(4, "fsdp", "zero=3")).space == Space::kFsdp);
  CHECK(space_of_case(fixed_case(4, "fsdp", "zero=3")).why_full.empty());
}

TEST_CASE("what no exporter accepts is searched among everything that is legal, and said") {
  const Case c = fixed_case(4, "megatron", "pp=2,schedule=zb-h1");
  const DefaultSpace found = space_of_case(c);
  CHECK(found.space == Space::kFull);
  CHECK(found.why_full.find("megatron's exporter accepts no plan of this") != std::string::npos);
  // One size of several on which something is accepted is enough.
  const Case wide = fixed_case(4, "megatron", "tp=4");
  CHECK(space_of_case(wide, {1, 2}).space == Space::kFull);
  CHECK(space_of_case(wide, {1, 4}).space == Space::kMegatron);
}

TEST_CASE("sizes of interest double within a node, then in nodes, and end with the cluster") {
  CHECK(every_size(small_cluster(6, 8, Bytes{kGiB})) ==
        std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 48});
  CHECK(every_size(small_cluster(1, 2, Bytes{kGiB})) == std::vector<std::int64_t>{1, 2});
}
