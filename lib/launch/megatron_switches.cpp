// Options of Megatron-LM that stand for themselves.
#include "base/text.hpp"
#include "base/units.hpp"
#include "launch/megatron_parts.hpp"

namespace meshplan {

void read_switches(ProgramOptions& options, const ShellScript& script, ImportedRun& run) {
  Strategy& s = run.strategy;
  const bool is_program = !script.program.empty();
  s.runtime.check_for_nan_in_loss_and_grad = !options.has("--no-check-for-nan-in-loss-and-grad");
  // Megatron-Bridge's and NeMo's data sets make none (skip_getting_attention_mask_from_dataset).
  const bool no_mask = options.has("--no-create-attention-mask-in-dataloader");
  s.runtime.create_attention_mask_in_dataloader = is_program && !no_mask;
  const Bytes mask = Bytes{s.micro_batch} * s.seq_len * s.seq_len;
  constexpr Bytes kNoticeable{32 * kMiB};  // about a millisecond
  if (s.runtime.create_attention_mask_in_dataloader && mask >= kNoticeable) {
    run.notes.push_back("the data loader makes a mask of " + human_bytes(mask) +
                        " a microbatch, whose copy to the device is counted: "
                        "--no-create-attention-mask-in-dataloader spares it");
  }
  const bool weighted = options.has("--use-fused-weighted-squared-relu");
  if (run.model.moe && run.model.activation == Activation::kRelu2 && !weighted) {
    run.notes.emplace_back(
        "experts' squared ReLU without --use-fused-weighted-squared-relu keeps its output besides, "
        "which is not counted");
  }
  // training/training.py, post_training_step_callbacks: every weight is copied to the host, hashed
  // there, and the hashes are compared.
  const std::string every = options.text("--check-weight-hash-across-dp-replicas-interval");
  if (!every.empty()) {
    run.notes.push_back("behind every " + every +
                        " steps all weights are copied to the host and hashed: no part of the step "
                        "time here");
  }
}

}  // namespace meshplan
