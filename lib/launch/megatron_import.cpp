#include "launch/megatron_import.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "launch/cublas_workspace.hpp"
#include "launch/megatron_parts.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

struct Purpose {
  std::string_view part;  // of the program's name
  std::string_view what;
};
constexpr std::array kOther{Purpose{"pretrain_bert", "trains BERT, an encoder"},
                            Purpose{"pretrain_t5", "trains T5, an encoder and a decoder"},
                            Purpose{"pretrain_ict", "trains a retriever (ICT)"},
                            Purpose{"pretrain_realm", "trains a retriever (REALM)"},
                            Purpose{"pretrain_retro", "trains RETRO, a decoder with a retriever"},
                            Purpose{"pretrain_vision", "trains a vision model"},
                            Purpose{"pretrain_vit", "trains a vision model"},
                            Purpose{"pretrain_vlm", "trains a model of images and text"},
                            Purpose{"pretrain_llava", "trains a model of images and text"},
                            Purpose{"pretrain_megatron_llava", "trains a model of images and text"},
                            Purpose{"_vl.py", "trains a model of images and text"},
                            Purpose{"pretrain_qwen2_5_vl", "trains a model of images and text"},
                            Purpose{"omni", "trains a model of sound, images and text"},
                            Purpose{"mimo", "trains a model of several modes"},
                            Purpose{"train_rl", "trains by reinforcement learning"},
                            Purpose{"prefix_lm", "trains a prefix language model"},
                            Purpose{"mlm", "trains with masked words"},
                            Purpose{"distill", "trains with a teacher"},
                            Purpose{"evaluate", "evaluates a model"},
                            Purpose{"eval", "evaluates a model"},
                            Purpose{"tasks/main.py", "evaluates or fine-tunes an encoder"},
                            Purpose{"text_generation", "runs inference"},
                            Purpose{"generate", "runs inference"},
                            Purpose{"inference", "runs inference"},
                            Purpose{"server", "runs inference"},
                            Purpose{"convert", "converts a checkpoint"},
                            Purpose{"hf2m", "converts a checkpoint"},
                            Purpose{"m2hf", "converts a checkpoint"},
                            Purpose{"tools/checkpoint", "converts a checkpoint"},
                            Purpose{"preprocess", "prepares data"},
                            Purpose{"analyze_data", "prepares data"},
                            Purpose{"report_theoretical_memory", "estimates memory"},
                            Purpose{"quantize", "quantises a model"},
                            Purpose{"export.py", "exports a model"},
                            Purpose{"prune", "prunes a model"}};

// Options that only such a model has.
constexpr std::array<std::pair<const char*, std::string_view>, 7> kOtherOptions{
    {{"--vision-model-type", "a model of images and text"},
     {"--language-model-type", "a model of images and text"},
     {"--img-h", "a model of images"},
     {"--perform-rl-step", "by reinforcement learning"},
     {"--grpo-group-size", "by reinforcement learning"},
     {"--ict-head-size", "a retriever"},
     {"--retro-add-retriever", "RETRO, a decoder with a retriever"}}};

class Importer {
 public:
  Importer(std::string_view text, const std::string& file, const RunContext& context)
      : file_(file), context_(context), run_{}, options_(read(text), megatron_options(), file) {}

  Result<MegatronRun> result() {
    if (const std::string_view other = other_purpose(run_.script.program); !other.empty()) {
      return error_at({file_}, run_.script.program + " " + std::string(other),
                      "a decoder of text is what this program describes");
    }
    for (const auto& [option, what] : kOtherOptions) {
      if (context_.lenient || !options_.has(option)) continue;
      return error_at({file_}, std::string(option) + ": this trains " + std::string(what),
                      "--lenient reads it as a decoder of text");
    }
    read_world();
    if (context_.model && !options_.has("--num-layers")) {
      run_.model = *context_.model;
    } else {
      read_megatron_model(options_, run_);
    }
    // Without its sizes nothing else can be said of a model.
    if (run_.model.hidden_size > 0 && run_.model.num_layers > 0) {
      read_sizes();
      read_batches();
      read_stages();
      read_sharding();
      read_memory();
      read_precision();
      read_logging(options_, run_);
    }
    options_.account(context_.lenient, run_);
    problems_.insert(problems_.end(), options_.problems().begin(), options_.problems().end());
    if (!problems_.empty()) return problems_;
    for (const auto& [name, value] : run_.script.variables) run_.environment[name] = value;
    run_.grows_segments = grows_segments(run_.environment);
    const auto connections = run_.environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
    const bool one = connections != run_.environment.end() && connections->second.text == "1";
    run_.strategy.runtime.single_device_connection = one && run_.strategy.overlap.ep;
    run_.options_by_name = std::move(options_.all());
    run_.strategy = with_world(run_, run_.world_size);
    return std::move(run_);
  }

