#include <cmath>
#include <type_traits>
#include <vector>

#include "memory_kernels.cuh"
#include "probe/operation_kinds.hpp"
#include "work.hpp"

namespace meshplan::device {
namespace {

constexpr AdamFactors kAdam{1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 1 - 0.9F, 1 - 0.95F};
constexpr double kFillValue = 3;
constexpr std::int64_t kCheckedRows = 4;

// Buffers of one set; which of them a kernel has and what they are is in operands() below.
struct Set {
  std::vector<Buffer> buffers;
};

struct Operand {
  std::int64_t elements = 0;
  Dtype dtype = Dtype::kBf16;
};

template <class T>
class Memory : public Work {
 public:
  Memory(const meshplan_probe_memory& m, const Properties& p)
      : kernel_(static_cast<MemoryKernel>(m.kernel)),
        type_(static_cast<Dtype>(m.dtype)),
        rows_(m.rows),
        columns_(m.columns) {
    if (columns_ % kRotaryHead != 0 || columns_ > kThreads * kLanes * kMostVectors) {
      throw ImpossibleError("columns must be a multiple of 128, 16384 at most");
    }
    MESHPLAN_CUDA(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, p.number));
    std::int64_t bytes = 0;
    for (const Operand& o : operands()) bytes += o.elements * size_of(o.dtype);
    const std::int64_t copies = copies_past_cache(p, bytes);
    sets_.push_back(make_set());
    for (std::int64_t i = 1; i < copies; ++i) {
      Set& s = sets_.emplace_back();
      for (const Buffer& b : sets_.front().buffers) s.buffers.push_back(copy_of(b));
    }
    finish_copies();
  }

  void issue(cudaStream_t stream) override {
    launch(sets_[next_], stream);
    next_ = (next_ + 1) % sets_.size();
  }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    sets_.front() = make_set();
    before_ = host_copy(sets_.front());
    launch(sets_.front(), stream);
    finish();
    after_ = host_copy(sets_.front());
    CheckResult result{0, {}};
    for (std::int64_t i = 0; i < kCheckedRows; ++i) {
      result.wrong += wrong_among(expected(i * (rows_ - 1) / (kCheckedRows - 1)));
    }
    if (kernel_ == MemoryKernel::kRmsNormBackward) result.wrong += wrong_among(expected_weights());
    return result;
  }

 private:
  MemoryKernel kernel_;
  Dtype type_;
  std::int64_t rows_, columns_;
  int processors_ = 1;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
  std::vector<std::vector<char>> before_, after_;

  [[nodiscard]] std::vector<Operand> operands() const {
    const std::int64_t n = rows_ * columns_;
    const Operand whole{n, type_}, weights{columns_, type_}, wide{n, Dtype::kFp32};
    switch (kernel_) {
      case MemoryKernel::kRmsNorm:  // x, w, y, 1 / rms
        return {whole, weights, whole, {rows_, Dtype::kFp32}};
      case MemoryKernel::kRmsNormBackward:  // x, w, dy, dx, 1 / rms, dw
        return {whole, weights, whole, whole, {rows_, Dtype::kFp32}, {columns_, Dtype::kFp32}};
      case MemoryKernel::kGatedActivation:  // a, b, y
      case MemoryKernel::kResidual:
        return {whole, whole, whole};
      case MemoryKernel::kGatedActivationBackward:  // a, b, dy, da, db
        return {whole, whole, whole, whole, whole};
      case MemoryKernel::kRotary:  // x, table
        return {whole, {rows_ * kRotaryHead, Dtype::kFp32}};
      case MemoryKernel::kAdam:  // gradient, master, first, second, weights
        return {wide, wide, wide, wide, whole};
      case MemoryKernel::kCast:  // x, y
        return {wide, whole};
      case MemoryKernel::kFill:
        return {whole};
    }
    return {};
  }

  Set make_set() const {
    Set s;
    unsigned seed = 1;
    for (const Operand& o : operands()) {
      Buffer b(o.elements * size_of(o.dtype));
      fill_random(b, o.dtype, seed++);
      s.buffers.push_back(std::move(b));
    }
    // A second moment is no negative number, and a gradient's sum starts at nothing.
    if (kernel_ == MemoryKernel::kAdam) zero(s.buffers[3]);
    if (kernel_ == MemoryKernel::kRmsNormBackward) zero(s.buffers[5]);
    finish_copies();
    return s;
  }

  static void zero(const Buffer& b) {
    MESHPLAN_CUDA(cudaMemset(b.data(), 0, static_cast<std::size_t>(b.size())));
  }

  template <class V = T>
  static V* in(const Set& s, std::size_t i) {
    return static_cast<V*>(s.buffers[i].data());
  }

  // Calls with a constant: how many vectors a thread has of a row, rounded up to a power of two.
  template <class Call>
  void with_vectors(const Call& call) const {
    static_assert(kMostVectors == 8);
    constexpr std::int64_t kEach = kThreads * kLanes;
    if (columns_ <= kEach) return call(std::integral_constant<int, 1>{});
    if (columns_ <= 2 * kEach) return call(std::integral_constant<int, 2>{});
    if (columns_ <= 4 * kEach) return call(std::integral_constant<int, 4>{});
    call(std::integral_constant<int, kMostVectors>{});
  }

