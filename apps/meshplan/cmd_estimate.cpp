#include <memory>

#include "console.hpp"
#include "cost/step.hpp"
#include "inputs.hpp"
#include "like_runs.hpp"
#include "report/estimate_text.hpp"
#include "strategy_flag.hpp"

namespace meshplan {
namespace {

struct EstimateFlags {
  CommonFlags common;
  WorkloadFlags workload;
  std::string strategy;
};

int estimate(const EstimateFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const std::optional<Strategy> given = read_strategy(flags.strategy, flags.workload, in, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const ClusterSpec cluster = cluster_for(*given, in);
  Verdict verdict = evaluate(*in.model, cluster, *given);
  if (PlanCost* plan = std::get_if<PlanCost>(&verdict.state))
    add_like_runs(*in.model, cluster, *plan);
  const bool legal =
      verdict.feasible() || verdict.infeasible().reason != InfeasibleReason::kIllegal;
  const int exit_code = verdict.feasible() ? kExitOk : legal ? kExitNoPlan : kExitBadInput;
  const Strategy strategy = verdict.feasible() ? verdict.cost().strategy
                            : legal            ? complete(*given, *in.model, cluster)
                                               : *given;
  if (legal) warn_of_keys(strategy, *in.model, cluster);
  if (flags.common.json) {
    return write_result(estimate_document(kTool, *in.model, cluster, strategy, verdict), exit_code);
  }
  const TextOptions options = console_options();
  if (verdict.feasible()) {
    return write_result(estimate_text(*in.model, cluster, verdict.cost(), options), exit_code);
  }
  const std::string text = subject_text(*in.model, cluster, strategy, options) +
                           strategy_line(strategy) + '\n' + infeasible_text(verdict, options);
  return write_result(text, exit_code);
}

}  // namespace

void add_estimate_command(CommandLine& program) {
  const auto flags = std::make_shared<EstimateFlags>();
  Subcommand command = program.add_command(
      "estimate", "Time, memory and communication of one strategy, term by term",
      "meshplan estimate --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
      "      --strategy tp=2,micro_batch=1 --global-batch 64 --seq-len 4096");
  add_workload_flags(command, flags->workload);
  add_strategy_flag(command, flags->strategy);
  command.add_common(flags->common);
  command.set_action([flags] { return estimate(*flags); });
}

}  // namespace meshplan
