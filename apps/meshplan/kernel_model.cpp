#include "kernel_model.hpp"

#include "kernels/kernels.hpp"

namespace meshplan {
namespace {

Seconds product_time(const DeviceSpec& d, const GemmOperation& op) {
  GemmShape shape;
  shape.m = op.m;
  shape.n = op.n;
  shape.k = op.k;
  shape.count = op.count;
  const bool wide = op.accumulate || op.precision == Precision::kFp32;
  shape.output_bytes = wide ? 4 : 2;
  shape.accumulate_bytes = op.accumulate ? 4 : 0;
  return gemm_time(d, op.precision, shape);
}

Seconds attention_time(const DeviceSpec& d, const AttentionOperation& op) {
  AttentionShape shape;
  shape.batch = op.batch;
  shape.heads = op.heads;
  shape.queries = op.queries;
  shape.keys = op.keys;
  shape.qk_dim = op.qk_dim;
  shape.v_dim = op.v_dim;
  shape.pair_fraction = op.causal ? causal_fraction(op.queries, op.keys, 0) : 1.0;
  return fused_attention_time(d, shape, op.backward);
}

}  // namespace

KernelModel kernel_model() { return {.gemm = product_time, .attention = attention_time}; }

}  // namespace meshplan
