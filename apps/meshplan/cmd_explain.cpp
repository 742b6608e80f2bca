#include <memory>

#include "console.hpp"
#include "frameworks/preset.hpp"
#include "inputs.hpp"
#include "like_runs.hpp"
#include "report/difference_text.hpp"
#include "search_flags.hpp"
#include "strategy_flag.hpp"
#include "study/difference.hpp"

namespace meshplan {
namespace {

struct ExplainFlags {
  CommonFlags common;
  WorkloadFlags workload;
  SearchFlags search;
  std::string strategy;
};

// What to compare with: the best plan for the same work in the same framework and precision.
SearchRequest request_for(const ExplainFlags& flags, WorkloadInputs in,
                          const std::optional<Strategy>& given, Diagnostics& problems) {
  WorkloadFlags workload = flags.workload;
  if (given) {
    in.global_batch = given->global_batch;
    in.seq_len = given->seq_len;
    in.preset = &preset_of(*given);
  }
  // What is missing was reported with the strategy.
  workload.global_batch = workload.seq_len = "stated";
  SearchRequest request = read_request(flags.search, workload, in, problems);
  if (given && flags.search.precision.empty()) request.base.precision = given->precision;
  return request;
}

int exit_code_of(const Verdict& v) {
  if (v.feasible()) return kExitOk;
  return v.infeasible().reason == InfeasibleReason::kIllegal ? kExitBadInput : kExitNoPlan;
}

int explain_strategy(const ExplainFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  const std::optional<Strategy> given = read_strategy(flags.strategy, flags.workload, in, problems);
  const SearchRequest request = request_for(flags, in, given, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const ClusterSpec cluster = cluster_for(*given, in);
  const Result<SearchResult> found =
      search(*in.model, cluster, request, progress_bar(flags.common));
  clear_progress_bar(flags.common);
  if (!found) return report_errors(found.errors(), flags.common);
  if (found->plans.empty()) {
    problems.push_back(error("there is no plan to compare with: none fits",
                             "'meshplan plan' with the same flags says what misses by least"));
    const int reported = report_errors(problems, flags.common);
    return reported == kExitBadInput ? static_cast<int>(kExitNoPlan) : reported;
  }
  Difference d = difference(*in.model, cluster, found->plans.front(), *given);
  add_like_runs(*in.model, cluster, d.best);
  if (d.cost) add_like_runs(*in.model, cluster, *d.cost);
  if (d.verdict.feasible()) warn_of_keys(d.verdict.cost().strategy, *in.model, cluster);
  if (flags.common.json) {
    return write_result(explain_document(kTool, *in.model, cluster, request, *found, d),
                        exit_code_of(d.verdict));
  }
  return write_result(difference_report(*in.model, cluster, d, console_options()),
                      exit_code_of(d.verdict));
}

}  // namespace

void add_explain_command(CommandLine& program) {
  const auto flags = std::make_shared<ExplainFlags>();
  Subcommand command = program.add_command(
      "explain", "Why not this strategy: term by term against the best plan",
      "meshplan explain --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
      "      --strategy tp=4,pp=2,micro_batch=1 --global-batch 64 --seq-len 4096");
  add_workload_flags(command, flags->workload);
  add_strategy_flag(command, flags->strategy);
  add_search_flags(command, flags->search);
  command.add_common(flags->common);
  command.set_action([flags] { return explain_strategy(*flags); });
}

}  // namespace meshplan
