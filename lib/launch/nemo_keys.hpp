#pragma once
// Keys of NeMo 1's configurations and the arguments of Megatron-LM that they are.
#include <array>
#include <string_view>

namespace meshplan {

// Keys of "model" that Megatron-LM has as arguments under another name.
struct NemoOtherName {
  std::string_view key, argument;
};
inline constexpr std::array kNemoOtherNames{
    NemoOtherName{"encoder_seq_length", "seq_length"},
    NemoOtherName{"num_moe_experts", "num_experts"},
    NemoOtherName{"rotary_percentage", "rotary_percent"},
    NemoOtherName{"qkv_bias", "add_qkv_bias"},
    NemoOtherName{"bias", "add_bias_linear"},
    NemoOtherName{"override_vocab_size", "vocab_size"},
    NemoOtherName{"activations_checkpoint_granularity", "recompute_granularity"},
    NemoOtherName{"ub_tp_comm_overlap", "tp_comm_overlap"},
    NemoOtherName{"use_flash_attention", "use_flash_attn"},
    NemoOtherName{"bias_dropout_add_fusion", "bias_dropout_fusion"},
    NemoOtherName{"use_te_rng_tracker", "te_rng_tracker"},
    NemoOtherName{"layernorm_zero_centered_gamma", "apply_layernorm_1p"}};

// Those that mean the same under the same name.
inline constexpr auto kNemoSameNames =
    std::to_array<std::string_view>({"micro_batch_size",
                                     "global_batch_size",
                                     "rampup_batch_size",
                                     "tensor_model_parallel_size",
                                     "pipeline_model_parallel_size",
                                     "virtual_pipeline_model_parallel_size",
                                     "context_parallel_size",
                                     "expert_model_parallel_size",
                                     "expert_tensor_parallel_size",
                                     "num_layers",
                                     "hidden_size",
                                     "ffn_hidden_size",
                                     "num_attention_heads",
                                     "num_query_groups",
                                     "kv_channels",
                                     "max_position_embeddings",
                                     "hidden_dropout",
                                     "attention_dropout",
                                     "make_vocab_size_divisible_by",
                                     "rotary_base",
                                     "rotary_interleaved",
                                     "window_size",
                                     "apply_rope_fusion",
                                     "masked_softmax_fusion",
                                     "gradient_accumulation_fusion",
                                     "sequence_parallel",
                                     "fp16_lm_cross_entropy",
                                     "fp32_residual_connection",
                                     "apply_query_key_layer_scaling",
                                     "init_method_std",
                                     "deterministic_mode",
                                     "overlap_p2p_comm",
                                     "defer_embedding_wgrad_compute",
                                     "wgrad_deferral_limit",
                                     "enable_cuda_graph",
                                     "cross_entropy_loss_fusion",
                                     "position_embedding_type",
                                     "moe_grouped_gemm",
                                     "moe_token_dispatcher_type",
                                     "moe_pad_expert_input_to_capacity",
                                     "moe_expert_capacity_factor",
                                     "moe_aux_loss_coeff",
                                     "moe_router_topk",
                                     "moe_z_loss_coeff",
                                     "moe_router_load_balancing_type",
                                     "moe_shared_expert_intermediate_size",
                                     "moe_ffn_hidden_size"});

// Keys that switch on what no argument says, with the value that leaves it off.
struct NemoRefused {
  std::string_view key, off, what;
};
inline constexpr std::array kNemoRefused{
    NemoRefused{"fsdp", "false", "PyTorch's FSDP inside of NeMo 1 is not read"},
    NemoRefused{"megatron_amp_O2", "true",
                "weights in 32 bits under autocast (megatron_amp_O2: false) are not read"},
    NemoRefused{"bert_binary_head", "", "this trains an encoder, BERT: meshplan plans decoders"},
    NemoRefused{"encoder", "", "this trains an encoder-decoder, T5: meshplan plans decoders"},
    NemoRefused{"retro", "", "a model with retrieval is not read"},
    NemoRefused{"mm_cfg", "", "a model with a vision encoder is not read"},
    NemoRefused{"vision_pretraining_type", "",
                "this trains an encoder of images: meshplan plans decoders"},
    NemoRefused{"peft", "", "adapters of a checkpoint are not read, since its sizes lie there"}};

// Sections, and what stands beside them, that say nothing of a step.
inline constexpr auto kNemoOtherSections = std::to_array<std::string_view>(
    {"run", "hydra", "exp_manager", "name", "env_vars", "s3_checkpointing", "trainer", "model"});

struct NemoSwitch {
  std::string_view key, value;
  std::string_view argument, becomes;  // of Megatron-LM's namespace
};
inline constexpr std::array kNemoModelSwitches{
    NemoSwitch{"share_embeddings_and_output_weights", "false",
               "untie_embeddings_and_output_weights", "True"},
    NemoSwitch{"share_embeddings_and_output_weights", "true", "untie_embeddings_and_output_weights",
               "False"},
    NemoSwitch{"normalization", "rmsnorm", "normalization", "RMSNorm"},
    NemoSwitch{"normalization", "layernorm", "normalization", "LayerNorm"},
    NemoSwitch{"normalization", "layernorm1p", "apply_layernorm_1p", "True"},
    NemoSwitch{"activation", "gelu", "swiglu", "False"},
    NemoSwitch{"activation", "swiglu", "swiglu", "True"},
    NemoSwitch{"activation", "fast-swiglu", "swiglu", "True"},
    NemoSwitch{"activation", "squared-relu", "squared_relu", "True"},
    NemoSwitch{"transformer_engine", "true", "transformer_impl", "transformer_engine"},
    NemoSwitch{"transformer_engine", "false", "transformer_impl", "local"}};
inline constexpr std::array kNemoOptimizerSwitches{
    NemoSwitch{"name", "distributed_fused_adam", "use_distributed_optimizer", "True"},
    NemoSwitch{"name", "mcore_distributed_optim", "use_distributed_optimizer", "True"},
    NemoSwitch{"name", "fused_adam", "optimizer", "adam"},
    NemoSwitch{"name", "adamw", "optimizer", "adam"},
    NemoSwitch{"name", "adam", "optimizer", "adam"},
    NemoSwitch{"name", "sgd", "optimizer", "sgd"},
    NemoSwitch{"overlap_grad_sync", "true", "overlap_grad_reduce", "True"},
    NemoSwitch{"overlap_grad_sync", "false", "overlap_grad_reduce", "False"},
    NemoSwitch{"overlap_param_sync", "true", "overlap_param_gather", "True"},
    NemoSwitch{"overlap_param_sync", "false", "overlap_param_gather", "False"},
    NemoSwitch{"grad_sync_dtype", "bf16", "grad_reduce_in_bf16", "True"},
    NemoSwitch{"grad_sync_dtype", "fp32", "accumulate_allreduce_grads_in_fp32", "True"}};
inline constexpr std::array kNemoPrecisions{NemoSwitch{"precision", "bf16", "bf16", "True"},
                                            NemoSwitch{"precision", "bf16-mixed", "bf16", "True"},
                                            NemoSwitch{"precision", "16", "fp16", "True"},
                                            NemoSwitch{"precision", "16-mixed", "fp16", "True"},
                                            NemoSwitch{"precision", "32", "fp16", "False"},
                                            NemoSwitch{"precision", "32-true", "fp16", "False"}};

}  // namespace meshplan
