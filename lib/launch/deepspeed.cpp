// ds_config.json, and the arguments that a training program needs beside it.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Json = nlohmann::ordered_json;

bool recomputes(const LaunchPlan& p) {
  return recomputed_per_chunk(p.strategy, p.model).value_or(0) != 0;
}

Json zero_json(const Strategy& s) {
  Json zero{{"stage", s.zero}};
  if (s.zero == 0) return zero;
  zero["overlap_comm"] = s.overlap.grad_reduce;
  zero["contiguous_gradients"] = true;
  zero["reduce_scatter"] = true;
  if (s.zero == 3) {
    // Elements gathered ahead of their use; none without overlap.
    zero["stage3_prefetch_bucket_size"] = s.overlap.param_gather ? 50'000'000 : 0;
    if (shard_group(s) != s.dp * s.cp) zero["mics_shard_size"] = shard_group(s);
  }
  if (has_host_weights(s)) zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  if (s.offload.optimizer) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
    if (s.offload.optimizer_fraction < 1) {
      zero["offload_optimizer"]["ratio"] = s.offload.optimizer_fraction;
    }
  }
  return zero;
}

Json config_json(const LaunchPlan& p) {
  const Strategy& s = p.strategy;
  const bool splits_tensors = s.tp > 1 && !splits_itself(s.framework);
  Json json{{"train_micro_batch_size_per_gpu", s.micro_batch},
            {"gradient_accumulation_steps", num_microbatches(s)}};
  // Without a model-parallel unit DeepSpeed multiplies by all ranks (runtime/config.py:714).
  if (!splits_tensors) json["train_batch_size"] = s.global_batch;
  if (s.precision == Precision::kBf16) json["bf16"] = {{"enabled", true}};
  if (s.precision == Precision::kFp16) json["fp16"] = {{"enabled", true}};
  json["data_types"] = {{"grad_accum_dtype", std::string(name_of(s.grad_dtype))}};
  json["zero_optimization"] = zero_json(s);
  if (splits_tensors) {
    json["tensor_parallel"] = {{"autotp_size", s.tp}, {"tp_overlap_comm", s.overlap.tp}};
  }
  if (s.cp > 1 && !splits_itself(s.framework)) {
    json["sequence_parallel_size"] = s.cp;
    json["data_parallel_size"] = s.dp;
  }
  if (s.ep > 1 && !splits_itself(s.framework)) {
    json["expert_parallel"] = {{"enabled", true}, {"autoep_size", s.ep}};
  }
  if (s.pp > 1) {
    json["pipeline"] = {{"stages", s.pp},
                        {"activation_checkpoint_interval", recomputes(p) ? 1 : 0}};
  }
  json["optimizer"] = {
      {"type", "AdamW"},
      {"params", {{"lr", 3e-4}, {"betas", {0.9, 0.95}}, {"eps", 1e-8}, {"weight_decay", 0.1}}}};
  json["gradient_clipping"] = 1.0;
  json["steps_per_print"] = 10;
  return json;
}

using Lines = std::vector<std::vector<std::string>>;

// Megatron-DeepSpeed's pretrain_gpt.py (megatron/arguments.py there).
Lines own_split(const LaunchPlan& p) {
  const Strategy& s = p.strategy;
  Lines o{{"--tensor-model-parallel-size", std::to_string(s.tp)},
          {"--pipeline-model-parallel-size", std::to_string(s.pp)},
          {"--micro-batch-size", std::to_string(s.micro_batch)},
          {"--global-batch-size", std::to_string(s.global_batch)},
          {"--seq-length", std::to_string(s.seq_len)},
          {"--zero-stage", std::to_string(s.zero)}};
  if (s.pp == 1) o.push_back({"--no-pipeline-parallel"});
  if (s.cp > 1) o.push_back({"--ds-sequence-parallel-size", std::to_string(s.cp)});
  if (s.sequence_parallel) o.push_back({"--sequence-parallel"});
  if (s.pp > 1 && s.schedule == Schedule::kZbH1) o.push_back({"--enable-zbh1-pipeline"});
  if (p.model.moe) o.push_back({"--moe-expert-parallel-size", std::to_string(s.ep)});
  if (s.recompute == Recompute::kSelective) {
    o.push_back({"--recompute-granularity", "selective"});
  } else if (recomputes(p)) {
    o.push_back({"--deepspeed-activation-checkpointing"});
    o.push_back({"--recompute-granularity", "full"});
    o.push_back({"--recompute-method", "uniform"});
  }
  if (s.flash_attention) o.push_back({"--use-flash-attn-v2"});
  if (s.precision == Precision::kBf16) o.push_back({"--bf16"});
  if (s.precision == Precision::kFp16) o.push_back({"--fp16"});
  return o;
}

