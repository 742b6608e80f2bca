// Options that Megatron-DeepSpeed (deepspeedai, and bigscience's fork of it) has beside those of
// Megatron-LM: megatron/arguments.py, deepspeed/__init__.py.
#include "launch/option_table.hpp"

namespace meshplan {
namespace {

constexpr OptionGroup kMegatronDeepspeed[] = {
    {OptionEffect::kModelled, "Megatron-DeepSpeed's own",
     R"(
topk expert-interval num-key-value-heads ds-sequence-parallel-size moe-expert-parallel-size
zero-stage no-pipeline-parallel/0 use-flash-attn-v1/0 use-flash-attn-v2/0
use-flash-attn-triton/0 use-flash-attn-builder/0 enable-zbh1-pipeline/0
deepspeed-activation-checkpointing/0 cpu-optimizer/0 deepspeed/0 deepspeed_config
pad-vocab-size-to embed-layernorm/0 glu-activation pp-partition-method n-head-kv
tokenizer-name-or-path
)"},
    {OptionEffect::kNotModelled, "it is estimated as without",
     R"(
mlp-type enable-zbh1-exact-semantics/0 random-ltd/0 force-ds-sequence-parallel/0
ds-sequence-parallel-fpdt/0 ds-sequence-parallel-fpdt-chunk-size
ds-sequence-parallel-fpdt-offloading/0 enable-expert-tensor-parallelism/0 use-tutel/0
num-experts-switch moe-train-capacity-factor moe-eval-capacity-factor moe-min-capacity
disable-moe-token-dropping/0 disable-moe-top2-2nd-expert-sampling/0 disable-mem-efficient-ln/0
remote-device partition-activations/0 contigious-checkpointing/0 checkpoint-in-cpu/0
synchronize-each-layer/0 profile-backward/0 scattered-embeddings/0 split-transformers/0
memory-centric-tiled-linear/0 tile-factor data-efficiency-curriculum-learning/0 ds-inference/0
inference/0 sync-tp-duplicated-parameters/0 cpu_torch_adam/0 ds_fused_adam/0
)"},
    {OptionEffect::kNoEffect, "it changes neither time nor memory here",
     R"(
rotary-position-embeddings-theta moe-loss-coeff create-moe-param-group/0 train-tokens
use-dataset-only zero-reduce-scatter/0 zero-contigious-gradients/0 zero-reduce-bucket-size
zero-allgather-bucket-size use-pin-memory/0 kill-switch-file kill-switch-path log-level
log-level-replica codecarbon-dir eval-only skip-train-iteration-range/+
abort-on-unmet-fused-kernel-constraints/0 norm-target-loss/0 reset-progress/0 no-train/0 mup/0 mup-attn-mult mup-input-mult mup-output-mult
mup-hidden-mult mup-embedding-mult deepscale/0 deepscale_config
)"},
    {OptionEffect::kNoEffect, "data, which is taken to be there in time",
     R"(
aml-data-download-path train-data-exact-num-epochs return-data-index/0 train-idx-path
train-desc-path train-doc-idx-path train-sample-idx-path train-shuffle-idx-path
repeated-dataloader/0 train-weighted-split-paths/* valid-weighted-split-paths/*
test-weighted-split-paths/* train-weighted-split-paths-path valid-weighted-split-paths-path
test-weighted-split-paths-path log-path valid-num-workers loss-on-targets-only/0
reweight-loss-based-on-position-frequency/0 noise-density mean-noise-span-length
)"},
};

}  // namespace

std::span<const OptionGroup> megatron_deepspeed_groups() { return kMegatronDeepspeed; }

}  // namespace meshplan
