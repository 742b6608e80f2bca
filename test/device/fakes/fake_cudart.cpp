// A libcudart for machines without a GPU: memory is the host's, streams are threads, and kernels do
// nothing, but for the one that holds a stream back. For tests of everything around the kernels.
//   FAKE_CUDA_DEVICES=8      how many devices there are; "no-driver" for none at all, "old-driver"
//   for
//                            one that is too old
//   FAKE_CUDA_SHARED=1       all of them are one
//   FAKE_CUDA_STEADY=1       every piece of work takes 10 us by the events' clock, however busy the
//                            host is
//   FAKE_CUDA_SLOWER=x       by the events' clock all takes x times as long
//   FAKE_CUDA_HANG_AFTER=n   after n pieces of work the device does nothing any more, on any stream
//   FAKE_CUDA_BREAK_AFTER=n  after n pieces of work every call fails, as after a bad memory access
//   FAKE_CUDA_MEMORY=n       no buffer is larger than n bytes
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;

const char* variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::atomic<bool> g_broken{false};

cudaError_t state_of_device() { return g_broken ? cudaErrorIllegalAddress : cudaSuccess; }

// Counts a piece of work of any stream; false if it shall not be done. Never returns once the
// device hangs.
bool pass_or_hang() {
  static std::atomic<long> done{0};
  static const long last = std::atol(variable("FAKE_CUDA_HANG_AFTER", "0"));
  static const long sound = std::atol(variable("FAKE_CUDA_BREAK_AFTER", "0"));
  const long number = ++done;
  while (last > 0 && number > last) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (sound > 0 && number > sound) g_broken = true;
  return !g_broken;
}

class FakeStream {
 public:
  FakeStream() : worker_([this] { work(); }) {}
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  ~FakeStream() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  void enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return tasks_.empty();
  }
  // Pieces of work that were done.
  [[nodiscard]] long done() const { return done_; }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the first one runs
  bool ended_ = false;
  std::atomic<long> done_{0};
  std::thread worker_;

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = tasks_.front();
      lock.unlock();
      if (pass_or_hang()) task();
      ++done_;
      lock.lock();
      tasks_.pop_front();
      changed_.notify_all();
    }
  }
};

// Who waits for an event waits for the record that was the last when it was asked to: a later one
// may come after what it holds up.
struct FakeEvent {
  std::atomic<int> recorded{0}, reached{0};
  Clock::time_point time;

  void reach(int record) {
    reached = record;
    reached.notify_all();
  }
  void wait_for(int record) const {
    for (int last = reached; last < record; last = reached) reached.wait(last);
  }
};

// Streams that are held back until a flag is set, or half a second is over.
std::atomic<int> g_held_back{0};

void hold_back(const volatile int* flag) {
  const Clock::time_point begin = Clock::now();
  while (*flag == 0 && Clock::now() - begin < std::chrono::milliseconds(500)) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  --g_held_back;
}

// The mangled names of the kernels, by the functions that stand for them.
std::map<const void*, std::string>& kernels() {
  static std::map<const void*, std::string> all;
  return all;
}

thread_local cudaError_t t_last_error = cudaSuccess;

FakeStream* stream_of(cudaStream_t s) { return reinterpret_cast<FakeStream*>(s); }
FakeEvent* event_of(cudaEvent_t e) { return reinterpret_cast<FakeEvent*>(e); }

}  // namespace

extern "C" {

// For the other fakes: work in the order of a stream.
void fake_cuda_enqueue(cudaStream_t stream, void (*run)(void*), void* argument) {
  stream_of(stream)->enqueue([=] { run(argument); });
}

bool fake_cuda_held_back() { return g_held_back > 0; }

cudaError_t cudaGetDeviceCount(int* count) {
  const std::string devices = variable("FAKE_CUDA_DEVICES", "8");
  if (devices == "no-driver" || devices == "old-driver") return cudaErrorInsufficientDriver;
  *count = std::atoi(devices.c_str());
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  const int shown = *variable("FAKE_CUDA_SHARED", "") != '\0' ? 0 : device;
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", shown);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrL2CacheSize ? 1 << 16 : 9;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, variable("FAKE_CUDA_NAME", "Fake GPU"));
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = std::size_t{1} << 30;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  const std::string devices = variable("FAKE_CUDA_DEVICES", "8");
  *version = devices == "no-driver" ? 0 : devices == "old-driver" ? 12020 : 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory"
         : e == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                        : "a fake error";
}
cudaError_t cudaGetLastError() { return std::exchange(t_last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** data, std::size_t size) {
  static const long long most = std::atoll(variable("FAKE_CUDA_MEMORY", "1073741824"));
  if (size > static_cast<std::size_t>(most)) return cudaErrorMemoryAllocation;
  *data = std::calloc(1, size);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) { return std::free(data), cudaSuccess; }
cudaError_t cudaMallocHost(void** data, std::size_t size) { return cudaMalloc(data, size); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind) {
  return std::memcpy(to, from, size), state_of_device();
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind) {
  for (std::size_t row = 0; row < height; ++row) {
    std::memcpy(static_cast<char*>(to) + row * to_pitch,
                static_cast<const char*>(from) + row * from_pitch, width);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream_of(stream)->enqueue([=] { std::memcpy(to, from, size); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t size) {
  return std::memset(data, value, size), cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t size, cudaStream_t stream) {
  stream_of(stream)->enqueue([=] { std::memset(data, value, size); });
  return state_of_device();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream_of(stream), cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (g_broken) return state_of_device();
  if (stream_of(stream)->idle()) return cudaSuccess;
  return t_last_error = cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != nullptr) stream_of(stream)->wait();
  return state_of_device();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const int record = event_of(event)->recorded;
  stream_of(stream)->enqueue([=] { event_of(event)->wait_for(record); });
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaSuccess; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* replay, cudaGraph_t, unsigned long long) {
  *replay = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event_of(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const int record = ++event_of(event)->recorded;
  stream_of(stream)->enqueue([=] {
    static const bool steady = *variable("FAKE_CUDA_STEADY", "") != '\0';
    event_of(event)->time =
        steady ? Clock::time_point(std::chrono::microseconds(10 * stream_of(stream)->done()))
               : Clock::now();
    event_of(event)->reach(record);
  });
  return state_of_device();
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  static const auto slower = static_cast<float>(std::atof(variable("FAKE_CUDA_SLOWER", "1")));
  const std::chrono::duration<float, std::milli> t = event_of(end)->time - event_of(begin)->time;
  *milliseconds = t.count() * slower;
  return cudaSuccess;
}

// What nvcc's own code calls. A launch is accepted and does nothing.
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 0; }
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  kernels()[function] = name;
}
thread_local cudaStream_t t_launch_stream = nullptr;
cudaError_t __cudaPushCallConfiguration(dim3, dim3, std::size_t, void* stream) {
  t_launch_stream = static_cast<cudaStream_t>(stream);
  return cudaSuccess;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = *block = dim3();
  *shared = 0;
  *static_cast<cudaStream_t*>(stream) = t_launch_stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void** arguments, std::size_t,
                             cudaStream_t stream) {
  if (kernels()[function].find("wait_for_flag") == std::string::npos) return cudaSuccess;
  const volatile int* flag = *static_cast<const volatile int**>(arguments[0]);
  ++g_held_back;
  stream_of(stream)->enqueue([=] { hold_back(flag); });
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared,
                          stream);
}

}  // extern "C"
