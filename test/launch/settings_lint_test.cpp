// What lint says of DeepSpeed's and torchtitan's files.
#include "io/toml_tree.hpp"
#include "launch/deepspeed_import.hpp"
#include "launch/lint.hpp"
#include "launch/plans.hpp"
#include "launch/torchtitan_import.hpp"

namespace meshplan {
namespace {

std::string without_notes(const Diagnostics& all) {
  std::string text;
  for (const Diagnostic& d : all) text += d.severity == Severity::kNote ? "" : to_text(d);
  return text;
}

constexpr const char* kDeepspeed =
    "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 4,\n"
    " \"bf16\": {\"enabled\": true},\n"
    " \"zero_optimization\": {\"stage\": 2, \"overlap_comm\": true}\n}\n";

std::string linted_deepspeed(const std::string& from, const std::string& to,
                             const std::string& script = {}) {
  std::string text = kDeepspeed;
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  std::vector<NamedText> files{{"ds.json", text}};
  if (!script.empty()) files.push_back({"train.sh", script});
  const Result<SettingsRun> run =
      read_deepspeed_run(files, {.model = test::shipped_model("llama-2-7b"), .gpus = 16});
  INFO((run.ok() ? std::string() : to_text(run.errors())));
  REQUIRE(run.ok());
  return without_notes(lint_deepspeed(*run, test::shipped_cluster("dgx-h100", 16), "ds.json"));
}

}  // namespace

TEST_CASE("DeepSpeed: a sound configuration has nothing to be said of it") {
  CHECK(linted_deepspeed("", "").empty());
}

TEST_CASE("DeepSpeed: what is refused, ignored or wasted is named") {
  struct Row {
    const char* from;
    const char* to;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"\"bf16\"", "\"zero_optimisation\": {\"stage\": 3}, \"bf16\"",
       "ds.json:2:2: warning: DeepSpeed does not read 'zero_optimisation'"},
      {"\"overlap_comm\"", "\"overlap_com\": true, \"overlap_comm\"",
       "error: DeepSpeed refuses unknown keys in 'zero_optimization': 'overlap_com'"},
      {"\"bf16\"", "\"fp16\": {\"enabled\": true}, \"bf16\"",
       "error: bf16 and fp16 cannot both be enabled"},
      {"\"bf16\"", "\"train_batch_size\": 65, \"bf16\"",
       "error: 'train_batch_size' 65 is not micro batch 1 * accumulation 4 * 16"},
      {"\"bf16\"", "\"tensor_parallel\": {\"autotp_size\": 2}, \"train_batch_size\": 32, \"bf16\"",
       "error: with automatic tensor parallelism 'train_batch_size' is counted over all ranks"},
      {"\"stage\": 2", "\"stage\": 3, \"stage3_prefetch_bucket_size\": 0",
       "warning: weights are gathered when they are needed"},
      {"\"stage\": 2", "\"stage\": 2, \"stage3_max_live_parameters\": 1000",
       "warning: 'stage3_max_live_parameters' does nothing below ZeRO-3"},
      {"\"stage\": 2, \"overlap_comm\": true", "\"stage\": 0",
       "warning: 16 ranks hold the same optimizer states"},
      {"\"overlap_comm\": true", "\"overlap_comm\": false",
       "warning: gradients are reduced behind the backward pass"},
      {"\"overlap_comm\": true", "\"contiguous_gradients\": false, \"overlap_comm\": true",
       "warning: gradients that are not contiguous"},
      {"\"stage\": 2", "\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}",
       "needs ZeRO-3"},
      {"\"stage\": 2", "\"stage\": 3, \"reduce_scatter\": false",
       "every rank receives all gradients"},
      {"\"bf16\"", "\"pipeline\": {\"stages\": 2}, \"bf16\"",
       "error: deepspeed cannot combine zero=2 with pp=2"},
      {"\"bf16\"", "\"activation_checkpointing\": {\"cpu_checkpointing\": false}, \"bf16\"",
       "says how to recompute, not what"},
      {"\"bf16\"", "\"gradient_allreduce_op\": \"sum\", \"wall_clock_breakdown\": true, \"bf16\"",
       "warning: 'wall_clock_breakdown' waits for the device"},
  }));
  INFO(row.to);
  CHECK(linted_deepspeed(row.from, row.to).find(row.message) != std::string::npos);
}

