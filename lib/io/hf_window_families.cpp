// Families whose layers differ in window, sizes or experts.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "io/hf_parts.hpp"

namespace meshplan::hf {
namespace {

constexpr std::int64_t kGemmaWords = 262'208;

// Gemma 2 and later: norms on both sides, tied embeddings, capped logits.
ModelSpec gemma_like(HfFields& f, std::int64_t context, std::int64_t words) {
  ModelSpec m = read_core(f, {.default_heads = 8, .default_vocab = words});
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_activation"}, f.text_or({"hidden_act"}, "gelu_pytorch_tanh"));
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, context);
  read_groups(f, m, {"num_key_value_heads"}, 4);
  read_head_dim(f, m, 256);
  set_attention_kind(m);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  m.sandwich_norm = true;
  m.logit_softcapping = f.has({"final_logit_softcapping"});
  read_score_cap(f, m);
  read_dropout(f, m, {"resid_pdrop"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

// Windows in all layers but every n-th.
void read_local_layers(HfFields& f, ModelSpec& m, std::int64_t every, std::int64_t window) {
  std::vector<bool> windowed = all_layers(m, true);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] = (static_cast<std::int64_t>(i) + 1) % every != 0;
  }
  read_window(f, m, std::move(windowed), f.size_or("attention.window", {"sliding_window"}, window));
}

}  // namespace

ModelSpec read_gemma2(HfFields& f) {
  ModelSpec m = gemma_like(f, 8192, 0);
  read_local_layers(f, m, 2, 4096);
  return m;
}

ModelSpec read_gemma3(HfFields& f) {
  ModelSpec m = gemma_like(f, 131'072, kGemmaWords);
  m.qk_norm = true;
  read_local_layers(f, m, f.size_or("attention.window_every", {"sliding_window_pattern"}, 6), 4096);
  return m;
}

// Full attention has heads of its own size, and keys that are its values; where a model has experts
// every token passes a dense MLP beside them.
ModelSpec read_gemma4(HfFields& f) {
  ModelSpec m = gemma_like(f, 262'144, 262'144);
  m.qk_norm = true;
  if (f.count_or("hidden_size", {"hidden_size_per_layer_input"}, 0) > 0) {
    f.error({"hidden_size_per_layer_input"},
            "embeddings of each layer's own (Gemma 4 E2B and E4B) cannot be described");
  }
  if (f.has({"num_experts"})) {
    MoeSpec moe = read_experts(f, {"num_experts"}, 0, {"moe_intermediate_size"});
    moe.top_k = f.size_or("moe.top_k", {"top_k_experts", "num_experts_per_tok"}, 1);
    moe.shared_expert_ffn_hidden_size = m.ffn_hidden_size;
    m.moe = moe;
  }
  read_local_layers(f, m, 6, 512);
  const std::int64_t dim = f.size_or("head_dim", {"global_head_dim"}, 512);
  const std::int64_t groups =
      f.size_or("num_query_groups", {"num_global_key_value_heads"}, m.num_query_groups);
  const bool shared = f.flag_or({"attention_k_eq_v"}, f.has({"num_global_key_value_heads"}));
  const double share = f.section("rope_parameters")
                           .section("full_attention")
                           .real_or("rotary_percent", {"partial_rotary_factor"}, 1.0);
  edit_layers(m, [&](std::size_t, LayerSpec& layer) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    if (attention.window > 0) return;
    attention.head_dim = dim;
    attention.num_query_groups = groups;
    attention.shared_values = shared;
    if (share < 1)
      attention.rotary_dim = static_cast<std::int64_t>(share * static_cast<double>(dim));
  });
  return m;
}

// Every fourth layer sees all tokens and has no positions, the others the tokens of their chunk.
ModelSpec read_llama4(HfFields& f) {
  ModelSpec m = llama_like(f, 131'072, 8, 128);
  const std::int64_t step = f.size_or("moe.layers.every", {"interleave_moe_layer_step"}, 1);
  m.moe = read_experts(f, {"num_local_experts"}, 1, {"intermediate_size"});
  m.moe->shared_expert_ffn_hidden_size = m.moe->expert_ffn_hidden_size;
  m.ffn_hidden_size = f.size_or("ffn_hidden_size", {"intermediate_size_mlp"}, 16'384);
  std::vector<bool> experts = all_layers(m, false);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    experts[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
  set_expert_layers(m, experts);
  const std::int64_t chunk = f.count_or("attention.window", {"attention_chunk_size"}, 8192);
  const std::int64_t interval = f.count_or("attention.window_every", {"no_rope_layer_interval"}, 4);
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    const bool all = interval > 0 && (static_cast<std::int64_t>(i) + 1) % interval == 0;
    if (all) attention.rotary_dim = 0;
    if (all || chunk == 0) return;
    attention.window = chunk;
    attention.chunked = true;
  });
  return m;
}

ModelSpec read_cohere2(HfFields& f) {
  ModelSpec m = llama_like(f, 8192, 0, 0);
  m.norm = Norm::kLayerNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  m.parallel_block = m.parallel_shared_norm = true;
  read_local_layers(f, m, f.size_or("attention.window_every", {"sliding_window_pattern"}, 4), 4096);
  return m;
}

ModelSpec read_smollm3(HfFields& f) {
  ModelSpec m = llama_like(f, 32'768, 4, 0);
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  set_biases(m, f.flag_or({"attention_bias"}, false), f.flag_or({"mlp_bias"}, false));
  const std::int64_t interval = f.count_or("attention.window_every", {"no_rope_layer_interval"}, 4);
  const std::vector<std::int64_t> rotary = f.counts({"no_rope_layers"});  // 1: the layer rotates
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    const bool turns = i < rotary.size()
                           ? rotary[i] != 0
                           : interval == 0 || (static_cast<std::int64_t>(i) + 1) % interval != 0;
    if (!turns) std::get<AttentionSpec>(layer.mixer).rotary_dim = 0;
  });
  return m;
}

// Windowed and full layers with heads of their own; which have experts is a list.
ModelSpec read_mimo_v2(HfFields& f) {
  ModelSpec m = llama_like(f, 262'144, 0, 0);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 1.0);
  m.moe = read_experts(f, {"n_routed_experts"}, 8, {"moe_intermediate_size"});
  m.moe->router_bias = true;
  const std::vector<std::int64_t> sparse = f.counts({"moe_layer_freq"}),
                                  local = f.counts({"hybrid_layer_pattern"});
  const std::int64_t window = f.size_or("attention.window", {"sliding_window"}, 128);
  const std::int64_t values = f.count_or("head_dim", {"v_head_dim"}, 0);
  AttentionSpec few;
  few.num_attention_heads =
      f.size_or("num_attention_heads", {"swa_num_attention_heads"}, m.num_attention_heads);
  few.num_query_groups =
      f.size_or("num_query_groups", {"swa_num_key_value_heads"}, m.num_query_groups);
  few.head_dim = f.size_or("head_dim", {"swa_head_dim"}, m.head_dim);
  few.v_head_dim = f.count_or("head_dim", {"swa_v_head_dim"}, values);
  few.window = window;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    std::get<AttentionSpec>(layer.mixer).v_head_dim = values;
    if (i < local.size() && local[i] != 0) layer.mixer = few;
    if (i < sparse.size() && sparse[i] == 0) layer.feed_forward = DenseMlpSpec{m.ffn_hidden_size};
  });
  return m;
}

