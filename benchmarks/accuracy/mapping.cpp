// Published run -> Strategy, and the values of what the source leaves open.
#include "mapping.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <regex>
#include <set>

#include "attention_kernels.hpp"
#include "base/check.hpp"
#include "framework_rows.hpp"
#include "frameworks/preset.hpp"
#include "product_rates.hpp"
#include "recipes.hpp"
#include "schedule/traits.hpp"
#include "spec/module_lists.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

std::optional<std::int64_t> first_number(const std::string& text, const char* pattern) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern, std::regex::icase))) return std::nullopt;
  return std::stoll(match[1].str());
}

bool is_megatron_code(Framework f) {
  return f == Framework::kMegatron || f == Framework::kMegatronDeepspeed;
}

// What a row says of torch.compile. Of torchtitan's tables, where it is an option, rows beside
// others that name it are without.
std::optional<bool> is_compiled(const Source& source, const Run& run, Framework framework) {
  if (const auto own = stated_compilation(run)) return own;
  if (framework != Framework::kTorchtitan) return std::nullopt;
  const bool named = std::any_of(source.runs.begin(), source.runs.end(), [](const Run& other) {
    return stated_compilation(other).has_value();
  });
  return named ? std::optional(false) : std::nullopt;
}

void apply_kernels(Strategy& s, const Source& source, const Run& run) {
  const std::string& text = run.attention_impl;
  s.flash_attention = flash_attention_of(text).value_or(s.flash_attention);
  // Aleph Alpha's tables: "torch" is attention of plain operations, "fused" Megatron's softmax.
  if (lower(text) == "torch" || has_word(text, "plain")) s.runtime.fused_softmax = false;
  if (lower(text) == "fused") s.runtime.fused_softmax = true;
  s.runtime.attention = attention_kernel_of(source, run).value_or(s.runtime.attention);
  s.runtime.product_rate = product_rate_of(source, run, s.precision);
  // MLPerf's configurations: FP8_DPA=1; only with products in 8 bits.
  if (has_word(text, "FP8")) s.runtime.fp8_attention = s.precision == Precision::kFp8;
  s.runtime.activation_func_fp8_input_store |=
      has_word(run.notes, "activation_func_fp8_input_store");
  // Modules of Transformer Engine below other code: its norms, rotary embeddings and attention.
  static const std::regex modules(R"(\bTE\b)");
  if (!is_megatron_code(s.framework) && std::regex_search(text, modules)) {
    s.runtime.fused_norm = s.runtime.fused_rope = true;
    s.runtime.attention = AttentionKernel::kBest;
  }
  if (has_word(text, "DeepEP")) s.runtime.flex_dispatcher = true;
  // TRL's loss of chunks of tokens, each of which makes its logits anew for the backward pass.
  s.runtime.fused_linear_cross_entropy |= has_word(run.notes, "chunked NLL loss");
  // In eight chunks, as torchtune's and axolotl's losses are unless stated.
  if (!is_megatron_code(s.framework) && has_word(run.notes, "chunked loss")) {
    s.runtime.loss_chunks = 8;
  }
  // XLA drops from what is computed again what no gradient reads.
  if (has_word(run.notes, "JAX")) s.runtime.recompute_early_stop = true;
  const FrameworkRow* row = framework_row(source);
  if (row != nullptr && row->norm_fused_where_stated)
    s.runtime.fused_norm = has_word(text, "RMS kernel");
  if (row != nullptr && row->gathered_logits) s.runtime.gathered_logits = true;
  if (row != nullptr && row->whole_fp32_reduction)
    s.runtime.whole_reduction = s.runtime.fp32_reduction = true;
  if (row != nullptr && row->bf16_cross_entropy) s.runtime.bf16_cross_entropy = true;
  if (row != nullptr && row->eager_router) s.runtime.fused_router = false;
  if (row != nullptr && row->sharded_pipeline) s.runtime.sharded_pipeline = true;
  if (row != nullptr && row->flat_parameters) s.runtime.per_parameter_shards = false;
  // --moe-router-fusion came with Megatron-Core 0.14, in October 2025.
  const int release = stated_release(run.where);
  if (release > 0 && release < 2509) s.runtime.fused_router = false;
  if (row != nullptr && row->megatron_experts) {
    s.runtime.fused_permute = true;
    s.runtime.weighted_expert_outputs = false;
  }
  // Megatron's newest release has Transformer Engine's loss, which came in 2025-03 (0f60adbd30);
  // tables of NeMo and MLPerf are older or do not tell.
  if (s.framework == Framework::kMegatron) {
    s.runtime.inplace_cross_entropy = row != nullptr && row->inplace_cross_entropy;
  }
  // The compiler joins chains of element-wise operations, torchtitan's those of the loss too.
  if (const auto compiled = is_compiled(source, run, s.framework)) {
    s.runtime.fused_norm = s.runtime.fused_rope = s.runtime.fused_activation =
        s.runtime.fused_dropout_add = *compiled;
    const bool own = row != nullptr && row->compiles_loss;
    if (own || (s.framework == Framework::kTorchtitan && !*compiled))
      s.runtime.fused_cross_entropy = s.runtime.inplace_cross_entropy = *compiled;
  }
}

