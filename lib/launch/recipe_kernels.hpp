#pragma once
// Switches of recipes that change kernels, the loss, and where checkpoints of layers are.
#include <string>
#include <vector>

#include "launch/settings.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Liger-Kernel's and cut cross entropy's switches in axolotl's, LLaMA-Factory's and Transformers'
// words. After the loss and the recomputation are known.
void read_fused_kernels(Settings& settings, Strategy& s);

// Which attention runs, in axolotl's, LLaMA-Factory's and Transformers' words. Unless stated it is
// PyTorch's, which runs the fastest kernel that it has; xFormers' and FlexAttention are counted as
// that, which `notes` then says.
void read_attention(Settings& settings, Strategy& s, std::vector<std::string>& notes);

// torch.compile joins chains of element-wise operations; where `loss` says so the loss is compiled
// too.
void read_compilation(Settings& settings, const std::string& key, bool loss, Strategy& s);

// Whether checkpoints are reentrant: as gradient_checkpointing_kwargs says, PEFT's examples'
// --use_reentrant (examples/sft/train.py) or LLaMA-Factory's use_reentrant_gc, which is on by
// default (hparams/model_args.py); else they are not (axolotl core/builders/base.py; TRL's
// trainers; Transformers since 5.0).
void read_reentrant(Settings& settings, bool is_llama_factory, Strategy& s);

// axolotl's kernels of adapters. Unless one is named they are on where they can be
// (utils/schemas/config.py, check_auto_enable_lora_kernels).
void read_adapter_kernels(Settings& settings, Strategy& s);

// Whether checkpoints, or in their place all that is saved, go to the host: activation_offloading,
// axolotl's gradient_checkpointing: offload, Unsloth's checkpoints.
void read_host_checkpoints(Settings& settings, bool is_axolotl, Strategy& s);

}  // namespace meshplan