// The architecture, as its _add_network_size_args() and those of Megatron call it.
Lines own_model(const LaunchPlan& p) {
  const ModelSpec& m = p.model;
  Lines o{
      {"--num-layers", std::to_string(m.num_layers)},
      {"--hidden-size", std::to_string(m.hidden_size)},
      {"--ffn-hidden-size", std::to_string(m.ffn_hidden_size)},
      {"--num-attention-heads", std::to_string(m.num_attention_heads)},
      {"--kv-channels", std::to_string(m.head_dim)},
      {"--max-position-embeddings", std::to_string(std::max(m.max_seq_length, p.strategy.seq_len))},
      {"--vocab-size", std::to_string(m.vocab_size)},
      {"--make-vocab-size-divisible-by", "128"},
      {"--attention-dropout", key_text(m.dropout)},
      {"--hidden-dropout", key_text(m.dropout)},
      {"--normalization", m.norm == Norm::kRmsNorm ? "rmsnorm" : "layernorm"}};
  if (m.num_query_groups != m.num_attention_heads) {
    o.push_back({"--num-key-value-heads", std::to_string(m.num_query_groups)});
  }
  if (m.gated_mlp) o.push_back({"--swiglu"});
  if (m.activation == Activation::kRelu2) o.push_back({"--squared-relu"});
  if (m.position_embedding == PositionEmbedding::kRope) {
    o.push_back({"--use-rotary-position-embeddings"});
  }
  if (!m.tied_embeddings) o.push_back({"--untie-embeddings-and-output-weights"});
  if (!m.linear_bias) o.push_back({"--disable-bias-linear"});
  if (m.moe) {
    o.push_back({"--num-experts", std::to_string(m.moe->num_experts)});
    o.push_back({"--topk", std::to_string(m.moe->top_k)});
    o.push_back({"--expert-interval", std::to_string(m.moe->every)});
  }
  return o;
}

void add_notes(const LaunchPlan& p, std::vector<std::string>& notes) {
  const Strategy& s = p.strategy;
  if (s.pp > 1 && !splits_itself(s.framework)) {
    notes.push_back("the number of stages is the program's: PipelineModule(num_stages=" +
                    std::to_string(s.pp) + ", partition_method=\"type:<layer class>\")");
  }
  if (s.pp == 1 && !splits_itself(s.framework) && recomputes(p)) {
    notes.emplace_back(
        "which layers are recomputed is the program's: every one (gradient_checkpointing=True in "
        "Transformers)");
  }
  if ((s.zero == 1 || s.zero == 2) && s.overlap.param_gather && !s.runtime.late_weight_gather) {
    notes.push_back("DeepSpeed gathers the weights of zero=" + std::to_string(s.zero) +
                    " behind the optimizer's step, which the plan counts as overlapped "
                    "(overlap.param_gather)");
  }
  if (!splits_itself(s.framework) && (!s.flash_attention || s.cp > 1)) {
    notes.push_back(std::string("attention is the program's: the plan counts ") +
                    (s.flash_attention ? "a fused kernel" : "a materialised one"));
  }
}

}  // namespace

LaunchCommand deepspeed_command(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  LaunchCommand command;
  command.environment = plan_environment(plan);
  command.files.push_back({"ds_config.json", config_json(plan).dump(2) + '\n'});
  command.needs = {": \"${TRAIN_PROGRAM:?set it to the training program, a Python file}\""};
  if (splits_itself(s.framework)) {
    // megatron/arguments.py:404 refuses to start without it.
    if (s.sequence_parallel) command.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
    command.sections = {{"model", own_model(plan)}, {"plan", own_split(plan)}};
    command.needs = {": \"${TRAIN_PROGRAM:?set it to pretrain_gpt.py of Megatron-DeepSpeed}\""};
    command.notes.emplace_back("data, tokenizer and learning rate are arguments of train.sh");
  }
  command.program = "\"$TRAIN_PROGRAM\" --deepspeed --deepspeed_config \"$here/ds_config.json\"";
  add_notes(plan, command.notes);
  return command;
}

}  // namespace meshplan
