#pragma once
// One operation on a device, ready to be issued as often as wanted.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cuda_support.hpp"
#include "probe/plugin_abi.hpp"
#include "spec/kinds.hpp"

namespace meshplan::device {

struct Properties {
  int number = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int major = 0, minor = 0;
};

struct CheckResult {
  std::int64_t wrong = -1;  // negative: nothing was checked
  std::string note;
};

class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  // Issues one call. Kernels on the device per call, about: the queue must hold all of them.
  virtual void issue(cudaStream_t stream) = 0;
  [[nodiscard]] virtual std::int64_t kernels_per_call() const { return 1; }

  // Lets all ranks of the operation begin together; nothing where it has one rank.
  virtual void align(cudaStream_t /*stream*/) {}

  // False where the host clock alone tells the time.
  [[nodiscard]] virtual bool timed_by_device() const { return true; }

  // Once, on known data. `finish` waits for the stream, and gives up when it has to.
  using Finish = std::function<void()>;
  virtual CheckResult check(cudaStream_t stream, const Finish& finish) = 0;
};

// How many copies of `bytes` it takes to read past the L2 cache, at most what memory has room for.
[[nodiscard]] std::int64_t copies_past_cache(const Properties& p, std::int64_t bytes);

// Fills with normally distributed values of a type, from the host: zeros would draw less power and
// run faster than anything real. `seed` makes operands differ.
void fill_random(const Buffer& buffer, Precision p, unsigned seed);
void fill_random(const Buffer& buffer, Dtype d, unsigned seed);

// Another buffer with the same bytes. finish_copies() waits for it.
[[nodiscard]] Buffer copy_of(const Buffer& from);

// The value of element `i` of host memory.
[[nodiscard]] double value_at(const void* data, std::int64_t i, Dtype d);
void store_at(void* data, std::int64_t i, Dtype d, double value);
[[nodiscard]] Dtype dtype_of(Precision p);

[[nodiscard]] std::unique_ptr<Work> make_gemm(const meshplan_probe_gemm& g, const Properties& p,
                                              const Work::Finish& finish);
[[nodiscard]] std::unique_ptr<Work> make_memory(const meshplan_probe_memory& m,
                                                const Properties& p);
[[nodiscard]] std::unique_ptr<Work> make_attention(const meshplan_probe_attention& a,
                                                   const Properties& p);
[[nodiscard]] std::unique_ptr<Work> make_copy(const meshplan_probe_copy& c);
[[nodiscard]] std::unique_ptr<Work> make_launch(const meshplan_probe_launch& l);

// Holds a stream back until `open` is called, so that issuing costs no device time. It opens by
// itself after a moment: nothing may wait for ever.
class Gate {
 public:
  Gate();
  void close(cudaStream_t stream);
  void close_too(cudaStream_t stream);  // a second stream, behind the same gate
  // False if it may have opened by itself before.
  bool open();

 private:
  HostBuffer flag_;
  std::chrono::steady_clock::time_point closed_;
};

}  // namespace meshplan::device
