#include <algorithm>
#include <memory>

#include "console.hpp"
#include "inputs.hpp"
#include "io/plans_file.hpp"
#include "io/write.hpp"
#include "log.hpp"
#include "report/detail.hpp"
#include "report/html.hpp"
#include "report/trace.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostRank = 10'000;

struct ReportFlags {
  CommonFlags common;
  std::string plans, html, trace, rank, validation;
};

void check_flags(const ReportFlags& flags, Diagnostics& problems) {
  if (flags.plans.empty()) {
    problems.push_back(
        error("--plans is missing", "'meshplan plan ... --out DIR' writes DIR/plans.json"));
  }
  if (flags.html.empty() && flags.trace.empty()) {
    problems.push_back(error("nothing to write", "give --html FILE, --trace FILE or both"));
  }
  if (!flags.html.empty()) check_page(problems);
  if (!flags.validation.empty() && flags.html.empty()) {
    problems.push_back(error("--validation needs --html", "the trace shows predictions alone"));
  }
}

// The plan of a rank, or a diagnostic that names those there are.
const SavedPlan* find_plan(const PlansFile& file, std::int64_t rank, Diagnostics& problems) {
  const auto found = std::find_if(file.plans.begin(), file.plans.end(),
                                  [&](const SavedPlan& plan) { return plan.rank == rank; });
  if (found != file.plans.end()) return &*found;
  const std::string has = file.plans.empty()
                              ? "no plan fitted"
                              : "it has plans 1 to " + std::to_string(file.plans.size());
  problems.push_back(
      error_at({"--rank"}, "the file has no plan of rank " + std::to_string(rank), has));
  return nullptr;
}

std::string trace_text(const PlansFile& file, const SavedPlan& plan, Diagnostics& problems) {
  const std::optional<StepTimeline> timeline = timeline_of(file.model, file.cluster, plan.strategy);
  if (timeline) {
    return trace_document(kTool, file.model.name + " on " + file.cluster.name, *timeline);
  }
  problems.push_back(error_at({"--trace"},
                              "a step of this plan has more than " + with_thousands(kMostPasses) +
                                  " passes of microbatches",
                              "trace a smaller --global-batch"));
  return {};
}

std::string html_text(const std::string& text, const PlansFile& file, const ReportFlags& flags,
                      Diagnostics& problems) {
  std::string document = text;
  if (!file.plans.empty()) {
    document = with_detail(text, file.model, file.cluster, file.plans.front().strategy);
  }
  if (flags.validation.empty()) return html_report(document);
  const auto measured = take(read_text_file(flags.validation), flags.validation, problems);
  if (!measured) return {};
  const auto both =
      take(with_validation(document, *measured, flags.validation), flags.validation, problems);
  return both ? html_report(*both) : std::string();
}

void write(std::string_view kind, const std::string& path, const std::string& text,
           std::vector<WrittenFile>& written, Diagnostics& problems) {
  if (!take(write_file_atomically(path, text), "--" + std::string(kind), problems)) return;
  log_info("wrote " + path);
  written.push_back({kind, path, text.size()});
}

int report(const ReportFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  check_flags(flags, problems);
  const std::int64_t rank =
      flags.rank.empty() ? 1 : read_count(flags.rank, "--rank", kMostRank, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const std::optional<std::string> text = take(read_text_file(flags.plans), "--plans", problems);
  if (!text) return report_errors(problems, flags.common);
  const std::optional<PlansFile> file =
      take(parse_plans(*text, flags.plans), flags.plans, problems);
  if (file && !is_json(*text)) {
    problems.push_back(error_at({flags.plans},
                                "is YAML, or JSON with more in it than meshplan writes",
                                "give the file as it was written"));
  }
  if (has_errors(problems)) return report_errors(problems, flags.common);

  std::string trace, html;
  if (!flags.trace.empty()) {
    const SavedPlan* plan = find_plan(*file, rank, problems);
    if (plan != nullptr) trace = trace_text(*file, *plan, problems);
  }
  if (!flags.html.empty()) html = html_text(*text, *file, flags, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  std::vector<WrittenFile> written;
  if (!flags.html.empty()) write("html", flags.html, html, written, problems);
  if (!flags.trace.empty()) write("trace", flags.trace, trace, written, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  return flags.common.json ? write_result(report_document(kTool, written), kExitOk) : kExitOk;
}

}  // namespace

void add_report_command(CommandLine& program) {
  const auto flags = std::make_shared<ReportFlags>();
  Subcommand command =
      program.add_command("report", "Show plans as an HTML page, or a step as a trace",
                          "meshplan report --plans results/plans.json --html report.html");
  command.add_value("--plans", flags->plans, "FILE",
                    "What plan or estimate wrote as JSON (required)");
  command.add_value("--html", flags->html, "FILE",
                    "Write a report with charts: one HTML file that opens offline");
  command.add_value("--trace", flags->trace, "FILE",
                    "Write one step of a plan as a trace for Perfetto or chrome://tracing");
  command.add_value("--validation", flags->validation, "FILE",
                    "What 'meshplan validate --json' printed of these plans: predicted against "
                    "measured, in the HTML report");
  command.add_value("--rank", flags->rank, "N", "Plan of the trace, by its rank (default 1)");
  command.add_common(flags->common);
  command.set_action([flags] { return report(*flags); });
}

}  // namespace meshplan