  void launch(const Set& s, cudaStream_t stream) const {
    const std::int64_t n = rows_ * columns_, vectors = n / kLanes;
    const auto blocks = [](std::int64_t threads) {
      return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
    };
    const auto rows = static_cast<unsigned>(rows_);
    const int columns = static_cast<int>(columns_);
    switch (kernel_) {
      case MemoryKernel::kRmsNorm:
        with_vectors([&](auto vectors_of_thread) {
          rms_norm<vectors_of_thread.value><<<rows, kThreads, 0, stream>>>(
              in(s, 0), in(s, 1), in(s, 2), in<float>(s, 3), columns);
        });
        break;
      case MemoryKernel::kRmsNormBackward:
        with_vectors([&](auto vectors_of_thread) {
          const unsigned walkers = std::min(rows, static_cast<unsigned>(kWalkers * processors_));
          rms_norm_backward<vectors_of_thread.value>
              <<<walkers, kThreads, 0, stream>>>(in(s, 0), in(s, 1), in(s, 2), in<float>(s, 4),
                                                 in(s, 3), in<float>(s, 5), rows_, columns);
        });
        break;
      case MemoryKernel::kGatedActivation:
        gated<T><<<blocks(vectors), kThreads, 0, stream>>>(in(s, 0), in(s, 1), in(s, 2), vectors);
        break;
      case MemoryKernel::kGatedActivationBackward:
        gated_backward<T><<<blocks(vectors), kThreads, 0, stream>>>(in(s, 0), in(s, 1), in(s, 2),
                                                                    in(s, 3), in(s, 4), vectors);
        break;
      case MemoryKernel::kRotary:
        rotary<T><<<blocks(vectors / 2), kThreads, 0, stream>>>(in(s, 0), in<float2>(s, 1), rows_,
                                                                columns);
        break;
      case MemoryKernel::kResidual:
        residual<T>
            <<<blocks(vectors), kThreads, 0, stream>>>(in(s, 0), in(s, 1), in(s, 2), vectors);
        break;
      case MemoryKernel::kAdam:
        adam<T><<<blocks(n / 4), kThreads, 0, stream>>>(
            in<float>(s, 0), in<float>(s, 1), in<float>(s, 2), in<float>(s, 3), in(s, 4), kAdam, n);
        break;
      case MemoryKernel::kCast:
        cast<T><<<blocks(vectors), kThreads, 0, stream>>>(in<float>(s, 0), in(s, 1), vectors);
        break;
      case MemoryKernel::kFill:
        fill<T><<<blocks(vectors), kThreads, 0, stream>>>(in(s, 0), static_cast<float>(kFillValue),
                                                          vectors);
        break;
    }
    MESHPLAN_CUDA(cudaGetLastError());
  }

  static std::vector<std::vector<char>> host_copy(const Set& s) {
    std::vector<std::vector<char>> all;
    for (const Buffer& b : s.buffers) {
      std::vector<char>& bytes = all.emplace_back(static_cast<std::size_t>(b.size()));
      MESHPLAN_CUDA(cudaMemcpy(bytes.data(), b.data(), bytes.size(), cudaMemcpyDeviceToHost));
    }
    return all;
  }

  // Element i of operand `b`, before and after the kernel.
  [[nodiscard]] double old_value(std::size_t b, std::int64_t i) const {
    return value_at(before_[b].data(), i, operands()[b].dtype);
  }
  [[nodiscard]] double new_value(std::size_t b, std::int64_t i) const {
    return value_at(after_[b].data(), i, operands()[b].dtype);
  }

  struct Expected {
    std::size_t operand;
    std::int64_t element;
    double value;
    double summands = 0;  // of a long sum: of what size they are together
  };

  // Values in float64, against what the device has.
  [[nodiscard]] std::int64_t wrong_among(const std::vector<Expected>& wanted) const {
    std::int64_t wrong = 0;
    const std::vector<Operand> all = operands();
    for (const Expected& e : wanted) {
      // One rounding to the result's type, and fp32 sums before.
      const double rounding = all[e.operand].dtype == Dtype::kFp32   ? std::ldexp(1, -15)
                              : all[e.operand].dtype == Dtype::kFp16 ? std::ldexp(1, -9)
                                                                     : std::ldexp(1, -6);
      const double difference = std::abs(new_value(e.operand, e.element) - e.value);
      const double allowed = rounding * (std::abs(e.value) + 0.02) + std::ldexp(e.summands, -20);
      if (!(difference <= allowed)) ++wrong;
    }
    return wrong;
  }

