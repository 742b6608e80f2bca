// Copies between pinned host memory and the device, and within the device.
#include <cstring>
#include <vector>

#include "probe/operation_kinds.hpp"
#include "work.hpp"

namespace meshplan::device {
namespace {

class Copy : public Work {
 public:
  explicit Copy(const meshplan_probe_copy& c)
      : direction_(static_cast<CopyDirection>(c.direction)),
        bytes_(static_cast<std::size_t>(c.bytes)),
        host_(c.bytes),
        other_host_(direction_ == CopyDirection::kBothWays ? c.bytes : 1),
        from_(c.bytes),
        to_(c.bytes) {
    auto* bytes = static_cast<unsigned char*>(host_.data());
    for (std::size_t i = 0; i < bytes_; ++i) bytes[i] = pattern(i);
    MESHPLAN_CUDA(cudaMemcpy(from_.data(), host_.data(), bytes_, cudaMemcpyHostToDevice));
    finish_copies();
  }

  void issue(cudaStream_t stream) override {
    switch (direction_) {
      case CopyDirection::kHostToDevice:
        return copy(to_.data(), host_.data(), cudaMemcpyHostToDevice, stream);
      case CopyDirection::kDeviceToHost:
        return copy(host_.data(), from_.data(), cudaMemcpyDeviceToHost, stream);
      case CopyDirection::kDeviceToDevice:
        return copy(to_.data(), from_.data(), cudaMemcpyDeviceToDevice, stream);
      case CopyDirection::kBothWays:
        // The other direction runs beside on its own stream; this one waits for it.
        MESHPLAN_CUDA(cudaEventRecord(begun_, stream));
        MESHPLAN_CUDA(cudaStreamWaitEvent(beside_, begun_, 0));
        copy(other_host_.data(), from_.data(), cudaMemcpyDeviceToHost, beside_);
        MESHPLAN_CUDA(cudaEventRecord(done_, beside_));
        copy(to_.data(), host_.data(), cudaMemcpyHostToDevice, stream);
        MESHPLAN_CUDA(cudaStreamWaitEvent(stream, done_, 0));
    }
  }
  [[nodiscard]] std::int64_t kernels_per_call() const override { return 4; }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    const bool both = direction_ == CopyDirection::kBothWays;
    const bool to_host = direction_ == CopyDirection::kDeviceToHost;
    MESHPLAN_CUDA(cudaMemset(to_.data(), 0x55, bytes_));
    finish_copies();
    if (to_host) std::memset(host_.data(), 0x55, bytes_);
    if (both) std::memset(other_host_.data(), 0x55, bytes_);
    issue(stream);
    finish();
    CheckResult result{0, {}};
    if (to_host) result.wrong += wrong_in(host_.data());
    if (both) result.wrong += wrong_in(other_host_.data());
    if (!to_host) {
      std::vector<unsigned char> got(bytes_);
      MESHPLAN_CUDA(cudaMemcpy(got.data(), to_.data(), bytes_, cudaMemcpyDeviceToHost));
      result.wrong += wrong_in(got.data());
    }
    return result;
  }

 private:
  CopyDirection direction_;
  std::size_t bytes_;
  HostBuffer host_, other_host_;
  Buffer from_, to_;
  Stream beside_;
  Event begun_, done_;

  static unsigned char pattern(std::size_t i) { return static_cast<unsigned char>(i * 7 % 251); }

  [[nodiscard]] std::int64_t wrong_in(const void* data) const {
    const auto* bytes = static_cast<const unsigned char*>(data);
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < bytes_; ++i) wrong += bytes[i] != pattern(i) ? 1 : 0;
    return wrong;
  }

  void copy(void* to, const void* from, cudaMemcpyKind kind, cudaStream_t stream) const {
    MESHPLAN_CUDA(cudaMemcpyAsync(to, from, bytes_, kind, stream));
  }
};

}  // namespace

std::unique_ptr<Work> make_copy(const meshplan_probe_copy& c) { return std::make_unique<Copy>(c); }

}  // namespace meshplan::device
