#pragma once
// Which parts run as one kernel, and what the training code costs on the host and keeps.
#include <cstdint>

#include "spec/kinds.hpp"
#include "spec/module_set.hpp"

namespace meshplan {

// Which parts run as one kernel, and what the training code costs on the host. Not a choice of the
// search: part of the `framework` preset, each settable by key (kernels.<name>).
// host_factor of plain PyTorch modules: what lies between two models whose steps wait for the host,
// one LayerNorm GPT (2.8 and 2.2) and one RMSNorm Llama (3.8 and 2.8), as scripts/gpu_reference.py
// trains them beside two H200.
inline constexpr double kPlainHostFactor = 2.9;

struct Runtime {
  bool fused_softmax = true;      // scale + mask + softmax in one kernel (without flash attention)
  bool fused_norm = true;         // one kernel per norm instead of a chain of element-wise ones
  bool fused_rope = true;         // rotary embedding in one kernel
  bool fused_activation = true;   // bias + activation (+ gate) in one kernel
  bool fused_dropout_add = true;  // bias + dropout + residual in one kernel
  bool fused_cross_entropy = true;  // vocabulary-parallel loss in few kernels
  // The fused loss makes no fp32 copy of the logits (flash-attention's and Transformer Engine's,
  // which write the gradient over them: Megatron-Core --cross-entropy-fusion-impl te; PyTorch's,
  // compiled).
  bool inplace_cross_entropy = false;
  bool fused_grad_accumulation = true;  // weight-gradient product adds into the main gradient
  // One kernel for many tensors' Adam; else one per operation (PyTorch's foreach), which makes a
  // copy of one moment.
  bool fused_optimizer = true;
  AttentionKernel attention = AttentionKernel::kBest;  // with flash_attention
  // Pipeline messages are split over tensor ranks and gathered on the receiver even without
  // sequence parallelism (Narayanan et al. 2104.04473 sec. 4.1).
  bool scatter_gather = false;
  // Copies of a token for experts on one rank, or on one node of several, travel once
  // (Megatron-Core
  // --moe-token-dispatcher-type flex: DeepEP, HybridEP); else one copy per expert.
  bool flex_dispatcher = false;
  // Every rank of the experts' groups gathers all their tokens, picks those of its own experts, and
  // the outputs are reduced and scattered (Megatron-Core's default, --moe-token-dispatcher-type
  // allgather).
  bool allgather_dispatcher = false;
  // Where a network lets no device post messages (EFA), those of the flexible dispatcher go through
  // NVSHMEM's proxy over libfabric, else through UCCL's.
  bool dispatch_nvshmem = false;
  // With precision fp8: over what operands are scaled.
  ScalingRecipe fp8_recipe = ScalingRecipe::kBest;
  // With precision fp8 or nvfp4: so many of the first and last layers make their products in bf16
  // (Megatron-Core first_last_layers_bf16).
  std::int64_t num_layers_at_start_in_bf16 = 0, num_layers_at_end_in_bf16 = 0;
  // With precision fp8: fused attention multiplies in 8 bits too (Transformer Engine's fp8_dpa;
  // Megatron-Core fp8_dot_product_attention).
  bool fp8_attention = false;
  // The input of a fused gated activation is kept for the backward pass in 8 bits, without scales
  // (Megatron-Core activation_func_fp8_input_store), whatever the precision of products.
  bool activation_func_fp8_input_store = false;
  // With precision fp8: the experts' first product, gated activation and cast to 8 bits are one
  // kernel, forward and backward (Transformer Engine ops/fused, grouped MLP of MXFP8;
  // Megatron-Core use_transformer_engine_op_fuser).
  bool fused_experts = false;
  // Latent attention's queries, keys and values are put together by the kernels that rotate them
  // (Megatron-Core fusions/fused_mla_yarn_rope_apply.py; with yarn alone).
  bool fused_latent_rope = false;
  // The router's scores, choice of experts and auxiliary loss are kernels of Transformer Engine
  // (--moe-router-fusion), sorting tokens to experts and back too (--moe-permute-fusion); else
  // PyTorch's operators one by one.
  bool fused_router = false;
  bool fused_permute = false;
  // Each step of hyper-connections is one kernel (Megatron-Bridge's use_fused_mhc, Primus' Triton).
  bool fused_mhc = true;
  // What they mix by is worked out of an fp32 copy of the streams, which is kept (Megatron-Core's
  // dev branch, transformer/hyper_connection.py, _projection_and_get_norm, where it is not fused).
  bool fp32_mhc = false;
  // Each mixture of attention residuals is one kernel (Primus' attn_res_backend flydsl); else
  // PyTorch's operations one by one (Megatron-Bridge, and Primus' default).
  bool fused_attn_res = false;
  // An adapter's second product scales its output (Unsloth's kernels/fast_lora.py and axolotl's
  // kernels/lora.py; Automodel's _peft/lora_kernel.py); else a pass of its own does.
  bool fused_lora = false;
  // The input of a column-parallel layer is gathered again for its weight gradient; else the
  // gathered copy is saved (with sequence parallelism; nanotron's key of that name).
  bool tp_recompute_allgather = true;
  // Every tensor rank gathers all logits and computes PyTorch's loss of their fp32 copies; else the
  // loss is computed on the rank's share of the vocabulary (Megatron-LM cross_entropy.py).
  bool gathered_logits = false;
  // The output layer and its loss work on one chunk of the tokens after the other and make their
  // gradients at once, so that no logits are kept (Liger's fused linear cross entropy; Apple's cut
  // cross entropy, in smaller chunks).
  bool fused_linear_cross_entropy = false;
  // Parts of the tokens whose losses are taken one after the other, of logits that are kept
  // (torchtune LinearCrossEntropyLoss, axolotl chunked_cross_entropy).
  std::int64_t loss_chunks = 1;
  // Norms and the loss read fp32 copies of their inputs, made by kernels of their own.
  bool fp32_copies = false;
  // ZeRO-1 gives every rank whole tensors: one reduction to and one broadcast from each owner
  // instead of a scatter and a gather of equal parts.
  bool whole_tensor_shards = false;
  // ZeRO-1 all-reduces all gradients as one buffer after the last backward pass, whatever
  // overlap.grad_reduce says, and every rank updates its part of them.
  bool whole_reduction = false;
  // Gradients of ZeRO-0 and 1 in 16 bits are cast to fp32 for their reduction, and back.
  bool fp32_reduction = false;
  CudaGraph cuda_graph = CudaGraph::kNone;
  CudaGraphModules cuda_graph_modules{};  // with CudaGraph::kLayer; empty: whole layers
  // Steps before graphs of layers are captured (Megatron-Core's name, for Transformer Engine's).
  std::int64_t cuda_graph_warmup_steps = 3;
  // Rate of matrix products over the device file's, which is that of its newest libraries at usual
  // clocks: under 1 with older ones, over 1 with boosted clocks.
  double product_rate = 1.0;
  double host_factor = 1.0;  // host time per kernel over the device profile's launch_gap
  // Gradients of ZeRO-0 are reduced in buckets of so many MiB of the training dtype, a collective
  // each (PyTorch's DistributedDataParallel, bucket_cap_mb); 0: in one piece.
  double bucket_mib = 0;
  // Host time of the optimizer step per parameter tensor of a rank, in kernels.
  double optimizer_launches = 0;
  // Host time of a step outside of its passes and its update, in kernels: what is logged each step.
  double step_launches = 0;
  // Added to collective_launches, per tensor rank, while pipeline messages cross nodes: the hosts'
  // cores are shared with the network's progress threads.
  double contended_launches = 0;
  double collective_launches = 4;  // host time of a collective call, in kernels
  // Host time of one node of the schedule that overlap.ep runs a layer as, in kernels: attention,
  // dispatch, experts and combine are called from Python one by one, forward and backward, each
  // with its events and an autograd call of its own (Megatron-Core
  // models/common/model_chunk_schedule_plan.py, pipeline_parallel/combined_1f1b.py).
  double node_launches = 0;
  // Host time of gathering a weight (or scattering its gradient) per rank, in kernels: where they
  // are gathered into a list of every rank's part. Nothing runs meanwhile.
  double shard_launches = 0;
  // Seconds that an allocation costs for which the caching allocator must give memory back first.
  double retry_stall = 0;

