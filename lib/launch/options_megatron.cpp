// Options of Megatron-LM that say what is trained and how: those that
// megatron/training/arguments.py and the configuration classes beside it have in August 2026, and
// those that earlier releases had; their choices likewise (core/transformer/
// transformer_config.py and enums.py, core/model_parallel_config.py), with Megatron-DeepSpeed's and
// Pai-Megatron-Patch's.
#include "launch/option_table.hpp"
namespace meshplan {
namespace {
constexpr OptionGroup kMegatron[] = {
    {OptionEffect::kModelled, "adapters of Megatron-Bridge",
     R"(
peft.dim peft.dropout peft.target_modules peft.a2a_experimental/0
peft.sequence_parallel_input_regather/0
)"},
    {OptionEffect::kModelled, "what is in 8 bits and Megatron-LM's arguments leave out",
     R"(
fp8-dot-product-attention/0 activation-func-fp8-input-store/0
)"},
    {OptionEffect::kModelled, "results that do not differ from run to run, or by batch",
     R"(
deterministic-mode/0 calculate-per-token-loss/0
)"},
    {OptionEffect::kModelled, "losses and gradients that are no numbers",
     R"(
no-check-for-nan-in-loss-and-grad/0
)"},
    {OptionEffect::kModelled, "what the data loader makes",
     R"(
no-create-attention-mask-in-dataloader/0
)"},
    {OptionEffect::kModelled, "what the host logs each step",
     R"(
log-interval log-params-norm/0 log-num-zeros-in-grad/0
)"},
    {OptionEffect::kModelled, "what the optimizer holds",
     R"(
use-precision-aware-optimizer/0 no-store-param-remainders/0
optimizer=adam|sgd|muon|dist_muon|lion|soap|adaptive_muon no-use-layer-wise-param-layout/0
)"},
    {OptionEffect::kModelled, "layers and widths",
     R"(
num-layers hidden-size num-attention-heads kv-channels ffn-hidden-size group-query-attention/0
num-query-groups multi-latent-attention/0 q-lora-rank kv-lora-rank qk-head-dim
qk-pos-emb-head-dim v-head-dim window-size window-attn-skip-freq encoder-num-layers
mtp-num-layers
)"},
    {OptionEffect::kModelled, "what layers are made of",
     R"(
swiglu/0 quick-geglu/0 squared-relu/0 normalization=LayerNorm|RMSNorm|layernorm|rmsnorm
qk-layernorm/0
position-embedding-type=learned_absolute|rope|yarn|mrope|relative|none|alibi|learned_parameters
use-rotary-position-embeddings/0 no-position-embedding/0 disable-bias-linear/0 add-qkv-bias/0
hidden-dropout attention-dropout softmax-type=vanilla|off-by-one|learnable multi-query-attention/0
)"},
    {OptionEffect::kModelled, "layers that differ",
     R"(
is-hybrid-model/0 hybrid-layer-pattern hybrid-override-pattern mtp-hybrid-override-pattern
experimental-attention-variant linear-attention-type linear-attention-freq
linear-conv-kernel-dim linear-key-head-dim linear-value-head-dim linear-num-key-heads
linear-num-value-heads mamba-state-dim mamba-head-dim mamba-num-groups mamba-num-heads
attention-output-gate/0 moe-latent-size mtp-use-repeated-layer/0 rotary-percent
enable-mhc-connections/0 enable-hyper-connections/0 mhc-num-residual-streams num-residual-streams
mhc-sinkhorn-iterations mhc-recompute-layer-num use-fused-mhc/0
)"},
    {OptionEffect::kModelled, "vocabulary",
     R"(
vocab-size padded-vocab-size make-vocab-size-divisible-by tokenizer-type tokenizer-model
untie-embeddings-and-output-weights/0 vocab-file no-pad-vocab-size/0 disable-pad-vocab-size/0
)"},
    {OptionEffect::kModelled, "experts",
     R"(
num-experts moe-router-topk moe-router-num-groups moe-router-group-topk
moe-ffn-hidden-size moe-shared-expert-intermediate-size
moe-layer-freq moe-router-enable-expert-bias/0 moe-router-force-load-balancing/0
moe-expert-capacity-factor moe-pad-expert-input-to-capacity/0 moe-shared-expert-overlap/0
moe-token-dispatcher-type=allgather|alltoall|alltoall_seq|flex moe-enable-deepep/0
moe-flex-dispatcher-backend=deepep|hybridep|ncclep moe-grouped-gemm/0
overlap-moe-expert-parallel-comm/0 delay-wgrad-compute/0
use-transformer-engine-op-fuser/0 moe-mlp-glu-interleave-size use-fused-weighted-squared-relu/0
)"},
    {OptionEffect::kModelled, "how the work is split",
     R"(
tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size
cp-comm-type/+=p2p|a2a|allgather|a2a+p2p
expert-model-parallel-size expert-tensor-parallel-size sequence-parallel/0
use-tp-pp-dp-mapping/0 num-layers-per-virtual-pipeline-stage
num-virtual-stages-per-pipeline-rank decoder-first-pipeline-num-layers
decoder-last-pipeline-num-layers pipeline-model-parallel-layout
account-for-embedding-in-pipeline-split/0 account-for-loss-in-pipeline-split/0
no-overlap-p2p-communication/0 tp-comm-overlap/0 model-parallel-size
defer-embedding-wgrad-compute/0 wgrad-deferral-limit
microbatch-group-size-per-virtual-pipeline-stage
)"},
    // Without a fused kernel scores would be copied: read_kernels() says so then.
    {OptionEffect::kNoEffect, "the type of attention's scores inside of fused kernels",
     R"(
attention-softmax-in-fp32/0 apply-query-key-layer-scaling/0 no-query-key-layer-scaling/0
)"},
    {OptionEffect::kModelled, "batches and sequences",
     R"(
micro-batch-size global-batch-size rampup-batch-size/3 step-batch-size-schedule batch-size
seq-length encoder-seq-length max-position-embeddings
)"},
    {OptionEffect::kModelled, "sharding of the states",
     R"(
use-distributed-optimizer/0 use-megatron-fsdp/0 use-custom-fsdp/0
data-parallel-sharding-strategy=no_shard|optim|optim_grads|optim_grads_params use-torch-fsdp2/0
torch-fsdp2-no-reshard-after-forward/0
num-distributed-optimizer-instances overlap-grad-reduce/0 overlap-param-gather/0
overlap-param-gather-with-optimizer-step/0
no-gradient-accumulation-fusion/0
)"},
    {OptionEffect::kModelled, "recomputation and the host's memory",
     R"(
recompute-activations/0 recompute-granularity=full|selective recompute-method=uniform|block
recompute-num-layers
checkpoint-activations/0 activations-checkpoint-method activations-checkpoint-num-layers
checkpoint-num-layers optimizer-cpu-offload/0 optimizer-offload-fraction cpu-offloading-num-layers
overlap-cpu-optimizer-d2h-h2d/0
recompute-modules/+ moe-layer-recompute/0 fine-grained-activation-offloading/0 offload-modules/+
activation-offload-fraction
)"},
    {OptionEffect::kModelled, "data types and kernels",
     R"(
bf16/0 fp16/0 fp8-format=e4m3|hybrid fp8-recipe=tensorwise|delayed|mxfp8|blockwise fp8-hybrid/0
fp8-e4m3/0 fp4-format=e2m1 fp4-recipe grad-reduce-in-bf16/0
accumulate-allreduce-grads-in-fp32/0 transformer-impl=local|transformer_engine|inference_optimized
fp8-param-gather/0 fp4-param-gather/0
first-last-layers-bf16/0 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 use-legacy-models/0
exp-avg-dtype=fp32|fp16|bf16|fp8 attention-backend=auto|flash|fused|unfused|local use-flash-attn/0
cross-entropy-loss-fusion/0 cross-entropy-fusion-impl=native|te no-masked-softmax-fusion/0
no-bias-dropout-fusion/0 no-bias-swiglu-fusion/0 no-bias-gelu-fusion/0 no-rope-fusion/0
moe-router-fusion/0 moe-permute-fusion/0
cuda-graph-impl=none|local|transformer_engine|full_iteration enable-cuda-graph/0
external-cuda-graph/0 cuda-graph-scope/+ cuda-graph-modules/+ cuda-graph-warmup-steps
)"},
    {OptionEffect::kNotModelled, "the details of such layers are taken as Megatron-LM's defaults",
     R"(
hybrid-attention-ratio
hybrid-mlp-ratio
disable-mamba-mem-eff-path/0 gdp-num-householder gdp-cutedsl-kernel/0
gdp-num-chunk-states-to-recompute mamba-training-ssm-states-dtype
)"},
    {OptionEffect::kNotModelled,
     "sparse attention is computed as full attention, without its indexer",
     R"(
dsa-indexer-n-heads dsa-indexer-head-dim dsa-indexer-topk dsa-indexer-topk-freq
dsa-indexer-skip-topk-offset dsa-indexer-loss-coeff dsa-indexer-use-sparse-loss/0
dsa-kernel-backend dsa-indexer-rope-interleaved/0 no-dsa-indexer-rotate-activation/0
disable-dsa-indexer-rotate-activation/0 no-dsa-indexer-scoring-relu/0
disable-dsa-indexer-scoring-relu/0 dsa-indexer-k-norm-epsilon dsa-indexer-k-norm-fp32/0
)"},
    {OptionEffect::kNotModelled, "the weights and products of it are left out",
     R"(
moe-shared-expert-gate/0 retro-add-retriever/0 embedding-weights-in-fp32/0
num-unique-layers param-sharing-style
)"},
    {OptionEffect::kNotModelled, "every layer is taken as the others",
     R"(
heterogeneous-layers-config-path heterogeneous-layers-config-encoded-json
spec/*=mamba_stack_spec|hybrid_stack_spec
model-spec/2
enable-gpt-oss/0 moe-frequency
)"},
    {OptionEffect::kNotModelled,
     "the loss of further heads is taken as that of a layer of multi-token prediction each",
     R"(
mtp-detach-heads/0 mtp-hsm/0 mtp-standalone/0 freeze-base-for-mtp/0
)"},
    {OptionEffect::kNotModelled, "what is saved is not spread over tensor ranks in the estimate",
     R"(
distribute-saved-activations/0 distribute-recomputed-activations/0 distribute-checkpointed-activations/0
model-parallel-memory-opt/0
)"},
    {OptionEffect::kNotModelled, "the host's update is taken to be one pass over pinned memory",
     R"(
use-torch-optimizer-for-cpu-offload/0
no-pin-cpu-grads/0 no-pin-cpu-params/0
)"},
    {OptionEffect::kNotModelled, "activations stay on the device in the estimate",
     R"(
min-offloaded-tensor-size delay-offload-until-cuda-graph/0 delta-offload-bytes-across-pp-ranks
moe-paged-stash/0 moe-paged-stash-page-size moe-paged-stash-buffer-size-factor-cuda
moe-paged-stash-buffer-size-factor-cpu fine-grained-offloading-max-inflight-offloads
cpu-offloading-retain-pinned-cpu-buffers/0
)"},
    {OptionEffect::kNotModelled, "the products of a layer in 8 or 4 bits are all taken to be so",
     R"(
no-fp8-wgrad/0 disable-fp8-wgrad/0 fp8-output-proj/0
fp8-quantizer-factory te-precision-config-file keep-fp8-transpose-cache/0
keep-fp8-transpose-cache-when-using-custom-fsdp/0 reuse-grad-buf-for-mxfp8-param-ag/0
fp4-quantizer-factory kitchen-config-file kitchen-recipe-number use-kitchen-attention/0 kitchen-attention-backend
moe-dispatch-fwd-dtype moe-combine-bwd-dtype
)"},
    {OptionEffect::kNotModelled,
     "data types of the optimizer other than the first moment's are taken as fp32",
     R"(
exp-avg-sq-dtype=fp32 main-grads-dtype=fp32 main-params-dtype=fp32
megatron-fsdp-main-params-dtype=fp32 megatron-fsdp-main-grads-dtype=fp32
megatron-fsdp-grad-comm-dtype=fp32
)"},
    {OptionEffect::kNotModelled, "the optimizer is estimated as without",
     R"(
muon-no-split-qkv/0 muon-fp32-matmul-prec=medium muon-num-ns-steps=5 muon-tp-mode=duplicated
muon-use-syrk/0 muon-scalar-optimizer=adam use-bnb-optimizer/0
optimizer-cuda-graph/0 qk-clip/0 qk-clip-alpha qk-clip-threshold
)"},
    {OptionEffect::kNotModelled, "dropped tokens and padding to a capacity are not counted",
     R"(
moe-token-drop-policy=probs
moe-expert-rank-capacity-factor moe-token-dropping/0
)"},
    {OptionEffect::kNotModelled, "it is estimated as without",
     R"(
tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards
gtp-remat-opt-in-modules/+ gtp-remat-reduce-scatter-with-fp32-accumulation/0 gtp-remat-nccl-ub/0
gtp-expert-remat-nccl-ub/0 hierarchical-context-parallel-sizes/+ max-seqlen-per-dp-cp-rank
max-seqlen-per-cp-rank hybrid-context-parallel/0
overlap-dispatch-backward-with-experts-wgrad/0 ep-overlap-early-attn-memory-release/0
high-priority-a2a-comm-stream/0
overlap-p2p-communication-warmup-flush/0
no-tp-comm-bulk-wgrad/0 disable-tp-comm-bulk-wgrad/0 no-tp-comm-bulk-dgrad/0
disable-tp-comm-bulk-dgrad/0 no-tp-comm-overlap-ag/0 disable-tp-comm-overlap-ag/0
no-tp-comm-overlap-rs/0 disable-tp-comm-overlap-rs/0 tp-comm-overlap-rs-dgrad/0
no-tp-comm-split-ag/0 disable-tp-comm-split-ag/0 no-tp-comm-split-rs/0
disable-tp-comm-split-rs/0 outer-dp-sharding-strategy=no_shard enable-full-sharding-in-hsdp/0
standalone-embedding-stage/0 moe-extended-tp/0
expert-parallel/0 fsdp-double-buffer/0 fsdp-db-use-persist-buf-on-alloc-fail/0
megatron-fsdp-max-pool-double-buffer/0 megatron-fsdp-enable-fine-grained-param-gather/0
mlp-chunks-for-training fp32-residual-connection/0 num-microbatches-in-minibatch
mla-down-proj-fusion/0 no-persist-layer-norm/0
fused-residual-rmsnorm/0 use-te-activation-func/0
use-grouped-gemm-for-shared-expert/0 use-grouped-gemm-for-dense-mlp/0
moe-permute-fusion-into-hybridep/0 fp16-lm-cross-entropy/0
output-logit-dtype flash-attention-version batch-invariant-mode/0
batch-invariant-backend no-scatter-gather-tensors-in-pipeline/0
no-async-tensor-model-parallel-allreduce/0 moe-use-legacy-grouped-gemm/0
no-contiguous-buffers-in-local-ddp/0 use-contiguous-buffers-in-ddp/0 DDP-impl=local
delay-param-gather/0 no-delay-grad-reduce/0 deallocate-pipeline-outputs/0
overlap-p2p-communication/0
gpu-sniff-test-interval empty-unused-memory-level=0
empty-unused-memory-each-iter flexible-dispatch
)"},
    {OptionEffect::kNotModelled, "packing of short sequences is not counted",
     R"(
sft/0 sft-tokenizer-prompt-format reset-position-ids/0 reset-attention-mask/0
dataloader-inter-document-masking/0
)"},
    {OptionEffect::kNotModelled, "encoders are not described",
     R"(
decoder-num-layers decoder-seq-length pipeline-model-parallel-split-rank
encoder-tensor-model-parallel-size encoder-pipeline-model-parallel-size retro-project-dir
retro-cyclic-train-iters retro-encoder-layers retro-encoder-hidden-dropout
retro-encoder-attention-dropout retro-num-neighbors retro-num-retrieved-chunks
retro-attention-gate retro-no-verify-neighbor-count/0 retro-workdir retro-return-doc-ids/0
retro-fix-sub-epoch/0 relative-attention-num-buckets relative-attention-max-distance
)"},
    {OptionEffect::kNotModelled, "vision models are not described",
     R"(
num-classes img-h img-w num-channels patch-dim classes-fraction data-per-class-fraction
no-data-sharding/0 head-lr-mult vision-pretraining/0 vision-pretraining-type
vision-backbone-type swin-backbone-type mask-type mask-factor iter-per-epoch dino-local-img-size
dino-local-crops-number dino-head-hidden-size dino-bottleneck-size dino-freeze-last-layer
dino-norm-last-layer/0 dino-warmup-teacher-temp dino-teacher-temp
dino-warmup-teacher-temp-epochs img-dim
)"},
    {OptionEffect::kNotModelled, "retrieval models are not described",
     R"(
ict-head-size biencoder-projection-dim biencoder-shared-query-context-model/0 ict-load bert-load
titles-data-path query-in-block-prob use-one-sent-docs/0 evidence-data-path
retriever-report-topk-accuracies/+ retriever-score-scaling/0 block-data-path embedding-path
indexer-batch-size indexer-log-interval faiss-use-gpu/0 report-topk-accuracies/+ ict-one-sent/0
)"},
    {OptionEffect::kNotModelled, "rollouts of reinforcement learning are not counted",
     R"(
perform-rl-step/0 rl-prompts-per-eval grpo-prompts-per-step grpo-group-size rl-generation-lag
rl-max-inflight-requests rl-submission-granularity rl-consumption-granularity
rl-durable-rollout-bank/0 rl-rollout-bank-dir rl-rollout-bank-max-bytes grpo-iterations
grpo-clamp-eps-lower grpo-clamp-eps-upper grpo-kl-beta grpo-entropy-term-weight
grpo-filter-groups-with-same-reward/0 langrl-env-config rl-default-temperature rl-default-top-p
rl-default-top-k rl-offload-optimizer-during-inference/0 rl-kv-cache-management-mode
rl-persist-cuda-graphs/0 rl-partial-rollouts/0 rl-inference-logprobs-is-correction/0
rl-importance-sampling-truncation-coef rl-use-sequence-packing/0
rl-sequence-packing-max-sequences-per-bin rl-sequence-packing-algo rl-training-cuda-graphs/0
rl-inference-tensor-model-parallel-size rl-inference-pipeline-model-parallel-size
rl-inference-expert-model-parallel-size rl-inference-expert-tensor-model-parallel-size
rl-inference-model-unified-memory-level rl-offload-inference-model-weights-when-idle/0
refit-method rl-verify-model-weights-swap/0 rl-skip-bos-token/0 rl-profile/0 rl-profile-dir
rl-inference-parsers/* rl-num-parallel-generations rl-num-parallel-generation-batches
rl-generation-batch-size rl-parallel-generation-tasks langrl-inference-server-type
langrl-inference-server-conversation-template langrl-external-server/0
rl-offload-kv-cache-during-training/0 rl-remove-kv-cache-during-training/0
rl-reset-cuda-graphs/0 rl-calculate-intra-group-similarity/0 grpo-default-temperature
grpo-default-top-p rl-sequence-packing-bin-size
)"},
    {OptionEffect::kNotModelled, "a teacher's work and memory are not counted",
     R"(
export-kd-teacher-load export-kd-teacher-model-config export-kd-teacher-ckpt-format
export-kd-cfg logits-save-top-k logits-save-top-p logits-save-top-p-min-k logits-save-dir
logits-save-dtype logits-load-dir logits-load-decode-threads logits-load-prefetch-factor
logits-load-msc-prefetch-depth logits-load-kd-loss-alpha logits-load-ignore-errors/0
num-layers-teacher num-experts-teacher/+ hidden-size-teacher num-attention-heads-teacher mos/0
kd/0 kd-alpha-ce kd-beta-ce kd-temp reset-iteration/0 load-teacher
)"},
    {OptionEffect::kNotModelled, "elastic and quantised training is not counted",
     R"(
export-model-type export-legacy-megatron/0 export-te-mcore-model/0 export-default-te-spec/0
export-force-local-attention/0 export-kv-cache-quant export-real-quant-cfg export-quant-cfg
finetune-hf-dataset finetune-data-split finetune-data-files/+ qad-train-target
export-qk-l2-norm/0 export-moe-apply-probs-on-input/0 export-offline-model/0 modelopt-enabled/0
distillation/0 distill-coeff distill-only/0 flextron/0 binary-mask/0 slice/0 enable-router/0
add-skipping/0 no-attn-skip/0 lr-mult-router flex-strict/0 is-flex-eval/0 freeze-router/0
freeze-model/0 flex-hetero-ffn/0 flex-hetero-mamba/0 flex-hetero-moe-expert/0 router-std
normalize-router-logits/0 soft-mask/0 budget-probs/+ prefill-chunk-size mem-infer-seq-len
mem-batch-size original-model-sample-prob force-router-skip/+ force-mlp/+ force-mamba/+
force-emb/+ skip-num-attn-layer-constraint skip-total-layer-constraint disable-budget/0
curr-iteration hard-sample-th router-beta loss-alpha tau-init tau-decay router-inter-dim
linear-scaler-start linear-scaler-end override-selected-budget/+ router-gbs budget-list/+
mamba-per-list/+ mlp-per-list/+ emb-per-list/+ moe-expert-per-list/+ mamba-int-list/+
mlp-int-list/+ emb-int-list/+ moe-expert-int-list/+ budget-type memory-profile
memory-profile-path bpe-params bpe-kv-cache bpe-ssm-cache bpe-max-buffer param-budget-target
layer-ranking-list/+ log-budgets/+ basemodel-type flextron-config-file
)"},
    {OptionEffect::kNotModelled, "frozen weights are counted as trained",
     R"(
freeze-all-layers/0
)"},
    {OptionEffect::kNotModelled, "arguments of another file or checkpoint are not read",
     R"(
yaml-cfg use-checkpoint-args/0 use-mp-args-from-checkpoint-args/0
decrease-batch-size-if-needed/0
)"},
};

}  // namespace
std::span<const OptionGroup> megatron_groups() { return kMegatron; }

}  // namespace meshplan