 private:
  const ShellScript& read(std::string_view text) {
    ShellInputs inputs = context_.shell;
    inputs.matters = [](std::string_view name) {
      const std::optional<KnownOption> known = megatron_options().find(name);
      return !is_launcher_option(name) && (!known || known->effect != OptionEffect::kNoEffect);
    };
    run_.script = read_shell(text, inputs);
    return run_.script;
  }

  void read_world() {
    const Result<std::int64_t> world = launched_world(run_.script, file_, &run_);
    if (world) {
      run_.world_size = *world;
    } else if (context_.gpus == 0) {
      problems_.insert(problems_.end(), world.errors().begin(), world.errors().end());
    }
    if (context_.gpus == 0) return;
    run_.world_size = context_.gpus;
    run_.world_source = "--gpus";
  }

  bool has(const char* name) { return options_.has(name); }
  std::string text(const char* name, const std::string& otherwise = {}) {
    return options_.text(name, otherwise);
  }
  std::int64_t number(const char* name, std::int64_t otherwise, IntegerRange range = kCount) {
    return options_.number(name, otherwise, range);
  }

  void read_sizes() {
    Strategy& s = run_.strategy;
    s = framework_preset(Framework::kMegatron);
    if (!context_.release.empty()) {
      const auto preset = find_preset(name_of(Framework::kMegatron), context_.release);
      if (preset) {
        s = with_preset(Strategy{}, **preset);
      } else {
        problems_.insert(problems_.end(), preset.errors().begin(), preset.errors().end());
      }
    }
    const auto workspace = run_.script.variables.find("CUBLAS_WORKSPACE_CONFIG");
    if (workspace != run_.script.variables.end()) {
      run_.strategy.runtime.cublas_workspace_bytes = cublas_workspace(workspace->second.text);
    }
    s.tp =
        number("--tensor-model-parallel-size", number("--model-parallel-size", 1, kRanks), kRanks);
    s.pp = number("--pipeline-model-parallel-size", 1, kStages);
    s.cp = number("--context-parallel-size", 1, kRanks);
    const std::string cp = text("--cp-comm-type", "p2p");
    s.cp_kind = cp == "a2a" ? CpKind::kUlysses : cp == "p2p" ? CpKind::kRing : CpKind::kAllGather;
    s.ep = number("--expert-model-parallel-size", 1, kRanks);
    const std::int64_t etp = number("--expert-tensor-parallel-size", s.tp, kRanks);
    s.etp = run_.model.moe ? etp : 1;
    if (!run_.model.moe) s.ep = 1;
    s.sequence_parallel = has("--sequence-parallel") && s.tp > 1;
    s.overlap.tp = has("--tp-comm-overlap");
    const std::int64_t model_ranks = bounded_product({s.tp, s.pp, s.cp});
    if (const auto wrong = out_of_range("tp * pp * cp", model_ranks, kRanks)) {
      problems_.push_back(error_at({file_}, *wrong));
    }
    s.dp = run_.world_size / model_ranks;
    if (run_.world_size > 0 && s.dp == 0) {
      const std::string what = "tp * pp * cp = " + std::to_string(model_ranks) +
                               " ranks are more than the " + std::to_string(run_.world_size) +
                               " GPUs of " + run_.world_source;
      if (context_.gpus > 0) {
        problems_.push_back(error_at({file_}, what));
      } else {
        run_.notes.push_back(what);
      }
      run_.world_size = 0;
    }
    s.overlap.ep = has("--overlap-moe-expert-parallel-comm");
    s.overlap.delay_wgrad_compute = has("--delay-wgrad-compute");
    read_dispatch(options_, run_);
    const bool grouped = has("--moe-grouped-gemm");
    s.runtime.grouped_gemm = grouped || !run_.model.moe;
    if (has("--use-tp-pp-dp-mapping")) s.order = kPipelineInsideOrder;
  }

