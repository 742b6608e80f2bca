#include "study/reshard.hpp"

#include "support/catch.hpp"
#include "support/presets.hpp"

using namespace meshplan;

namespace {

Strategy sixteen(std::string_view framework) {
  Strategy s = shipped_strategy(framework);
  s.tp = 2, s.pp = 2, s.dp = 4, s.global_batch = 16;
  s.stage_layers = {4, 4};
  s.zero = 1;
  return s;
}

}  // namespace

TEST_CASE("what sets no shards changes no checkpoint") {
  const Strategy from = sixteen("megatron");
  Strategy to = from;
  to.micro_batch = 2, to.recompute = Recompute::kFull, to.recompute_layers = {1, 1};
  to.sequence_parallel = true, to.global_batch = 32;
  const Reshard r = reshard(from, to);
  CHECK(r.kind == ReshardKind::kUnchanged);
  CHECK(r.keys.empty());
  CHECK(r.how.empty());
}

// As many ranks share the optimizer states: dp * cp.
TEST_CASE("context ranks share states as data-parallel ranks do") {
  const Strategy from = sixteen("megatron");
  Strategy to = from;
  to.dp = 2, to.cp = 2;
  CHECK(reshard(from, to).kind == ReshardKind::kUnchanged);
}

TEST_CASE("without ZeRO the number of replicas cuts nothing") {
  Strategy from = sixteen("nanotron");
  from.zero = 0;
  Strategy to = from;
  to.dp = 2;
  CHECK(reshard(from, to).kind == ReshardKind::kUnchanged);
}

TEST_CASE("each framework's own words on replicas and on model parallelism") {
  struct Row {
    const char* framework;
    ReshardKind replicas, model;
  };
  const Row row = GENERATE(
      // Megatron Core, dist_checkpointing: dp_reshardable by default, fully_reshardable on demand.
      Row{"megatron", ReshardKind::kAtLoad, ReshardKind::kOption},
      // Universal checkpoints are converted on demand (2406.18820).
      Row{"deepspeed", ReshardKind::kConverted, ReshardKind::kConverted},
      Row{"megatron-deepspeed", ReshardKind::kConverted, ReshardKind::kConverted},
      // torch.distributed.checkpoint handles load-time resharding.
      Row{"fsdp", ReshardKind::kAtLoad, ReshardKind::kAtLoad},
      Row{"torchtitan", ReshardKind::kAtLoad, ReshardKind::kAtLoad},
      Row{"llm-foundry", ReshardKind::kAtLoad, ReshardKind::kAtLoad},
      // load_optimizer merges shards only if tp or pp differ.
      Row{"nanotron", ReshardKind::kNo, ReshardKind::kAtLoad},
      // components.py asserts equal sizes.
      Row{"internevo", ReshardKind::kNo, ReshardKind::kNo},
      Row{"megatron-v2", ReshardKind::kAtLoad, ReshardKind::kConverted},
      // Universal checkpoints came later.
      Row{"deepspeed-v0", ReshardKind::kNo, ReshardKind::kNo});
  CAPTURE(row.framework);
  const Strategy from = sixteen(row.framework);
  Strategy fewer = from;
  fewer.dp = 2;
  const Reshard replicas = reshard(from, fewer);
  CHECK(replicas.kind == row.replicas);
  CHECK(replicas.keys == std::vector<std::string>{"dp"});
  CHECK_FALSE(replicas.source.empty());
  Strategy narrower = from;
  narrower.tp = 1, narrower.dp = 4;
  const Reshard model = reshard(from, narrower);
  CHECK(model.kind == row.model);
  CHECK(model.keys.front() == "tp");
  CHECK_FALSE(model.how.empty());
  CHECK_FALSE(model.source.empty());
}

TEST_CASE("layers that move between pipeline ranks move between files") {
  const Strategy from = sixteen("internevo");
  Strategy to = from;
  to.stage_layers = {3, 5};
  CHECK(reshard(from, to).keys == std::vector<std::string>{"stage_layers"});
  to = from;
  to.vp = 2;
  CHECK(reshard(from, to).keys == std::vector<std::string>{"vp"});
}
