// Configurations of torchtitan that are functions of Python.
#include "launch/torchtitan_python.hpp"

#include <algorithm>

#include "launch/detect.hpp"
#include "launch/python_text.hpp"
#include "launch/torchtitan_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;

namespace {

constexpr std::string_view kRegistry = R"py(# A configuration is a function.
from torchtitan.trainer import Trainer

"""def not_a_function(): pass"""


def llama3_8b() -> Trainer.Config:
    """One node, (mostly."""
    model_spec = model_registry("8B", attn_backend="flex")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config()),
        hf_assets_path="./assets/hf/Llama-3.1-8B",  # a comment, with a bracket (
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 8_192,
            max_context_length=8192,
            steps=1000,
        ),
        dataloader=GrainDataLoader.Config(dataset=DATASETS["c4"]),
        compile=CompileConfig(enable=True, components=["model", "loss"]),
        activation_checkpoint=FullAC.Config(),
    )


def llama3_8b_float8() -> Trainer.Config:
    config = llama3_8b()
    assert config.model_spec is not None
    config.model_spec = model_registry(
        "8B",
        converters=[
            Float8LinearConverter.Config(model_compile_enabled=config.compile.enable),
        ],
    )
    config.parallelism = ParallelismConfig(
        tensor_parallel_degree=2,
        pipeline_parallel_degree=2,
        pipeline_parallel_schedule="Interleaved1F1B",
        num_pp_microbatches=8,
    )
    config.compile.enable_async_tensor_parallel = True
    config.training.max_context_length = 4096
    config.activation_checkpoint = None
    enable_fused_swiglu(config)
    return config


def llama3_8b_odd() -> Trainer.Config:
    config = llama3_8b()
    config.training.max_context_length = LONGEST
    return config


def llama3_8b_if() -> Trainer.Config:
    config = llama3_8b()
    if BIG:
        config.training.steps = 10
    return config


def llama3_8b_of(steps: int) -> Trainer.Config:
    return llama3_8b()


def llama3_8b_lora() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec = model_registry("8B", converters=[LoRAConverter.Config(rank=8)])
    return config
)py";

Result<SettingsRun> read_registry(const std::string& config, std::int64_t gpus = 8,
                                  const std::string& script = {}) {
  RunContext context;
  context.gpus = gpus;
  if (!config.empty()) context.shell.variables["CONFIG"] = config;
  std::vector<NamedText> files{
      {"torchtitan/models/llama3/config_registry.py", std::string(kRegistry)}};
  if (!script.empty()) files.push_back({"run.sh", script});
  return read_torchtitan_run(files, context);
}

std::string registry_errors(const std::string& config, const std::string& script = {}) {
  const Result<SettingsRun> run = read_registry(config, 8, script);
  return run ? "none" : to_text(run.errors());
}

}  // namespace

TEST_CASE("a configuration in Python is what its calls state") {
  CHECK(is_torchtitan_python(kRegistry));
  const std::vector<NamedText> files{{"config_registry.py", std::string(kRegistry)}};
  CHECK(detect_target(files, {}).value() == Target::kTorchtitan);
  const Result<SettingsRun> run = read_registry("llama3_8b");
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->model.num_layers == 32);
  CHECK(run->model.hidden_size == 4096);
  const Strategy& s = run->strategy;
  CHECK(s.seq_len == 8192);
  CHECK(s.micro_batch == 2);
  CHECK(s.dp == 8);
  CHECK(s.global_batch == 16);
  CHECK(s.zero == 3);
  CHECK(s.recompute == Recompute::kFull);
  CHECK(s.runtime.fused_norm);  // compiled
  CHECK(s.runtime.fused_cross_entropy);
  CHECK(std::any_of(run->notes.begin(), run->notes.end(), [](const std::string& note) {
    return note.find("in chunks") != std::string::npos;
  }));
}