  void read_batches() {
    Strategy& s = run_.strategy;
    if (!has("--seq-length") && !has("--encoder-seq-length")) {
      run_.assumed.push_back({"seq_len", "1024", "nothing states it"});
    }
    s.seq_len = number("--seq-length", number("--encoder-seq-length", 1024, kTokens), kTokens);
    s.micro_batch = number("--micro-batch-size", number("--batch-size", 1, kSequences), kSequences);
    if (has("--global-batch-size")) {
      s.global_batch = number("--global-batch-size", 1, kSequences);
    } else if (!read_schedule_of_batches()) {
      run_.accumulation = 1;
    }
    if (has("--rampup-batch-size")) {
      run_.assumed.push_back(
          {"global_batch", std::to_string(s.global_batch), "what --rampup-batch-size ends with"});
    }
  }

  // "0:64 1000:128": from which step on how many sequences.
  bool read_schedule_of_batches() {
    const ProgramOption* o = options_.find("--step-batch-size-schedule");
    if (o == nullptr || o->values.empty()) return false;
    const std::string& all = o->values.back().text;
    const std::size_t colon = all.find_last_of(':');
    if (colon == std::string::npos) return false;
    std::int64_t last = 0;
    std::from_chars(all.data() + colon + 1, all.data() + all.size(), last);
    if (out_of_range("", last, kSequences)) return false;
    run_.strategy.global_batch = last;
    run_.assumed.push_back(
        {"global_batch", std::to_string(last), "what --step-batch-size-schedule ends with"});
    return true;
  }

  void read_stages() {
    Strategy& s = run_.strategy;
    const std::int64_t layers = run_.model.num_layers;
    s.vp = number("--num-virtual-stages-per-pipeline-rank", 1, kStages);
    const std::int64_t first = number("--decoder-first-pipeline-num-layers", 0);
    const std::int64_t last = number("--decoder-last-pipeline-num-layers", 0);
    // A:997: the embedding and the loss count as a layer each.
    const std::int64_t in = has("--account-for-embedding-in-pipeline-split") ? 1 : 0;
    const std::int64_t out = has("--account-for-loss-in-pipeline-split") ? 1 : 0;
    if (const std::int64_t each = number("--num-layers-per-virtual-pipeline-stage", 0); each > 0) {
      const std::int64_t all = layers + in + out;
      s.vp =
          std::max<std::int64_t>(all / std::max<std::int64_t>(bounded_product({s.pp, each}), 1), 1);
    }
    if (s.pp > 1) place_layers(first, last, in, out);
    if (const ProgramOption* layout = options_.find("--pipeline-model-parallel-layout")) {
      read_layout(*layout);
    }
    if (const HybridStages stages = hybrid_stages(argument_reader(options_), s.pp);
        !stages.layers_per_rank.empty()) {
      s.vp = stages.chunks;
      if (s.pp > 1) s.stage_layers = stages.layers_per_rank;
      if (s.pp > 1 && s.vp > 1) s.chunk_layers = uneven_chunks(s, stages.layers_per_chunk);
    }
    if (s.vp > 1) s.schedule = Schedule::kInterleaved;
    const std::int64_t group = number("--microbatch-group-size-per-virtual-pipeline-stage", s.pp);
    s.runtime.microbatch_group_size = s.vp > 1 && group != s.pp ? group : 0;
    s.overlap.pp = s.vp > 1 && !has("--no-overlap-p2p-communication");
  }

  void place_layers(std::int64_t first, std::int64_t last, std::int64_t in, std::int64_t out) {
    Strategy& s = run_.strategy;
    const std::int64_t layers = run_.model.num_layers;
    const auto ranks = static_cast<std::size_t>(s.pp);
    if (first > 0 || last > 0) {
      const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
      const std::int64_t middle = std::max<std::int64_t>(s.pp - ends, 1);
      s.stage_layers.assign(ranks, (layers - first - last) / middle);
      if (first > 0) s.stage_layers.front() = first;
      if (last > 0) s.stage_layers.back() = last;
    } else if (in + out > 0) {
      if ((layers + in + out) % s.pp != 0) {
        options_.report(
            "the layers, with what --account-for-... counts as one, must be a multiple "
            "of the pipeline's " +
                std::to_string(s.pp) + " ranks",
            "Megatron-LM stops");
        return;
      }
      s.stage_layers.assign(ranks, (layers + in + out) / s.pp);
      s.stage_layers.front() -= in;
      s.stage_layers.back() -= out;
    }
  }

