// A libcudnn whose backend interface runs graphs on the host, operation by operation, in the order
// of a (fake) stream: what a graph says is what is computed, so that a graph that is put together
// wrongly computes something wrong.
//   FAKE_CUDNN_REFUSES=1   no engine supports any graph
//   FAKE_CUDNN_VERSION=n   the version that it says it is
//   FAKE_CUDNN_STATUS=n    what every execution ends with
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

extern "C" void fake_cuda_enqueue(cudaStream_t stream, void (*run)(void*), void* argument);

namespace {

using Values = std::vector<std::int64_t>;

// Attributes as 64-bit numbers: kinds, sizes, ids, pointers to other descriptors.
struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  std::map<int, Values> attributes;
  bool finalized = false;

  [[nodiscard]] std::int64_t one(int name, std::int64_t otherwise = 0) const {
    const auto at = attributes.find(name);
    return at == attributes.end() ? otherwise : at->second.front();
  }
  [[nodiscard]] const Descriptor& other(int name) const {
    return *reinterpret_cast<const Descriptor*>(one(name));
  }
  [[nodiscard]] bool has(int name) const { return attributes.count(name) > 0; }
};

Descriptor* of(cudnnBackendDescriptor_t d) { return reinterpret_cast<Descriptor*>(d); }

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return sizeof(int);  // enumerations
  }
}

using Dims = std::array<std::int64_t, 4>;

struct Tensor {
  Dims dims{}, strides{};
  cudnnDataType_t type{};
  std::vector<double> values;  // in row-major order of dims

  [[nodiscard]] std::int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  // The value at a place of a result: dimensions of one repeat, heads are shared by neighbours.
  [[nodiscard]] double at(const Dims& place, const Dims& whole) const {
    std::int64_t i = 0;
    for (std::size_t d = 0; d < 4; ++d) i = i * dims[d] + place[d] * dims[d] / whole[d];
    return values[static_cast<std::size_t>(i)];
  }
};

Tensor described(const Descriptor& d) {
  Tensor t;
  const Values& dims = d.attributes.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const Values& strides = d.attributes.at(CUDNN_ATTR_TENSOR_STRIDES);
  for (std::size_t i = 0; i < 4; ++i) t.dims[i] = dims.at(i), t.strides[i] = strides.at(i);
  t.type = static_cast<cudnnDataType_t>(d.one(CUDNN_ATTR_TENSOR_DATA_TYPE));
  return t;
}

// Calls f(place) for each place in row-major order.
template <class F>
void each(const Dims& dims, const F& f) {
  Dims p{};
  for (p[0] = 0; p[0] < dims[0]; ++p[0]) {
    for (p[1] = 0; p[1] < dims[1]; ++p[1]) {
      for (p[2] = 0; p[2] < dims[2]; ++p[2]) {
        for (p[3] = 0; p[3] < dims[3]; ++p[3]) f(p);
      }
    }
  }
}

double rounded(double v, cudnnDataType_t type) {
  const auto f = static_cast<float>(v);
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<double>(__bfloat162float(__nv_bfloat16(f)));
  if (type == CUDNN_DATA_HALF) return static_cast<double>(__half2float(__half(f)));
  return static_cast<double>(f);
}

double load(const void* data, std::int64_t i, cudnnDataType_t type) {
  if (type == CUDNN_DATA_BFLOAT16) {
    return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]));
  }
  if (type == CUDNN_DATA_HALF) {
    return static_cast<double>(__half2float(static_cast<const __half*>(data)[i]));
  }
  if (type == CUDNN_DATA_INT32) return static_cast<const std::int32_t*>(data)[i];
  return static_cast<double>(static_cast<const float*>(data)[i]);
}

void store(void* data, std::int64_t i, cudnnDataType_t type, double v) {
  const auto f = static_cast<float>(v);
  if (type == CUDNN_DATA_BFLOAT16) {
    static_cast<__nv_bfloat16*>(data)[i] = __nv_bfloat16(f);
  } else if (type == CUDNN_DATA_HALF) {
    static_cast<__half*>(data)[i] = __half(f);
  } else {
    static_cast<float*>(data)[i] = f;
  }
}

std::int64_t offset(const Tensor& t, const Dims& p) {
  std::int64_t i = 0;
  for (std::size_t d = 0; d < 4; ++d) i += p[d] * t.strides[d];
  return i;
}

