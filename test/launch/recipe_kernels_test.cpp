// Switches of recipes that change kernels, the loss and where checkpoints are.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "launch/recipe_import.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

constexpr const char* kAxolotlLora =
    "base_model: meta-llama/Llama-3.1-8B\nadapter: lora\nlora_r: 16\nlora_target_linear: true\n"
    "sequence_len: 4096\nmicro_batch_size: 2\nbf16: auto\n";
constexpr const char* kLlamaFactoryLora =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: lora\nlora_target: all\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n";
constexpr const char* kTorchtuneFull =
    "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\ntokenizer:\n  max_seq_len: "
    "4096\n"
    "batch_size: 2\ndtype: bf16\n";

Strategy strategy_of(const std::string& recipe) {
  const std::array<NamedText, 1> files{NamedText{"recipe.yaml", recipe}};
  RunContext context;
  context.gpus = 4;
  const Result<SettingsRun> run = read_recipe_run(files, context);
  if (!run) FAIL(to_text(run.errors()));
  return run->strategy;
}

}  // namespace

TEST_CASE("a recipe's attention is PyTorch's unless it names one or packs rows") {
  const auto attention = [](const char* recipe, const char* keys) {
    const Strategy s = strategy_of(std::string(recipe) + keys);
    return std::pair{s.flash_attention, s.runtime.attention};
  };
  using enum AttentionKernel;
  CHECK(attention(kLlamaFactoryLora, "") == std::pair{true, kBest});
  CHECK(attention(kLlamaFactoryLora, "flash_attn: sdpa\n") == std::pair{true, kBest});
  CHECK(attention(kLlamaFactoryLora, "flash_attn: fa2\n") == std::pair{true, kFlash2});
  CHECK_FALSE(attention(kLlamaFactoryLora, "flash_attn: disabled\n").first);
  CHECK(attention(kAxolotlLora, "attn_implementation: sdpa\n") == std::pair{true, kBest});
  CHECK(attention(kAxolotlLora, "flash_attention: true\n") == std::pair{true, kFlash2});
  CHECK(attention(kAxolotlLora, "sdp_attention: true\nsample_packing: true\n") ==
        std::pair{true, kFlash2});
  CHECK_FALSE(attention(kAxolotlLora, "attn_implementation: eager\n").first);
}

TEST_CASE("attention that nobody knows is named") {
  const auto named = [](const std::string& keys) {
    const std::vector<NamedText> files{{"recipe.yaml", std::string(kAxolotlLora) + keys}};
    RunContext context;
    context.gpus = 4;
    const Result<SettingsRun> run = read_recipe_run(files, context);
    REQUIRE(run.ok());
    return std::count_if(run->notes.begin(), run->notes.end(), [](const std::string& note) {
      return note.find("is not known") != std::string::npos;
    });
  };
  CHECK(named("attn_implementation: flash_attention_2\n") == 0);
  CHECK(named("") == 0);
  CHECK(named("attn_implementation: flash_attention_9\n") == 1);
}

TEST_CASE("axolotl names each of Liger's kernels, and cut cross entropy") {
  const Runtime plain = strategy_of(kAxolotlLora).runtime;
  CHECK_FALSE(plain.fused_norm);
  CHECK_FALSE(plain.fused_rope);
  CHECK_FALSE(plain.fused_activation);
  CHECK_FALSE(plain.fused_linear_cross_entropy);
  const Runtime some =
      strategy_of(std::string(kAxolotlLora) + "liger_rms_norm: true\nliger_glu_activation: true\n")
          .runtime;
  CHECK(some.fused_norm);
  CHECK(some.fused_activation);
  CHECK_FALSE(some.fused_rope);
  for (const char* loss :
       {"liger_fused_linear_cross_entropy: true\n", "cut_cross_entropy: true\n"}) {
    CHECK(strategy_of(std::string(kAxolotlLora) + loss).runtime.fused_linear_cross_entropy);
  }
  const Runtime whole =
      strategy_of(std::string(kAxolotlLora) + "liger_cross_entropy: true\n").runtime;
  CHECK(whole.inplace_cross_entropy);
  CHECK_FALSE(whole.fused_linear_cross_entropy);
}

TEST_CASE("axolotl's kernels of adapters are on where they can be, unless one is named") {
  const std::string adapters = kAxolotlLora;
  CHECK(strategy_of(adapters).runtime.fused_lora);
  CHECK(strategy_of(adapters + "lora_qkv_kernel: true\n").runtime.fused_lora);
  CHECK_FALSE(strategy_of(adapters + "lora_mlp_kernel: false\n").runtime.fused_lora);
  CHECK_FALSE(strategy_of(adapters + "load_in_8bit: true\n").runtime.fused_lora);
  CHECK(strategy_of(adapters + "lora_dropout: 0.1\n").runtime.fused_lora);
  CHECK_FALSE(strategy_of(adapters + "trust_remote_code: true\n").runtime.fused_lora);
  CHECK_FALSE(strategy_of(kLlamaFactoryLora).runtime.fused_lora);
}

