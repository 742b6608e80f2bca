// How Megatron-LM's tokens reach their experts, and in which order its pipeline works.
#include "launch/megatron_reading.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;
using test::small_run;

bool is_assumed(const MegatronRun& run, std::string_view key) {
  return std::any_of(run.assumed.begin(), run.assumed.end(),
                     [&](const auto& assumed) { return assumed.what == key; });
}

}  // namespace

TEST_CASE("tokens are gathered where Megatron-LM is told nothing else") {
  const std::string mixture = "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 ";
  struct Row {
    const char* options;
    bool gathers, flex, assumed;
  };
  const auto row = GENERATE(values<Row>({
      {"", true, false, true},
      {"--moe-token-dispatcher-type allgather", true, false, false},
      {"--moe-token-dispatcher-type alltoall", false, false, false},
      {"--moe-token-dispatcher-type alltoall_seq", false, false, false},
      {"--moe-token-dispatcher-type flex", false, true, false},
      {"--moe-token-dispatcher-type flex --moe-enable-deepep", false, true, false},
  }));
  INFO(row.options);
  const MegatronRun run = small_run(mixture + row.options);
  CHECK(run.strategy.runtime.allgather_dispatcher == row.gathers);
  CHECK(run.strategy.runtime.flex_dispatcher == row.flex);
  CHECK(is_assumed(run, "kernels.allgather_dispatcher") == row.assumed);
}

TEST_CASE("without ranks that share experts no dispatcher is another") {
  const MegatronRun alone = small_run("--num-experts 8 --moe-router-topk 2");
  CHECK_FALSE(alone.strategy.runtime.allgather_dispatcher);
  CHECK_FALSE(is_assumed(alone, "kernels.allgather_dispatcher"));
  CHECK_FALSE(small_run("").strategy.runtime.allgather_dispatcher);
}

TEST_CASE("tokens beside shared experts are read") {
  CHECK(small_run("--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 "
                  "--moe-token-dispatcher-type alltoall --moe-shared-expert-intermediate-size 1024 "
                  "--moe-shared-expert-overlap")
            .strategy.overlap.shared_experts);
}

TEST_CASE("what experts take at most is read, of models that have experts") {
  const std::string mixture =
      "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 4 "
      "--moe-token-dispatcher-type alltoall ";
  const auto factor = [&](const std::string& options) {
    return small_run(options).strategy.runtime.expert_capacity_factor;
  };
  CHECK(factor(mixture) == 0);
  CHECK(factor(mixture + "--moe-expert-capacity-factor 1.25") == 1.25);
  CHECK(factor(mixture + "--moe-expert-capacity-factor -1") == 0);
  CHECK(factor("--moe-expert-capacity-factor 1.25") == 0);
  const std::string pads = "--moe-pad-expert-input-to-capacity ";
  CHECK_FALSE(small_run(mixture + pads).strategy.runtime.pad_to_capacity);
  CHECK(small_run(mixture + pads + "--moe-expert-capacity-factor 1")
            .strategy.runtime.pad_to_capacity);
}

TEST_CASE("[F-MOE-5] losses do not balance every rank's load of every step") {
  const std::string mixture = "--num-experts 8 --moe-router-topk 2 ";
  const MegatronRun run = small_run(mixture + "--moe-router-load-balancing-type aux_loss");
  CHECK(run.model.moe.value().imbalance == 1.25);
  CHECK(is_assumed(run, "moe.imbalance"));
  for (const char* balanced :
       {"--moe-router-force-load-balancing",
        "--moe-router-score-function sigmoid --moe-router-enable-expert-bias"}) {
    CHECK(small_run(mixture + balanced).model.moe.value().imbalance == 1);
  }
}

TEST_CASE("deferred weight gradients of the output layer are read with their limit") {
  const MegatronRun run = small_run(
      "--pipeline-model-parallel-size 2 --defer-embedding-wgrad-compute --wgrad-deferral-limit 3");
  CHECK(run.strategy.runtime.defer_embedding_wgrad_compute);
  CHECK(run.strategy.runtime.wgrad_deferral_limit == 3);
  CHECK_FALSE(small_run("").strategy.runtime.defer_embedding_wgrad_compute);
}

TEST_CASE("groups of microbatches are read where they are others than pp") {
  const std::string interleaved =
      "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
      "--microbatch-group-size-per-virtual-pipeline-stage ";
  CHECK(small_run(interleaved + "2").strategy.runtime.microbatch_group_size == 0);
  CHECK(small_run(interleaved + "4").strategy.runtime.microbatch_group_size == 4);
  CHECK(small_run("--pipeline-model-parallel-size 2 "
                  "--microbatch-group-size-per-virtual-pipeline-stage 4")
            .strategy.runtime.microbatch_group_size == 0);
}

TEST_CASE("scores in fp32 are named where no fused kernel makes them") {
  const auto named = [](const std::string& options) {
    const std::vector<std::string> notes =
        small_run("--attention-softmax-in-fp32 " + options).notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.find("fp32 copies of scores") != std::string::npos;
    });
  };
  CHECK_FALSE(named(""));
  CHECK_FALSE(named("--attention-backend unfused"));
  CHECK(named("--attention-backend unfused --no-masked-softmax-fusion"));
}

TEST_CASE("all are exported as they were, to Megatron-LM and to Megatron-Bridge") {
  struct Row {
    const char* model;
    const char* keys;
    std::vector<const char*> read;  // keys
  };
  const Row row =
      GENERATE(Row{"mixtral-8x7b",
                   "ep=8,kernels.flex_dispatcher=false,kernels.allgather_dispatcher=true",
                   {"kernels.flex_dispatcher", "kernels.allgather_dispatcher"}},
               Row{"mixtral-8x7b",
                   "ep=8,runtime.expert_capacity_factor=1.25,runtime.pad_to_capacity=true",
                   {"runtime.expert_capacity_factor", "runtime.pad_to_capacity"}},
               Row{"deepseek-v3",
                   "ep=8,pp=4,recompute=full,overlap.shared_experts=true",
                   {"overlap.shared_experts"}},
               Row{"llama-3.1-70b",
                   "tp=4,pp=4,sequence_parallel=true,runtime.defer_embedding_wgrad_compute=true,"
                   "runtime.wgrad_deferral_limit=22",
                   {"runtime.defer_embedding_wgrad_compute", "runtime.wgrad_deferral_limit"}},
               Row{"llama-3.1-70b",
                   "tp=4,pp=4,sequence_parallel=true,runtime.defer_embedding_wgrad_compute=true",
                   {"runtime.defer_embedding_wgrad_compute", "runtime.wgrad_deferral_limit"}});
  INFO(row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-h100",
                               std::string_view(row.model) == "deepseek-v3" ? 256 : 64, row.keys);
  const Result<MegatronRun> run =
      read_megatron_run(arguments_text(p, megatron_command(p)), "train.sh");
  REQUIRE(run.ok());
  for (const char* key : row.read)
    CHECK(value_text(run->strategy, key) == value_text(p.strategy, key));
  CHECK_FALSE(is_assumed(*run, "kernels.allgather_dispatcher"));
}

}  // namespace meshplan
