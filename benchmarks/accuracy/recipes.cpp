#include "recipes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <regex>
#include <string_view>

#include "base/check.hpp"
#include "bridge_recipes.hpp"
#include "framework_rows.hpp"
#include "spec/optimizers.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

// What Megatron-Bridge did before its presets were files of the form that bridge_presets.py reads,
// and where it printed a layout that none of them has: releases from `from` to `to`.
struct RecipeRow {
  int from, to;
  bool nvl72, nvl8_blackwell, hopper;  // GB200 and GB300; B200 and B300; H100
  bool inside_node;                    // only where experts do not span nodes of eight
  std::optional<bool> overlap, flex;   // moe_a2a_overlap; moe_flex_dispatcher_backend is set
};

constexpr std::array kRecipes{
    // 25.09: DeepEP where experts span nodes of H100, the plain all-to-all elsewhere.
    RecipeRow{2509, 2510, true, true, true, true, {}, false},
    RecipeRow{2509, 2510, true, true, false, false, {}, false},
    // HybridEP came to NVL72 in 25.11 and to systems of eight GPUs with 26.02.01.
    RecipeRow{2511, 2601, false, true, true, true, {}, false},
    // H100 overlapped dispatch until March 2026.
    RecipeRow{2509, 2602, false, false, true, false, true, {}},
};

bool holds(const RecipeRow& row, int release, const Run& run) {
  if (release < row.from || release > row.to) return false;
  const bool nvl72 = has_any(run.gpu, {"GB200", "GB300"});
  const bool hopper = has_word(run.gpu, "H100");
  const bool blackwell = !nvl72 && has_any(run.gpu, {"B200", "B300"});
  const bool gpu =
      (nvl72 && row.nvl72) || (blackwell && row.nvl8_blackwell) || (hopper && row.hopper);
  const bool across = !nvl72 && run.ep.value_or(1) > 8;
  return gpu && !(row.inside_node && across);
}

// Overlap under a pipeline needs virtual stages (transformer_config.py).
bool can_overlap(const Strategy& s) { return s.pp == 1 || s.vp > 1; }

// scripts/performance/configs/llama/*_llm_pretrain.py: tensor-parallel communication beside
// products but for NVFP4, and under Megatron-FSDP no gradients that products add to their sums.
void apply_dense_preset(Strategy& s, const BridgePreset& preset, const Run& run) {
  if (run.overlap_tp.empty()) s.overlap.tp = s.precision != Precision::kNvfp4;
  if (s.zero == 3) s.runtime.fused_grad_accumulation = false;
  if (preset.offloaded_layers > 0 && s.pp == 1) {
    s.offload.activations = true, s.offload.activation_layers = preset.offloaded_layers;
  }
  if (preset.recompute_num_layers == 0) return;
  s.recompute = Recompute::kFull;
  s.recompute_layers.assign(
      static_cast<std::size_t>(s.pp),
      std::min(preset.recompute_num_layers * s.vp, *run.model.num_layers / s.pp));
}

void apply_preset(Strategy& s, const BridgePreset& preset) {
  s.recompute = preset.recompute_modules.empty() ? Recompute::kNone : Recompute::kSelective;
  s.recompute_modules = {};
  for (const std::string& name : preset.recompute_modules) {
    // Hyper-connections (mhc) and a gated delta rule's norm (gdn_norm_out) are no modules here.
    const auto module = from_name<RecomputeModule>(name);
    if (module) s.recompute_modules.add(*module);
  }
  // Together, as scripts/performance/utils/overrides.py does.
  s.overlap.ep = s.overlap.delay_wgrad_compute = preset.a2a_overlap && can_overlap(s);
  s.runtime.expandable_segments = preset.expandable_segments;
  s.runtime.flex_dispatcher = preset.flex_dispatcher;
  s.runtime.fp8_attention = preset.fp8_attention;
  s.runtime.fused_experts = preset.fused_experts;
  if (preset.cuda_graph == "full_iteration") s.runtime.cuda_graph = CudaGraph::kFullIteration;
  for (const std::string& part : preset.cuda_graph_scope) {
    const std::optional<CudaGraphModule> module = from_name<CudaGraphModule>(part);
    if (!module) continue;  // "full_iteration" among the parts
    s.runtime.cuda_graph = CudaGraph::kLayer;
    s.runtime.cuda_graph_modules.add(*module);
  }
}

