// Megatron-LM's pretrain_gpt.py (A: megatron/training/arguments.py, T:
// megatron/core/transformer/transformer_config.py, P: megatron/core/parallel_state.py).
#include <algorithm>

#include "frameworks/target_tables.hpp"
#include "spec/hybrid_pattern.hpp"
#include "spec/strategy_keys.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

std::string name(auto value) { return std::string(name_of(value)); }

bool is_half(Precision p) { return p != Precision::kFp32 && p != Precision::kTf32; }

void framework(const Plan& p, Findings& f) {
  if (p.s.framework == Framework::kMegatron) return check_release(p, f);
  f.error({"framework"}, "the plan was made for " + name(p.s.framework) + ", not for Megatron-LM",
          "framework=megatron");
}
void mend_framework(Strategy& s, const ModelSpec&) {
  const Strategy own = s;
  s = with_preset(s, Framework::kMegatron);
  s.zero = own.zero;
}

void block(const Plan& p, Findings& f) {
  if (p.m.parallel_block) {
    f.error({"parallel_block"},
            "Megatron-LM has no layers whose attention and MLP run in parallel");
  }
  if (p.m.embedding_norm) {
    f.error({"embedding_norm"}, "Megatron-LM has no norm behind the embedding");
  }
}

void positions(const Plan& p, Findings& f) {
  if (p.m.position_embedding == PositionEmbedding::kAlibi) {
    f.error({"position_embedding"}, "Megatron-LM has no alibi position embedding");
  }
  if (p.m.position_embedding == PositionEmbedding::kLearned && p.s.seq_len > p.m.max_seq_length) {
    f.error({"seq_len"}, "'seq_len' " + std::to_string(p.s.seq_len) + " is more than the " +
                             std::to_string(p.m.max_seq_length) + " learned positions");
  }
}
void mend_positions(Strategy& s, const ModelSpec& m) {
  if (m.position_embedding == PositionEmbedding::kLearned) {
    s.seq_len = std::min(s.seq_len, m.max_seq_length);
  }
}

void biases(const Plan& p, Findings& f) {
  const ModelSpec& m = p.m;
  if (m.moe && m.linear_bias && m.moe->shared_expert_ffn_hidden_size > 0) {
    f.error({"linear_bias", "moe.shared_expert_ffn_hidden_size"},
            "shared experts have no biases in Megatron-LM");
  }
  if (all_linear_biased(m)) return;
  if (m.linear_bias || m.attention_out_bias || m.expert_bias) {
    f.error({"linear_bias"},
            "Megatron-LM gives biases to every linear layer (experts and router included), to the "
            "query/key/value projection alone, or to none");
  }
}

// Options are of the newest release, unless the plan is for one that is known to do it.
void expert_biases(const Plan& p, Findings& f) {
  const bool biased = p.m.moe && (p.m.linear_bias || p.m.expert_bias);
  if (!biased || p.s.etp == 1 || preset_of(p.s).values.runtime.split_expert_biases) return;
  f.error({"etp", "release"}, "experts with biases are not split over etp ranks since core_r0.15",
          "etp=1, or release=core_r0.14");
}
void mend_expert_biases(Strategy& s, const ModelSpec& m) {
  const bool biased = m.moe && (m.linear_bias || m.expert_bias);
  if (biased && !preset_of(s).values.runtime.split_expert_biases) s.etp = 1;
}

void schedule(const Plan& p, Findings& f) {
  const Schedule k = p.s.schedule;
  if (p.s.pp == 1 || k == Schedule::k1f1b || k == Schedule::kInterleaved) return;
  f.error({"schedule"}, "Megatron-LM runs 1f1b and interleaved pipelines, not " + name(k));
}
void mend_schedule(Strategy& s, const ModelSpec&) {
  if (s.pp == 1 || s.schedule == Schedule::k1f1b || s.schedule == Schedule::kInterleaved) return;
  s.schedule = s.vp > 1 ? Schedule::kInterleaved : Schedule::k1f1b;
  s.stage_layers.clear();
  s.chunk_layers.clear();
  s.recompute_layers.clear();
}