ModelSpec read_step3(HfFields& f) {
  ModelSpec m = llama_like(f, 65'536, 0, 0);
  m.qk_norm = true;
  const std::int64_t groups =
      f.size_or("num_query_groups", {"num_attention_groups"}, m.num_query_groups);
  m.num_query_groups = groups;
  set_attention_kind(m);
  m.moe = read_experts(f, {"num_experts", "moe_num_experts"}, 8, {"moe_intermediate_size"});
  m.moe->router_bias = true;
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"share_expert_dim", "share_expert_dims"}, 0);
  const std::int64_t dense = f.count_or("moe.layers.first_dense", {"first_k_dense_replace"}, 3);
  std::vector<bool> sparse = all_layers(m, true);
  std::fill_n(sparse.begin(), std::min<std::size_t>(sparse.size(), static_cast<std::size_t>(dense)),
              false);
  set_expert_layers(m, sparse);
  read_window(f, m, all_layers(m, false), f.size_or("attention.window", {"sliding_window"}, 512));
  HfFields other = f.section("attention_other_setting");
  const std::int64_t heads =
      other.size_or("num_attention_heads", {"num_attention_heads"}, m.num_attention_heads);
  const std::int64_t other_groups =
      other.size_or("num_query_groups", {"num_attention_groups"}, m.num_query_groups);
  if (heads != m.num_attention_heads || other_groups != m.num_query_groups) {
    edit_layers(m, [&](std::size_t, LayerSpec& layer) {
      auto& attention = std::get<AttentionSpec>(layer.mixer);
      if (attention.window == 0) return;
      attention.num_attention_heads = heads;
      attention.num_query_groups = other_groups;
    });
  }
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

