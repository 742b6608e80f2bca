#include "collective_work.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "pattern.hpp"

namespace meshplan::device {
namespace {

// A launch takes some ten microseconds, a connection milliseconds: the wait for the first spins.
constexpr int kSpins = 100;
constexpr std::chrono::microseconds kPause{50};
// What a call under way gets to return before its communicator is aborted nonetheless.
constexpr std::chrono::milliseconds kGrace{100};

int nccl_type(Dtype d) {
  switch (d) {
    case Dtype::kFp32:
      return nccl::kFloat32;
    case Dtype::kFp16:
      return nccl::kFloat16;
    case Dtype::kBf16:
      return nccl::kBfloat16;
    case Dtype::kFp8:
      return nccl::kUint8;  // moved, never added up
  }
  return nccl::kUint8;
}

bool is_error(int status) { return status != nccl::kSuccess && status != nccl::kInProgress; }

// Calls that NCCL starts together. The first failure is the group's.
class Group {
 public:
  explicit Group(const nccl::Api& api) : api_(api), status_(api.group_start()) {}
  void add(int status) {
    if (!is_error(status_)) status_ = status;
  }
  int end() {
    const int ended = api_.group_end();
    return is_error(status_) ? status_ : ended;
  }

 private:
  const nccl::Api& api_;
  int status_;
};

class CollectiveWork : public Work {
 public:
  CollectiveWork(const meshplan_probe_collective& c, Communicators& communicators)
      : c_(c),
        communicators_(communicators),
        collective_(static_cast<Collective>(c.collective)),
        dtype_(static_cast<Dtype>(c.dtype)),
        comm_(communicators.of(c)),
        sizes_(buffer_sizes(collective_, c.bytes / size_of(dtype_), c.group_size)),
        aligned_(sizeof(float)) {
    if (sizes_.part < 1) throw ImpossibleError("there is less than one element for each rank");
    const bool adds =
        collective_ == Collective::kAllReduce || collective_ == Collective::kReduceScatter;
    if (adds && dtype_ == Dtype::kFp8) throw ImpossibleError("NCCL does not add up bytes of fp8");
    MESHPLAN_CUDA(cudaMemset(aligned_.data(), 0, sizeof(float)));
    finish_copies();
    if (comm_ == nullptr) return;
    send_ = Buffer(sizes_.send * size_of(dtype_));
    receive_ = Buffer(sizes_.receive * size_of(dtype_));
    fill();
  }

  void issue(cudaStream_t stream) override {
    if (comm_ == nullptr) return;
    const nccl::Api& api = communicators_.api();
    const auto part = static_cast<std::size_t>(sizes_.part);
    const int type = nccl_type(dtype_);
    void* in = send_.data();
    void* out = receive_.data();
    switch (collective_) {
      case Collective::kAllReduce:
        return call("all-reduce",
                    [&] { return api.all_reduce(in, out, part, type, nccl::kSum, comm_, stream); });
      case Collective::kAllGather:
        return call("all-gather",
                    [&] { return api.all_gather(in, out, part, type, comm_, stream); });
      case Collective::kReduceScatter:
        return call("reduce-scatter", [&] {
          return api.reduce_scatter(in, out, part, type, nccl::kSum, comm_, stream);
        });
      case Collective::kAllToAll:
        return call("all-to-all", [&] { return all_to_all(stream); });
      case Collective::kBroadcast:
        return call("broadcast",
                    [&] { return api.broadcast(in, out, part, type, 0, comm_, stream); });
      case Collective::kSendRecv:
        return pass_on(stream);
    }
  }
  // NCCL puts its stream's event before each kernel and records another after it (src/enqueue.cc,
  // ncclLaunchPrepare and ncclLaunchFinish).
  [[nodiscard]] std::int64_t kernels_per_call() const override { return c_.ping_pong != 0 ? 8 : 4; }

