#include "probe/session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "probe/coordinator.hpp"
#include "probe/meeting.hpp"
#include "probe/process.hpp"
#include "probe/worker.hpp"

namespace meshplan {
namespace {

using std::chrono::milliseconds;

milliseconds to_milliseconds(Seconds t) {
  return milliseconds(static_cast<std::int64_t>(t.si() * 1000));
}

std::string random_token() {
  std::random_device source;
  std::array<unsigned char, 16> bytes{};
  for (unsigned char& b : bytes) b = static_cast<unsigned char>(source());
  return to_hex(bytes.data(), bytes.size());
}

// What rank 0 tells the others through MPI before there is a channel. Fixed size, ends in zeros.
struct Invitation {
  std::array<char, 256> address{};
  std::array<char, 64> token{};
  std::int64_t port = 0;
};

template <std::size_t N>
void copy_text(const std::string& text, std::array<char, N>& out) {
  std::memcpy(out.data(), text.data(), std::min(text.size(), N - 1));
}

using SharedDevice = std::shared_ptr<RankDevice>;

// Runs start-up work of a plug-in's own on its thread. Errors say what it was about.
Result<bool> start_up(RankDevice& device, const std::string& what, milliseconds timeout,
                      const std::function<int(meshplan_probe_text)>& work) {
  device.start(0, [work] {
    std::array<char, 1024> text{};
    Reply r;
    r.status = work({text.data(), text.size()});
    r.error = text.data();
    return r;
  });
  if (!device.wait(timeout)) {
    return error(what + " did not come through in time", "did every rank start?");
  }
  const Reply reply = *device.take_reply();
  if (reply.status != MESHPLAN_PROBE_OK) return error(what + " failed: " + reply.error);
  return true;
}

// MPI's own start, which knows the ranks better than any variable.
Result<Job> join(RankDevice& device, Job job, milliseconds timeout) {
  const auto abi = std::make_shared<meshplan_probe_job>();
  const Result<bool> joined =
      start_up(device, "the start of MPI", timeout, [abi, &device](meshplan_probe_text text) {
        return device.plugin().table().join(abi.get(), text);
      });
  if (!joined) return joined.errors();
  if (job.launcher != "none" && job.ranks != abi->ranks) {
    return error("MPI counts " + std::to_string(abi->ranks) + " ranks, " + job.launcher +
                     " started " + std::to_string(job.ranks),
                 "start with the mpirun of the MPI that meshplan was built with, or with "
                 "srun --mpi=pmix");
  }
  job.rank = abi->rank, job.ranks = abi->ranks;
  job.local_rank = abi->local_rank, job.local_ranks = abi->local_ranks;
  return job;
}

Result<bool> exchange(RankDevice& device, Invitation& invitation, milliseconds timeout) {
  const auto shared = std::make_shared<Invitation>(invitation);
  Result<bool> done =
      start_up(device, "the exchange of addresses through MPI", timeout,
               [shared, &device](meshplan_probe_text text) {
                 return device.plugin().table().exchange(shared.get(), sizeof(Invitation), text);
               });
  invitation = *shared;
  return done;
}

struct Chosen {
  BackendKind kind = BackendKind::kNccl;
  std::shared_ptr<Plugin> plugin;
};

// The backend asked for; without one NCCL where there is a GPU, else MPI.
Result<Chosen> choose(const SessionOptions& options) {
  if (options.backend) {
    Result<std::shared_ptr<Plugin>> plugin = Plugin::load(*options.backend, options.folders);
    if (!plugin) return plugin.errors();
    return Chosen{*options.backend, *plugin};
  }
  Diagnostics reasons;
  Result<std::shared_ptr<Plugin>> nccl = Plugin::load(BackendKind::kNccl, options.folders);
  if (nccl && (*nccl)->table().device_count() > 0) return Chosen{BackendKind::kNccl, *nccl};
  if (!nccl) reasons = nccl.errors();
  if (nccl) reasons.push_back(error("the backend 'nccl' finds no GPU on this machine"));
  Result<std::shared_ptr<Plugin>> mpi = Plugin::load(BackendKind::kMpi, options.folders);
  if (mpi) return Chosen{BackendKind::kMpi, *mpi};
  reasons.insert(reasons.end(), mpi.errors().begin(), mpi.errors().end());
  return reasons;
}

bool all_on_this_host(const Job& job) { return job.local_ranks == job.ranks; }

Diagnostic no_meeting_point(const Job& job) {
  return error(job.launcher + " does not say where the ranks can meet",
               "set MASTER_ADDR and MASTER_PORT, or MESHPLAN_RENDEZVOUS=host:port, on every rank");
}

}  // namespace

struct Session::State {
  SessionOptions options;
  milliseconds timeout{};
  Job job;
  SharedDevice device;
  SharedDevice rendezvous;  // MPI, where it only brings NCCL's ranks together
  std::optional<Coordinator> coordinator;
  std::optional<Connection> connection;