TEST_CASE("PyTorch's Adam is fused, or foreach where a recipe says adamw_torch") {
  const std::string whole = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nbf16: auto\n";
  CHECK(strategy_of(whole).runtime.fused_optimizer);
  CHECK(strategy_of(whole + "optimizer: adamw_torch_fused\n").runtime.fused_optimizer);
  CHECK_FALSE(strategy_of(whole + "optimizer: adamw_torch\n").runtime.fused_optimizer);
  const std::string torchtune = kTorchtuneFull;
  CHECK_FALSE(strategy_of(torchtune).runtime.fused_optimizer);
  CHECK(strategy_of(torchtune + "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n")
            .runtime.fused_optimizer);
}

TEST_CASE("LLaMA-Factory's switch is all of Liger, but not its loss for pairs of answers") {
  const Strategy s = strategy_of(std::string(kLlamaFactoryLora) + "enable_liger_kernel: true\n");
  CHECK(s.runtime.fused_norm);
  CHECK(s.runtime.fused_rope);
  CHECK(s.runtime.fused_activation);
  CHECK(s.runtime.fused_linear_cross_entropy);
  const Strategy pairs =
      strategy_of(std::string(kLlamaFactoryLora) + "stage: dpo\nenable_liger_kernel: true\n");
  CHECK(pairs.runtime.fused_norm);
  CHECK_FALSE(pairs.runtime.fused_linear_cross_entropy);
}

TEST_CASE("torch.compile joins element-wise operations, torchtune's the loss too") {
  const Runtime plain = strategy_of(kTorchtuneFull).runtime;
  CHECK_FALSE(plain.fused_norm);
  CHECK_FALSE(plain.fused_cross_entropy);
  const Runtime torchtune = strategy_of(std::string(kTorchtuneFull) + "compile: True\n").runtime;
  CHECK(torchtune.fused_norm);
  CHECK(torchtune.fused_rope);
  CHECK(torchtune.fused_activation);
  CHECK(torchtune.inplace_cross_entropy);
  const Runtime axolotl = strategy_of(std::string(kAxolotlLora) + "torch_compile: true\n").runtime;
  CHECK(axolotl.fused_norm);
  CHECK_FALSE(axolotl.fused_cross_entropy);
}

TEST_CASE("checkpoints on the host as recipes ask for them") {
  const std::string adapters = kAxolotlLora;
  const std::string whole = "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nbf16: auto\n";
  const Strategy inputs = strategy_of(
      adapters + "gradient_checkpointing: true\nactivation_offloading: hidden_states\n");
  CHECK(inputs.recompute == Recompute::kFull);
  CHECK(inputs.runtime.host_checkpoints);
  // Beside frozen weights other offloading replaces recomputation.
  const Strategy saved = strategy_of(adapters + "gradient_checkpointing: offload\n");
  CHECK(saved.recompute == Recompute::kNone);
  CHECK(saved.offload.activations);
  CHECK_FALSE(saved.runtime.host_checkpoints);
  CHECK(strategy_of(whole + "gradient_checkpointing: offload\n").runtime.host_checkpoints);
  const Strategy plain = strategy_of(std::string(kAxolotlLora) + "gradient_checkpointing: true\n");
  CHECK_FALSE(plain.runtime.host_checkpoints);
  CHECK(strategy_of(std::string(kLlamaFactoryLora) + "use_unsloth_gc: true\n")
            .runtime.host_checkpoints);
  const Strategy torchtune =
      strategy_of(std::string(kTorchtuneFull) +
                  "enable_activation_checkpointing: true\nenable_activation_offloading: true\n");
  CHECK(torchtune.runtime.host_checkpoints);
  CHECK_FALSE(torchtune.offload.activations);
}

TEST_CASE("a loss in chunks, and updates in the backward pass, are read of recipes") {
  const std::string torchtune = kTorchtuneFull;
  CHECK(strategy_of(torchtune +
                    "loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}\n")
            .runtime.loss_chunks == 8);
  const Strategy stated = strategy_of(
      torchtune +
      "loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss, num_output_chunks: 4}\n"
      "optimizer_in_bwd: true\n");
  CHECK(stated.runtime.loss_chunks == 4);
  CHECK(stated.runtime.optimizer_in_backward);
  CHECK(strategy_of(torchtune).runtime.loss_chunks == 1);
  CHECK_FALSE(strategy_of(torchtune).runtime.optimizer_in_backward);
  const std::string axolotl = kAxolotlLora;
  CHECK(strategy_of(axolotl + "chunked_cross_entropy: true\n").runtime.loss_chunks == 8);
  CHECK(strategy_of(axolotl + "chunked_cross_entropy: true\nchunked_cross_entropy_num_chunks: 16\n")
            .runtime.loss_chunks == 16);
  CHECK(strategy_of(axolotl + "chunked_cross_entropy: false\n").runtime.loss_chunks == 1);
}

}  // namespace meshplan
