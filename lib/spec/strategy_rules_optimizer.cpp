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
  if (s.loss != Loss::kDpo || s.micro_batch % 2 == 0) return;
  f.error({"micro_batch", "loss"},
          "'micro_batch' counts answers, of which dpo compares two: it must be even, got " +
              std::to_string(s.micro_batch),
          "micro_batch=" + std::to_string(s.micro_batch + 1));
}

}  // namespace meshplan
