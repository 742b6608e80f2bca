// The precision-aware optimizer in launch files of Megatron-LM, and of others.
#include <algorithm>
#include <string>
#include <vector>

#include "frameworks/target.hpp"
#include "launch/megatron_import.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;
using meshplan::test::plan_of;

namespace {

Result<MegatronRun> read_aware(const std::string& more) {
  return read_megatron_run(
      "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
      "--num-attention-heads 8 --seq-length 1024 --micro-batch-size 1 --global-batch-size 8 "
      "--vocab-size 1024 --use-precision-aware-optimizer " +
          more + "\n",
      "train.sh");
}

bool is_asked_for(const std::string& keys) {
  const LaunchCommand command = megatron_command(plan_of("llama-2-7b", "dgx-h100", 8, keys));
  return std::any_of(command.sections.begin(), command.sections.end(), [](const auto& section) {
    return std::any_of(section.lines.begin(), section.lines.end(), [](const auto& line) {
      return line.front() == "--use-precision-aware-optimizer";
    });
  });
}

std::string told(Target target, const std::string& keys) {
  const LaunchPlan p = plan_of("llama-2-7b", "dgx-h100", 8, keys);
  return to_text(target_findings(target, p.strategy, p.model, p.cluster).diagnostics());
}

}  // namespace

TEST_CASE("[F-MEM-14] the precision-aware optimizer is read where it acts, or named") {
  const auto on = read_aware("--bf16 --use-distributed-optimizer");
  INFO((on.ok() ? "" : to_text(on.errors())));
  REQUIRE(on.ok());
  CHECK(on->strategy.runtime.precision_aware_optimizer);
  CHECK(holds_param_remainders(on->strategy));
  const auto low = read_aware("--bf16 --use-distributed-optimizer --exp-avg-dtype bf16");
  REQUIRE(low.ok());
  CHECK(holds_param_remainders(low->strategy));
  for (const char* without : {"--bf16", "--use-distributed-optimizer"}) {
    const auto off = read_aware(without);
    REQUIRE(off.ok());
    CHECK_FALSE(off->strategy.runtime.precision_aware_optimizer);
    CHECK(std::any_of(off->notes.begin(), off->notes.end(), [](const std::string& note) {
      return note.find("it is estimated as without") != std::string::npos;
    }));
  }
  const auto host = read_aware("--bf16 --use-distributed-optimizer --optimizer-cpu-offload");
  REQUIRE(host.ok());
  CHECK_FALSE(host->strategy.runtime.precision_aware_optimizer);
  CHECK(host->strategy.offload.master_weights);
}

TEST_CASE("[F-MEM-14] the precision-aware optimizer is asked for where a plan has it") {
  CHECK(is_asked_for("runtime.precision_aware_optimizer=true"));
  CHECK(is_asked_for("optimizer_dtype=bf16"));
  CHECK_FALSE(is_asked_for("tp=2"));
  CHECK_FALSE(
      is_asked_for("offload.optimizer=true,offload.master_weights=false,"
                   "runtime.precision_aware_optimizer=true"));
  CHECK_THAT(told(Target::kMegatron, "optimizer_dtype=bf16,runtime.param_remainders=false"),
             Contains("stores the remainders"));
  CHECK_THAT(told(Target::kMegatronBridge, "optimizer_dtype=bf16,runtime.param_remainders=false"),
             !Contains("remainders"));
  CHECK_THAT(told(Target::kAccelerate, "runtime.precision_aware_optimizer=true"),
             Contains("Transformer Engine's"));
}