void message_overlap(const Plan& p, Findings& f) {
  if (p.s.schedule != Schedule::kInterleaved || p.s.pp != 2 || p.s.overlap.pp) return;
  f.error(
      {"overlap.pp", "schedule", "pp"},
      "schedule interleaved on pp=2 needs 'overlap.pp': two messages between the same two ranks "
      "would meet in one batch");
}
void mend_message_overlap(Strategy& s, const ModelSpec&) {
  if (s.schedule == Schedule::kInterleaved && s.pp == 2) s.overlap.pp = true;
}

void tensor_overlap(const Plan& p, Findings& f) {
  if (p.s.tp == 1 || p.s.overlap.tp_backward) return;
  f.error({"overlap.tp_backward"},
          "the backward pass always overlaps its tensor-parallel collectives");
}
void mend_tensor_overlap(Strategy& s, const ModelSpec&) { s.overlap.tp_backward = true; }

// Copies of the experts; of a dense model, whose experts would be split as tp splits the rest.
std::int64_t expert_copies(const Strategy& s, const ModelSpec& m) {
  return m.moe ? expert_dp(s) : s.cp * s.dp;
}

// Copies of the shards are copies of the experts' shards too.
bool has_whole_expert_shards(const Strategy& s, const ModelSpec& m) {
  return s.zero_group == 0 || expert_copies(s, m) % (s.dp * s.cp / s.zero_group) == 0;
}
void shard_copies(const Plan& p, Findings& f) {
  if (has_whole_expert_shards(p.s, p.m)) return;
  f.error({"zero_group", "ep", "etp"},
          std::to_string(p.s.dp * p.s.cp / p.s.zero_group) + " copies of the shards must divide " +
              std::to_string(expert_copies(p.s, p.m)) + " copies of the experts",
          "zero_group=0");
}
void mend_shard_copies(Strategy& s, const ModelSpec& m) {
  if (!has_whole_expert_shards(s, m)) s.zero_group = 0;
}

void order(const Plan& p, Findings& f) {
  if (same_rank_order(p.s, kDefaultOrder)) return;
  if (!same_rank_order(p.s, kPipelineInsideOrder)) {
    f.error({"order"},
            "ranks are numbered tp-cp-ep-dp-pp or tp-cp-ep-pp-dp, not " + key_text(p.s.order));
  } else if (expert_copies(p.s, p.m) != p.s.dp) {
    f.error(
        {"order", "cp", "ep", "etp"},
        "order tp-cp-ep-pp-dp needs as many copies of the experts (or, without any, cp * dp) as "
        "dp: " +
            std::to_string(expert_copies(p.s, p.m)) + " and " + std::to_string(p.s.dp));
  }
}
void mend_order(Strategy& s, const ModelSpec& m) {
  const bool inside = same_rank_order(s, kPipelineInsideOrder);
  s.order = inside && expert_copies(s, m) == s.dp ? kPipelineInsideOrder : kDefaultOrder;
}

void expert_sequence(const Plan& p, Findings& f) {
  if (!p.m.moe || p.s.tp == 1 || p.s.sequence_parallel) return;
  f.error({"sequence_parallel", "tp"},
          "experts with 'tp' over 1 need 'sequence_parallel', else the first forward pass stops");
}
void mend_expert_sequence(Strategy& s, const ModelSpec& m) {
  if (m.moe && s.tp > 1) s.sequence_parallel = true;
}

