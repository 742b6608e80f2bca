#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "schedule/traits.hpp"
#include "spec/module_lists.hpp"
#include "spec/strategy_keys.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

bool has_whole_microbatches(const Strategy& s) {
  return s.global_batch % product({s.micro_batch, s.dp}) == 0;
}

// "state the layout: stage_layers=[...]" with parts as even as can be.
std::string layout_hint(const Plan& p) {
  constexpr std::int64_t kMostShown = 32;
  const std::int64_t spare = p.s.vp > 1 ? 2 : 0;  // the ends may hold a chunk without layers
  if (p.s.pp > kMostShown || p.m.num_layers < product({p.s.pp, p.s.vp}) - spare) return {};
  Strategy whole = p.s;
  whole.vp = 1;
  return "state the layout: stage_layers=" + key_text(stage_layers(whole, p.m));
}

// Without a stated layout every rank holds vp chunks of whole layers
// (core/transformer/transformer_block.py), in parts as even as can be.
void check_equal_chunks(const Plan& p, Findings& f) {
  const std::int64_t chunks = product({p.s.pp, p.s.vp});
  if (p.m.num_layers < chunks) {
    f.error({"pp", "vp"},
            "pp * vp = " + std::to_string(chunks) +
                " chunks need as many layers, but the model has " + std::to_string(p.m.num_layers),
            layout_hint(p));
  } else if (p.m.num_layers % p.s.vp != 0) {
    f.error({"vp"},
            "'vp' must divide the " + std::to_string(p.m.num_layers) + " layers, got " +
                std::to_string(p.s.vp),
            layout_hint(p));
  }
}

// Megatron-LM takes chunks of unequal size as an explicit layout (A:945); the embedding and the
// output head may be alone in a chunk.
void check_stated_layers(const Plan& p, Findings& f) {
  const std::vector<std::int64_t>& layers = p.s.stage_layers;
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (sum != p.m.num_layers) {
    f.error({"stage_layers"}, "'stage_layers' adds up to " + std::to_string(sum) +
                                  " layers, but the model has " + std::to_string(p.m.num_layers));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool end =
        i == 0 || i + 1 == layers.size() || p.s.runtime.stage_split == StageSplit::kElements;
    const std::int64_t fewest = p.s.vp - (end ? 1 : 0);
    if (layers[i] >= fewest) continue;
    f.error({"stage_layers", "vp"}, "pipeline rank " + std::to_string(i) + " needs " +
                                        std::to_string(fewest) +
                                        " or more layers for vp=" + std::to_string(p.s.vp) +
                                        ", got " + std::to_string(layers[i]));
    return;
  }
}

// Ranks take chunks in turn (core/transformer/pipeline_parallel_layer_layout.py), so that every
// pp-th of them is of one rank.
void check_chunk_layers(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::vector<std::int64_t>& chunks = s.chunk_layers;
  if (chunks.empty()) return;
  if (s.schedule != Schedule::kInterleaved) {
    f.error({"chunk_layers", "schedule"}, "'chunk_layers' is of interleaved schedules",
            "leave it out, or state 'stage_layers'");
    return;
  }
  const std::int64_t count = product({s.pp, s.vp});
  if (static_cast<std::int64_t>(chunks.size()) != count) {
    f.error({"chunk_layers", "pp", "vp"}, "'chunk_layers' lists " + std::to_string(chunks.size()) +
                                              " chunks, but pp * vp = " + std::to_string(count));
    return;
  }
  const std::int64_t sum = std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0});
  if (sum != p.m.num_layers) {
    f.error({"chunk_layers"}, "'chunk_layers' adds up to " + std::to_string(sum) +
                                  " layers, but the model has " + std::to_string(p.m.num_layers));
    return;
  }
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(s.pp));
  for (std::size_t i = 0; i < chunks.size(); ++i) ranks[i % ranks.size()] += chunks[i];
  if (ranks == stage_layers(s, p.m)) return;
  f.error({"chunk_layers", "stage_layers"}, "'chunk_layers' gives the pipeline ranks " +
                                                key_text(ranks) + " layers, 'stage_layers' " +
                                                key_text(stage_layers(s, p.m)));
}

}  // namespace