  void read_layout(const ProgramOption& o) {
    Strategy& s = run_.strategy;
    const std::string letters = options_.text("--pipeline-model-parallel-layout");
    if (letters.empty() && !o.values.empty()) return;  // not known: it is asked for
    const std::optional<PipelineLayout> layout = read_pipeline_layout(letters, s.pp);
    if (!layout) {
      options_.report(o.name, "this pipeline layout cannot be read");
    } else if (layout->layers != run_.model.num_layers) {
      options_.report(o.name, "the layout has " + std::to_string(layout->layers) +
                                  " layers, the model " + std::to_string(run_.model.num_layers));
    } else {
      s.stage_layers = layout->layers_per_rank;
      s.vp = layout->chunks;
      if (s.vp > 1) s.chunk_layers = uneven_chunks(s, layout->layers_per_chunk);
    }
  }

  void read_sharding() {
    Strategy& s = run_.strategy;
    s.zero = has("--use-distributed-optimizer") ? 1 : 0;
    const std::string how = text("--data-parallel-sharding-strategy", "optim_grads_params");
    const bool fsdp = has("--use-megatron-fsdp"), custom = has("--use-custom-fsdp");
    if (fsdp || custom) {
      s.zero = how == "optim_grads_params" ? 3 : how == "optim_grads" ? 2 : how == "optim" ? 1 : 0;
    }
    const bool keeps = has("--torch-fsdp2-no-reshard-after-forward");
    if (has("--use-torch-fsdp2")) s.zero = keeps ? 2 : 3;
    const std::int64_t copies = number("--num-distributed-optimizer-instances", 1, kRanks);
    run_.replicas = std::max<std::int64_t>(copies, 1);
    s.overlap.grad_reduce = has("--overlap-grad-reduce");
    s.overlap.param_gather = has("--overlap-param-gather");
    s.overlap.param_gather_with_optimizer_step = has("--overlap-param-gather-with-optimizer-step");
    s.runtime.calculate_per_token_loss = has("--calculate-per-token-loss");
    s.runtime.fused_grad_accumulation = !has("--no-gradient-accumulation-fusion");
    s.runtime.defer_embedding_wgrad_compute = has("--defer-embedding-wgrad-compute");
    s.runtime.wgrad_deferral_limit = number("--wgrad-deferral-limit", 0);
  }

  void read_memory() {
    Strategy& s = run_.strategy;
    std::string granularity = text("--recompute-granularity");
    if (has("--recompute-activations")) granularity = "selective";
    // Names of releases before 2022-06 (A: "--checkpoint-activations").
    const std::string old_method = text("--activations-checkpoint-method");
    const bool checkpoints = has("--checkpoint-activations");
    if (checkpoints || !old_method.empty()) granularity = "full";
    const std::string method = text("--recompute-method", old_method);
    const std::int64_t each =
        number("--recompute-num-layers",
               number("--activations-checkpoint-num-layers", number("--checkpoint-num-layers", 1)));
    const bool experts = has("--moe-layer-recompute");
    if (experts && granularity.empty()) granularity = "selective";
    const RecomputeModules modules = listed_modules(experts);
    if (granularity == "selective" && !modules.empty()) {
      s.recompute = Recompute::kSelective, s.recompute_modules = modules;
      s.runtime.mhc_recompute_layers = number("--mhc-recompute-layer-num", 0);
    }
    if (granularity == "full") {
      s.recompute = Recompute::kFull;
      if (method == "block") {
        for (const std::int64_t layers : stage_layers(s, run_.model)) {
          s.recompute_layers.push_back(std::min(bounded_product({each, s.vp}), layers));
        }
      }
    }
    // T: of the first so many layers, less than all.
    const std::int64_t offloaded = number("--cpu-offloading-num-layers", 0);
    s.offload.activations = offloaded > 0;
    const bool all = offloaded + 1 >= run_.model.num_layers;
    s.offload.activation_layers = offloaded > 0 && !all ? offloaded : 0;
    read_offloaded_optimizer(options_, s.offload);
    read_offloaded_modules(options_, run_);
  }

