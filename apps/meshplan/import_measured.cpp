
#include <algorithm>
#include <cctype>

#include "base/text.hpp"
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
                                       const std::string& operation, Diagnostics& problems,
                                       NcclRanks ranks) {
  std::optional<Collective> stated;
  if (!operation.empty()) stated = read_name<Collective>(operation, "--operation", problems);
  std::vector<NcclTestsRun> runs;
  for (const std::string& file : files) {
    const std::optional<std::string> text = take(read_text_file(file), file, problems);
    if (!text) continue;
    const auto some = take(parse_nccl_tests(*text, file, stated, ranks), file, problems);
    if (some) runs.insert(runs.end(), some->begin(), some->end());
  }
  if (has_errors(problems)) return std::nullopt;
  NcclLogs logs;
  for (const NcclTestsRun& run : runs) append_samples(run, logs.samples);
  logs.provenance = merged(runs);
  return logs;
}

// Ranks that are stated fill the cluster's nodes unless their number is stated too.
static NcclRanks read_ranks(const ImportFlags& flags, const ClusterSpec& cluster,
                            Diagnostics& problems) {
  constexpr std::int64_t kMost = 16'777'216;
  NcclRanks stated;
  stated.ranks = read_count(flags.ranks, "--ranks", kMost, problems);
  stated.nodes = read_count(flags.nodes, "--nodes", kMost, problems);
  if (stated.ranks == 1) {
    problems.push_back(error_at({"--ranks"}, "one rank sends nothing", "give 2 or more"));
  }
  if (stated.ranks == 0 && stated.nodes > 0) {
    problems.push_back(error("--nodes needs --ranks", "logs that name their ranks need neither"));
  }
  if (stated.nodes == 0) {
    stated.nodes = std::max<std::int64_t>(
        1, (stated.ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node);
  }
  if (stated.ranks % stated.nodes != 0) {
    problems.push_back(error_at({"--ranks"},
                                std::to_string(stated.ranks) +
                                    " ranks are not as many on each of " +
                                    std::to_string(stated.nodes) + " nodes",
                                "give --nodes N"));
  }
  return stated;
}

// "h100" of h100-sxm-80gb is a word of "NVIDIA H100 80GB HBM3". A device whose name starts with no
// number of a product says nothing.
static void warn_of_gpu(const std::string& measured, const DeviceSpec& device) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
      return static_cast<char>(std::isalnum(c) != 0 ? std::tolower(c) : ' ');
    });
    return " " + text + " ";
  };
  const std::string product = device.name.substr(0, device.name.find('-'));
  const bool numbered = std::any_of(product.begin(), product.end(),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
  if (measured.empty() || !numbered || lower(measured).find(lower(product)) != std::string::npos) {
    return;
  }
  log_warning("the log is of " + printable(measured) + ", the cluster's device is " + device.name +
              ": its curves are taken over, but may not be those of this cluster");
}

int import_nccl_tests(const ImportFlags& flags) {
  Diagnostics problems;
  const std::optional<ClusterSpec> cluster =
      take(load_cluster(flags.cluster, DataFolders::standard()), "--cluster", problems);
  if (!cluster) return report_errors(problems, flags.common);
  const NcclRanks ranks = read_ranks(flags, *cluster, problems);
  const std::optional<NcclLogs> logs =
      read_nccl_logs(flags.files, flags.operation, problems, ranks);
  if (!logs) return report_errors(problems, flags.common);
  warn_of_gpu(logs->provenance.gpu, cluster->device);
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
