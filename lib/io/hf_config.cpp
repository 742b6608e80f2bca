// Hugging Face config.json -> ModelSpec.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "io/hf_fields.hpp"
#include "io/hf_parts.hpp"
#include "io/hf_rows.hpp"
#include "io/hf_unread.hpp"
#include "io/hf_wrappers.hpp"
#include "io/load.hpp"
#include "model/rules.hpp"
#include "spec/findings.hpp"

namespace meshplan {
namespace {

struct Family {
  std::string_view model_type;
  ModelSpec (*read)(HfFields&);
};

// Families with code of their own; the others are rows of hf_rows.cpp.
constexpr auto kFamilies = std::to_array<Family>({{"afmoe", hf::read_afmoe},
                                                  {"bailing_hybrid", hf::read_bailing_linear},
                                                  {"bailing_moe_linear", hf::read_bailing_linear},
                                                  {"bamba", hf::read_bamba},
                                                  {"bitnet", hf::read_bitnet},
                                                  {"bloom", hf::read_bloom},
                                                  {"cohere2", hf::read_cohere2},
                                                  {"dbrx", hf::read_dbrx},
                                                  {"deepseek_v2", hf::read_deepseek_v2},
                                                  {"deepseek_v3", hf::read_deepseek_v3},
                                                  {"deepseek_v32", hf::read_deepseek_v32},
                                                  {"deepseek_v4", hf::read_deepseek_v4},
                                                  {"exaone4", hf::read_exaone4},
                                                  {"exaone_moe", hf::read_exaone_moe},
                                                  {"falcon", hf::read_falcon},
                                                  {"falcon_h1", hf::read_falcon_h1},
                                                  {"falcon_mamba", hf::read_mamba},
                                                  {"gemma", hf::read_gemma},
                                                  {"gemma2", hf::read_gemma2},
                                                  {"gemma3_text", hf::read_gemma3},
                                                  {"gemma4_text", hf::read_gemma4},
                                                  {"glm4_moe", hf::read_glm4_moe},
                                                  {"glm4_moe_lite", hf::read_deepseek_v3},
                                                  {"glm_moe_dsa", hf::read_glm_moe_dsa},
                                                  {"gpt2", hf::read_gpt2},
                                                  {"gpt_bigcode", hf::read_gpt_bigcode},
                                                  {"gpt_neo", hf::read_gpt_neo},
                                                  {"gpt_neox", hf::read_gpt_neox},
                                                  {"gpt_oss", hf::read_gpt_oss},
                                                  {"granite", hf::read_llama},
                                                  {"granitemoehybrid", hf::read_granite_hybrid},
                                                  {"jais", hf::read_jais},
                                                  {"jamba", hf::read_jamba},
                                                  {"kimi_k2", hf::read_deepseek_v3},
                                                  {"kimi_linear", hf::read_kimi_linear},
                                                  {"llama", hf::read_llama},
                                                  {"llama4_text", hf::read_llama4},
                                                  {"longcat_flash", hf::read_longcat},
                                                  {"mamba", hf::read_mamba},
                                                  {"mamba2", hf::read_mamba2},
                                                  {"mimo_v2_flash", hf::read_mimo_v2},
                                                  {"minicpm3", hf::read_minicpm3},
                                                  {"minimax", hf::read_minimax},
                                                  {"minimax_m1", hf::read_minimax},
                                                  {"minimax_m2", hf::read_minimax_m2},
                                                  {"minimax_m3", hf::read_minimax_m3},
                                                  {"minimax_text_01", hf::read_minimax},
                                                  {"ministral3", hf::read_mistral},
                                                  {"mistral", hf::read_mistral},
                                                  {"mixtral", hf::read_mixtral},
                                                  {"mpt", hf::read_mpt},
                                                  {"nemotron", hf::read_nemotron},
                                                  {"nemotron-nas", hf::read_nemotron_nas},
                                                  {"nemotron_h", hf::read_nemotron_h},
                                                  {"opt", hf::read_opt},
                                                  {"phi3", hf::read_phi3},
                                                  {"qwen", hf::read_qwen},
                                                  {"qwen2", hf::read_qwen2},
                                                  {"qwen2_5_vl_text", hf::read_qwen2},
                                                  {"qwen2_moe", hf::read_qwen2_moe},
                                                  {"qwen2_vl_text", hf::read_qwen2},
                                                  {"qwen3", hf::read_qwen3},
                                                  {"qwen3_5_moe_text", hf::read_qwen3_next},
                                                  {"qwen3_5_text", hf::read_qwen3_next},
                                                  {"qwen3_moe", hf::read_qwen3_moe},
                                                  {"qwen3_next", hf::read_qwen3_next},
                                                  {"qwen3_vl_moe_text", hf::read_qwen3_moe},
                                                  {"qwen3_vl_text", hf::read_qwen3},
                                                  {"smollm3", hf::read_smollm3},
                                                  {"step3_text", hf::read_step3_text},
                                                  {"step3p5", hf::read_step3},
                                                  {"step3p7", hf::read_step3},
                                                  {"xglm", hf::read_xglm},
                                                  {"youtu_llm", hf::read_minicpm3}});

// Wrappers whose file keeps the language model's keys at its top, and what that model is; and names
// that mean the same.
constexpr auto kAliases = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"qwen2_vl", "qwen2"},
     {"qwen2_5_vl", "qwen2"},
     {"gemma3", "gemma3_text"},
     {"gemma4", "gemma4_text"},
     {"llama4", "llama4_text"},
     {"qwen3_vl", "qwen3"},
     {"qwen3_5", "qwen3_5_text"},
     {"step3_vl", "step3_text"},
     {"codegen", "gptj"},
     {"glm4v", "glm4"},
     {"glm4v_text", "glm4"},
     {"glm4v_moe", "glm4_moe"},
     {"glm4v_moe_text", "glm4_moe"},
     {"git", "grok-1"},
     {"grok", "grok-1"},
     {"nemotron_nas", "nemotron-nas"},
     {"deci", "nemotron-nas"},
     {"hunyuan", "hunyuan_v1_moe"},
     {"AXK1", "deepseek_v3"},
     {"deepseek_ref", "deepseek_v4"},
     {"aquila", "llama"},
     {"skywork", "llama"},
     {"xverse", "llama"},
     {"bailing_moe_v2_5", "bailing_hybrid"},
     {"ernie4_5_moe_vl", "ernie4_5_moe"},
     {"minimax_m3_vl", "minimax_m3"},
     {"minimax_m3_vl_text", "minimax_m3"},
     {"minimax_m3_text", "minimax_m3"}});

