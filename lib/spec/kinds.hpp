#pragma once
// The closed sets of choices and their names: one table each, from which parsing, printing, help
// texts and lists of choices all follow. Pipeline schedules have theirs in schedule/schedule.hpp.
#include "base/names.hpp"
#include "schedule/schedule.hpp"

namespace meshplan {

enum class AttentionKind { kMha, kGqa, kMla };
enum class Activation { kGelu, kSilu, kRelu, kRelu2 };
enum class Norm { kLayerNorm, kRmsNorm };
enum class PositionEmbedding { kLearned, kRope, kAlibi, kNone };

enum class Precision { kFp32, kTf32, kFp16, kBf16, kFp8, kNvfp4 };
enum class Dtype { kFp32, kFp16, kBf16, kFp8 };

enum class LinkKind { kNvswitch, kNvlink, kXgmi, kPcie, kInfiniband, kRoce, kEfa, kEthernet };
enum class Architecture { kVolta, kAmpere, kAda, kHopper, kBlackwell, kCdna3, kCdna4 };

// What a row of a microbatch holds of documents that differ in length: one, padded to the longest
// of its microbatch; one, padded to seq_len; as many as fit, which do not see each other; the same,
// rows dealt out so that data-parallel ranks have like work.
enum class Packing { kNone, kPad, kPack, kBalanced };
// What updates the weights, and in how many bits it keeps its states: Adam; bitsandbytes' 8-bit
// Adam; both with states in unified memory (paged); Adafactor's factored second moments; SGD with
// momentum; Muon (momentum of matrices, orthogonalised; Adam for all else).
enum class Optimizer { kAdam, kAdam8bit, kPagedAdam, kPagedAdam8bit, kAdafactor, kSgd, kMuon };
// Of the next token, or of pairs of answers of which one is preferred (DPO, 2305.18290).
enum class Loss { kLm, kDpo };
enum class CpKind { kRing, kAllGather, kUlysses };
enum class Recompute { kNone, kSelective, kFull };
// Parts of a layer that selective recomputation may repeat (Megatron-Core transformer_config.py,
// recompute_modules).
enum class RecomputeModule {
  kCoreAttn,
  kMoeAct,
  kLayernorm,
  kMlaUpProj,
  kMlp,
  kMoe,
  kSharedExperts,
  kMhc
};
// Parts of a model that are not trained (Megatron-Bridge's freeze_vision_model,
// freeze_vision_projection and freeze_language_model).
enum class FrozenPart { kVisionModel, kVisionProjection, kLanguageModel };
// Over what an operand in 8 bits is scaled (Megatron-Core --fp8-recipe): a tensor, by the largest
// element of earlier steps or of its own; rows of 128 elements and blocks of 128 x 128; 32 elements
// (MXFP8). kBest is what the device's matrix units scale by themselves: 32 elements on Blackwell
// with Transformer Engine, a tensor by its own largest element elsewhere.
enum class ScalingRecipe { kBest, kDelayed, kTensorwise, kBlockwise, kMxfp8 };
// Which fused attention the training code calls; kBest is the fastest that the device has
// (FlashAttention-3 or cuDNN on Hopper, FlashAttention-2 before).
enum class AttentionKernel { kBest, kFlash2, kFlash1, kTriton };
// How layers are split over pipeline ranks unless `stage_layers` says: as even as can be, or so
// that every rank has its share of the matrix elements, output head included.
enum class StageSplit { kEven, kElements };
// What is captured as CUDA graphs, which the host replays in one call: every layer's forward and
// backward pass, or those of a whole iteration without the optimizer (Megatron-Core
// transformer_config.py, cuda_graph_impl).
enum class CudaGraph { kNone, kLayer, kFullIteration };
// Parts of a layer that graphs of layers capture (Megatron-Core transformer_config.py,
// cuda_graph_modules): the mixer, or a dense or mixture's feed-forward part, whole; a mixture up to
// its router with the shared experts, and the permutation before the dispatch.
enum class CudaGraphModule { kAttn, kMamba, kMlp, kMoe, kMoeRouter, kMoePreprocess };
// Parts of a layer whose saved inputs go to the host (Megatron-Core transformer_config.py,
// fine_grained_activation_offloading, offload_modules).
enum class OffloadModule {
  kAttnNorm,
  kQkvLinear,
  kCoreAttn,
  kAttnProj,
  kMlpNorm,
  kExpertFc1,
  kMoeAct
};
enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kSendRecv };

