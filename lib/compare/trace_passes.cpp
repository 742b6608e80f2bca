#include "compare/trace_passes.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace meshplan {
namespace {

// From one call of fused attention to the next.
struct Segment {
  double start = 0, end = 0;  // us
  double computing = 0;
  bool whole = true;  // nothing but layers' work of this direction
};

class Passes {
 public:
  Passes(const DeviceTrace& trace, std::int64_t steps, std::int64_t layers)
      : t_(trace), steps_(steps), layers_(layers) {}

  // What runs each layer once: calls by the name that takes most of the time, since a backward pass
  // of attention may take several kernels.
  std::vector<std::size_t> calls(Direction d) const {
    std::map<std::uint32_t, double> times;
    for (const DeviceOp& op : t_.ops) {
      if (is_call(op, d)) times[op.name] += op.duration;
    }
    const auto most =
        std::max_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    std::vector<std::size_t> places;
    for (std::size_t i = 0; most != times.end() && i < t_.ops.size(); ++i) {
      if (is_call(t_.ops[i], d) && t_.ops[i].name == most->first) places.push_back(i);
    }
    return places;
  }

  LayerPasses of(Direction d, bool ordered) const {
    LayerPasses passes;
    passes.direction = d;
    const std::vector<std::size_t> at = calls(d);
    if (at.size() < 2) return passes;
    const std::vector<Segment> segments = between(at, d);
    std::vector<double> computing, elapsed;
    for (const Segment& s : segments) {
      if (!s.whole) continue;
      computing.push_back(s.computing);
      elapsed.push_back(s.end - s.start);
    }
    if (computing.empty()) return passes;
    passes.count = static_cast<std::int64_t>(computing.size());
    passes.slowest = us(*std::max_element(computing.begin(), computing.end()));
    passes.median = us(middle(computing));
    passes.elapsed = us(middle(elapsed));
    if (ordered) add_order(segments, at.size(), passes);
    return passes;
  }

 private:
  static Seconds us(double t) { return Seconds{t * 1e-6}; }
  static double middle(std::vector<double>& all) {
    const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), half, all.end());
    return *half;
  }

  // Recomputed forward passes run in the thread of the backward pass.
  bool is_call(const DeviceOp& op, Direction d) const {
    const OpName& name = t_.names[op.name];
    if (name.cls != OpClass::kAttention || name.direction != d) return false;
    return op.direction == Direction::kUnknown || op.direction == d;
  }

  bool breaks(const DeviceOp& op, Direction d) const {
    const OpName& name = t_.names[op.name];
    const Direction other = d == Direction::kForward ? Direction::kBackward : Direction::kForward;
    if (name.cls == OpClass::kOptimizer || name.cls == OpClass::kSoftmax) return true;
    // An operator of the host thread may be a reduction beside the backward pass.
    if (name.cls == OpClass::kCommunication || name.cls == OpClass::kCopy) return false;
    if (op.direction != Direction::kUnknown) return op.direction == other;
    return name.cls == OpClass::kAttention && name.direction == other;
  }

  std::vector<Segment> between(const std::vector<std::size_t>& at, Direction d) const {
    std::vector<Segment> segments;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      Segment s{t_.ops[at[i]].start, t_.ops[at[i + 1]].start, 0, true};
      double until = s.start;  // of what computes so far
      for (std::size_t k = at[i]; k < at[i + 1]; ++k) {
        const DeviceOp& op = t_.ops[k];
        const OpClass c = t_.names[op.name].cls;
        if (breaks(op, d)) s.whole = false;
        if (c == OpClass::kCommunication || c == OpClass::kCopy) continue;
        const double end = std::min(op.start + op.duration, s.end);
        if (end > until) s.computing += end - std::max(op.start, until);
        until = std::max(until, end);
      }
      segments.push_back(s);
    }
    return segments;
  }

  // By layer and by microbatch, where every step runs each layer as often as it has microbatches.
  void add_order(const std::vector<Segment>& segments, std::size_t calls,
                 LayerPasses& passes) const {
    const auto layers = static_cast<std::size_t>(layers_);
    const auto steps = static_cast<std::size_t>(steps_);
    if (layers < 2 || steps < 1 || calls % (layers * steps) != 0) return;
    const std::size_t microbatches = calls / (layers * steps);
    std::vector<double> sums(layers), shares(microbatches);
    std::vector<int> counts(layers);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      // The last call of a microbatch's pass is followed by what belongs to no layer.
      if (!segments[i].whole || i % layers == layers - 1) continue;
      sums[i % layers] += segments[i].computing;
      ++counts[i % layers];
      shares[i / layers % microbatches] += segments[i].computing / static_cast<double>(steps);
    }
    for (std::size_t k = 0; k < layers; ++k) {
      // The backward pass comes from the last layer.
      const std::size_t from = passes.direction == Direction::kBackward ? layers - 1 - k : k;
      passes.layers.push_back(us(counts[from] > 0 ? sums[from] / counts[from] : 0));
    }
    for (const double share : shares) passes.microbatches.push_back(us(share));
  }

  const DeviceTrace& t_;
  std::int64_t steps_, layers_;
};

}  // namespace

std::vector<LayerPasses> layer_passes(const DeviceTrace& trace, std::int64_t steps,
                                      std::int64_t attention_layers, std::int64_t chunks) {
  std::vector<LayerPasses> all;
  const Passes passes(trace, steps, attention_layers);
  for (const Direction d : {Direction::kForward, Direction::kBackward}) {
    LayerPasses told = passes.of(d, chunks == 1);
    if (told.count > 0) all.push_back(std::move(told));
  }
  return all;
}

}  // namespace meshplan