ModelSpec read_family(HfFields& f, std::string_view model_type, bool& known) {
  known = true;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family.read(f);
  }
  for (const hf::FamilyRow& row : hf::family_rows()) {
    if (row.model_type == model_type) return hf::read_row(f, row);
  }
  known = false;
  return {};
}

std::string canonical_type(const std::string& type) {
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const auto& row) { return row.first == type; });
  return alias == kAliases.end() ? type : std::string(alias->second);
}

std::string supported_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  for (const hf::FamilyRow& row : hf::family_rows()) names.emplace_back(row.model_type);
  std::sort(names.begin(), names.end());
  return "supported: " + join_words(names);
}

// A model of the usual kind with what its keys say, for a file of a family that is not known.
ModelSpec read_guess(HfFields& f) {
  const hf::FamilyRow usual{
      .model_type = "",
      .core = {{"num_hidden_layers", "num_layers", "n_layer", "n_layers"},
               {"hidden_size", "d_model", "n_embd"},
               {"num_attention_heads", "num_heads", "n_head", "n_heads"}},
      .groups = {"num_key_value_heads", "num_kv_heads", "n_kv_heads"},
      .ffn = {"intermediate_size", "ffn_hidden_size", "ffn_dim"},
      .context = {"max_position_embeddings", "max_seq_len", "seq_length", "n_positions"},
      .activation = {"hidden_act", "hidden_activation", "activation_function"},
      .qkv_bias = {{"attention_bias"}},
      .output_bias = {{"attention_bias"}},
      .mlp_bias = {{"mlp_bias"}},
      .moe = {.experts = {"num_experts", "num_local_experts", "n_routed_experts"},
              .default_top_k = 1,
              .shared_count = {"n_shared_experts", "num_shared_experts"},
              .first_dense = {"first_k_dense_replace"}}};
  return hf::read_row(f, usual);
}

// A model file that says what the usual keys say, to be completed by hand.
std::string model_template(const ModelSpec& m) {
  std::string text =
      "name: " + m.name + ", num_layers: " + std::to_string(m.num_layers) +
      ", hidden_size: " + std::to_string(m.hidden_size) +
      ", num_attention_heads: " + std::to_string(m.num_attention_heads) +
      ", num_query_groups: " + std::to_string(m.num_query_groups) +
      ", head_dim: " + std::to_string(m.head_dim) +
      ", ffn_hidden_size: " + std::to_string(m.ffn_hidden_size) +
      ", gated_mlp: true, activation: " + std::string(name_of(m.activation)) +
      ", norm: rmsnorm, position_embedding: rope, vocab_size: " + std::to_string(m.vocab_size) +
      ", tied_embeddings: " + (m.tied_embeddings ? "true" : "false") +
      ", max_seq_length: " + std::to_string(m.max_seq_length);
  if (m.moe) {
    text +=
        ", moe: {num_experts: " + std::to_string(m.moe->num_experts) +
        ", top_k: " + std::to_string(m.moe->top_k) +
        ", expert_ffn_hidden_size: " + std::to_string(m.moe->expert_ffn_hidden_size) +
        ", shared_expert_ffn_hidden_size: " + std::to_string(m.moe->shared_expert_ffn_hidden_size) +
        "}";
  }
  return "{" + text + "}";
}

