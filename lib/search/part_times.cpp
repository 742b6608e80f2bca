#include "search/part_times.hpp"

namespace meshplan {
namespace {

PartTime time_of(const BlockOps& ops, double slowest) {
  PartTime t;
  const auto add = [&](Pass pass, double seconds) {
    t.all += seconds;
    if (pass != Pass::kBackwardWeight) t.chain += seconds;
  };
  for (const KernelOp& op : ops.kernels) add(op.pass, op.time.si() * slowest);
  for (const CommOp& op : ops.comm) {
    add(op.pass, (op.time_each - op.hidden + op.slowdown).si() * op.count);
  }
  return t;
}

PartTime times(const PartTime& t, std::int64_t n) {
  return {t.chain * static_cast<double>(n), t.all * static_cast<double>(n)};
}

// Layers whose block has a property.
template <class Has>
std::int64_t count(const LayerPrefix& prefix, const Has& has) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < prefix.table.layers.size(); ++i) {
    if (has(prefix.table.layers[i])) n += prefix.all()[kFirstLayerBlock + i];
  }
  return n;
}

bool has_experts(const LayerBlock& layer) { return layer.kind == LayerKind::kMoe; }

}  // namespace

PartTime PartTimes::without_experts(const Strategy& s, std::size_t base) {
  const IntegerKey<8> key{static_cast<std::int64_t>(base),
                          s.tp,
                          s.cp,
                          static_cast<std::int64_t>(s.cp_kind),
                          s.sequence_parallel ? 1 : 0,
                          s.micro_batch,
                          shapes_.id(s, Group::kTp),
                          shapes_.id(s, Group::kCp)};
  return without_experts_.get(key, [&] {
    const BlockContext x{model_, cluster_, s, local_shape(model_, s)};
    const double slowest = slowest_of(cluster_.device, num_gpus(s));
    const std::int64_t windowed =
        count(prefix_, [](const LayerBlock& layer) { return layer.windowed; });
    PartTime sum;
    for (const bool window : {false, true}) {
      const std::int64_t layers = window ? windowed : model_.num_layers - windowed;
      if (layers == 0) continue;
      BlockOps ops;
      append_attention(x, window, ops);
      sum = sum + times(time_of(ops, slowest), layers);
    }
    const std::int64_t dense =
        count(prefix_, [](const LayerBlock& layer) { return !has_experts(layer); });
    if (dense > 0) {
      BlockOps ops;
      append_dense_mlp(x, x.shape.ffn, ops);
      sum = sum + times(time_of(ops, slowest), dense);
    }
    BlockOps ends;
    append_embedding(x, ends);
    append_head(x, ends);
    return sum + time_of(ends, slowest);
  });
}

PartTime PartTimes::experts(const Strategy& s, std::size_t base) {
  const std::int64_t layers = count(prefix_, has_experts);
  if (layers == 0) return {};
  const LocalShape shape = local_shape(model_, s);
  // The layers see tokens; how sequences and microbatches make them up does not matter.
  const IntegerKey<10> key{static_cast<std::int64_t>(base),
                           s.tp,
                           shape.tokens,
                           shape.norm_tokens,
                           s.sequence_parallel ? 1 : 0,
                           s.ep,
                           s.etp,
                           shapes_.id(s, Group::kTp),
                           shapes_.id(s, Group::kEp),
                           shapes_.id(s, Group::kEtp)};
  return experts_.get(key, [&] {
    const BlockContext x{model_, cluster_, s, shape};
    BlockOps ops;
    append_moe_mlp(x, ops);
    return times(time_of(ops, slowest_of(cluster_.device, num_gpus(s))), layers);
  });
}

}  // namespace meshplan
