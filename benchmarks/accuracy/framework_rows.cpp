#include "framework_rows.hpp"

#include <array>
#include <string>

#include "words.hpp"

namespace meshplan::accuracy {
namespace {

constexpr std::array kFrameworks{
    FrameworkRow{"bigscience", "megatron-deepspeed"},
    FrameworkRow{"vtrain", "megatron-deepspeed"},
    FrameworkRow{"sailor", "megatron-deepspeed"},
    FrameworkRow{"neox", "megatron-deepspeed"},
    FrameworkRow{"pythia", "megatron-deepspeed"},
    FrameworkRow{"megatron-deepspeed", "megatron-deepspeed"},
    // Its own code: Megatron's layouts with ZeRO-1, torch's norm unless the row names a kernel;
    // 13B trains at tp = pp = 1, which fp32 gradients would not leave room for. No layout, up to
    // tp = 8, holds 32,768 tokens of a microbatch: the logits of its 128,000 words are not split.
    // It all-reduces gradients in fp32 and gathers the weights (Aleph-Alpha/scaling
    // core/optimizer/allreduce.py, parameter_group.py).
    FrameworkRow{.word = "aleph",
                 .framework = "megatron-deepspeed",
                 .norm_fused_where_stated = true,
                 .low_precision_gradients = true,
                 .gathered_logits = true,
                 .whole_fp32_reduction = true},
    FrameworkRow{"llm-foundry", "llm-foundry"},
    FrameworkRow{"llm_foundry", "llm-foundry"},
    FrameworkRow{"internevo", "internevo"},
    FrameworkRow{"nanotron", "nanotron"},
    FrameworkRow{"torchtitan", "torchtitan"},
    // fairscale's; fms_fsdp/utils and main_training.py wrap in FullyShardedDataParallel.
    FrameworkRow{.word = "metaseq", .framework = "fsdp", .flat_parameters = true},
    FrameworkRow{.word = "fms-fsdp", .framework = "fsdp", .flat_parameters = true},
    // Its log of Nemotron-4 15B (64 GPUs, tp = 2) has 34.5 GB allocated between steps, of Llama 3.1
    // 8B (8 GPUs) 44.3: weights, optimizer shard and gradients of two bytes. NeMo's performance
    // scripts of 2025 set cross_entropy_fusion_impl="te" (scripts/performance/helpers.py).
    FrameworkRow{.word = "dgx cloud",
                 .framework = "megatron",
                 .low_precision_gradients = true,
                 .inplace_cross_entropy = true,
                 .fp8_recipe = ScalingRecipe::kDelayed},
    // Its recipes train in pure bf16 (recipes/configs, dtype: bf16; utils set_default_dtype).
    // compile=True compiles layers and loss (training/_compile.py, compile_loss).
    FrameworkRow{
        .word = "torchtune", .framework = "fsdp", .states_as_weights = true, .compiles_loss = true},
    // Models are made in the dtype of their configuration, bf16, and torch.optim.Adam keeps its
    // moments in the weights' dtype (_transformers/auto_model.py, local_torch_dtype); the loss is
    // not cast (examples/llm_benchmark, fp32_upcast). Its experts are Megatron-Core's dispatcher,
    // permutation and weighted activation (components/moe/megatron).
    FrameworkRow{.word = "automodel",
                 .framework = "fsdp",
                 .states_as_weights = true,
                 .bf16_cross_entropy = true,
                 .megatron_experts = true,
                 .sharded_pipeline = true},
    FrameworkRow{"trl", "fsdp"},
    FrameworkRow{.word = "axolotl", .framework = "fsdp", .hugging_face_trainer = true},
    // Both tables are from before 2025.
    FrameworkRow{.word = "unsloth",
                 .framework = "fsdp",
                 .shifted_logits = true,
                 .hugging_face_trainer = true},
    FrameworkRow{.word = "ms-swift benchmark",
                 .framework = "fsdp",
                 .shifted_logits = true,
                 .hugging_face_trainer = true},
    // NVIDIA's submissions train with FP8 parameters and grad_reduce_in_fp32=False (NeMo
    // custom_callbacks and mixed-precision plugin of the submitted code); adapters with LORA_A2A=1
    // (training_results_v4.0, NVIDIA llama2_70b_lora nemo/configs/config_common.sh).
    FrameworkRow{.word = "mlperf",
                 .framework = "megatron",
                 .low_precision_gradients = true,
                 .exchanges_adapters = true,
                 .fp8_recipe = ScalingRecipe::kDelayed},
    // Its runs on B200 have Transformer Engine's loss and cp_comm_type a2a alone
    // (docs/b200/b200_real_repro_guide.md, sections 4 and 7); its script of mixtures fuses the
    // permutation alone (simu_tools/megatron_scripts/scripts/run_pretrain_deepseekv2.sh).
    FrameworkRow{.word = "moorethreads/simumax",
                 .framework = "megatron",
                 .inplace_cross_entropy = true,
                 .cp_kind = CpKind::kUlysses,
                 .eager_router = true},
    // Its manifest of pods has CUDA_DEVICE_MAX_CONNECTIONS=1 (3.test_cases/megatron/
    // megatron-bridge/dsv3/kubernetes/manifests). The cells were started another way, which was not
    // read: that they share it is taken from what overlap gained there, which is what less
    // recomputation and interleaving do. Its script leaves delay_wgrad_compute off
    // (bench_dsv3_pretrain.py).
    FrameworkRow{
        .word = "awsome-distributed-ai", .framework = "megatron", .single_device_connection = true},
    FrameworkRow{"megatron", "megatron"},
    // Its fp8 has scales of earlier steps (collections/llm/recipes/precision, bf16_with_fp8_mixed).
    // Its launcher sets NVTE_FUSED_ATTN=0 from 2024-02-13 to 2024-08-29 ("Disable cudnn FA until
    // we've tested it more": NeMo-Framework-Launcher 562dcb45, 04b8d098, conf/config.yaml).
    FrameworkRow{.word = "nemo",
                 .framework = "megatron",
                 .fp8_recipe = ScalingRecipe::kDelayed,
                 .cudnn_off = {2402, 2408}},
    FrameworkRow{"deepspeed", "deepspeed"},
    FrameworkRow{"fsdp", "fsdp"},
};

}  // namespace

const FrameworkRow* framework_row(const Source& source) {
  const std::string words = source.name + " " + source.title + " " + source.repo;
  for (const FrameworkRow& row : kFrameworks) {
    if (has_word(words, row.word)) return &row;
  }
  return nullptr;
}

}  // namespace meshplan::accuracy