// Reports a family that is not known: the keys that have no place, and a model file with the rest.
void report_unknown(HfFields& f, const std::string& type, const std::string& name,
                    const YamlNode& root, const std::string& file) {
  std::string hint = supported_families();
  Document trial(root, "", file);
  HfOrigins origins;
  HfFields fields(trial, trial.root(), origins);
  ModelSpec m = read_guess(fields);
  m.name = name;
  if (trial.ok()) {
    const std::vector<std::string> unplaced = hf::unread_keys(fields);
    hint = unplaced.empty() ? "it looks like a decoder of the usual kind"
                            : "these keys have no place: " + join_words(unplaced);
    hint +=
        "; if they do not change its sizes, this model file says the rest: " + model_template(m);
  }
  f.error({"model_type"}, "model_type '" + type + "' is not supported", hint);
}

// "meta-llama/Llama-2-7b-hf" -> "Llama-2-7b-hf"; the family's name where the file gives none.
std::string model_name(HfFields& f, std::string_view model_type) {
  std::string name = f.text_or({"_name_or_path"}, "");
  while (!name.empty() && name.back() == '/') name.pop_back();
  name = name.substr(name.find_last_of('/') + 1);
  return name.empty() || name == "." ? std::string(model_type) : name;
}

// Where the language model stands, and its family.
struct Parts {
  std::string key;  // of the mapping that holds it; empty: the file itself
  std::string model_type;
  std::string name;  // of the whole
};

bool is_known(const std::string& type) {
  const auto same = [&](const auto& row) { return row.model_type == type; };
  const auto rows = hf::family_rows();
  return std::any_of(kFamilies.begin(), kFamilies.end(), same) ||
         std::any_of(rows.begin(), rows.end(), same);
}

// Reports why there is none.
std::optional<Parts> find_parts(HfFields& f, const Document& document, const std::string& file) {
  Parts parts;
  parts.name = f.text_or({"model_type"}, "");
  parts.key = hf::language_model_key(f);
  std::string refused = hf::refusal(f, parts.name);
  HfFields inner = parts.key.empty() ? f : f.section(parts.key);
  const std::string type = inner.text_or({"model_type"}, parts.name);
  if (refused.empty() && !parts.key.empty()) refused = hf::refusal(inner, type);
  if (!refused.empty()) {
    f.error({"model_type"}, refused, "only decoder-only language models can be planned for");
    return std::nullopt;
  }
  if (type.empty()) {
    f.error({"model_type"}, "'model_type' is missing", supported_families());
    return std::nullopt;
  }
  parts.model_type = is_known(type) ? type : canonical_type(type);
  if (is_known(parts.model_type)) return parts;
  const YamlNode* part = parts.key.empty() ? &document.root() : document.root().find(parts.key);
  report_unknown(inner, type, model_name(f, type), *part, file);
  return std::nullopt;
}

// Broken rules of the model, at the value in the file that feeds the first key known there.
void report_findings(const ModelSpec& m, const HfOrigins& origins, Document& document) {
  const Findings broken = findings(m);
  for (const Finding& finding : broken.all()) {
    const YamlNode* at = &document.root();
    for (const std::string& key : finding.keys) {
      const auto origin = origins.find(key);
      if (origin == origins.end()) continue;
      at = origin->second;
      break;
    }
    document.report(*at, finding.keys.front(), finding.diagnostic.message, finding.diagnostic.hint);
  }
}

// Nothing is left out without a word: a key that no one asked for may change what a layer does.
void add_unread_note(const HfFields& f, ModelSpec& m) {
  const std::vector<std::string> keys = hf::unread_keys(f);
  if (keys.empty()) return;
  m.notes.push_back((keys.size() == 1 ? "this key of the configuration has"
                                      : "these keys of the configuration have") +
                    std::string(" no effect on the plan: ") + join_words(keys));
}

}  // namespace

Result<ModelSpec> parse_hf_config(std::string_view text, const std::string& file) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  HfOrigins origins;
  HfFields fields(document, document.root(), origins);
  if (document.root().kind != YamlNode::Kind::kMap) {
    document.report(document.root(), "", "the file must be a mapping of keys to values");
    return document.diagnostics();
  }
  const std::optional<Parts> parts = find_parts(fields, document, file);
  if (!parts) return document.diagnostics();
  HfFields inner = parts->key.empty() ? fields : fields.section(parts->key);
  bool known = false;
  ModelSpec m = read_family(inner, parts->model_type, known);
  if (!parts->key.empty() && fields.has({"tie_word_embeddings"})) {
    m.tied_embeddings = fields.flag_or({"tie_word_embeddings"}, m.tied_embeddings);
  }
  hf::read_encoder(fields, m);
  add_unread_note(fields, m);
  m.name = model_name(fields, parts->name);
  m.source = "Hugging Face configuration " + file;
  if (document.ok()) report_findings(m, origins, document);
  if (!document.ok()) return document.diagnostics();
  return m;
}

}  // namespace meshplan
