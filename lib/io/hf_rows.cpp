#include "io/hf_rows.hpp"

#include <algorithm>
#include <vector>

namespace meshplan::hf {
namespace {

const FlagRow kAlways{{}, true};

// Defaults are those of the configuration class (transformers, or the file on the hub where the
// model brings its code).
const std::vector<FamilyRow>& rows() {
  static const std::vector<FamilyRow> table{
      {.model_type = "apertus",
       .default_context = 65536,
       .default_activation = "xielu",
       .gated = false,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .mlp_bias = {{"mlp_bias"}},
       .qk_norm = {{"qk_norm"}, true}},
      {.model_type = "arcee",
       .default_activation = "relu2",
       .gated = false,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .mlp_bias = {{"mlp_bias"}}},
      {.model_type = "baichuan", .context = {"model_max_length", "max_position_embeddings"}},
      {.model_type = "bailing_moe",
       .qkv_bias = {{"use_qkv_bias"}},
       .output_bias = {{"use_bias"}},
       .qk_norm = {{"use_qk_norm"}},
       .moe = {.experts = {"num_experts"},
               .default_top_k = 6,
               .shared_count = {"num_shared_experts"},
               .first_dense = {"first_k_dense_replace"}}},
      {.model_type = "bailing_moe_v2",
       .qkv_bias = {{"use_qkv_bias"}},
       .output_bias = {{"use_bias"}},
       .qk_norm = {{"use_qk_norm"}, true},
       .moe = {.experts = {"num_experts"},
               .default_top_k = 8,
               .shared_count = {"num_shared_experts"},
               .correction = true,
               .first_dense = {"first_k_dense_replace"}}},
      {.model_type = "chatglm",
       .core = {.layers = {"num_layers"}, .vocab = {"padded_vocab_size"}},
       .groups = {"multi_query_group_num"},
       .ffn = {"ffn_hidden_size"},
       .context = {"seq_length"},
       .qkv_bias = {{"add_qkv_bias"}},
       .output_bias = {{"add_bias_linear"}},
       .mlp_bias = {{"add_bias_linear"}},
       .default_rotary_share = 0.5},
      {.model_type = "cohere",
       .default_context = 8192,
       .norm = Norm::kLayerNorm,
       .tied = true,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = {{"use_qk_norm"}},
       .parallel = kAlways,
       .shared_norm = true},
      {.model_type = "cwm", .default_groups = 8, .default_context = 131072, .window = true},
      {.model_type = "deepseek",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .moe = {.experts = {"n_routed_experts"},
               .default_top_k = 6,
               .shared_count = {"n_shared_experts"},
               .first_dense = {"first_k_dense_replace"}}},
      {.model_type = "dots1",
       .default_context = 2048,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = kAlways,
       .window = true,
       .moe = {.experts = {"n_routed_experts"},
               .default_top_k = 1,
               .shared_count = {"n_shared_experts"},
               .correction = true,
               .first_dense = {"first_k_dense_replace"}}},
      {.model_type = "ernie4_5",
       .default_context = 131072,
       .tied = true,
       .qkv_bias = {{"use_bias"}},
       .output_bias = {{"use_bias"}},
       .mlp_bias = {{"use_bias"}}},
      {.model_type = "ernie4_5_moe",
       .default_groups = 4,
       .default_context = 131072,
       .tied = true,
       .qkv_bias = {{"use_bias"}},
       .output_bias = {{"use_bias"}},
       .moe = {.experts = {"moe_num_experts"},
               .top_k = {"moe_k"},
               .default_top_k = 6,
               .shared_count = {"moe_num_shared_experts"},
               .correction = true,
               .first_dense = {"moe_layer_start_index"},
               .default_first_dense = 1,
               .last = {"moe_layer_end_index"},
               .every = {"moe_layer_interval"}}},
      {.model_type = "exaone",
       .core = {.layers = {"num_layers", "num_hidden_layers"}},
       .default_context = 2048,
       .activation = {"activation_function", "hidden_act"}},
      {.model_type = "flex_olmo",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = kAlways,
       .moe = {.experts = {"num_experts"}, .default_top_k = 5, .ffn = {"intermediate_size"}}},
      {.model_type = "glm",
       .default_groups = 2,
       .default_head_dim = 128,
       .default_context = 131072,
       .qkv_bias = {{"attention_bias"}, true},
       .default_rotary_share = 0.5},
      {.model_type = "glm4",
       .default_groups = 2,
       .default_head_dim = 128,
       .default_context = 131072,
       .qkv_bias = {{"attention_bias"}},
       .sandwich = kAlways,
       .default_rotary_share = 0.5},
      {.model_type = "gptj",
       .core = {.layers = {"n_layer"}, .hidden = {"n_embd"}, .heads = {"n_head"}},
       .ffn = {"n_inner"},
       .context = {"n_positions"},
       .default_context = 2048,
       .activation = {"activation_function"},
       .default_activation = "gelu_new",
       .gated = false,
       .norm = Norm::kLayerNorm,
       .mlp_bias = kAlways,
       .parallel = kAlways,
       .shared_norm = true,
       .rotary_dim = {"rotary_dim"}},
      {.model_type = "granitemoe",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .moe = {.experts = {"num_local_experts"}, .default_top_k = 2, .ffn = {"intermediate_size"}}},
      {.model_type = "granitemoeshared",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .moe = {.experts = {"num_local_experts"},
               .default_top_k = 2,
               .ffn = {"intermediate_size"},
               .shared_width = {"shared_intermediate_size"}}},
      {.model_type = "grok-1",
       .default_groups = 8,
       .default_context = 8192,
       .default_activation = "gelu",
       .tied = true,
       .sandwich = kAlways,
       .moe = {.experts = {"num_experts", "num_local_experts"},
               .default_top_k = 2,
               .ffn = {"intermediate_size"}}},
      {.model_type = "hunyuan_v1_dense",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = {{"use_qk_norm"}, true}},
      {.model_type = "hunyuan_v1_moe",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = {{"use_qk_norm"}, true},
       .moe = {.experts = {"num_experts"},
               .top_k = {"moe_topk"},
               .default_top_k = 1,
               .shared_count = {"num_shared_expert"}}},
      {.model_type = "hyperclovax",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .mlp_bias = {{"mlp_bias"}},
       .sandwich = {{"use_post_norm"}}},
      {.model_type = "internlm2",
       .default_context = 32768,
       .qkv_bias = {{"bias"}},
       .output_bias = {{"bias"}}},
      {.model_type = "internlm3",
       .default_context = 32768,
       .qkv_bias = {{"qkv_bias"}},
       .output_bias = {{"bias"}},
       .mlp_bias = {{"bias"}}},
      {.model_type = "jais2",
       .default_context = 8192,
       .default_activation = "relu2",
       .gated = false,
       .norm = Norm::kLayerNorm,
       .qkv_bias = {{"attention_bias"}, true},
       .output_bias = {{"attention_bias"}, true},
       .mlp_bias = {{"mlp_bias"}, true}},
      {.model_type = "mimo", .default_context = 32768, .qkv_bias = {{"attention_bias"}, true}},
      {.model_type = "minicpm", .default_context = 2048, .tied = true},
      {.model_type = "nanochat",
       .default_context = 2048,
       .default_activation = "relu2",
       .gated = false,
       .qkv_bias = {{"attention_bias"}},
       .qk_norm = kAlways},
      {.model_type = "olmo",
       .default_context = 2048,
       .norm = Norm::kRmsNorm,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}}},
      {.model_type = "olmo2",
       .default_context = 2048,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = kAlways},
      {.model_type = "olmo3",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = kAlways,
       .window = true},
      {.model_type = "olmoe",
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = kAlways,
       .moe = {.experts = {"num_experts"}, .default_top_k = 8, .ffn = {"intermediate_size"}}},
      {.model_type = "orion", .norm = Norm::kLayerNorm},
      {.model_type = "persimmon",
       .default_context = 16384,
       .default_activation = "relu2",
       .gated = false,
       .norm = Norm::kLayerNorm,
       .qkv_bias = kAlways,
       .output_bias = kAlways,
       .mlp_bias = kAlways,
       .qk_norm = {{"qk_layernorm"}, true},
       .default_rotary_share = 0.5},
      {.model_type = "phi",
       .default_context = 2048,
       .default_activation = "gelu_new",
       .gated = false,
       .norm = Norm::kLayerNorm,
       .qkv_bias = kAlways,
       .output_bias = kAlways,
       .mlp_bias = kAlways,
       .parallel = kAlways,
       .shared_norm = true,
       .default_rotary_share = 0.5},
      {.model_type = "phimoe",
       .default_groups = 8,
       .default_context = 131072,
       .norm = Norm::kLayerNorm,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .window = true,
       .moe = {.experts = {"num_local_experts"}, .default_top_k = 2, .ffn = {"intermediate_size"}}},
      {.model_type = "seed_oss",
       .default_groups = 8,
       .default_head_dim = 128,
       .default_context = 524288,
       .qkv_bias = {{"attention_bias"}, true},
       .output_bias = {{"attention_out_bias"}},
       .mlp_bias = {{"mlp_bias"}}},
      {.model_type = "solar_open",
       .default_groups = 8,
       .default_head_dim = 128,
       .default_context = 131072,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .qk_norm = {{"use_qk_norm"}},
       .moe = {.experts = {"n_routed_experts"},
               .default_top_k = 8,
               .shared_count = {"n_shared_experts"},
               .correction = true,
               .first_dense = {"first_k_dense_replace"}}},
      {.model_type = "stablelm",
       .norm = Norm::kLayerNorm,
       .qkv_bias = {{"use_qkv_bias"}},
       .qk_norm = {{"qk_layernorm"}},
       .parallel = {{"use_parallel_residual"}},
       .shared_norm = true,
       .default_rotary_share = 0.25},
      {.model_type = "starcoder2",
       .default_groups = 2,
       .default_activation = "gelu_pytorch_tanh",
       .gated = false,
       .norm = Norm::kLayerNorm,
       .tied = true,
       .qkv_bias = {{"use_bias"}, true},
       .output_bias = {{"use_bias"}, true},
       .mlp_bias = {{"use_bias"}, true},
       .window = true},
      {.model_type = "vaultgemma",
       .default_groups = 4,
       .default_head_dim = 256,
       .default_context = 8192,
       .activation = {"hidden_activation"},
       .default_activation = "gelu_pytorch_tanh",
       .tied = true,
       .qkv_bias = {{"attention_bias"}},
       .output_bias = {{"attention_bias"}},
       .window = true},
  };
  return table;
}

