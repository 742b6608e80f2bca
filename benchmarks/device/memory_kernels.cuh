#pragma once
// The kernels of a transformer layer that do little but move memory, written as training libraries
// write them: 16 bytes per access, one pass, sums in fp32.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace meshplan::device {

constexpr int kThreads = 256;
constexpr int kLanes = 8;        // elements per access, 16 bytes of a 16-bit type
constexpr int kMostVectors = 8;  // per thread of one row
constexpr float kNormEpsilon = 1e-5F;

template <class T>
struct alignas(sizeof(T) * kLanes) Vector {
  T lane[kLanes];
};

template <class T>
__device__ Vector<T> load(const T* p, std::int64_t vector) {
  return reinterpret_cast<const Vector<T>*>(p)[vector];
}
template <class T>
__device__ void store(T* p, std::int64_t vector, const Vector<T>& v) {
  reinterpret_cast<Vector<T>*>(p)[vector] = v;
}
template <class T>
__device__ float as_float(T v) {
  return static_cast<float>(v);
}

__device__ inline float sum_of_block(float v) {
  __shared__ float parts[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffU, v, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  float total = 0;
  for (const float part : parts) total += part;
  return total;
}

// The two kernels below keep a row in registers: `Vectors` of it per thread, no more than its
// columns need, since with fewer registers more blocks run at once.

// y = x / rms(x) * w; 1 / rms(x) of each row is kept for the backward pass.
template <int Vectors, class T>
__global__ void rms_norm(const T* x, const T* w, T* y, float* inverse, int columns) {
  const std::int64_t row = blockIdx.x;
  const int vectors = columns / kLanes;
  Vector<T> kept[Vectors];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    if (v >= vectors) continue;
    kept[i] = load(x + row * columns, v);
    for (const T e : kept[i].lane) squares += as_float(e) * as_float(e);
  }
  const float scale = rsqrtf(sum_of_block(squares) / static_cast<float>(columns) + kNormEpsilon);
  if (threadIdx.x == 0) inverse[row] = scale;
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    if (v >= vectors) continue;
    const Vector<T> weight = load(w, v);
    for (int j = 0; j < kLanes; ++j) {
      kept[i].lane[j] = T(as_float(kept[i].lane[j]) * scale * as_float(weight.lane[j]));
    }
    store(y + row * columns, v, kept[i]);
  }
}

// With g = dy * w and n = x / rms: dx = (g - n mean(g n)) / rms, dw += dy n. Each block walks over
// many rows, so that the weights' gradient needs one atomic addition per block and column.
// Four blocks per processor are started: all at once, or in even waves where rows are wide.
constexpr int kWalkers = 4;
template <int Vectors, class T>
__global__ void __launch_bounds__(kThreads, Vectors <= 2 ? kWalkers : 1)
    rms_norm_backward(const T* x, const T* w, const T* dy, const float* inverse, T* dx, float* dw,
                      std::int64_t rows, int columns) {
  const int vectors = columns / kLanes;
  float gradient[Vectors][kLanes] = {};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float scale = inverse[row];
    Vector<T> xs[Vectors], ys[Vectors];
    float products = 0;
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * kThreads;
      if (v >= vectors) continue;
      xs[i] = load(x + row * columns, v);
      ys[i] = load(dy + row * columns, v);
      const Vector<T> weight = load(w, v);
      for (int j = 0; j < kLanes; ++j) {
        const float n = as_float(xs[i].lane[j]) * scale;
        gradient[i][j] += as_float(ys[i].lane[j]) * n;
        products += as_float(ys[i].lane[j]) * as_float(weight.lane[j]) * n;
      }
    }
    const float mean = sum_of_block(products) / static_cast<float>(columns);
#pragma unroll
    for (int i = 0; i < Vectors; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * kThreads;
      if (v >= vectors) continue;
      const Vector<T> weight = load(w, v);
      for (int j = 0; j < kLanes; ++j) {
        const float n = as_float(xs[i].lane[j]) * scale;
        const float g = as_float(ys[i].lane[j]) * as_float(weight.lane[j]);
        ys[i].lane[j] = T((g - n * mean) * scale);
      }
      store(dx + row * columns, v, ys[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    const int v = static_cast<int>(threadIdx.x) + i * kThreads;
    if (v >= vectors) continue;
    for (int j = 0; j < kLanes; ++j) atomicAdd(dw + v * kLanes + j, gradient[i][j]);
  }
}

__device__ inline float sigmoid(float v) { return 1.0F / (1.0F + __expf(-v)); }

// y = a sigmoid(a) b
template <class T>
__global__ void gated(const T* a, const T* b, T* y, std::int64_t vectors) {
  const std::int64_t v = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v >= vectors) return;
  Vector<T> as = load(a, v);
  const Vector<T> bs = load(b, v);
  for (int j = 0; j < kLanes; ++j) {
    const float x = as_float(as.lane[j]);
    as.lane[j] = T(x * sigmoid(x) * as_float(bs.lane[j]));
  }
  store(y, v, as);
}

