#pragma once
// Operation graphs of cuDNN's backend interface: tensors of four dimensions, the few operations
// that attention consists of, and one plan that runs them.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

#include "cuda_support.hpp"
#include "cudnn_api.hpp"

namespace meshplan::device::cudnn {

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    require(api().create_descriptor(type, &handle_), "descriptor");
  }
  Descriptor(Descriptor&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_ != nullptr) static_cast<void>(api().destroy_descriptor(handle_));
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values,
           std::size_t count) const {
    require(api().set_attribute(handle_, name, type, static_cast<std::int64_t>(count), values),
            "attribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) const {
    set(name, type, &value, 1);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) const {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.handle_);
  }
  void finalize(const char* what) const { require(api().finalize(handle_), what); }
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

using Dims = std::array<std::int64_t, 4>;  // batch, head, row, column
[[nodiscard]] Dims row_major(const Dims& d);

// A tensor of a graph, by its unique id.
using Tensor = std::int64_t;

// Where the tensors of one run are: device memory, and for constants the host's.
using Pointers = std::map<Tensor, void*>;

class Graph {
 public:
  // In device memory, given at every run.
  Tensor tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type);
  // Inside of the plan alone.
  Tensor hidden(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor hidden(const Dims& dims, const Dims& strides, cudnnDataType_t type);
  Tensor constant(float value);
  Tensor constant(std::int32_t value);

  // y = x op b (op t)
  void pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> in, Tensor out,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  // The place of each element along one dimension.
  void index(Tensor like, int dimension, Tensor out);
  // To the dimensions of `out`.
  void reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out);
  void multiply(Tensor a, Tensor b, Tensor out);
  void reshape(Tensor in, Tensor out);

  // Takes the first of cuDNN's proposals that it can make a plan of. Throws ImpossibleError if
  // there is none.
  void build();
  void run(const Pointers& device, cudaStream_t stream) const;

 private:
  struct Node {
    Descriptor descriptor;
    bool given = false;  // in device memory
  };
  std::vector<Node> tensors_;
  std::map<Tensor, std::array<unsigned char, 4>> constants_;  // as they lie in memory
  std::vector<Descriptor> parts_, operations_, plan_;         // the last of plan_ is what runs
  Buffer workspace_;

  template <class T>
  Tensor add_constant(T value, cudnnDataType_t type);
  Tensor add(const Dims& dims, const Dims& strides, cudnnDataType_t type, bool is_hidden,
             bool by_value);
  [[nodiscard]] const Descriptor& of(Tensor t) const {
    return tensors_[static_cast<std::size_t>(t - 1)].descriptor;
  }
  void pointwise(const Descriptor& how, std::initializer_list<Tensor> in, Tensor out);
  bool plan_of(const Descriptor& graph, cudnnBackendHeurMode_t mode);
};

}  // namespace meshplan::device::cudnn