  // T: recompute_modules; core_attn by default, and all there was before core_r0.12.
  RecomputeModules listed_modules(bool experts) {
    RecomputeModules modules;
    std::string others;
    const ProgramOption* listed = options_.find("--recompute-modules");
    if (listed == nullptr) modules.add(RecomputeModule::kCoreAttn);
    for (const ShellWord& word : listed == nullptr ? std::vector<ShellWord>{} : listed->values) {
      if (const auto module = from_name<RecomputeModule>(word.text)) {
        modules.add(*module);
      } else {
        others += (others.empty() ? "" : ", ") + word.text;
      }
    }
    if (experts) modules.add(RecomputeModule::kMoe);
    if (!others.empty()) {
      run_.notes.push_back("--recompute-modules " + others + ": what it repeats is not modelled");
    }
    return modules;
  }

  void read_precision() {
    Strategy& s = run_.strategy;
    read_data_types(options_, run_);
    const bool legacy = has("--use-legacy-models"), flash = has("--use-flash-attn");
    const bool engine = text("--transformer-impl", "transformer_engine") != "local" && !legacy;
    s.runtime.transformer_engine = s.runtime.transformer_engine && engine;
    read_optimizer(options_, run_);
    read_precision_aware(options_, run_);
    const std::string backend = text("--attention-backend", "auto");
    // Megatron-LM's own attention (core/transformer/dot_product_attention.py) is never fused; its
    // legacy layers' is on demand (legacy/model/transformer.py).
    s.flash_attention = (legacy ? flash : engine) && backend != "unfused" && backend != "local";
    if (backend == "flash") s.runtime.attention = AttentionKernel::kFlash2;
    s.runtime.fused_cross_entropy = has("--cross-entropy-loss-fusion");
    s.runtime.inplace_cross_entropy = text("--cross-entropy-fusion-impl") == "te";
    s.runtime.fused_softmax = !has("--no-masked-softmax-fusion");
    if (!s.runtime.fused_softmax && !s.flash_attention &&
        options_.has("--attention-softmax-in-fp32")) {
      run_.notes.emplace_back(
          "--attention-softmax-in-fp32 without fused kernels: fp32 copies of scores are not "
          "counted");
    }
    s.runtime.fused_dropout_add = !has("--no-bias-dropout-fusion");
    const bool no_swiglu = has("--no-bias-swiglu-fusion"), no_gelu = has("--no-bias-gelu-fusion");
    s.runtime.fused_activation = !no_swiglu && !no_gelu;
    s.runtime.activation_func_fp8_input_store = has("--activation-func-fp8-input-store");
    const bool no_rope = has("--no-rope-fusion");
    s.runtime.fused_rope = run_.model.mla.has_value() || !no_rope;
    // Latent attention's is yarn unless --rope-type says otherwise.
    const std::string rope = text("--rope-type");
    s.runtime.fused_latent_rope =
        run_.model.mla.has_value() && !no_rope && (rope.empty() || rope == "yarn");
    const bool dense = !run_.model.moe.has_value();
    s.runtime.fused_router = dense || has("--moe-router-fusion");
    s.runtime.fused_permute = dense || has("--moe-permute-fusion");
    s.runtime.fused_mhc = run_.model.mhc_num_residual_streams == 1 || has("--use-fused-mhc");
    // The dev branch, by its name for them.
    s.runtime.fp32_mhc = !s.runtime.fused_mhc && has("--enable-hyper-connections");
    const bool fuses = has("--use-transformer-engine-op-fuser");
    const bool interleaved = !text("--moe-mlp-glu-interleave-size").empty();
    s.runtime.fused_experts = fuses && interleaved && run_.model.moe.has_value();
    read_cuda_graphs(options_, run_);
    read_switches(options_, run_.script, run_);
    read_determinism(options_, run_.script, run_.strategy.runtime);
    read_adapters(options_, run_);
  }

  std::string file_;
  const RunContext& context_;
  MegatronRun run_;
  ProgramOptions options_;
  Diagnostics problems_;
};

}  // namespace

std::string_view other_purpose(std::string_view program) {
  for (const Purpose& row : kOther) {
    if (program.find(row.part) != std::string_view::npos) return row.what;
  }
  return {};
}

Result<MegatronRun> read_megatron_run(std::string_view text, const std::string& file,
                                      const RunContext& context) {
  return Importer(text, file, context).result();
}

}  // namespace meshplan