// da = dy b s (1 + a (1 - s)), db = dy a s, with s = sigmoid(a)
template <class T>
__global__ void gated_backward(const T* a, const T* b, const T* dy, T* da, T* db,
                               std::int64_t vectors) {
  const std::int64_t v = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v >= vectors) return;
  Vector<T> as = load(a, v), bs = load(b, v);
  const Vector<T> ys = load(dy, v);
  for (int j = 0; j < kLanes; ++j) {
    const float x = as_float(as.lane[j]), g = as_float(ys.lane[j]), s = sigmoid(x);
    const float gate = as_float(bs.lane[j]);
    as.lane[j] = T(g * gate * s * (1.0F + x * (1.0F - s)));
    bs.lane[j] = T(g * x * s);
  }
  store(da, v, as);
  store(db, v, bs);
}

// Heads of 128, halves rotated against each other; the angle's cosine and sine come from a table of
// one position per row: table[row][64][2].
constexpr int kRotaryHead = 128;
template <class T>
__global__ void rotary(T* x, const float2* table, std::int64_t rows, int columns) {
  constexpr int kHalfVectors = kRotaryHead / 2 / kLanes;
  const std::int64_t pairs = rows * (columns / 2 / kLanes);
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= pairs) return;
  const std::int64_t per_row = columns / 2 / kLanes, row = i / per_row;
  const std::int64_t head = i % per_row / kHalfVectors, part = i % kHalfVectors;
  T* at = x + row * columns + head * kRotaryHead;
  Vector<T> low = load(at, part), high = load(at, part + kHalfVectors);
  for (int j = 0; j < kLanes; ++j) {
    const float2 angle = table[row * (kRotaryHead / 2) + part * kLanes + j];
    const float l = as_float(low.lane[j]), h = as_float(high.lane[j]);
    low.lane[j] = T(l * angle.x - h * angle.y);
    high.lane[j] = T(h * angle.x + l * angle.y);
  }
  store(at, part, low);
  store(at, part + kHalfVectors, high);
}

template <class T>
__global__ void residual(const T* a, const T* b, T* y, std::int64_t vectors) {
  const std::int64_t v = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v >= vectors) return;
  Vector<T> as = load(a, v);
  const Vector<T> bs = load(b, v);
  for (int j = 0; j < kLanes; ++j) as.lane[j] = T(as_float(as.lane[j]) + as_float(bs.lane[j]));
  store(y, v, as);
}

struct AdamFactors {
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta^step
};

template <class T>
__global__ void adam(const float* gradient, float* master, float* first, float* second, T* weight,
                     AdamFactors f, std::int64_t elements) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i * 4 >= elements) return;
  const auto vector = [i](auto* p) { return reinterpret_cast<float4*>(const_cast<float*>(p)) + i; };
  float4 g4 = *vector(gradient), p4 = *vector(master), m4 = *vector(first), v4 = *vector(second);
  float *g = &g4.x, *p = &p4.x, *m = &m4.x, *v = &v4.x;
  for (int j = 0; j < 4; ++j) {
    m[j] = f.beta1 * m[j] + (1 - f.beta1) * g[j];
    v[j] = f.beta2 * v[j] + (1 - f.beta2) * g[j] * g[j];
    const float step = m[j] / f.correction1 / (sqrtf(v[j] / f.correction2) + f.epsilon);
    p[j] -= f.rate * (step + f.decay * p[j]);
    weight[i * 4 + j] = T(p[j]);
  }
  *vector(master) = p4;
  *vector(first) = m4;
  *vector(second) = v4;
}

template <class T>
__global__ void cast(const float* x, T* y, std::int64_t vectors) {
  const std::int64_t v = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v >= vectors) return;
  const Vector<float> in = load(x, v);
  Vector<T> out;
  for (int j = 0; j < kLanes; ++j) out.lane[j] = T(in.lane[j]);
  store(y, v, out);
}

template <class T>
__global__ void fill(T* y, float value, std::int64_t vectors) {
  const std::int64_t v = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v >= vectors) return;
  Vector<T> out;
  for (T& e : out.lane) e = T(value);
  store(y, v, out);
}

}  // namespace meshplan::device
