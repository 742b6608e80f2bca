#pragma once
// Collectives through NCCL: communicators that never block, and waits that always end. A call on
// such a communicator may return before it did anything: NCCL goes on in a thread of its own, and
// refuses every further use until ncclCommGetAsyncError says that it is done (docs.nvidia.com,
// "Fault Tolerance"; NCCL 2.28.9, src/group.cc: ncclGroupEndInternal, src/init.cc:
// ncclCommEnsureReady).
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "nccl_api.hpp"
#include "work.hpp"

namespace meshplan::device {

// The communicators of this rank: all ranks, and one for each division into groups.
class Communicators {
 public:
  explicit Communicators(const meshplan_probe_job& job);
  ~Communicators() = default;

  void make_key(unsigned char* key) const;
  void connect(const unsigned char* key);
  // Collective: all ranks of the job call it for the same division. Null for idle ranks.
  nccl::Comm of(const meshplan_probe_collective& c);

  // Issues work on a communicator: `issue` calls NCCL and returns its status. Returns once the
  // streams hold the work, so that what is queued next comes after it, and the communicator may be
  // used again. Throws DeviceError, naming `what`, if that fails or the job is cancelled.
  void issue(nccl::Comm comm, const char* what, const std::function<int()>& issue);

  // Throws if a communicator failed.
  void check();
  // From another thread. Does not wait.
  void abort();
  // In good order.
  void release();

  void call(int status, const char* what) const;
  [[nodiscard]] const nccl::Api& api() const { return *api_; }
  [[nodiscard]] bool cancelled() const;
  [[nodiscard]] nccl::Comm world() const { return world_; }

 private:
  meshplan_probe_job job_;
  const nccl::Api* api_ = nullptr;
  nccl::Comm world_ = nullptr;
  // NCCL fills in a communicator when its split is done, from a thread of its own: the places stay.
  std::map<std::array<std::int64_t, MESHPLAN_PROBE_DIVISION>, nccl::Comm> groups_;
  // Held around every use of a communicator, which abort() frees.
  std::timed_mutex mutex_;
  std::atomic<bool> aborted_{false};

  int state_of(nccl::Comm comm, const char* what);
  void wait(nccl::Comm comm, const char* what);
};

[[nodiscard]] std::unique_ptr<Work> make_collective(const meshplan_probe_collective& c,
                                                    Communicators& communicators);

}  // namespace meshplan::device
