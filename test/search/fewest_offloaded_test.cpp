// Plans that send the activations of some layers to the host.
#include "search/fewest_offloaded.hpp"

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

TEST_CASE("[F-SEARCH-22] the fewest layers that fit are found by halving") {
  for (std::int64_t layers = 1; layers <= 20; ++layers) {
    for (std::int64_t least = 1; least <= layers; ++least) {
      const std::int64_t found =
          fewest_offloaded(layers, [&](std::int64_t n) { return n >= least; });
      CHECK(found == (least < layers ? least : 0));
    }
  }
}

TEST_CASE("[F-SEARCH-22] a plan offloads no layer more than it must") {
  // Sixteen layers on each of two devices, which hold about half of what they save.
  const ModelSpec m = small_model(16, 2048);
  SearchRequest request;
  request.base = framework_preset(Framework::kMegatron);
  request.base.global_batch = 8, request.base.seq_len = 4096;
  request.limits = {only("offload.activations", {"true"}), only("offload.optimizer", {"false"}),
                    only("micro_batch", {"1"}), only("dp", {"2"})};
  request.memory_risk = 1;
  std::int64_t some = 0;
  for (std::int64_t gib = 4; gib <= 24; ++gib) {
    CAPTURE(gib);
    ClusterSpec c = small_cluster(1, 2, Bytes{gib * kGiB});
    c.host_memory = Bytes{512 * kGiB};
    const auto result = search(m, c, request);
    INFO((result.ok() ? "" : result.errors().front().message));
    REQUIRE(result.ok());
    if (result->plans.empty()) continue;
    Strategy s = result->plans.front().strategy;
    const std::int64_t layers = s.offload.activation_layers;
    if (layers == 0) continue;  // all of them
    ++some;
    CHECK(evaluate(m, c, s).feasible());
    if (layers == 1) continue;
    s.offload.activation_layers = layers - 1;
    CHECK_FALSE(evaluate(m, c, s).feasible());
    // As many as are asked for.
    SearchRequest asked = request;
    asked.base.offload.activation_layers = layers + 1;
    asked.limits.push_back(only("offload.activation_layers", {std::to_string(layers + 1)}));
    const auto stated = search(m, c, asked);
    REQUIRE(stated.ok());
    REQUIRE_FALSE(stated->plans.empty());
    CHECK(stated->plans.front().strategy.offload.activation_layers == layers + 1);
  }
  CHECK(some > 2);
}
