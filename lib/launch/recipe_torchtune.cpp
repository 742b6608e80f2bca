// torchtune's YAML recipes (recipes/configs of 0.6).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "frameworks/preset.hpp"
#include "launch/recipe_import.hpp"
#include "launch/recipe_kernels.hpp"
#include "launch/recipe_keys.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kComponent = "torchtune.models.";

// What torchtune calls otherwise than the hub does.
struct OtherName {
  std::string_view torchtune, shipped;
};
constexpr std::array kOtherNames{OtherName{"phi4_14b", "phi-4"},
                                 OtherName{"llama4_scout_17b_16e", "llama-4-scout"},
                                 OtherName{"llama4_maverick_17b_128e", "llama-4-maverick"}};

// Recipes that train otherwise than by the next token or by pairs, by a key that only they have.
struct OtherRecipe {
  const char* key;
  std::string_view what;
};
constexpr std::array kOtherRecipes{
    OtherRecipe{"teacher_model", "learns from a second model's outputs"},
    OtherRecipe{"policy_model", "learns from rewards"},
    OtherRecipe{"reward_and_value_model", "learns from rewards"},
    OtherRecipe{"reward_functions", "learns from rewards"},
    OtherRecipe{"grpo_samples", "learns from rewards"},
    OtherRecipe{"orchestration", "learns from rewards"},
    OtherRecipe{"enable_kv_cache", "runs inference"},
    OtherRecipe{"max_new_tokens", "runs inference"}};

