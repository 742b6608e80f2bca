// Options of Megatron-LM that stand for themselves.
#include "base/text.hpp"
#include "base/units.hpp"
#include "launch/megatron_parts.hpp"

namespace meshplan {

void read_switches(ProgramOptions& options, const ShellScript& script, ImportedRun& run) {
  // Megatron-Bridge's and NeMo's data sets make none (skip_getting_attention_mask_from_dataset).
  const bool no_mask = options.has("--no-create-attention-mask-in-dataloader");
  const Strategy& s = run.strategy;
  const Bytes mask = Bytes{s.micro_batch} * s.seq_len * s.seq_len;
  constexpr Bytes kNoticeable{32 * kMiB};  // about a millisecond
  if (!no_mask && !script.program.empty() && mask >= kNoticeable) {
    run.notes.push_back(
        "the data loader makes a mask of " + human_bytes(mask) +
        " a microbatch, as --no-create-attention-mask-in-dataloader would not: its copy is counted "
        "with runtime.create_attention_mask_in_dataloader=true");
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