// Model chunks go to the pipeline's ranks in turn.
void apply_chunks(Strategy& s, const std::vector<std::int64_t>& layers) {
  s.stage_layers.assign(static_cast<std::size_t>(s.pp), 0);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    s.stage_layers[i % s.stage_layers.size()] += layers[i];
  }
  s.chunk_layers = s.vp > 1 ? layers : std::vector<std::int64_t>{};
}

// Layers of DeepSeek-V3 and of Kimi K2, which has as many, under a pipeline: equal chunks that
// count multi-token prediction as a layer, the rest in the last one
// (recipes/deepseek/deepseek_v3.py, set_deepseek_v3_pipeline_model_parallel_layout;
// recipes/kimi/kimi_k2.py, _get_kimi_k2_pipeline_layout: 4 x 4 chunks of 4 layers, the last of 1).
// Where nothing is left for it, the first one gives way too (H100's "Et|(tt|)*30mL").
void apply_layout(Strategy& s, const Run& run) {
  s.chunk_layers.clear();
  const bool known = has_any(run.model.name, {"DeepSeek", "Kimi"});
  if (!known || s.pp == 1 || !run.model.num_layers) return;
  const std::int64_t layers = *run.model.num_layers, chunks = s.pp * s.vp;
  const std::int64_t each = ceil_div(layers + 1, chunks);
  const std::int64_t last = layers - each * (chunks - 1);
  if (last + each < 1) return;
  std::vector<std::int64_t> of_chunk(static_cast<std::size_t>(chunks), each);
  of_chunk.back() = std::max<std::int64_t>(last, 0);
  of_chunk.front() += std::min<std::int64_t>(last, 0);
  apply_chunks(s, of_chunk);
}

// The layout that a preset or a recipe states, where it is of the row's model and pipeline.
void apply_layout(Strategy& s, const BridgePreset& preset, const Run& run) {
  const std::vector<std::int64_t>& layers = preset.chunk_layers;
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(layers.size()) != s.pp * s.vp || s.pp == 1) return;
  if (sum == run.model.num_layers) apply_chunks(s, layers);
}

// NeMo's script for DeepSeek-V3, which DGX Cloud's recipe calls, drops tokens beyond an expert's
// mean and pads to it, for which they travel copy by copy, and gives the first stage a layer less
// than the middle ones, the last stage two (scripts/performance/llm/pretrain_deepseek_v3.py;
// nemo/lightning/pytorch/callbacks/moe_token_drop.py).
void apply_nemo_script(Strategy& s, const Run& run) {
  if (!has_word(run.where, "dgxc-benchmarking") || !has_word(run.model.name, "DeepSeekV3")) return;
  s.runtime.flex_dispatcher = false;
  s.runtime.expert_capacity_factor = 1, s.runtime.pad_to_capacity = true;
  if (s.pp == 1 || s.vp > 1 || !run.model.num_layers) return;
  const std::int64_t middle = (*run.model.num_layers + 3) / s.pp;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(s.pp), middle);
  layers.front() -= 1, layers.back() -= 2;
  apply_chunks(s, layers);
}

// A recipe's own layout, where the row's was read from another one of its name.
void apply_layout_of(Strategy& s, const BridgeRecipe& r, std::int64_t gpus) {
  const BridgePreset& p = r.setting;
  s.tp = p.tp, s.pp = p.pp, s.vp = p.vp, s.cp = p.cp, s.ep = p.ep;
  s.micro_batch = p.micro_batch;
  s.dp = gpus / (s.tp * s.pp * s.cp);
  s.sequence_parallel = s.sequence_parallel && s.tp > 1;
}