TEST_CASE("one configuration starts from another of the file and changes fields") {
  const Result<SettingsRun> run = read_registry("llama3_8b_float8", 16);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  const Strategy& s = run->strategy;
  CHECK(s.precision == Precision::kFp8);
  CHECK(s.tp == 2);
  CHECK(s.pp == 2);
  CHECK(s.vp == 2);
  CHECK(s.dp == 4);
  CHECK(s.seq_len == 4096);
  CHECK(s.micro_batch == 4);           // 16,384 tokens
  CHECK(s.global_batch == 4 * 4 * 8);  // microbatches of every replica
  CHECK(s.overlap.tp);
  CHECK(s.recompute == Recompute::kNone);
  CHECK(std::any_of(run->notes.begin(), run->notes.end(), [](const std::string& note) {
    return note.find("enable_fused_swiglu(config)") != std::string::npos;
  }));
}

TEST_CASE("a script chooses the configuration and overrides it") {
  const Result<SettingsRun> run = read_registry(
      "", 8,
      "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b "
      "--training.max_context_length 4096 --parallelism.tensor_parallel_degree=4\n");
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.tp == 4);
  CHECK(run->strategy.seq_len == 4096);
  CHECK(run->strategy.dp == 2);
  RunContext context;
  const std::vector<NamedText> alone{
      {"run.sh",
       "torchrun --nproc_per_node 8 -m torchtitan.train --config llama3_8b --training.steps 1\n"}};
  const Result<SettingsRun> without = read_torchtitan_run(alone, context);
  REQUIRE_FALSE(without.ok());
  CHECK_THAT(to_text(without.errors()), Contains("the configuration 'llama3_8b' is missing here") &&
                                            Contains("config_registry.py"));
}

TEST_CASE("what only Python knows is refused in its line") {
  CHECK_THAT(registry_errors(""),
             Contains("the file has 5 configurations") && Contains("llama3_8b_float8"));
  CHECK_THAT(registry_errors("llama3_80b"), Contains("no configuration 'llama3_80b'"));
  CHECK_THAT(registry_errors("llama3_8b_of"), Contains("no configuration 'llama3_8b_of'"));
  CHECK_THAT(registry_errors("llama3_8b_odd"),
             Contains("config_registry.py:50") &&
                 Contains("only Python knows the value of 'training.max_context_length'"));
  CHECK_THAT(registry_errors("llama3_8b_if"), Contains("only Python knows whether this is done"));
  CHECK_THAT(registry_errors("llama3_8b_lora"),
             Contains("a model changed by LoRAConverter.Config"));
  CHECK_THAT(registry_errors("llama3_8b",
                             "torchrun --nproc_per_node 8 -m torchtitan.train "
                             "--training.max_context_length 5000\n"),
             Contains("16384 tokens are no whole rows of 5000"));
}

TEST_CASE("expressions of Python are read as far as they are literals") {
  const auto value = [](std::string_view text) { return read_python_value(text, 0, text.size()); };
  using Kind = PythonValue::Kind;
  CHECK(value(" 8 * 2_048 ").text == "16384");
  CHECK(value("3e-4").kind == Kind::kNumber);
  CHECK(value("'a, b'").text == "a, b");
  CHECK(value("None").kind == Kind::kWord);
  CHECK(value("a.b").kind == Kind::kName);
  CHECK(value("[1, [2, 3], 'x']").items.size() == 3);
  CHECK(value("(4)").text == "4");
  CHECK(value("f(1, a=g(b=2))").keyword("a")->keyword("b")->text == "2");
  for (const char* text : {"a + b", "f(x)[0]", "'a' 'b'", "[i for i in j]",
                           "9223372036854775807 * 2", "f(", "", "a == b", "f(x).y"}) {
    CAPTURE(text);
    CHECK(value(text).kind == Kind::kOther);
  }
  const std::string plain = without_python_comments("a = '#' # b\n\"\"\"c\n'd\"\"\"\ne = 1\n");
  CHECK(plain == "a = '#'    \n    \n     \ne = 1\n");
  CHECK(python_statements(plain).size() == 2);
}
