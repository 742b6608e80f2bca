// DeepSpeed's and torchtitan's files back into models and strategies.
#include <algorithm>

#include "io/toml_tree.hpp"
#include "launch/deepspeed_import.hpp"
#include "launch/lint.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "launch/torchtitan_import.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using test::plan_of;

struct Case {
  const char* model;
  std::int64_t gpus;
  const char* keys;
};

std::vector<NamedText> exported(const LaunchPlan& p, const LaunchCommand& command) {
  std::vector<NamedText> files{{"train.sh", node_script(p, command)}};
  for (const LaunchFile& file : command.files) files.push_back({file.name, file.text});
  return files;
}

void check_same(const Strategy& read, const Strategy& plan, std::span<const char* const> keys) {
  for (const char* key : keys) {
    INFO(key);
    CHECK(value_text(read, key) == value_text(plan, key));
  }
}

// Corrections of the router, which are no parameters in torchtitan.
std::int64_t corrections(const ModelSpec& m) {
  return m.moe && m.moe->router_bias && !m.expert_bias ? m.moe->num_experts * num_moe_layers(m) : 0;
}

// Keys that the files carry.
constexpr std::array kTorchtitanKeys{"tp",
                                     "pp",
                                     "vp",
                                     "cp",
                                     "ep",
                                     "etp",
                                     "dp",
                                     "zero",
                                     "seq_len",
                                     "sequence_parallel",
                                     "schedule",
                                     "micro_batch",
                                     "global_batch",
                                     "recompute",
                                     "precision",
                                     "overlap.tp",
                                     "cp_kind",
                                     "master_weights",
                                     "grad_dtype",
                                     "runtime.fp8_param_gather",
                                     "runtime.expandable_segments",
                                     "offload.weights"};
constexpr std::array kDeepspeedKeys{"framework",
                                    "tp",
                                    "pp",
                                    "cp",
                                    "ep",
                                    "dp",
                                    "zero",
                                    "micro_batch",
                                    "precision",
                                    "global_batch",
                                    "grad_dtype",
                                    "offload.optimizer",
                                    "offload.weights",
                                    "runtime.expandable_segments",
                                    "cp_kind",
                                    "overlap.grad_reduce",
                                    "overlap.tp",
                                    "sequence_parallel",
                                    "schedule",
                                    "kernels.num_layers_at_start_in_bf16",
                                    "kernels.num_layers_at_end_in_bf16"};

}  // namespace