void check_stages(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const auto ranks = static_cast<std::int64_t>(s.stage_layers.size());
  if (s.stage_layers.empty()) {
    s.chunk_layers.empty() ? check_equal_chunks(p, f) : check_chunk_layers(p, f);
  } else if (ranks != s.pp) {
    f.error({"stage_layers", "pp"}, "'stage_layers' lists " + std::to_string(ranks) +
                                        " pipeline ranks, but 'pp' is " + std::to_string(s.pp));
  } else {
    check_stated_layers(p, f);
    check_chunk_layers(p, f);
  }
}

// A:715.
namespace {

// Every pass of every microbatch through every chunk is put in order one by one where the
// pipeline's stages are unequal.
void check_passes(const Plan& p, Findings& f) {
  constexpr std::int64_t kMostPasses = std::int64_t{1} << 22;
  if (p.s.pp == 1) return;
  const std::int64_t microbatches = p.s.global_batch / product({p.s.dp, p.s.micro_batch});
  if (product({microbatches, p.s.pp, p.s.vp}) <= kMostPasses) return;
  f.error({"global_batch", "pp"},
          std::to_string(microbatches) +
              " microbatches through pp * vp = " + std::to_string(product({p.s.pp, p.s.vp})) +
              " chunks are more passes per step than the " + with_thousands(kMostPasses) +
              " that can be planned for",
          "lower global_batch, or raise dp or micro_batch");
}

}  // namespace

void check_batch(const Plan& p, Findings& f) {
  check_passes(p, f);
  const std::int64_t once = product({p.s.micro_batch, p.s.dp});
  if (p.s.global_batch % once == 0) return;
  f.error({"global_batch", "micro_batch", "dp"},
          "'global_batch' must be a multiple of micro_batch * dp = " +
              std::to_string(p.s.micro_batch) + " * " + std::to_string(p.s.dp) + " = " +
              std::to_string(once) + ", got " + std::to_string(p.s.global_batch));
}

// A:1002; schedules.py:1168, 1180 with groups of pp microbatches. Zero bubble: Qi et al. 2023
// (2401.10241), V-shaped schedules: 2405.15362, DualPipe: DeepSeek-V3 sec. 3.2.1.
void check_schedule(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::string name{name_of(s.schedule)};
  const ScheduleTraits& traits = traits_of(s.schedule);
  if (!traits.runs_on_one_rank && s.pp == 1) {
    f.error({"schedule", "pp"}, "schedule " + name + " needs 'pp' over 1", "schedule=1f1b");
    return;
  }
  switch (traits.chunks) {
    case ChunksPerRank::kOne:
      if (s.vp == 1) break;
      f.error({"vp", "schedule"},
              "schedule " + name + " has one chunk per rank, but 'vp' is " + std::to_string(s.vp),
              "schedule=interleaved, or vp=1");
      break;
    case ChunksPerRank::kTwo:
      if (s.vp == 2) break;
      f.error({"vp", "schedule"},
              "schedule " + name + " has two chunks per rank, but 'vp' is " + std::to_string(s.vp),
              "vp=2");
      break;
    case ChunksPerRank::kSeveral:
      if (s.vp > 1) break;
      f.error({"vp", "schedule"}, "schedule " + name + " needs 'vp' over 1", "schedule=1f1b");
      break;
  }
  if (!has_whole_microbatches(s) || traits.illegal_reason == nullptr) return;
  const std::string reason = traits.illegal_reason(
      {s.schedule, s.pp, s.vp, num_microbatches(s), s.runtime.microbatch_group_size});
  if (!reason.empty()) {
    std::vector<std::string> keys{"global_batch", "pp", "schedule"};
    if (s.runtime.microbatch_group_size > 0) keys.emplace_back("runtime.microbatch_group_size");
    f.error(std::move(keys), "schedule " + name + " " + reason);
  }
}

