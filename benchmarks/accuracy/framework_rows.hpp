#pragma once
// Which training code a source ran, and what of it the rows do not say.
#include <string_view>

#include "published.hpp"
#include "spec/kinds.hpp"

namespace meshplan::accuracy {

// Releases, as years and months; 0: none.
struct Releases {
  int from = 0, to = 0;
};

// Training code by words of a file's name, title and repository; the first row that occurs wins.
struct FrameworkRow {
  std::string_view word;
  std::string_view framework;             // a preset's name
  bool norm_fused_where_stated = false;   // a fused norm is a column of the table
  bool low_precision_gradients = false;   // reduced and kept in the training dtype
  bool gathered_logits = false;           // loss of all logits on every tensor rank
  bool whole_fp32_reduction = false;      // ZeRO-1 all-reduces gradients, in fp32
  bool inplace_cross_entropy = false;     // Transformer Engine's loss
  bool states_as_weights = false;         // no fp32 copy of weights, gradients or moments
  bool compiles_loss = false;             // torch.compile takes the loss with the layers
  CpKind cp_kind = CpKind::kRing;         // where the row does not say
  bool bf16_cross_entropy = false;        // PyTorch's loss of 16-bit logits
  bool eager_router = false;              // without --moe-router-fusion
  bool exchanges_adapters = false;        // adapters' outputs go by all-to-all (LORA_A2A)
  bool megatron_experts = false;          // Megatron-Core's permutation and weighted activation
  bool sharded_pipeline = false;          // FSDP2 under PyTorch's pipeline schedules
  bool flat_parameters = false;           // PyTorch's FullyShardedDataParallel, not fully_shard
  bool shifted_logits = false;            // Transformers before 4.50
  bool hugging_face_trainer = false;      // weights as they were loaded, PyTorch's foreach Adam
  bool single_device_connection = false;  // CUDA_DEVICE_MAX_CONNECTIONS=1
  ScalingRecipe fp8_recipe = ScalingRecipe::kBest;  // where the row does not say
  Releases cudnn_off{};                             // that keep cuDNN's attention off
};

// Nothing where no word of the table occurs: a code of Megatron's.
[[nodiscard]] const FrameworkRow* framework_row(const Source& source);

}  // namespace meshplan::accuracy
