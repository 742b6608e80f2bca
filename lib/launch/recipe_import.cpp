#include "launch/recipe_import.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "io/load.hpp"
#include "launch/recipe_kernels.hpp"
#include "launch/recipe_keys.hpp"
#include "launch/recipe_optimizers.hpp"

namespace meshplan {
namespace {

enum class Tool { kAxolotl, kLlamaFactory };

class Importer {
 public:
  explicit Importer(const RunContext& context) : context_(context) {}

  Result<SettingsRun> read(const NamedText& file) {
    Result<YamlNode> tree = parse_yaml(file.text, file.name);
    if (!tree) return tree.errors();
    YamlNode root = std::move(tree).value();
    // A key without a value is as good as none.
    std::erase_if(root.entries, [](const YamlEntry& entry) {
      return entry.second.kind == YamlNode::Kind::kNull;
    });
    settings_.add(root, file.text, file.name);
    tool_ = settings_.has("base_model") ? Tool::kAxolotl : Tool::kLlamaFactory;
    run_.target = Target::kAccelerate;
    if (context_.gpus > 0) run_.world_size = context_.gpus, run_.world_source = "--gpus";
    read_model();
    read_sharding();
    read_task();
    read_frozen();
    read_batch();
    read_numbers();
    read_packing();
    account_recipe(settings_, trainer_keys(), context_.lenient, run_);
    problems_.insert(problems_.end(), settings_.problems().begin(), settings_.problems().end());
    if (!problems_.empty()) return problems_;
    run_.strategy = with_world(run_, run_.world_size);
    run_.places = settings_.places();
    run_.settings = std::move(settings_);
    return std::move(run_);
  }

 private:
  [[nodiscard]] bool is_axolotl() const { return tool_ == Tool::kAxolotl; }
  // The key of a thing that both have.
  [[nodiscard]] const char* key(const char* axolotl, const char* llama_factory) const {
    return is_axolotl() ? axolotl : llama_factory;
  }

  void read_model() {
    const char* name = key("base_model", "model_name_or_path");
    take_model(settings_, name, settings_.text(name), context_, run_);
  }

  // DeepSpeed's files are named, not read; axolotl's and LLaMA-Factory's own are zero3.json,
  // ds_z3_config.json and so on.
  void read_sharding() {
    Strategy& s = run_.strategy;
    const std::string deepspeed = settings_.text("deepspeed");
    const bool fsdp = is_axolotl() && (settings_.has("fsdp") || settings_.has("fsdp_config") ||
                                       has_section("fsdp_config."));
    (void)settings_.find("fsdp_version");
    s = framework_preset(deepspeed.empty() ? Framework::kFsdp : Framework::kDeepspeed);
    s.zero = 0;
    if (fsdp) read_fsdp();
    if (!deepspeed.empty()) {
      s.zero = 0;
      if (const auto stage = stage_of_name(deepspeed)) {
        s.zero = *stage;
        run_.assumed.push_back({"zero", std::to_string(*stage), "the name " + deepspeed});
      }
      s.offload.optimizer = deepspeed.find("offload") != std::string::npos;
    }
    s.tp = settings_.integer("tensor_parallel_size", 1, kRanks);
    s.cp = settings_.integer("context_parallel_size",
                             settings_.integer("sequence_parallel_degree", 1, kRanks), kRanks);
    run_.replicas = settings_.integer("dp_replicate_size", 1, kRanks);
    const std::int64_t shards = settings_.integer("dp_shard_size", 0, kRanks);
    if (shards == 0) return;
    if (!fsdp) s.zero = 3;
    s.dp = bounded_product({run_.replicas, shards});
    run_.states_dp = true;
    if (run_.world_size == 0) run_.world_size = bounded_product({s.tp, s.cp, s.dp});
  }

  // utils/schemas/fsdp.py; FSDP 1 names what it shards.
  void read_fsdp() {
    Strategy& s = run_.strategy;
    const std::string part = "fsdp_config.";
    const std::string kind = settings_.text(part + "sharding_strategy", "FULL_SHARD");
    const bool reshards = settings_.flag(part + "reshard_after_forward", true);
    s.zero = kind == "NO_SHARD" ? 0 : kind.ends_with("SHARD_GRAD_OP") || !reshards ? 2 : 3;
    s.offload.optimizer = settings_.flag(part + "offload_params", false);
    if (settings_.flag(part + "activation_checkpointing", false)) s.recompute = Recompute::kFull;
  }