TEST_CASE("torchtitan: what was exported is read back") {
  if (!reads_toml()) return;
  const auto row = GENERATE(values<Case>({
      {"llama-3.1-8b", 64, "framework=torchtitan,tp=2,sequence_parallel=true"},
      {"llama-3.1-70b", 64,
       "framework=torchtitan,tp=4,sequence_parallel=true,pp=4,vp=5,schedule=interleaved,"
       "recompute=full"},
      {"llama-3.1-405b", 128,
       "framework=torchtitan,tp=8,sequence_parallel=true,pp=16,zero=2,recompute=selective"},
      {"qwen3-235b-a22b", 128, "framework=torchtitan,ep=16"},
      {"deepseek-v3", 128, "framework=torchtitan,ep=16,zero=3"},
      {"llama-3.1-8b", 32, "framework=torchtitan,cp=4,cp_kind=allgather,zero_group=8"},
      {"llama-3.1-8b", 32, "framework=torchtitan,cp=4,cp_kind=ring"},
      {"qwen3-8b", 32, "framework=torchtitan,pp=4,vp=2,schedule=zb-v"},
      {"qwen3-8b", 32, "framework=torchtitan,pp=4,schedule=gpipe,stage_layers=[8,10,10,8]"},
      {"gpt-oss-120b", 64, "framework=torchtitan,ep=8,precision=fp8"},
      {"llama-3.1-8b", 8, "framework=torchtitan,precision=fp8,runtime.fp8_param_gather=true"},
      {"llama-3.1-8b", 8,
       "framework=torchtitan,precision=fp8,kernels.num_layers_at_start_in_bf16=2,"
       "kernels.num_layers_at_end_in_bf16=1"},
      {"llama-3.1-8b", 8, "framework=torchtitan,zero=0,runtime.expandable_segments=true"},
      {"llama-3.1-8b", 8, "framework=torchtitan,offload.optimizer=true,offload.weights=true"},
      {"llama-3.1-8b", 8,
       "framework=torchtitan,zero=2,tp=8,sequence_parallel=true,overlap.tp=true"},
  }));
  INFO(row.model << " " << row.keys);
  LaunchPlan p = plan_of(row.model, "dgx-h100", row.gpus, row.keys);
  if (p.model.mtp_layers > 0) p.model.mtp_layers = 0;  // torchtitan's has none
  const Result<SettingsRun> run = read_torchtitan_run(exported(p, torchtitan_command(p)), {});
  INFO((run.ok() ? std::string() : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->world_size == row.gpus);
  check_same(run->strategy, p.strategy, kTorchtitanKeys);
  CHECK(shard_group(run->strategy) == shard_group(p.strategy));
  CHECK(stage_layers(run->strategy, run->model) == p.strategy.stage_layers);
  CHECK(parameter_count(run->model).total + corrections(p.model) == parameter_count(p.model).total);
  const Diagnostics found = lint_torchtitan(*run, p.cluster, "train.sh");
  INFO(to_text(found));
  CHECK(!has_errors(found));
}

TEST_CASE("torchtitan: the sizes of a shipped model are those of its flavor") {
  if (!reads_toml()) return;
  const auto name = GENERATE(
      values<const char*>({"llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-8b",
                           "qwen3-32b", "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-120b"}));
  INFO(name);
  const ModelSpec shipped = test::shipped_model(name);
  const TorchtitanFlavor* flavor = torchtitan_flavor(shipped);
  REQUIRE(flavor != nullptr);
  const ModelSpec m = torchtitan_model(*flavor);
  CHECK(!has_errors(validate(m)));
  CHECK(parameter_count(m).total + corrections(shipped) == parameter_count(shipped).total);
}

TEST_CASE("torchtitan: options of a script go before the job file") {
  if (!reads_toml()) return;
  const std::vector<NamedText> files{
      {"run.sh",
       "torchrun --nproc_per_node=8 --nnodes 2 -m torchtitan.train --job.config_file job.toml "
       "--parallelism.tensor-parallel-degree=4 --training.seq_len 4096\n"},
      {"job.toml",
       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 2\n"
       "[training]\nlocal_batch_size = 2\n"}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {});
  REQUIRE(run.ok());
  CHECK(run->strategy.tp == 4);
  CHECK(run->strategy.dp == 4);
  CHECK(run->strategy.seq_len == 4096);
  CHECK(run->strategy.global_batch == 8);
  // Every second layer is recomputed unless the file says otherwise.
  CHECK(run->strategy.recompute_layers == std::vector<std::int64_t>{16});
}

TEST_CASE("torchtitan: what is compiled is fused, the loss and the model each") {
  if (!reads_toml()) return;
  struct Row {
    const char* text;
    bool model, loss;
  };
  const auto row = GENERATE(values<Row>({
      {"", false, false},
      {"[compile]\nenable = true\n", true, true},
      {"[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n", true, true},
      {"[compile]\nenable = true\ncomponents = [\"model\"]\n", true, false},
      {"[compile]\nenable = true\ncomponents = [\"loss\"]\n", false, true},
      {"[compile]\nenable = false\ncomponents = [\"loss\"]\n", false, false},
  }));
  INFO(row.text);
  const std::vector<NamedText> files{
      {"job.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + std::string(row.text)}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {.model = {}, .gpus = 8});
  REQUIRE(run.ok());
  const Runtime& k = run->strategy.runtime;
  CHECK(k.fused_norm == row.model);
  CHECK(k.fused_activation == row.model);
  CHECK(k.fused_cross_entropy == row.loss);
  CHECK(k.inplace_cross_entropy == row.loss);
}

TEST_CASE("torchtitan: stages that no list names are divided as it does") {
  if (!reads_toml()) return;
  const std::vector<NamedText> files{
      {"job.toml",
       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\npipeline_parallel_degree = 4\n"
       "pipeline_parallel_schedule = \"Interleaved1F1B\"\ndata_parallel_shard_degree = 2\n"}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {});
  REQUIRE(run.ok());
  CHECK(run->world_size == 8);
  CHECK(run->strategy.vp == 2);
  // 34 weights over 8 stages: 5,5,4,... less one at each end, two stages a rank.
  CHECK(run->strategy.stage_layers == std::vector<std::int64_t>{8, 9, 8, 7});
}

TEST_CASE("torchtitan: what cannot be read is said with its place") {
  if (!reads_toml()) return;
  struct Row {
    const char* text;
    const char* message;
  };
  const std::string head = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
  const auto row = GENERATE(values<Row>({
      {"[parallelism]\ntensor_parallel_degree = \"two\"\n",
       "job.toml:5:1: error: 'parallelism.tensor_parallel_degree' must be a whole number"},
      {"[parallelism]\ncontext_parallel_degree = 0\n", "must be 1 or more"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Fast\"\n",
       "job.toml:6:1: error: PyTorch has no pipeline schedule 'Fast'"},
      {"[parallelism]\npipeline_parallel_degree = 40\n", "stages are too many for 32 layers"},
      {"[training]\nlocal_batch_size = 3\n[parallelism]\npipeline_parallel_degree = 2\n"
       "pipeline_parallel_microbatch_size = 2\n",
       "must be a multiple of the microbatch of 2"},
      {"[activation_checkpoint]\nmode = \"some\"\n", "there is no recomputation 'some'"},
      {"[training\n", "job.toml:4:10: error: table header: expected ']'"},
  }));
  INFO(row.text);
  const std::vector<NamedText> files{{"job.toml", head + row.text}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {});
  REQUIRE(!run.ok());
  CHECK(to_text(run.errors()).find(row.message) != std::string::npos);
  const std::vector<NamedText> none{{"job.toml", "[model]\nname = \"gemma\"\n"}};
  CHECK(to_text(read_torchtitan_run(none, {}).errors()).find("known: llama3 8B") !=
        std::string::npos);
}

TEST_CASE("torchtitan: numbers that no run can have are refused before they are used") {
  if (!reads_toml()) return;
  struct Row {
    const char* text;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"[parallelism]\npipeline_parallel_degree = 2\n"
       "pipeline_parallel_layers_per_stage = 9223372036854775807\n",
       "job.toml:6:1: error: 'parallelism.pipeline_parallel_layers_per_stage' must be at most "
       "10,000, got 9223372036854775807"},
      {"[parallelism]\npipeline_parallel_degree = 2\n"
       "pipeline_parallel_first_stage_less_layers = 9223372036854775807\n",
       "_less_layers' must be at most 10,000"},
      {"[parallelism]\npipeline_parallel_degree = 16777216\n", "must be at most 100,000"},
      {"[parallelism]\ntensor_parallel_degree = 65536\ncontext_parallel_degree = 65536\n",
       "the product of the degrees must be at most 16,777,216, got 4294967296"},
      {"[parallelism]\ndata_parallel_shard_degree = -8\n", "must be 1 or more, got -8"},
      {"[training]\nlocal_batch_size = 4611686018427387905\n", "must be at most 1,000,000,000"},
      {"[training]\nglobal_batch_size = -8\n", "must be 1 or more, got -8"},
      {"[training]\nseq_len = -4\n", "must be 1 or more, got -4"},
  }));
  INFO(row.text);
  const std::vector<NamedText> files{
      {"job.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + std::string(row.text)}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {});
  REQUIRE(!run.ok());
  CHECK(to_text(run.errors()).find(row.message) != std::string::npos);
}

TEST_CASE("DeepSpeed: numbers that no run can have are refused before they are used") {
  struct Row {
    const char* json;
    const char* script;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {R"({"train_batch_size": -64, "train_micro_batch_size_per_gpu": 1})", "",
       "ds.json:1:2: error: 'train_batch_size' must be 1 or more, got -64"},
      {R"({"train_micro_batch_size_per_gpu": 4611686018427387905})", "",
       "must be at most 1,000,000,000, got 4611686018427387905"},
      {R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": -4})", "",
       "must be 1 or more, got -4"},
      {R"({"train_micro_batch_size_per_gpu": 1, "pipeline": {"stages": 1000000}})", "",
       "must be at most 100,000"},
      {R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"mics_shard_size": -2}})", "",
       "must be 1 or more, got -2"},
      {R"({"train_micro_batch_size_per_gpu": 1})", "deepspeed --num_gpus 4000000000 t.py",
       "train.sh:1:11: error: --num_gpus must be at most 16,777,216, got 4000000000"},
      {R"({"train_micro_batch_size_per_gpu": 1})", "WORLD_SIZE=0\nt.py",
       "WORLD_SIZE must be 1 or more, got 0"},
      {R"({"train_micro_batch_size_per_gpu": 1})", "deepspeed --num_nodes 8192 --num_gpus 8192",
       "nodes times processes on each must be at most 16,777,216, got 67108864"},
  }));
  INFO(row.json << " " << row.script);
  const std::vector<NamedText> files{{"ds.json", row.json}, {"train.sh", row.script}};
  const Result<SettingsRun> run = read_deepspeed_run(files, {});
  REQUIRE(!run.ok());
  CHECK(to_text(run.errors()).find(row.message) != std::string::npos);
}

