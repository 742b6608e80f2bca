// Arguments that AMD Primus has beside those of Megatron-LM:
// primus/configs/modules/megatron/*.yaml,
// primus/configs/models/megatron/primus_megatron_model.yaml.
#include "launch/option_table.hpp"

namespace meshplan {
namespace {

constexpr OptionGroup kPrimus[] = {
    {OptionEffect::kModelled, "AMD Primus's own: kernels and dispatch of Primus-Turbo",
     R"(
enable-primus-turbo/0 use-turbo-attention/0 use-turbo-grouped-gemm/0 use-turbo-deepep/0
)"},
    {OptionEffect::kNotModelled, "it is estimated as without",
     R"(
use-turbo-gemm/0 use-turbo-parallel-linear/0 use-turbo-row-parallel-linear/0
use-turbo-column-parallel-linear/0 use-turbo-fused-act-with-probs/0 use-turbo-rms-norm/0
use-turbo-norm-te-linear/0 use-turbo-mega-moe/0 turbo-mega-moe-precision use-turbo-autotune/0
turbo-sync-free-moe-stage=0 moe-use-fused-router-with-aux-score/0
turbo-grouped-gemm-without-padding/0 enable-turbo-attention-float8/0 patch-moe-overlap/0
use-deprecated-20241209-moe-layer/0 use-turbo-grouped-mlp/0 no-fp8-weight-transpose-cache/0
final-logit-softcapping attn-logit-softcapping router-logit-softcapping use-sink-attention/0
sink-sliding-window enable-odc/0 enable-odc-lb-mini/0 enable-packed-sequences/0
use-packed-attention/0 use-turbo-permute-padding/0 odc-phase odc-p2p-backend lb-mini-cost-model
lb-mini-max-token-len weight-deosc/0 fla-mla-attn empty-cache-interval odc-rocshmem-gda/0
use-fla-fused-swiglu/0 use-fla-fused-rmsnorm/0 use-fla-fused-gated-norm/0 use-fla-short-conv/0
fused-ce-mode fused-ce-chunks
)"},
    {OptionEffect::kNoEffect, "logging, checkpoints, balance of experts and tuning",
     R"(
stderr-sink-level disable-wandb/0 disable-tensorboard/0 disable-mlflow/0 mlflow-run-name
mlflow-experiment-name log-avg-skip-iterations log-avg-reset-interval auto-continue-train/0
disable-last-saving/0 use-rocm-mem-info/0 use-rocm-mem-info-iters/* pp-warmup/0 dump-pp-data/0
moe-router-force-load-balancing/0 moe-router-force-load-balancing-type
disable-primus-topk-router/0 turbo-deepep-num-cu turbo-deepep-use-comm-stream/0
turbo-gemm-backend turbo-grouped-gemm-backend disable-profiler-activity-cpu/0
torch-profiler-record-shapes/0 torch-profiler-with-stack/0 torch-profiler-use-gzip/0
disable-compile-dependencies/0 dataloader-mp-context use-fla-data/0 fla-cache-dir
sink-window-even-layers-only/0 original-max-position-embeddings disable-delayed-scaling-patches/0
hf-path stage sft-dataset-name sft-conversation-format sft-bridge-compat-inline-bos/0
mmap-bin-files/0 log-learning-rate-to-tensorboard/0 create-attention-mask-in-dataloader/0
log-loss-scale-to-tensorboard/0 sft-sanitize-nan-grads/0 use-short-conv/0
)"},
};

}  // namespace

std::span<const OptionGroup> primus_groups() { return kPrimus; }

}  // namespace meshplan
