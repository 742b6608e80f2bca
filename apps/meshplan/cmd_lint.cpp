#include <memory>

#include "console.hpp"
#include "cost/step.hpp"
#include "inputs.hpp"
#include "launch/lint_json.hpp"
#include "report/difference_text.hpp"
#include "study/difference.hpp"

namespace meshplan {
namespace {

struct LintFlags {
  CommonFlags common;
  std::string file, cluster, gpus;
};

// The cluster as large as the run is.
std::optional<ClusterSpec> read_cluster(const LintFlags& flags, MegatronRun& run,
                                        Diagnostics& problems) {
  constexpr std::int64_t kMostGpus = 16'777'216;
  const std::int64_t stated = read_count(flags.gpus, "--gpus", kMostGpus, problems);
  if (stated > 0) run.world_size = stated;
  run.strategy = with_world(run, run.world_size);
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

// The best plan that Megatron-LM can be told for the same work.
std::optional<SearchResult> plan_for(const MegatronRun& run, const ClusterSpec& cluster,
                                     const CommonFlags& common) {
  SearchRequest request;
  request.base = framework_preset(Framework::kMegatron);
  request.base.precision = run.strategy.precision;
  request.base.global_batch = run.strategy.global_batch;
  request.base.seq_len = run.strategy.seq_len;
  request.space = Space::kMegatron;
  request.top = 1;
  Result<SearchResult> found = search(run.model, cluster, request, progress_bar(common));
  clear_progress_bar(common);
  if (!found || found->plans.empty()) return std::nullopt;
  return std::move(found).value();
}

int lint_file(const LintFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  if (flags.file.empty()) {
    problems.push_back(error("lint needs a file", "for example 'meshplan lint train.sh'"));
    return report_errors(problems, flags.common);
  }
  const std::optional<std::string> text = take(read_text_file(flags.file), flags.file, problems);
  if (!text) return report_errors(problems, flags.common);
  std::optional<MegatronRun> run = take(read_megatron_run(*text, flags.file), flags.file, problems);
  if (!run) return report_errors(problems, flags.common);
  const std::optional<ClusterSpec> cluster = read_cluster(flags, *run, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const Diagnostics found = lint(*run, cluster, flags.file);
  std::optional<SearchResult> plans;
  if (cluster && !has_errors(validate(run->model))) plans = plan_for(*run, *cluster, flags.common);
  const int exit_code = has_errors(found) ? kExitNoPlan : kExitOk;
  std::optional<PlannerChoice> choice;
  std::string comparison;
  if (plans) {
    const Difference d = difference(run->model, *cluster, plans->plans.front(), run->strategy);
    choice = {plans->plans.front().strategy, plans->plans.front().step_time, std::nullopt};
    if (d.verdict.feasible()) choice->own_step_time = d.verdict.cost().step_time;
    comparison = "\n" + difference_report(run->model, *cluster, d, console_options());
  }
  if (flags.common.json) {
    return write_result(lint_document(kTool.version, *run, found, flags.file, choice), exit_code);
  }
  std::string report = to_text(found);
  if (found.empty()) report = "nothing is illegal, ignored or wasteful\n";
  return write_result(report + comparison, exit_code);
}

}  // namespace

void add_lint_command(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<LintFlags>();
  CLI::App* command = add_command(
      app, "lint", "Say what is illegal, ignored or wasteful in a launch script of Megatron-LM",
      "meshplan lint train.sh --cluster dgx-h100 --gpus 64");
  command->add_option("file", flags->file, "A script or argument list of pretrain_gpt.py")
      ->type_name("");
  command
      ->add_option("--cluster", flags->cluster,
                   "Where it runs: a shipped name or a cluster file; compares with the best plan "
                   "there")
      ->type_name("NAME|FILE");
  command->add_option("--gpus", flags->gpus, "GPUs of the run, where the file does not say")
      ->type_name("N");
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return lint_file(*flags); }; });
}

}  // namespace meshplan