TEST_CASE("DeepSpeed: arguments and configuration that contradict each other are named") {
  const std::string script =
      "deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --deepspeed --zero-stage 1 "
      "--no-pipeline-parallel --micro-batch-size 2 --global-batch-size 64 --seq-length 4096 "
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008\n";
  const std::string found = linted_deepspeed("", "", script);
  CHECK(found.find("--zero-stage 1 and 'zero_optimization.stage' 2 differ") != std::string::npos);
  CHECK(found.find("--micro-batch-size 2 and 'train_micro_batch_size_per_gpu' 1 differ") !=
        std::string::npos);
  CHECK(found.find("attention is materialised") != std::string::npos);
}

namespace {

constexpr const char* kJob =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
    "[training]\nlocal_batch_size = 1\nglobal_batch_size = 64\nseq_len = 8192\n"
    "[parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n"
    "[activation_checkpoint]\nmode = \"none\"\n"
    "[compile]\nenable = true\n";

std::string linted_job(const std::string& from, const std::string& to) {
  std::string text = kJob;
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const std::vector<NamedText> files{{"job.toml", text}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {.model = std::nullopt, .gpus = 16});
  INFO((run.ok() ? std::string() : to_text(run.errors())));
  REQUIRE(run.ok());
  return without_notes(lint_torchtitan(*run, test::shipped_cluster("dgx-h100", 16), "job.toml"));
}

}  // namespace

TEST_CASE("torchtitan: a sound job has nothing to be said of it") {
  if (!reads_toml()) return;
  CHECK(linted_job("", "").empty());
}

TEST_CASE("torchtitan: what is refused, ignored or wasted is named") {
  if (!reads_toml()) return;
  struct Row {
    const char* from;
    const char* to;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"tensor_parallel_degree", "tensor_paralel_degree",
       "job.toml:10:1: error: torchtitan v0.2.2 has no setting "
       "'parallelism.tensor_paralel_degree'"},
      {"[compile]", "[compiler]\nx = 1\n[compile]", "has no setting 'compiler'"},
      {"shard_degree = -1", "shard_degree = 4", "error: tp * pp * cp * dp"},
      {"global_batch_size = 64", "global_batch_size = 60", "must be a multiple of the local batch"},
      {"seq_len = 8192", "seq_len = 8190", "must be a multiple of tp * 2 * cp = 4"},
      {"enable = true", "enable = false", "warning: the model is not compiled"},
      {"[compile]\nenable = true", "", "warning: the model is not compiled"},
      {"tensor_parallel_degree = 2",
       "tensor_parallel_degree = 2\npipeline_parallel_microbatch_size = 2",
       "does nothing without a pipeline"},
      {"tensor_parallel_degree = 2",
       "tensor_parallel_degree = 2\ncontext_parallel_rotate_method = \"alltoall\"",
       "does nothing without context parallelism"},
      {"mode = \"none\"", "mode = \"none\"\nselective_ac_option = \"op\"", "does nothing without"},
      {"tensor_parallel_degree = 2", "tensor_parallel_degree = 16", "crosses nodes of 8 devices"},
      {"tensor_parallel_degree = 2",
       "pipeline_parallel_degree = 4\nfsdp_reshard_after_forward = "
       "\"always\"",
       "gathers the weights again for every microbatch"},
      {"tensor_parallel_degree = 2", "pipeline_parallel_degree = 4",
       "1 microbatches fill 4 pipeline stages badly"},
      {"shard_degree = -1\ntensor_parallel_degree = 2",
       "shard_degree = 1\n"
       "data_parallel_replicate_degree = 16",
       "16 ranks hold the same weights"},
      {"name = \"llama3\"", "name = \"llama3\"\nconverters = [\"quantize.linear.float8\"]",
       "weights are gathered in 16 bits"},
  }));
  INFO(row.to);
  CHECK(linted_job(row.from, row.to).find(row.message) != std::string::npos);
}

TEST_CASE("torchtitan: asynchronous tensor parallelism needs the compiler") {
  if (!reads_toml()) return;
  std::string text = kJob;
  text.replace(text.find("enable = true"), 13, "enable = false");
  text.replace(text.find("tensor_parallel_degree = 2"), 26,
               "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true");
  const std::vector<NamedText> files{{"job.toml", text}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {.model = std::nullopt, .gpus = 16});
  REQUIRE(run.ok());
  CHECK(to_text(lint_torchtitan(*run, std::nullopt, "job.toml"))
            .find("enable_async_tensor_parallel needs the compiled model") != std::string::npos);
}

}  // namespace meshplan