void dispatch(const Plan& p, Findings& f) {
  if (p.s.overlap.ep && !is_half(p.s.precision)) {
    f.error({"overlap.ep", "precision"}, "'overlap.ep' is for 16-bit weights");
  }
  if (p.s.overlap.ep && p.m.mtp_layers > 1) {
    f.error({"overlap.ep", "mtp_layers"},
            "'overlap.ep' takes one layer of multi-token prediction at most");
  }
  // GPTModel alone builds the schedule, of transformer layers whose parts it calls one by one
  // (core/models/gpt/gpt_model.py build_schedule_plan, gpt/fine_grained_callables.py).
  const auto has_layers_alone = [&] {
    return p.m.mhc_num_residual_streams == 1 && !p.m.encoder && !is_megatron_hybrid(p.m);
  };
  if (p.s.overlap.ep && !has_layers_alone()) {
    f.error({"overlap.ep"},
            "'overlap.ep' is of transformer layers, not of hybrids, hyper-connections or encoders");
  }
  const CudaGraphModules& graphed = p.s.runtime.cuda_graph_modules;
  const bool whole =
      graphed.empty() || graphed.has(CudaGraphModule::kMoe) || graphed.has(CudaGraphModule::kMlp);
  if (p.s.overlap.ep && p.s.runtime.cuda_graph == CudaGraph::kLayer && whole) {
    f.error({"overlap.ep", "kernels.cuda_graph_modules"},
            "'overlap.ep' excludes graphs of whole layers, of 'moe' and of 'mlp'");
  }
  if (p.s.runtime.expert_capacity_factor > 0 && p.s.runtime.allgather_dispatcher) {
    f.error({"runtime.expert_capacity_factor", "kernels.allgather_dispatcher"},
            "tokens are dropped where they are sent, not where they are gathered",
            "kernels.allgather_dispatcher=false");
  }
}
void mend_dispatch(Strategy& s, const ModelSpec&) {
  s.overlap.ep = s.overlap.delay_wgrad_compute = s.runtime.single_device_connection = false;
  if (s.runtime.expert_capacity_factor > 0) s.runtime.allgather_dispatcher = false;
}

void gathers(const Plan& p, Findings& f) {
  if (p.s.tp == 1 || !p.s.sequence_parallel || p.s.runtime.tp_recompute_allgather) return;
  f.error({"kernels.tp_recompute_allgather"},
          "the input of a split layer is always gathered again for its weight gradient");
}
void mend_gathers(Strategy& s, const ModelSpec&) { s.runtime.tp_recompute_allgather = true; }

void window(const Plan& p, Findings& f) {
  if (p.m.window == 0 || p.s.cp == 1 || p.s.cp_kind != CpKind::kRing) return;
  f.error({"cp_kind"}, "ring context parallelism has no sliding window");
}
void mend_window(Strategy& s, const ModelSpec& m) {
  if (m.window > 0 && s.cp > 1 && s.cp_kind == CpKind::kRing) s.cp_kind = CpKind::kAllGather;
}

void optimizer_host(const Plan& p, Findings& f) {
  if (!p.s.offload.optimizer || p.s.zero == 1) return;
  f.error({"offload.optimizer", "zero"},
          "'offload.optimizer' needs the distributed optimizer: zero=1, got " +
              std::to_string(p.s.zero));
}
void mend_optimizer_host(Strategy& s, const ModelSpec&) {
  if (s.offload.optimizer) s.zero = 1;
}

void activations_host(const Plan& p, Findings& f) {
  if (!p.s.offload.activations || p.m.num_layers > 1) return;
  f.error({"offload.activations"}, "'offload.activations' needs two layers or more");
}

void precision(const Plan& p, Findings& f) {
  if (p.s.precision != Precision::kTf32) return;
  f.error({"precision"}, "Megatron-LM has no switch for tf32");
}
void mend_precision(Strategy& s, const ModelSpec&) {
  if (s.precision == Precision::kTf32) s.precision = Precision::kFp32;
}

void dtypes(const Plan& p, Findings& f) {
  const Precision k = p.s.precision;
  if (is_half(k) && !p.s.master_weights) {
    f.error({"master_weights"}, "an optimizer of " + name(k) + " weights keeps an fp32 copy");
  }
  const Dtype own = k == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
  if (p.s.grad_dtype != Dtype::kFp32 && (!is_half(k) || p.s.grad_dtype != own)) {
    f.error({"grad_dtype"},
            "gradients are fp32 or of the weights' type, not " + name(p.s.grad_dtype));
  }
  if (p.s.optimizer_dtype != Dtype::kFp32 && (p.s.zero != 1 || !is_half(k))) {
    f.error({"optimizer_dtype", "zero"},
            "moments in " + name(p.s.optimizer_dtype) +
                " need the precision-aware optimizer: zero=1 and 16-bit weights");
  }
}
void mend_dtypes(Strategy& s, const ModelSpec&) {
  s.master_weights = true;
  const Dtype own = s.precision == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
  if (!is_half(s.precision) || s.grad_dtype != own) s.grad_dtype = Dtype::kFp32;
  if (s.zero != 1 || !is_half(s.precision)) s.optimizer_dtype = Dtype::kFp32;
}