// The parallel dimensions a rank order lists.
enum class Axis { kTp, kCp, kEp, kDp, kPp };

MESHPLAN_NAMES(Optimizer, {{Optimizer::kAdam, "adam"},
                           {Optimizer::kAdam8bit, "adam8bit"},
                           {Optimizer::kPagedAdam, "paged_adam"},
                           {Optimizer::kPagedAdam8bit, "paged_adam8bit"},
                           {Optimizer::kAdafactor, "adafactor"},
                           {Optimizer::kSgd, "sgd"},
                           {Optimizer::kMuon, "muon"}});
MESHPLAN_NAMES(Loss, {{Loss::kLm, "lm"}, {Loss::kDpo, "dpo"}});
MESHPLAN_NAMES(Packing, {{Packing::kNone, "none"},
                         {Packing::kPad, "pad"},
                         {Packing::kPack, "pack"},
                         {Packing::kBalanced, "balanced"}});
MESHPLAN_NAMES(AttentionKind, {{AttentionKind::kMha, "mha"},
                               {AttentionKind::kGqa, "gqa"},
                               {AttentionKind::kMla, "mla"}});
MESHPLAN_NAMES(Activation, {{Activation::kGelu, "gelu"},
                            {Activation::kSilu, "silu"},
                            {Activation::kRelu, "relu"},
                            {Activation::kRelu2, "relu2"}});
MESHPLAN_NAMES(Norm, {{Norm::kLayerNorm, "layernorm"}, {Norm::kRmsNorm, "rmsnorm"}});
MESHPLAN_NAMES(PositionEmbedding, {{PositionEmbedding::kLearned, "learned"},
                                   {PositionEmbedding::kRope, "rope"},
                                   {PositionEmbedding::kAlibi, "alibi"},
                                   {PositionEmbedding::kNone, "none"}});
MESHPLAN_NAMES(Precision, {{Precision::kFp32, "fp32"},
                           {Precision::kTf32, "tf32"},
                           {Precision::kFp16, "fp16"},
                           {Precision::kBf16, "bf16"},
                           {Precision::kFp8, "fp8"},
                           {Precision::kNvfp4, "nvfp4"}});
MESHPLAN_NAMES(Dtype, {{Dtype::kFp32, "fp32"},
                       {Dtype::kFp16, "fp16"},
                       {Dtype::kBf16, "bf16"},
                       {Dtype::kFp8, "fp8"}});
MESHPLAN_NAMES(LinkKind, {{LinkKind::kNvswitch, "nvswitch"},
                          {LinkKind::kNvlink, "nvlink"},
                          {LinkKind::kXgmi, "xgmi"},
                          {LinkKind::kPcie, "pcie"},
                          {LinkKind::kInfiniband, "infiniband"},
                          {LinkKind::kRoce, "roce"},
                          {LinkKind::kEfa, "efa"},
                          {LinkKind::kEthernet, "ethernet"}});
MESHPLAN_NAMES(Architecture, {{Architecture::kVolta, "volta"},
                              {Architecture::kAmpere, "ampere"},
                              {Architecture::kAda, "ada"},
                              {Architecture::kHopper, "hopper"},
                              {Architecture::kBlackwell, "blackwell"},
                              {Architecture::kCdna3, "cdna3"},
                              {Architecture::kCdna4, "cdna4"}});
[[nodiscard]] constexpr bool is_amd(Architecture a) {
  return a == Architecture::kCdna3 || a == Architecture::kCdna4;
}
[[nodiscard]] constexpr bool is_before_hopper(Architecture a) { return a < Architecture::kHopper; }
MESHPLAN_NAMES(CpKind, {{CpKind::kRing, "ring"},
                        {CpKind::kAllGather, "allgather"},
                        {CpKind::kUlysses, "ulysses"}});
MESHPLAN_NAMES(Recompute, {{Recompute::kNone, "none"},
                           {Recompute::kSelective, "selective"},
                           {Recompute::kFull, "full"}});