// Stages 2 and 3 free gradients or weights between microbatches, which a pipeline needs again.
// DeepSpeed refuses it (runtime/pipe/engine.py:76), and so does Megatron with PyTorch's FSDP2
// (A:1034) and Composer, which has no pipeline; Megatron-FSDP
// (core/pipeline_parallel/schedules.py:880) and torchtitan gather again.
void check_zero_pipeline(const Plan& p, Findings& f) {
  if (p.s.zero < 2 || p.s.pp == 1 || p.s.runtime.sharded_pipeline) return;
  f.error({"zero", "pp", "framework"},
          std::string(name_of(p.s.framework)) + " cannot combine zero=" + std::to_string(p.s.zero) +
              " with pp=" + std::to_string(p.s.pp),
          "zero=1, or pp=1");
}

// Megatron-Core transformer_config.py, __post_init__ with fine_grained_activation_offloading
// (2026-08-22).
void check_offloaded_modules(const Plan& p, Findings& f) {
  using enum OffloadModule;
  const OffloadModules& modules = p.s.offload.modules;
  const double fraction = p.s.offload.activation_fraction;
  if (!(fraction > 0 && fraction <= 1)) {
    f.error({"offload.activation_fraction"},
            "'offload.activation_fraction' must be over 0 and at most 1, got " + key_text(fraction),
            "without 'offload.modules' nothing is offloaded");
  } else if (fraction < 1 && modules.empty()) {
    f.warning({"offload.activation_fraction"},
              "'offload.activation_fraction' does nothing without 'offload.modules'");
  }
  if (modules.empty()) return;
  const std::string key = "offload.modules";
  if (p.s.offload.activations) {
    f.error({key, "offload.activations"},
            "'offload.modules' and 'offload.activations' are two ways of the same",
            "without one of them");
  }
  if (p.s.recompute == Recompute::kFull) {
    f.error({key, "recompute"}, "recomputed layers save nothing that 'offload.modules' could take",
            "recompute=selective, or none");
  }
  if (modules.has(kAttnProj) && !modules.has(kCoreAttn)) {
    f.error({key}, "module attn_proj needs module core_attn, whose backward pass reads the same",
            "with both");
  }
  const bool repeats_moe = p.s.recompute_modules.has(RecomputeModule::kMoe);
  if (repeats_moe && (modules.has(kExpertFc1) || modules.has(kMoeAct))) {
    f.error({key, "recompute_modules"},
            "what recomputing module moe drops cannot go to the host: expert_fc1, moe_act",
            "without them");
  }
  for (const auto& row : NameTable<OffloadModule>::rows) {
    if (!modules.has(row.value) || has_module(p.m, row.value)) continue;
    f.warning({key}, "module " + std::string(row.name) + " does nothing: no layer has one");
  }
}

