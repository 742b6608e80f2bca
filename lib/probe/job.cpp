#include "probe/job.hpp"

#include <algorithm>
#include <charconv>

namespace meshplan {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr int kHighestPort = 65535;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  [[nodiscard]] std::string text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? std::string() : std::string(value);
  }
  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }

  // The number of a variable from `least` to `most`; `otherwise` if it is not set.
  std::int64_t number(const char* name, std::int64_t least, std::int64_t most,
                      std::optional<std::int64_t> otherwise) {
    const std::string value = text(name);
    if (value.empty() && otherwise) return *otherwise;
    const std::optional<std::int64_t> n = whole(value);
    if (n && *n >= least && *n <= most) return *n;
    problems_.push_back(error("the environment variable " + std::string(name) + " is '" + value +
                                  "', not a whole number from " + std::to_string(least) + " to " +
                                  std::to_string(most),
                              "start meshplan with mpirun, srun or torchrun, which set it"));
    return least;
  }

  [[nodiscard]] const Diagnostics& problems() const { return problems_; }

 private:
  const Environment& environment_;
  Diagnostics problems_;
};

struct LauncherVariables {
  const char* launcher;
  const char *rank, *ranks, *local_rank, *local_ranks;
};

// In the order in which they are believed: torchrun may itself run inside a Slurm step.
constexpr LauncherVariables kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // SLURM_STEP_NUM_TASKS is set by srun alone: a batch script's own shell is no rank of a job.
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

// "8(x2),4" -> 8: the ranks of a step's first node.
std::string leading_digits(const std::string& text) {
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

void read_ranks(const LauncherVariables& names, Variables& v, Job& job) {
  job.launcher = names.launcher;
  job.ranks = v.number(names.ranks, 1, kMostRanks, std::nullopt);
  job.rank = v.number(names.rank, 0, job.ranks - 1, std::nullopt);
  job.local_rank = v.number(names.local_rank, 0, job.ranks - 1, job.rank);
  const std::optional<std::int64_t> local = whole(leading_digits(v.text(names.local_ranks)));
  job.local_ranks = std::max(local.value_or(job.local_rank + 1), job.local_rank + 1);
}

// Slurm gives no port: one per job and step, so that steps of one node do not meet.
int slurm_port(Variables& v) {
  constexpr std::int64_t kFirst = 20000, kCount = 20000, kSteps = 64;
  const std::int64_t id = v.number("SLURM_JOB_ID", 0, INT64_MAX / 100, 0);
  const std::int64_t step = v.number("SLURM_STEP_ID", 0, INT64_MAX / 100, 0);
  return static_cast<int>(kFirst + (id * kSteps + step % kSteps) % kCount);
}

void read_meeting_point(Variables& v, Job& job) {
  if (v.has("MASTER_ADDR") && v.has("MASTER_PORT")) {
    job.address = v.text("MASTER_ADDR");
    job.port = static_cast<int>(v.number("MASTER_PORT", 1, kHighestPort - 1, std::nullopt)) + 1;
  } else if (job.launcher == "srun") {
    const std::string nodes =
        v.has("SLURM_STEP_NODELIST") ? v.text("SLURM_STEP_NODELIST") : v.text("SLURM_JOB_NODELIST");
    job.address = first_host(nodes);
    job.port = slurm_port(v);
  }
}

std::string token_of(const Variables& v, const Job& job) {
  std::string token = job.launcher + '/' + std::to_string(job.ranks);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                           "SLURM_JOB_ID", "SLURM_STEP_ID", "MESHPLAN_JOB_TOKEN"}) {
    token += '/' + v.text(name);
  }
  return token;
}

}  // namespace

std::string first_host(std::string_view nodelist) {
  const std::size_t bracket = nodelist.find('[');
  const std::size_t comma = nodelist.find(',');
  if (bracket == std::string_view::npos || comma < bracket) {
    return std::string(nodelist.substr(0, comma));
  }
  const std::string_view inside = nodelist.substr(bracket + 1);
  const std::string first(inside.substr(0, std::min(inside.find_first_of("-,]"), inside.size())));
  const std::size_t close = inside.find(']');
  std::string tail;
  if (close != std::string_view::npos) {
    const std::string_view after = inside.substr(close + 1);
    tail = after.substr(0, std::min(after.find_first_of(",["), after.size()));
  }
  return std::string(nodelist.substr(0, bracket)) + first + tail;
}

Result<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort out;
  const std::optional<std::int64_t> port =
      colon == std::string_view::npos ? std::nullopt : whole(text.substr(colon + 1));
  if (!port || *port < 1 || *port > kHighestPort || colon == 0) {
    return error("'" + std::string(text) + "' is not a host and a port",
                 "for example node01:29501");
  }
  out.host = text.substr(0, colon);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']') {
    out.host = out.host.substr(1, out.host.size() - 2);
  }
  out.port = static_cast<int>(*port);
  return out;
}

Result<Job> find_job(const Environment& environment) {
  Variables v(environment);
  Job job;
  job.launcher = "none";
  for (const LauncherVariables& names : kLaunchers) {
    if (!v.has(names.rank) || !v.has(names.ranks)) continue;
    read_ranks(names, v, job);
    break;
  }
  read_meeting_point(v, job);
  if (v.has("MESHPLAN_RENDEZVOUS")) {
    const Result<HostPort> given = parse_host_port(v.text("MESHPLAN_RENDEZVOUS"));
    if (!given)
      return error_at({"MESHPLAN_RENDEZVOUS"}, given.errors()[0].message, given.errors()[0].hint);
    job.address = given->host;
    job.port = given->port;
  }
  if (!v.problems().empty()) return v.problems();
  job.token = token_of(v, job);
  return job;
}

}  // namespace meshplan