void kernels(const Plan& p, Findings& f) {
  const Runtime& k = p.s.runtime;
  if (!k.fused_norm) f.error({"kernels.fused_norm"}, "Transformer Engine's norms are fused");
  if (!k.fused_optimizer) f.error({"kernels.fused_optimizer"}, "Adam is one multi-tensor kernel");
  const bool old =
      k.attention == AttentionKernel::kFlash1 || k.attention == AttentionKernel::kTriton;
  if (p.s.flash_attention && old) {
    f.error({"kernels.attention"},
            "Transformer Engine has no attention kernel " + name(k.attention));
  }
}
void mend_kernels(Strategy& s, const ModelSpec&) {
  s.runtime.fused_norm = s.runtime.fused_optimizer = true;
  const AttentionKernel k = s.runtime.attention;
  if (k == AttentionKernel::kFlash1 || k == AttentionKernel::kTriton) {
    s.runtime.attention = AttentionKernel::kBest;
  }
}

void deferral(const Plan& p, Findings& f) {
  if (!p.s.runtime.defer_embedding_wgrad_compute) return;
  const std::string key = "runtime.defer_embedding_wgrad_compute";
  if (p.s.pp == 1) {
    f.error({key, "pp"}, "'" + key + "' needs a pipeline: 'pp' over 1", key + "=false");
  } else if (!p.s.runtime.fused_grad_accumulation) {
    f.error({key, "kernels.fused_grad_accumulation"},
            "'" + key + "' needs 'kernels.fused_grad_accumulation'", key + "=false");
  }
}
void mend_deferral(Strategy& s, const ModelSpec&) {
  s.runtime.defer_embedding_wgrad_compute = false, s.runtime.wgrad_deferral_limit = 0;
}

// T: enable_mhc_connections with recompute_granularity full.
void streams(const Plan& p, Findings& f) {
  if (p.m.mhc_num_residual_streams == 1 || p.s.recompute != Recompute::kFull) return;
  f.error({"recompute", "mhc_num_residual_streams"},
          "layers with hyper-connections are not recomputed whole", "recompute=selective");
}
void mend_streams(Strategy& s, const ModelSpec& m) {
  if (m.mhc_num_residual_streams == 1 || s.recompute != Recompute::kFull) return;
  s.recompute = Recompute::kSelective;
  s.recompute_layers.clear();
}

// Megatron-Bridge examples/models/deepseek_v4: no tensor parallelism of its attention.
void compressed(const Plan& p, Findings& f) {
  const auto is_compressed = [](const LayerRun& run) {
    return std::holds_alternative<CompressedAttentionSpec>(run.layer.mixer);
  };
  if (p.s.tp == 1 || std::none_of(p.m.layers.begin(), p.m.layers.end(), is_compressed)) return;
  f.error({"tp"}, "Megatron-Core's compressed attention has no tensor parallelism", "tp=1");
}

