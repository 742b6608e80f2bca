// A libnccl whose ranks are processes of one host: data really moves, through shared memory, in the
// order of the (fake) streams. Its communicators are non-blocking and behave as those of NCCL 2.28
// do (src/group.cc, src/init.cc):
//   - a group's end, and a call outside of a group, answer ncclInProgress; another thread queues
//   the
//     work later, and until then the stream holds nothing of it;
//   - a communicator that is used meanwhile answers ncclInvalidArgument, and fails from then on;
//   - a split writes the new communicator when it is done, from that other thread;
//   - the first operation of each kind connects, for which the device must not be held back;
//   - a peer on the same host that died is not noticed.
// It is kinder than NCCL in that queued work needs no room on the device, and one process has as
// many communicators at work as it likes.
//   FAKE_NCCL_FAULT=rank:call:kind   at that rank's call-th operation (from 1) of the job:
//       hang    it never ends, and neither does anybody who waits for it
//       die     the process kills itself
//       error   the communicator reports a remote error
//       wrong   the first received byte is changed
//     init-hang, init-die, init-error, split-hang, split-die, split-error: the same at the call-th
//     initialisation or split
//     abort-hang: its communicators cannot be aborted
//   FAKE_NCCL_DELAY_US=50   from a call to its work being queued
//   FAKE_NCCL_VERSION=22809
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "fake_nccl_comm.hpp"

extern "C" void fake_cuda_enqueue(cudaStream_t stream, void (*run)(void*), void* argument);
extern "C" bool fake_cuda_held_back();

namespace {

using namespace fake_nccl;

struct Transfer {
  int peer = 0;
  bool sends = false;
  char* data = nullptr;
  std::size_t size = 0, done = 0;
};

// One step of a transfer; false if it has to wait.
bool advance(ncclComm& c, Transfer& t) {
  Mailbox& box = t.sends ? c.segment->boxes[c.rank][t.peer] : c.segment->boxes[t.peer][c.rank];
  const std::uint32_t filled = box.size.load(std::memory_order_acquire);
  if (t.sends != (filled == 0)) return false;
  if (t.sends) {
    const std::size_t n = std::min(kChunk, t.size - t.done);
    std::memcpy(box.data, t.data + t.done, n);
    t.done += n;
    box.size.store(static_cast<std::uint32_t>(n), std::memory_order_release);
  } else {
    std::memcpy(t.data + t.done, box.data, filled);
    t.done += filled;
    box.size.store(0, std::memory_order_release);
  }
  tell(c.segment->news[t.peer]);
  return true;
}

bool move_all(ncclComm& c, std::vector<Transfer>& all) {
  const std::atomic<std::uint32_t>& news = c.segment->news[c.rank];
  bool open = true;
  while (open) {
    open = false;
    bool moved = false;
    const std::uint32_t seen = news.load();
    for (Transfer& t : all) {
      if (t.done == t.size) continue;
      moved = advance(c, t) || moved;
      open = open || t.done < t.size;
    }
    if (c.aborted) return false;
    if (open && !moved) wait_for_news(news, seen);
  }
  return true;
}

std::size_t size_of_type(int type) {
  return type == ncclFloat32 ? 4 : type == ncclBfloat16 || type == ncclFloat16 ? 2 : 1;
}

void add(char* into, const char* from, std::size_t count, int type) {
  for (std::size_t i = 0; i < count; ++i) {
    if (type == ncclFloat32) {
      reinterpret_cast<float*>(into)[i] += reinterpret_cast<const float*>(from)[i];
    } else if (type == ncclBfloat16) {
      auto* sum = reinterpret_cast<__nv_bfloat16*>(into) + i;
      *sum = __nv_bfloat16(__bfloat162float(*sum) +
                           __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(from)[i]));
    }
  }
}

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kPairs };

struct Task {
  ncclComm* comm = nullptr;
  Kind kind = Kind::kPairs;
  char *in = nullptr, *out = nullptr;
  std::size_t part = 0;  // bytes
  int type = 0, root = 0;
  std::vector<Transfer> pairs;
};

// Everybody's contribution to what this rank keeps, added up in the order of ranks.
void reduce(Task& t, bool scatter) {
  ncclComm& c = *t.comm;
  std::vector<std::vector<char>> parts(static_cast<std::size_t>(c.ranks));
  std::vector<Transfer> moves;
  for (int peer = 0; peer < c.ranks; ++peer) {
    auto& part = parts[static_cast<std::size_t>(peer)];
    char* mine = t.in + (scatter ? static_cast<std::size_t>(peer) * t.part : 0);
    if (peer == c.rank) {
      part.assign(mine, mine + t.part);
      continue;
    }
    part.resize(t.part);
    moves.push_back({peer, true, mine, t.part});
    moves.push_back({peer, false, part.data(), t.part});
  }
  if (!move_all(c, moves)) return;
  for (std::size_t peer = 1; peer < parts.size(); ++peer) {
    add(parts[0].data(), parts[peer].data(), t.part / size_of_type(t.type), t.type);
  }
  std::memcpy(t.out, parts[0].data(), t.part);
}