  [[nodiscard]] bool has_section(const std::string& prefix) const {
    const auto at = settings_.all().lower_bound(prefix);
    return at != settings_.all().end() && at->first.starts_with(prefix);
  }

  void refuse_preferences() {
    const std::string rl = settings_.text("rl"), stage = settings_.text("stage", "sft");
    const std::string kind = settings_.text("pref_loss", "sigmoid");
    if (rl == "dpo" || (stage == "dpo" && kind != "orpo" && kind != "simpo")) {
      run_.strategy.loss = Loss::kDpo;
      return;
    }
    if (!rl.empty()) {
      settings_.report("rl",
                       "'" + rl +
                           "' trains on preferences: neither its pairs nor its "
                           "reference model are described",
                       "a recipe of supervised fine-tuning, pre-training or dpo is");
    } else if (stage != "sft" && stage != "pt") {
      settings_.report("stage",
                       "'" + stage +
                           "' trains on preferences: neither its pairs nor its "
                           "reference model are described",
                       "stage: sft, pt or dpo is");
    }
  }

  void read_task() {
    refuse_preferences();
    const std::string task = settings_.text(key("adapter", "finetuning_type"), "full");
    if (task.empty() || task == "full") return;
    if (task != "lora" && task != "qlora") {
      settings_.report(key("adapter", "finetuning_type"),
                       "'" + task + "' is neither adapters of low rank nor all weights",
                       "lora, qlora or full");
      return;
    }
    Lora& lora = run_.strategy.lora;
    lora.rank = settings_.integer(key("lora_r", "lora_rank"), 8, {1, 65'536});
    const std::string dropout = settings_.text("lora_dropout", "0");
    lora.dropout = std::strtod(dropout.c_str(), nullptr);
    read_targets(lora);
    const std::int64_t bits = settings_.integer("quantization_bit", 0, {0, 8});
    (void)settings_.find("quantization_method");
    (void)settings_.find("double_quantization");
    const bool four = settings_.flag("load_in_4bit", false);
    const bool eight = settings_.flag("load_in_8bit", false);
    if (task == "qlora" || four || bits == 4) {
      lora.frozen_dtype = FrozenDtype::kNf4;
    } else if (eight || bits == 8) {
      lora.frozen_dtype = FrozenDtype::kInt8;
    }
  }

  // LLaMA-Factory hparams/finetuning_args.py: encoder and projector are frozen unless told.
  void read_frozen() {
    if (is_axolotl()) return;
    FrozenParts parts;
    const auto take = [&](const char* name, bool by_default, FrozenPart part) {
      if (settings_.flag(name, by_default)) parts.add(part);
    };
    take("freeze_vision_tower", true, FrozenPart::kVisionModel);
    take("freeze_multi_modal_projector", true, FrozenPart::kVisionProjection);
    take("freeze_language_model", false, FrozenPart::kLanguageModel);
    const bool sees = run_.model.encoder.has_value();
    if (!sees || has_adapters(run_.strategy)) return;
    run_.strategy.frozen = parts;
    if (parts.empty() || settings_.has("freeze_vision_tower")) return;
    run_.assumed.push_back({"frozen", key_text(parts), "LLaMA-Factory's default"});
  }

  void read_targets(Lora& lora) {
    lora.targets = lora_targets("all-linear");
    (void)settings_.find("lora_target_linear");
    std::vector<std::string> names;
    const char* name = key("lora_target_modules", "lora_target");
    if (const Settings::Setting* set = settings_.find(name)) {
      for (const YamlNode& item : set->value.items) names.push_back(item.text);
      std::string text = set->value.text;
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        names.push_back(trimmed(text.substr(begin, end - begin)));
        begin = end + 1;
      }
    }
    LoraTargets stated;
    for (const std::string& one : names) {
      if (one == "all" || one.empty()) return;
      const LoraTargets targets = lora_targets(one);
      if (targets.empty()) {
        settings_.report(name, "no layer that is known here is called '" + one + "'",
                         "PEFT's names of projections: q_proj, v_proj, ...");
        return;
      }
      stated.insert(targets);
    }
    if (!stated.empty()) lora.targets = stated;
  }

  static std::string trimmed(std::string text) {
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  void read_batch() {
    Strategy& s = run_.strategy;
    s.seq_len = settings_.integer(key("sequence_len", "cutoff_len"), 2048, kTokens);
    if (context_.seq_len > 0) s.seq_len = context_.seq_len;
    s.micro_batch =
        settings_.integer(key("micro_batch_size", "per_device_train_batch_size"), 1, kSequences);
    if (s.loss == Loss::kDpo) s.micro_batch *= 2;  // a recipe counts pairs
    run_.accumulation = settings_.integer("gradient_accumulation_steps", 1, kSequences);
    run_.model.max_seq_length = std::max(run_.model.max_seq_length, s.seq_len);
  }

  void read_numbers() {
    Strategy& s = run_.strategy;
    const std::string bf16 = settings_.text("bf16", "false"),
                      fp16 = settings_.text("fp16", "false");
    const auto is_on = [](const std::string& text) { return text != "false" && !text.empty(); };
    const bool pure = settings_.flag("pure_bf16", false) || bf16 == "full";
    (void)settings_.find("tf32");
    s.precision = is_on(bf16) || pure ? Precision::kBf16
                  : is_on(fp16)       ? Precision::kFp16
                                      : Precision::kFp32;
    if (bf16 == "auto") s.precision = Precision::kBf16;
    if (is_axolotl() && settings_.flag("fp8", false)) s.precision = Precision::kFp8;
    if (pure) s.master_weights = false, s.grad_dtype = Dtype::kBf16;
    const bool checkpoints = is_axolotl()
                                 ? is_on(settings_.text("gradient_checkpointing", "false"))
                                 : !settings_.flag("disable_gradient_checkpointing", false);
    if (checkpoints) s.recompute = Recompute::kFull;
    if (!is_axolotl() && settings_.flag("use_unsloth_gc", false)) s.recompute = Recompute::kFull;
    read_reentrant(settings_, !is_axolotl(), s);
    read_host_checkpoints(settings_, is_axolotl(), s);
    read_compilation(settings_, "torch_compile", false, s);
    read_fused_kernels(settings_, s);
    if (is_axolotl()) read_adapter_kernels(settings_, s);
    read_attention(settings_, s, run_.notes);
    const std::string optimizer = settings_.text(key("optimizer", "optim"), kDefaultOptimizer);
    const auto known = recipe_optimizer(optimizer);
    s.optimizer = known.value_or(Optimizer::kAdam);
    s.runtime.fused_optimizer = optimizer != "adamw_torch";
    if (!known) {
      run_.notes.push_back("the optimizer " + optimizer +
                           " is counted as Adam with states in fp32");
    }
  }

  void read_packing() {
    const auto is_on = [&](const char* name) { return settings_.text(name, "false") == "true"; };
    bool packs = false;
    for (const char* name :
         {"sample_packing", "packing", "neat_packing", "multipack_real_batches", "flat_packing"}) {
      packs = is_on(name) || packs;
    }
    const bool pads = is_on("pad_to_sequence_len");
    run_.strategy.packing = packs ? Packing::kPack : pads ? Packing::kPad : Packing::kNone;
    // ring-flash-attn: the gather of Llama 3 for packed rows, else a ring (axolotl's defaults).
    const std::string ring =
        settings_.text("ring_attn_func", packs ? "varlen_llama3" : "batch_ring");
    if (is_axolotl() && run_.strategy.cp > 1)
      run_.strategy.cp_kind = ring == "varlen_llama3" ? CpKind::kAllGather : CpKind::kRing;
    if (is_axolotl() && packs_or_splits_rows(run_.strategy))
      run_.strategy.runtime.attention = AttentionKernel::kFlash2;
    note_full_sequences(run_);
  }

  const RunContext& context_;
  Tool tool_ = Tool::kAxolotl;
  Settings settings_;
  SettingsRun run_;
  Diagnostics problems_;
};

}  // namespace

bool is_recipe(std::string_view text) {
  if (is_torchtune(text)) return true;
  for (const std::string_view mark : {"base_model:", "model_name_or_path:"}) {
    for (std::size_t at = text.find(mark); at != std::string_view::npos;
         at = text.find(mark, at + 1)) {
      if (at == 0 || text[at - 1] == '\n') return true;
    }
  }
  return false;
}

Result<SettingsRun> read_recipe_run(std::span<const NamedText> files, const RunContext& context) {
  const auto is_of_trainer = [](const NamedText& f) {
    return is_accelerate(f.text) || !is_recipe(f.text);
  };
  if (std::any_of(files.begin(), files.end(), is_of_trainer))
    return read_trainer_run(files, context);
  if (files.size() > 1) {
    return error_at({files[1].name}, "a recipe is one file, got " + std::to_string(files.size()));
  }
  if (is_torchtune(files.front().text)) return read_torchtune_recipe(files.front(), context);
  return Importer(context).read(files.front());
}

}  // namespace meshplan