// What a named recipe leaves to its model's defaults stays as the row has it.
void apply_named(Strategy& s, const NamedRecipe& named, const Run& run) {
  const BridgeRecipe& r = *named.recipe;
  if (named.by_batch) apply_layout_of(s, r, *run.gpus);
  apply_preset(s, r.setting);
  if (r.recompute == "full") s.recompute = Recompute::kFull;
  if (r.setting.cuda_graph == "transformer_engine") s.runtime.cuda_graph = CudaGraph::kLayer;
  if (r.setting.cuda_graph == "none") {
    s.runtime.cuda_graph = CudaGraph::kNone, s.runtime.cuda_graph_modules = {};
  }
  s.grad_dtype = r.fp32_gradients.value_or(true) ? Dtype::kFp32 : Dtype::kBf16;
  if (r.overlap_grad_reduce) s.overlap.grad_reduce = *r.overlap_grad_reduce;
  if (r.overlap_param_gather) s.overlap.param_gather = *r.overlap_param_gather;
  s.overlap.param_gather = s.overlap.param_gather && s.overlap.grad_reduce;
  s.runtime.fused_router = r.router_fusion.value_or(false);
  if (r.rope_fusion) s.runtime.fused_rope = *r.rope_fusion;
  s.runtime.fused_latent_rope = run.model.mla.has_value() && r.rope_fusion.value_or(false);
  s.runtime.inplace_cross_entropy = r.loss == "te";
  s.runtime.defer_embedding_wgrad_compute = r.deferred_head && s.pp > 1;
  s.runtime.wgrad_deferral_limit = s.runtime.defer_embedding_wgrad_compute
                                       ? r.wgrad_deferral_limit
                                       : s.runtime.wgrad_deferral_limit;
}

bool has_presets(const Source& source) { return has_word(source.title, "Megatron-Bridge"); }

// Rows of other people, whose scripts call the recipes of Megatron-Bridge's library instead of
// NVIDIA's performance presets.
bool is_from_elsewhere(const Source& source) {
  return !source.repo.empty() && !has_word(source.repo, "NVIDIA");
}

// Whether perf_recipes/ has presets of a mixture's family.
bool is_preset_family(const Run& run) {
  return has_any(run.model.name, {"DeepSeek", "Qwen3", "GPT-OSS", "GPT_OSS", "gpt-oss", "Kimi",
                                  "Nemotron", "GLM-5", "Llama"});
}

// So do NVIDIA's own functional checks, and its rows of models without a preset.
bool is_library_recipe(const Source& source, const Run& run) {
  return is_from_elsewhere(source) || has_word(run.notes, "not tuned") ||
         (run.model.moe && !is_preset_family(run));
}

// What the library's recipes leave as it was before the presets: the rotary embedding is fused in
// the dense models whose bridge asks for it (apply_rope_fusion in models/llama/llama_bridge.py and
// models/nemotron/nemotron_bridge.py) and in no other; experts are chosen without Transformer
// Engine's kernels (moe_router_fusion in recipes/); gradients are reduced in fp32
// (training/mixed_precision.py, bf16_mixed; recipes/common.py, grad_reduce_in_fp32), which recipes
// that NVIDIA checks often turn off.
void apply_library_recipe(Strategy& s, const Source& source, const Run& run) {
  if (is_from_elsewhere(source)) s.grad_dtype = Dtype::kFp32;
  s.runtime.fused_latent_rope = false;
  s.runtime.fused_router = false;
  s.runtime.fused_rope = has_any(run.model.name, {"Llama", "Nemotron"});
  if (!run.dispatcher.empty()) return;
  s.runtime.flex_dispatcher =
      library_dispatcher(bridge_recipes(), run).value_or(s.runtime.flex_dispatcher);
}

}  // namespace

int stated_release(const std::string& text) {
  static const std::regex pattern(R"((\d\d)\.(\d\d)(\.\d+)? container|\btag v(\d\d)\.(\d\d)\b)");
  std::smatch match;
  if (!std::regex_search(text, match, pattern)) return 0;
  const std::size_t year = match[1].matched ? 1 : 4;
  return std::stoi(match[year].str()) * 100 + std::stoi(match[year + 1].str());
}

bool recipe_says_recompute(const Source& source, const Run& run) {
  if (preset_of_table(source, run) != nullptr) return true;
  return has_presets(source) && named_recipe(bridge_recipes(), run).recipe != nullptr;
}

