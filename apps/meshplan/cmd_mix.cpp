#include <memory>

#include "console.hpp"
#include "inputs.hpp"
#include "log.hpp"
#include "process_setup.hpp"
#include "report/mixed_text.hpp"
#include "search_flags.hpp"
#include "study/mixed.hpp"

namespace meshplan {
namespace {

struct MixFlags {
  CommonFlags common;
  WorkloadFlags workload;
  SearchFlags search;
  std::string beside, beside_gpus;
};

std::optional<ClusterSpec> read_beside(const MixFlags& flags, Diagnostics& problems) {
  if (flags.beside.empty()) {
    problems.push_back(error("--beside is missing",
                             "name the other kind of machines: a shipped cluster or a file"));
    return std::nullopt;
  }
  std::optional<ClusterSpec> c =
      take(load_cluster(flags.beside, DataFolders::standard()), "--beside", problems);
  const std::int64_t gpus = read_count(flags.beside_gpus, "--beside-gpus", kMostGpus, problems);
  if (!c || gpus == 0) return c;
  Diagnostics found;
  resize(*c, gpus, found);
  for (Diagnostic& d : found) {
    if (d.where.file == "--gpus") d.where.file = "--beside-gpus";
    problems.push_back(std::move(d));
  }
  return c;
}

// A shipped cluster is as large as the largest that was published, not as what is at hand.
void check_sizes(const MixFlags& flags, Diagnostics& problems) {
  if (flags.workload.gpus.empty() && is_shipped_cluster(flags.workload.cluster)) {
    problems.push_back(error("--gpus is missing", "say how many GPUs there are of --cluster"));
  }
  if (flags.beside_gpus.empty() && is_shipped_cluster(flags.beside)) {
    problems.push_back(
        error("--beside-gpus is missing", "say how many GPUs there are of --beside"));
  }
}

int mix(const MixFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const std::optional<ClusterSpec> beside = read_beside(flags, problems);
  check_sizes(flags, problems);
  SearchRequest request = read_request(flags.search, flags.workload, in, problems);
  if (request.objective != Objective::kStepTime) {
    problems.push_back(error_at({"--objective"}, "two kinds of machines are planned for step time",
                                "'meshplan plan' knows other objectives, on one kind"));
  }
  if (has_errors(problems)) return report_errors(problems, flags.common);
  if (with_context_parallelism(flags.search, in, request)) {
    log_info("fine-tuning without context parallelism; --free cp searches it too");
  }
  request.interrupted = &catch_interrupt();
  const MixedClusters own{*in.cluster, *beside};
  const Result<Mixed> found = mixed(*in.model, own, request, progress_bar(flags.common));
  clear_progress_bar(flags.common);
  if (!found) return report_errors(found.errors(), flags.common);
  const bool fits = found->best || found->alone[0] || found->alone[1];
  const int exit_code = fits ? kExitOk : kExitNoPlan;
  if (flags.common.json) {
    return write_result(mixed_document(kTool, *in.model, own, request, *found), exit_code);
  }
  return write_result(mixed_report(*in.model, own, request, *found, console_options()), exit_code);
}

}  // namespace

void add_mix_command(CommandLine& program) {
  const auto flags = std::make_shared<MixFlags>();
  Subcommand command = program.add_command(
      "mix", "Plan one job on two kinds of machines",
      "meshplan mix --model llama-3.1-8b --cluster dgx-h100 --gpus 16 \\\n"
      "      --beside dgx-a100-80gb --beside-gpus 16 --global-batch 256 --seq-len 4096");
  add_workload_flags(command, flags->workload);
  command.add_value("--beside", flags->beside, "NAME|FILE",
                    "The other kind of machines: a shipped cluster or a file (required)");
  command.add_value(
      "--beside-gpus", flags->beside_gpus, "N",
      "GPUs to use of them instead of the whole cluster; needed for a shipped one, as "
      "--gpus is");
  add_search_flags(command, flags->search);
  command.add_common(flags->common);
  command.set_action([flags] { return mix(*flags); });
}

}  // namespace meshplan
