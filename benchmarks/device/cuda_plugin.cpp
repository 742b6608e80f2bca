// NVIDIA GPUs: kernels through CUDA, cuBLASLt and cuDNN, communication through NCCL.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "collective_work.hpp"
#include "nvml_clock.hpp"
#include "work.hpp"

namespace meshplan::device {
namespace {

using HostClock = std::chrono::steady_clock;

// The queue of a stream holds about a thousand launches; behind a closed gate none of them leaves.
constexpr std::int64_t kMostQueued = 500;

double seconds_since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

std::string cuda_version(int v) {
  return std::to_string(v / 1000) + '.' + std::to_string(v % 1000 / 10);
}

int take_device(const meshplan_probe_job& job) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    const bool installed = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    if (!installed) throw DeviceError("there is no driver of NVIDIA here");
    require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    throw DeviceError("the driver of NVIDIA is too old: it goes up to CUDA " +
                      cuda_version(driver) + ", this plug-in needs CUDA " + cuda_version(runtime) +
                      "; install a newer driver, or build meshplan with the older CUDA");
  }
  if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0)) {
    throw DeviceError("there is no GPU here");
  }
  require(found, "cudaGetDeviceCount");
  const int number = static_cast<int>(job.local_rank % count);
  MESHPLAN_CUDA(cudaSetDevice(number));
  return number;
}

std::string bus_id_of(int number) {
  std::array<char, 32> text{};
  MESHPLAN_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), number));
  return text.data();
}

int attribute(cudaDeviceAttr which, int number) {
  int value = 0;
  MESHPLAN_CUDA(cudaDeviceGetAttribute(&value, which, number));
  return value;
}

Properties properties_of(int number) {
  Properties p;
  p.number = number;
  p.l2_bytes = attribute(cudaDevAttrL2CacheSize, number);
  p.major = attribute(cudaDevAttrComputeCapabilityMajor, number);
  p.minor = attribute(cudaDevAttrComputeCapabilityMinor, number);
  std::size_t free_bytes = 0, total = 0;
  MESHPLAN_CUDA(cudaMemGetInfo(&free_bytes, &total));
  p.memory_bytes = static_cast<std::int64_t>(total);
  return p;
}

class Rank {
 public:
  explicit Rank(const meshplan_probe_job& job)
      : job_(job),
        properties_(properties_of(take_device(job))),
        bus_id_(bus_id_of(properties_.number)),
        clock_(bus_id_),
        communicators_(job) {}

  void describe(const std::function<void(const char*, const std::string&)>& say) const {
    cudaDeviceProp p{};
    MESHPLAN_CUDA(cudaGetDeviceProperties(&p, properties_.number));
    int driver = 0, runtime = 0, nccl_version = 0;
    MESHPLAN_CUDA(cudaDriverGetVersion(&driver));
    MESHPLAN_CUDA(cudaRuntimeGetVersion(&runtime));
    say("device", p.name);
    say("device_id", bus_id_);
    say("memory_bytes", std::to_string(properties_.memory_bytes));
    say("accelerator", "1");
    say("version.driver", clock_.driver().empty() ? cuda_version(driver) : clock_.driver());
    say("version.cuda", cuda_version(runtime));
    say("version.cublaslt", std::to_string(cublasLtGetVersion()));
    if (job_.ranks < 2) return;
    communicators_.call(communicators_.api().version(&nccl_version), "version");
    say("version.nccl", nccl::version_text(nccl_version));
  }

  Communicators& communicators() { return communicators_; }
  [[nodiscard]] double clock_ratio() const { return clock_.ratio(); }

  void prepare(const meshplan_probe_operation& op) {
    kind_ = op.kind;
    per_call_ = 1;
    warm_ = false;
    const auto wait = [this] { finish_stream(stream_); };
    switch (op.kind) {
      case MESHPLAN_PROBE_COLLECTIVE:
        work_ = make_collective(op.collective, communicators_);
        return;
      case MESHPLAN_PROBE_GEMM:
        work_ = make_gemm(op.gemm, properties_, wait);
        return;
      case MESHPLAN_PROBE_ATTENTION:
        work_ = make_attention(op.attention, properties_);
        return;
      case MESHPLAN_PROBE_MEMORY:
        work_ = make_memory(op.memory, properties_);
        return;
      case MESHPLAN_PROBE_COPY:
        work_ = make_copy(op.copy);
        return;
      case MESHPLAN_PROBE_LAUNCH:
        work_ = make_launch(op.launch);
        per_call_ = static_cast<double>(op.launch.kernels);  // the time of one of them is wanted
        return;
      case MESHPLAN_PROBE_OVERLAP:
        // The collective first: ranks that fail at the product must not leave the others in a
        // split.
        beside_ = make_collective(op.collective, communicators_);
        work_ = make_gemm(op.gemm, properties_, wait);
        return;
      default:
        throw ImpossibleError("an operation that this plug-in does not know");
    }
  }