// Saved activations are copied out while the next layer runs: no framework does it under a
// pipeline or together with recomputation (Megatron-Core transformer_config.py:1893, 1898).
void check_offload(const Plan& p, Findings& f) {
  const double fraction = p.s.offload.optimizer_fraction;
  if (!(fraction > 0 && fraction <= 1)) {
    f.error({"offload.optimizer_fraction"},
            "'offload.optimizer_fraction' must be over 0 and at most 1, got " + key_text(fraction),
            "offload.optimizer=false offloads nothing");
  } else if (fraction < 1 && !p.s.offload.optimizer) {
    f.warning({"offload.optimizer_fraction"},
              "'offload.optimizer_fraction' does nothing without 'offload.optimizer'");
  }
  if (!p.s.offload.optimizer && !p.s.offload.master_weights) {
    f.warning({"offload.master_weights"},
              "'offload.master_weights' does nothing without 'offload.optimizer'");
  }
  if (p.s.offload.weights && p.s.offload.optimizer && p.s.zero != 3) {
    f.warning({"offload.weights", "zero"},
              "'offload.weights' does nothing without zero=3: weights and gradients are counted on "
              "the device");
  } else if (has_host_weights(p.s) && fraction < 1) {
    f.error({"offload.weights", "offload.optimizer_fraction"},
            "weights on the host are updated there: 'offload.optimizer_fraction' must be 1, got " +
                key_text(fraction));
  }
  if (!p.s.offload.optimizer && p.s.offload.overlap_copies) {
    f.warning({"offload.overlap_copies"},
              "'offload.overlap_copies' does nothing without 'offload.optimizer'");
  }
  if (p.s.runtime.host_checkpoints) {
    const Framework framework = p.s.framework;
    if (has_own_models(framework)) {
      f.error({"runtime.host_checkpoints", "framework"},
              std::string(name_of(framework)) + " keeps inputs of recomputed layers on the device",
              "framework=fsdp or deepspeed");
    }
    if (p.s.pp > 1) {
      f.error({"runtime.host_checkpoints", "pp"},
              "'runtime.host_checkpoints' needs pp=1, got " + std::to_string(p.s.pp));
    }
    if (p.c.device.host_link.si() <= 0) {
      f.error({"runtime.host_checkpoints"},
              "'runtime.host_checkpoints' needs a link to the host: the 'host_link' of " +
                  p.c.device.name + " is 0");
    }
    if (p.s.recompute != Recompute::kFull) {
      f.warning({"runtime.host_checkpoints", "recompute"},
                "'runtime.host_checkpoints' does nothing without recompute=full");
    }
  }
  check_offloaded_modules(p, f);
  const Offload& offload = p.s.offload;
  const bool any = offload.optimizer || offload.activations || !offload.modules.empty();
  if (any && p.c.device.host_link.si() <= 0) {
    f.error({offload.optimizer     ? "offload.optimizer"
             : offload.activations ? "offload.activations"
                                   : "offload.modules"},
            "'offload' needs a link to the host: the 'host_link' of " + p.c.device.name + " is 0");
  }
  const std::int64_t layers = offload.activation_layers;
  if (layers < 0 || layers > p.m.num_layers) {
    f.error({"offload.activation_layers"},
            "'offload.activation_layers' must be 0 to " + std::to_string(p.m.num_layers) +
                ", the layers of the model, got " + std::to_string(layers));
  } else if (layers > 0 && !offload.activations) {
    f.warning({"offload.activation_layers"},
              "'offload.activation_layers' does nothing without 'offload.activations'");
  }
  if (!p.s.offload.activations) return;
  if (p.s.pp > 1) {
    f.error({"offload.activations", "pp"},
            "'offload.activations' needs pp=1, got " + std::to_string(p.s.pp));
  }
  if (p.s.recompute != Recompute::kNone) {
    f.error({"offload.activations", "recompute"},
            "'offload.activations' cannot be combined with recomputation",
            "recompute=none, or runtime.host_checkpoints=true for the inputs of recomputed layers");
  }
}

void check_repeated_streams(const Plan& p, Findings& f) {
  const Runtime& k = p.s.runtime;
  const bool streams = p.m.mhc_num_residual_streams > 1;
  if (k.fp32_mhc && (k.fused_mhc || !streams)) {
    f.warning({"kernels.fp32_mhc"},
              "'kernels.fp32_mhc' does nothing without hyper-connections that are not fused");
  }
  if (!p.s.recompute_modules.has(RecomputeModule::kMhc)) {
    if (k.mhc_recompute_layers == 0) return;
    f.warning({"runtime.mhc_recompute_layers"},
              "'runtime.mhc_recompute_layers' does nothing: 'recompute_modules' lacks mhc");
    return;
  }
  if (!streams) f.error({"recompute_modules"}, "module mhc needs hyper-connections");
  if (p.s.recompute_modules.has(RecomputeModule::kMlp)) {
    f.error({"recompute_modules"}, "modules mhc and mlp exclude each other");
  }
  if (!p.s.offload.modules.empty()) {
    f.error({"recompute_modules", "offload.modules"}, "module mhc excludes 'offload.modules'");
  }
}

