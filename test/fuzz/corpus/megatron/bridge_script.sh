plan=(
  model.tensor_model_parallel_size=2
  comm_overlap.tp_comm_overlap=true
  'model.recompute_modules=[layernorm,mlp]'
  mixed_precision=bf16_with_mxfp8_mixed
  peft.dim=16
  'peft.target_modules=[linear_qkv]'
  +logger.log_interval=1
  dataset.seq_length=4096
)
torchrun --nnodes 1 --nproc-per-node 8 run_recipe.py --recipe llama3_8b_peft_config "${plan[@]}"