  // What the training code does beside its kernels (runtime.<name>).

  // The device has one queue for all streams (CUDA_DEVICE_MAX_CONNECTIONS=1) while overlap.ep
  // issues messages and kernels to two.
  bool single_device_connection = false;

  // Overlap of pipeline messages is on with an interleaved schedule alone (Megatron-LM
  // training/arguments.py turns overlap_p2p_comm off without one).
  bool interleaved_p2p_overlap = false;
  // A stage's output is freed once it is sent; else it is held until its backward pass
  // (Megatron-Core deallocate_pipeline_outputs; DeepSpeed runtime/pipe/engine.py holds it).
  bool deallocate_pipeline_outputs = true;
  // ZeRO-2 and 3 combine with a pipeline: what they free is gathered again for every microbatch.
  bool sharded_pipeline = true;
  StageSplit stage_split = StageSplit::kEven;
  // The loss, where it is not fused, is PyTorch's: it keeps the logarithms of the softmax and makes
  // two gradients of them; else Megatron-LM's, which makes the fp32 softmax the gradient.
  bool torch_cross_entropy = false;
  // Megatron-LM's loss subtracts the largest logit into a copy, not in place (from 2022-09 to
  // 2024-06; Megatron-DeepSpeed, nanotron).
  bool cloned_logits = false;
  // A LayerNorm's weight gradients are made by a second kernel that reads input and output gradient
  // again (apex FusedLayerNorm, PyTorch's own); else in the same pass.
  bool two_pass_layernorm = false;
  // A bf16 gradient is cast to fp32 before it is added to its fp32 sum, where the product does not
  // add it (DeepSpeed runtime/bf16_optimizer.py, update_hp_grads).
  bool cast_grad_accumulation = false;
  // bf16 gradients are held beside their fp32 sums (DeepSpeed runtime/bf16_optimizer.py; nanotron
  // optim/gradient_accumulator.py).
  bool grads_beside_sums = false;
  // Sums of bf16 gradients in fp32 are cast back, all of them at once, to be all-reduced in 16 bits
  // after the last backward pass, whatever overlap.grad_reduce says (DeepSpeed's pipeline engine,
  // runtime/engine.py, allreduce_bucket, without communication_data_type).
  bool cast_reduction = false;
  // Gradients that are not fp32 are copied to fp32 for the update (Megatron-Core
  // core/optimizer/optimizer.py, _copy_model_grads_to_main_grads).
  bool fp32_grad_copies = false;
  // ZeRO-1 and 2 in fp16 flatten the shard's gradients and cast the flat copy to fp32 for the
  // update (DeepSpeed runtime/zero/stage_1_and_2.py, step).
  bool flat_grad_copies = false;
  // A step of one microbatch allocates gradients as the backward pass makes them (PyTorch's
  // zero_grad sets them to none); else buffers for them are there all the time.
  bool late_gradients = false;
  // What offload.modules names stays on the device of one layer a rank, that whose backward pass
  // comes first (Megatron-Core fine_grained_activation_offload.py, offload margin).
  bool offload_margin = false;
  // ZeRO-1 gathers the updated weights through a flat copy of all of them (nanotron distributed.py,
  // all_gather_coalesced).
  bool flat_weight_gather = false;
  // Elements of each of the three buckets that ZeRO-1 and 2 hold for good (DeepSpeed
  // runtime/zero/config.py reduce_bucket_size, allgather_bucket_size); 0: none.
  std::int64_t zero_bucket_size = 0;
  // Gathered inputs of tensor-parallel layers that streams still hold when the host has run past
  // them, in steps of several microbatches and of one (with sequence parallelism, tp >= 4, pp = 1).
  std::int64_t held_gathers = 0;
  std::int64_t held_gathers_one_microbatch = 0;
  // Layers are Transformer Engine's, which keeps a workspace of its own for cuBLAS and makes the
  // copies of weights in 8 bits.
  bool transformer_engine = false;
  // Experts' products go to several streams with a workspace each (Transformer Engine
  // GroupedLinear, get_multi_stream_cublas_workspace).
  bool grouped_gemm = false;
  // Each of PyTorch's workspaces for cuBLAS (CUBLAS_WORKSPACE_CONFIG); 0: as the device has it by
  // default.
  std::int64_t cublas_workspace_bytes = 0;
  // Gathered inputs of tensor-parallel layers are put into one buffer that is never freed
  // (Megatron-Core utils.py, GlobalMemoryBuffer).
  bool kept_gather_buffer = false;
  // Between two steps every chunk of a pipeline still holds its last input and that one's gradient
  // (Megatron-Core transformer_block.py, set_input_tensor).
  bool kept_stage_inputs = false;
  // Where products add weight gradients to their sums by themselves, autograd still gets a tensor
  // for each, which is kept: one per shape of a layer's weights (Transformer Engine
  // get_dummy_wgrad, since 2.5), and one for the output layer (Megatron-Core since e7c55de99e,
  // 2025-08-01).
  bool layer_dummy_gradients = false;
  bool head_dummy_gradient = false;
  // Weights of products in 8 or 4 bits are stored and gathered so; else copies of them are made,
  // beside 16-bit ones.
  bool fp8_param_gather = false;
  // Experts with biases may be split over etp ranks (Megatron-Core up to 0.14: a329dd6da5,
  // 2025-09-22, refuses it).
  bool split_expert_biases = false;
  // Selective recomputation is by operation: a layer keeps its input, attention's output, what was
  // reduced and scattered, and every second matrix product in the order of the forward pass, and
  // repeats the rest (torchtitan parallelize_llama.py, selective_ac_option "op").
  bool op_recompute = false;
  // Queries, keys and values, and the two halves of a gated layer, are products of their own
  // (Hugging Face modeling_llama.py, torchtitan models/llama3); else one product each
  // (Megatron-Core).
  bool split_projections = false;
  // The products of a rank's experts are one kernel that reads its sizes on the device
  // (torch._grouped_mm: Hugging Face since 5.0, torchtitan); else one for each expert.
  bool grouped_kernel = false;
  // PyTorch's loss is computed of the 16-bit logits, not of a copy in fp32.
  bool bf16_cross_entropy = false;
  // Inputs of recomputed layers are copied to the host and back (Unsloth's and axolotl's offloaded
  // gradient checkpointing; torchtune, TRL activation offloading beside it).
  bool host_checkpoints = false;
  // Each weight is updated as soon as its gradient is there, which is then given back: one gradient
  // at a time, in the backward pass of one microbatch (torchtune optimizer_in_bwd, torchtitan
  // early_step_in_backward).
  bool optimizer_in_backward = false;
  // The router's probabilities weigh what the experts made, which is kept for their gradient
  // (Transformers integrations/moe.py, torchtitan models/common/moe.py); else the experts' hidden
  // features (Megatron-Core moe/experts.py, since 2659630721 of 2025-04).
  bool weighted_expert_outputs = false;
  // A layer that is recomputed is repeated only up to the last tensor that its backward pass reads:
  // not its last product and what follows (torch.utils.checkpoint without use_reentrant, since
  // PyTorch 2.1; compilers drop what nothing reads). Else all of it (Megatron-Core
  // tensor_parallel/random.py, CheckpointFunction; reentrant checkpoints).
  bool recompute_early_stop = false;
  // Adam is one kernel that takes gradients, moments and weights in types of their own
  // (Megatron-Core use_precision_aware_optimizer, Transformer Engine's FusedAdam); so it is in any
  // case where such a framework's moments are not fp32.
  bool precision_aware_optimizer = false;
  // That Adam holds the fp32 weights itself, and of those beside bf16 ones only the 16 bits that
  // these lack (store_param_remainders); else the framework holds them, whole, and casts gradients
  // to fp32 for the update (Megatron-Bridge, whose mixed_precision names an fp8_recipe even without
  // fp8; Megatron-Core optimizer_config.py, use_precision_aware_optimizer_no_fp8_or_ds_fp8).
  bool param_remainders = true;
  // Beside frozen weights in 4 or 8 bits what is not quantised is cast to fp32: embedding, output
  // layer, norms, and with them the hidden states from layer to layer (PEFT utils/other.py,
  // prepare_model_for_kbit_training; trainers that cast it back do not need this).
  bool fp32_unquantised = false;
  // The allocator grows its segments (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True) and gives
  // back pages that hold nothing [F-MEM-20]: less is lost between blocks, and microbatches longer
  // than all before do not leave it with segments that are too small for them.
  bool expandable_segments = false;
  // Beside fp32 weights the shards are these, cast to 16 bits when they are gathered (PyTorch
  // FSDP's MixedPrecisionPolicy); else 16-bit shards beside them (DeepSpeed).
  bool fp32_shards = false;
  // Every parameter is sharded by itself, so that what is gathered is copied out to them and their
  // gradients are copied together before they are scattered (PyTorch's fully_shard); else weights
  // and gradients are views of what is gathered and scattered.
  bool per_parameter_shards = false;
  // ZeRO-1 and 2 gather the updated weights at the end of the optimizer's step, before anything
  // goes on: overlap.param_gather is ZeRO-3's prefetch alone (DeepSpeed
  // runtime/zero/stage_1_and_2.py, step).
  bool late_weight_gather = false;
  // The router's product is Transformer Engine's, whatever the layers are (Megatron-Core
  // moe/moe_utils.py, router_gating_linear, since 0f058666a8 of 2025-06).
  bool engine_router = false;
  // The output layer's weight gradients wait until the rank has done its microbatches, of all of
  // them or of so many (Megatron-Core defer_embedding_wgrad_compute, wgrad_deferral_limit).
  bool defer_embedding_wgrad_compute = false;
  std::int64_t wgrad_deferral_limit = 0;  // 0: of all
  // Where selective recomputation repeats what hyper-connections make, so many layers' comes back
  // at once (Megatron-Core mhc_recompute_layer_num); 0: all of a stage's.
  std::int64_t mhc_recompute_layers = 0;
  // Where optimizer states are sharded, a matrix that Muon updates has one owner, which holds all
  // of its states (Megatron-Core optimizer/layer_wise_optimizer.py); else its momentum is gathered.
  bool layer_wise_optimizer = false;
  // Of that, matrices and tables lie in buffers of their own, tables cut anywhere; else the table
  // has one owner too, gradients are all-reduced and weights gathered through copies (Megatron-Core
  // use_layer_wise_param_layout, LayerWiseDistributedOptimizer._shard_params_ping_pong).
  bool layer_wise_param_layout = true;
  // Gradients are scaled by the step's tokens behind their reduction, not by the ranks before it
  // (Megatron-Core finalize_model_grads.py): with one rank alone a pass over them more.
  bool calculate_per_token_loss = false;
  // The data loader makes a mask of all pairs of tokens, which every microbatch copies to the
  // device and the tensor-parallel ranks broadcast (Megatron-LM's option of that name).
  bool create_attention_mask_in_dataloader = false;
  // The loss of every microbatch and the gradients before their reduction are looked at for numbers
  // that are none (Megatron-LM training/arguments.py, check_for_nan_in_loss_and_grad).
  bool check_for_nan_in_loss_and_grad = false;
  // Interleaved schedules: so many microbatches pass a chunk of a rank in turn before the next
  // chunk (Megatron-Core microbatch_group_size_per_vp_stage); 0: pp.
  std::int64_t microbatch_group_size = 0;
  // An expert takes so many times its even share of each rank's tokens and drops the rest
  // (Megatron-Core moe_expert_capacity_factor), and with padding works on as many whatever comes
  // (moe_pad_expert_input_to_capacity), for which no host has to wait; 0: it takes what comes.
  double expert_capacity_factor = 0;
  bool pad_to_capacity = false;
  // PyTorch's deterministic algorithms (torch.use_deterministic_algorithms; Megatron-LM's
  // --deterministic-mode), and fused attention whose gradients are added in a fixed order
  // (Transformer Engine, NVTE_ALLOW_NONDETERMINISTIC_ALGO=0).
  bool deterministic_mode = false;
  bool deterministic_attention = false;

  bool operator==(const Runtime&) const = default;
};

}  // namespace meshplan
