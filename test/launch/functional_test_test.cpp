// Megatron-LM's functional tests as argument lists.
#include "launch/functional_test.hpp"

#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view kTest = R"(ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
TEST_TYPE: ckpt-resume
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --seq-length: 1024
  --max-position-embeddings: 1024
  --micro-batch-size: 4
  --global-batch-size: 32
  --tensor-model-parallel-size: 2
  --bf16: true
  --fp8-param-gather: false
  --recompute-granularity: selective
  --recompute-modules: "[layernorm mlp]"
  --data-path: ${DATA_PATH}/my-gpt3_00_text_document
  --bf16: true
)";

Result<MegatronRun> read_test(std::string text) {
  const Result<NamedText> list = functional_test_arguments({"model_config.yaml", std::move(text)});
  if (!list) return list.errors();
  return read_megatron_run(list->text, list->name, {.gpus = 8});
}

std::string test_errors(std::string text) {
  const Result<MegatronRun> run = read_test(std::move(text));
  return run ? "none" : to_text(run.errors());
}

std::string changed(std::string_view from, std::string_view to) {
  std::string text(kTest);
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a functional test of Megatron-LM is read as its arguments") {
  CHECK(is_functional_test(kTest));
  CHECK_FALSE(is_functional_test("--num-layers 12"));
  const Result<MegatronRun> run = read_test(std::string(kTest));
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.num_layers == 12);
  const Strategy& s = run->strategy;
  CHECK(s.tp == 2);
  CHECK(s.dp == 4);
  CHECK(s.global_batch == 32);
  CHECK(s.precision == Precision::kBf16);
  CHECK(s.recompute_modules.has(RecomputeModule::kLayernorm));
  CHECK(s.recompute_modules.has(RecomputeModule::kMlp));
  CHECK_FALSE(s.recompute_modules.has(RecomputeModule::kMoe));
}

TEST_CASE("what is wrong in a functional test is said in its line") {
  CHECK_THAT(test_errors(changed("--num-layers: 12", "--num-layers: twelve")),
             Contains("model_config.yaml:5"));
  CHECK_THAT(test_errors(changed("--seq-length", "--seq-lenght")), Contains("--seq-lenght"));
  CHECK_THAT(test_errors(changed("--global-batch-size: 32", "--micro-batch-size: 8")),
             Contains("appears twice"));
  CHECK_THAT(test_errors(changed("TEST_TYPE: ckpt-resume", "MODE: inference")),
             Contains("mode is 'inference'"));
  CHECK_THAT(test_errors("MODEL_ARGS: 3\n"), Contains("must be a section of options"));
  CHECK_THAT(test_errors(changed("--hidden-size: 512", "--hidden-size: {a: 1}")),
             Contains("not a section"));
}
