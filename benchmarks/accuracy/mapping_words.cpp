// What the texts of a row say: attention, compilation, precision, overlap.
#include <regex>

#include "mapping.hpp"
#include "words.hpp"

namespace meshplan::accuracy {

std::optional<bool> flash_attention_of(const std::string& text) {
  if (has_word(text, "unknown")) return std::nullopt;
  if (has_any(text, {"unfused", "plain", "no flash", "pre-flash"})) return false;
  if (lower(text) == "torch" || lower(text) == "fused") return false;
  if (has_any(text, {"flash", "TransformerEngine", "SDPA", "xformers", "cuDNN"})) return true;
  return std::nullopt;
}

std::optional<bool> stated_compilation(const Run& run) {
  if (run.torch_compile) return run.torch_compile;
  const std::string said = lower(run.attention_impl + " " + run.precision + " " + run.notes + " " +
                                 run.where + " " + run.optimizer);
  static const std::regex without(R"(\b(no|without|w/o|not) (torch\.)?compiled?\b)");
  static const std::regex with(R"(\bcompiled?\b)");
  if (std::regex_search(said, without)) return false;
  if (std::regex_search(said, with)) return true;
  return std::nullopt;
}

std::optional<Precision> precision_of(const std::string& text) {
  if (has_any(text, {"nvfp4"})) return Precision::kNvfp4;
  if (has_any(text, {"fp8", "float8"})) return Precision::kFp8;
  for (const auto& row : NameTable<Precision>::rows) {
    if (starts_with_word(text, row.name)) return row.value;
  }
  return std::nullopt;
}

std::optional<ScalingRecipe> recipe_of(const std::string& text) {
  if (has_any(text, {"mxfp8"})) return ScalingRecipe::kMxfp8;
  if (has_any(text, {"blockwise", "subchannel", "1x128"})) return ScalingRecipe::kBlockwise;
  if (has_any(text, {"tensorwise", "current scaling"})) return ScalingRecipe::kTensorwise;
  if (has_any(text, {"delayed"})) return ScalingRecipe::kDelayed;
  return std::nullopt;
}

std::optional<bool> stated_overlap(const std::string& text, const std::string& model) {
  if (text.empty()) return std::nullopt;
  const std::string said = lower(text);
  if (said == "true" || starts_with_word(said, "yes")) return true;
  if (said == "false" || starts_with_word(said, "no ")) return false;
  const std::size_t names = said.find("true in ");
  if (names == std::string::npos || said.find("false in ") == std::string::npos) {
    return said.find("overlap") != std::string::npos ||
           said.find("prefetch") != std::string::npos || said.find("async") != std::string::npos;
  }
  const std::size_t start = names + std::string_view("true in ").size();
  const std::string list = said.substr(start, said.find_first_of(" ,", start) - start);
  const std::string name = letters_and_digits(model);
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find('/', at), list.size());
    const std::string word = letters_and_digits(list.substr(at, end - at));
    if (!word.empty() && name.find(word) != std::string::npos) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace meshplan::accuracy
