// Communication between processors through MPI: for clusters' CPU nodes, and wherever measured
// communication is wanted without a GPU.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <mpi.h>
#include <new>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "pattern.hpp"
#include "probe/plugin_abi.hpp"

namespace meshplan::device {
namespace {

struct MpiError {
  std::string reason;
};

void require(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError{std::string(call) + ": " + text.data()};
}

int tell(meshplan_probe_text out, const std::string& reason, int code) {
  if (out.size > 0) std::snprintf(out.text, out.size, "%s", reason.c_str());
  return code;
}

// Runs `work`, which may throw: no exception may cross the C interface.
template <class Work>
int guarded(meshplan_probe_text error, const Work& work) {
  try {
    return work();
  } catch (const MpiError& failure) {
    return tell(error, failure.reason, MESHPLAN_PROBE_FAILED);
  } catch (const std::bad_alloc&) {
    return tell(error, "not enough memory", MESHPLAN_PROBE_IMPOSSIBLE);
  }
}

// MPI has no 16-bit floats: whole numbers of the same size stand for them.
MPI_Datatype mpi_type(Dtype d) {
  switch (size_of(d)) {
    case 4:
      return MPI_FLOAT;
    case 2:
      return MPI_UINT16_T;
    default:
      return MPI_UINT8_T;
  }
}

// How often this thread lost its processor to another one. Ranks wait by spinning, so that none of
// these times was its own wish.
long switches_so_far() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

// A processor of this rank's own, as launchers bind ranks in training. Two ranks that wait for each
// other by spinning must not share one; where a launcher has bound them already, that stays.
void take_processor(const meshplan_probe_job& job) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const std::int64_t count = CPU_COUNT(&allowed);
  if (job.local_ranks < 2 || count < job.local_ranks || count < sysconf(_SC_NPROCESSORS_ONLN))
    return;
  std::int64_t left = job.local_rank * (count / job.local_ranks);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    static_cast<void>(sched_setaffinity(0, sizeof(own), &own));  // of this thread
    return;
  }
}

class Rank {
 public:
  explicit Rank(const meshplan_probe_job& job) : job_(job) { take_processor(job); }

  int prepare(const meshplan_probe_operation& op, meshplan_probe_text error) {
    if (op.kind != MESHPLAN_PROBE_COLLECTIVE) {
      return tell(error, "MPI measures communication only", MESHPLAN_PROBE_IMPOSSIBLE);
    }
    op_ = op.collective;
    collective_ = static_cast<Collective>(op_.collective);
    const auto dtype = static_cast<Dtype>(op_.dtype);
    element_ = size_of(dtype);
    type_ = mpi_type(dtype);
    group_ = communicator();
    sizes_ = buffer_sizes(collective_, op_.bytes / element_, op_.group_size);
    if (sizes_.part < 1) {
      return tell(error, "there is less than one element for each rank", MESHPLAN_PROBE_IMPOSSIBLE);
    }
    if (std::max(sizes_.send, sizes_.receive) > INT32_MAX) {
      return tell(error, "MPI counts no more than 2^31 elements", MESHPLAN_PROBE_IMPOSSIBLE);
    }
    if (group_ == MPI_COMM_NULL) return MESHPLAN_PROBE_OK;
    send_.resize(static_cast<std::size_t>(sizes_.send * element_));
    receive_.resize(static_cast<std::size_t>(sizes_.receive * element_));
    fill();
    return MESHPLAN_PROBE_OK;
  }