namespace {

// "4,5,6"; what is no number is left out.
std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error == std::errc{}) all.push_back(value);
    at = error == std::errc{} && rest > at ? rest : at + 1;
  }
  return all;
}

}  // namespace

// Step-3: one key/value head, queries through a latent, experts in the layers that are listed, as
// numbers or in a text.
ModelSpec read_step3_text(HfFields& f) {
  ModelSpec m = llama_like(f, 65'536, 0, 0);
  m.num_query_groups = f.size_or("num_query_groups", {"num_attention_groups"}, 1);
  set_attention_kind(m);
  m.moe = read_experts(f, {"moe_num_experts"}, 3, {"moe_intermediate_size"});
  m.moe->top_k = f.size_or("moe.top_k", {"moe_top_k"}, 3);
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"share_expert_dim"}, 0);
  const std::vector<std::int64_t> listed = f.is_list({"moe_layers_enum"})
                                               ? f.counts({"moe_layers_enum"})
                                               : numbers_in(f.text_or({"moe_layers_enum"}, ""));
  std::vector<bool> sparse = all_layers(m, listed.empty());
  for (const std::int64_t i : listed) {
    if (i >= 0 && i < m.num_layers) sparse[static_cast<std::size_t>(i)] = true;
  }
  set_expert_layers(m, sparse);
  const std::int64_t rank = f.count_or("attention.q_lora_rank", {"share_q_dim"}, 0);
  edit_layers(m, [&](std::size_t, LayerSpec& layer) {
    std::get<AttentionSpec>(layer.mixer).q_lora_rank = rank;
  });
  return m;
}

// Nemotron-NAS (DeciLM): layers of Llama with fewer heads, narrower MLPs, or without one of both.
ModelSpec read_nemotron_nas(HfFields& f) {
  ModelSpec m = read_core(f);
  read_head_dim(f, m, 0);
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 131'072);
  set_attention_kind(m);
  std::vector<HfFields> blocks = f.sections("block_configs");
  if (static_cast<std::int64_t>(blocks.size()) != m.num_layers) {
    f.error({"block_configs"}, "'block_configs' lists " + std::to_string(blocks.size()) + " of " +
                                   std::to_string(m.num_layers) + " layers");
    return m;
  }
  std::vector<LayerSpec> layers;
  for (HfFields& block : blocks) {
    LayerSpec layer{NoneSpec{}, NoneSpec{}};
    HfFields attention = block.section("attention"), ffn = block.section("ffn");
    for (HfFields* part : {&attention, &ffn}) {
      if (part->flag_or({"replace_with_linear"}, false)) {
        part->error({"replace_with_linear"},
                    "parts that are replaced by one matrix cannot be described");
      }
    }
    if (!attention.flag_or({"no_op"}, false)) {
      const std::int64_t share = attention.size_or("num_query_groups", {"n_heads_in_group"}, 1);
      AttentionSpec mixer;
      mixer.num_attention_heads = m.num_attention_heads;
      mixer.num_query_groups = std::max<std::int64_t>(m.num_attention_heads / share, 1);
      mixer.head_dim = m.head_dim;
      mixer.window = attention.count_or("attention.window", {"window_length"}, 0);
      layer.mixer = mixer;
      m.num_query_groups = mixer.num_query_groups;
    }
    if (!ffn.flag_or({"no_op"}, false)) {
      // Two thirds of the stated multiple, in whole 256s (modeling_decilm.py, _ffn_mult_to_...).
      const double mult = ffn.real_or("ffn_hidden_size", {"ffn_mult"}, 4.0);
      const auto width = static_cast<std::int64_t>(2 * std::clamp(mult, 0.0, 1e4) *
                                                   static_cast<double>(m.hidden_size) / 3);
      layer.feed_forward = DenseMlpSpec{std::max<std::int64_t>(ceil_div(width, 256) * 256, 256)};
    }
    layers.push_back(layer);
  }
  set_attention_kind(m);
  m.ffn_hidden_size = 0;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) { layer = layers[i]; });
  return m;
}