const BridgePreset* preset_of_table(const Source& source, const Run& run) {
  const bool pretrains = run.task.empty() || run.task == "pretrain";
  return has_presets(source) && pretrains ? bridge_preset(bridge_presets(), run) : nullptr;
}

void apply_recipe(Strategy& s, const Source& source, const Run& run) {
  apply_nemo_script(s, run);
  if (!has_presets(source) || s.framework != Framework::kMegatron) return;
  // scripts/performance/utils/overrides.py: grad_reduce_in_fp32 is off in every recipe, the loss
  // Transformer Engine's, apply_rope_fusion on.
  s.grad_dtype = Dtype::kBf16;
  // "fp8" without a word more is what its scripts call fp8_cs, the scales of current tensors
  // (scripts/performance/utils/precision.py).
  if (s.precision == Precision::kFp8 && s.runtime.fp8_recipe == ScalingRecipe::kBest) {
    s.runtime.fp8_recipe = ScalingRecipe::kTensorwise;
  }
  // Weights in 8 bits, but for scales of blocks (training/mixed_precision.py).
  s.runtime.fp8_param_gather =
      s.precision == Precision::kFp8 && s.runtime.fp8_recipe != ScalingRecipe::kBlockwise;
  s.runtime.fused_latent_rope = run.model.mla.has_value();
  s.runtime.inplace_cross_entropy = true;
  apply_layout(s, run);
  const bool from_library = is_library_recipe(source, run);
  if (from_library) apply_library_recipe(s, source, run);
  if (const NamedRecipe named = named_recipe(bridge_recipes(), run); named.recipe != nullptr) {
    apply_named(s, named, run);
    apply_layout(s, run);
    apply_layout(s, named.recipe->setting, run);
    return;
  }
  if (from_library) return;
  if (const BridgePreset* preset = preset_of_table(source, run)) {
    apply_preset(s, *preset);
    if (!run.model.moe) apply_dense_preset(s, *preset, run);
    apply_layout(s, *preset, run);
    return;
  }
  if (!run.model.moe) return;
  const int release = stated_release(run.where);
  for (const RecipeRow& row : kRecipes) {
    if (!holds(row, release, run)) continue;
    if (row.overlap) {
      s.overlap.ep = s.overlap.delay_wgrad_compute = *row.overlap && can_overlap(s);
    }
    if (row.flex) s.runtime.flex_dispatcher = *row.flex;
  }
  // Dropped tokens are padded to a capacity, which neither DeepEP nor HybridEP does.
  if (has_word(run.model.name, "tokendrop")) s.runtime.flex_dispatcher = false;
}

// The adapters of a row. NeMo's recipes of fine-tuning, whose tables leave them out, put those of
// rank 8 on the queries', keys' and values' projection (nemo/collections/llm/recipes,
// finetune_recipe).
void apply_adapters(Strategy& s, const Source& source, const Run& run) {
  if (run.task != "lora" && run.task != "qlora") return;
  s.lora.rank = run.lora_rank.value_or(8);
  const FrameworkRow* row = framework_row(source);
  s.runtime.fused_lora = has_word(run.adapter_notes, "Triton LoRA kernels") ||
                         has_word(run.notes, "framework unsloth");
  s.lora.all_to_all = row != nullptr && row->exchanges_adapters;
  s.lora.dropout = run.lora_dropout.value_or(0);
  s.lora.targets = run.lora_rank ? kDefaultLoraTargets : LoraTargets{LoraTarget::kQkv};
  LoraTargets stated;
  for (const std::string& name : run.lora_targets) {
    // PEFT passes over names that the model lacks.
    if (name == "gate_proj" && run.model.gated == false) continue;
    const bool all = has_word(name, "_proj (") || has_word(name, "all-linear");
    stated.insert(lora_targets(all ? "all-linear" : name));
  }
  if (!stated.empty()) s.lora.targets = stated;
  const std::string& frozen = run.frozen_precision;
  if (s.precision == Precision::kFp8 && has_word(frozen, "fp8")) {
    s.lora.frozen_dtype = FrozenDtype::kFp8;
  } else if (has_word(frozen, "nf4")) {
    s.lora.frozen_dtype = FrozenDtype::kNf4;
  } else if (has_word(frozen, "nvfp4")) {
    s.lora.frozen_dtype = FrozenDtype::kNvfp4;
  } else if (has_any(frozen, {"int4", "4 bit"})) {  // GPTQ's and AWQ's 4 bits take as much as nf4's
    s.lora.frozen_dtype = FrozenDtype::kNf4;
  } else if (has_any(frozen, {"int8", "8 bit"})) {
    s.lora.frozen_dtype = FrozenDtype::kInt8;
  }
}