// One execution of a graph.
class Run {
 public:
  Run(const Descriptor& graph, const Descriptor& pack) : graph_(graph) {
    const Values& ids = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const Values& places = pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < ids.size(); ++i) given_[ids[i]] = places.at(i);
  }

  void all() {
    for (const std::int64_t op : graph_.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
      one(*reinterpret_cast<const Descriptor*>(op));
    }
  }

 private:
  const Descriptor& graph_;
  std::map<std::int64_t, std::int64_t> given_;
  std::map<std::int64_t, Tensor> known_;

  // The values of an input: computed before, or given.
  const Tensor& input(const Descriptor& d) {
    const std::int64_t id = d.one(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    Tensor t = described(d);
    if (given_.count(id) == 0) std::abort();  // an input that nobody computed or gave
    const void* data = reinterpret_cast<const void*>(given_.at(id));
    each(t.dims, [&](const Dims& p) { t.values.push_back(load(data, offset(t, p), t.type)); });
    return known_[id] = std::move(t);
  }

  template <class F>
  void output(const Descriptor& d, const F& value) {
    Tensor t = described(d);
    each(t.dims, [&](const Dims& p) { t.values.push_back(rounded(value(p, t.dims), t.type)); });
    const std::int64_t id = d.one(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (given_.count(id) > 0) {
      void* data = reinterpret_cast<void*>(given_.at(id));
      std::size_t i = 0;
      each(t.dims, [&](const Dims& p) { store(data, offset(t, p), t.type, t.values[i++]); });
    }
    known_[id] = std::move(t);
  }

  void one(const Descriptor& op) {
    switch (op.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(op);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(op);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return multiply(op);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(op);
      default:
        std::abort();
    }
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& how = op.other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = static_cast<cudnnPointwiseMode_t>(how.one(CUDNN_ATTR_POINTWISE_MODE));
    const Tensor x = input(op.other(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    Tensor b, t;
    if (op.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) {
      b = input(op.other(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
    }
    if (op.has(CUDNN_ATTR_OPERATION_POINTWISE_TDESC)) {
      t = input(op.other(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
    }
    const auto axis = static_cast<std::size_t>(how.one(CUDNN_ATTR_POINTWISE_AXIS));
    output(op.other(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), [&](const Dims& p, const Dims& whole) {
      const auto first = [&] { return x.at(p, whole); };
      const auto second = [&] { return b.at(p, whole); };
      switch (mode) {
        case CUDNN_POINTWISE_ADD:
          return first() + second();
        case CUDNN_POINTWISE_SUB:
          return first() - second();
        case CUDNN_POINTWISE_MUL:
          return first() * second();
        case CUDNN_POINTWISE_DIV:
          return first() / second();
        case CUDNN_POINTWISE_EXP:
          return std::exp(first());
        case CUDNN_POINTWISE_LOG:
          return std::log(first());
        case CUDNN_POINTWISE_IDENTITY:
          return first();
        case CUDNN_POINTWISE_GEN_INDEX:
          return static_cast<double>(p[axis]);
        case CUDNN_POINTWISE_CMP_GE:
          return first() >= second() ? 1.0 : 0.0;
        case CUDNN_POINTWISE_BINARY_SELECT:
          return t.at(p, whole) != 0 ? first() : second();
        default:
          std::abort();
      }
    });
  }

  // Over the dimensions that the result has fewer of.
  void reduce(const Descriptor& op) {
    const Descriptor& how = op.other(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const bool adds = how.one(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_ADD;
    const Tensor x = input(op.other(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Descriptor& result = op.other(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    Tensor y = described(result);
    y.values.assign(static_cast<std::size_t>(y.count()), adds ? 0 : -HUGE_VAL);
    each(x.dims, [&](const Dims& p) {
      std::int64_t i = 0;
      for (std::size_t d = 0; d < 4; ++d) i = i * y.dims[d] + p[d] * y.dims[d] / x.dims[d];
      double& sum = y.values[static_cast<std::size_t>(i)];
      const double v = x.at(p, x.dims);
      sum = adds ? sum + v : std::max(sum, v);
    });
    output(result, [&](const Dims& p, const Dims& whole) { return y.at(p, whole); });
  }

  void multiply(const Descriptor& op) {
    const Tensor a = input(op.other(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Tensor b = input(op.other(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    output(op.other(CUDNN_ATTR_OPERATION_MATMUL_CDESC), [&](const Dims& p, const Dims& whole) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.dims[3]; ++k) {
        sum += a.at({p[0], p[1], p[2], k}, {whole[0], whole[1], whole[2], a.dims[3]}) *
               b.at({p[0], p[1], k, p[3]}, {whole[0], whole[1], b.dims[2], whole[3]});
      }
      return sum;
    });
  }

  // The only one that attention has: its last two dimensions change places.
  void reshape(const Descriptor& op) {
    const Tensor x = input(op.other(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    output(op.other(CUDNN_ATTR_OPERATION_RESHAPE_YDESC), [&](const Dims& p, const Dims& whole) {
      if (whole[2] != x.dims[3] || whole[3] != x.dims[2]) std::abort();
      return x.at({p[0], p[1], p[3], p[2]}, x.dims);
    });
  }
};

cudaStream_t g_stream = nullptr;

struct Execution {
  const Descriptor* graph;
  Descriptor pack;
};

// The plan's engine configuration remembers the graph that its heuristic was asked about.
constexpr int kGraphOfConfiguration = -1;

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  const char* version = std::getenv("FAKE_CUDNN_VERSION");
  return version != nullptr ? std::strtoull(version, nullptr, 10) : CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "CUDNN_STATUS_NOT_SUPPORTED"; }
void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(&g_stream);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  g_stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* d) {
  auto* made = new Descriptor;
  made->type = type;
  *d = reinterpret_cast<cudnnBackendDescriptor_t>(made);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete of(d);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  if (of(d)->finalized) return CUDNN_STATUS_BAD_PARAM;
  const std::size_t size = size_of(type);
  Values& all = of(d)->attributes[name];
  all.assign(static_cast<std::size_t>(count), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::memcpy(&all[i], static_cast<const char*>(values) + i * size, size);
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  of(d)->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t,
                                       std::int64_t* count, void* values) {
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = std::getenv("FAKE_CUDNN_REFUSES") != nullptr ? 0 : 1;
    auto* const* configurations = static_cast<cudnnBackendDescriptor_t*>(values);
    of(configurations[0])->attributes[kGraphOfConfiguration] = {
        of(d)->one(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)};
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *count = 1;
    *static_cast<std::int64_t*>(values) = 64;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (const char* status = std::getenv("FAKE_CUDNN_STATUS")) {
    return static_cast<cudnnStatus_t>(std::atoi(status));
  }
  const Descriptor& configuration = of(plan)->other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto* graph = reinterpret_cast<const Descriptor*>(configuration.one(kGraphOfConfiguration));
  auto* execution = new Execution{graph, *of(pack)};
  fake_cuda_enqueue(
      g_stream,
      [](void* argument) {
        const std::unique_ptr<Execution> e(static_cast<Execution*>(argument));
        Run(*e->graph, e->pack).all();
      },
      execution);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
