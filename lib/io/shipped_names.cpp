#include "io/shipped_names.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace meshplan {
namespace {

namespace fs = std::filesystem;

// Letters and digits of a name's last part, in lower case: what differs between
// "meta-llama/Llama-3.1-8B" and "llama-3.1-8b" is gone.
std::string bare_name(std::string_view name) {
  name = name.substr(name.find_last_of('/') + 1);
  std::string bare;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      bare += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      bare += c;
    }
  }
  return bare;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A hub's name without the words inside of it that tell releases of the same sizes apart: dates
// ("OLMo-2-1124-7B"), versions ("Mixtral-8x7B-Instruct-v0.1"), the active size beside a number of
// experts ("Llama-4-Scout-17B-16E"), and bits ("bnb-4bit", which would otherwise end in "it").
std::string without_release(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find_first_of("-_ "));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    const bool date = word.size() == 4 && is_number(word);
    const bool version = word.starts_with("v0.") && is_number(word.substr(3));
    const bool bits = word == "bnb" || word == "4bit" || word == "8bit";
    if (date || version || bits) continue;
    const bool experts =
        (word.ends_with('E') || word.ends_with('e')) && is_number(word.substr(0, word.size() - 1));
    if (experts && !words.empty()) {
      words.pop_back();
    } else {
      words.push_back(word);
    }
  }
  std::string bare;
  for (const std::string_view word : words) bare += std::string(word) + "-";
  return bare;
}

// What ends a hub's name and tells variants of the same sizes apart: how it was tuned, and in what
// its weights are stored (a plan says itself in what they are).
constexpr std::array<std::string_view, 21> kVariants{
    "hf",  "instruct", "base", "chat", "it",  "pt", "fp8", "bf16",     "nvfp4",   "mxfp4",   "gptq",
    "awq", "gguf",     "int4", "int8", "exp", "4k", "8k",  "thinking", "unsloth", "terminus"};

// Releases whose cards say that they are another one's architecture, trained on.
struct SameSizes {
  std::string_view bare;
  std::string_view shipped;
};
constexpr std::array<SameSizes, 3> kSameSizes{{
    {"deepseekr1", "deepseekv3"},      // 2501.12948: trained from DeepSeek-V3-Base
    {"deepseekr1zero", "deepseekv3"},  // the same
    {"deepseekv31", "deepseekv3"},     // model card: the structure of DeepSeek-V3
}};

// A name as it is compared, and without one after another of the words that end it.
std::vector<std::string> bare_names(std::string_view name) {
  std::string bare = bare_name(name);
  if (bare.starts_with("metallama")) bare = bare.substr(4);
  if (bare.starts_with("nvidianemotron")) bare = bare.substr(6);
  std::vector<std::string> names;
  for (;;) {
    names.push_back(bare);
    const auto suffix = std::ranges::find_if(kVariants, [&](std::string_view variant) {
      return bare.size() > variant.size() && bare.ends_with(variant);
    });
    if (suffix == kVariants.end()) return names;
    bare.resize(bare.size() - suffix->size());
  }
}

// The one shipped file whose name is the same but for the size that ends it: hubs leave it out
// where a family has one size ("Mistral-Nemo-Instruct-2407", "bloom").
fs::path find_sized(std::string_view folder, const std::vector<std::string>& wanted,
                    const DataFolders& data) {
  fs::path only;
  for (const std::string& known : data.names(folder)) {
    const std::size_t dash = known.find_last_of('-');
    if (dash == std::string::npos || !known.ends_with('b')) continue;
    const std::string_view size(known.data() + dash + 1, known.size() - dash - 2);
    if (!is_number(size)) continue;
    if (std::ranges::find(wanted, bare_name(known.substr(0, dash))) == wanted.end()) continue;
    if (!only.empty()) return {};
    only = data.find(folder, known);
  }
  return only;
}

}  // namespace

fs::path find_shipped(std::string_view folder, std::string_view name, const DataFolders& data) {
  const std::vector<std::string> known = data.names(folder);
  std::vector<std::string> wanted = bare_names(name);
  for (std::string& bare : bare_names(without_release(name))) wanted.push_back(std::move(bare));
  for (std::size_t i = 0, named = wanted.size(); i < named; ++i) {
    for (const SameSizes& same : kSameSizes) {
      if (same.bare == wanted[i]) wanted.emplace_back(same.shipped);
    }
  }
  for (const std::string& bare : wanted) {
    for (const std::string& candidate : known) {
      if (bare_name(candidate) == bare) return data.find(folder, candidate);
    }
  }
  return find_sized(folder, wanted, data);
}

}  // namespace meshplan