ModelSpec read_dbrx(HfFields& f) {
  ModelSpec m = read_core(f, {{"n_layers"}, {"d_model"}, {"n_heads"}});
  HfFields attention = f.section("attn_config"), ffn = f.section("ffn_config");
  read_groups(attention, m, {"kv_n_heads"}, 1);
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kLayerNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_seq_len"}, 2048);
  MoeSpec moe;
  moe.num_experts = ffn.size_or("moe.num_experts", {"moe_num_experts"}, 4);
  moe.top_k = ffn.size_or("moe.top_k", {"moe_top_k"}, 1);
  moe.expert_ffn_hidden_size = ffn.size_or("moe.expert_ffn_hidden_size", {"ffn_hidden_size"}, 3584);
  m.moe = moe;
  return m;
}

namespace {

// Windows in all layers but every n-th, which have no positions.
void read_rotating_windows(HfFields& f, ModelSpec& m, std::int64_t every, std::int64_t window) {
  read_local_layers(f, m, every, window);
  edit_layers(m, [](std::size_t, LayerSpec& layer) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    if (attention.window == 0) attention.rotary_dim = 0;
  });
}

}  // namespace

ModelSpec read_exaone4(HfFields& f) {
  ModelSpec m = llama_like(f, 2048, 0, 0);
  m.qk_norm = true;
  if (!f.is_null({"sliding_window"})) read_rotating_windows(f, m, 4, 4096);  // small sizes: none
  return m;
}

ModelSpec read_exaone_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 2048, 0, 0);
  m.qk_norm = true;
  read_deepseek_experts(f, m,
                        {.top_k = 8, .first_dense = 1, .shared_experts = 1, .correction = true});
  read_rotating_windows(f, m, 4, 4096);
  return m;
}

// Trinity (Arcee): gated attention, norms on both sides, experts behind the first dense layers.
ModelSpec read_afmoe(HfFields& f) {
  ModelSpec m = llama_like(f, 16'384, 0, 128);
  m.qk_norm = m.attention_output_gate = m.sandwich_norm = true;
  read_deepseek_experts(f, m,
                        {.top_k = 8, .first_dense = 1, .shared_experts = 1, .correction = true});
  read_rotating_windows(
      f, m, f.size_or("attention.window_every", {"global_attn_every_n_layers"}, 4), 2048);
  return m;
}

// LongCat-Flash: each of its layers is two of latent attention and dense MLP, and experts beside
// the first MLP that reach over both. A token's choices include experts that return it as it is,
// which cost nothing: of top_k as many as their share of all experts (2509.01322 section 2.1).
ModelSpec read_longcat(HfFields& f) {
  ModelSpec m = llama_without_attention(f, 131'072, {.layers = {"num_layers", "num_hidden_layers"}},
                                        {"ffn_hidden_size"});
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f);
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  MoeSpec moe;
  moe.num_experts = f.size_or("moe.num_experts", {"n_routed_experts"}, 512);
  const auto same = static_cast<double>(f.count_or("moe.num_experts", {"zero_expert_num"}, 0));
  const auto all = static_cast<double>(moe.num_experts);
  const auto chosen = static_cast<double>(f.size_or("moe.top_k", {"moe_topk"}, 12));
  moe.top_k = std::max<std::int64_t>(std::llround(chosen * all / (all + same)), 1);
  if (same > 0) {
    m.notes.push_back(
        "of a token's choices, those of experts that return it as it is ('zero_expert_num') "
        "are left out by their share: top_k is " +
        std::to_string(moe.top_k) + ", and that it differs from token to token is not modelled");
  }
  moe.expert_ffn_hidden_size =
      f.size_or("moe.expert_ffn_hidden_size", {"expert_ffn_hidden_size"}, 2048);
  moe.shared_expert_ffn_hidden_size = m.ffn_hidden_size;
  moe.router_bias = true;
  m.moe = moe;
  m.num_layers = std::min<std::int64_t>(m.num_layers, kLargestHfSize / 2) * 2;
  std::vector<bool> experts = all_layers(m, false);
  for (std::size_t i = 0; i < experts.size(); i += 2) experts[i] = true;
  set_expert_layers(m, experts);
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

}  // namespace meshplan::hf
