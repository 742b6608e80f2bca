#include "io/hf_unread.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace meshplan::hf {
namespace {

using std::string_view;

constexpr auto kBegins = std::to_array<string_view>(
    {"_", "rope", "router_", "moe_router_", "initializer", "time_step_", "num_beam", "num_return_",
     "output_", "return_dict", "tokenizer", "forced_", "suppress_", "begin_suppress_",
     "tie_encoder", "use_mamba_kernels", "cross_attention_hidden"});

constexpr auto kEnds = std::to_array<string_view>(
    {"_token_id", "_token_ids", "_token_index", "_token", "_tokens", "_eps", "_epsilon", "_std",
     "_coef", "_theta", "_dtype", "_scaling_factor", "_multiplier", "_placeholder", "_beta",
     "_penalty"});

constexpr auto kNames = std::to_array<string_view>(
    {"architectures", "auto_map", "model_type", "dtype", "transformers_version", "use_cache",
     "quantization_config", "compression_config", "pretraining_tp", "attn_implementation", "name",
     "id2label", "label2id", "problem_type", "is_decoder", "is_encoder_decoder",
     // Generation.
     "do_sample", "early_stopping", "length_penalty", "max_length", "min_length", "temperature",
     "top_k", "top_p", "typical_p", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
     "bad_words_ids", "num_logits_to_keep", "remove_invalid_values", "chunk_size_feed_forward",
     "diversity_penalty", "repetition_penalty", "prefix", "task_specific_params", "finetuning_task",
     "torchscript", "tf_legacy_loss", "use_bfloat16", "initial_context_length", "max_new_tokens",
     "language_model_only",
     // Which experts a token goes to, and the losses that spread tokens over them.
     "n_group", "topk_group", "topk_method", "num_expert_group", "use_grouped_topk", "scoring_func",
     "score_function", "score_func", "norm_topk_prob", "moe_renormalize", "seq_aux",
     "aux_loss_alpha", "ep_size", "route_norm", "route_scale", "load_balance_coeff",
     "moe_shared_expert_overlap", "use_expert_bias",
     // Factors and bounds of values.
     "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling",
     "query_pre_attn_scalar", "logit_scale", "scale_emb", "scale_depth", "dim_model_base",
     "attention_value_scale", "swiglu_alpha", "swiglu_limit", "swiglu_limits", "scale_attn_weights",
     "scale_embedding", "mup_width_scale", "width_scale", "embeddings_scale", "residual_in_fp32",
     "rescale_prenorm_residual", "attention_softmax_in_fp32", "expert_dtype",
     "original_max_position_embeddings", "swa_rope_theta", "compress_rope_theta",
     "indexer_rope_interleave", "qk_head_dim", "do_layer_norm_before",
     // Of windows that another key turns on.
     "max_window_layers", "qk_norm_type", "mamba_hidden_act", "init_pos_emb_time", "mm_hidden_size",
     "floor_scale", "attn_scale", "attn_temperature_tuning"});

// The images of a training run are what a plan says, not what preparation does.
constexpr auto kVision = std::to_array<string_view>(
    {"ignore_index", "image_seq_length", "vision_feature_select_strategy", "image_grid_pinpoints",
     "projector_hidden_act", "process_image_mode", "vision_config.hidden_act",
     "vision_config.hidden_activation", "vision_config.projection_dim",
     "vision_config.image_seq_length", "vision_config.out_hidden_size",
     "vision_config.text_hidden_size", "vision_config.attention_dropout"});

template <std::size_t N>
bool is_one_of(const std::array<string_view, N>& names, string_view key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool is_harmless(string_view path) {
  const string_view key = path.substr(path.find_last_of('.') + 1);
  const auto begins = [&](string_view part) { return key.starts_with(part); };
  const auto ends = [&](string_view part) { return key.ends_with(part); };
  return std::any_of(kBegins.begin(), kBegins.end(), begins) ||
         std::any_of(kEnds.begin(), kEnds.end(), ends) || is_one_of(kNames, key) ||
         is_one_of(kVision, path);
}

}  // namespace

std::vector<std::string> unread_keys(const HfFields& f) {
  std::vector<std::string> keys = f.unread();
  std::erase_if(keys, [](const std::string& key) { return is_harmless(key); });
  return keys;
}

}  // namespace meshplan::hf
