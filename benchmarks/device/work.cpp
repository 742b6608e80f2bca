#include "work.hpp"

#include <cmath>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace meshplan::device {

std::int64_t copies_past_cache(const Properties& p, std::int64_t bytes) {
  // So many sets that even those of 200 kB are past the largest L2 (126 MB, B200) three times; what
  // is smaller stays in the cache, as it does in training.
  constexpr std::int64_t kTimesCache = 3, kMost = 2048;
  const std::int64_t wanted = kTimesCache * p.l2_bytes / std::max<std::int64_t>(bytes, 1) + 1;
  const std::int64_t room = p.memory_bytes / 2 / std::max<std::int64_t>(bytes, 1);
  return std::clamp<std::int64_t>(std::min(wanted, room), 1, kMost);
}

Dtype dtype_of(Precision p) {
  switch (p) {
    case Precision::kFp32:
    case Precision::kTf32:
      return Dtype::kFp32;
    case Precision::kFp16:
      return Dtype::kFp16;
    case Precision::kBf16:
      return Dtype::kBf16;
    case Precision::kFp8:
      return Dtype::kFp8;
  }
  return Dtype::kFp32;
}

void store_at(void* data, std::int64_t i, Dtype d, double value) {
  char* at = static_cast<char*>(data) + i * size_of(d);
  const auto put = [at](auto v) { std::memcpy(at, &v, sizeof(v)); };
  switch (d) {
    case Dtype::kFp32:
      return put(static_cast<float>(value));
    case Dtype::kFp16:
      return put(__half(static_cast<float>(value)));
    case Dtype::kBf16:
      return put(__nv_bfloat16(static_cast<float>(value)));
    case Dtype::kFp8:
      return put(__nv_fp8_e4m3(static_cast<float>(value)));
  }
}

double value_at(const void* data, std::int64_t i, Dtype d) {
  const char* at = static_cast<const char*>(data) + i * size_of(d);
  const auto get = [at](auto v) {
    std::memcpy(&v, at, sizeof(v));
    return v;
  };
  switch (d) {
    case Dtype::kFp32:
      return static_cast<double>(get(float{}));
    case Dtype::kFp16:
      return static_cast<double>(__half2float(get(__half{})));
    case Dtype::kBf16:
      return static_cast<double>(__bfloat162float(get(__nv_bfloat16{})));
    case Dtype::kFp8:
      return static_cast<double>(static_cast<float>(get(__nv_fp8_e4m3{})));
  }
  return 0;
}

namespace {

// A seed's values as one type, drawn when they are first needed.
class Values {
 public:
  Values(Dtype d, unsigned seed) : dtype_(d), source_(seed + 1) {}

  // The first `n` of them.
  const char* first(std::int64_t n) {
    bytes_.resize(std::max(bytes_.size(), static_cast<std::size_t>(n * size_of(dtype_))));
    for (; drawn_ < n; ++drawn_) store_at(bytes_.data(), drawn_, dtype_, normal_(source_));
    return bytes_.data();
  }

 private:
  Dtype dtype_;
  std::minstd_rand source_;
  std::normal_distribution<double> normal_;
  std::vector<char> bytes_;
  std::int64_t drawn_ = 0;
};

// Kept: to draw a million normal values takes longer than most of what is measured on them. For the
// thread that measures alone.
Values& values_of(Dtype d, unsigned seed) {
  static std::map<std::pair<Dtype, unsigned>, Values> all;
  return all.try_emplace({d, seed}, d, seed).first->second;
}

}  // namespace

void fill_random(const Buffer& buffer, Dtype d, unsigned seed) {
  // A prime number of values is repeated: rows of any power of two come out unlike each other.
  constexpr std::int64_t kBlock = 1'048'573;
  const std::int64_t elements = buffer.size() / size_of(d);
  const std::int64_t n = std::min(elements, kBlock);
  const char* block = values_of(d, seed).first(n);
  for (std::int64_t at = 0; at < elements; at += n) {
    const std::int64_t bytes = std::min(n, elements - at) * size_of(d);
    MESHPLAN_CUDA(cudaMemcpy(buffer.at(at * size_of(d)), block, static_cast<std::size_t>(bytes),
                             cudaMemcpyHostToDevice));
  }
  finish_copies();
}

Buffer copy_of(const Buffer& from) {
  Buffer b(from.size());
  if (from.size() > 0) {
    MESHPLAN_CUDA(cudaMemcpy(b.data(), from.data(), static_cast<std::size_t>(from.size()),
                             cudaMemcpyDeviceToDevice));
  }
  return b;
}

void fill_random(const Buffer& buffer, Precision p, unsigned seed) {
  fill_random(buffer, dtype_of(p), seed);
}

}  // namespace meshplan::device