  int run(const meshplan_probe_run& r) {
    for (std::int64_t i = 0; i < r.repetitions; ++i) {
      gather();
      // From before the barrier: a rank that lost its processor inside of it starts late, and the
      // others wait for it in the operation.
      const long switches = switches_so_far();
      require(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      if (group_ == MPI_COMM_NULL) continue;
      // Once untimed: what the ranks did while they waited is in the caches.
      communicate();
      const double begin = MPI_Wtime();
      for (std::int64_t call = 0; call < r.calls; ++call) {
        if (__atomic_load_n(job_.cancelled, __ATOMIC_RELAXED) != 0) throw MpiError{"stopped"};
        communicate();
        __atomic_add_fetch(job_.progress, 1, __ATOMIC_RELAXED);
      }
      r.seconds[i] = (MPI_Wtime() - begin) / static_cast<double>(r.calls);
      r.disturbed[i] = switches_so_far() == switches ? 0 : 1;
    }
    return MESHPLAN_PROBE_OK;
  }

  int check(std::int64_t& wrong) {
    wrong = 0;
    if (group_ == MPI_COMM_NULL) return MESHPLAN_PROBE_OK;
    fill();
    communicate();
    const bool both = op_.bidirectional != 0 || op_.ping_pong != 0;
    if (!receives(collective_, both, op_.member)) return MESHPLAN_PROBE_OK;
    const Pattern want = Pattern::received(collective_, sizes_, op_.member, op_.group_size);
    for (const Span span : sampled(want)) {
      for (std::int64_t i = span.begin; i < span.end; ++i) {
        if (value(receive_, i) != want.at(i)) ++wrong;
      }
    }
    return MESHPLAN_PROBE_OK;
  }

  void finish() {
    send_ = {};
    receive_ = {};
  }

  void release() {
    for (auto& [division, group] : groups_) {
      if (group != MPI_COMM_NULL) MPI_Comm_free(&group);
    }
    groups_.clear();
  }

 private:
  meshplan_probe_job job_;
  meshplan_probe_collective op_{};
  Collective collective_ = Collective::kAllReduce;
  std::int64_t element_ = 4;
  MPI_Datatype type_ = MPI_FLOAT;
  MPI_Comm group_ = MPI_COMM_NULL;
  BufferSizes sizes_;
  std::vector<unsigned char> send_, receive_;
  std::map<std::array<std::int64_t, MESHPLAN_PROBE_DIVISION>, MPI_Comm> groups_;

  // Waits for the other ranks asleep. MPI waits by spinning: where others want the processors too,
  // each rank would spin its share of them away while the next one waits for its turn. Ranks that
  // have slept get a processor at once, all of them together.
  void gather() const {
    constexpr timespec kNap{0, 50'000};
    MPI_Request request = MPI_REQUEST_NULL;
    require(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
    int done = 0;
    while (true) {
      require(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return;
      if (__atomic_load_n(job_.cancelled, __ATOMIC_RELAXED) != 0) throw MpiError{"stopped"};
      nanosleep(&kNap, nullptr);
    }
  }

  MPI_Comm communicator() {
    std::array<std::int64_t, MESHPLAN_PROBE_DIVISION> division{};
    std::copy(std::begin(op_.division), std::end(op_.division), division.begin());
    const auto known = groups_.find(division);
    if (known != groups_.end()) return known->second;
    MPI_Comm group = MPI_COMM_NULL;
    const int colour = op_.group < 0 ? MPI_UNDEFINED : static_cast<int>(op_.group);
    require(MPI_Comm_split(MPI_COMM_WORLD, colour, static_cast<int>(op_.member), &group),
            "MPI_Comm_split");
    if (group != MPI_COMM_NULL) MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
    return groups_[division] = group;
  }

  template <class T>
  void put(std::vector<unsigned char>& buffer, std::int64_t i, T v) const {
    std::memcpy(buffer.data() + static_cast<std::size_t>(i) * sizeof(T), &v, sizeof(T));
  }
  void store(std::vector<unsigned char>& buffer, std::int64_t i, int v) const {
    if (element_ == 4) return put(buffer, i, static_cast<float>(v));
    if (element_ == 2) return put(buffer, i, static_cast<std::uint16_t>(v));
    put(buffer, i, static_cast<std::uint8_t>(v));
  }
  template <class T>
  T get(const std::vector<unsigned char>& buffer, std::int64_t i) const {
    T v{};
    std::memcpy(&v, buffer.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return v;
  }
  double value(const std::vector<unsigned char>& buffer, std::int64_t i) const {
    if (element_ == 4) return get<float>(buffer, i);
    if (element_ == 2) return get<std::uint16_t>(buffer, i);
    return get<std::uint8_t>(buffer, i);
  }

  // The receive buffer holds what no result is: a message that does not come shows.
  void fill() {
    const Pattern p = Pattern::sent(collective_, sizes_, op_.member, op_.group_size);
    const auto write = [&](Span span) {
      for (std::int64_t i = span.begin; i < span.end; ++i) store(send_, i, p.at(i));
    };
    device::fill(p, write, [this](std::int64_t to, std::int64_t from, std::int64_t n) {
      std::memcpy(send_.data() + to * element_, send_.data() + from * element_,
                  static_cast<std::size_t>(n * element_));
    });
    std::memset(receive_.data(), 0x55, receive_.size());
    if (collective_ == Collective::kBroadcast && op_.member == 0) receive_ = send_;
  }

  void communicate() {
    const int part = static_cast<int>(sizes_.part);
    const void* in = send_.data();
    void* out = receive_.data();
    switch (collective_) {
      case Collective::kAllReduce:
        return require(MPI_Allreduce(in, out, part, type_, MPI_SUM, group_), "MPI_Allreduce");
      case Collective::kAllGather:
        return require(MPI_Allgather(in, part, type_, out, part, type_, group_), "MPI_Allgather");
      case Collective::kReduceScatter:
        return require(MPI_Reduce_scatter_block(in, out, part, type_, MPI_SUM, group_),
                       "MPI_Reduce_scatter_block");
      case Collective::kAllToAll:
        return require(MPI_Alltoall(in, part, type_, out, part, type_, group_), "MPI_Alltoall");
      case Collective::kBroadcast:
        return require(MPI_Bcast(out, part, type_, 0, group_), "MPI_Bcast");
      case Collective::kSendRecv:
        return pass_on(part);
    }
  }

  // To the next member, from the one before.
  void pass_on(int part) {
    const auto ranks = static_cast<int>(op_.group_size), member = static_cast<int>(op_.member);
    const int next = (member + 1) % ranks, before = (member + ranks - 1) % ranks;
    if (op_.bidirectional != 0) {
      return require(MPI_Sendrecv(send_.data(), part, type_, next, 0, receive_.data(), part, type_,
                                  before, 0, group_, MPI_STATUS_IGNORE),
                     "MPI_Sendrecv");
    }
    // There, and back in a ping-pong.
    if (member == 0) send_to(next, part);
    if (member == 1) receive_from(before, part);
    if (op_.ping_pong == 0) return;
    if (member == 1) send_to(next, part);
    if (member == 0) receive_from(before, part);
  }

  void send_to(int member, int part) {
    require(MPI_Send(send_.data(), part, type_, member, 0, group_), "MPI_Send");
  }
  void receive_from(int member, int part) {
    require(MPI_Recv(receive_.data(), part, type_, member, 0, group_, MPI_STATUS_IGNORE),
            "MPI_Recv");
  }
};

Rank& rank_of(void* handle) { return *static_cast<Rank*>(handle); }

std::int64_t device_count() { return 0; }

int join(meshplan_probe_job* job, meshplan_probe_text error) {
  return guarded(error, [&] {
    int provided = 0;
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0, ranks = 1, local_rank = 0, local_ranks = 1;
    require(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    require(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
    MPI_Comm node = MPI_COMM_NULL;
    require(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_ranks);
    MPI_Comm_free(&node);
    job->rank = rank, job->ranks = ranks;
    job->local_rank = local_rank, job->local_ranks = local_ranks;
    return MESHPLAN_PROBE_OK;
  });
}

int exchange(void* data, std::size_t size, meshplan_probe_text error) {
  return guarded(error, [&] {
    require(MPI_Bcast(data, static_cast<int>(size), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return MESHPLAN_PROBE_OK;
  });
}

int begin(const meshplan_probe_job* job, void** handle, meshplan_probe_text error) {
  return guarded(error, [&] {
    *handle = new Rank(*job);
    return MESHPLAN_PROBE_OK;
  });
}

int describe(void* /*handle*/, meshplan_probe_tell say, void* context, meshplan_probe_text error) {
  return guarded(error, [&] {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    require(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    const std::string library(text.data());
    say(context, "version.mpi", library.substr(0, library.find_first_of(",\n")).c_str());
    say(context, "device", "CPU");
    say(context, "device_id", "cpu");
    say(context, "accelerator", "0");
    return MESHPLAN_PROBE_OK;
  });
}

int make_key(void* /*handle*/, unsigned char* /*key*/, meshplan_probe_text /*error*/) {
  return MESHPLAN_PROBE_OK;  // MPI connected its ranks itself
}

int connect(void* /*handle*/, const unsigned char* /*key*/, meshplan_probe_text /*error*/) {
  return MESHPLAN_PROBE_OK;
}

int prepare(void* handle, const meshplan_probe_operation* op, meshplan_probe_text error) {
  return guarded(error, [&] { return rank_of(handle).prepare(*op, error); });
}

int run(void* handle, const meshplan_probe_run* r, meshplan_probe_text error) {
  return guarded(error, [&] { return rank_of(handle).run(*r); });
}

int check(void* handle, std::int64_t* wrong, meshplan_probe_text /*note*/,
          meshplan_probe_text error) {
  return guarded(error, [&] { return rank_of(handle).check(*wrong); });
}

void finish(void* handle) { rank_of(handle).finish(); }
double clock_ratio(void* /*handle*/) { return -1; }
// Nothing makes a blocking call of MPI return but the end of the process.
void abort_run(void* /*handle*/) {}

void end(void* handle) {
  if (handle != nullptr) {
    rank_of(handle).release();
    delete static_cast<Rank*>(handle);
  }
  MPI_Finalize();
}

constexpr meshplan_probe_plugin_table kTable{MESHPLAN_PROBE_ABI,
                                             "mpi",
                                             device_count,
                                             join,
                                             exchange,
                                             begin,
                                             describe,
                                             make_key,
                                             connect,
                                             prepare,
                                             run,
                                             check,
                                             finish,
                                             clock_ratio,
                                             nullptr,
                                             abort_run,
                                             end};

}  // namespace
}  // namespace meshplan::device

extern "C" __attribute__((visibility("default"))) const meshplan_probe_plugin_table*
meshplan_probe_plugin(std::uint32_t abi) {
  return abi == MESHPLAN_PROBE_ABI ? &meshplan::device::kTable : nullptr;
}
