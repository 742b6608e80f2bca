#pragma once
// Collectives through NCCL: communicators that never block, and waits that always end.
#include <array>
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

  // Throws if a communicator failed.
  void check();
  // From another thread.
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
  std::map<std::array<std::int64_t, MESHPLAN_PROBE_DIVISION>, nccl::Comm> groups_;
  std::mutex mutex_;  // of the list, which abort() walks
  bool aborted_ = false;

  void wait(nccl::Comm comm, const char* what);
};

[[nodiscard]] std::unique_ptr<Work> make_collective(const meshplan_probe_collective& c,
                                                    Communicators& communicators);

}  // namespace meshplan::device
