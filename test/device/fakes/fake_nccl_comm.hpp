#pragma once
// A communicator of the stand-in for NCCL: its state, the memory that its ranks share, and the
// faults that are played.
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <linux/futex.h>
#include <nccl.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace fake_nccl {

constexpr int kMostRanks = 8;
constexpr std::size_t kChunk = 256 * 1024;

// From one rank to another: full while `size` is not zero.
struct Mailbox {
  std::atomic<std::uint32_t> size;
  char data[kChunk];
};
struct Segment {
  std::atomic<int> opened;
  std::atomic<std::uint32_t> news[kMostRanks];  // of the rank's boxes, counted
  Mailbox boxes[kMostRanks][kMostRanks];        // [from][to]
};

// Sleeps until the count is another one than `seen`, or a few milliseconds are over: the processes
// of a test wait on few processors, and what they share has no other way to wake them.
inline void wait_for_news(const std::atomic<std::uint32_t>& news, std::uint32_t seen) {
  const timespec most{0, 2'000'000};
  syscall(SYS_futex, &news, FUTEX_WAIT, seen, &most, nullptr, 0);
}
inline void tell(std::atomic<std::uint32_t>& news) {
  news.fetch_add(1);
  syscall(SYS_futex, &news, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace fake_nccl

struct ncclComm {
  int rank = 0, ranks = 1;
  std::string name;
  fake_nccl::Segment* segment = nullptr;
  std::atomic<int> state{ncclInProgress};
  std::atomic<bool> aborted{false};
  std::atomic<const char*> last_error{""};
  unsigned connected = 0;  // a bit for each kind of operation; of the thread that launches
  int splits = 0;
  int job_rank = 0;  // for faults
};

namespace fake_nccl {

struct Fault {
  int rank = -1, call = 0;
  std::string kind;
};

inline const Fault& fault() {
  static const Fault found = [] {
    Fault f;
    char kind[16] = "";
    const char* text = std::getenv("FAKE_NCCL_FAULT");
    if (text != nullptr && std::sscanf(text, "%d:%d:%15s", &f.rank, &f.call, kind) == 3) {
      f.kind = kind;
    }
    return f;
  }();
  return found;
}

inline std::atomic<int> g_calls{0};

// The end of what was in progress. A failure meanwhile stays.
inline void become(ncclComm& c, ncclResult_t state) {
  int busy = ncclInProgress;
  c.state.compare_exchange_strong(busy, state);
}

inline void fail(ncclComm& c, ncclResult_t state, const char* why) {
  c.last_error = why;
  c.state = state;
}

// What a call on a communicator answers before it does anything (ncclCommEnsureReady).
inline ncclResult_t ready(ncclComm& c) {
  if (c.state == ncclInProgress) {
    fail(c, ncclInvalidArgument, "used before the previous operation returned");
  }
  return static_cast<ncclResult_t>(c.state.load());
}

inline void wait_until_aborted(const ncclComm& c) {
  while (!c.aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A fault of a step that has a name of its own; true if the step shall not be done.
inline bool play_fault_of(const char* step, ncclComm& c, int call) {
  const Fault& f = fault();
  const std::string wanted = std::string(step) + '-';
  if (f.rank != c.job_rank || f.call != call || f.kind.rfind(wanted, 0) != 0) return false;
  const std::string kind = f.kind.substr(wanted.size());
  if (kind == "die") raise(SIGKILL);
  if (kind == "error") fail(c, ncclRemoteError, "");
  if (kind == "hang") wait_until_aborted(c);
  return true;
}

inline bool open_segment(ncclComm& c) {
  const std::string path = "/fake_nccl_" + c.name;
  const int fd = shm_open(path.c_str(), O_CREAT | O_RDWR, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Segment)) != 0) return false;
  void* memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return false;
  c.segment = static_cast<Segment*>(memory);  // a new file is all zeros: empty boxes
  c.segment->opened.fetch_add(1);
  while (c.segment->opened.load() < c.ranks) {
    if (c.aborted) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  shm_unlink(path.c_str());  // nobody else opens it: nothing stays behind
  return true;
}

}  // namespace fake_nccl
