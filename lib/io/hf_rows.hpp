#pragma once
// Hugging Face families that need no code: one row of key names and defaults each.
#include <span>
#include <string_view>

#include "io/hf_parts.hpp"

namespace meshplan::hf {

// A flag of the file, or what the family always is.
struct FlagRow {
  HfNames key = {};
  bool fallback = false;
};

struct ExpertRow {
  HfNames experts = {};  // empty: the family has none
  HfNames top_k{"num_experts_per_tok"};
  std::int64_t default_top_k = 0;
  HfNames ffn{"moe_intermediate_size"};
  HfNames shared_count = {};  // experts of the routed ones' width that every token passes
  HfNames shared_width = {};  // or their width together
  bool correction = false;
  HfNames first_dense = {};
  std::int64_t default_first_dense = 0;
  HfNames last = {};  // number of the last layer with experts; -1: of the model's last
  HfNames every = {};
};

struct FamilyRow {
  std::string_view model_type;
  CoreNames core = {};
  HfNames groups{"num_key_value_heads"};
  std::int64_t default_groups = 0;  // 0: as many as heads
  std::int64_t default_head_dim = 0;
  HfNames ffn{"intermediate_size"};
  HfNames context{"max_position_embeddings"};
  std::int64_t default_context = 4096;
  HfNames activation{"hidden_act"};
  const char* default_activation = "silu";
  bool gated = true;
  Norm norm = Norm::kRmsNorm;
  bool tied = false;
  FlagRow qkv_bias = {};
  FlagRow output_bias = {};
  FlagRow mlp_bias = {};
  FlagRow qk_norm = {};
  FlagRow parallel = {};
  bool shared_norm = false;  // of a parallel block
  FlagRow sandwich = {};
  HfNames rotary_share{"partial_rotary_factor"};
  double default_rotary_share = 1;
  HfNames rotary_dim = {};  // instead: elements of a head
  bool window = false;      // `sliding_window`, in every layer or where layer_types say
  ExpertRow moe = {};
  HfNames mtp{"num_nextn_predict_layers"};
};

[[nodiscard]] std::span<const FamilyRow> family_rows();
[[nodiscard]] ModelSpec read_row(HfFields& f, const FamilyRow& row);

}  // namespace meshplan::hf
