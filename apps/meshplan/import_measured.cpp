
#include "calibrate/collectives.hpp"
#include "import.hpp"
#include "io/nccl_tests.hpp"
#include "log.hpp"
#include "profile_output.hpp"

namespace meshplan {
namespace {

void append_samples(const NcclTestsRun& run, std::vector<CollectiveSample>& samples) {
  std::int64_t wrong = 0;
  for (const NcclTestsRow& row : run.rows) {
    if (row.wrong > 0) {
      ++wrong;
      continue;
    }
    samples.push_back({.operation = run.operation,
                       .ranks = run.ranks,
                       .nodes = run.nodes,
                       .level = {},
                       .bytes = row.bytes,
                       .time = row.time,
                       // Its sendrecv passes data round a ring of all ranks (sendrecv.cu).
                       .bidirectional = run.operation == Collective::kSendRecv});
  }
  if (wrong > 0) {
    log_warning(std::string(name_of(run.operation)) + ": " + std::to_string(wrong) + " of " +
                std::to_string(run.rows.size()) + " sizes had wrong results and are left out");
  }
}

// One provenance for all runs: what they agree on, and all hosts' first.
Provenance merged(const std::vector<NcclTestsRun>& runs) {
  Provenance p = runs.front().provenance;
  for (const NcclTestsRun& run : runs) {
    const Provenance& other = run.provenance;
    if (p.gpu != other.gpu) p.gpu.clear();
    if (p.nccl != other.nccl) p.nccl.clear();
    if (p.host != other.host) p.host.clear();
    if (p.method != other.method) p.method = "nccl-tests";
    if (p.date.empty() || (!other.date.empty() && other.date < p.date)) p.date = other.date;
    for (const auto& [name, value] : other.environment) {
      const auto [at, fresh] = p.environment.try_emplace(name, value);
      if (!fresh && at->second != value) at->second = "differs between the runs";
    }
  }
  return p;
}

}  // namespace

std::optional<NcclLogs> read_nccl_logs(const std::vector<std::string>& files,
                                       const std::string& operation, Diagnostics& problems) {
  std::optional<Collective> stated;
  if (!operation.empty()) stated = read_name<Collective>(operation, "--operation", problems);
  std::vector<NcclTestsRun> runs;
  for (const std::string& file : files) {
    const std::optional<std::string> text = take(read_text_file(file), file, problems);
    if (!text) continue;
    const auto some = take(parse_nccl_tests(*text, file, stated), file, problems);
    if (some) runs.insert(runs.end(), some->begin(), some->end());
  }
  if (has_errors(problems)) return std::nullopt;
  NcclLogs logs;
  for (const NcclTestsRun& run : runs) append_samples(run, logs.samples);
  logs.provenance = merged(runs);
  return logs;
}

int import_nccl_tests(const ImportFlags& flags) {
  Diagnostics problems;
  const std::optional<ClusterSpec> cluster =
      take(load_cluster(flags.cluster, DataFolders::standard()), "--cluster", problems);
  const std::optional<NcclLogs> logs = read_nccl_logs(flags.files, flags.operation, problems);
  if (!cluster || !logs) return report_errors(problems, flags.common);
  const std::optional<CollectiveFits> fits =
      take(fit_collectives(logs->samples, *cluster), "import", problems);
  if (!fits) return report_errors(problems, flags.common);
  for (const std::string& warning : fits->warnings) log_warning(warning);
  ClusterSpec result = with_collectives(*cluster, fits->fits);
  result.measured = logs->provenance;
  const std::optional<std::string> written = readable_profile(result, problems);
  if (!written) return report_errors(problems, flags.common);
  if (!flags.out.empty() && !flags.common.quiet && !flags.common.json) {
    const int exit_code = write_result(fits_text(fits->fits, console_options()), kExitOk);
    if (exit_code != kExitOk) return exit_code;
  }
  return write_import(flags, *written, profile_document(kTool, result));
}

}  // namespace meshplan
