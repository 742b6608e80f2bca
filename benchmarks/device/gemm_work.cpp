// Matrix products through cuBLASLt, in the three layouts of a linear layer's training.
#include <array>
#include <cmath>
#include <cublasLt.h>
#include <optional>
#include <vector>

#include "probe/operation_kinds.hpp"
#include "work.hpp"

namespace meshplan::device {
namespace {

constexpr std::int64_t kWorkspace = std::int64_t{32} << 20;
constexpr int kMostAlgorithms = 8;

void require(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const std::string reason = called(call) + ": status " + std::to_string(code);
  const bool impossible = code == CUBLAS_STATUS_NOT_SUPPORTED ||
                          code == CUBLAS_STATUS_INVALID_VALUE || code == CUBLAS_STATUS_ALLOC_FAILED;
  if (impossible) throw ImpossibleError(reason);
  throw DeviceError(reason);
}
#define MESHPLAN_CUBLAS(call) require((call), #call)

template <class Handle, cublasStatus_t (*Destroy)(Handle)>
class Owner {
 public:
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (handle != nullptr) static_cast<void>(Destroy(handle));
  }
  Handle handle = nullptr;
};
using Library = Owner<cublasLtHandle_t, cublasLtDestroy>;
using Description = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType type_of(Dtype d) {
  switch (d) {
    case Dtype::kFp32:
      return CUDA_R_32F;
    case Dtype::kFp16:
      return CUDA_R_16F;
    case Dtype::kBf16:
      return CUDA_R_16BF;
    case Dtype::kFp8:
      return CUDA_R_8F_E4M3;
  }
  return CUDA_R_32F;
}

// Our matrices are row-major, cuBLAS's column-major: it is asked for C^T[n,m] = B^T[n,k] A^T[k,m].
// An operand that runs along k in memory is, seen from there, transposed on the left (A below) and
// plain on the right.
struct Operands {
  bool left_along_k = true;   // W of the forward pass
  bool right_along_k = true;  // x of the forward pass
};

Operands operands_of(GemmLayout layout, Precision p) {
  // FP8 knows one layout; training code transposes its operands before (Transformer Engine).
  if (p == Precision::kFp8) return {true, true};
  switch (layout) {
    case GemmLayout::kForward:
      return {true, true};
    case GemmLayout::kInputGradient:
      return {false, true};
    case GemmLayout::kWeightGradient:
      return {false, false};
  }
  return {};
}

class Gemm : public Work {
 public:
  Gemm(const meshplan_probe_gemm& g, const Properties& p, const Finish& finish)
      : g_(g),
        precision_(static_cast<Precision>(g.precision)),
        in_(dtype_of(precision_)),
        out_(g.accumulate != 0 ? Dtype::kFp32 : (in_ == Dtype::kFp8 ? Dtype::kBf16 : in_)),
        operands_(operands_of(static_cast<GemmLayout>(g.layout), precision_)),
        workspace_(kWorkspace),
        scale_(sizeof(float)) {
    if (precision_ == Precision::kFp8 && (g.m % 16 != 0 || g.n % 16 != 0 || g.k % 16 != 0)) {
      throw ImpossibleError("fp8 products need sizes that are multiples of 16");
    }
    MESHPLAN_CUBLAS(cublasLtCreate(&library_.handle));
    describe();
    allocate(p);
    choose_algorithm(finish);
  }

  void issue(cudaStream_t stream) override { issue_with(algorithms_.front(), stream); }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    next_ = 0;
    // A product that is added needs what it is added to; one that is not has to replace it.
    const Buffer& c = sets_.front().c;
    fill_random(c, out_, 3);
    std::vector<double> before;
    for (std::int64_t i = 0; i < kChecked && g_.accumulate != 0; ++i) {
      before.push_back(elements(c, out_, place(i).row * g_.n + place(i).column, 1, 1).front());
    }
    before.resize(static_cast<std::size_t>(kChecked), 0.0);
    issue(stream);
    finish();
    return compare(before);
  }

 private:
  struct Set {
    Buffer a, b, c;  // row-major A[m,k], B[k,n], C[m,n] of the operation
  };