  // All ranks of the job, so that sibling groups begin together too.
  void align(cudaStream_t stream) override {
    communicators_.issue(communicators_.world(), "all-reduce", [&] {
      return communicators_.api().all_reduce(aligned_.data(), aligned_.data(), 1, nccl::kFloat32,
                                             nccl::kSum, communicators_.world(), stream);
    });
  }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    if (comm_ == nullptr) return {0, {}};
    fill();
    issue(stream);
    finish();
    const bool both = c_.bidirectional != 0 || c_.ping_pong != 0;
    if (!receives(collective_, both, c_.member)) return {0, {}};
    const Pattern want = Pattern::received(collective_, sizes_, c_.member, c_.group_size);
    const std::int64_t size = size_of(dtype_);
    std::vector<char> got;
    CheckResult result{0, {}};
    for (const Span span : sampled(want)) {
      got.resize(static_cast<std::size_t>((span.end - span.begin) * size));
      MESHPLAN_CUDA(cudaMemcpy(got.data(), receive_.at(span.begin * size), got.size(),
                               cudaMemcpyDeviceToHost));
      for (std::int64_t i = span.begin; i < span.end; ++i) {
        if (value_at(got.data(), i - span.begin, dtype_) != want.at(i)) ++result.wrong;
      }
    }
    return result;
  }

 private:
  meshplan_probe_collective c_;
  Communicators& communicators_;
  Collective collective_;
  Dtype dtype_;
  nccl::Comm comm_;
  BufferSizes sizes_;
  Buffer send_, receive_, aligned_;

  void call(const char* what, const std::function<int()>& issue) {
    communicators_.issue(comm_, what, issue);
  }

  void fill() const {
    const Pattern p = Pattern::sent(collective_, sizes_, c_.member, c_.group_size);
    const std::int64_t size = size_of(dtype_);
    std::vector<char> head(static_cast<std::size_t>(head_of(p) * size));
    const auto write = [&](Span span) {
      for (std::int64_t i = span.begin; i < span.end; ++i) {
        store_at(head.data(), i - span.begin, dtype_, p.at(i));
      }
      MESHPLAN_CUDA(cudaMemcpy(send_.at(span.begin * size), head.data(),
                               static_cast<std::size_t>((span.end - span.begin) * size),
                               cudaMemcpyHostToDevice));
    };
    device::fill(p, write, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
      MESHPLAN_CUDA(cudaMemcpy(send_.at(to * size), send_.at(from * size),
                               static_cast<std::size_t>(n * size), cudaMemcpyDeviceToDevice));
    });
    // What no result is: a message that does not come shows.
    MESHPLAN_CUDA(cudaMemset(receive_.data(), 0x55, static_cast<std::size_t>(receive_.size())));
    finish_copies();
  }

  int all_to_all(cudaStream_t stream) {
    const nccl::Api& api = communicators_.api();
    const auto part = static_cast<std::size_t>(sizes_.part);
    const std::int64_t bytes = sizes_.part * size_of(dtype_);
    const int type = nccl_type(dtype_);
    Group group(api);
    for (int peer = 0; peer < static_cast<int>(c_.group_size); ++peer) {
      group.add(api.send(send_.at(peer * bytes), part, type, peer, comm_, stream));
      group.add(api.receive(receive_.at(peer * bytes), part, type, peer, comm_, stream));
    }
    return group.end();
  }

  // In a ping-pong back again, in the order of the stream.
  void pass_on(cudaStream_t stream) {
    const bool all = c_.bidirectional != 0, first = c_.member == 0, second = c_.member == 1;
    call("send-recv", [&] { return exchange(stream, all || first, all || second); });
    if (c_.ping_pong == 0) return;
    call("send-recv", [&] { return exchange(stream, second, first); });
  }

  // To the next member, from the one before.
  int exchange(cudaStream_t stream, bool send, bool receive) {
    const nccl::Api& api = communicators_.api();
    const auto part = static_cast<std::size_t>(sizes_.part);
    const auto ranks = static_cast<int>(c_.group_size), member = static_cast<int>(c_.member);
    const int next = (member + 1) % ranks, before = (member + ranks - 1) % ranks;
    const int type = nccl_type(dtype_);
    Group group(api);
    if (send) {
      group.add(api.send(send_.data(), part, type, next, comm_, stream));
    }
    if (receive) {
      group.add(api.receive(receive_.data(), part, type, before, comm_, stream));
    }
    return group.end();
  }
};

}  // namespace

Communicators::Communicators(const meshplan_probe_job& job) : job_(job) {
  if (job.ranks < 2) return;
  std::string reason;
  api_ = nccl::load(reason);
  if (api_ == nullptr) throw DeviceError(reason);
}

