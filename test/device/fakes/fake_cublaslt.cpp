// A libcublasLt that multiplies small matrices on the host, in float64, in the order of the stream.
//   FAKE_CUBLAS_NONE=1  it has no algorithm for anything
//   FAKE_CUBLAS_FAIL=1  every product fails when it is launched
//   FAKE_CUBLAS_REPLACE=1  a product that shall be added replaces what was there
//   FAKE_CUBLAS_ROUNDS=1  its first proposal cannot be used; the other one adds up parts that are
//                         rounded to the result's type, where the preference allows that
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" void fake_cuda_enqueue(cudaStream_t stream, void (*run)(void*), void* argument);

namespace {

struct Description {
  std::int32_t left_op = CUBLAS_OP_N, right_op = CUBLAS_OP_N;
};
struct Layout {
  cudaDataType type{};
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, stride = 0;
  std::int32_t batch = 1;
};
struct Preference {
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};
enum Algorithm : std::uint64_t { kExact, kRounds, kUnusable };
struct Product {
  Description d;
  Layout a, b, c;
  float alpha, beta;
  const char *left, *right;
  char* result;
  bool rounds;
};

double get(const char* data, cudaDataType type, std::int64_t i) {
  if (type == CUDA_R_32F) return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
  if (type == CUDA_R_16BF) {
    return static_cast<double>(__bfloat162float(reinterpret_cast<const __nv_bfloat16*>(data)[i]));
  }
  if (type == CUDA_R_16F) {
    return static_cast<double>(__half2float(reinterpret_cast<const __half*>(data)[i]));
  }
  return static_cast<double>(static_cast<float>(reinterpret_cast<const __nv_fp8_e4m3*>(data)[i]));
}

void put(char* data, cudaDataType type, std::int64_t i, double value) {
  const auto v = static_cast<float>(value);
  if (type == CUDA_R_32F) reinterpret_cast<float*>(data)[i] = v;
  if (type == CUDA_R_16BF) reinterpret_cast<__nv_bfloat16*>(data)[i] = __nv_bfloat16(v);
  if (type == CUDA_R_16F) reinterpret_cast<__half*>(data)[i] = __half(v);
}

std::int64_t place(const Layout& l, bool transposed, std::int64_t row, std::int64_t column) {
  return transposed ? column + row * l.leading : row + column * l.leading;
}

double rounded(cudaDataType type, double value) {
  float wide = 0;
  put(reinterpret_cast<char*>(&wide), type, 0, value);
  return get(reinterpret_cast<const char*>(&wide), type, 0);
}

void multiply(void* argument) {
  const Product* p = static_cast<Product*>(argument);
  const bool left_t = p->d.left_op != CUBLAS_OP_N, right_t = p->d.right_op != CUBLAS_OP_N;
  const auto depth = static_cast<std::int64_t>(left_t ? p->a.rows : p->a.columns);
  for (std::int64_t batch = 0; batch < p->c.batch; ++batch) {
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(p->c.columns); ++j) {
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(p->c.rows); ++i) {
        constexpr std::int64_t kParts = 8;
        double sum = 0, whole = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          sum += get(p->left, p->a.type, batch * p->a.stride + place(p->a, left_t, i, k)) *
                 get(p->right, p->b.type, batch * p->b.stride + place(p->b, right_t, k, j));
          if (p->rounds && k % (depth / kParts + 1) == 0) {
            whole += rounded(p->c.type, sum);
            sum = 0;
          }
        }
        sum += whole;
        const std::int64_t at = batch * p->c.stride + place(p->c, false, i, j);
        const float beta = p->beta;
        const double before = beta != 0 ? get(p->result, p->c.type, at) : 0;
        put(p->result, p->c.type, at, p->alpha * sum + beta * before);
      }
    }
  }
  delete p;
}

// Handles are pointers to what stands behind them.
template <class Object, class Handle>
cublasStatus_t make(Handle* handle, Object object = {}) {
  *handle = reinterpret_cast<Handle>(new Object(object));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Object, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Object*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) { return make<int>(h); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return destroy<int>(h); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t,
                                        cudaDataType_t) {
  return make<Description>(d);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy<Description>(d); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t) {
  auto* description = reinterpret_cast<Description*>(d);
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) std::memcpy(&description->left_op, value, 4);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) std::memcpy(&description->right_op, value, 4);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  return make(l, Layout{type, rows, columns, leading, 0, 1});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return destroy<Layout>(l); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, std::size_t) {
  auto* layout = reinterpret_cast<Layout*>(l);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) std::memcpy(&layout->batch, value, 4);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) std::memcpy(&layout->stride, value, 8);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  return make<Preference>(p);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return destroy<Preference>(p);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t size) {
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    if (size != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&reinterpret_cast<Preference*>(p)->reductions, value, size);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  const bool none = std::getenv("FAKE_CUBLAS_NONE") != nullptr;
  *count = none ? 0 : std::min(wanted, 2);
  for (int i = 0; i < *count; ++i) found[i] = {};
  if (std::getenv("FAKE_CUBLAS_ROUNDS") != nullptr && *count == 2) {
    found[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    found[0].algo.data[0] = kUnusable;
    const std::uint32_t allowed = reinterpret_cast<Preference*>(p)->reductions;
    const bool rounds = (allowed & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) != 0;
    found[1].algo.data[0] = rounds ? kRounds : kExact;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha,
                              const void* left, cublasLtMatrixLayout_t a, const void* right,
                              cublasLtMatrixLayout_t b, const void* beta, const void*,
                              cublasLtMatrixLayout_t, void* result, cublasLtMatrixLayout_t c,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  if (std::getenv("FAKE_CUBLAS_FAIL") != nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (algorithm->data[0] == kUnusable) return CUBLAS_STATUS_EXECUTION_FAILED;
  static const bool replaces = std::getenv("FAKE_CUBLAS_REPLACE") != nullptr;
  static const float nothing = 0;
  if (replaces) beta = &nothing;
  auto* p = new Product{*reinterpret_cast<Description*>(d), *reinterpret_cast<Layout*>(a),
                        *reinterpret_cast<Layout*>(b),      *reinterpret_cast<Layout*>(c),
                        *static_cast<const float*>(alpha),  *static_cast<const float*>(beta),
                        static_cast<const char*>(left),     static_cast<const char*>(right),
                        static_cast<char*>(result),         algorithm->data[0] == kRounds};
  fake_cuda_enqueue(stream, multiply, p);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
