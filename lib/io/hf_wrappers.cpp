#include "io/hf_wrappers.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace meshplan::hf {
namespace {

// Keys under which wrappers of several models keep the language model.
constexpr auto kLanguage = std::to_array<std::string_view>(
    {"text_config", "llm_config", "language_config", "language_model_config", "thinker_config"});

constexpr auto kAudio =
    std::to_array<std::string_view>({"audio_config", "audio_encoder_config", "audio_processor",
                                     "speech_config", "talker_config", "audio_encoder"});

struct RefusedRow {
  std::string_view what;
  std::vector<std::string_view> model_types;
};

const std::vector<RefusedRow>& refused_types() {
  static const std::vector<RefusedRow> rows{
      {"an encoder-decoder model",
       {"t5",
        "mt5",
        "umt5",
        "byt5",
        "longt5",
        "switch_transformers",
        "bart",
        "mbart",
        "pegasus",
        "pegasus_x",
        "bigbird_pegasus",
        "marian",
        "m2m_100",
        "nllb-moe",
        "blenderbot",
        "blenderbot-small",
        "led",
        "prophetnet",
        "xlm-prophetnet",
        "fsmt",
        "plbart",
        "mvp",
        "encoder-decoder",
        "t5gemma",
        "ul2",
        "florence2",
        "vision-encoder-decoder",
        "udop",
        "pop2piano",
        "moonshine",
        "speech_to_text",
        "whisper",
        "seamless_m4t",
        "speecht5"}},
      {"an encoder-only model",
       {"bert",     "roberta",       "xlm-roberta", "xlm-roberta-xl", "camembert",  "albert",
        "electra",  "deberta",       "deberta-v2",  "distilbert",     "modernbert", "nomic_bert",
        "mpnet",    "ernie",         "ernie_m",     "convbert",       "funnel",     "longformer",
        "big_bird", "squeezebert",   "mobilebert",  "rembert",        "roformer",   "xlm",
        "flaubert", "nystromformer", "esm",         "megatron-bert",  "new",        "gte",
        "layoutlm", "layoutlmv2",    "layoutlmv3",  "xmod",           "mra",        "eurobert"}},
      {"a vision model",
       {"vit",
        "vit_mae",
        "deit",
        "beit",
        "swin",
        "swinv2",
        "dinov2",
        "dinov3_vit",
        "clip",
        "clip_vision_model",
        "siglip",
        "siglip2",
        "siglip_vision_model",
        "convnext",
        "convnextv2",
        "resnet",
        "detr",
        "sam",
        "sam2",
        "segformer",
        "mask2former",
        "owlvit",
        "groupvit"}},
      {"an audio model",
       {"wav2vec2", "wav2vec2-bert", "hubert", "wavlm", "encodec", "musicgen", "bark", "clap",
        "dac", "mimi", "moshi", "vits", "qwen2_audio", "qwen2_audio_encoder", "ultravox",
        "granite_speech"}},
      {"a diffusion model",
       {"unet", "dit", "flux", "stable-diffusion", "latent-diffusion", "llada"}},
      {"a decoder whose parts cannot be described yet: heads of attention and of a state that "
       "share "
       "one projection",
       {"hymba"}},
      {"a decoder whose parts cannot be described yet: layers that share weights",
       {"zamba", "zamba2"}},
      {"a decoder whose parts cannot be described yet: layers that attend to an encoder of images",
       {"mllama", "mllama_text_model", "idefics", "evolla"}},
      {"a decoder whose parts cannot be described yet: embeddings of each layer's own",
       {"gemma3n", "gemma3n_text"}},
      {"a decoder whose parts cannot be described yet: short convolutions instead of attention",
       {"lfm2", "lfm2_moe", "lfm2_vl"}},
      {"a decoder whose parts cannot be described yet: recurrences of another kind",
       {"rwkv", "rwkv5", "rwkv6", "rwkv7", "recurrent_gemma", "xlstm"}}};
  return rows;
}

// Square patches of a square image.
std::int64_t image_patches(HfFields& v, std::int64_t patch) {
  const std::int64_t positions = v.count_or("encoder.positions", {"num_position_embeddings"}, 0);
  if (positions > 0) return positions;
  if (v.has({"init_pos_emb_height"})) {
    return v.size_or("encoder.positions", {"init_pos_emb_height"}, 64) *
           v.size_or("encoder.positions", {"init_pos_emb_width"}, 64);
  }
  const std::int64_t pixels =
      std::max<std::int64_t>(v.first_count_or("encoder.image_size", {"image_size"}, 32 * patch), 1);
  const std::int64_t edge =
      std::max<std::int64_t>(std::min<std::int64_t>(pixels, 1 << 16) / patch, 1);
  return edge * edge;
}

// Patches along an edge that one token is made of.
std::int64_t merge_edge(HfFields& f, HfFields& v, std::int64_t patches) {
  if (v.is_list({"merge_kernel_size"})) {
    const std::vector<std::int64_t> edges = v.counts({"merge_kernel_size"});
    return edges.empty() ? 1 : std::clamp<std::int64_t>(edges.front(), 1, 64);
  }
  if (v.has({"spatial_merge_size", "pooling_kernel_size"})) {
    return v.size_or("encoder.merged_patches", {"spatial_merge_size", "pooling_kernel_size"}, 1);
  }
  HfFields& shuffled = v.has({"pixel_shuffle_ratio"}) ? v : f;
  if (shuffled.has({"pixel_shuffle_ratio", "downsample_ratio"})) {
    const double ratio =
        shuffled.real_or("encoder.merged_patches", {"pixel_shuffle_ratio", "downsample_ratio"}, 1);
    return ratio > 0 ? std::clamp<std::int64_t>(std::llround(1 / ratio), 1, 64) : 1;
  }
  if (f.has({"downsample_factor"})) {
    return std::clamp<std::int64_t>(f.size("encoder.merged_patches", {"downsample_factor"}), 1, 64);
  }
  if (f.has({"scale_factor"})) {
    return std::clamp<std::int64_t>(f.size("encoder.merged_patches", {"scale_factor"}), 1, 64);
  }
  const std::int64_t tokens = f.count_or("encoder.merged_patches", {"mm_tokens_per_image"}, 0);
  if (tokens == 0 || tokens > patches) return 1;
  return std::max<std::int64_t>(
      std::llround(std::sqrt(static_cast<double>(patches) / static_cast<double>(tokens))), 1);
}

// The inner layer of a projector of two layers, from `in` to `out`, that has as many weights.
std::int64_t inner_width(double weights, double in, double out) {
  return std::max<std::int64_t>(std::llround(weights / (in + out)), 1);
}

// Aya Vision's projector is gated: half of what its first layer gives goes into its second one.
std::int64_t gated_projector_width(HfFields& f, const ModelSpec& m, const EncoderSpec& e) {
  const double width = static_cast<double>(
      f.size_or("encoder.projector_hidden_size", {"alignment_intermediate_size"}, m.hidden_size));
  const auto joined = static_cast<double>(e.merged_patches * e.hidden_size),
             out = static_cast<double>(m.hidden_size);
  return inner_width(joined * width + width / 2 * out, joined, out);
}

// GLM-4.1V joins patches by a convolution to the language model's width, and passes a matrix and a
// gated MLP of that width.
std::int64_t glm_projector_width(HfFields& v, const EncoderSpec& e) {
  const std::int64_t out = v.size_or("encoder.projector_hidden_size", {"out_hidden_size"}, 4096);
  const std::int64_t inner =
      v.size_or("encoder.projector_hidden_size", {"intermediate_size"}, 4 * out);
  const double joined = static_cast<double>(e.merged_patches * e.hidden_size),
               width = static_cast<double>(out);
  const double weights = joined * width + width * width + 3 * width * static_cast<double>(inner);
  return inner_width(weights, joined, width);
}

}  // namespace