void apply_overlap(Strategy& s, const Run& run) {
  if (is_megatron_code(s.framework) && flash_attention_of(run.attention_impl) == false)
    s.overlap = {.tp_backward = s.overlap.tp_backward};
  const std::string& model = run.model.name;
  if (const auto dp = stated_overlap(run.overlap_dp, model)) {
    s.overlap.grad_reduce = *dp;
    // "overlap_sync_param=False" of InternEvo names the gather apart from the reduction.
    s.overlap.param_gather =
        *dp && !has_word(run.overlap_dp, "param=False") &&
        (s.overlap.param_gather ||
         has_any(run.overlap_dp, {"param", "prefetch", "distributed optimizer"}));
  }
  if (const auto tp = stated_overlap(run.overlap_tp, model)) s.overlap.tp = *tp;
  if (const auto pp = stated_overlap(run.overlap_pp, model)) s.overlap.pp = *pp;
  if (run.overlap_tp.empty() && !has_word(run.attention_impl, "TransformerEngine"))
    s.overlap.tp = false;
}

// How experts' tokens travel: "DeepEP dispatcher + 1F1B EP-communication overlap", "alltoall
// dispatcher".
void apply_dispatch(Strategy& s, const Source& source, const Run& run) {
  const FrameworkRow* row = framework_row(source);
  const std::string said = run.overlap_words + " " + run.notes;
  if (has_any(said, {"DeepEP", "HybridEP"})) s.runtime.flex_dispatcher = true;
  if (has_any(said, {"alltoall dispatcher", "all-to-all dispatcher", "A2A dispatcher"}))
    s.runtime.flex_dispatcher = false;
  if (s.ep > 1 && has_any(said, {"EP-communication overlap", "EP overlap"})) s.overlap.ep = true;
  if (has_word(run.notes, "moe_permute_fusion off")) s.runtime.fused_permute = false;
  s.runtime.dispatch_nvshmem = has_word(run.dispatcher, "NVSHMEM");
  if (!run.dispatcher.empty())
    s.runtime.flex_dispatcher = has_any(lower(run.dispatcher), {"deepep", "hybridep"});
  if (s.ep > 1 && !run.overlap_ep.empty()) s.overlap.ep = run.overlap_ep != "false";
  s.overlap.delay_wgrad_compute = s.overlap.delay_wgrad_compute && s.overlap.ep;
  s.runtime.single_device_connection =
      row != nullptr && row->single_device_connection && s.overlap.ep;
}