// bitsandbytes' and torch's optimizers by the words of a row: "PagedAdamW8bit", "adamw_8bit".
void apply_optimizer(Strategy& s, const Run& run) {
  const std::string said = lower(run.optimizer);
  // torchtune's fsdp_cpu_offload: weights, gradients and the update (PyTorch CPUOffloadPolicy).
  if (said.find("fsdp_cpu_offload") != std::string::npos) {
    s.offload.optimizer = s.offload.weights = true;
  }
  s.runtime.optimizer_in_backward = said.find("fused in backward") != std::string::npos;
  const bool paged = said.find("paged") != std::string::npos;
  if (said.find("8bit") != std::string::npos || said.find("8-bit") != std::string::npos) {
    s.optimizer = paged ? Optimizer::kPagedAdam8bit : Optimizer::kAdam8bit;
  } else if (paged) {
    s.optimizer = Optimizer::kPagedAdam;
  } else if (said.find("adafactor") != std::string::npos) {
    s.optimizer = Optimizer::kAdafactor;
  } else if (said.find("muon") != std::string::npos) {
    s.optimizer = Optimizer::kMuon;
  } else if (said == "sgd") {
    s.optimizer = Optimizer::kSgd;
  }
  if (has_own_bits(s.optimizer)) s.optimizer_dtype = Dtype::kFp32;
}

// Unsloth's kernels for norm, rotary embedding and gated activation (unsloth/kernels), and its
// loss, which is fused with the output layer (unsloth_zoo/loss_utils.py, cut cross entropy). Others
// on Hugging Face's Trainer prepare a model in 4 bits as PEFT's documentation says (quantization
// guide), which casts what is not quantised to fp32; axolotl casts it back (loaders/model.py).
void apply_trainer(Strategy& s, const Source& source, const Run& run) {
  const FrameworkRow* row = framework_row(source);
  if (row == nullptr || !row->hugging_face_trainer) return;
  s.runtime.fused_optimizer = false;
  s.runtime.cloned_logits = row->shifted_logits && run.model.casts_logits;
  if (!has_adapters(s) && s.precision == Precision::kBf16) {
    s.master_weights = false;
    s.grad_dtype = s.optimizer_dtype = Dtype::kBf16;
  }
  if (has_word(run.notes, "framework unsloth")) {
    s.runtime.fused_norm = s.runtime.fused_rope = s.runtime.fused_activation = true;
    s.runtime.fused_linear_cross_entropy = true;
  } else if (has_word(run.frozen_precision, "bitsandbytes") &&
             has_word(run.notes, "framework HF")) {
    s.runtime.fp32_unquantised = true;
  }
  s.runtime.fused_linear_cross_entropy |= has_word(run.notes, "CutCrossEntropy");
}

// Words of a row, which come before its preset's: "full_iteration (...)", "per layer (...)",
// "transformer_engine: ['attn', 'mlp']"; of MLPerf's, "CUDA graph: FULL_CUDA_GRAPH,...", which
// captures a whole iteration.
void apply_graphs(Strategy& s, const Run& run) {
  Runtime& k = s.runtime;
  if (has_word(run.cuda_graphs, "full_iteration") || has_word(run.notes, "FULL_CUDA_GRAPH")) {
    k.cuda_graph = CudaGraph::kFullIteration, k.cuda_graph_modules = {};
  }
  if (has_word(run.cuda_graphs, "per layer")) {
    k.cuda_graph = CudaGraph::kLayer, k.cuda_graph_modules = {};
  }
  if (!has_word(run.cuda_graphs, "transformer_engine")) return;
  CudaGraphModules modules;
  std::string word;
  for (const char c : run.cuda_graphs + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (const auto module = from_name<CudaGraphModule>(word)) modules.add(*module);
    word.clear();
  }
  if (modules.empty()) return;
  k.cuda_graph = CudaGraph::kLayer, k.cuda_graph_modules = modules;
}