class TorchtuneRecipe {
 public:
  explicit TorchtuneRecipe(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(const NamedText& file) {
    Result<YamlNode> tree = parse_yaml(file.text, file.name);
    if (!tree) return tree.errors();
    YamlNode root = std::move(tree).value();
    drop_empty(root);
    settings_.add(root, file.text, file.name);
    run_.target = Target::kAccelerate;
    run_.strategy = framework_preset(Framework::kFsdp);
    if (context_.gpus > 0) run_.world_size = context_.gpus, run_.world_source = "--gpus";
    read_component();
    read_sharding();
    read_batch();
    read_numbers();
    account_recipe(settings_, torchtune_keys(), context_.lenient, run_);
    if (!settings_.problems().empty()) return settings_.problems();
    run_.strategy = with_world(run_, run_.world_size);
    run_.places = settings_.places();
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  // A key without a value is as good as none.
  static void drop_empty(YamlNode& node) {
    std::erase_if(node.entries, [](const YamlEntry& entry) {
      return entry.second.kind == YamlNode::Kind::kNull;
    });
    for (YamlEntry& entry : node.entries) drop_empty(entry.second);
  }

  // "torchtune.models.llama3_1.qlora_llama3_1_8b": what is trained, and how.
  void read_component() {
    const std::string key = "model._component_";
    for (const OtherRecipe& other : kOtherRecipes) {
      if (!settings_.has(other.key)) continue;
      settings_.report(other.key, "this recipe " + std::string(other.what),
                       "recipes of fine-tuning and of dpo are read");
      return;
    }
    const std::string stated = settings_.text(key);
    std::string name = stated.substr(stated.find_last_of('.') + 1);
    const bool quantised =
        name.starts_with("qlora_") || settings_.flag("model.quantize_base", false);
    const bool adapters = quantised || name.starts_with("lora_");
    if (stated.find("_vision.") != std::string::npos && !context_.model) {
      settings_.report(key, "'" + name + "' trains a model of images and text",
                       "--model NAME|FILE says what is trained");
      return;
    }
    if (adapters && name.find("lora_") < 2) name.erase(0, name.find('_') + 1);
    for (const OtherName& other : kOtherNames) {
      if (name == other.torchtune) name = other.shipped;
    }
    take_model(settings_, key, name, context_, run_);
    if (!adapters) return;
    Lora& lora = run_.strategy.lora;
    lora.rank = settings_.integer("model.lora_rank", 8, {1, 65'536});
    lora.dropout = std::strtod(settings_.text("model.lora_dropout", "0").c_str(), nullptr);
    if (quantised) lora.frozen_dtype = FrozenDtype::kNf4;
    read_targets(lora);
  }

  void read_targets(Lora& lora) {
    const std::string key = "model.lora_attn_modules";
    lora.targets = {};
    if (const Settings::Setting* set = settings_.find(key)) {
      for (const YamlNode& item : set->value.items) {
        const LoraTargets named = lora_targets(item.text == "output_proj" ? "o_proj" : item.text);
        if (named.empty()) {
          settings_.report(key, "no layer that is known here is called '" + item.text + "'",
                           "q_proj, k_proj, v_proj and output_proj are");
        }
        lora.targets.insert(named);
      }
    }
    if (settings_.flag("model.apply_lora_to_mlp", false)) {
      for (const char* layer : {"gate_proj", "up_proj", "down_proj"}) {
        lora.targets.insert(lora_targets(layer));
      }
    }
    if (lora.targets.empty()) {
      settings_.report(key, "the adapters are on no layer",
                       "name layers of attention, or apply_lora_to_mlp: True");
    }
  }

  // Recipes of more than one device shard with FSDP2 (torchtune training/_distributed.py).
  void read_sharding() {
    Strategy& s = run_.strategy;
    s.tp = settings_.integer("tensor_parallel_dim", 1, kRanks);
    s.cp = settings_.integer("context_parallel_dim", 1, kRanks);
    run_.replicas = settings_.integer("data_parallel_replicate_dim", 1, kRanks);
    const std::int64_t shards =
        settings_.integer("data_parallel_shard_dim", -1, {-1, kRanks.highest});
    const bool host = settings_.flag("fsdp_cpu_offload", false);
    const bool sharded = context_.gpus > 1 || shards > 1 || run_.replicas > 1 || s.tp > 1 || host;
    const bool gathers_again = settings_.flag("fsdp_reshard_after_forward", true);
    s.zero = !sharded ? 0 : gathers_again ? 3 : 2;
    const std::string rotates = settings_.text("context_parallel_rotate_method", "allgather");
    s.cp_kind = s.cp > 1 && rotates == "alltoall" ? CpKind::kRing
                : s.cp > 1                        ? CpKind::kAllGather
                                                  : s.cp_kind;
    s.offload.optimizer = host;
    if (!sharded && context_.gpus == 0) {
      run_.world_size = 1;
      run_.assumed.push_back({"devices", "1", "a recipe does not say them; --gpus does"});
    }
    if (shards < 1) return;
    s.dp = bounded_product({run_.replicas, shards});
    run_.states_dp = true;
    if (run_.world_size == 0) run_.world_size = bounded_product({s.tp, s.cp, s.dp});
  }

  void read_batch() {
    Strategy& s = run_.strategy;
    const std::string loss = settings_.text("loss._component_");
    if (loss.ends_with("DPOLoss")) s.loss = Loss::kDpo;
    // torchtune modules/loss/cross_entropy_loss.py, chunked_output_loss.py
    if (loss.ends_with(".LinearCrossEntropyLoss") || loss.ends_with(".CEWithChunkedOutputLoss")) {
      constexpr std::int64_t kDefault = 8;
      s.runtime.loss_chunks = settings_.integer("loss.num_output_chunks", kDefault, {1, 4096});
    }
    s.micro_batch = settings_.integer("batch_size", 1, kSequences) * (s.loss == Loss::kDpo ? 2 : 1);
    run_.accumulation = settings_.integer("gradient_accumulation_steps", 1, kSequences);
    const bool packed = settings_.flag("dataset.packed", false);
    s.packing = packed ? Packing::kPack : Packing::kPad;
    const std::int64_t stated = settings_.integer("tokenizer.max_seq_len", 0, kTokens);
    s.seq_len = context_.seq_len > 0 ? context_.seq_len : stated;
    if (s.seq_len == 0) {
      constexpr std::int64_t kUsual = 2048;
      s.seq_len = std::min(kUsual, std::max<std::int64_t>(1, run_.model.max_seq_length));
      run_.assumed.push_back({"seq_len", std::to_string(s.seq_len),
                              "tokenizer.max_seq_len is null: documents are as long as they are; "
                              "--seq-len or --lengths say"});
    }
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
    note_full_sequences(run_);
  }

  void read_numbers() {
    Strategy& s = run_.strategy;
    const std::string dtype = settings_.text("dtype", "bf16");
    s.precision = dtype == "bf16" ? Precision::kBf16 : Precision::kFp32;
    if (dtype != "bf16" && dtype != "fp32") {
      settings_.report("dtype", "'dtype' must be bf16 or fp32, got '" + dtype + "'");
    }
    // Weights, gradients and states are of the one type (recipes/*.py, set_default_dtype).
    if (s.precision == Precision::kBf16) {
      s.master_weights = false;
      s.grad_dtype = s.optimizer_dtype = Dtype::kBf16;
    }
    if (settings_.flag("enable_activation_checkpointing", false)) s.recompute = Recompute::kFull;
    read_compilation(settings_, "compile", true, s);
    // Beside recomputation, which it needs (recipes/*.py): of what is saved there are inputs alone.
    const bool offloads = settings_.flag("enable_activation_offloading", false);
    s.runtime.host_checkpoints = offloads && s.recompute == Recompute::kFull;
    s.offload.activations = offloads && s.recompute != Recompute::kFull;
    s.runtime.optimizer_in_backward = settings_.flag("optimizer_in_bwd", false);
    const std::string stated = settings_.text("optimizer._component_", "torch.optim.AdamW");
    const std::string name = stated.substr(stated.find_last_of('.') + 1);
    struct Row {
      std::string_view name;
      Optimizer optimizer;
    };
    static constexpr auto kRows = std::to_array<Row>({{"AdamW", Optimizer::kAdam},
                                                      {"Adam", Optimizer::kAdam},
                                                      {"PagedAdamW", Optimizer::kPagedAdam},
                                                      {"AdamW8bit", Optimizer::kAdam8bit},
                                                      {"Adam8bit", Optimizer::kAdam8bit},
                                                      {"PagedAdamW8bit", Optimizer::kPagedAdam8bit},
                                                      {"SGD", Optimizer::kSgd}});
    const auto row = std::find_if(kRows.begin(), kRows.end(),
                                  [&](const Row& known) { return known.name == name; });
    if (row == kRows.end()) {
      run_.notes.push_back("the optimizer " + stated + " is counted as Adam");
      return;
    }
    s.optimizer = row->optimizer;
    // torch/optim/adamw.py: foreach on a GPU unless it is told to be fused.
    s.runtime.fused_optimizer =
        s.optimizer != Optimizer::kAdam || settings_.flag("optimizer.fused", false);
    // These say themselves how they keep their states.
    if (s.optimizer != Optimizer::kAdam && s.optimizer != Optimizer::kSgd)
      s.optimizer_dtype = Dtype::kFp32;
  }

  const RunContext& context_;
  Settings settings_;
  SettingsRun run_;
};

}  // namespace

bool is_torchtune(std::string_view text) {
  return text.find("_component_:") != std::string_view::npos &&
         text.find(kComponent) != std::string_view::npos;
}

Result<SettingsRun> read_torchtune_recipe(const NamedText& file, const RunContext& context) {
  return TorchtuneRecipe(context).read(file);
}

}  // namespace meshplan
