// A job file of torchtitan v0.2.2.
#include "base/check.hpp"
#include "cost/chunks.hpp"
#include "launch/targets.hpp"

namespace meshplan {
namespace {

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

struct Toml {
  std::string text;
  void section(std::string_view name) { text += "\n[" + std::string(name) + "]\n"; }
  void key(std::string_view name, const std::string& value) {
    text += std::string(name) + " = " + value + "\n";
  }
};

std::string schedule_name(const Strategy& s) {
  const std::optional<std::string_view> name = torchtitan_schedule(s.schedule);
  PLAN_CHECK(name.has_value());
  return std::string(*name);
}

// The modules of every stage, in the order of depth.
std::string stage_modules(const LaunchPlan& p) {
  const std::vector<Chunk> chunks = chunk_plan(p.model, p.strategy);
  std::string text = "[\n";
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::string names;
    const auto add = [&](const std::string& name) {
      names += (names.empty() ? "" : ", ") + quoted(name);
    };
    if (i == 0) add("tok_embeddings");
    for (std::int64_t layer = 0; layer < chunks[i].layers; ++layer) {
      add("layers." + std::to_string(chunks[i].first_layer + layer));
    }
    if (i + 1 == chunks.size()) {
      add("norm");
      add("output");
    }
    text += "  [" + names + "],\n";
  }
  return text + "]";
}

void add_training(const LaunchPlan& p, Toml& t) {
  const Strategy& s = p.strategy;
  t.section("training");
  // A pipeline cuts its local batch into microbatches; without one, gradients accumulate.
  const bool pipeline = s.pp > 1;
  t.key("local_batch_size",
        std::to_string(pipeline ? s.micro_batch * num_microbatches(s) : s.micro_batch));
  t.key("global_batch_size", std::to_string(s.global_batch));
  t.key("seq_len", std::to_string(s.seq_len));
  t.key("steps", "20");
  t.key("mixed_precision_param", quoted(s.precision == Precision::kFp32 ? "float32" : "bfloat16"));
  t.key("mixed_precision_reduce", quoted("float32"));
  if (has_host_weights(s)) t.key("enable_cpu_offload", "true");
}

void add_parallelism(const LaunchPlan& p, Toml& t) {
  const Strategy& s = p.strategy;
  t.section("parallelism");
  const std::int64_t shards = s.zero == 0 ? 1 : shard_group(s) / s.cp;
  t.key("data_parallel_replicate_degree", std::to_string(s.dp / shards));
  t.key("data_parallel_shard_degree", std::to_string(shards));
  if (s.zero > 0) {
    t.key("fsdp_reshard_after_forward", quoted(s.zero == 3 ? "always" : "never"));
  }
  t.key("tensor_parallel_degree", std::to_string(s.tp));
  if (s.tp > 1) t.key("enable_async_tensor_parallel", s.overlap.tp ? "true" : "false");
  t.key("context_parallel_degree", std::to_string(s.cp));
  if (s.cp > 1) {
    t.key("context_parallel_rotate_method",
          quoted(s.cp_kind == CpKind::kRing ? "alltoall" : "allgather"));
  }
  t.key("pipeline_parallel_degree", std::to_string(s.pp));
  if (s.pp > 1) {
    t.key("pipeline_parallel_schedule", quoted(schedule_name(s)));
    t.key("pipeline_parallel_microbatch_size", std::to_string(s.micro_batch));
    t.key("module_fqns_per_model_part", stage_modules(p));
  }
  if (p.model.moe) {
    t.key("expert_parallel_degree", std::to_string(s.ep));
    t.key("expert_tensor_parallel_degree", std::to_string(s.ep > 1 ? s.etp : 1));
  }
}

void add_recomputation(const LaunchPlan& p, Toml& t) {
  const Strategy& s = p.strategy;
  const bool full = recomputed_per_chunk(s, p.model).value_or(0) != 0;
  const bool selective = !full && s.recompute == Recompute::kSelective;
  t.section("activation_checkpoint");
  t.key("mode", quoted(full ? "full" : selective ? "selective" : "none"));
  if (selective) t.key("selective_ac_option", quoted("op"));
}

void add_optimizer(const Strategy& s, Toml& t) {
  if (!s.runtime.optimizer_in_backward && s.runtime.fused_optimizer) return;
  t.section("optimizer");
  if (!s.runtime.fused_optimizer) t.key("implementation", quoted("foreach"));
  if (s.runtime.optimizer_in_backward) t.key("early_step_in_backward", "true");
}

// Modules that stay in bf16: those with one of these in their names.
std::string filter_fqns(const ModelSpec& m, const Strategy& s) {
  std::string all = "[\"output\"";
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const bool wide = i < s.runtime.num_layers_at_start_in_bf16 ||
                      i >= m.num_layers - s.runtime.num_layers_at_end_in_bf16;
    if (wide) all += ", \"layers." + std::to_string(i) + ".\"";
  }
  return all + "]";
}

}  // namespace

LaunchCommand torchtitan_command(const LaunchPlan& plan) {
  const TorchtitanFlavor* flavor = torchtitan_flavor(plan.model);
  PLAN_CHECK(flavor != nullptr);
  const Strategy& s = plan.strategy;
  Toml t;
  t.text = "# world: " + std::to_string(num_gpus(s)) + "\n[job]\ndump_folder = \"./outputs\"\n";
  t.section("model");
  t.key("name", quoted(flavor->model));
  t.key("flavor", quoted(flavor->flavor));
  if (s.precision == Precision::kFp8) t.key("converters", "[\"quantize.linear.float8\"]");
  add_training(plan, t);
  add_parallelism(plan, t);
  add_recomputation(plan, t);
  add_optimizer(s, t);
  t.section("compile");
  t.key("enable", "true");
  t.key("components", "[\"model\", \"loss\"]");
  if (s.precision == Precision::kFp8) {
    t.section("quantize.linear.float8");
    t.key("filter_fqns", filter_fqns(plan.model, s));
    if (s.zero == 3 && s.runtime.fp8_param_gather) t.key("enable_fsdp_float8_all_gather", "true");
  }
  LaunchCommand command;
  command.environment = plan_environment(plan);
  command.files.push_back({"torchtitan.toml", t.text});
  command.sections = {{"run", {{"--training.dataset", "c4_test"}}}};
  command.program = "-m torchtitan.train --job.config_file \"$here/torchtitan.toml\"";
  command.notes.emplace_back(
      "a job file of torchtitan v0.2.2; later versions are configured by Python functions");
  if (s.recompute == Recompute::kSelective && !s.runtime.op_recompute) {
    command.notes.emplace_back(
        "torchtitan's selective recomputation keeps every second matrix product and attention and "
        "repeats the rest, more than the plan counts (runtime.op_recompute=true counts it)");
  }
  return command;
}

}  // namespace meshplan
