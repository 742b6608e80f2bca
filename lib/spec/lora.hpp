#pragma once
// Low-rank adaptation (Hu et al. 2106.09685): beside a frozen weight of n x k a trained product of
// n x r and r x k. What is adapted, and how the frozen weights are stored.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"

namespace meshplan {

// Linear layers that adapters are put on, as Megatron-Bridge calls them (peft/lora.py), and the
// projections that PEFT adapts one by one where Megatron-Core has joined them.
enum class LoraTarget {
  kQkv,
  kProj,
  kFc1,
  kFc2,
  kQ,
  kK,
  kV,
  kGate,
  kUp,
  kQDown,
  kQUp,
  kKvDown,
  kKvUp,
  kIn,
  kOut
};
MESHPLAN_NAMES(LoraTarget, {{LoraTarget::kQkv, "linear_qkv"},
                            {LoraTarget::kProj, "linear_proj"},
                            {LoraTarget::kFc1, "linear_fc1"},
                            {LoraTarget::kFc2, "linear_fc2"},
                            {LoraTarget::kQ, "q_proj"},
                            {LoraTarget::kK, "k_proj"},
                            {LoraTarget::kV, "v_proj"},
                            {LoraTarget::kGate, "gate_proj"},
                            {LoraTarget::kUp, "up_proj"},
                            {LoraTarget::kQDown, "linear_q_down_proj"},
                            {LoraTarget::kQUp, "linear_q_up_proj"},
                            {LoraTarget::kKvDown, "linear_kv_down_proj"},
                            {LoraTarget::kKvUp, "linear_kv_up_proj"},
                            {LoraTarget::kIn, "in_proj"},
                            {LoraTarget::kOut, "out_proj"}});

class LoraTargets {
 public:
  constexpr LoraTargets() = default;
  constexpr LoraTargets(std::initializer_list<LoraTarget> targets) {
    for (const LoraTarget t : targets) insert(t);
  }
  [[nodiscard]] constexpr bool contains(LoraTarget t) const { return (bits_ & bit(t)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  constexpr void insert(LoraTarget t) { bits_ |= bit(t); }
  constexpr void insert(const LoraTargets& others) { bits_ |= others.bits_; }
  constexpr void erase(LoraTarget t) { bits_ &= ~bit(t); }
  [[nodiscard]] std::vector<LoraTarget> all() const;  // in the order of their names
  [[nodiscard]] friend constexpr LoraTargets operator&(LoraTargets a, const LoraTargets& b) {
    a.bits_ &= b.bits_;
    return a;
  }
  constexpr bool operator==(const LoraTargets&) const = default;

 private:
  static constexpr std::uint32_t bit(LoraTarget t) { return 1U << static_cast<unsigned>(t); }
  std::uint32_t bits_ = 0;
};

// Megatron-Bridge's default, which is every linear layer of a decoder without latent attention.
inline constexpr LoraTargets kDefaultLoraTargets{LoraTarget::kQkv, LoraTarget::kProj,
                                                 LoraTarget::kFc1, LoraTarget::kFc2};

// By any name that a training code uses: PEFT's o_proj and down_proj, torchtune's output_proj and
// w1 to w3, "all-linear" (every linear layer of the decoder, one by one). Empty: unknown.
[[nodiscard]] LoraTargets lora_targets(std::string_view name);
// Every name that lora_targets() knows.
[[nodiscard]] std::vector<std::string_view> lora_target_names();

// What PEFT calls the projection in models of the transformers library; empty for those that
// Megatron-Core has joined, which it adapts one by one.
[[nodiscard]] std::string_view peft_name(LoraTarget target);

// Of the frozen weights of linear layers in the decoder; embedding, norms and output layer stay in
// the training dtype.
enum class FrozenDtype { kTraining, kFp8, kNvfp4, kNf4, kInt8 };
MESHPLAN_NAMES(FrozenDtype, {{FrozenDtype::kTraining, "training"},
                             {FrozenDtype::kFp8, "fp8"},
                             {FrozenDtype::kNvfp4, "nvfp4"},
                             {FrozenDtype::kNf4, "nf4"},
                             {FrozenDtype::kInt8, "int8"}});

struct Lora {
  std::int64_t rank = 0;  // 0: all weights are trained
  double dropout = 0;     // of the adapters' input
  LoraTargets targets = kDefaultLoraTargets;
  // The output of a row-parallel layer's adapter goes from its columns to the sequence by one
  // all-to-all, else by a gather of all of it (Megatron-Bridge a2a_experimental).
  bool all_to_all = false;
  // The adapter of a column-parallel layer keeps its share of the sequence and gathers it once more
  // backward, else it keeps the gathered input (Megatron-Bridge sequence_parallel_input_regather).
  bool input_regather = false;
  FrozenDtype frozen_dtype = FrozenDtype::kTraining;

  bool operator==(const Lora&) const = default;
};

// [F-LORA-1] Bytes of a frozen weight, scales included: fp8 1; int8 1 (a scale per row); nvfp4 a
// half and a byte per 16; nf4 a half, a byte per 64 and four per 64 x 256 (double quantisation of
// QLoRA, 2305.14314 sec. 3).
[[nodiscard]] double frozen_bytes_each(FrozenDtype dtype, int training_bytes);

}  // namespace meshplan