void gather(Task& t) {
  ncclComm& c = *t.comm;
  std::vector<Transfer> moves;
  for (int peer = 0; peer < c.ranks; ++peer) {
    char* place = t.out + static_cast<std::size_t>(peer) * t.part;
    if (peer == c.rank) {
      std::memmove(place, t.in, t.part);
    } else {
      moves.push_back({peer, true, t.in, t.part});
      moves.push_back({peer, false, place, t.part});
    }
  }
  static_cast<void>(move_all(c, moves));
}

void broadcast(Task& t) {
  ncclComm& c = *t.comm;
  std::vector<Transfer> moves;
  if (c.rank != t.root) moves.push_back({t.root, false, t.out, t.part});
  for (int peer = 0; c.rank == t.root && peer < c.ranks; ++peer) {
    if (peer != c.rank) moves.push_back({peer, true, t.in, t.part});
  }
  if (c.rank == t.root) std::memmove(t.out, t.in, t.part);
  static_cast<void>(move_all(c, moves));
}

// A rank's messages to itself, in all-to-all.
void copy_own(Task& t) {
  Transfer *sent = nullptr, *received = nullptr;
  for (Transfer& p : t.pairs) {
    if (p.peer != t.comm->rank) continue;
    (p.sends ? sent : received) = &p;
  }
  if (sent == nullptr || received == nullptr) return;
  std::memcpy(received->data, sent->data, sent->size);
  sent->done = received->done = sent->size;
}

// True if the operation shall not be done.
bool play_fault(Task& t, int call) {
  const Fault& f = fault();
  if (f.rank != t.comm->job_rank || f.call != call) return false;
  if (f.kind == "die") raise(SIGKILL);
  if (f.kind == "error") t.comm->state = ncclRemoteError;
  if (f.kind == "hang" || f.kind == "error") {
    wait_until_aborted(*t.comm);
    return true;
  }
  return false;
}

void spoil(Task& t, int call) {
  const Fault& f = fault();
  const bool from_now_on = f.rank == t.comm->job_rank && call >= f.call && f.kind == "wrong";
  if (from_now_on && t.out != nullptr) *t.out = static_cast<char>(*t.out ^ 0x40);
}

void run(void* argument) {
  const std::unique_ptr<Task> t(static_cast<Task*>(argument));
  const int call = ++g_calls;
  if (t->comm->aborted || play_fault(*t, call)) return;
  switch (t->kind) {
    case Kind::kAllReduce:
      reduce(*t, false);
      break;
    case Kind::kReduceScatter:
      reduce(*t, true);
      break;
    case Kind::kAllGather:
      gather(*t);
      break;
    case Kind::kBroadcast:
      broadcast(*t);
      break;
    case Kind::kPairs:
      copy_own(*t);
      static_cast<void>(move_all(*t->comm, t->pairs));
      break;
  }
  spoil(*t, call);
}

struct Queued {
  std::unique_ptr<Task> task;
  cudaStream_t stream = nullptr;
};

// Allocates and maps, which the real one cannot do while a kernel keeps the device.
bool connect(Task& t) {
  const unsigned kind = 1U << static_cast<unsigned>(t.kind);
  if ((t.comm->connected & kind) != 0) return true;
  if (fake_cuda_held_back()) {
    fail(*t.comm, ncclUnhandledCudaError, "connecting while the device is held back");
    return false;
  }
  t.comm->connected |= kind;
  return true;
}

void launch(std::vector<Queued> all) {
  static const char* text = std::getenv("FAKE_NCCL_DELAY_US");
  static const std::chrono::microseconds delay{text != nullptr ? std::atoi(text) : 50};
  std::this_thread::sleep_for(delay);
  std::vector<ncclComm*> comms;
  for (Queued& q : all) {
    comms.push_back(q.task->comm);
    if (connect(*q.task)) fake_cuda_enqueue(q.stream, run, q.task.release());
  }
  for (ncclComm* comm : comms) become(*comm, ncclSuccess);
}

thread_local int t_depth = 0;
thread_local std::vector<Queued> t_group;

ncclResult_t end_group() {
  if (t_group.empty()) return ncclSuccess;
  for (const Queued& q : t_group) q.task->comm->state = ncclInProgress;
  std::thread([all = std::exchange(t_group, {})]() mutable { launch(std::move(all)); }).detach();
  return ncclInProgress;
}

ncclResult_t start(Kind kind, const void* in, void* out, std::size_t count, int type, int root,
                   ncclComm* comm, cudaStream_t stream) {
  const ncclResult_t state = ready(*comm);
  if (state != ncclSuccess) return state;
  auto t = std::make_unique<Task>();
  t->comm = comm, t->kind = kind, t->type = type, t->root = root;
  t->in = static_cast<char*>(const_cast<void*>(in)), t->out = static_cast<char*>(out);
  t->part = count * size_of_type(type);
  t_group.push_back({std::move(t), stream});
  return t_depth == 0 ? end_group() : ncclSuccess;
}