  void run(const meshplan_probe_run& r) {
    if (!std::exchange(warm_, true)) warm_up();
    for (std::int64_t i = 0; i < r.repetitions; ++i) {
      if (beside_ && r.part == MESHPLAN_PROBE_PART_ALL) {
        together(r, i);
      } else if (beside_ && r.part == MESHPLAN_PROBE_PART_COMMUNICATION) {
        alone(*beside_, r, i);
      } else {
        alone(*work_, r, i);
      }
    }
  }

  CheckResult check() {
    Work& work = beside_ ? *beside_ : *work_;
    return work.check(stream_, [this] { finish_stream(stream_); });
  }

  void finish() {
    beside_.reset();
    work_.reset();
  }

  // On another thread than everything else: a small piece of work, on a stream of its own, gets
  // done unless the device hangs as a whole.
  bool answers() {
    constexpr double kPatience = 1.5;
    if (cudaSetDevice(properties_.number) != cudaSuccess) return false;
    if (cudaMemsetAsync(asked_.data(), 0, sizeof(int), asking_) != cudaSuccess) return false;
    const HostClock::time_point begin = HostClock::now();
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady && seconds_since(begin) < kPatience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      state = state_of(asking_);
    }
    return state == cudaSuccess;
  }

 private:
  meshplan_probe_job job_;
  Properties properties_;
  std::string bus_id_;
  DeviceClock clock_;
  Communicators communicators_;
  Stream stream_, other_stream_, asking_;
  Buffer asked_{sizeof(int)};
  Event begin_, end_, other_begin_, other_end_;
  Gate gate_;
  // Several ranks on one GPU, which NCCL takes for several hosts (NCCL_HOSTID): a rank that holds
  // the device back would keep the one that it waits for from running.
  bool gates_ = std::getenv("NCCL_HOSTID") == nullptr;
  int kind_ = 0;
  bool warm_ = false;
  double per_call_ = 1;
  std::unique_ptr<Work> work_, beside_;

  // Waits without ever blocking in a driver's call; the longer it has waited, the longer it sleeps,
  // to a hundredth of the wait: other ranks may want the processor.
  void finish_stream(cudaStream_t stream) {
    constexpr int kSpins = 200;  // of about a microsecond
    constexpr std::chrono::microseconds kLeast{20}, kMost{2000};
    const auto begin = std::chrono::steady_clock::now();
    for (int spins = 0;; ++spins) {
      const cudaError_t state = state_of(stream);
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) require(state, "cudaStreamQuery");
      if (communicators_.cancelled()) throw DeviceError("stopped");
      communicators_.check();
      if (spins > kSpins) {
        const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::steady_clock::now() - begin);
        std::this_thread::sleep_for(std::clamp(waited / 100, kLeast, kMost));
      }
      std::this_thread::yield();
    }
  }

  // What counts as progress is a call that the device was given: a rank that is stuck, before or in
  // one, stays behind those that wait for it.
  void issue(Work& work, std::int64_t calls, cudaStream_t stream) {
    for (std::int64_t c = 0; c < calls; ++c) {
      if (communicators_.cancelled()) throw DeviceError("stopped");
      work.issue(stream);
      __atomic_add_fetch(job_.progress, 1, __ATOMIC_RELAXED);
    }
  }

  // An operation's first call connects ranks, allocates and loads kernels, for which CUDA may wait
  // for the device (CUDA's programming guide, "Lazy Loading"): it never comes behind a closed gate.
  void warm_up() {
    for (Work* work : {beside_.get(), work_.get()}) {
      if (work == nullptr) continue;
      work->align(stream_);
      issue(*work, 1, stream_);
      finish_stream(stream_);
    }
  }

  // Device time between two events around the calls, all of which are queued before the first runs:
  // as in a graph's replay, the host's launches cost nothing.
  void alone(Work& work, const meshplan_probe_run& r, std::int64_t i) {
    const double calls = static_cast<double>(r.calls) * per_call_;
    if (work.timed_by_device()) {
      const bool gated = gates_ && r.calls * work.kernels_per_call() <= kMostQueued;
      if (gated) gate_.close(stream_);
      work.align(stream_);
      MESHPLAN_CUDA(cudaEventRecord(begin_, stream_));
      issue(work, r.calls, stream_);
      MESHPLAN_CUDA(cudaEventRecord(end_, stream_));
      if (gated && !gate_.open()) r.disturbed[i] = 1;
      finish_stream(stream_);
      r.seconds[i] = seconds_between(begin_, end_) / calls;
    }
    // Short calls once more, as a program without graphs sees them: launches included. A
    // collective's also include the thread that NCCL starts for each call on a communicator that
    // does not block, and the wait for it. Every rank has as many calls, so all of them do this or
    // none.
    if (!work.timed_by_device() || r.calls > 1) {
      const HostClock::time_point begin = HostClock::now();
      issue(work, r.calls, stream_);
      const double issued = seconds_since(begin);
      finish_stream(stream_);
      r.host_seconds[i] = seconds_since(begin) / calls;
      if (!work.timed_by_device()) r.seconds[i] = issued / calls;
    }
  }

  // Both streams start behind one gate.
  void together(const meshplan_probe_run& r, std::int64_t i) {
    const std::int64_t queued =
        r.calls * work_->kernels_per_call() + r.other_calls * beside_->kernels_per_call();
    const bool gated = gates_ && queued <= kMostQueued;
    if (gated) {
      gate_.close(stream_);
      gate_.close_too(other_stream_);
    }
    beside_->align(other_stream_);
    MESHPLAN_CUDA(cudaEventRecord(other_begin_, other_stream_));
    MESHPLAN_CUDA(cudaStreamWaitEvent(stream_, other_begin_, 0));
    MESHPLAN_CUDA(cudaEventRecord(begin_, stream_));
    issue(*beside_, r.other_calls, other_stream_);
    issue(*work_, r.calls, stream_);
    MESHPLAN_CUDA(cudaEventRecord(end_, stream_));
    MESHPLAN_CUDA(cudaEventRecord(other_end_, other_stream_));
    if (gated && !gate_.open()) r.disturbed[i] = 1;
    finish_stream(stream_);
    finish_stream(other_stream_);
    r.seconds[i] = seconds_between(begin_, end_) / static_cast<double>(r.calls);
    r.other_seconds[i] =
        seconds_between(other_begin_, other_end_) / static_cast<double>(r.other_calls);
  }
};