bool flag(HfFields& f, const FlagRow& row) {
  return row.key.empty() ? row.fallback : f.flag_or(row.key, row.fallback);
}

void read_row_experts(HfFields& f, ModelSpec& m, const ExpertRow& row) {
  if (!f.has(row.experts)) return;  // a dense size of the family
  if (f.is_list(row.experts)) {     // ERNIE 4.5 VL: of text and of images
    f.error(row.experts, "experts of more than one kind in a layer cannot be described",
            "a model file with the experts of one kind plans for tokens of that kind alone");
    return;
  }
  MoeSpec moe;
  moe.num_experts = f.size("moe.num_experts", row.experts);
  if (moe.num_experts == 1) return;
  moe.top_k =
      std::max<std::int64_t>(f.first_count_or("moe.top_k", row.top_k, row.default_top_k), 1);
  moe.expert_ffn_hidden_size = std::max<std::int64_t>(
      f.first_count_or("moe.expert_ffn_hidden_size", row.ffn, m.ffn_hidden_size), 1);
  if (!row.shared_count.empty()) {
    moe.shared_expert_ffn_hidden_size =
        f.first_count_or("moe.shared_expert_ffn_hidden_size", row.shared_count, 0) *
        moe.expert_ffn_hidden_size;
  } else if (!row.shared_width.empty()) {
    moe.shared_expert_ffn_hidden_size =
        f.count_or("moe.shared_expert_ffn_hidden_size", row.shared_width, 0);
  }
  moe.router_bias = row.correction;
  read_router_groups(f, moe);
  m.moe = moe;
  const std::int64_t dense =
      row.first_dense.empty()
          ? 0
          : f.first_count_or("moe.layers.first_dense", row.first_dense, row.default_first_dense);
  const std::int64_t every = row.every.empty() ? 1 : f.size_or("moe.layers.every", row.every, 1);
  std::int64_t last = row.last.empty() ? -1 : f.index_or("moe.layers", row.last, -1);
  if (last < 0) last = m.num_layers - 1;
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    sparse[i] = layer >= dense && layer <= last && (layer + 1) % every == 0;
  }
  set_expert_layers(m, sparse);
}

}  // namespace

