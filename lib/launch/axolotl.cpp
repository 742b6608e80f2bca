// axolotl's recipe: what the plan decides, beside what it leaves to its user.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "frameworks/target.hpp"
#include "io/yaml_text.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// utils/schemas/config.py; names of optimizers are transformers' (OptimizerNames) but for muon.
class Recipe {
 public:
  explicit Recipe(const LaunchPlan& plan) : p_(plan), s_(plan.strategy) {}

  std::string text() {
    add("base_model", yaml_text(p_.model.name));
    if (s_.loss == Loss::kDpo) add("rl", "dpo");
    add_adapters();
    add("sequence_len", std::to_string(s_.seq_len));
    add("sample_packing", yes(s_.packing == Packing::kPack));
    add("pad_to_sequence_len", yes(s_.packing != Packing::kNone));
    // It counts pairs.
    const std::int64_t rows = s_.loss == Loss::kDpo ? s_.micro_batch / 2 : s_.micro_batch;
    add("micro_batch_size", std::to_string(rows));
    add("gradient_accumulation_steps", std::to_string(num_microbatches(s_)));
    const bool recomputes = recomputed_per_chunk(s_, p_.model).value_or(0) != 0;
    add("gradient_checkpointing", yes(recomputes));
    if (recomputes) {
      text_ += "gradient_checkpointing_kwargs:\n  use_reentrant: " +
               std::string(yes(!s_.runtime.recompute_early_stop)) + "\n";
    }
    // The inputs of checkpoints; other offloading takes the place of recomputation.
    if (recomputes && s_.runtime.host_checkpoints) add("activation_offloading", "hidden_states");
    add_liger();
    add("attn_implementation", attention());
    add_precision();
    add("optimizer", std::string(optimizer()));
    add_sharding();
    return text_;
  }

 private:
  // Of the fastest kernel the choice is left to PyTorch.
  std::string attention() const {
    if (!s_.flash_attention) return "eager";
    const bool best = s_.runtime.attention == AttentionKernel::kBest;
    return best && !packs_or_splits_rows(s_) ? "sdpa" : "flash_attention_2";
  }

  static std::string yes(bool value) { return value ? "true" : "false"; }
  void add(const std::string& key, const std::string& value) { text_ += key + ": " + value + "\n"; }