void apply_precision(Strategy& s, const Source& source, const Run& run) {
  const FrameworkRow* row = framework_row(source);
  if (row != nullptr && row->low_precision_gradients) s.grad_dtype = Dtype::kBf16;
  if (row != nullptr && row->states_as_weights && s.precision == Precision::kBf16) {
    s.master_weights = false;
    s.grad_dtype = s.optimizer_dtype = Dtype::kBf16;
  }
  if (s.precision == Precision::kFp16 && is_megatron_code(s.framework)) s.grad_dtype = Dtype::kFp16;
  s.runtime.fp8_recipe =
      recipe_of(run.precision).value_or(row != nullptr ? row->fp8_recipe : ScalingRecipe::kBest);
  s.runtime.num_layers_at_start_in_bf16 = run.layers_at_start_in_bf16;
  s.runtime.num_layers_at_end_in_bf16 = run.layers_at_end_in_bf16;
  s.runtime.fp8_param_gather = has_word(run.precision, "fp8 all-gather");
  const std::string said = run.notes + " " + run.overlap_dp;
  if (has_word(said, "grad_sync_dtype bf16")) s.grad_dtype = Dtype::kBf16;
  // Composer's FSDP: DEFAULT reduces gradients in fp32, PURE in the low precision.
  if (has_word(run.notes, "mixed precision mode DEFAULT")) s.grad_dtype = Dtype::kFp32;
}

Schedule schedule_of(const std::string& text) {
  if (has_word(text, "interleaved")) return Schedule::kInterleaved;
  if (has_word(text, "dualpipe")) return Schedule::kDualPipe;
  if (has_any(text, {"gpipe", "afab"})) return Schedule::kGpipe;
  return Schedule::k1f1b;
}

void apply_sharding(Strategy& s, const Run& run) {
  if (run.zero_stage && *run.zero_stage >= 0 && *run.zero_stage <= 3)
    s.zero = static_cast<int>(*run.zero_stage);
  const std::optional<std::int64_t> group = first_number(run.optimizer, R"(group size (\d+))");
  const std::optional<std::int64_t> node = first_number(run.fsdp, R"(node of (\d+))");
  if (group) s.zero_group = *group;
  if (node) s.zero_group = *node;
  // A group that spans all data-parallel ranks, or does not divide them, is no group of its own.
  const std::int64_t ranks = s.dp * s.cp;
  if (s.zero_group >= ranks || (s.zero_group > 0 && ranks % s.zero_group != 0)) s.zero_group = 0;
}

std::string layout_problem(const Run& run) {
  if (!run.gpus) return "gpus not stated";
  if (!run.tp || !run.pp) return "layout not stated: tp, pp";
  const std::int64_t model_ranks = *run.tp * *run.pp * run.cp.value_or(1);
  if (*run.gpus % model_ranks != 0) return "gpus is not a multiple of tp x pp x cp";
  if (run.dp && *run.dp * model_ranks != *run.gpus)
    return "the row contradicts itself: tp x pp x cp x dp = " +
           std::to_string(*run.dp * model_ranks) + ", gpus = " + std::to_string(*run.gpus);
  if (!run.global_batch) return "global batch not stated";
  return {};
}

// torchtitan's benchmark pages are named after the month of their measurement
// (benchmarks/README.md there), whose release of the code then counts.
const Preset& preset_of_run(const Source& source, const Run& run) {
  const std::string_view framework = framework_of(source, run);
  static const std::regex page(R"(benchmarks/\S*_(20\d\d)(0[1-9]|1[0-2])(\d\d)?_\S*\.md)");
  std::smatch month;
  if (framework == name_of(Framework::kTorchtitan) && std::regex_search(run.where, month, page)) {
    const Result<const Preset*> dated =
        find_preset(framework, month[1].str() + "-" + month[2].str());
    if (dated) return **dated;
  }
  // Runs on PyTorch are of the day that they state, else of before its attention was cuDNN's.
  if (framework == name_of(Framework::kFsdp)) {
    static const std::regex stated(R"(\b(20\d\d-(0[1-9]|1[0-2]))-[0-3]\d\b)");
    std::smatch day;
    if (std::regex_search(run.where, day, stated)) {
      const Result<const Preset*> then = find_preset(framework, day[1].str());
      if (then) return **then;
    }
    const Result<const Preset*> before = find_preset(framework, "torch2.6");
    PLAN_CHECK(before);
    return **before;
  }
  return known_preset(framework);
}