TEST_CASE("of findings without end the first are said and the rest is counted") {
  std::string text = "{\"train_micro_batch_size_per_gpu\": 1";
  for (int i = 0; i < 3000; ++i) text += ", \"k" + std::to_string(i) + "\": 1";
  const std::vector<NamedText> files{{"ds.json", text + "}"}};
  const Result<SettingsRun> run = read_deepspeed_run(files, {});
  REQUIRE(run.ok());
  const Diagnostics found = lint_deepspeed(*run, std::nullopt, "ds.json");
  CHECK(found.size() == 51);
  CHECK(found.front().severity == Severity::kWarning);
  CHECK(found.back().message.starts_with("and 29"));
}

TEST_CASE("a batch that cannot be counted is refused, not wrapped") {
  const std::vector<NamedText> files{{"ds.json", R"({"train_micro_batch_size_per_gpu": 1000000000,
                      "gradient_accumulation_steps": 1000000000})"}};
  const Result<SettingsRun> run =
      read_deepspeed_run(files, {.model = std::nullopt, .gpus = 1 << 24});
  REQUIRE(run.ok());
  CHECK(run->strategy.global_batch > 1'000'000'000);
  const std::string problems = to_text(validate(*run, "ds.json"));
  CHECK(problems.find("ds.json: error: 'global_batch' must be from") != std::string::npos);
}

TEST_CASE("DeepSpeed: what was exported is read back") {
  const auto row = GENERATE(values<Case>({
      {"llama-2-7b", 8, "framework=deepspeed,zero=3,runtime.expandable_segments=true"},
      {"llama-2-7b", 16, "framework=deepspeed,zero=2,recompute=full"},
      {"llama-2-7b", 16, "framework=deepspeed,zero=1,tp=2"},
      {"llama-2-7b", 16, "framework=deepspeed,zero=1,pp=4,recompute=full"},
      {"llama-3.1-8b", 16, "framework=deepspeed,zero=3,cp=4,cp_kind=ulysses"},
      {"mixtral-8x7b", 32, "framework=deepspeed,zero=1,ep=8"},
      {"llama-2-7b", 8, "framework=deepspeed,zero=2,offload.optimizer=true"},
      {"llama-2-7b", 8, "framework=deepspeed,zero=3,zero_group=4"},
      {"llama-2-7b", 8, "framework=deepspeed,zero=3,offload.optimizer=true,offload.weights=true"},
      {"llama-2-70b", 64, "framework=megatron-deepspeed,tp=4,pp=4,zero=1,recompute=full"},
      {"llama-2-7b", 16, "framework=megatron-deepspeed,tp=2,zero=0,precision=fp16,seq_len=2048"},
      {"mixtral-8x7b", 64, "framework=megatron-deepspeed,ep=8,zero=1"},
      {"mixtral-8x7b", 64, "framework=megatron-deepspeed,pp=4,ep=8,zero=1"},
      {"llama-2-70b", 64, "framework=megatron-deepspeed,tp=4,pp=4,sequence_parallel=true"},
      {"llama-2-70b", 64, "framework=megatron-deepspeed,tp=4,pp=4,schedule=zb-h1"},
      {"gpt3-175b", 64,
       "framework=megatron-deepspeed,tp=8,pp=8,flash_attention=false,recompute=selective,"
       "seq_len=2048"},
      {"gpt3-175b", 64, "framework=megatron-deepspeed,tp=8,pp=4,precision=fp16,seq_len=2048"},
  }));
  INFO(row.model << " " << row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-h100", row.gpus, row.keys);
  const Findings broken = target_findings(Target::kDeepspeed, p.strategy, p.model, p.cluster);
  INFO(to_text(broken.diagnostics()));
  REQUIRE(!broken.has_errors());
  const bool own = p.strategy.framework == Framework::kMegatronDeepspeed;
  RunContext context;
  if (!own) context.model = p.model;
  const Result<SettingsRun> run = read_deepspeed_run(exported(p, deepspeed_command(p)), context);
  INFO((run.ok() ? std::string() : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->world_size == row.gpus);
  check_same(run->strategy, p.strategy, kDeepspeedKeys);
  CHECK(shard_group(run->strategy) == shard_group(p.strategy));
  CHECK(run->strategy.overlap.param_gather == p.strategy.overlap.param_gather);
  if (own || p.strategy.pp > 1) CHECK(run->strategy.recompute == p.strategy.recompute);
  if (own) {
    CHECK(run->strategy.seq_len == p.strategy.seq_len);
    CHECK(run->strategy.flash_attention == p.strategy.flash_attention);
    CHECK(parameter_count(run->model).total == parameter_count(p.model).total);
  }
  const Diagnostics found = lint_deepspeed(*run, p.cluster, "ds_config.json");
  INFO(to_text(found));
  CHECK(!has_errors(found));
}

TEST_CASE("DeepSpeed: optimizers and places that are not known are named") {
  RunContext context;
  context.gpus = 8, context.model = test::shipped_model("llama-2-7b"), context.seq_len = 2048;
  const auto read = [&](const std::string& more) {
    const std::string text =
        "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2, " + more + "}";
    const std::vector<NamedText> files{{"ds.json", text}};
    return read_deepspeed_run(files, context);
  };
  const auto optimizer = [](const std::string& type) {
    return "\"optimizer\": {\"type\": \"" + type + "\"}";
  };
  CHECK(read(optimizer("AdamW"))->strategy.optimizer == Optimizer::kAdam);
  CHECK(read(optimizer("AdamW"))->notes.empty());
  CHECK(read(optimizer("SGD"))->strategy.optimizer == Optimizer::kSgd);
  CHECK(read(optimizer("Muon"))->strategy.optimizer == Optimizer::kMuon);
  const auto lamb = read(optimizer("OneBitLamb"));
  REQUIRE(lamb.ok());
  REQUIRE(lamb->notes.size() == 1);
  CHECK_THAT(lamb->notes.front(), Catch::Matchers::Contains("OneBitLamb is counted as Adam"));
  const auto offload = [&](const std::string& device) {
    return read("\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"" +
                device + "\"}}");
  };
  CHECK(offload("cpu")->strategy.offload.optimizer);
  CHECK_FALSE(offload("none")->strategy.offload.optimizer);
  CHECK(offload("nvme")->strategy.offload.optimizer);
  CHECK_THAT(offload("nvme")->notes.front(), Catch::Matchers::Contains("NVMe"));
  const auto disk = offload("disk");
  REQUIRE_FALSE(disk.ok());
  CHECK_THAT(to_text(disk.errors()),
             Catch::Matchers::Contains("there is no device 'disk' to offload to"));
  const auto sums = read("\"data_types\": {\"grad_accum_dtype\": \"fp64\"}");
  REQUIRE_FALSE(sums.ok());
  CHECK_THAT(to_text(sums.errors()), Catch::Matchers::Contains("there is no data type 'fp64'"));
}

TEST_CASE("DeepSpeed: batch sizes follow from any two of the three") {
  const auto read = [](const std::string& text, std::int64_t gpus, std::int64_t micro = 0) {
    const std::vector<NamedText> files{{"ds.json", text}};
    RunContext context;
    context.gpus = gpus;
    context.micro_batch = micro;
    return read_deepspeed_run(files, context);
  };
  const auto both = read(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})", 8);
  REQUIRE(both.ok());
  CHECK(both->strategy.global_batch == 64);
  CHECK(num_microbatches(both->strategy) == 4);
  const auto steps =
      read(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})", 8);
  REQUIRE(steps.ok());
  CHECK(steps->strategy.global_batch == 48);
  CHECK(!steps->knows_model);
  const auto whole = read(R"({"train_batch_size": 64})", 8);
  REQUIRE(whole.ok());
  CHECK(whole->strategy.micro_batch == 8);
  const auto open = read(R"({"train_batch_size": 64})", 0);
  REQUIRE(!open.ok());
  CHECK(to_text(open.errors()).find("--gpus N") != std::string::npos);
  const auto automatic =
      read("{\"train_batch_size\": \"auto\",\n \"train_micro_batch_size_per_gpu\": \"auto\"}", 8);
  REQUIRE(!automatic.ok());
  CHECK(to_text(automatic.errors()).find("\"auto\" is filled in by the program") !=
        std::string::npos);
  // Sizes that are stated beside the file are no defaults; others are said to be.
  const auto filled = read(
      "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\",\n"
      " \"train_batch_size\": \"auto\", \"gradient_clipping\": \"auto\"}",
      8, 2);
  if (!filled) FAIL(to_text(filled.errors()));
  CHECK(filled->strategy.micro_batch == 2);
  CHECK(std::find(filled->automatic.begin(), filled->automatic.end(),
                  "train_micro_batch_size_per_gpu") == filled->automatic.end());
  CHECK(std::find(filled->automatic.begin(), filled->automatic.end(),
                  "gradient_accumulation_steps") != filled->automatic.end());
  const auto word =
      read("{\n \"zero_optimization\": {\"stage\": \"x\"}, \"train_batch_size\": 8}", 8);
  REQUIRE(!word.ok());
  CHECK(to_text(word.errors())
            .find("ds.json:2:24: error: 'zero_optimization.stage' must be a whole number") !=
        std::string::npos);
}

}  // namespace meshplan
