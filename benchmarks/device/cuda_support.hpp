#pragma once
// CUDA's resources as owners, and its failures as exceptions that end at the C interface.
#include <algorithm>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "probe/plugin_abi.hpp"

namespace meshplan::device {

// Ends the job: a device or a communicator that failed does not come back.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Ends this operation alone: unsupported, or out of memory.
struct ImpossibleError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The function's name of a call's text.
inline std::string called(std::string_view call) {
  return std::string(call.substr(0, call.find('(')));
}

inline void require(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  const std::string reason = called(call) + ": " + cudaGetErrorString(code);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // this one is not sticky
    throw ImpossibleError(reason);
  }
  throw DeviceError(reason);
}
#define MESHPLAN_CUDA(call) ::meshplan::device::require((call), #call)

// Copies and settings of memory without a stream return before they are done, and our streams do
// not wait for them: this does.
inline void finish_copies() { MESHPLAN_CUDA(cudaStreamSynchronize(nullptr)); }

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes) : size_(bytes) {
    if (bytes > 0) MESHPLAN_CUDA(cudaMalloc(&data_, static_cast<std::size_t>(bytes)));
  }
  Buffer(Buffer&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) static_cast<void>(cudaFree(data_));
  }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] char* at(std::int64_t byte) const { return static_cast<char*>(data_) + byte; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::int64_t size_ = 0;
};

// Pinned memory of the host.
class HostBuffer {
 public:
  explicit HostBuffer(std::int64_t bytes) : size_(bytes) {
    MESHPLAN_CUDA(
        cudaMallocHost(&data_, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))));
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() { static_cast<void>(cudaFreeHost(data_)); }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::int64_t size_;
};

class Stream {
 public:
  Stream() { MESHPLAN_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }  // NOLINT: a handle's owner stands for it

 private:
  cudaStream_t stream_ = nullptr;
};

// Whether a stream has done everything. That it has not is no failure, but CUDA keeps it as the
// last error (cudaGetLastError), which the next launch of a kernel would be blamed for.
inline cudaError_t state_of(cudaStream_t stream) {
  const cudaError_t state = cudaStreamQuery(stream);
  if (state == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return state;
}

class Event {
 public:
  Event() { MESHPLAN_CUDA(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  operator cudaEvent_t() const { return event_; }  // NOLINT

 private:
  cudaEvent_t event_ = nullptr;
};

// CUDA counts milliseconds here and nowhere else.
inline double seconds_between(const Event& begin, const Event& end) {
  float milliseconds = 0;
  MESHPLAN_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace meshplan::device