Strategy base_strategy(const Source& source, const Run& run, Precision precision) {
  Strategy s = with_preset(Strategy{}, preset_of_run(source, run));
  s.precision = precision;
  s.tp = *run.tp;
  s.pp = *run.pp;
  s.cp = run.cp.value_or(1);
  s.ep = run.ep.value_or(1);
  s.dp = *run.gpus / (s.tp * s.pp * s.cp);
  s.vp = s.pp > 1 ? run.vp.value_or(1) : 1;
  s.global_batch = *run.global_batch;
  s.seq_len = *run.model.seq_length;
  s.micro_batch = run.micro_batch.value_or(1);
  s.sequence_parallel = s.tp > 1 && run.sequence_parallel.value_or(false);
  s.schedule = s.pp > 1 ? schedule_of(run.schedule) : Schedule::k1f1b;
  const FrameworkRow* row = framework_row(source);
  if (s.cp > 1 && row != nullptr) s.cp_kind = row->cp_kind;
  if (has_any(run.attention_impl + run.overlap_pp, {"all-gather based CP"}))
    s.cp_kind = CpKind::kAllGather;
  apply_kernels(s, source, run);
  // Interleaving and messages split over tensor ranks came to Megatron-LM in February 2021
  // (dd88906264, 72e4230bb5).
  if (has_word(run.schedule_source, "code of Jan 2021")) s.runtime.scatter_gather = false;
  apply_overlap(s, run);
  apply_dispatch(s, source, run);
  apply_precision(s, source, run);
  apply_sharding(s, run);
  apply_adapters(s, source, run);
  apply_trainer(s, source, run);
  apply_optimizer(s, run);
  apply_graphs(s, run);
  apply_recompute(s, run, *run.model.num_layers);
  apply_recipe(s, source, run);
  return s;
}

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) all.push_back(d);
  }
  return all;
}

// Replaces every candidate by one per value.
template <class T>
void vary(Mapped& mapped, const char* field, const std::vector<T>& values,
          const std::function<void(Candidate&, const T&)>& set) {
  std::vector<Candidate> all;
  for (const Candidate& candidate : mapped.candidates) {
    for (const T& value : values) {
      Candidate next = candidate;
      set(next, value);
      all.push_back(std::move(next));
    }
  }
  if (all.empty()) return;
  mapped.candidates = std::move(all);
  mapped.searched.emplace_back(field);
}

// Head counts that the same file states for models of this width, of these the one nearest in
// depth: a model of a tenth of the layers is another model. Else those of heads of 64 to 256
// elements.
std::vector<std::int64_t> possible_heads(const Source& source, const Run& run) {
  const std::int64_t width = run.model.hidden_size.value_or(0);
  std::set<std::int64_t> stated;
  std::int64_t nearest = std::numeric_limits<std::int64_t>::max();
  for (const Run& other : source.runs) {
    if (other.model.hidden_size != run.model.hidden_size || !other.model.num_attention_heads)
      continue;
    const std::int64_t apart =
        std::abs(other.model.num_layers.value_or(0) - run.model.num_layers.value_or(0));
    if (apart < nearest) stated.clear();
    nearest = std::min(nearest, apart);
    if (apart == nearest) stated.insert(*other.model.num_attention_heads);
  }
  if (stated.empty() && width > 0) {
    for (std::int64_t dim = 64; dim <= 256; dim += 8) {
      if (width % dim == 0) stated.insert(width / dim);
    }
  }
  std::vector<std::int64_t> legal;
  for (const std::int64_t heads : stated) {
    if (width % heads == 0 && heads % run.tp.value_or(1) == 0) legal.push_back(heads);
  }
  return legal;
}

