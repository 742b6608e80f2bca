#include "search/part_times.hpp"

#include <cstddef>
#include <vector>

#include "model/parts.hpp"

namespace meshplan {
namespace {

PartTime time_of(const BlockOps& ops, double slowest) {
  PartTime t;
  const auto add = [&](Pass pass, Seconds time) {
    t.all += time.si();
    if (pass != Pass::kBackwardWeight) t.chain += time.si();
  };
  for (const KernelOp& op : ops.kernels) add(op.pass, pass_time(op, slowest));
  for (const CommOp& op : ops.comm) add(op.pass, pass_time(op, Seconds{}));
  return t;
}

PartTime times(const PartTime& t, std::int64_t n) {
  return {t.chain * static_cast<double>(n), t.all * static_cast<double>(n)};
}

// Seconds of one part of the layers, the same part of different blocks once. `append` takes what
// the part's operations depend on: of layers that are left in bf16 another strategy.
template <class Part, class Append>
PartTime sum_over(const BlockContext& x, const LayerPrefix& prefix, const Part& part,
                  double slowest, const Append& append) {
  const std::vector<LayerSpec>& layers = prefix.table.layers;
  const std::vector<bool>& in_bf16 = prefix.table.in_bf16;
  const Strategy wide = unquantised(x.strategy);
  const BlockContext of_wide{x.model, x.cluster, wide, x.shape};
  PartTime sum;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto is_same = [&](std::size_t k) {
      return in_bf16[k] == in_bf16[i] && part(layers[k]) == part(layers[i]);
    };
    std::size_t first = 0;
    while (!is_same(first)) ++first;
    if (first < i) continue;
    BlockOps ops;
    append(in_bf16[i] ? of_wide : x, part(layers[i]), ops);
    if (ops.kernels.empty()) continue;
    std::int64_t count = 0;
    for (std::size_t k = i; k < layers.size(); ++k) {
      if (is_same(k)) count += prefix.all()[kFirstLayerBlock + k];
    }
    sum = sum + times(time_of(ops, slowest), count);
  }
  return sum;
}

constexpr auto kMixer = [](const LayerSpec& layer) -> const Mixer& { return layer.mixer; };
constexpr auto kFeedForward = [](const LayerSpec& layer) -> const FeedForward& {
  return layer.feed_forward;
};

}  // namespace

PartTime PartTimes::without_experts(const Strategy& s, std::size_t base,
                                    const LayerPrefix& prefix) {
  const IntegerKey<8> key{static_cast<std::int64_t>(base),
                          s.tp,
                          s.cp,
                          static_cast<std::int64_t>(s.cp_kind),
                          s.sequence_parallel ? 1 : 0,
                          s.micro_batch,
                          shapes_.id(s, Group::kTp),
                          shapes_.id(s, Group::kCp)};
  return without_experts_.get(key, [&] {
    const BlockContext x{model_, cluster_, s, timed_shape(model_, s)};
    const double slowest = slowest_of(cluster_.device, num_gpus(s));
    const auto mix = [](const BlockContext& own, const Mixer& mixer, BlockOps& ops) {
      append_mixer(own, mixer, ops);
    };
    const auto dense = [](const BlockContext& own, const FeedForward& feeds, BlockOps& ops) {
      if (!has_experts(feeds)) append_feed_forward(own, feeds, ops);
    };
    PartTime sum = sum_over(x, prefix, kMixer, slowest, mix);
    sum = sum + sum_over(x, prefix, kFeedForward, slowest, dense);
    BlockOps ends;
    append_embedding(x, ends);
    append_head(x, ends);
    return sum + time_of(ends, slowest);
  });
}

PartTime PartTimes::experts(const Strategy& s, std::size_t base, const LayerPrefix& prefix) {
  if (!model_.moe) return {};
  const LocalShape shape = timed_shape(model_, s);
  // The layers see tokens; how sequences and microbatches make them up does not matter.
  const IntegerKey<10> key{
      static_cast<std::int64_t>(base),
      s.tp,
      shape.tokens,
      shape.norm_tokens,
      s.sequence_parallel ? 1 : 0,
      s.ep,
      s.etp,
      shapes_.id(s, Group::kTp),
      shapes_.id(s, s.runtime.allgather_dispatcher ? Group::kEtpEp : Group::kEp),
      shapes_.id(s, Group::kEtp)};
  return experts_.get(key, [&] {
    const BlockContext x{model_, cluster_, s, shape};
    const auto experts = [](const BlockContext& own, const FeedForward& feeds, BlockOps& ops) {
      if (has_experts(feeds)) append_feed_forward(own, feeds, ops);
    };
    return sum_over(x, prefix, kFeedForward, slowest_of(cluster_.device, num_gpus(s)), experts);
  });
}

}  // namespace meshplan