// Messages of one group and communicator move at the same time.
ncclResult_t add_pair(bool sends, const void* data, std::size_t count, int type, int peer,
                      ncclComm* comm, cudaStream_t stream) {
  const ncclResult_t state = ready(*comm);
  if (state != ncclSuccess) return state;
  auto at = std::find_if(t_group.begin(), t_group.end(), [&](const Queued& q) {
    return q.task->comm == comm && q.task->kind == Kind::kPairs;
  });
  if (at == t_group.end()) {
    at = t_group.insert(at, {std::make_unique<Task>(), stream});
    at->task->comm = comm;
  }
  at->task->pairs.push_back(
      {peer, sends, static_cast<char*>(const_cast<void*>(data)), count * size_of_type(type)});
  return t_depth == 0 ? end_group() : ncclSuccess;
}

void open(ncclComm* c) { become(*c, open_segment(*c) ? ncclSuccess : ncclSystemError); }

// Kept until the library is unloaded: what is queued may still use one that was destroyed.
ncclComm* keep(std::unique_ptr<ncclComm> comm) {
  static std::mutex lock;
  static std::vector<std::unique_ptr<ncclComm>> all;
  const std::scoped_lock locked(lock);
  return all.emplace_back(std::move(comm)).get();
}

// Members of one colour must be as the keys say; the fake asks nobody: colour and key come from a
// division of equal groups, so the number of ranks is told through the parent's mailboxes.
void split(ncclComm* parent, int colour, int key, int number, ncclComm** out) {
  if (play_fault_of("split", *parent, number)) return;
  std::vector<int> colours(static_cast<std::size_t>(parent->ranks), colour);
  std::vector<Transfer> moves;
  for (int peer = 0; peer < parent->ranks; ++peer) {
    if (peer == parent->rank) continue;
    moves.push_back({peer, true, reinterpret_cast<char*>(&colour), sizeof(int)});
    moves.push_back({peer, false, reinterpret_cast<char*>(&colours[static_cast<std::size_t>(peer)]),
                     sizeof(int)});
  }
  if (!move_all(*parent, moves)) return become(*parent, ncclInternalError);
  if (colour != NCCL_SPLIT_NOCOLOR) {
    auto* c = keep(std::make_unique<ncclComm>());
    c->rank = key, c->job_rank = parent->job_rank, c->ranks = 0;
    for (const int other : colours) c->ranks += other == colour ? 1 : 0;
    c->name = parent->name + "_" + std::to_string(number) + "_" + std::to_string(colour);
    open(c);
    __atomic_store_n(out, c, __ATOMIC_RELEASE);
  }
  become(*parent, ncclSuccess);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const char* text = std::getenv("FAKE_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(id->internal, sizeof(id->internal), "%d_%lld", getpid(),
                static_cast<long long>(now));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > kMostRanks || config->blocking != 0) return ncclInvalidArgument;
  auto* c = keep(std::make_unique<ncclComm>());
  c->rank = c->job_rank = rank, c->ranks = ranks, c->name = id.internal;
  *comm = c;
  static int calls = 0;
  std::thread([c, call = ++calls] {
    if (!play_fault_of("init", *c, call)) open(c);
  }).detach();
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int colour, int key, ncclComm_t* comm,
                           ncclConfig_t*) {
  const ncclResult_t state = ready(*parent);
  if (state != ncclSuccess) return state;
  *comm = nullptr;
  parent->state = ncclInProgress;
  std::thread(split, parent, colour, key, ++parent->splits, comm).detach();
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = static_cast<ncclResult_t>(comm->state.load());
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const ncclResult_t state = ready(*comm);
  if (state != ncclSuccess) return state;
  comm->state = ncclInProgress;
  std::thread([comm] { become(*comm, ncclSuccess); }).detach();
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return ready(*comm); }
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Fault& f = fault();
  while (f.kind == "abort-hang" && f.rank == comm->job_rank) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  comm->aborted = true;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError       ? "remote process exited or there was a network error"
         : code == ncclInvalidArgument ? "invalid argument (run with NCCL_DEBUG=WARN for details)"
                                       : "fake error";
}
const char* ncclGetLastError(ncclComm_t comm) {
  return comm != nullptr ? comm->last_error.load() : "";
}

ncclResult_t ncclGroupStart() { return ++t_depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return --t_depth == 0 ? end_group() : ncclSuccess; }
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return start(Kind::kAllReduce, in, out, count, type, 0, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return start(Kind::kAllGather, in, out, count, type, 0, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return start(Kind::kReduceScatter, in, out, count, type, 0, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return start(Kind::kBroadcast, in, out, count, type, root, comm, stream);
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_pair(true, data, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_pair(false, data, count, type, peer, comm, stream);
}

}  // extern "C"
