#include <memory>
#include <spdlog/spdlog.h>

#include "console.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "report/plan_table.hpp"
#include "search_flags.hpp"

namespace meshplan {
namespace {

struct PlanFlags {
  CommonFlags common;
  WorkloadFlags workload;
  SearchFlags search;
  std::string out;
  bool explain_infeasible = false;
};

// Made before the search, so that nobody waits for a result that has no place.
void make_folder(const std::string& folder, Diagnostics& problems) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) problems.push_back(error_at({"--out"}, folder + ": " + failure.message()));
}

// plans.json for other programs and plans.txt for people.
int write_outputs(const PlanFlags& flags, const std::string& json, const std::string& text) {
  const std::filesystem::path folder = flags.out;
  Diagnostics problems;
  take(write_file_atomically(folder / "plans.json", json), "--out", problems);
  take(write_file_atomically(folder / "plans.txt", text), "--out", problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  spdlog::info("wrote {} and {}", (folder / "plans.json").string(),
               (folder / "plans.txt").string());
  return kExitOk;
}

int plan(const PlanFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const SearchRequest request = read_request(flags.search, flags.workload, in, problems);
  if (!flags.out.empty() && !has_errors(problems)) make_folder(flags.out, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const Result<SearchResult> found =
      search(*in.model, *in.cluster, request, progress_bar(flags.common));
  clear_progress_bar(flags.common);
  if (!found) return report_errors(found.errors(), flags.common);
  spdlog::debug("evaluated {} of {} strategies", found->statistics.evaluated,
                found->statistics.space_size);

  const SearchTextOptions what{.every_reason = flags.explain_infeasible};
  const int exit_code = found->plans.empty() ? kExitNoPlan : kExitOk;
  std::string json;
  if (flags.common.json || !flags.out.empty()) {
    const PlanDetail detail = plan_detail(*in.model, *in.cluster, request, *found);
    json = plan_document(kTool, *in.model, *in.cluster, request, *found, &detail);
  }
  if (!flags.out.empty()) {
    const TextOptions plain;
    const int written = write_outputs(
        flags, json, search_report(*in.model, *in.cluster, request, *found, what, plain));
    if (written != kExitOk) return written;
  }
  if (flags.common.json) return write_result(json, exit_code);
  return write_result(
      search_report(*in.model, *in.cluster, request, *found, what, console_options()), exit_code);
}

void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--out", flags.out, "Also write plans.json and plans.txt to this folder")
      ->type_name("DIR");
  command.add_flag("--explain-infeasible", flags.explain_infeasible,
                   "Count what was ruled out by reason");
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* command =
      add_command(app, "plan", "Find the best strategies for a model on a cluster",
                  "meshplan plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
                  "      --global-batch 64 --seq-len 4096 --limit 'tp<=4'");
  add_workload_flags(*command, flags->workload);
  flags->search.top = "5";
  command->add_option("--top", flags->search.top, "Plans to show (default 5)")->type_name("K");
  add_search_flags(*command, flags->search);
  add_plan_flags(*command, *flags);
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return plan(*flags); }; });
}

}  // namespace meshplan