void vary_schedule(Mapped& mapped, const Source&, const Run& run) {
  if (run.vp || *run.pp == 1 || !(run.schedule.empty() || has_word(run.schedule, "interleaved")))
    return;
  constexpr std::int64_t kMostLayersPerRank = 64;
  std::vector<std::int64_t> values = divisors(*run.model.num_layers / *run.pp, kMostLayersPerRank);
  // One chunk per rank is not interleaved; a text that says so rules it out where it can.
  if (!run.schedule.empty() && values.size() > 1) values.erase(values.begin());
  vary<std::int64_t>(mapped, "vp", values,
                     [](Candidate& c, const std::int64_t& v) { c.strategy.vp = v; });
}

// None, selective, or the whole of some layers of every stage; Megatron-Core's recipes for mixtures
// of experts list modules. Recipes that are known to offload saved activations may do so instead.
void vary_recompute(Mapped& mapped, const Run& run) {
  struct Choice {
    Recompute kind;
    std::int64_t layers;  // of every stage, 0: all
    bool offload;
    RecomputeModules modules{};
  };
  std::vector<Choice> choices{{Recompute::kNone, 0, false}};
  const Candidate& first = mapped.candidates.front();
  if (first.strategy.framework == Framework::kMegatron && first.model.moe) {
    for (const RecomputeModules& list : module_lists(first.model, first.strategy.runtime)) {
      if (!list.empty()) choices.push_back({Recompute::kSelective, 0, false, list});
    }
  } else {
    choices.push_back({Recompute::kSelective, 0, false});
  }
  for (std::int64_t n = 1; n < *run.model.num_layers / *run.pp; ++n) {
    choices.push_back({Recompute::kFull, n, false});
  }
  choices.push_back({Recompute::kFull, 0, false});
  if (has_word(run.notes, "offload activations")) choices.push_back({Recompute::kNone, 0, true});
  vary<Choice>(mapped, "recompute", choices, [](Candidate& c, const Choice& v) {
    Strategy& s = c.strategy;
    s.recompute = v.kind, s.recompute_modules = v.modules;
    s.offload.activations = v.offload;
    if (v.layers > 0) s.recompute_layers.assign(static_cast<std::size_t>(s.pp), v.layers);
  });
}

void vary_unstated(Mapped& mapped, const Source& source, const Run& run) {
  if (!run.micro_batch) {
    constexpr std::int64_t kMostSequences = 64;
    const std::int64_t per_rank =
        std::max<std::int64_t>(*run.global_batch / mapped.candidates.front().strategy.dp, 1);
    vary<std::int64_t>(mapped, "micro_batch", divisors(per_rank, kMostSequences),
                       [](Candidate& c, const std::int64_t& v) { c.strategy.micro_batch = v; });
  }
  vary_schedule(mapped, source, run);
  // A source may say it in words.
  const bool without = has_word(run.notes, "without sequence parallelism");
  if (!run.sequence_parallel && *run.tp > 1 && !without)
    vary<bool>(mapped, "sequence_parallel", {false, true},
               [](Candidate& c, const bool& v) { c.strategy.sequence_parallel = v; });
  if (!run.zero_stage && mapped.candidates.front().strategy.dp > 1) {
    std::vector<int> stages{0, 1};
    if (run.distributed_optimizer) stages = {*run.distributed_optimizer ? 1 : 0};
    if (!run.fsdp.empty()) stages = {3};
    vary<int>(mapped, "zero_stage", stages,
              [](Candidate& c, const int& v) { c.strategy.zero = v; });
  }
  if (run.recompute.empty() && !recipe_says_recompute(source, run)) vary_recompute(mapped, run);
}