MESHPLAN_NAMES(FrozenPart, {{FrozenPart::kVisionModel, "vision_model"},
                            {FrozenPart::kVisionProjection, "vision_projection"},
                            {FrozenPart::kLanguageModel, "language_model"}});
MESHPLAN_NAMES(RecomputeModule, {{RecomputeModule::kCoreAttn, "core_attn"},
                                 {RecomputeModule::kMoeAct, "moe_act"},
                                 {RecomputeModule::kLayernorm, "layernorm"},
                                 {RecomputeModule::kMlaUpProj, "mla_up_proj"},
                                 {RecomputeModule::kMlp, "mlp"},
                                 {RecomputeModule::kMoe, "moe"},
                                 {RecomputeModule::kSharedExperts, "shared_experts"},
                                 {RecomputeModule::kMhc, "mhc"}});
MESHPLAN_NAMES(OffloadModule, {{OffloadModule::kAttnNorm, "attn_norm"},
                               {OffloadModule::kQkvLinear, "qkv_linear"},
                               {OffloadModule::kCoreAttn, "core_attn"},
                               {OffloadModule::kAttnProj, "attn_proj"},
                               {OffloadModule::kMlpNorm, "mlp_norm"},
                               {OffloadModule::kExpertFc1, "expert_fc1"},
                               {OffloadModule::kMoeAct, "moe_act"}});
MESHPLAN_NAMES(CudaGraphModule, {{CudaGraphModule::kAttn, "attn"},
                                 {CudaGraphModule::kMamba, "mamba"},
                                 {CudaGraphModule::kMlp, "mlp"},
                                 {CudaGraphModule::kMoe, "moe"},
                                 {CudaGraphModule::kMoeRouter, "moe_router"},
                                 {CudaGraphModule::kMoePreprocess, "moe_preprocess"}});
MESHPLAN_NAMES(ScalingRecipe, {{ScalingRecipe::kBest, "best"},
                               {ScalingRecipe::kDelayed, "delayed"},
                               {ScalingRecipe::kTensorwise, "tensorwise"},
                               {ScalingRecipe::kBlockwise, "blockwise"},
                               {ScalingRecipe::kMxfp8, "mxfp8"}});
MESHPLAN_NAMES(AttentionKernel, {{AttentionKernel::kBest, "best"},
                                 {AttentionKernel::kFlash2, "flash2"},
                                 {AttentionKernel::kFlash1, "flash1"},
                                 {AttentionKernel::kTriton, "triton"}});
MESHPLAN_NAMES(CudaGraph, {{CudaGraph::kNone, "none"},
                           {CudaGraph::kLayer, "layer"},
                           {CudaGraph::kFullIteration, "full_iteration"}});
MESHPLAN_NAMES(StageSplit, {{StageSplit::kEven, "even"}, {StageSplit::kElements, "elements"}});
MESHPLAN_NAMES(Collective, {{Collective::kAllReduce, "all-reduce"},
                            {Collective::kAllGather, "all-gather"},
                            {Collective::kReduceScatter, "reduce-scatter"},
                            {Collective::kAllToAll, "all-to-all"},
                            {Collective::kBroadcast, "broadcast"},
                            {Collective::kSendRecv, "send-recv"}});
MESHPLAN_NAMES(Axis, {{Axis::kTp, "tp"},
                      {Axis::kCp, "cp"},
                      {Axis::kEp, "ep"},
                      {Axis::kDp, "dp"},
                      {Axis::kPp, "pp"}});

[[nodiscard]] constexpr int size_of(Dtype d) {
  switch (d) {
    case Dtype::kFp32:
      return 4;
    case Dtype::kFp16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kFp8:
      return 1;
  }
  return 4;
}

// Whether the products of layers are in 8 or 4 bits and all else in bf16 (Transformer Engine).
[[nodiscard]] constexpr bool is_quantised(Precision p) {
  return p == Precision::kFp8 || p == Precision::kNvfp4;
}

// Bytes of an activation or a weight outside the matrix products.
[[nodiscard]] constexpr int storage_size(Precision p) {
  return p == Precision::kFp32 || p == Precision::kTf32 ? 4 : 2;
}

}  // namespace meshplan