// T:1964, T:1969, T:2028 to T:2052, T:3030; a module that no layer has is let pass.
void check_recompute_modules(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const RecomputeModules& modules = s.recompute_modules;
  check_repeated_streams(p, f);
  if (modules.empty()) return;
  if (s.recompute != Recompute::kSelective) {
    f.error({"recompute_modules", "recompute"},
            "'recompute_modules' is what selective recomputation repeats, but 'recompute' is " +
                std::string(name_of(s.recompute)),
            "recompute=selective");
    return;
  }
  if (modules.has(RecomputeModule::kMlaUpProj) && !has_module(p.m, RecomputeModule::kMlaUpProj)) {
    f.error({"recompute_modules"}, "module mla_up_proj needs latent attention");
  }
  if (modules.has(RecomputeModule::kMoeAct) && p.m.moe && !s.runtime.grouped_gemm) {
    f.error({"recompute_modules", "runtime.grouped_gemm"}, "module moe_act needs grouped products",
            "runtime.grouped_gemm=true");
  }
  if (modules.has(RecomputeModule::kMoe) && s.overlap.ep) {
    f.error({"recompute_modules", "overlap.ep"}, "'overlap.ep' excludes module moe",
            "overlap.ep=false");
  }
  for (const auto& row : NameTable<RecomputeModule>::rows) {
    if (!modules.has(row.value) || has_module(p.m, row.value)) continue;
    if (row.value == RecomputeModule::kMlaUpProj || row.value == RecomputeModule::kMhc) continue;
    f.warning({"recompute_modules"},
              "module " + std::string(row.name) + " does nothing: no layer has one");
  }
}

// Megatron-Core transformer_config.py, __post_init__ with cuda_graph_modules (2026-08-22).
void check_graph_modules(const Plan& p, Findings& f) {
  using enum CudaGraphModule;
  const Runtime& k = p.s.runtime;
  const CudaGraphModules& modules = k.cuda_graph_modules;
  const std::string key = "kernels.cuda_graph_modules";
  if (k.cuda_graph != CudaGraph::kNone) {
    f.warning({"kernels.cuda_graph"},
              k.cuda_graph == CudaGraph::kLayer
                  ? "temporaries in the memory pool of CUDA graphs are not counted"
                  : "memory that CUDA graphs hold for themselves is not counted");
  }
  if (modules.empty()) return;
  if (k.cuda_graph != CudaGraph::kLayer) {
    f.error({key, "kernels.cuda_graph"},
            "'" + key + "' is what graphs of layers hold, but 'kernels.cuda_graph' is " +
                std::string(name_of(k.cuda_graph)),
            "kernels.cuda_graph=layer");
    return;
  }
  if (modules.has(kMoe) && modules.has(kMoeRouter)) {
    f.error({key}, "module moe_router is a part of module moe", "without one of them");
  }
  if (modules.has(kMoePreprocess) && !modules.has(kMoeRouter)) {
    f.error({key}, "module moe_preprocess needs module moe_router", "with both");
  }
  const bool repeats_moe = p.s.recompute_modules.has(RecomputeModule::kMoe);
  if (modules.has(kMoeRouter) && repeats_moe) {
    f.error({key, "recompute_modules"}, "a graph of moe_router excludes recomputing module moe",
            "without moe_router");
  }
  for (const auto& row : NameTable<CudaGraphModule>::rows) {
    if (!modules.has(row.value) || has_module(p.m, row.value)) continue;
    f.warning({key}, "module " + std::string(row.name) + " does nothing: no layer has one");
  }
}

void check_recompute(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.recompute_layers.empty()) return;
  if (static_cast<std::int64_t>(s.recompute_layers.size()) != s.pp) {
    f.error({"recompute_layers", "pp"},
            "'recompute_layers' lists " +
                std::to_string(static_cast<std::int64_t>(s.recompute_layers.size())) +
                " pipeline ranks, but 'pp' is " + std::to_string(s.pp));
    return;
  }
  if (!s.stage_layers.empty() && static_cast<std::int64_t>(s.stage_layers.size()) != s.pp) return;
  const std::vector<std::int64_t> layers = stage_layers(s, p.m);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (s.recompute_layers[i] <= layers[i]) continue;
    f.error({"recompute_layers"}, "'recompute_layers' asks for " +
                                      std::to_string(s.recompute_layers[i]) +
                                      " layers of pipeline rank " + std::to_string(i) +
                                      ", which has " + std::to_string(layers[i]));
    return;
  }
}

}  // namespace meshplan