  // dw of some columns, over all rows.
  [[nodiscard]] std::vector<Expected> expected_weights() const {
    constexpr std::int64_t kColumns = 8;
    std::vector<Expected> out;
    for (std::int64_t i = 0; i < kColumns; ++i) {
      Expected e{5, i * (columns_ - 1) / (kColumns - 1), 0, 0};
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t at = row * columns_ + e.element;
        const double term = old_value(2, at) * old_value(0, at) * old_value(4, row);
        e.value += term, e.summands += std::abs(term);
      }
      out.push_back(e);
    }
    return out;
  }

  [[nodiscard]] std::vector<Expected> expected(std::int64_t row) const {
    std::vector<Expected> out;
    const std::int64_t first = row * columns_;
    const auto each = [&](std::size_t operand, auto value) {
      for (std::int64_t c = 0; c < columns_; ++c) {
        out.push_back({operand, first + c, value(first + c, c)});
      }
    };
    const auto sigma = [](double v) { return 1 / (1 + std::exp(-v)); };
    const auto gate = [&](std::int64_t i) { return sigma(old_value(0, i)); };
    switch (kernel_) {
      case MemoryKernel::kRmsNorm: {
        const double scale = inverse_rms(row);
        out.push_back({3, row, scale});
        each(2, [&](auto i, auto c) { return old_value(0, i) * scale * old_value(1, c); });
        return out;
      }
      case MemoryKernel::kRmsNormBackward: {
        const double scale = old_value(4, row);
        double mean = 0;
        for (std::int64_t c = 0; c < columns_; ++c) {
          mean += old_value(2, first + c) * old_value(1, c) * old_value(0, first + c) * scale;
        }
        mean /= static_cast<double>(columns_);
        each(3, [&](auto i, auto c) {
          return (old_value(2, i) * old_value(1, c) - old_value(0, i) * scale * mean) * scale;
        });
        return out;
      }
      case MemoryKernel::kGatedActivation:
        each(2, [&](auto i, auto) { return old_value(0, i) * gate(i) * old_value(1, i); });
        return out;
      case MemoryKernel::kGatedActivationBackward:
        each(3, [&](auto i, auto) {
          const double s = gate(i);
          return old_value(2, i) * old_value(1, i) * s * (1 + old_value(0, i) * (1 - s));
        });
        each(4, [&](auto i, auto) { return old_value(2, i) * old_value(0, i) * gate(i); });
        return out;
      case MemoryKernel::kRotary:
        each(0, [&](auto i, auto c) { return rotated(row, i, c % kRotaryHead); });
        return out;
      case MemoryKernel::kResidual:
        each(2, [&](auto i, auto) { return old_value(0, i) + old_value(1, i); });
        return out;
      case MemoryKernel::kAdam:
        each(1, [&](auto i, auto) { return adam_weight(i); });
        each(4, [&](auto i, auto) { return adam_weight(i); });
        each(2, [&](auto i, auto) { return adam_first(i); });
        each(3, [&](auto i, auto) { return adam_second(i); });
        return out;
      case MemoryKernel::kCast:
        each(1, [&](auto i, auto) { return old_value(0, i); });
        return out;
      case MemoryKernel::kFill:
        each(0, [](auto, auto) { return kFillValue; });
        return out;
    }
    return out;
  }

  [[nodiscard]] double inverse_rms(std::int64_t row) const {
    double squares = 0;
    for (std::int64_t c = 0; c < columns_; ++c) {
      const double v = old_value(0, row * columns_ + c);
      squares += v * v;
    }
    return 1 / std::sqrt(squares / static_cast<double>(columns_) + kNormEpsilon);
  }

  [[nodiscard]] double rotated(std::int64_t row, std::int64_t i, std::int64_t in_head) const {
    constexpr std::int64_t kHalf = kRotaryHead / 2;
    const std::int64_t place = (row * kHalf + in_head % kHalf) * 2;
    const double cosine = old_value(1, place), sine = old_value(1, place + 1);
    if (in_head < kHalf) return old_value(0, i) * cosine - old_value(0, i + kHalf) * sine;
    return old_value(0, i) * cosine + old_value(0, i - kHalf) * sine;
  }

  [[nodiscard]] double adam_first(std::int64_t i) const {
    return kAdam.beta1 * old_value(2, i) + (1 - kAdam.beta1) * old_value(0, i);
  }
  [[nodiscard]] double adam_second(std::int64_t i) const {
    const double g = old_value(0, i);
    return kAdam.beta2 * old_value(3, i) + (1 - kAdam.beta2) * g * g;
  }
  [[nodiscard]] double adam_weight(std::int64_t i) const {
    const double p = old_value(1, i), m = adam_first(i), v = adam_second(i);
    const double step = m / kAdam.correction1 / (std::sqrt(v / kAdam.correction2) + kAdam.epsilon);
    return p - kAdam.rate * (step + kAdam.decay * p);
  }
};

}  // namespace

std::unique_ptr<Work> make_memory(const meshplan_probe_memory& m, const Properties& p) {
  switch (static_cast<Dtype>(m.dtype)) {
    case Dtype::kBf16:
      return std::make_unique<Memory<__nv_bfloat16>>(m, p);
    case Dtype::kFp16:
      return std::make_unique<Memory<__half>>(m, p);
    case Dtype::kFp32:
    case Dtype::kFp8:
      break;
  }
  throw ImpossibleError("memory-bound kernels are measured in 16-bit types");
}

}  // namespace meshplan::device