// A sample of SQuAD 1.1 is a paragraph of 500 characters or more (Rajpurkar et al. 2016,
// 1606.05250, sec. 3.1), a question and an answer: about 200 tokens. NeMo's packed rows hand
// attention the documents' bounds (cu_seqlens), so that its pairs are few whatever the exact
// length. Of Tulu 3's mixture a packed row of 8,192 tokens holds 21.55 documents (Megatron-Bridge,
// examples/model_verification_cards/moonlight-16b-a3b/card.yaml): 380 tokens each; that they
// spread as widely is a guess, which a row of so many hardly shows.
void apply_documents(Candidate& c, const Run& run) {
  ModelSpec& m = c.model;
  if (!run.packed && run.length_mean && run.length_deviation) {
    const Result<LengthSpec> lengths = parse_length_distribution(
        "lognormal(" + fixed(*run.length_mean, 1) + ", " + fixed(*run.length_deviation, 1) + ")");
    PLAN_CHECK(lengths);
    m.lengths = run.drops_long ? dropped_above(*lengths, c.strategy.seq_len) : *lengths;
    c.strategy.packing = Packing::kNone;
  }
  if (!run.packed) return;
  const bool short_ones = has_word(run.lengths, "SQuAD");
  if (!short_ones && !has_word(run.lengths, "Tulu")) return;
  const Result<LengthSpec> lengths =
      parse_length_distribution(short_ones ? "lognormal(200, 80)" : "lognormal(380, 400)");
  PLAN_CHECK(lengths);
  m.lengths = *lengths;
}

namespace {

// Of torchtitan's "selective layer" every second block is recomputed (selective_ac_option, whose
// default is 2).
bool recomputes_every_second(const Strategy& s, const Run& run) {
  return s.framework == Framework::kTorchtitan && has_word(run.recompute_detail, "selective layer");
}

}  // namespace

// Blocks that a row calls "a fraction of the blocks", from the ratio of hardware to model FLOPs it
// quotes: recomputing all of them repeats the forward pass, a third of the model's.
void apply_recompute(Strategy& s, const Run& run, std::int64_t layers) {
  if (const auto mode = from_name<Recompute>(run.recompute)) s.recompute = *mode;
  for (const std::string& name : run.recompute_modules) {
    const auto module = from_name<RecomputeModule>(name);
    if (module && s.recompute == Recompute::kSelective) s.recompute_modules.add(*module);
  }
  // What the rows state as switches, or in words ("checkpointing with offload to system RAM").
  const bool offloads = run.host_checkpoints || has_word(run.recompute_detail, "with offload to");
  s.runtime.host_checkpoints = offloads && s.recompute == Recompute::kFull;
  s.offload.optimizer = s.offload.optimizer || run.optimizer_on_host;
  for (const std::string& name : run.offload_modules) {
    if (const auto module = from_name<OffloadModule>(name)) s.offload.modules.add(*module);
  }
  if (recomputes_every_second(s, run) && s.pp == 1) {
    s.recompute = Recompute::kNone;
    s.recompute_layers = {layers / 2};
    return;
  }
  std::smatch match;
  // "21 of 80 layers fully recomputed".
  static const std::regex some(R"((\d+) of \d+ layers fully recomputed)");
  if (s.pp == 1 && std::regex_search(run.recompute_detail, match, some)) {
    s.recompute = Recompute::kNone;
    s.recompute_layers = {std::stoll(match[1].str())};
    return;
  }
  static const std::regex ratio(R"(fraction of the blocks.*gives (\d+\.\d+))");
  if (!std::regex_search(run.recompute_detail, match, ratio) || s.pp != 1) return;
  const double share = std::clamp(3 * (std::stod(match[1].str()) - 1), 0.0, 1.0);
  s.recompute = Recompute::kNone;
  s.recompute_layers = {std::llround(share * static_cast<double>(layers))};
}

}  // namespace meshplan::accuracy
