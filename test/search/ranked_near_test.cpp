// Which of the plans after the best one are proved to be in their places.
#include <cmath>

#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "search/rivals.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

SearchResult ranked_plans(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request) {
  Result<SearchResult> result = search(m, c, request);
  REQUIRE(result.ok());
  return std::move(result).value();
}

}  // namespace

TEST_CASE("of a large search the plans near the best one are ranked, and no others") {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  const auto model = load_model("llama-3.1-70b", data);
  auto cluster = load_cluster("dgx-h100", data);
  REQUIRE(model.ok());
  REQUIRE(cluster.ok());
  const ClusterSpec c = with_gpus(*cluster, 512);
  SearchRequest request;
  request.space = Space::kFull;
  request.base = framework_preset(Framework::kMegatron);
  request.base.global_batch = 384, request.base.seq_len = 4096;
  request.threads = 1;
  request.top = 15;
  const SearchResult near = ranked_plans(*model, c, request);
  REQUIRE(near.proof.exact);
  REQUIRE(near.plans.size() == request.top);
  const double to = near.proof.ranked_to, best = near.plans.front().step_time.si();
  REQUIRE(std::isfinite(to));
  CHECK(to >= best);
  CHECK(near.plans.back().step_time.si() > to);
  CHECK(near.proof.statement.find("best that were met") != std::string::npos);

  // Everything as good as that, found for itself.
  request.cutoff = to;
  request.plans_only = true;
  const SearchResult all = ranked_plans(*model, c, request);
  REQUIRE(all.plans.size() <= near.plans.size());
  for (std::size_t i = 0; i < all.plans.size(); ++i) {
    CHECK(near.plans[i].strategy == all.plans[i].strategy);
  }
  CHECK(near.plans[all.plans.size()].step_time.si() > to);
}
