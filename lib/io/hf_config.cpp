// Hugging Face config.json -> ModelSpec: one row per model family.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "io/hf_fields.hpp"
#include "io/hf_parts.hpp"
#include "io/load.hpp"
#include "model/rules.hpp"
#include "spec/findings.hpp"

namespace meshplan {
namespace {

struct Family {
  std::string_view model_type;
  ModelSpec (*read)(HfFields&);
};

constexpr auto kFamilies = std::to_array<Family>({{"bloom", hf::read_bloom},
                                                  {"deepseek_v2", hf::read_deepseek_v2},
                                                  {"deepseek_v3", hf::read_deepseek_v3},
                                                  {"falcon", hf::read_falcon},
                                                  {"gemma", hf::read_gemma},
                                                  {"glm4_moe", hf::read_glm4_moe},
                                                  {"gpt2", hf::read_gpt2},
                                                  {"gpt_bigcode", hf::read_gpt_bigcode},
                                                  {"gpt_neox", hf::read_gpt_neox},
                                                  {"gpt_oss", hf::read_gpt_oss},
                                                  {"granite", hf::read_llama},
                                                  {"kimi_k2", hf::read_deepseek_v3},
                                                  {"llama", hf::read_llama},
                                                  {"mistral", hf::read_mistral},
                                                  {"mixtral", hf::read_mixtral},
                                                  {"mpt", hf::read_mpt},
                                                  {"nemotron", hf::read_nemotron},
                                                  {"opt", hf::read_opt},
                                                  {"phi3", hf::read_phi3},
                                                  {"qwen2", hf::read_qwen2},
                                                  {"qwen2_moe", hf::read_qwen2_moe},
                                                  {"qwen3", hf::read_qwen3},
                                                  {"qwen3_moe", hf::read_qwen3_moe}});

// Keys under which wrappers of several models keep the language model.
constexpr auto kWrapperKeys = std::to_array<std::string_view>(
    {"text_config", "llm_config", "language_config", "thinker_config"});

std::string supported_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return "supported: " + join_words(names);
}

// The row of the file's model_type; reports why there is none.
const Family* find_family(HfFields& f) {
  for (const std::string_view key : kWrapperKeys) {
    if (!f.has({key})) continue;
    f.error({key},
            "the file describes a model of several parts; its language model is under '" +
                std::string(key) + "'",
            "save that mapping as a config.json of its own");
    return nullptr;
  }
  if (f.flag_or({"is_encoder_decoder"}, false)) {
    f.error({"is_encoder_decoder"}, "encoder-decoder models are not supported",
            "only decoder-only transformers can be planned for");
    return nullptr;
  }
  if (!f.has({"model_type"})) {
    f.error({"model_type"}, "'model_type' is missing", supported_families());
    return nullptr;
  }
  const std::string type = f.text_or({"model_type"}, "");
  const auto row = std::find_if(kFamilies.begin(), kFamilies.end(),
                                [&](const Family& family) { return family.model_type == type; });
  if (row != kFamilies.end()) return &*row;
  f.error({"model_type"}, "model_type '" + type + "' is not supported", supported_families());
  return nullptr;
}

// "meta-llama/Llama-2-7b-hf" -> "Llama-2-7b-hf"; the family's name where the file gives none.
std::string model_name(HfFields& f, std::string_view model_type) {
  std::string name = f.text_or({"_name_or_path"}, "");
  while (!name.empty() && name.back() == '/') name.pop_back();
  name = name.substr(name.find_last_of('/') + 1);
  return name.empty() || name == "." ? std::string(model_type) : name;
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
  const Family* family = find_family(fields);
  if (family == nullptr) return document.diagnostics();
  ModelSpec m = family->read(fields);
  m.name = model_name(fields, family->model_type);
  m.source = "Hugging Face configuration " + file;
  if (document.ok()) report_findings(m, origins, document);
  if (!document.ok()) return document.diagnostics();
  return m;
}

}  // namespace meshplan