  static constexpr std::int64_t kChecked = 24;
  struct Place {
    std::int64_t row, column;
  };
  [[nodiscard]] Place place(std::int64_t i) const {
    return {i * 104'729 % g_.m, i * 1'299'709 % g_.n};
  }

  meshplan_probe_gemm g_;
  Precision precision_;
  Dtype in_, out_;
  Operands operands_;
  Library library_;
  Description description_;
  Layout left_, right_, result_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
  Buffer workspace_, scale_;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    MESHPLAN_CUBLAS(
        cublasLtMatmulDescSetAttribute(description_.handle, attribute, &value, sizeof(value)));
  }

  void make_layout(Layout& layout, Dtype d, std::int64_t rows, std::int64_t columns) const {
    MESHPLAN_CUBLAS(cublasLtMatrixLayoutCreate(&layout.handle, type_of(d),
                                               static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows));
    const auto count = static_cast<std::int32_t>(g_.count);
    const std::int64_t stride = rows * columns;
    MESHPLAN_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        layout.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
    MESHPLAN_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        layout.handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
  }

  void describe() {
    const cublasComputeType_t compute =
        precision_ == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    MESHPLAN_CUBLAS(cublasLtMatmulDescCreate(&description_.handle, compute, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, operands_.left_along_k ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, operands_.right_along_k ? CUBLAS_OP_N : CUBLAS_OP_T);
    if (precision_ == Precision::kFp8) {
      const float one = 1;
      MESHPLAN_CUDA(cudaMemcpy(scale_.data(), &one, sizeof(one), cudaMemcpyHostToDevice));
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_.data());
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_.data());
    }
    make_layout(left_, in_, operands_.left_along_k ? g_.k : g_.n,
                operands_.left_along_k ? g_.n : g_.k);
    make_layout(right_, in_, operands_.right_along_k ? g_.k : g_.m,
                operands_.right_along_k ? g_.m : g_.k);
    make_layout(result_, out_, g_.n, g_.m);
  }

  void allocate(const Properties& p) {
    const std::int64_t a = g_.count * g_.m * g_.k * size_of(in_);
    const std::int64_t b = g_.count * g_.k * g_.n * size_of(in_);
    const std::int64_t c = g_.count * g_.m * g_.n * size_of(out_);
    const std::int64_t copies = copies_past_cache(p, a + b + c);
    for (std::int64_t i = 0; i < copies; ++i) {
      Set s{{}, {}, Buffer(c)};
      if (i == 0) {
        s.a = Buffer(a), s.b = Buffer(b);
        fill_random(s.a, in_, 1);
        fill_random(s.b, in_, 2);
      } else {
        s.a = copy_of(sets_.front().a);
        s.b = copy_of(sets_.front().b);
      }
      MESHPLAN_CUDA(cudaMemset(s.c.data(), 0, static_cast<std::size_t>(c)));
      sets_.push_back(std::move(s));
    }
    finish_copies();
  }

  // Each call has the next set, so that none finds its operands in the cache.
  void issue_with(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
    const float alpha = 1, beta = g_.accumulate != 0 ? 1.0F : 0.0F;
    const Set& s = sets_[next_];
    MESHPLAN_CUBLAS(cublasLtMatmul(
        library_.handle, description_.handle, &alpha, s.b.data(), left_.handle, s.a.data(),
        right_.handle, &beta, s.c.data(), result_.handle, s.c.data(), result_.handle, &algorithm,
        workspace_.data(), static_cast<std::size_t>(kWorkspace), stream));
    next_ = (next_ + 1) % sets_.size();
  }

  // The heuristic's first is not always the fastest: all of its proposals are timed.
  void choose_algorithm(const Finish& finish) {
    Preference preference;
    MESHPLAN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference.handle));
    const auto workspace = static_cast<std::size_t>(kWorkspace);
    MESHPLAN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.handle,
                                                         CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace, sizeof(workspace)));
    // Parts of a sum that are rounded to 16 bits before they are added up are further from the
    // product than what compare() allows.
    const std::uint32_t reductions = out_ == Dtype::kFp32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                          : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    MESHPLAN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.handle,
                                                         CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                         &reductions, sizeof(reductions)));
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found{};
    int count = 0;
    MESHPLAN_CUBLAS(cublasLtMatmulAlgoGetHeuristic(
        library_.handle, description_.handle, left_.handle, right_.handle, result_.handle,
        result_.handle, preference.handle, kMostAlgorithms, found.data(), &count));
    double best = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
      const double t = time_of(found[i].algo, finish);
      if (algorithms_.empty() || t < best) {
        algorithms_.assign(1, found[i].algo);
        best = t;
      }
    }
    if (algorithms_.empty()) throw ImpossibleError("cuBLASLt has no algorithm for this product");
  }

  double time_of(const cublasLtMatmulAlgo_t& algorithm, const Finish& finish) {
    // Large products have few sets, and take long enough for few calls.
    const std::size_t calls = std::clamp<std::size_t>(sets_.size(), 3, 10);
    const Stream stream;
    const Event begin, end;
    issue_with(algorithm, stream);
    MESHPLAN_CUDA(cudaEventRecord(begin, stream));
    for (std::size_t i = 0; i < calls; ++i) issue_with(algorithm, stream);
    MESHPLAN_CUDA(cudaEventRecord(end, stream));
    MESHPLAN_CUDA(cudaStreamSynchronize(stream));
    finish();
    return seconds_between(begin, end) / static_cast<double>(calls);
  }

  // `n` elements, `stride` apart, of a device buffer.
  std::vector<double> elements(const Buffer& buffer, Dtype d, std::int64_t first,
                               std::int64_t stride, std::int64_t n) const {
    const auto size = static_cast<std::size_t>(size_of(d));
    std::vector<char> bytes(static_cast<std::size_t>(n) * size);
    const char* from = buffer.at(first * size_of(d));
    if (stride == 1) {
      MESHPLAN_CUDA(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost));
    } else {
      MESHPLAN_CUDA(cudaMemcpy2D(bytes.data(), size, from, static_cast<std::size_t>(stride) * size,
                                 size, static_cast<std::size_t>(n), cudaMemcpyDeviceToHost));
    }
    std::vector<double> out;
    for (std::int64_t i = 0; i < n; ++i) out.push_back(value_at(bytes.data(), i, d));
    return out;
  }

  // Some elements against the same sum in float64. fp32 sums of k products of unit variance err by
  // some sqrt(k) roundings; then the result is rounded to its type.
  CheckResult compare(const std::vector<double>& before) const {
    const double rounding = out_ == Dtype::kFp32   ? std::ldexp(1, -22)
                            : out_ == Dtype::kFp16 ? std::ldexp(1, -10)
                                                   : std::ldexp(1, -7);
    // TF32 keeps 10 bits of each factor's mantissa. Hopper's tensor cores add up products of fp8
    // with about 14 bits (DeepSeek-V3, arXiv:2412.19437, section 3.5.2).
    const double factors = precision_ == Precision::kTf32  ? std::ldexp(1, -10)
                           : precision_ == Precision::kFp8 ? std::ldexp(1, -14)
                                                           : std::ldexp(1, -20);
    const Set& s = sets_.front();
    CheckResult result{0, "best of cuBLASLt's proposals"};
    for (std::int64_t i = 0; i < kChecked; ++i) {
      const auto [row, column] = place(i);
      const auto a = operands_.right_along_k ? elements(s.a, in_, row * g_.k, 1, g_.k)
                                             : elements(s.a, in_, row, g_.m, g_.k);
      const auto b = operands_.left_along_k ? elements(s.b, in_, column * g_.k, 1, g_.k)
                                            : elements(s.b, in_, column, g_.n, g_.k);
      double want = before[static_cast<std::size_t>(i)], size = std::abs(want);
      for (std::size_t j = 0; j < a.size(); ++j) want += a[j] * b[j], size += std::abs(a[j] * b[j]);
      const double got = elements(s.c, out_, row * g_.n + column, 1, 1).front();
      const double allowed = rounding * std::abs(want) + 4 * factors * size;
      if (!(std::abs(got - want) <= allowed)) ++result.wrong;
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<Work> make_gemm(const meshplan_probe_gemm& g, const Properties& p,
                                const Work::Finish& finish) {
  return std::make_unique<Gemm>(g, p, finish);
}

}  // namespace meshplan::device
