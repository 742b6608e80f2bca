// Options of Megatron-LM that change neither time nor memory of a training step, of the same files
// as options_megatron.cpp.
#include "launch/option_table.hpp"

namespace meshplan {
namespace {

constexpr OptionGroup kBeside[] = {
    {OptionEffect::kNoEffect, "what kernels compute, at the same cost",
     R"(
openai-gelu/0 rope-type=rope|yarn activation-func-clamp-value glu-linear-offset qk-l2-norm/0
norm-epsilon layernorm-epsilon apply-layernorm-1p/0 rotary-base 
rotary-interleaved/0 rotary-seq-len-interpolation-factor use-rope-scaling/0 rope-scaling-factor
rotary-scaling-factor mscale mscale-all-dim yarn-original-max-position-embeddings yarn-beta-fast
yarn-beta-slow yarn-correction-range-round-to-int/0 no-yarn-correction-range-round-to-int/0
no-rope-freq mrope-section/+ apply-residual-connection-post-layernorm/0
disable-bf16-reduced-precision-matmul/0 mtp-loss-scaling-factor use-mup/0 mup-width-mult
mup-base-hidden-size mup-embedding-mult mup-output-mult mup-base-head-dim mup-attn-scale-power
disable-jit-fuser/0 scaled-upper-triang-masked-softmax-fusion/0 scaled-masked-softmax-fusion/0
bias-gelu-fusion/0 bias-dropout-fusion/0 fp8-margin fp8-interval fp8-amax-history-len
fp8-amax-compute-algo cache-mla-latents/0 onnx-safe
)"},
    {OptionEffect::kNoEffect, "which expert a token goes to, at the same cost",
     R"(
moe-router-load-balancing-type/+ moe-aux-loss-coeff/+ moe-z-loss-coeff moe-input-jitter-eps
moe-router-pre-softmax/0
moe-router-topk-scaling-factor moe-router-score-function moe-router-dtype
moe-router-bias-update-rate moe-router-quantile-balancing-ema
moe-router-force-biased moe-router-padding-for-quantization/0 moe-router-padding-for-fp8/0
moe-enable-routing-replay/0 moe-apply-probs-on-input/0 moe-use-upcycling/0
moe-upcycling-granularity moe-router-topk-limited-devices moe-per-layer-logging/0
moe-shared-expert-glu-interleave-size moe-single-grouped-weight/0
moe-single-grouped-bias/0 moe-use-grouped-tensor/0 moe-pad-experts-for-cuda-graph-inference/0
moe-hybridep-pad-uneven-dispatch-inputs/0
)"},
    {OptionEffect::kNoEffect, "set up once, or left to the device",
     R"(
moe-flex-dispatcher-num-sms moe-deepep-num-sms moe-hybridep-num-sms
moe-hybridep-num-blocks-permute moe-hybridep-num-blocks-unpermute
moe-hybridep-num-sms-preprocessing moe-ncclep-zero-copy/0 pipeline-model-parallel-comm-backend
tp-comm-bootstrap-backend tp-comm-overlap-cfg use-ring-exchange-p2p/0 symmetric-ar-type
no-initialization/0 use-cpu-initialization/0 init-model-with-meta-device/0 init-method-std
embedding-init-method-std mhc-init-gating-factor init-method-xavier-uniform/0 no-clone-scatter-output-in-embedding/0
disable-clone-scatter-output-in-embedding/0 config-logger-dir use-mcore-models/0
no-gradient-reduce-div-fusion/0 ddp-num-buckets ddp-bucket-size
ddp-pad-buckets-for-high-nccl-busbw/0 ddp-average-in-collective/0
ddp-reduce-scatter-with-fp32-accumulation/0
ddp-param-name-patterns-for-fp32-local-accumulation/+ no-align-param-gather/0
align-param-gather/0 megatron-fsdp-version use-nccl-ub/0 disable-symmetric-registration/0
fsdp-manual-registration/0 create-all-gather-group/0 suggested-communication-unit-size
fake-process-group/0 enable-experimental/0 manual-gc/0 manual-gc-interval no-manual-gc-eval/0
disable-manual-gc-eval/0 train-sync-interval train-iters train-samples iterations-to-skip/+
dump-param-to-param-group-map debug/0 local_rank initialize-socket-comms/0
)"},
    // The norms of gradients that it looks at are those of the check for NaN
    // (core/distributed/param_and_grad_buffer.py, check_grads).
    {OptionEffect::kNoEffect, "one more look at norms that are taken anyway",
     R"(
check-for-large-grads/0
)"},
    {OptionEffect::kNoEffect, "comparison of weights, between steps",
     R"(
check-weight-hash-across-dp-replicas-interval
)"},
    {OptionEffect::kNoEffect, "scaling of the loss",
     R"(
loss-scale initial-loss-scale min-loss-scale min-scale loss-scale-window hysteresis
fp32-allreduce/0
)"},
    {OptionEffect::kNoEffect, "processes and their groups, set up once",
     R"(
distributed-backend distributed-timeout-minutes no-align-grad-reduce/0
disable-align-grad-reduce/0 local-rank lazy-mpu-init/0 nccl-communicator-config-path
disable-gloo-process-groups/0 use-sharp/0 sharp-enabled-group high-priority-stream-groups/+
distributed-timeout-seconds-after-init flight-recorder-dump-path
flight-recorder-trace-buffer-size no-flight-recorder-dump-on-timeout/0
disable-flight-recorder-dump-on-timeout/0 flight-recorder-include-stack-trace/0
no-flight-recorder-include-only-active/0 disable-flight-recorder-include-only-active/0
no-flight-recorder-extra-dump-on-exec/0 disable-flight-recorder-extra-dump-on-exec/0
)"},
    {OptionEffect::kNoEffect, "the end of the run",
     R"(
exit-interval exit-duration-in-mins exit-signal-handler/0 exit-signal
exit-signal-handler-for-dataloader/0 exit-signal-handler-for-training/0
result-rejected-tracker-filename
)"},
    {OptionEffect::kNoEffect, "learning rate and regularisation",
     R"(
lr-decay-style lr-wsd-decay-style lr-decay-iters lr-decay-samples lr-wsd-decay-iters
lr-wsd-decay-samples lr-warmup-fraction lr-warmup-iters lr-warmup-samples lr-warmup-init
lr-decay-steps lr-warmup-steps override-opt_param-scheduler/0 override-opt-param-scheduler/0
use-checkpoint-opt_param-scheduler/0 use-checkpoint-opt-param-scheduler/0 start-weight-decay
end-weight-decay weight-decay-incr-style wd-incr-steps wsd-decay-steps weight-decay
muon-momentum muon-nesterov/0 muon-use-nesterov/0 muon-scale-mode muon-extra-scale-factor
muon-coefficient-type lion-beta1 lion-beta2 sgd-momentum
apply-wd-to-qk-layernorm/0 clip-grad adam-beta1 adam-beta2 adam-eps no-weight-decay-cond-type lr
warmup min-lr decoupled-lr decoupled-min-lr override-lr-scheduler/0
use-checkpoint-lr-scheduler/0 lr-decay-tokens lr-warmup-tokens
)"},
    {OptionEffect::kNoEffect, "what is logged and profiled",
     R"(
log-straggler/0 straggler-ctrlr-port straggler-minmax-count disable-straggler-on-startup/0
log-throughput/0 log-progress/0 timing-log-level
timing-log-option tensorboard-dir tensorboard-log-interval tensorboard-queue-size
log-timers-to-tensorboard/0 no-log-loss-scale-to-tensorboard/0
disable-log-loss-scale-to-tensorboard/0 log-validation-ppl-to-tensorboard/0
log-memory-to-tensorboard/0 log-memory-interval log-device-memory-used/0
log-max-attention-logit/0 no-barrier-with-level-1-timing/0 log-world-size-to-tensorboard/0
wandb-project wandb-exp-name wandb-save-dir wandb-entity logging-level log-energy/0
moe-routing-trace-path moe-routing-trace-max-training-iters moe-routing-trace-capture-logits/0
moe-routing-trace-capture-hidden-states/0 moe-routing-trace-dump-weights/0 profile/0
profile-step-start profile-step-end use-pytorch-profiler/0 pytorch-profiler-collect-shapes/0
pytorch-profiler-collect-callstack/0 pytorch-profiler-collect-chakra/0 profile-ranks/+
record-memory-history/0 memory-snapshot-path record-shapes/0 nvtx-ranges/0
run-workload-inspector-server/0 no-one-logger/0 one-logger-project one-logger-run-name
one-logger-async/0 app-tag-run-name app-tag-run-version otel-enabled/0 otel-service-name
otel-span-groups log-batch-size-to-tensorboard/0 no-log-learnig-rate-to-tensorboard/0
enable-one-logger/0 one-logger-entity log-optimizer-states-to-tensorboard/0 profile_steps
)"},
    {OptionEffect::kNoEffect, "checkpoints",
     R"(
save save-interval persistent-save-interval save-params-interval save-activations-interval
save-tokens-per-expert-interval save-wgrads-interval save-dgrads-interval save-retain-interval
load load-main-params-from-ckpt/0 non-persistent-save-interval non-persistent-ckpt-type
non-persistent-global-ckpt-dir non-persistent-local-ckpt-dir non-persistent-local-ckpt-algo
finetune/0 pretrained-checkpoint ckpt-step no-use-tokenizer-model-from-checkpoint-args/0
disable-use-tokenizer-model-from-checkpoint-args/0 exit-on-missing-checkpoint/0 ckpt-format
auto-detect-ckpt-format/0 ckpt-convert-format ckpt-convert-save
ckpt-convert-update-legacy-dist-opt-format/0 no-ckpt-fully-parallel-save/0 async-save/0
async-strategy use-persistent-ckpt-worker/0 async-ckpt-cpu-priority async-ckpt-io-priority
async-ckpt-use-cpu-shm/0 ckpt-fully-parallel-load/0 ckpt-fully-parallel-load-exchange-algo
ckpt-fully-parallel-load-per-rank-objects/0 ckpt-fully-parallel-save-process-group
ckpt-fully-parallel-load-process-group ckpt-assume-constant-structure/0
ckpt-pg-tensors-cache-path ckpt-pg-tensors-cache-create/0
no-ckpt-load-validate-sharding-integrity/0 disable-ckpt-load-validate-sharding-integrity/0
no-strict-fsdp-dtensor-load/0 disable-strict-fsdp-dtensor-load/0 dist-ckpt-strictness
dist-ckpt-save-pre-mcore-014/0 dist-ckpt-optim-fully-reshardable/0
distrib-optim-fully-reshardable-mem-efficient/0 no-save-tokenizer-assets/0
disable-save-tokenizer-assets/0 replication/0 replication-jump replication-factor
verify-integrity/0 no-save-optim/0 no-save-rng/0 no-load-optim/0 no-load-rng/0
override-ckpt-iteration use-dist-ckpt/0 dist-ckpt-format dist-ckpt-workers
ckpt-fully-parallel-save/0 ckpt-drop-redundant-extra-state/0 enable-msc/0 disable-msc/0
load-model-opt-format/0 load-tag no-load-lr-state/0 universal-checkpoint/0
)"},
    {OptionEffect::kNoEffect, "recovery from failures",
     R"(
error-injection-rate error-injection-type rerun-mode check-for-spiky-loss/0 fault-injector-ranks
fault-injector-num-ranks fault-injector-fault-types fault-injector-fault-probabilities
fault-injector-fault-delay fault-injector-delay-start-iteration fault-injector-mtti-seconds
fault-injector-offset-seconds fault-injector-seed inprocess-restart/0 inprocess-max-iterations
inprocess-monitor-thread-interval inprocess-monitor-process-interval
inprocess-progress-watchdog-interval inprocess-heartbeat-interval inprocess-soft-timeout
inprocess-hard-timeout inprocess-heartbeat-timeout inprocess-barrier-timeout
inprocess-completion-timeout inprocess-last-call-wait inprocess-termination-grace-time
inprocess-granularity inprocess-active-world-size inprocess-empty-cuda-cache/0
enable-ft-package/0 calc-ft-timeouts/0 ft-num-warmup-iters adlr-autoresume/0
adlr-autoresume-interval
)"},
    {OptionEffect::kNoEffect, "validation, between the steps",
     R"(
eval-iters eval-interval start-eval-at-iter eval-global-batch-size eval-micro-batch-size
skip-train/0 test-mode/0 full-validation/0 multiple-validation-sets/0 validation-set-names/+
eval-batch-size eval-seq-length eval-max-preds-per-seq overlapping-eval cloze-eval/0
strict-lambada/0 eval-hf/0 load-openai/0
)"},
    {OptionEffect::kNoEffect, "data, which is taken to be there in time",
     R"(
dataloader-type dataloader_type data-path/* phase-transition-iterations split train-data-path/*
valid-data-path/* test-data-path/* data-args-path per-split-data-args-path
per-dataset-sequences-path dataloader-fast-cache-load/0 dataloader-defer-npy-index-mmap/0
data-cache-path no-mmap-bin-files/0 mock-data/0 sample-rate mask-prob short-seq-prob num-workers
eod-mask-loss/0 num-dataset-builder-threads object-storage-cache-path mid-level-dataset-surplus
allow-ambiguous-pad-tokens/0 fim-data/0 fim-rate fim-spm-rate fim-split-sample fim-fragment-rate
fim-no-prefix fim-prefix-token fim-middle-token fim-suffix-token fim-pad-token fim-eod-token
retriever-seq-length s3-cache-path renormalize-blend-weights/0 mmap-warmup/0 data-impl
hash-data-path data-loader train-data/+ valid-data/* test-data/* input-data-sizes-file
)"},
    {OptionEffect::kNoEffect, "the tokenizer's files",
     R"(
merge-file vocab-extra-ids tokenizer-metadata tokenizer-special-tokens/+ tiktoken-pattern
tiktoken-num-special-tokens tokenizer-sentencepiece-legacy/0
no-tokenizer-sentencepiece-ignore-extra-whitespaces/0
disable-tokenizer-sentencepiece-ignore-extra-whitespaces/0 tokenizer-hf-no-use-fast/0
tokenizer-hf-no-include-special-tokens/0 trust-remote-code/0 null-tokenizer-eod-id
null-tokenizer-pad-id chat-template use-gigatoken/0 tiktoken-special-tokens/+
tokenizer-hf-use-fast/0 tokenizer-hf-include-special-tokens/0 legacy-tokenizer/0
)"},
    {OptionEffect::kNoEffect, "random numbers",
     R"(
seed te-rng-tracker/0 inference-rng-tracker/0 data-parallel-random-init/0
)"},
    {OptionEffect::kNoEffect, "inference, not training",
     R"(
flash-decode/0 nccl-all-reduce-for-prefill/0 inference-fuse-tp-communication/0
inference-disable-triton-nvls-kernels/0 inference-grouped-gemm-backend
inference-moe-disable-fused-quant-kernels/0 inference-moe-token-dispatcher-type
inference-cuda-graph-scope mlp-chunks-for-prefill inference-batch-times-seqlen-threshold
max-tokens-to-oom output-bert-embeddings/0 bert-embedder-type use-legacy-static-engine/0
inference-max-requests inference-max-seq-length inference-dynamic-batching/0
inference-dynamic-batching-buffer-size-gb inference-dynamic-batching-paused-buffer-size-gb
inference-dynamic-batching-mamba-memory-ratio inference-dynamic-batching-block-size
inference-dynamic-batching-max-requests inference-dynamic-batching-max-tokens
inference-dynamic-batching-num-cuda-graphs
inference-dynamic-batching-track-paused-request-events/0
inference-dynamic-batching-track-generated-token-events/0 decode-only-cuda-graphs/0
inference-cuda-graph-all-prefills/0 inference-cuda-graph-max-tokens
inference-dynamic-batching-unified-memory-level enable-chunked-prefill/0 num-speculative-tokens
inference-dynamic-batching-prefix-caching/0
inference-dynamic-batching-prefix-caching-eviction-policy
inference-dynamic-batching-prefix-caching-coordinator-policy
inference-dynamic-batching-prefix-caching-routing-alpha
inference-dynamic-batching-prefix-caching-mamba-gb
inference-dynamic-batching-cuda-graph-mixed-prefill-count
inference-dynamic-batching-cuda-graph-sizing-distribution
inference-dynamic-batching-sampling-backend use-same-sampling-seed-across-dp-ranks/0
inference-dynamic-batching-async-sched-mode inference-dynamic-batching-logprobs-mode
inference-logging-step-interval inference-text-gen-server-logging/0 inference-wandb-logging/0
inference-coordinator-port mamba-inference-conv-states-dtype mamba-inference-ssm-states-dtype
inference-use-synchronous-zmq-collectives/0 inference-disable-ep-consensus/0 inference-shards
inference-dynamic-batching-cuda-graph-max-tokens
inference-dynamic-batching-mamba-triton-conv1d/0 inference-flask-server-logging/0
inference-max-batch-size disable-chunked-prefill/0 inference-wandb-logging-step-interval
inference-dynamic-batching-active-buffer-size-gb
inference-dynamic-batching-buffer-guaranteed-fraction
inference-dynamic-batching-buffer-overflow-factor
inference-dynamic-batching-max-requests-override inference-dynamic-batching-max-tokens-override
inference-dynamic-batching-chunk-size temperature greedy/0 top_p top_k out-seq-length
sample-input-file sample-output-file num-samples genfile recompute/0
)"},
    {OptionEffect::kNoEffect, "other models of the same program",
     R"(
bert-no-binary-head/0
)"},
};

}  // namespace

std::span<const OptionGroup> megatron_groups_beside() { return kBeside; }

}  // namespace meshplan