std::string language_model_key(const HfFields& f) {
  for (const std::string_view key : kLanguage) {
    if (f.has({key})) return std::string(key);
  }
  return {};
}

void read_encoder(HfFields& f, ModelSpec& m) {
  if (!f.has({"vision_config"})) return;
  HfFields v = f.section("vision_config");
  const HfNames depth{"num_hidden_layers", "depth", "vt_num_hidden_layers", "layers"};
  if (!v.has(depth)) {  // written as defaults of its class alone, or as a name
    m.notes.emplace_back(
        "the vision encoder is left out: 'vision_config' of the file does not state its layers");
    return;
  }
  EncoderSpec e;
  e.num_layers = v.size("encoder.num_layers", depth);
  e.hidden_size = v.has({"embed_dim"})
                      ? v.size("encoder.hidden_size", {"embed_dim"})
                      : v.size("encoder.hidden_size", {"hidden_size", "vt_hidden_size", "width"});
  e.num_attention_heads = v.size(
      "encoder.num_attention_heads",
      {"num_attention_heads", "num_heads", "vt_num_attention_heads", "heads", "attention_heads"});
  const std::int64_t queries = v.count_or("encoder.head_dim", {"qkv_hidden_size"}, 0);
  if (queries > 0 && queries != e.hidden_size) {
    e.head_dim = std::max<std::int64_t>(queries / e.num_attention_heads, 1);
  }
  const std::string type = v.text_or({"model_type"}, "");
  const std::string wrapper = f.text_or({"model_type"}, "");
  const bool glm = wrapper == "glm4v" || wrapper == "glm4v_moe";
  const double ratio = v.real_or("encoder.ffn_hidden_size", {"mlp_ratio"}, 4.0);
  const HfNames width =
      glm ? HfNames{"out_hidden_size"} : HfNames{"intermediate_size", "vt_intermediate_size"};
  e.ffn_hidden_size = v.size_or(
      "encoder.ffn_hidden_size", width,
      std::max<std::int64_t>(
          std::llround(std::clamp(ratio, 0.0, 64.0) * static_cast<double>(e.hidden_size)), 1));
  // Qwen2.5-VL's, GLM-4.1V's and Gemma 4's MLPs are gated.
  e.gated_mlp = wrapper == "qwen2_5_vl" || type == "gemma4_vision" || type == "pixtral" || glm;
  e.linear_bias = type != "gemma4_vision" && type != "pixtral" && !glm;
  e.patch_size = std::max<std::int64_t>(
      v.first_count_or("encoder.patch_size", {"patch_size", "spatial_patch_size"}, 14), 1);
  e.channels = v.size_or("encoder.channels", {"in_channels", "num_channels", "in_chans"}, 3) *
               v.size_or("encoder.channels", {"temporal_patch_size"}, 1);
  e.patches_per_image = image_patches(v, e.patch_size);
  const bool learned = v.has(
      {"num_position_embeddings", "position_embedding_size", "init_pos_emb_height", "image_size"});
  e.positions =
      learned ? v.count_or("encoder.positions", {"position_embedding_size"}, e.patches_per_image)
              : 0;
  const std::int64_t edge = merge_edge(f, v, e.patches_per_image);
  e.merged_patches = edge * edge;
  e.patches_per_image =
      std::max<std::int64_t>(e.patches_per_image / e.merged_patches, 1) * e.merged_patches;
  // Averaged patches are one projection; joined ones pass a layer of their own width.
  const bool averaged = v.has({"pooling_kernel_size"}) || f.has({"mm_tokens_per_image"});
  if (averaged) {
    e.projector_hidden_size = 0;
    e.merged_patches = 1;
  } else if (f.has({"scale_factor"})) {  // one matrix (Idefics 3, SmolVLM)
    e.projector_hidden_size = 0;
  } else if (wrapper == "aya_vision") {
    e.projector_hidden_size = gated_projector_width(f, m, e);
  } else if (glm) {
    e.projector_hidden_size = glm_projector_width(v, e);
  } else {
    // LLaVA's inner layer is as wide as the language model, others' as what they join.
    const bool llava = wrapper.starts_with("llava") || wrapper == "vipllava";
    e.projector_hidden_size = llava ? m.hidden_size : e.merged_patches * e.hidden_size;
    if (v.has({"vision_output_dim"})) {
      e.projector_hidden_size = v.size("encoder.projector_hidden_size", {"vision_output_dim"});
    } else if (f.has({"projector_hidden_size"})) {
      // MiniMax-M3, which also projects the patches before they are joined: that is left out.
      e.projector_hidden_size = f.size("encoder.projector_hidden_size", {"projector_hidden_size"});
    }
  }
  e.projectors = 1 + static_cast<std::int64_t>(v.counts({"deepstack_visual_indexes"}).size());
  m.encoder = e;
}

std::string refusal(HfFields& f, const std::string& model_type) {
  for (const std::string_view key : kAudio) {
    if (f.has({key})) {
      return "the model has an audio part ('" + std::string(key) +
             "'), which cannot be planned for";
    }
  }
  for (const std::string_view key : {"_class_name", "_diffusers_version", "diffusion_config"}) {
    if (f.has({key})) return "the file describes a diffusion model, which cannot be planned for";
  }
  if (f.flag_or({"is_encoder_decoder"}, false)) {
    return "encoder-decoder models are not supported";
  }
  for (const RefusedRow& row : refused_types()) {
    if (std::find(row.model_types.begin(), row.model_types.end(), model_type) ==
        row.model_types.end()) {
      continue;
    }
    return "'" + model_type + "' is " + std::string(row.what);
  }
  return {};
}

}  // namespace meshplan::hf
