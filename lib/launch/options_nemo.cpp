// Keys that NeMo 1 has beside Megatron-LM's arguments, by their place in its configuration:
// examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and the launcher's
// conf/training/gpt3, llama, mistral, mixtral, nemotron, qwen2, starcoder2.
#include "launch/option_table.hpp"

namespace meshplan {
namespace {

constexpr OptionGroup kNemo[] = {
    {OptionEffect::kNotModelled, "it is estimated as without",
     R"(
model.headscale/0 model.sharp/0 model.activations_checkpoint_layers_per_pipeline=0
model.num_micro_batches_with_partial_activation_checkpoints=0 model.seq_len_interpolation_factor
model.cpu_offloading/0 trainer.accumulate_grad_batches=1
)"},
    {OptionEffect::kNoEffect, "initial weights, numbers of training, logs and checkpoints",
     R"(
model.do_layer_norm_weight_decay model.use_scaled_init_method model.pre_process model.post_process
model.native_amp_init_scale model.native_amp_growth_interval model.hysteresis model.onnx_safe
model.apex_transformer_log_level model.use_cpu_initialization model.resume_from_checkpoint
model.enable_megatron_timers model.megatron_timer_kwargs/* model.nsys_profile/* model.optim.lr
model.optim.weight_decay model.optim.betas/* model.optim.sched/* model.optim.lock_timeout
model.optim.eps model.layernorm_epsilon model.attention_type model.openai_gelu
model.transformer_block_type=pre_ln model.reduce_amax model.dist_ckpt_format
model.dist_ckpt_load_on_device model.dist_ckpt_parallel_save model.deteministic_mode
model.scale_positional_embedding model.normalize_attention_scores model.gc_interval model.seed
trainer.accelerator trainer.enable_checkpointing trainer.use_distributed_sampler
trainer.replace_sampler_ddp trainer.max_epochs trainer.max_steps trainer.max_time trainer.logger
trainer.log_every_n_steps trainer.val_check_interval trainer.limit_val_batches
trainer.limit_test_batches trainer.limit_train_batches trainer.gradient_clip_val trainer.benchmark
trainer.enable_model_summary trainer.enable_progress_bar trainer.num_sanity_val_steps
trainer.strategy
)"},
    {OptionEffect::kNoEffect, "kernels and buffers that Megatron-Core chooses itself",
     R"(
model.persist_layer_norm model.gradient_as_bucket_view model.grad_div_ar_fusion
model.grad_allreduce_chunk_size_mb model.sync_batch_comm model.batch_p2p_comm model.ffn_dropout
model.get_attention_mask_from_fusion model.fp8_wgrad model.fp8_margin model.fp8_interval
model.fp8_amax_history_len model.fp8_amax_compute_algo model.use_emha model.tp_comm_overlap_ag
model.tp_comm_overlap_rs model.ub_tp_comm_overlap_cfg/* model.fsdp_sharding_strategy
model.fsdp_grad_reduce_dtype model.fsdp_sharded_checkpoint model.mcore_gpt model.name
model.nccl_communicator_config_path model.validation_param_sync_overlap
model.use_tp_pp_dp_mapping model.cpu_offloading_activations model.cpu_offloading_weights
model.cpu_offloading_num_layers model.activations_checkpoint_num_layers
model.activations_checkpoint_method model.optim.bucket_cap_mb model.optim.contiguous_grad_buffer
model.optim.contiguous_param_buffer model.optim.dtype model.optim.nccl_ub model.precision
)"},
};

}  // namespace

std::span<const OptionGroup> nemo_groups() { return kNemo; }

}  // namespace meshplan
