#if __has_include(<cudnn.h>)
#include "cudnn_graph.hpp"

#include <algorithm>
#include <cstring>

namespace meshplan::device::cudnn {

Dims row_major(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

Tensor Graph::add(const Dims& dims, const Dims& strides, cudnnDataType_t type, bool is_hidden,
                  bool by_value) {
  constexpr std::int64_t kAlignment = 16;
  const Tensor id = static_cast<Tensor>(tensors_.size()) + 1;
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims.data(), dims.size());
  d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.data(), strides.size());
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_hidden);
  d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  d.finalize("tensor");
  tensors_.push_back({std::move(d), !is_hidden && !by_value});
  return id;
}

Tensor Graph::tensor(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
  return add(dims, strides, type, false, false);
}
Tensor Graph::hidden(const Dims& dims, cudnnDataType_t type) {
  return add(dims, row_major(dims), type, true, false);
}
Tensor Graph::hidden(const Dims& dims, const Dims& strides, cudnnDataType_t type) {
  return add(dims, strides, type, true, false);
}
template <class T>
Tensor Graph::add_constant(T value, cudnnDataType_t type) {
  static_assert(sizeof(T) == 4);
  const Tensor id = add({1, 1, 1, 1}, {1, 1, 1, 1}, type, false, true);
  std::memcpy(constants_[id].data(), &value, sizeof(value));
  return id;
}
Tensor Graph::constant(float value) { return add_constant(value, CUDNN_DATA_FLOAT); }
Tensor Graph::constant(std::int32_t value) { return add_constant(value, CUDNN_DATA_INT32); }

void Graph::pointwise(const Descriptor& how, std::initializer_list<Tensor> in, Tensor out) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  std::size_t i = 0;
  for (const Tensor t : in) op.set(kInputs[i++], of(t));
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(out));
  op.finalize("pointwise operation");
  operations_.push_back(std::move(op));
}

void Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> in, Tensor out,
                      cudnnDataType_t precision) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  how.finalize("pointwise mode");
  pointwise(how, in, out);
  parts_.push_back(std::move(how));
}

void Graph::index(Tensor like, int dimension, Tensor out) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::int64_t{dimension});
  how.finalize("index");
  pointwise(how, {like}, out);
  parts_.push_back(std::move(how));
}

void Graph::reduce(cudnnReduceTensorOp_t op, Tensor in, Tensor out) {
  Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize("reduction");
  Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(in));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(out));
  operation.finalize("reduction operation");
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void Graph::multiply(Tensor a, Tensor b, Tensor out) {
  Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize("product");
  Descriptor op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(out));
  op.finalize("product operation");
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(op));
}

void Graph::reshape(Tensor in, Tensor out) {
  Descriptor op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(in));
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(out));
  op.finalize("reshape operation");
  operations_.push_back(std::move(op));
}

bool Graph::plan_of(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  constexpr std::int64_t kMostProposals = 8;
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (api().finalize(heuristic.get()) != CUDNN_STATUS_SUCCESS) return false;
  std::vector<Descriptor> proposals;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < kMostProposals; ++i) {
    handles.push_back(proposals.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  std::int64_t found = 0;
  if (api().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostProposals, &found,
                          handles.data()) != CUDNN_STATUS_SUCCESS) {
    return false;
  }
  for (std::int64_t i = 0; i < std::min(found, kMostProposals); ++i) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposals[static_cast<std::size_t>(i)]);
    if (api().finalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
    plan_.push_back(std::move(heuristic));
    for (Descriptor& p : proposals) plan_.push_back(std::move(p));
    plan_.push_back(std::move(plan));
    return true;
  }
  return false;
}

void Graph::build() {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& op : operations_) operations.push_back(op.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.data(),
            operations.size());
  graph.finalize("graph");
  if (!plan_of(graph, CUDNN_HEUR_MODE_A) && !plan_of(graph, CUDNN_HEUR_MODE_FALLBACK)) {
    throw ImpossibleError("cuDNN has no kernel for this attention");
  }
  parts_.push_back(std::move(graph));
  std::int64_t bytes = 0, count = 0;
  require(api().get_attribute(plan_.back().get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                              CUDNN_TYPE_INT64, 1, &count, &bytes),
          "workspace");
  workspace_ = Buffer(bytes);
}

void Graph::run(const Pointers& device, cudaStream_t stream) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> places;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor id = static_cast<Tensor>(i) + 1;
    if (tensors_[i].given) {
      ids.push_back(id);
      places.push_back(device.at(id));
    }
  }
  for (const auto& [id, value] : constants_) {
    ids.push_back(id);
    places.push_back(value.data());
  }
  const Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, places.data(),
           places.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_.data());
  pack.finalize("tensors of a run");
  require(api().set_stream(handle(), stream), "stream");
  require(api().execute(handle(), plan_.back().get(), pack.get()), "attention");
}

}  // namespace meshplan::device::cudnn
#endif
