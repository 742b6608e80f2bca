// What is said of keys that nobody knows.
#include "io/unknown_key.hpp"

#include <array>

#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("a key that other tools have is named as it is called here") {
  const auto hint = [](std::string_view key) { return hint_for_unknown(key, strategy_keys()); };
  CHECK(hint("vpp") == "that is 'vp' here");
  CHECK(hint("train_micro_batch_size_per_gpu") == "that is 'micro_batch' here");
  CHECK(hint("lora_r") == "that is 'lora.rank' here");
  // Where the file has no such key, what is near.
  constexpr std::array<std::string_view, 2> kOthers{"tp", "pp"};
  CHECK(hint_for_unknown("vpp", kOthers) == "did you mean 'pp'?");
  constexpr std::array<std::string_view, 2> kOfModels{"num_layers", "ffn_hidden_size"};
  CHECK(hint_for_unknown("num_hidden_layers", kOfModels) == "that is 'num_layers' here");
  CHECK(hint_for_unknown("intermediate_size", kOfModels) == "that is 'ffn_hidden_size' here");
  // Whatever group either stands in.
  constexpr std::array<std::string_view, 2> kOfExperts{"moe.num_experts", "moe.top_k"};
  CHECK(hint_for_unknown("moe.num_experts_per_tok", kOfExperts) == "that is 'moe.top_k' here");
  CHECK(hint_for_unknown("num_local_experts", kOfExperts) == "that is 'moe.num_experts' here");
}
