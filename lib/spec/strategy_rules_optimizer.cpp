// Optimizers and losses: what goes with what.
#include <string>

#include "spec/optimizers.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {

void check_optimizer(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::string name(name_of(s.optimizer));
  if (has_own_bits(s.optimizer) && s.optimizer_dtype != Dtype::kFp32) {
    f.error(
        {"optimizer_dtype", "optimizer"},
        "'optimizer_dtype' has no effect: optimizer=" + name + " says itself how it keeps states",
        "optimizer_dtype=fp32");
  }
  if (s.offload.optimizer && s.optimizer != Optimizer::kAdam) {
    f.error({"offload.optimizer", "optimizer"},
            "what updates weights on the host is Adam, not " + name,
            is_paged(s.optimizer) ? "offload.optimizer=false: its pages go there by themselves"
                                  : "offload.optimizer=false");
  }
}

namespace {

void check_loss_chunks(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::int64_t chunks = s.runtime.loss_chunks;
  const std::string key = "'kernels.loss_chunks'";
  if (chunks < 1 || chunks > s.seq_len) {
    f.error({"kernels.loss_chunks", "seq_len"},
            key + " must be between 1 and the tokens of a sequence, got " + std::to_string(chunks),
            "kernels.loss_chunks=8");
  }
  if (chunks <= 1) return;
  if (has_own_models(s.framework) && s.framework != Framework::kTorchtitan) {
    f.error(
        {"kernels.loss_chunks", "framework"},
        key + ": " + std::string(name_of(s.framework)) + " takes the loss of all logits at once",
        "framework=fsdp or torchtitan");
  }
  if (s.runtime.fused_linear_cross_entropy) {
    f.error({"kernels.loss_chunks", "kernels.fused_linear_cross_entropy"},
            key + ": the loss that is fused with the output layer chooses its own chunks",
            "kernels.loss_chunks=1");
  }
  if (s.loss == Loss::kDpo) {
    f.error({"kernels.loss_chunks", "loss"}, key + " is of the loss of the next token, not dpo",
            "kernels.loss_chunks=1");
  }
}

}  // namespace

void check_loss(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const Runtime& k = s.runtime;
  if (k.fused_linear_cross_entropy && has_own_models(s.framework)) {
    f.error({"kernels.fused_linear_cross_entropy", "framework"},
            "'kernels.fused_linear_cross_entropy': " + std::string(name_of(s.framework)) +
                " has no loss fused with the output layer",
            "framework=fsdp or deepspeed");
  }
  if (k.fused_linear_cross_entropy && s.tp > 1) {
    f.error({"kernels.fused_linear_cross_entropy", "tp"},
            "'kernels.fused_linear_cross_entropy' reads the whole vocabulary: it needs tp=1, got " +
                std::to_string(s.tp));
  }
  if (k.fused_linear_cross_entropy && s.loss == Loss::kDpo) {
    f.error({"kernels.fused_linear_cross_entropy", "loss"},
            "'kernels.fused_linear_cross_entropy' is the loss of the next token, not dpo",
            "kernels.fused_linear_cross_entropy=false");
  }
  check_loss_chunks(p, f);
  if (s.loss != Loss::kDpo || s.micro_batch % 2 == 0) return;
  f.error({"micro_batch", "loss"},
          "'micro_batch' counts answers, of which dpo compares two: it must be even, got " +
              std::to_string(s.micro_batch),
          "micro_batch=" + std::to_string(s.micro_batch + 1));
}

// torchtitan components/optimizer.py OptimizersInBackwardContainer, torchtune training/memory.py
// OptimizerInBackwardWrapper.
void check_update(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (!s.runtime.optimizer_in_backward) return;
  const std::string key = "runtime.optimizer_in_backward";
  const auto refuse = [&](std::vector<std::string> keys, const std::string& why,
                          const std::string& hint) {
    keys.insert(keys.begin(), key);
    f.error(keys, "'" + key + "' " + why, hint);
  };
  if (has_own_models(s.framework) && s.framework != Framework::kTorchtitan) {
    refuse({"framework"},
           "is of torchtune and torchtitan: " + std::string(name_of(s.framework)) +
               " updates weights after the backward pass",
           "framework=fsdp or torchtitan");
  }
  if (num_microbatches(s) > 1) {
    refuse({"micro_batch"},
           "needs one microbatch a step, got " + std::to_string(num_microbatches(s)),
           "a larger micro_batch, or " + key + "=false");
  }
  if (s.pp > 1) refuse({"pp"}, "needs pp=1, got " + std::to_string(s.pp), "");
  if (s.offload.optimizer) {
    refuse({"offload.optimizer"}, "updates weights where their gradients are, on the device",
           "offload.optimizer=false");
  }
}

}  // namespace meshplan
