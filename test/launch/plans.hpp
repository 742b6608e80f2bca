#pragma once
// Plans for the launch tests.
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "launch/launch.hpp"
#include "support/catch.hpp"

namespace meshplan::test {

inline ModelSpec shipped_model(const std::string& name) {
  return load_model(name, DataFolders::standard()).value();
}

inline ClusterSpec shipped_cluster(const std::string& name, std::int64_t gpus) {
  return with_gpus(load_cluster(name, DataFolders::standard()).value(), gpus);
}

// `keys` as --strategy takes them, complete.
inline LaunchPlan plan_of(const std::string& model, const std::string& cluster, std::int64_t gpus,
                          const std::string& keys) {
  LaunchPlan p{shipped_model(model), shipped_cluster(cluster, gpus), {}};
  Strategy defaults = framework_preset(Framework::kMegatron);
  defaults.seq_len = 4096;
  defaults.global_batch = 512;
  p.strategy = complete(load_strategy(keys, defaults).value(), p.model, p.cluster);
  INFO(to_text(validate(p.strategy, p.model, p.cluster)));
  REQUIRE(!has_errors(validate(p.strategy, p.model, p.cluster)));
  return p;
}

}  // namespace meshplan::test
