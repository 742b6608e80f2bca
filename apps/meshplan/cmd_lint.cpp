#include <memory>

#include "console.hpp"
#include "cost/step.hpp"
#include "inputs.hpp"
#include "launch/import_account.hpp"
#include "launch/lint_json.hpp"
#include "log.hpp"
#include "model/rules.hpp"
#include "read_run.hpp"
#include "report/difference_text.hpp"
#include "study/difference.hpp"
#include "study/same_work.hpp"

namespace meshplan {
namespace {

struct LintFlags {
  CommonFlags common;
  std::vector<std::string> files;
  std::string format, cluster;
  OpenFlags open;
};

// The cluster as large as the run is.
std::optional<ClusterSpec> read_cluster(const LintFlags& flags, const ImportedRun& run,
                                        Diagnostics& problems) {
  if (flags.cluster.empty()) return std::nullopt;
  std::optional<ClusterSpec> cluster =
      take(load_cluster(flags.cluster, DataFolders::standard()), "--cluster", problems);
  if (!cluster) return std::nullopt;
  if (run.world_size == 0) {
    problems.push_back(error("the file does not say how many GPUs the run has", "give --gpus N"));
    return std::nullopt;
  }
  return with_gpus(*std::move(cluster), run.world_size);
}

std::optional<LoadedRun> read_files(const LintFlags& flags, Diagnostics& problems) {
  if (flags.files.empty()) {
    problems.push_back(error("lint needs a file", "for example 'meshplan lint train.sh'"));
    return std::nullopt;
  }
  std::optional<Target> target;
  if (!flags.format.empty()) {
    target = read_choice(
        flags.format, "--format", kReadTargets, [](Target t) { return name_of(t); }, problems);
  }
  // What is not understood is found with the rest, not refused.
  OpenFlags open = flags.open;
  open.lenient = true;
  return read_run(flags.files, target, open, problems);
}

int lint_files(const LintFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const std::optional<LoadedRun> loaded = read_files(flags, problems);
  if (!loaded) return report_errors(problems, flags.common);
  const ImportedRun& run = loaded->run();
  if (run.target == Target::kAccelerate) {
    problems.push_back(error_at({flags.files.front()}, "a recipe has no launch options to check",
                                "'meshplan import recipe' says what it means, --report each key"));
    return report_errors(problems, flags.common);
  }
  const std::optional<ClusterSpec> cluster = read_cluster(flags, run, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  Diagnostics found = loaded->lint(cluster, flags.files.front());
  const OptionTable& table =
      run.target == Target::kDeepspeed ? megatron_deepspeed_options() : megatron_options();
  append(found, account_findings(run, table, flags.files.front()));
  std::optional<SearchResult> plans;
  const bool complete = run.knows_model && run.strategy.seq_len > 0;
  if (cluster && complete && !has_errors(validate(run.model))) {
    plans = best_for_same_work(run.model, *cluster, run.strategy, run.target,
                               progress_bar(flags.common));
    clear_progress_bar(flags.common);
  } else if (cluster && !complete) {
    log_warning("not compared with the planner's choice: " +
                std::string(run.knows_model ? "the length of sequences (--seq-len)"
                                            : "the model (--model)") +
                " is not stated");
  }
  const int exit_code = has_errors(found) ? kExitNoPlan : kExitOk;
  std::optional<PlannerChoice> choice;
  std::string comparison;
  if (plans) {
    const Difference d = difference(run.model, *cluster, plans->plans.front(), run.strategy);
    choice = {plans->plans.front().strategy, plans->plans.front().step_time, std::nullopt};
    if (d.verdict.feasible()) choice->own_step_time = d.verdict.cost().step_time;
    comparison = "\n" + difference_report(run.model, *cluster, d, console_options());
  }
  if (flags.common.json) {
    return write_result(lint_document(kTool.version, run, found, flags.files.front(), choice),
                        exit_code);
  }
  std::string report = to_text(found);
  if (found.empty()) report = "nothing is illegal, ignored or wasteful\n";
  return write_result(report + comparison, exit_code);
}

}  // namespace

void add_lint_command(CommandLine& program) {
  const auto flags = std::make_shared<LintFlags>();
  Subcommand command = program.add_command(
      "lint", "Say what is illegal, ignored or wasteful in the files that start a run",
      "meshplan lint train.sh --cluster dgx-h100 --gpus 64\n"
      "  meshplan lint ds_config.json train.sh --model llama-2-7b --cluster dgx-a100-80gb");
  command.add_values("file", flags->files, "",
                     "A script or argument list of Megatron-LM; DeepSpeed's ds_config.json, "
                     "torchtitan's job file, each with or without the script that starts it");
  command.add_value("--format", flags->format, "NAME",
                    "What the files are, where their text does not tell: megatron, deepspeed or "
                    "torchtitan");
  command.add_value("--cluster", flags->cluster, "NAME|FILE",
                    "Where it runs: a shipped name or a cluster file; compares with the best plan "
                    "there");
  add_open_flags(command, flags->open);
  command.add_common(flags->common);
  command.set_action([flags] { return lint_files(*flags); });
}

}  // namespace meshplan
