// Layouts whose ranks' layers are not spread evenly over their chunks.
#include "cost/chunks.hpp"
#include "launch/megatron_reading.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;
using List = std::vector<std::int64_t>;

MegatronRun with_layout(const std::string& layers, const std::string& layout) {
  RunContext context;
  context.gpus = 8;
  const Result<MegatronRun> run =
      read_megatron_run("--num-layers " + layers +
                            " --hidden-size 512 --num-attention-heads 8 --bf16 "
                            "--pipeline-model-parallel-size 2 --global-batch-size 32 "
                            "--pipeline-model-parallel-layout '" +
                            layout + "'",
                        "a.sh", context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  return *run;
}

}  // namespace

TEST_CASE("a layout's chunks are kept where they are not what a rank's layers give anyway") {
  // The first chunk holds three layers beside the embedding, the last one only the loss.
  const MegatronRun run = with_layout("15", "Et*3|(tt|)*6L");
  CHECK(run.strategy.stage_layers == List{9, 6});
  CHECK(run.strategy.chunk_layers == List{3, 2, 2, 2, 2, 2, 2, 0});
  CHECK(run.strategy.vp == 4);
  List layers;
  Strategy s = run.strategy;
  s.recompute_layers = {0, 0};
  for (const Chunk& chunk : chunk_plan(run.model, s)) layers.push_back(chunk.layers);
  CHECK(layers == run.strategy.chunk_layers);
  CHECK(with_layout("14", "Et|(tt|)*6tL").strategy.chunk_layers.empty());
  CHECK(with_layout("14", "Et*7|t*7L").strategy.chunk_layers.empty());  // one chunk a rank
}

TEST_CASE("so are those of a hybrid's pattern") {
  const MegatronRun run = test::small_run(
      "--hybrid-layer-pattern 'M*M|MM|M-|M-M*' --pipeline-model-parallel-size 2 "
      "--global-batch-size 32");
  CHECK(run.strategy.vp == 2);
  CHECK(run.strategy.stage_layers == List{5, 6});
  CHECK(run.strategy.chunk_layers == List{3, 2, 2, 4});
}

TEST_CASE("such chunks are exported as a layout and read again") {
  const LaunchPlan p =
      plan_of("llama-2-7b", "dgx-h100", 8,
              "pp=2,vp=2,schedule=interleaved,stage_layers=[16,16],chunk_layers=[10,8,6,8],dp=4");
  const LaunchCommand command = megatron_command(p);
  const Result<MegatronRun> run = read_megatron_run(arguments_text(p, command), "train.sh");
  REQUIRE(run.ok());
  CHECK(run->strategy.stage_layers == List{16, 16});
  CHECK(value_text(run->strategy, "chunk_layers") == "[10,8,6,8]");
}

}  // namespace meshplan
