#include "collective_work.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "pattern.hpp"

namespace meshplan::device {
namespace {

constexpr std::chrono::microseconds kPause{50};

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
        return call(api.all_reduce(in, out, part, type, nccl::kSum, comm_, stream), "all-reduce");
      case Collective::kAllGather:
        return call(api.all_gather(in, out, part, type, comm_, stream), "all-gather");
      case Collective::kReduceScatter:
        return call(api.reduce_scatter(in, out, part, type, nccl::kSum, comm_, stream),
                    "reduce-scatter");
      case Collective::kAllToAll:
        return all_to_all(stream);
      case Collective::kBroadcast:
        return call(api.broadcast(in, out, part, type, 0, comm_, stream), "broadcast");
      case Collective::kSendRecv:
        return pass_on(stream);
    }
  }

  // All ranks of the job, so that sibling groups begin together too.
  void align(cudaStream_t stream) override {
    call(communicators_.api().all_reduce(aligned_.data(), aligned_.data(), 1, nccl::kFloat32,
                                         nccl::kSum, communicators_.world(), stream),
         "all-reduce");
  }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    if (comm_ == nullptr) return {0, {}};
    fill();
    issue(stream);
    finish();
    const bool both = c_.bidirectional != 0 || c_.ping_pong != 0;
    if (!receives(collective_, both, c_.member)) return {0, {}};
    std::vector<char> got(static_cast<std::size_t>(receive_.size()));
    MESHPLAN_CUDA(cudaMemcpy(got.data(), receive_.data(), got.size(), cudaMemcpyDeviceToHost));
    CheckResult result{0, {}};
    for (std::int64_t i = 0; i < sizes_.receive; i += step()) {
      const int want = received(collective_, sizes_, i, c_.member, c_.group_size);
      if (value_at(got.data(), i, dtype_) != want) ++result.wrong;
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

  void call(int status, const char* what) { communicators_.call(status, what); }

  // Of large buffers every so many elements are looked at; 97 shares no factor with the pattern.
  [[nodiscard]] std::int64_t step() const {
    constexpr std::int64_t kAll = std::int64_t{1} << 24;
    return sizes_.receive <= kAll ? 1 : 97;
  }

  void fill() const {
    std::vector<char> bytes(static_cast<std::size_t>(send_.size()));
    for (std::int64_t i = 0; i < sizes_.send; ++i) {
      store_at(bytes.data(), i, dtype_, sent(collective_, sizes_, i, c_.member));
    }
    MESHPLAN_CUDA(cudaMemcpy(send_.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    // What no result is: a message that does not come shows.
    MESHPLAN_CUDA(cudaMemset(receive_.data(), 0x55, static_cast<std::size_t>(receive_.size())));
  }

  void all_to_all(cudaStream_t stream) {
    const nccl::Api& api = communicators_.api();
    const auto part = static_cast<std::size_t>(sizes_.part);
    const std::int64_t bytes = sizes_.part * size_of(dtype_);
    const int type = nccl_type(dtype_);
    call(api.group_start(), "group start");
    for (int peer = 0; peer < static_cast<int>(c_.group_size); ++peer) {
      call(api.send(send_.at(peer * bytes), part, type, peer, comm_, stream), "send");
      call(api.receive(receive_.at(peer * bytes), part, type, peer, comm_, stream), "receive");
    }
    call(api.group_end(), "group end");
  }

  // To the next member, from the one before; in a ping-pong back again, in the order of the stream.
  void pass_on(cudaStream_t stream) {
    const bool all = c_.bidirectional != 0;
    exchange(stream, all || c_.member == 0, all || c_.member == 1);
    if (c_.ping_pong != 0) exchange(stream, c_.member == 1, c_.member == 0);
  }

  void exchange(cudaStream_t stream, bool send, bool receive) {
    const nccl::Api& api = communicators_.api();
    const auto part = static_cast<std::size_t>(sizes_.part);
    const auto ranks = static_cast<int>(c_.group_size), member = static_cast<int>(c_.member);
    const int next = (member + 1) % ranks, before = (member + ranks - 1) % ranks;
    const int type = nccl_type(dtype_);
    call(api.group_start(), "group start");
    if (send) {
      call(api.send(send_.data(), part, type, next, comm_, stream), "send");
    }
    if (receive) {
      call(api.receive(receive_.data(), part, type, before, comm_, stream), "receive");
    }
    call(api.group_end(), "group end");
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
  if (status == nccl::kSuccess || status == nccl::kInProgress) return;
  const char* last = api_->last_error(world_);
  throw DeviceError(std::string("NCCL's ") + what + ": " + api_->error_text(status) +
                    (last != nullptr && *last != '\0' ? std::string(": ") + last : ""));
}

// Non-blocking calls go on in the background: this waits for them, and for nothing else.
void Communicators::wait(nccl::Comm comm, const char* what) {
  int state = nccl::kInProgress;
  while (true) {
    call(api_->async_error(comm, &state), what);
    if (state != nccl::kInProgress) break;
    if (cancelled()) throw DeviceError("stopped");
    std::this_thread::sleep_for(kPause);
  }
  call(state, what);
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
  nccl::Comm group = nullptr;
  const int colour = c.group < 0 ? nccl::kNoColour : static_cast<int>(c.group);
  call(api_->split(world_, colour, static_cast<int>(c.member), &group, &config), "split");
  wait(world_, "split");
  if (group != nullptr) wait(group, "split");
  const std::lock_guard lock(mutex_);
  groups_[division] = group;
  return group;
}

void Communicators::check() {
  if (world_ == nullptr) return;
  int state = nccl::kSuccess;
  call(api_->async_error(world_, &state), "collective");
  call(state, "collective");
  for (const auto& [division, group] : groups_) {
    if (group == nullptr) continue;
    call(api_->async_error(group, &state), "collective");
    call(state, "collective");
  }
}

void Communicators::abort() {
  const std::lock_guard lock(mutex_);
  if (api_ == nullptr || aborted_) return;
  aborted_ = true;
  for (const auto& [division, group] : groups_) {
    if (group != nullptr) static_cast<void>(api_->abort(group));
  }
  if (world_ != nullptr) static_cast<void>(api_->abort(world_));
}

void Communicators::release() {
  const auto end = [this](nccl::Comm comm) {
    if (comm == nullptr) return;
    call(api_->finalize(comm), "end");
    wait(comm, "end");
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
