// Vocabularies of published models, as their config.json states them (vocab_size), by the names
// that people write for their tokenizers.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "launch/megatron_parts.hpp"

namespace meshplan {
namespace {

struct Row {
  std::string_view part;  // of the name in small letters, without '-', '_', '.' and '/'
  std::int64_t words;
};

// What begins alike stands behind what is longer.
constexpr std::array kRows{
    Row{"qwen3next", 151'936},     Row{"qwen35", 248'320},      Row{"qwen3", 151'936},
    Row{"qwen25", 151'936},        Row{"qwen2", 151'936},       Row{"qwen15", 151'936},
    Row{"qwen", 151'936},          Row{"deepseekv2", 102'400},  Row{"deepseekv3", 129'280},
    Row{"deepseekr1", 129'280},    Row{"kimik2", 163'840},      Row{"moonlight", 163'840},
    Row{"llama4", 202'048},        Row{"llama33", 128'256},     Row{"llama32", 128'256},
    Row{"llama31", 128'256},       Row{"llama3", 128'256},      Row{"metallama3", 128'256},
    Row{"llama2", 32'000},         Row{"llama", 32'000},        Row{"mixtral8x22b", 32'768},
    Row{"mixtral", 32'000},        Row{"mistralnemo", 131'072}, Row{"mistral7bv03", 32'768},
    Row{"mistral7b", 32'000},      Row{"gptoss", 201'088},      Row{"gemma3", 262'144},
    Row{"gemma2", 256'000},        Row{"gemma", 256'000},       Row{"falcon", 65'024},
    Row{"bloom", 250'880},         Row{"gptneox", 50'432},      Row{"gpt2", 50'257},
    Row{"nemotron2256k", 256'000}, Row{"nemotron", 256'000},    Row{"starcoder2", 49'152},
    Row{"starcoder", 49'152},      Row{"opt", 50'272},          Row{"phi4", 100'352}};

}  // namespace

std::int64_t tokenizer_words(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0) plain += static_cast<char>(std::tolower(u));
  }
  for (const Row& row : kRows) {
    if (row.part == "opt" ? plain.starts_with("facebookopt") || plain == "opt"
                          : plain.find(row.part) != std::string::npos) {
      return row.words;
    }
  }
  return 0;
}

}  // namespace meshplan