// Follows from what was chosen, so it comes after the search's values.
void settle(Strategy& s) {
  if (s.vp == 1 && s.schedule == Schedule::kInterleaved) s.schedule = Schedule::k1f1b;
  if (s.vp > 1 && s.schedule == Schedule::k1f1b) s.schedule = Schedule::kInterleaved;
  if (traits_of(s.schedule).chunks == ChunksPerRank::kTwo) s.vp = 2;
  if (s.vp == 1 && is_megatron_code(s.framework)) s.overlap.pp = false;
  if (!s.sequence_parallel) s.overlap.tp = false;
  if (s.tp == 1) s.overlap.tp = false;
}

}  // namespace

std::string_view framework_of(const Source& source, const Run& run) {
  // ms-swift's commands: `megatron sft` is Megatron-Core, `swift sft` Hugging Face's Trainer.
  if (starts_with_word(run.notes, "swift ")) {
    return run.zero_stage.value_or(0) > 0 ? "deepspeed" : "fsdp";
  }
  if (has_word(run.fsdp, "megatron-fsdp")) return "megatron";
  if (run.zero_stage == 3 && has_word(run.notes, "deepspeed")) {
    // ZeRO-3 beside Megatron-LM without flash attention is DeepSpeed's of 2021.
    return flash_attention_of(run.attention_impl) == false ? "deepspeed-v0" : "deepspeed";
  }
  const FrameworkRow* row = framework_row(source);
  const std::string_view framework = row == nullptr ? "megatron" : row->framework;
  const bool shards_itself = framework == "torchtitan" || framework == "llm-foundry";
  if (!shards_itself && has_any(run.fsdp, {"torch FSDP", "fairscale"})) return "fsdp";
  // Megatron-LM without flash attention is of release 2 or before, but for the paper of release 3.
  if (framework != "megatron" || flash_attention_of(run.attention_impl) != false) return framework;
  const bool third = has_word(source.title, "Reducing Activation Recomputation");
  return third ? "megatron-v3" : "megatron-v2";
}

const Preset& known_preset(std::string_view name) {
  const Result<const Preset*> preset = find_preset(name);
  PLAN_CHECK(preset);
  return **preset;
}

std::string code_name(const Strategy& s) {
  const Preset& preset = preset_of(s);
  return preset.alias.empty() ? preset.framework_name : preset.alias;
}

std::variant<Mapped, Skip> map_run(const Source& source, const Run& run) {
  const std::string problem = layout_problem(run);
  if (!problem.empty()) return Skip{problem};
  const std::optional<Precision> precision = precision_of(run.precision);
  if (run.precision.empty()) return Skip{"precision not stated"};
  if (!precision) return Skip{"precision not modelled: " + run.precision};
  Mapped mapped;
  std::vector<std::int64_t> heads;
  if (!run.model.num_attention_heads) heads = possible_heads(source, run);
  std::variant<ModelSpec, Skip> model =
      heads.empty() ? model_of(run) : model_of(run, heads.front());
  if (Skip* skip = std::get_if<Skip>(&model)) return *skip;
  mapped.candidates.push_back({std::get<ModelSpec>(model), base_strategy(source, run, *precision)});
  if (!heads.empty())
    vary<std::int64_t>(mapped, "num_attention_heads", heads,
                       [&](Candidate& c, const std::int64_t& n) {
                         const auto other = model_of(run, n);
                         if (std::holds_alternative<ModelSpec>(other))
                           c.model = std::get<ModelSpec>(other);
                       });
  if (has_word(run.precision, "TF32?") && precision == Precision::kFp32)
    vary<Precision>(mapped, "precision", {Precision::kFp32, Precision::kTf32},
                    [](Candidate& c, const Precision& v) { c.strategy.precision = v; });
  vary_unstated(mapped, source, run);
  for (Candidate& candidate : mapped.candidates) {
    apply_documents(candidate, run);
    settle(candidate.strategy);
  }
  return mapped;
}

}  // namespace meshplan::accuracy