  [[nodiscard]] Hello hello(BackendKind kind) const;
  Result<bool> find_ranks(BackendKind kind);
  Result<std::optional<Listener>> find_meeting_point();
  Result<bool> meet(BackendKind kind);
  void end_rendezvous();
};

Hello Session::State::hello(BackendKind kind) const {
  Hello h;
  h.token = job.token;
  h.version = options.version;
  h.backend = name_of(kind);
  h.settings = options.settings;
  h.profile = options.profile;
  h.rank = job.rank, h.ranks = job.ranks, h.local_rank = job.local_rank;
  h.host = host_name();
  h.process = process_identity();
  return h;
}

// MPI counts its own ranks; NCCL's come from the environment, and from MPI where mpirun started us
// and nothing says where to meet.
Result<bool> Session::State::find_ranks(BackendKind kind) {
  if (kind == BackendKind::kMpi) {
    rendezvous = device;
  } else if (job.launcher == "mpirun" && job.ranks > 1 && job.address.empty()) {
    Result<std::shared_ptr<Plugin>> mpi = Plugin::load(BackendKind::kMpi, options.folders);
    if (mpi) rendezvous = std::make_shared<RankDevice>(*mpi, job);
  }
  if (!rendezvous) return true;
  Result<Job> joined = join(*rendezvous, job, timeout);
  if (!joined) return joined.errors();
  job = *joined;
  return true;
}

Result<std::optional<Listener>> Session::State::find_meeting_point() {
  const bool leads = job.rank == 0;
  std::optional<Listener> listener;
  if (job.address.empty() && rendezvous) {
    job.address = all_on_this_host(job) ? "127.0.0.1" : own_address();
  }
  if (job.address.empty()) return no_meeting_point(job);
  if (leads) {
    Result<Listener> opened = Listener::open(job.address, job.port);
    if (!opened) return opened.errors();
    job.port = opened->port();
    listener.emplace(std::move(opened).value());
  }
  if (!rendezvous) return listener;
  Invitation invitation;
  if (leads) {
    copy_text(job.address, invitation.address);
    copy_text(random_token(), invitation.token);
    invitation.port = job.port;
  }
  const Result<bool> exchanged = exchange(*rendezvous, invitation, timeout);
  if (!exchanged) return exchanged.errors();
  job.address = invitation.address.data();
  job.token = invitation.token.data();
  job.port = static_cast<int>(invitation.port);
  return listener;
}

Result<bool> Session::State::meet(BackendKind kind) {
  const Result<bool> found = find_ranks(kind);
  if (!found) return found;
  device->set_job(job);
  std::vector<Peer> peers(1);
  if (job.ranks > 1) {
    const Result<std::optional<Listener>> listener = find_meeting_point();
    if (!listener) return listener.errors();
    const Clock::time_point deadline = Clock::now() + timeout;
    if (job.rank != 0) {
      Result<Connection> lead = introduce(job.address, job.port, hello(kind), deadline);
      if (!lead) return lead.errors();
      connection.emplace(std::move(lead).value());
      return true;
    }
    Result<std::vector<Peer>> came =
        admit_ranks(**listener, hello(kind), deadline, options.interrupted);
    if (!came) return came.errors();
    peers = std::move(came).value();
  }
  peers[0].hello = hello(kind);
  CoordinatorOptions how;
  how.timeout = timeout;
  how.interrupted = options.interrupted;
  coordinator.emplace(std::move(peers), device, how);
  return coordinator->begin();
}

// NCCL's ranks still have to leave MPI in good order.
void Session::State::end_rendezvous() {
  if (!rendezvous || rendezvous == device) return;
  const Result<bool> ended =
      start_up(*rendezvous, "the end of MPI", timeout, [this](meshplan_probe_text) {
        rendezvous->plugin().table().end(nullptr);
        return static_cast<int>(MESHPLAN_PROBE_OK);
      });
  static_cast<void>(ended.ok());
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options,
                                               const Environment& environment) {
  const Result<Job> job = find_job(environment);
  if (!job) return job.errors();
  const Result<Chosen> chosen = choose(options);
  if (!chosen) return chosen.errors();
  auto state = std::make_unique<State>();
  state->options = options;
  state->timeout = to_milliseconds(options.timeout);
  state->job = *job;
  state->device = std::make_shared<RankDevice>(chosen->plugin, *job);
  const Result<bool> met = state->meet(chosen->kind);
  if (!met) return met.errors();
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

const Job& Session::job() const { return state_->job; }
bool Session::leads() const { return state_->coordinator.has_value(); }
Backend& Session::backend() { return *state_->coordinator; }

Result<bool> Session::follow() {
  Result<bool> served = serve_rank_zero(*state_->connection, *state_->device, state_->timeout,
                                        state_->options.interrupted);
  if (served) state_->end_rendezvous();
  return served;
}

void Session::close() {
  state_->coordinator->end();
  if (state_->coordinator->alive()) state_->end_rendezvous();
}

}  // namespace meshplan