Rank& rank_of(void* handle) { return *static_cast<Rank*>(handle); }

int tell(meshplan_probe_text out, const std::string& text, int code) {
  if (out.size > 0) std::snprintf(out.text, out.size, "%s", text.c_str());
  return code;
}

// No exception may cross the C interface.
template <class Work>
int guarded(meshplan_probe_text error, const Work& work) {
  try {
    work();
    return MESHPLAN_PROBE_OK;
  } catch (const ImpossibleError& failure) {
    return tell(error, failure.what(), MESHPLAN_PROBE_IMPOSSIBLE);
  } catch (const std::bad_alloc&) {
    return tell(error, "not enough memory of the host", MESHPLAN_PROBE_IMPOSSIBLE);
  } catch (const std::exception& failure) {
    return tell(error, failure.what(), MESHPLAN_PROBE_FAILED);
  }
}

std::int64_t device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int begin(const meshplan_probe_job* job, void** handle, meshplan_probe_text error) {
  return guarded(error, [&] { *handle = new Rank(*job); });
}

int describe(void* handle, meshplan_probe_tell say, void* context, meshplan_probe_text error) {
  return guarded(error, [&] {
    rank_of(handle).describe(
        [&](const char* key, const std::string& value) { say(context, key, value.c_str()); });
  });
}

int make_key(void* handle, unsigned char* key, meshplan_probe_text error) {
  return guarded(error, [&] { rank_of(handle).communicators().make_key(key); });
}

int connect(void* handle, const unsigned char* key, meshplan_probe_text error) {
  return guarded(error, [&] { rank_of(handle).communicators().connect(key); });
}

int prepare(void* handle, const meshplan_probe_operation* op, meshplan_probe_text error) {
  return guarded(error, [&] { rank_of(handle).prepare(*op); });
}

int run(void* handle, const meshplan_probe_run* r, meshplan_probe_text error) {
  return guarded(error, [&] { rank_of(handle).run(*r); });
}

int check(void* handle, std::int64_t* wrong, meshplan_probe_text note, meshplan_probe_text error) {
  return guarded(error, [&] {
    const CheckResult result = rank_of(handle).check();
    *wrong = result.wrong;
    static_cast<void>(tell(note, result.note, 0));
  });
}

void finish(void* handle) { rank_of(handle).finish(); }
double clock_ratio(void* handle) { return rank_of(handle).clock_ratio(); }
int answers(void* handle) { return rank_of(handle).answers() ? 1 : 0; }
void abort_run(void* handle) { rank_of(handle).communicators().abort(); }

void end(void* handle) {
  std::array<char, 256> text{};
  static_cast<void>(
      guarded({text.data(), text.size()}, [&] { rank_of(handle).communicators().release(); }));
  delete static_cast<Rank*>(handle);
}

constexpr meshplan_probe_plugin_table kTable{MESHPLAN_PROBE_ABI,
                                             "nccl",
                                             device_count,
                                             nullptr,
                                             nullptr,
                                             begin,
                                             describe,
                                             make_key,
                                             connect,
                                             prepare,
                                             run,
                                             check,
                                             finish,
                                             clock_ratio,
                                             answers,
                                             abort_run,
                                             end};

}  // namespace
}  // namespace meshplan::device

extern "C" __attribute__((visibility("default"))) const meshplan_probe_plugin_table*
meshplan_probe_plugin(std::uint32_t abi) {
  return abi == MESHPLAN_PROBE_ABI ? &meshplan::device::kTable : nullptr;
}