std::span<const FamilyRow> family_rows() { return rows(); }

ModelSpec read_row(HfFields& f, const FamilyRow& row) {
  ModelSpec m = read_core(f, row.core);
  read_groups(f, m, row.groups, row.default_groups);
  read_head_dim(f, m, row.default_head_dim);
  set_attention_kind(m);
  m.ffn_hidden_size = row.gated ? f.size("ffn_hidden_size", row.ffn)
                                : f.size_or("ffn_hidden_size", row.ffn, 4 * m.hidden_size);
  read_activation(f, m, row.activation, row.default_activation);
  m.gated_mlp = row.gated;
  m.norm = row.norm;
  m.position_embedding = PositionEmbedding::kRope;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, row.tied);
  m.max_seq_length = f.size_or("max_seq_length", row.context, row.default_context);
  const bool qkv = flag(f, row.qkv_bias), output = flag(f, row.output_bias),
             mlp = flag(f, row.mlp_bias);
  m.linear_bias = qkv && output && mlp;
  if (!m.linear_bias) m.qkv_bias = qkv, m.attention_out_bias = output, m.mlp_bias = mlp;
  m.qk_norm = flag(f, row.qk_norm);
  m.parallel_block = flag(f, row.parallel);
  m.parallel_shared_norm = m.parallel_block && row.shared_norm;
  m.sandwich_norm = flag(f, row.sandwich);
  m.rotary_percent = f.real_or("rotary_percent", row.rotary_share, row.default_rotary_share);
  if (!row.rotary_dim.empty()) {
    const std::int64_t turned = f.count_or("rotary_percent", row.rotary_dim, m.head_dim);
    m.rotary_percent = std::min(1.0, static_cast<double>(turned) / static_cast<double>(m.head_dim));
  }
  read_dropout(f, m, {"resid_pdrop", "hidden_dropout", "residual_dropout"}, 0.0,
               {"attention_dropout", "attn_pdrop"}, 0.0);
  if (!row.moe.experts.empty()) read_row_experts(f, m, row.moe);
  if (row.window && f.has({"sliding_window"})) {
    read_window(f, m, all_layers(m, true), f.size_or("attention.window", {"sliding_window"}, 4096));
  }
  m.mtp_layers = f.count_or("mtp_layers", row.mtp, 0);
  m.logit_softcapping = f.has({"final_logit_softcapping"});
  read_score_cap(f, m);
  if (f.flag_or({"use_cla"}, false)) {
    static_cast<void>(f.has({"cla_share_factor"}));
    m.notes.emplace_back(
        "layers that share keys and values (use_cla) are planned as if each projected its own");
  }
  return m;
}

}  // namespace meshplan::hf
