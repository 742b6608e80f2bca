#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "console.hpp"
#include "cost/step.hpp"
#include "inputs.hpp"
#include "io/plans_file.hpp"
#include "io/write.hpp"
#include "launch/launch.hpp"
#include "log.hpp"
#include "strategy_flag.hpp"

namespace meshplan {
namespace {

struct ExportFlags {
  CommonFlags common;
  WorkloadFlags workload;
  std::string plans, rank, strategy, format, out;
};

LaunchFormat read_format(const ExportFlags& flags, Diagnostics& problems) {
  if (!flags.format.empty()) return read_name<LaunchFormat>(flags.format, "--format", problems);
  problems.push_back(error("--format is missing", "one of " + choices_text<LaunchFormat>()));
  return LaunchFormat::kMegatron;
}

// Which plan of a file: a rank, or one of these names.
constexpr std::array<std::string_view, 3> kNamedRanks{"recommended", "fastest", "unbuilt"};

bool is_named(const std::string& rank) {
  return std::find(kNamedRanks.begin(), kNamedRanks.end(), rank) != kNamedRanks.end();
}

// Of a search of everything that is legal, its framework's own is recommended. Where nothing is
// faster at more risk, or than what has been built, the best plan is that as well.
const Strategy* named_plan(const PlansFile& file, const std::string& name) {
  const std::optional<Strategy>& beside = name == "recommended" ? file.runnable
                                          : name == "fastest"   ? file.fastest
                                                                : file.unbuilt;
  if (beside) return &*beside;
  return file.plans.empty() ? nullptr : &file.plans.front().strategy;
}

// One plan of a file that `plan` wrote.
std::optional<LaunchPlan> saved_plan(const ExportFlags& flags, Diagnostics& problems) {
  const WorkloadFlags& w = flags.workload;
  for (const auto& [flag, text] :
       {std::pair{"--model", w.model}, std::pair{"--cluster", w.cluster},
        std::pair{"--strategy", flags.strategy}, std::pair{"--global-batch", w.global_batch},
        std::pair{"--tokens-per-batch", w.tokens_per_batch}, std::pair{"--seq-len", w.seq_len},
        std::pair{"--gpus", w.gpus}, std::pair{"--framework", w.framework}}) {
    if (text.empty()) continue;
    problems.push_back(error(std::string(flag) + " cannot be combined with --plans",
                             "the file says which model, cluster and strategy it is about"));
  }
  const bool named = is_named(flags.rank);
  const bool is_number =
      !flags.rank.empty() && flags.rank.find_first_not_of("0123456789") == std::string::npos;
  if (!flags.rank.empty() && !named && !is_number) {
    const std::optional<std::string> meant = nearest(flags.rank, kNamedRanks);
    problems.push_back(error_at(
        {"--rank"}, "there is no '" + flags.rank + "'",
        meant ? "did you mean '" + *meant + "'?" : "a number, or recommended, fastest or unbuilt"));
    return std::nullopt;
  }
  const std::int64_t rank =
      named ? 1 : std::max<std::int64_t>(read_count(flags.rank, "--rank", kMostPlans, problems), 1);
  const std::optional<PlansFile> file = take(load_plans(flags.plans), "--plans", problems);
  if (!file || has_errors(problems)) return std::nullopt;
  if (named) {
    if (const Strategy* s = named_plan(*file, flags.rank)) {
      return LaunchPlan{file->model, file->cluster, *s};
    }
  }
  for (const SavedPlan& plan : file->plans) {
    if (plan.rank == rank) return LaunchPlan{file->model, file->cluster, plan.strategy};
  }
  problems.push_back(error_at({flags.plans}, "there is no plan of rank " + std::to_string(rank),
                              "it holds " + std::to_string(file->plans.size()) + " plans"));
  return std::nullopt;
}

// The plan of one strategy, complete and legal; whether it fits is said, not required.
std::optional<LaunchPlan> read_plan(const ExportFlags& flags, Diagnostics& problems) {
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const std::optional<Strategy> given = read_strategy(flags.strategy, flags.workload, in, problems);
  if (has_errors(problems)) return std::nullopt;
  ClusterSpec cluster = cluster_for(*given, in);
  const Verdict verdict = evaluate(*in.model, cluster, *given, {.with_remedies = false});
  if (!verdict.feasible() && verdict.infeasible().reason == InfeasibleReason::kIllegal) {
    for (const std::string& message : verdict.infeasible().messages) {
      problems.push_back(error_at({"--strategy"}, message));
    }
    return std::nullopt;
  }
  if (!verdict.feasible()) {
    log_warning("this plan does not fit the memory by " +
                human_bytes(verdict.infeasible().shortfall) + " ('meshplan estimate' says more)");
  }
  Strategy whole =
      verdict.feasible() ? verdict.cost().strategy : complete(*given, *in.model, cluster);
  warn_of_keys(whole, *in.model, cluster);
  return LaunchPlan{*in.model, std::move(cluster), std::move(whole)};
}

int write_files(const ExportFlags& flags, const LaunchFiles& launch) {
  Diagnostics problems;
  std::error_code failure;
  const std::filesystem::path folder = flags.out;
  std::filesystem::create_directories(folder, failure);
  if (failure) problems.push_back(error_at({"--out"}, flags.out + ": " + failure.message()));
  for (const LaunchFile& file : launch.files) {
    if (has_errors(problems)) break;
    take(write_file_atomically(folder / file.name, file.text), "--out", problems);
    log_info("wrote " + (folder / file.name).string());
  }
  return has_errors(problems) ? report_errors(problems, flags.common) : kExitOk;
}

int export_plan(const ExportFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const LaunchFormat format = read_format(flags, problems);
  if (flags.plans.empty() && !flags.rank.empty()) {
    problems.push_back(error("--rank needs --plans"));
  }
  const std::optional<LaunchPlan> plan =
      flags.plans.empty() ? read_plan(flags, problems) : saved_plan(flags, problems);
  if (!plan || has_errors(problems)) return report_errors(problems, flags.common);
  const Result<LaunchFiles> launch = launch_files(format, *plan, kTool.version);
  if (!launch) return report_errors(launch.errors(), flags.common);
  for (const std::string& note : launch->notes) log_warning(note);
  const bool sets_both = format == LaunchFormat::kAxolotl || format == LaunchFormat::kTorchtune;
  const bool usual =
      plan->strategy.optimizer == Optimizer::kAdam && plan->strategy.loss == Loss::kLm;
  if (!usual && !sets_both) {
    log_warning("optimizer=" + std::string(name_of(plan->strategy.optimizer)) +
                ", loss=" + std::string(name_of(plan->strategy.loss)) +
                " are up to the program that trains: what is written here does not set them");
  }
  if (plan->model.lengths) {
    log_warning("packing=" + std::string(name_of(plan->strategy.packing)) +
                " is up to the program that reads the data: what is written here does not set it");
  }
  if (!flags.out.empty()) {
    const int written = write_files(flags, *launch);
    if (written != kExitOk || !flags.common.json) return written;
  }
  return write_result(flags.common.json ? launch->files.back().text : launch->files.front().text,
                      kExitOk);
}

}  // namespace

void add_export_command(CommandLine& program) {
  const auto flags = std::make_shared<ExportFlags>();
  Subcommand command = program.add_command(
      "export", "Write what starts a plan: scripts and framework configurations",
      "meshplan export --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
      "      --strategy tp=2,sequence_parallel=true,micro_batch=1 --global-batch 64 \\\n"
      "      --seq-len 4096 --format megatron");
  command.add_value(
      "--plans", flags->plans, "FILE",
      "A plans.json of 'meshplan plan --out': instead of model, cluster and strategy");
  command.add_value("--rank", flags->rank, "K",
                    "Which of its plans: a number, or recommended (default, the first), fastest "
                    "(whatever its risk of running out of memory), or unbuilt (of --space full)");
  add_workload_flags(command, flags->workload);
  add_strategy_flag(command, flags->strategy);
  std::string formats;
  for (const auto& row : NameTable<LaunchFormat>::rows) {
    formats += (formats.empty() ? "" : "; ") + std::string(row.name) + ": " +
               std::string(description_of(row.value));
  }
  command.add_value("--format", flags->format, "NAME", formats);
  command.add_value("--out", flags->out, "DIR",
                    "Write all files to this folder instead of the main one to standard output");
  command.add_common(flags->common);
  command.set_action([flags] { return export_plan(*flags); });
}

}  // namespace meshplan
