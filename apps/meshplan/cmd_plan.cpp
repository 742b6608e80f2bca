#include <memory>
#include <spdlog/spdlog.h>

#include "base/quantity.hpp"
#include "console.hpp"
#include "inputs.hpp"
#include "io/limits.hpp"
#include "io/write.hpp"
#include "report/plan_table.hpp"
#include "search/search.hpp"

namespace meshplan {
namespace {

constexpr std::array kObjectives{Objective::kStepTime, Objective::kCost, Objective::kMemory};
constexpr std::array kSpaces{Space::kFull, Space::kMegatron, Space::kDeepspeed, Space::kFsdp};
constexpr std::int64_t kMostThreads = 1024, kMostPlans = 10'000;

struct PlanFlags {
  CommonFlags common;
  WorkloadFlags workload;
  std::string top = "5", objective = "step-time", space = "full", precision, threads, time_limit,
              out;
  std::vector<std::string> fixed, limits;
  bool without_activations = false, explain_infeasible = false;
};

std::vector<Limit> read_limits(const PlanFlags& flags, Diagnostics& problems) {
  std::vector<Limit> all;
  const auto read = [&](const std::vector<std::string>& texts, std::string_view flag) {
    for (const std::string& text : texts) {
      const std::optional<std::vector<Limit>> some =
          take(parse_limits(text, std::string(flag)), flag, problems);
      if (some) all.insert(all.end(), some->begin(), some->end());
    }
  };
  read(flags.fixed, "--fix");
  read(flags.limits, "--limit");
  return all;
}

SearchRequest read_request(const PlanFlags& flags, const WorkloadInputs& in,
                           Diagnostics& problems) {
  SearchRequest request;
  request.base = framework_preset(in.framework);
  if (flags.workload.global_batch.empty()) {
    problems.push_back(
        error("--global-batch is missing", "give the number of sequences of one step"));
  }
  if (flags.workload.seq_len.empty()) {
    problems.push_back(error("--seq-len is missing", "give the number of tokens of one sequence"));
  }
  request.base.global_batch = in.global_batch;
  request.base.seq_len = in.seq_len;
  if (!flags.precision.empty()) {
    request.base.precision = read_name<Precision>(flags.precision, "--precision", problems);
  }
  request.limits = read_limits(flags, problems);
  request.objective = read_choice(
      flags.objective, "--objective", kObjectives, [](Objective o) { return name_of(o); },
      problems);
  request.space = read_choice(
      flags.space, "--space", kSpaces, [](Space s) { return name_of(s); }, problems);
  request.top = static_cast<std::size_t>(read_count(flags.top, "--top", kMostPlans, problems));
  request.threads =
      static_cast<int>(read_count(flags.threads, "--threads", kMostThreads, problems));
  if (!flags.time_limit.empty()) {
    request.time_limit = take(parse_time(flags.time_limit), "--time-limit", problems);
  }
  request.ignore_activations = flags.without_activations;
  return request;
}

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
  const SearchRequest request = read_request(flags, in, problems);
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

void add_search_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("--top", flags.top, "Plans to show (default 5)")->type_name("K");
  command.add_option("--objective", flags.objective, "step-time (default), cost or memory")
      ->type_name("NAME");
  command
      .add_option("--space", flags.space,
                  "What to search: full (default), or what a framework can run: megatron, "
                  "deepspeed, fsdp")
      ->type_name("NAME");
  command.add_option("--fix", flags.fixed, "Keys that are given: tp=8,schedule=1f1b")
      ->type_name("KEYS")
      ->allow_extra_args(false);
  command.add_option("--limit", flags.limits, "Bounds of keys: tp<=8,pp>=2")
      ->type_name("BOUNDS")
      ->allow_extra_args(false);
  command
      .add_option("--precision", flags.precision,
                  "Of the matrix products (default: the framework's): " + choices_text<Precision>())
      ->type_name("NAME");
  command.add_option("--threads", flags.threads, "Threads of the search (default: one per core)")
      ->type_name("N");
  command
      .add_option("--time-limit", flags.time_limit,
                  "Stop searching after this time, for example \"30 s\"; may leave a gap to the "
                  "proved optimum")
      ->type_name("TIME");
  command.add_option("--out", flags.out, "Also write plans.json and plans.txt to this folder")
      ->type_name("DIR");
  command.add_flag("--without-activations", flags.without_activations,
                   "Count model states only, as rules of thumb do");
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
  add_search_flags(*command, *flags);
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return plan(*flags); }; });
}

}  // namespace meshplan