constexpr TargetRule kRules[] = {
    {"T enable_mhc_connections", streams, mend_streams},
    {"core/transformer/experimental_attention_variant: DSv4HybridSelfAttention", compressed,
     nullptr},
    {"core/transformer/transformer_config.py cuda_graph_impl, cuda_graph_modules",
     check_megatron_graphs, mend_megatron_graphs},
    {"training/arguments.py: cuda_graph_scope full_iteration, check_for_nan_in_loss_and_grad",
     check_graph_of_all, mend_graph_of_all},
    {"pretrain_gpt.py: its own overlaps, data types and kernels", framework, mend_framework},
    {"core/tensor_parallel/random.py CheckpointFunction", check_repeats_all, mend_repeats_all},
    {"core/transformer/transformer_layer.py: attention, then MLP", block, nullptr},
    {"A:1354 max_position_embeddings >= seq_length; A:2397 choices of --position-embedding-type",
     positions, mend_positions},
    {"T add_bias_linear, add_qkv_bias; core/transformer/moe/router.py:67, shared_experts.py",
     biases, nullptr},
    {"T:2614 expert_tensor_parallel_size with add_bias_linear", expert_biases, mend_expert_biases},
    {"core/pipeline_parallel/schedules.py get_forward_backward_func", schedule, mend_schedule},
    {"A:1006 pipeline-model-parallel-size > 2 without overlap of messages", message_overlap,
     mend_message_overlap},
    {"core/tensor_parallel/layers.py LinearWithGradAccumulationAndAsyncCommunication",
     tensor_overlap, mend_tensor_overlap},
    {"P num_distributed_optimizer_instances, expert_data_parallel_size", shard_copies,
     mend_shard_copies},
    {"P RankGenerator; P:897 expert_data_parallel_size when pp is not last", order, mend_order},
    {"core/transformer/moe/moe_layer.py:636", expert_sequence, mend_expert_sequence},
    {"T:3004 overlap_moe_expert_parallel_comm", dispatch, mend_dispatch},
    {"core/model_parallel_config.py defer_embedding_wgrad_compute", deferral, mend_deferral},
    {"core/tensor_parallel/layers.py all_gather_buffer of the backward pass", gathers,
     mend_gathers},
    {"Transformer Engine attention/dot_product_attention/context_parallel.py", window, mend_window},
    {"core/optimizer/__init__.py:1057, A:1885", optimizer_host, mend_optimizer_host},
    {"T:1884 cpu_offloading_num_layers < num_layers", activations_host, nullptr},
    {"T:1914 recompute_granularity, core/transformer/transformer_block.py _checkpointed_forward, "
     "core/transformer/multi_token_prediction.py:1622",
     check_megatron_recomputation, mend_megatron_recomputation, PartitionRule::kAny,
     counts_of_megatron_recomputation},
    {"T:1964 recompute_modules", check_megatron_modules, mend_megatron_modules},
    {"A:1190 params_dtype", precision, mend_precision},
    {"core/optimizer/optimizer_config.py:433", dtypes, mend_dtypes},
    {"core/extensions/transformer_engine.py", kernels, mend_kernels},
    {"A:2914 --optimizer", check_megatron_optimizer, mend_adam},
    {"pretrain_gpt.py: loss_func", check_lm_loss, mend_lm_loss},
};

}  // namespace

std::span<const TargetRule> megatron_rules() { return kRules; }

bool is_megatron_hybrid(const ModelSpec& m) {
  if (!hybrid_pattern(m) || (m.mtp_layers > 0 && !m.mtp_layer)) return false;
  const LayerSpec flat = layer_spec(m, LayerKind::kDense, m.window > 0);
  const auto says = [&](const LayerSpec& layer) {
    if (std::holds_alternative<AttentionSpec>(layer.mixer) && !(layer.mixer == flat.mixer)) {
      return false;
    }
    const auto* mamba = std::get_if<Mamba2Spec>(&layer.mixer);
    if (mamba != nullptr && mamba->conv_kernel != 4) return false;  // fixed in MambaMixer
    if (std::holds_alternative<LatentAttentionSpec>(layer.mixer)) return false;
    const auto* mlp = std::get_if<DenseMlpSpec>(&layer.feed_forward);
    return mlp == nullptr || mlp->ffn_hidden_size == m.ffn_hidden_size;
  };
  return std::all_of(m.layers.begin(), m.layers.end(),
                     [&](const LayerRun& run) { return says(run.layer); }) &&
         (!m.mtp_layer || says(*m.mtp_layer));
}

bool all_linear_biased(const ModelSpec& m) {
  const bool attention = m.linear_bias || (m.qkv_bias && m.attention_out_bias);
  const bool dense = m.linear_bias || num_moe_layers(m) == m.num_layers;
  const bool experts = !m.moe || ((m.linear_bias || m.expert_bias) && m.moe->router_bias);
  return attention && dense && experts;
}

}  // namespace meshplan
