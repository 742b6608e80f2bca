#include <filesystem>
#include <memory>

#include "console.hpp"
#include "cost/step.hpp"
#include "inputs.hpp"
#include "report/estimate_text.hpp"

namespace meshplan {
namespace {

struct EstimateFlags {
  CommonFlags common;
  WorkloadFlags workload;
  std::string strategy;
};

// A key that a flag and the strategy may both set: they must agree, and one must be there.
void check_key(std::int64_t from_flag, std::int64_t value, const std::string& flag,
               const std::string& key, Diagnostics& problems) {
  if (value == 0) {
    problems.push_back(
        error(flag + " is missing", "give " + flag + " N, or " + key + "=N in the strategy"));
  } else if (from_flag != 0 && from_flag != value) {
    problems.push_back(error(flag + " is " + std::to_string(from_flag) +
                                 ", but the strategy says " + key + "=" + std::to_string(value),
                             "leave one of them out"));
  }
}

std::optional<Strategy> read_strategy(const EstimateFlags& flags, const WorkloadInputs& in,
                                      Diagnostics& problems) {
  if (flags.strategy.empty()) {
    problems.push_back(
        error("--strategy is missing",
              "for example --strategy tp=2,pp=2,micro_batch=1, or the path of a file"));
    return std::nullopt;
  }
  std::error_code failure;
  if (flags.strategy.find('=') == std::string::npos &&
      !std::filesystem::exists(flags.strategy, failure)) {
    problems.push_back(error_at({"--strategy"},
                                "'" + flags.strategy + "' is neither a file nor keys",
                                "write key=value,..., for example tp=2,pp=2,micro_batch=1"));
    return std::nullopt;
  }
  Strategy defaults = framework_preset(in.framework);
  defaults.global_batch = in.global_batch;
  defaults.seq_len = in.seq_len;
  defaults.dp = 0;  // what the cluster leaves
  const std::optional<Strategy> s =
      take(load_strategy(flags.strategy, defaults), "--strategy", problems);
  if (!s) return std::nullopt;
  check_key(in.global_batch, s->global_batch, "--global-batch", "global_batch", problems);
  check_key(in.seq_len, s->seq_len, "--seq-len", "seq_len", problems);
  if (!flags.workload.framework.empty() && s->framework != in.framework) {
    problems.push_back(
        error("--framework is " + flags.workload.framework +
                  ", but the strategy says framework=" + std::string(name_of(s->framework)),
              "leave one of them out"));
  }
  return s;
}

// Without --gpus a strategy that states its size uses that much of the cluster.
ClusterSpec cluster_for(const Strategy& s, const WorkloadInputs& in) {
  const std::int64_t wanted = num_gpus(s);
  const std::int64_t per_node = in.cluster->gpus_per_node;
  const bool whole = wanted > 0 && (wanted <= per_node || wanted % per_node == 0);
  if (in.gpus > 0 || !whole || wanted >= num_gpus(*in.cluster)) return *in.cluster;
  return with_gpus(*in.cluster, wanted);
}

int estimate(const EstimateFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const std::optional<Strategy> given = read_strategy(flags, in, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const ClusterSpec cluster = cluster_for(*given, in);
  const Verdict verdict = evaluate(*in.model, cluster, *given);
  const bool legal =
      verdict.feasible() || verdict.infeasible().reason != InfeasibleReason::kIllegal;
  const int exit_code = verdict.feasible() ? kExitOk : legal ? kExitNoPlan : kExitBadInput;
  const Strategy strategy = verdict.feasible() ? verdict.cost().strategy
                            : legal            ? complete(*given, *in.model, cluster)
                                               : *given;
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

void add_estimate_command(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<EstimateFlags>();
  CLI::App* command =
      add_command(app, "estimate", "Time, memory and communication of one strategy, term by term",
                  "meshplan estimate --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
                  "      --strategy tp=2,micro_batch=1 --global-batch 64 --seq-len 4096");
  add_workload_flags(*command, flags->workload);
  command
      ->add_option("--strategy", flags->strategy,
                   "The strategy: key=value,... or a YAML or JSON file of these keys (required)")
      ->type_name("KEYS|FILE");
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return estimate(*flags); }; });
}

}  // namespace meshplan
