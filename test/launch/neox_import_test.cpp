// GPT-NeoX's configurations, written as its own are.
#include "launch/neox_import.hpp"

#include <array>

#include "launch/detect.hpp"
#include "model/parameters.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view k20b = R"({
  "pipe-parallel-size": 4,
  "model-parallel-size": 2,
  "num-layers": 44,
  "hidden-size": 6144,
  "num-attention-heads": 64,
  "seq-length": 2048,
  "max-position-embeddings": 2048,
  "norm": "layernorm",
  "pos-emb": "rotary",
  "rotary-pct": 0.25,
  "no-weight-tying": true,
  "gpt-j-residual": true,
  "output-layer-parallelism": "column",
  "scaled-upper-triang-masked-softmax-fusion": true,
  "tokenizer_type": "HFTokenizer",
  # the optimizer
  "optimizer": {"type": "Adam", "params": {"lr": 0.97e-4, "betas": [0.9, 0.95],}},
  "zero_optimization": {"stage": 1, "allgather_partitions": True, "overlap_comm": True, "reduce_bucket_size": 5e8,},
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 32,
  "checkpoint-activations": true,
  "partition-activations": false,
  "hidden-dropout": 0,
  "attention-dropout": 0,
  "fp16": {"enabled": true, "loss_scale": 0,},
  "train-iters": 150000,
})";

Result<SettingsRun> neox(std::string text, const RunContext& context = {.gpus = 96}) {
  const NamedText file{"20B.yml", std::move(text)};
  return read_neox_run({&file, 1}, context);
}

std::string with(std::string_view from, std::string_view to) {
  std::string text(k20b);
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string neox_errors(std::string text) {
  const Result<SettingsRun> run = neox(std::move(text));
  return run ? "none" : to_text(run.errors());
}

}  // namespace

TEST_CASE("the configuration of GPT-NeoX-20B") {
  const NamedText file{"20B.yml", std::string(k20b)};
  const auto target = detect_target({&file, 1}, {});
  REQUIRE(target);
  CHECK(*target == Target::kDeepspeed);
  const Result<SettingsRun> run = neox(std::string(k20b));
  if (!run) FAIL(to_text(run.errors()));
  // Model card of EleutherAI/gpt-neox-20b.
  CHECK(parameter_count(run->model).total == 20'554'567'680);
  const Strategy& s = run->strategy;
  CHECK(s.framework == Framework::kMegatronDeepspeed);
  CHECK(s.pp == 4);
  CHECK(s.tp == 2);
  CHECK(s.dp == 12);
  CHECK(s.micro_batch == 4);
  CHECK(s.global_batch == 4 * 32 * 12);
  CHECK(s.zero == 1);
  CHECK(s.precision == Precision::kFp16);
  CHECK(s.recompute == Recompute::kFull);
  CHECK_FALSE(s.flash_attention);
  CHECK(s.overlap.grad_reduce);
}

TEST_CASE("a gated feed-forward of GPT-NeoX takes a third each of what is stated") {
  // configs/llama/7B.yml: 32,768 are 11,008 of LLaMA.
  const Result<SettingsRun> run =
      neox(with("\"num-layers\": 44,",
                "\"num-layers\": 32, \"activation\": \"swiglu\", \"intermediate_size\": 32768,"));
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.gated_mlp);
  CHECK(run->model.ffn_hidden_size == 11'008);
}

TEST_CASE("configurations of one run are merged, and what is in two of them is named") {
  const std::array<NamedText, 2> both{
      NamedText{"model.yml", with("\"train_micro_batch_size_per_gpu\": 4,", "")},
      NamedText{"setup.yml",
                "{\"train-micro-batch-size-per-gpu\": 8, \"precision\": \"bfloat16\"}"}};
  const Result<SettingsRun> run = read_neox_run(both, {.gpus = 8});
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.micro_batch == 8);
  CHECK(run->strategy.precision == Precision::kBf16);
  const std::array<NamedText, 2> twice{both[0], NamedText{"other.yml", "{\"num_layers\": 3}"}};
  const Result<SettingsRun> wrong = read_neox_run(twice, {.gpus = 8});
  REQUIRE_FALSE(wrong);
  CHECK_THAT(to_text(wrong.errors()), Contains("other.yml") && Contains("another of these files"));
}

TEST_CASE("what GPT-NeoX's files ask for that is not described is named") {
  CHECK_THAT(neox_errors(with("\"num-layers\": 44,",
                              "\"num-layers\": 44, \"attention-config\": [[[\"mamba\"], 44]],")),
             Contains("'mamba' are not read"));
  CHECK_THAT(
      neox_errors(with("\"num-layers\": 44,", "\"num-layers\": 44, \"moe_num_experts\": 8,")),
      Contains("mixtures of experts"));
  CHECK_THAT(neox_errors(with("\"num-layers\": 44,", "\"num-layer\": 44,")),
             Contains("must be here"));
  CHECK_THAT(neox_errors(with("\"hidden-size\": 6144", "\"hidden-size\": -1")),
             Contains("hidden_size"));
  CHECK_THAT(neox_errors(with("\"train-iters\"", "\"trian-iters\"")),
             Contains("'trian_iters' is not known"));
  CHECK_THAT(neox_errors(with("\"train_micro_batch_size_per_gpu\": 4,", "")),
             Contains("--micro-batch"));
}
