// Kernels that only hold the device back or keep the host busy.
#include "work.hpp"

namespace meshplan::device {
namespace {

constexpr long long kLongestNanoseconds = 500'000'000;

__device__ long long nanoseconds() {
  long long t = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

__global__ void wait_for_flag(const volatile int* flag) {
  const long long begin = nanoseconds();
  while (*flag == 0 && nanoseconds() - begin < kLongestNanoseconds) {
  }
}

__global__ void do_nothing() {}

// Time of the host to issue one kernel; from a graph, what one kernel costs the device.
class Launch : public Work {
 public:
  explicit Launch(const meshplan_probe_launch& l) : kernels_(l.kernels), graph_(l.graph != 0) {
    if (graph_) capture();
  }
  ~Launch() override {
    if (replay_ != nullptr) static_cast<void>(cudaGraphExecDestroy(replay_));
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void issue(cudaStream_t stream) override {
    if (graph_) {
      MESHPLAN_CUDA(cudaGraphLaunch(replay_, stream));
      return;
    }
    issue_all(stream);
  }
  [[nodiscard]] std::int64_t kernels_per_call() const override {
    return graph_ ? 1 : kernels_;  // a graph takes one place in the queue
  }
  [[nodiscard]] bool timed_by_device() const override { return graph_; }
  CheckResult check(cudaStream_t /*stream*/, const Finish& /*finish*/) override { return {}; }

 private:
  std::int64_t kernels_;
  bool graph_;
  cudaGraphExec_t replay_ = nullptr;

  void issue_all(cudaStream_t stream) const {
    for (std::int64_t i = 0; i < kernels_; ++i) do_nothing<<<1, 32, 0, stream>>>();
    MESHPLAN_CUDA(cudaGetLastError());
  }

  void capture() {
    const Stream stream;
    // Loads the kernel, which a capture may not allow (CUDA's programming guide, "Lazy Loading").
    do_nothing<<<1, 32, 0, stream>>>();
    MESHPLAN_CUDA(cudaGetLastError());
    MESHPLAN_CUDA(cudaStreamSynchronize(stream));
    cudaGraph_t graph = nullptr;
    MESHPLAN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    issue_all(stream);
    MESHPLAN_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t made = cudaGraphInstantiate(&replay_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    require(made, "cudaGraphInstantiate");
  }
};

}  // namespace

Gate::Gate() : flag_(sizeof(int)) { open(); }

void Gate::close(cudaStream_t stream) {
  closed_ = std::chrono::steady_clock::now();
  *static_cast<volatile int*>(flag_.data()) = 0;
  close_too(stream);
}

void Gate::close_too(cudaStream_t stream) {
  const volatile int* flag = static_cast<int*>(flag_.data());
  wait_for_flag<<<1, 1, 0, stream>>>(flag);
  MESHPLAN_CUDA(cudaGetLastError());
}

bool Gate::open() {
  *static_cast<volatile int*>(flag_.data()) = 1;
  return std::chrono::steady_clock::now() - closed_ < std::chrono::nanoseconds(kLongestNanoseconds);
}

std::unique_ptr<Work> make_launch(const meshplan_probe_launch& l) {
  constexpr std::int64_t kMostKernels = 100'000;
  if (l.kernels < 1 || l.kernels > kMostKernels) throw ImpossibleError("too many kernels");
  return std::make_unique<Launch>(l);
}

}  // namespace meshplan::device