  void add_adapters() {
    const Lora& lora = s_.lora;
    if (lora.rank == 0) return;
    const bool four = lora.frozen_dtype == FrozenDtype::kNf4;
    add("adapter", four ? "qlora" : "lora");
    if (four) add("load_in_4bit", "true");
    if (lora.frozen_dtype == FrozenDtype::kInt8) add("load_in_8bit", "true");
    add("lora_r", std::to_string(lora.rank));
    add("lora_dropout", key_text(lora.dropout));
    for (const char* kernel : {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"}) {
      add(kernel, yes(s_.runtime.fused_lora));
    }
    if (lora.targets == lora_targets("all-linear")) return add("lora_target_linear", "true");
    text_ += "lora_target_modules:\n";
    for (const LoraTarget t : lora.targets.all())
      text_ += "  - " + std::string(peft_name(t)) + "\n";
  }

  // integrations/liger/args.py
  void add_liger() {
    const Runtime& k = s_.runtime;
    if (k.loss_chunks > 1) {
      add("chunked_cross_entropy", "true");
      add("chunked_cross_entropy_num_chunks", std::to_string(k.loss_chunks));
    }
    const std::array<std::pair<const char*, bool>, 5> kernels{{
        {"liger_rope", k.fused_rope},
        {"liger_rms_norm", k.fused_norm},
        {"liger_glu_activation", k.fused_activation},
        {"liger_fused_linear_cross_entropy", k.fused_linear_cross_entropy},
        {"liger_cross_entropy", k.fused_cross_entropy && k.inplace_cross_entropy},
    }};
    if (std::none_of(kernels.begin(), kernels.end(), [](const auto& row) { return row.second; })) {
      return;
    }
    text_ += "plugins:\n  - axolotl.integrations.liger.LigerPlugin\n";
    for (const auto& [key, on] : kernels) {
      if (on) add(key, "true");
    }
  }

  void add_precision() {
    const Precision p = s_.precision;
    add("bf16", p == Precision::kFp8 || p == Precision::kBf16
                    ? (s_.master_weights ? "true" : "full")
                    : "false");
    add("fp16", yes(p == Precision::kFp16));
    add("tf32", yes(p == Precision::kTf32));
    if (p == Precision::kFp8) add("fp8", "true");
  }

  [[nodiscard]] std::string_view optimizer() const {
    switch (s_.optimizer) {
      case Optimizer::kAdam:
        return s_.runtime.fused_optimizer ? "adamw_torch_fused" : "adamw_torch";
      case Optimizer::kAdam8bit:
        // bitsandbytes' fails under FSDP2 (validation.py check_fsdp2_w_8bit_optimizer).
        return is_sharded() ? "adamw_torch_8bit" : "adamw_bnb_8bit";
      case Optimizer::kPagedAdam:
        return "paged_adamw_32bit";
      case Optimizer::kPagedAdam8bit:
        return "paged_adamw_8bit";
      case Optimizer::kAdafactor:
        return "adafactor";
      case Optimizer::kSgd:
        return "sgd";
      case Optimizer::kMuon:
        return "muon";
    }
    PLAN_CHECK(false);
    return {};
  }

  [[nodiscard]] bool is_sharded() const { return num_gpus(s_) > 1 && s_.zero > 0; }

  // Of a shard group's ranks, context-parallel ones are counted apart.
  void add_sharding() {
    if (!is_sharded()) return;
    const std::int64_t shards = shard_group(s_) / s_.cp;
    text_ += "fsdp_version: 2\nfsdp_config:\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
    text_ += "  reshard_after_forward: " + yes(s_.zero == 3) +
             "\n  offload_params: " + yes(has_host_weights(s_)) + "\n";
    text_ += "  cpu_ram_efficient_loading: true\n  state_dict_type: SHARDED_STATE_DICT\n";
    add("dp_replicate_size", std::to_string(s_.dp / shards));
    add("dp_shard_size", std::to_string(shards));
    if (s_.tp > 1) add("tensor_parallel_size", std::to_string(s_.tp));
    if (s_.cp == 1) return;
    add("context_parallel_size", std::to_string(s_.cp));
    add("ring_attn_func", s_.packing == Packing::kPack ? "varlen_llama3" : "batch_ring");
  }

  const LaunchPlan& p_;
  const Strategy& s_;
  std::string text_;
};

}  // namespace

LaunchCommand axolotl_command(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  LaunchCommand command;
  command.environment = plan_environment(plan);
  command.files.push_back({"axolotl.yaml", Recipe(plan).text()});
  // One file is what axolotl reads; of a key that both have, the later one counts.
  command.needs = {
      ": \"${RECIPE:?set it to a YAML of what the plan leaves open: base_model, datasets, "
      "learning_rate, num_epochs, output_dir}\"",
      "config=$(mktemp --suffix=.yaml)", "cat \"$here/axolotl.yaml\" \"$RECIPE\" >\"$config\""};
  command.program = "-m axolotl.cli.train \"$config\"";
  command.notes.push_back(
      "'base_model' of axolotl.yaml is the plan's name for it; the recipe beside "
      "it says where its weights are");
  if (has_adapters(s))
    command.notes.emplace_back("the scale of adapters, lora_alpha, is the recipe's");
  if (num_gpus(s) > 1 && s.master_weights && s.zero > 0 && s.precision != Precision::kFp32 &&
      s.grad_dtype == Dtype::kFp32) {
    command.notes.emplace_back(
        "gradients are reduced in the type of the recipe's precision unless "
        "fsdp_config.mixed_precision_policy says fp32, as the plan does");
  }
  if (!s.master_weights && s.precision == Precision::kBf16) {
    command.notes.emplace_back("bf16: full keeps weights, gradients and states in bf16");
  }
  return command;
}

}  // namespace meshplan
