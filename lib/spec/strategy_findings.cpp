// The table of rules: adding one is a function and a row.
#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "schedule/limits.hpp"
#include "schedule/traits.hpp"
#include "spec/findings.hpp"
#include "spec/layer_rules.hpp"
#include "spec/strategy_keys.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

constexpr IntegerRange kDegree{1, kMostClusterGpus};
constexpr IntegerRange kBatch{
    1, 1'000'000'000};  // what the schedules can count, and more than any run

void check_degrees(const Strategy& s, Findings& f) {
  f.check("tp", s.tp, kDegree);
  const bool pp = f.check("pp", s.pp, {1, kMostChunks});
  const bool vp = f.check("vp", s.vp, {1, kMostChunksPerRank});
  if (pp && vp && s.pp * s.vp > kMostChunks) {
    f.error({"pp", "vp"}, "pp * vp = " + with_thousands(s.pp * s.vp) +
                              " chunks are more than the " + with_thousands(kMostChunks) +
                              " that can be planned for");
  }
  f.check("cp", s.cp, kDegree);
  f.check("ep", s.ep, kDegree);
  f.check("etp", s.etp, kDegree);
  f.check("dp", s.dp, kDegree);
  f.check("zero", s.zero, IntegerRange{0, 3});
  f.check("zero_group", s.zero_group, {0, kMostClusterGpus});
}

void check_workload(const Strategy& s, Findings& f) {
  f.check("micro_batch", s.micro_batch, kBatch);
  f.check("global_batch", s.global_batch, kBatch);
  f.check("seq_len", s.seq_len, {1, 1 << 30});
  f.check("kernels.product_rate", s.runtime.product_rate, {0.01, 2});
  f.check("kernels.host_factor", s.runtime.host_factor, {0, 1000});
  f.check("kernels.collective_launches", s.runtime.collective_launches, {0, 1000});
  f.check("kernels.node_launches", s.runtime.node_launches, {0, 1000});
  f.check("kernels.contended_launches", s.runtime.contended_launches, {0, 1000});
  f.check("kernels.optimizer_launches", s.runtime.optimizer_launches, {0, 1000});
  f.check("kernels.step_launches", s.runtime.step_launches, {0, 1e6});
  f.check("kernels.shard_launches", s.runtime.shard_launches, {0, 1000});
  f.check("kernels.bucket_mib", s.runtime.bucket_mib, {0, 1e6});
  f.check("kernels.retry_stall", s.runtime.retry_stall, {0, 1000});
  f.check("kernels.cuda_graph_warmup_steps", s.runtime.cuda_graph_warmup_steps, {0, 1'000'000});
  f.check("kernels.num_layers_at_start_in_bf16", s.runtime.num_layers_at_start_in_bf16,
          {0, 1'000'000'000});
  f.check("kernels.num_layers_at_end_in_bf16", s.runtime.num_layers_at_end_in_bf16,
          {0, 1'000'000'000});
  f.check("runtime.microbatch_group_size", s.runtime.microbatch_group_size, {0, 1'000'000'000});
  f.check("runtime.wgrad_deferral_limit", s.runtime.wgrad_deferral_limit, {0, 1'000'000'000});
  f.check("runtime.mhc_recompute_layers", s.runtime.mhc_recompute_layers, {0, 1'000'000'000});
  f.check("runtime.zero_bucket_size", s.runtime.zero_bucket_size, {0, 1'000'000'000'000});
  f.check("runtime.held_gathers", s.runtime.held_gathers, {0, 10'000});
  f.check("runtime.held_gathers_one_microbatch", s.runtime.held_gathers_one_microbatch,
          {0, 10'000});
  f.check("runtime.cublas_workspace_bytes", s.runtime.cublas_workspace_bytes, {0, 1LL << 40});
}

void check_lists(const Strategy& s, Findings& f) {
  for (std::size_t i = 0; i < s.stage_layers.size(); ++i) {
    // The first and the last rank may hold only the embedding or the output head; a split by
    // matrix elements also leaves ranks before the last without layers (stage_layers()).
    const bool end = s.pp > 1 && (i == 0 || i + 1 == s.stage_layers.size() ||
                                  s.runtime.stage_split == StageSplit::kElements);
    const std::int64_t layers = s.stage_layers[i];
    if (layers < (end ? 0 : 1) || layers > 100'000) {
      f.error({"stage_layers"},
              "'stage_layers' must hold 1 or more layers per pipeline rank (0 or more on the first "
              "and the last), got " +
                  std::to_string(layers));
      break;
    }
  }
  for (const std::int64_t layers : s.recompute_layers) {
    if (layers < 0 || layers > 100'000) {
      f.error({"recompute_layers"}, "'recompute_layers' must hold layers per pipeline rank, got " +
                                        std::to_string(layers));
      break;
    }
  }
}

void check_order(const Strategy& s, Findings& f) {
  RankOrder sorted = s.order;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return;
  f.error({"order"},
          "'order' must list each of tp, cp, ep, dp and pp once, got " + key_text(s.order));
}

void check_dtypes(const Strategy& s, Findings& f) {
  if (s.grad_dtype == Dtype::kFp8) {
    f.error({"grad_dtype"}, "'grad_dtype' must be fp32, fp16 or bf16, got fp8");
  }
}

// A:1025, A:1028.
void check_overlap(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.framework != Framework::kMegatron) return;
  if (s.overlap.param_gather && s.zero > 0 && !s.overlap.grad_reduce) {
    f.error({"overlap.param_gather", "overlap.grad_reduce"},
            "'overlap.param_gather' needs 'overlap.grad_reduce'");
  }
}

void check_attention_residuals(const Plan& p, Findings& f) {
  if (p.s.runtime.fused_lora && !has_adapters(p.s)) {
    f.warning({"kernels.fused_lora"}, "'kernels.fused_lora' does nothing without adapters");
  }
  if (!p.s.runtime.fused_attn_res || p.m.attn_res_block_size > 0) return;
  f.warning({"kernels.fused_attn_res"},
            "'kernels.fused_attn_res' does nothing: the model has no attention residuals");
}

void check_gathered_tokens(const Plan& p, Findings& f) {
  if (!p.s.runtime.allgather_dispatcher || (p.m.moe && p.s.ep * p.s.etp > 1)) return;
  f.warning({"kernels.allgather_dispatcher"},
            "'kernels.allgather_dispatcher' does nothing: no ranks share experts (ep, etp)");
}

void check_shared_overlap(const Plan& p, Findings& f) {
  if (!p.s.overlap.shared_experts) return;
  if (p.m.moe && p.m.moe->shared_expert_ffn_hidden_size > 0 && p.s.ep > 1) return;
  f.warning({"overlap.shared_experts"},
            "'overlap.shared_experts' does nothing: it is of experts on several ranks (ep) beside "
            "others that every token passes");
}

void check_capacity(const Plan& p, Findings& f) {
  const double factor = p.s.runtime.expert_capacity_factor;
  if (!(factor >= 0 && factor <= 1e6)) {
    f.error(
        {"runtime.expert_capacity_factor"},
        "'runtime.expert_capacity_factor' must be 0, for experts that take what comes, or more");
  } else if (factor > 0 && !p.m.moe) {
    f.warning({"runtime.expert_capacity_factor"},
              "'runtime.expert_capacity_factor' does nothing: the model has no experts");
  }
  if (!p.s.runtime.pad_to_capacity || factor > 0) return;
  f.warning({"runtime.pad_to_capacity"},
            "'runtime.pad_to_capacity' does nothing without 'runtime.expert_capacity_factor'");
}

void check_microbatch_group(const Plan& p, Findings& f) {
  if (p.s.runtime.microbatch_group_size == 0 || p.s.schedule == Schedule::kInterleaved) return;
  f.warning({"runtime.microbatch_group_size"},
            "'runtime.microbatch_group_size' does nothing: the schedule is not interleaved");
}

void check_deferral(const Plan& p, Findings& f) {
  const Runtime& k = p.s.runtime;
  if (!k.defer_embedding_wgrad_compute) {
    if (k.wgrad_deferral_limit == 0) return;
    f.warning({"runtime.wgrad_deferral_limit"},
              "'runtime.wgrad_deferral_limit' does nothing without "
              "'runtime.defer_embedding_wgrad_compute'");
    return;
  }
  const bool whole = !traits_of(p.s.schedule).splits_backward;
  if (p.s.pp > 1 && whole && !is_frozen(p.s)) return;
  f.warning({"runtime.defer_embedding_wgrad_compute"},
            "'runtime.defer_embedding_wgrad_compute' does nothing: it is of pipelines with whole "
            "backward passes, of an output layer that is trained");
}

void check_token_proxies(const Plan& p, Findings& f) {
  if (!p.s.runtime.dispatch_nvshmem) return;
  if (p.s.runtime.flex_dispatcher && p.m.moe && has_token_proxies(p.c)) return;
  f.warning(
      {"kernels.dispatch_nvshmem"},
      "'kernels.dispatch_nvshmem' does nothing: no host's proxy sends tokens of experts here");
}

void check_precision(const Plan& p, Findings& f) {
  const DeviceSpec& d = p.c.device;
  const Precision wanted = p.s.precision;
  if (d.peak[static_cast<std::size_t>(wanted)].si() > 0) return;
  const std::string name{name_of(wanted)};
  if (wanted == Precision::kTf32 && peak_rate(d, wanted).si() > 0) {
    f.warning({"precision"}, d.name + " has no tf32: it computes in fp32");
    return;
  }
  std::string hint;
  if (wanted == Precision::kBf16 && d.architecture == Architecture::kVolta) hint = "precision=fp16";
  if (is_quantised(wanted)) {
    const bool eight = d.peak[static_cast<std::size_t>(Precision::kFp8)].si() > 0;
    hint = wanted == Precision::kNvfp4 && eight ? "precision=fp8" : "precision=bf16";
  }
  f.error({"precision"}, d.name + " does not compute in " + name, hint);
}

void check_stored_input(const Plan& p, Findings& f) {
  if (!p.s.runtime.activation_func_fp8_input_store) return;
  if (p.m.gated_mlp && p.m.activation == Activation::kSilu && p.s.runtime.fused_activation) return;
  f.warning(
      {"kernels.activation_func_fp8_input_store"},
      "'kernels.activation_func_fp8_input_store' does nothing: it is of SwiGLU's fused kernel");
}

// MXFP8 is scaled by the matrix units of Blackwell and CDNA 4; blocks of 128 need their 8-bit
// products to add in fp32 (Transformer Engine pytorch/quantization.py, check_mxfp8_support and
// check_fp8_block_scaling_support).
void check_scaling(const Plan& p, Findings& f) {
  const ScalingRecipe wanted = p.s.runtime.fp8_recipe;
  const bool blocks = p.s.precision == Precision::kFp8 &&
                      scaling_recipe(p.s, p.c.device.architecture) == ScalingRecipe::kMxfp8;
  if (p.s.runtime.fused_experts && p.m.moe && !blocks) {
    f.warning({"kernels.fused_experts"},
              "'kernels.fused_experts' does nothing: its kernels are those of precision=fp8 with "
              "kernels.fp8_recipe=mxfp8");
  }
  if (p.s.runtime.fp8_param_gather && !is_quantised(p.s.precision)) {
    f.warning({"runtime.fp8_param_gather"},
              "'runtime.fp8_param_gather' does nothing: products are in " +
                  std::string(name_of(p.s.precision)));
  }
  if (wanted == ScalingRecipe::kBest) return;
  const std::string name{name_of(wanted)};
  if (p.s.precision != Precision::kFp8) {
    f.warning({"kernels.fp8_recipe"},
              "'kernels.fp8_recipe' does nothing: products are not in fp8 but " +
                  std::string(name_of(p.s.precision)));
    return;
  }
  const Architecture a = p.c.device.architecture;
  const bool newest = a == Architecture::kBlackwell || a == Architecture::kCdna4;
  const bool new_enough = newest || a == Architecture::kHopper;
  if ((wanted == ScalingRecipe::kMxfp8 && !newest) ||
      (wanted == ScalingRecipe::kBlockwise && !new_enough)) {
    f.error({"kernels.fp8_recipe"}, p.c.device.name + " has no products with scales of " + name,
            "kernels.fp8_recipe=tensorwise");
  }
}

// [F-FP8-6] At both ends of the model, and beside layers that are not in bf16.
void check_bf16_layers(const Plan& p, Findings& f) {
  if (!has_bf16_layers(p.s)) return;
  const std::int64_t first = p.s.runtime.num_layers_at_start_in_bf16;
  const std::int64_t last = p.s.runtime.num_layers_at_end_in_bf16;
  const char* key =
      first > 0 ? "kernels.num_layers_at_start_in_bf16" : "kernels.num_layers_at_end_in_bf16";
  const std::string none = std::string(key) + "=0";
  if (!is_quantised(p.s.precision)) {
    f.error({key, "precision"},
            "'" + std::string(key) + "' leaves layers in bf16 where others are in fp8 or nvfp4: " +
                "products are in " + std::string(name_of(p.s.precision)),
            none);
    return;
  }
  if (first + last <= p.m.num_layers) return;
  f.error({"kernels.num_layers_at_start_in_bf16", "kernels.num_layers_at_end_in_bf16"},
          std::to_string(first) + " first and " + std::to_string(last) +
              " last layers in bf16 are more than the model's " + std::to_string(p.m.num_layers),
          "precision=bf16");
}

void check_precision_aware(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (!s.runtime.precision_aware_optimizer || is_precision_aware(s)) return;
  if (s.offload.optimizer) {
    f.warning({"runtime.precision_aware_optimizer"},
              "'runtime.precision_aware_optimizer' does nothing with 'offload.optimizer': "
              "'offload.master_weights' says where that one's fp32 weights are");
    return;
  }
  f.error(
      {"runtime.precision_aware_optimizer"},
      "'runtime.precision_aware_optimizer' is Adam with fp32 weights beside 16-bit ones, sharded "
      "by zero=1",
      "runtime.precision_aware_optimizer=false");
}

// A:1354 for learned positions; others extrapolate.
void check_positions(const Plan& p, Findings& f) {
  if (p.s.seq_len <= p.m.max_seq_length) return;
  f.warning({"seq_len"}, "'seq_len' " + std::to_string(p.s.seq_len) +
                             " is more than the model's 'max_seq_length' " +
                             std::to_string(p.m.max_seq_length));
}

void check_notes(const Plan& p, Findings& f) {
  for (const std::string& note : p.m.notes) f.warning({"model"}, note);
}

// What the plan of a model that sees images stands on.
void check_encoder(const Plan& p, Findings& f) {
  if (!p.m.encoder) return;
  const EncoderSpec& e = *p.m.encoder;
  f.warning({"encoder"},
            "planned for " + std::to_string(e.images_per_sequence) +
                (e.images_per_sequence == 1 ? " image" : " images") + " of " +
                std::to_string(e.patches_per_image) +
                " patches in each sequence: 'encoder.images_per_sequence' and "
                "'encoder.patches_per_image' of the model; video and other resolutions in the same "
                "run are not modelled");
}

// Elements per token that the widest layer may hold, at most a few of each.
double layer_width(const Plan& p) {
  const auto width = [&](const auto& kind) { return tensor_width(kind, p); };
  double mixer = 0, feed_forward = 0;
  for (const LayerSpec& layer : p.layers()) {
    mixer = std::max(mixer, std::visit(width, layer.mixer));
    feed_forward = std::max(feed_forward, std::visit(width, layer.feed_forward));
  }
  return real(p.m.hidden_size) * real(p.m.mhc_num_residual_streams) + mixer + feed_forward;
}

// Elements that the encoder's layers, patches and projectors hold of one microbatch.
double encoder_elements(const Plan& p) {
  if (!p.m.encoder) return 0;
  const EncoderSpec& e = *p.m.encoder;
  const double patches =
      real(p.s.micro_batch) * real(e.images_per_sequence) * real(e.patches_per_image);
  double width = 8 * real(e.hidden_size) + 3 * real(e.ffn_hidden_size);
  if (!p.s.flash_attention) width += real(e.num_attention_heads) * real(e.patches_per_image);
  const double projected =
      real(e.projectors) *
      (real(e.hidden_size) + real(e.projector_hidden_size) + real(p.m.hidden_size));
  const double pixels = real(e.patch_size) * real(e.patch_size) * real(e.channels);
  return patches * (width * real(e.num_layers) + projected + pixels);
}

// Microbatches of which a pipeline rank holds all layers' activations at most
// (schedule/memory.cpp).
double most_in_flight(const Strategy& s) {
  const double all = std::max(1.0, real(s.global_batch) / (real(s.micro_batch) * real(s.dp)));
  if (traits_of(s.schedule).forwards_first) return all;
  return std::min(all, real(s.pp) * real(2 + s.vp));
}

// Elements of the widest tensors of all layers must be countable in 64 bits, bytes included.
void check_countable(const Plan& p, Findings& f) {
  const double tokens = real(p.s.micro_batch) * real(p.s.seq_len);
  const double layers = real(p.m.num_layers + p.m.mtp_layers);
  const double elements =
      tokens * (layer_width(p) * layers + real(p.m.vocab_size) * real(1 + p.m.mtp_layers)) +
      encoder_elements(p);
  constexpr double kMost = 1e16;
  const double held = elements * most_in_flight(p.s);
  if (held <= kMost) return;
  const bool one = elements > kMost;
  f.error({"micro_batch", "seq_len"},
          (one ? "a microbatch of " + std::to_string(p.s.micro_batch) + " sequences of " +
                     std::to_string(p.s.seq_len) + " tokens has about " + human_count(elements)
               : "the microbatches of " + std::to_string(p.s.micro_batch) + " sequences of " +
                     std::to_string(p.s.seq_len) +
                     " tokens that a pipeline rank may hold have about " + human_count(held)) +
              " activations, more than the " + human_count(kMost) + " that can be planned for");
}

using OwnRule = void (*)(const Strategy&, Findings&);
constexpr OwnRule kOwnRules[] = {check_degrees, check_workload, check_lists,
                                 check_order,   check_dtypes,   check_lora_values};

using Rule = void (*)(const Plan&, Findings&);
constexpr Rule kRules[] = {
    check_gpus,
    check_mixers,
    check_feed_forwards,
    check_experts,
    check_expert_ranks,
    check_expert_sequence,
    check_expert_overlap,
    check_expert_bias,
    check_stages,
    check_batch,
    check_schedule,
    check_sequence_parallel,
    check_context_parallel,
    check_zero_group,
    check_zero_pipeline,
    check_overlap,
    check_recompute,
    check_recompute_modules,
    check_graph_modules,
    check_attention_residuals,
    check_token_proxies,
    check_gathered_tokens,
    check_deferral,
    check_microbatch_group,
    check_capacity,
    check_shared_overlap,
    check_offload,
    check_lora,
    check_precision,
    check_scaling,
    check_stored_input,
    check_bf16_layers,
    check_precision_aware,
    check_positions,
    check_documents,
    check_optimizer,
    check_switches,
    check_loss,
    check_update,
    check_notes,
    check_encoder,
    check_countable,
};

}  // namespace

Findings findings(const Strategy& s) {
  Findings f;
  for (const OwnRule rule : kOwnRules) rule(s, f);
  return f;
}

Findings findings(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  Findings f = findings(s);
  if (f.has_errors()) return f;  // the rules below divide by what is out of range here
  const Plan plan{s, m, c};
  for (const Rule rule : kRules) rule(plan, f);
  return f;
}

bool is_legal(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  Findings f;
  const Plan plan{s, m, c};
  const auto holds = [&](auto rule, const auto&... asked) {
    rule(asked..., f);
    return !f.has_errors();
  };
  return std::all_of(std::begin(kOwnRules), std::end(kOwnRules),
                     [&](OwnRule rule) { return holds(rule, s); }) &&
         std::all_of(std::begin(kRules), std::end(kRules),
                     [&](Rule rule) { return holds(rule, plan); });
}

Diagnostics validate(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  return findings(s, m, c).diagnostics();
}

}  // namespace meshplan
