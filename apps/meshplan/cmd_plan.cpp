#include <memory>

#include "console.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "like_runs.hpp"
#include "log.hpp"
#include "process_setup.hpp"
#include "report/html.hpp"
#include "report/plan_table.hpp"
#include "report/study_text.hpp"
#include "search_flags.hpp"
#include "study_flags.hpp"

namespace meshplan {
namespace {

struct PlanFlags {
  CommonFlags common;
  WorkloadFlags workload;
  SearchFlags search;
  StudyFlags studies;
  std::string out, html, maximise;
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
  log_info("wrote " + (folder / "plans.json").string() + " and " + (folder / "plans.txt").string());
  return kExitOk;
}

int write_html(const PlanFlags& flags, const std::string& json) {
  Diagnostics problems;
  take(write_file_atomically(flags.html, html_report(json)), "--html", problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  log_info("wrote " + flags.html);
  return kExitOk;
}

struct Inputs {
  WorkloadInputs workload;
  std::optional<MaximisedKey> maximised;
  SearchRequest request;
  StudyRequest studies;
};

// A cluster file of the user's own says how many GPUs there are; a shipped one how many there were
// where it was published.
bool plans_every_size(const WorkloadFlags& flags) {
  return flags.gpus.empty() && is_shipped_cluster(flags.cluster);
}

// How long sequences can be is asked up to --seq-len, or up to the model's context.
void open_length(const PlanFlags& flags, WorkloadFlags& workload, Inputs& in,
                 Diagnostics& problems) {
  if (flags.maximise.empty()) return;
  in.maximised = read_name<MaximisedKey>(flags.maximise, "--maximise", problems);
  if (plans_every_size(flags.workload) || !in.studies.sizes.empty()) {
    problems.push_back(error("--maximise is of one size of the cluster", "give --gpus N"));
  }
  if (in.maximised != MaximisedKey::kSeqLen || !workload.seq_len.empty() || !in.workload.model) {
    return;
  }
  in.workload.seq_len = in.workload.model->max_seq_length;
  workload.seq_len = std::to_string(in.workload.seq_len);
}

Inputs read_inputs(const PlanFlags& flags, Diagnostics& problems) {
  Inputs in;
  WorkloadFlags workload = flags.workload;
  std::vector<std::int64_t> sizes = read_sizes(workload.gpus, problems);
  if (is_sizes(workload.gpus)) workload.gpus.clear();  // each is checked below
  in.workload = read_workload(workload, problems);
  if (in.workload.cluster) {
    if (plans_every_size(flags.workload)) sizes = every_size(*in.workload.cluster);
    for (const std::int64_t size : sizes) {
      ClusterSpec resized = *in.workload.cluster;
      resize(resized, size, problems);
    }
    if (!sizes.empty() && !has_errors(problems)) warn_of_size(*in.workload.cluster, sizes.back());
  }
  in.workload.sizes = has_errors(problems) ? std::vector<std::int64_t>() : sizes;
  in.studies = read_studies(flags.studies, problems);
  in.studies.sizes = std::move(sizes);
  open_length(flags, workload, in, problems);
  in.request = read_request(flags.search, workload, in.workload, problems);
  in.studies.decisions = in.request.top;
  return in;
}

void say_sizes(const Inputs& in) {
  const std::vector<std::int64_t>& sizes = in.studies.sizes;
  log_info("--gpus is not given: searching " + std::to_string(sizes.size()) + " sizes of " +
           in.workload.cluster->name + ", from " + with_thousands(sizes.front()) + " to " +
           with_thousands(sizes.back()) + " GPUs; --gpus N searches one");
}

int plan(const PlanFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  Inputs in = read_inputs(flags, problems);
  if (!flags.html.empty()) check_page(problems);
  if (!flags.out.empty() && !has_errors(problems)) make_folder(flags.out, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const bool every_size = plans_every_size(flags.workload);
  if (every_size) say_sizes(in);
  std::optional<Maximum> maximum;
  if (in.maximised) {
    SearchRequest first = in.request;
    first.interrupted = &catch_interrupt();
    const Result<Maximum> largest = maximise(*in.workload.model, *in.workload.cluster, first,
                                             *in.maximised, progress_bar(flags.common));
    clear_progress_bar(flags.common);
    if (!largest) return report_errors(largest.errors(), flags.common);
    maximum = *largest;
    in.request =
        with_value(in.request, *in.maximised, maximum->value > 0 ? maximum->value : maximum->least);
  }
  SearchRequest request = in.request;
  request.interrupted = &catch_interrupt();
  Result<Answer> found = answer(*in.workload.model, *in.workload.cluster, request, in.studies,
                                progress_bar(flags.common));
  clear_progress_bar(flags.common);
  const std::optional<SearchRequest> wider =
      with_context_parallelism(flags.search, in.workload, in.request);
  if (wider && found && found->result.plans.empty()) {
    log_info("nothing fits without context parallelism: searching with it");
    in.request = request = *wider;
    request.interrupted = &catch_interrupt();
    found = answer(*in.workload.model, *in.workload.cluster, request, in.studies,
                   progress_bar(flags.common));
    clear_progress_bar(flags.common);
  } else if (wider) {
    log_info("fine-tuning without context parallelism; --free cp searches it too");
  }
  if (!found) return report_errors(found.errors(), flags.common);
  const ModelSpec& m = *in.workload.model;
  const ClusterSpec& cluster = found->cluster;
  add_like_runs(m, cluster, found.value().result.plans);
  const SearchResult& result = found->result;
  found.value().studies.maximum = maximum;
  const Studies& studies = found->studies;
  log_debug("evaluated " + std::to_string(result.statistics.evaluated) + " of " +
            std::to_string(result.statistics.space_size) + " strategies");

  const int exit_code = result.plans.empty() ? kExitNoPlan : kExitOk;
  std::string json;
  if (flags.common.json || !flags.out.empty() || !flags.html.empty()) {
    const PlanDetail detail = plan_detail(m, cluster, in.request, result);
    json = plan_document(kTool, m, cluster, in.request, result, &detail, &studies);
  }
  const auto text = [&](const TextOptions& options) {
    SearchTextOptions what;
    what.every_reason = flags.explain_infeasible;
    if (studies.runnable) what.runnable = &*studies.runnable;
    what.alternatives = studies.alternatives;
    what.rivals = studies.rivals;
    if (maximum) what.note = maximum_text(*maximum, in.request);
    if (every_size) what.note = sizes_text(*studies.sweep, in.request.objective);
    if (studies.goodput) what.goodput = studies.goodput->plans;
    return search_report(m, cluster, in.request, result, what, options) +
           studies_text(studies, cluster, options);
  };
  if (!flags.out.empty()) {
    const int written = write_outputs(flags, json, text(TextOptions()));
    if (written != kExitOk) return written;
  }
  if (!flags.html.empty()) {
    if (const int written = write_html(flags, json); written != kExitOk) return written;
  }
  if (flags.common.json) return write_result(json, exit_code);
  return write_result(text(console_options()), exit_code);
}

void add_plan_flags(Subcommand& command, PlanFlags& flags) {
  command.add_value("--out", flags.out, "DIR",
                    "Also write plans.json and plans.txt to this folder");
  command.add_value("--html", flags.html, "FILE",
                    "Also write a report with charts: one HTML file that opens offline");
  command.add_value("--maximise", flags.maximise, "NAME",
                    "The longest sequence (seq-len, up to --seq-len or the model's context) or the "
                    "largest microbatch (micro-batch) with which a plan fits, and its best plans");
  command.add_switch("--explain-infeasible", flags.explain_infeasible,
                     "Count what was ruled out by reason");
}

}  // namespace

void add_plan_command(CommandLine& program) {
  const auto flags = std::make_shared<PlanFlags>();
  Subcommand command =
      program.add_command("plan", "Find the best strategies for a model on a cluster",
                          "meshplan plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \\\n"
                          "      --global-batch 64 --seq-len 4096 --limit 'tp<=4'");
  add_workload_flags(command, flags->workload,
                     "GPUs to use, or sizes to compare: 256..4096 (doublings) or 256,512. Without "
                     "it a cluster file is used as a whole, and of a shipped cluster every "
                     "doubling up to its size is planned and one recommended");
  flags->search.top = "5";
  command.add_value("--top", flags->search.top, "K",
                    "Decisions to show, each with its best plan (default 5)");
  add_search_flags(command, flags->search);
  add_study_flags(command, flags->studies);
  add_plan_flags(command, *flags);
  command.add_common(flags->common);
  command.set_action([flags] { return plan(*flags); });
}

}  // namespace meshplan