bool Communicators::cancelled() const {
  return __atomic_load_n(job_.cancelled, __ATOMIC_RELAXED) != 0;
}

void Communicators::call(int status, const char* what) const {
  if (!is_error(status)) return;
  const char* last = api_->last_error(world_);
  throw DeviceError(std::string("NCCL's ") + what + ": " + api_->error_text(status) +
                    (last != nullptr && *last != '\0' ? std::string(": ") + last : ""));
}

void Communicators::issue(nccl::Comm comm, const char* what, const std::function<int()>& issue) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw DeviceError("stopped");
    call(issue(), what);
  }
  wait(comm, what);
}

int Communicators::state_of(nccl::Comm comm, const char* what) {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw DeviceError("stopped");
  int state = nccl::kSuccess;
  call(api_->async_error(comm, &state), what);
  call(state, what);
  return state;
}

// Until the communicator may be used again. Whoever sets deadlines cancels.
void Communicators::wait(nccl::Comm comm, const char* what) {
  for (int spins = 0; state_of(comm, what) == nccl::kInProgress; ++spins) {
    if (cancelled()) throw DeviceError("stopped");
    if (spins < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

void Communicators::make_key(unsigned char* key) const {
  if (api_ == nullptr) return;
  nccl::UniqueId id{};
  call(api_->unique_id(&id), "unique id");
  std::memcpy(key, &id, sizeof(id));
}

void Communicators::connect(const unsigned char* key) {
  if (api_ == nullptr) return;
  nccl::UniqueId id{};
  std::memcpy(&id, key, sizeof(id));
  nccl::Config config = nccl::non_blocking_config();
  nccl::Comm world = nullptr;
  const int status = api_->init_rank(&world, static_cast<int>(job_.ranks), id,
                                     static_cast<int>(job_.rank), &config);
  {
    const std::lock_guard lock(mutex_);
    world_ = world;
  }
  call(status, "initialisation");
  wait(world_, "initialisation");
}

nccl::Comm Communicators::of(const meshplan_probe_collective& c) {
  if (api_ == nullptr) throw ImpossibleError("one rank has nobody to talk to");
  std::array<std::int64_t, MESHPLAN_PROBE_DIVISION> division{};
  std::copy(std::begin(c.division), std::end(c.division), division.begin());
  const auto known = groups_.find(division);
  if (known != groups_.end()) return known->second;
  nccl::Config config = nccl::non_blocking_config();
  nccl::Comm* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    group = &groups_[division];
  }
  const int colour = c.group < 0 ? nccl::kNoColour : static_cast<int>(c.group);
  issue(world_, "split",
        [&] { return api_->split(world_, colour, static_cast<int>(c.member), group, &config); });
  if (*group != nullptr) wait(*group, "split");
  return *group;
}

void Communicators::check() {
  if (world_ == nullptr) return;
  static_cast<void>(state_of(world_, "collective"));
  for (const auto& [division, group] : groups_) {
    if (group != nullptr) static_cast<void>(state_of(group, "collective"));
  }
}

// Each in a thread of its own: NCCL waits in an abort for what may never come.
void Communicators::abort() {
  const std::unique_lock lock(mutex_, kGrace);
  if (api_ == nullptr || aborted_.exchange(true)) return;
  const auto end = [this](nccl::Comm comm) {
    if (comm != nullptr) std::thread(api_->abort, comm).detach();
  };
  for (const auto& [division, group] : groups_) end(__atomic_load_n(&group, __ATOMIC_ACQUIRE));
  end(world_);
}

void Communicators::release() {
  const auto end = [this](nccl::Comm comm) {
    if (comm == nullptr) return;
    issue(comm, "end", [&] { return api_->finalize(comm); });
    static_cast<void>(api_->destroy(comm));
  };
  for (const auto& [division, group] : groups_) end(group);
  groups_.clear();
  end(std::exchange(world_, nullptr));
}

std::unique_ptr<Work> make_collective(const meshplan_probe_collective& c,
                                      Communicators& communicators) {
  return std::make_unique<CollectiveWork>(c, communicators);
}

}  // namespace meshplan::device
