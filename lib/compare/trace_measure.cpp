#include "compare/trace_measure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "compare/trace_dimensions.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kDimensions = 8;  // those of CommDimension, and one that nobody knows
constexpr std::size_t kUnknown = kDimensions - 1;

// What runs at once.
struct Active {
  int compute = 0, copies = 0;
  std::array<int, kDimensions> comm{};
};

struct Edge {
  double at = 0;
  std::int32_t change = 0;  // +1 begins, -1 ends
  std::uint32_t op = 0;
};

struct Window {
  double start = 0, end = 0;
  std::int64_t steps = 1;
  std::string from;
};

bool computes(OpClass c) { return c != OpClass::kCommunication && c != OpClass::kCopy; }

// Steps by the optimizer's kernels, which stand together at the end of each: products lie between.
std::int64_t optimizer_steps(const DeviceTrace& t) {
  std::int64_t steps = 0;
  bool product = true;
  for (const DeviceOp& op : t.ops) {
    const OpClass c = t.names[op.name].cls;
    if (c == OpClass::kOptimizer && product) ++steps;
    if (c == OpClass::kOptimizer || c == OpClass::kProduct) product = c == OpClass::kProduct;
  }
  return steps;
}

Window window_of(const DeviceTrace& t) {
  Window w{t.ops.front().start, 0, 1, ""};
  for (const DeviceOp& op : t.ops) w.end = std::max(w.end, op.start + op.duration);
  if (!t.steps.empty()) {
    w.steps = static_cast<std::int64_t>(t.steps.size());
    w.from = "the profiler's marks";
    double first = std::numeric_limits<double>::max();
    for (const TimeSpan& step : t.steps) first = std::min(first, step.start);
    w.start = std::max(std::min(w.start, first), t.earlier_until);
  } else if (const std::int64_t steps = optimizer_steps(t); steps > 0) {
    w.steps = steps;
    w.from = "the optimizer's kernels";
  } else {
    w.from = "nothing: it is taken as one";
  }
  return w;
}

std::vector<TimeSpan> merged(std::vector<TimeSpan> all) {
  std::sort(all.begin(), all.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.start < b.start; });
  std::vector<TimeSpan> out;
  for (const TimeSpan& s : all) {
    if (!out.empty() && s.start <= out.back().end) {
      out.back().end = std::max(out.back().end, s.end);
    } else {
      out.push_back(s);
    }
  }
  return out;
}

// How much of [start, end) the spans cover; `from` is the first one that may, and moves on.
double covered(const std::vector<TimeSpan>& spans, double start, double end, std::size_t& from) {
  while (from < spans.size() && spans[from].end <= start) ++from;
  double sum = 0;
  for (std::size_t i = from; i < spans.size() && spans[i].start < end; ++i) {
    sum += std::min(end, spans[i].end) - std::max(start, spans[i].start);
  }
  return std::max(sum, 0.0);
}

class Measurer {
 public:
  Measurer(const DeviceTrace& trace, const PlanCost& plan)
      : t_(trace), dimensions_(plan, trace), window_(window_of(trace)) {
    m_.file = trace.file;
    m_.rank = trace.rank;
    m_.steps = window_.steps;
    m_.steps_from = window_.from;
    m_.step = per_step(window_.end - window_.start);
    m_.notes = trace.notes;
  }

  DeviceMeasure measure() {
    count_ops();
    sweep();
    find_slow_down();
    m_.allocations = static_cast<double>(t_.allocations) / static_cast<double>(window_.steps);
    m_.allocation_time = per_step(t_.allocation_time);
    finish_lists();
    return std::move(m_);
  }

 private:
  [[nodiscard]] Seconds per_step(double us) const {
    return Seconds{std::max(us, 0.0) * 1e-6 / static_cast<double>(window_.steps)};
  }
  [[nodiscard]] OpClass class_of(const DeviceOp& op) const { return t_.names[op.name].cls; }

  void count_ops() {
    const double share = 1.0 / static_cast<double>(window_.steps);
    for (const DeviceOp& op : t_.ops) {
      const OpClass c = class_of(op);
      const auto add = [&](OpTime& to) {
        to.time += per_step(op.duration);
        to.count += share;
      };
      add(m_.classes[static_cast<std::size_t>(c)][static_cast<std::size_t>(op.direction)]);
      if (c != OpClass::kCopy) m_.kernels += share;
      if (t_.names[op.name].wide) wide_ += op.duration;
      const bool forward = t_.names[op.name].direction == Direction::kForward;
      if (c == OpClass::kAttention && forward) m_.attention_forward += share;
      if (c == OpClass::kProduct && op.shape != 0) {
        ProductShape s = t_.shapes[op.shape];
        std::array<std::int64_t, 3> sizes{s.m, s.n, s.k};
        std::sort(sizes.rbegin(), sizes.rend());
        s.m = sizes[0], s.n = sizes[1], s.k = sizes[2];
        add(products_[{sizes[0], sizes[1], sizes[2], s.count}].all);
        products_[{sizes[0], sizes[1], sizes[2], s.count}].shape = s;
      }
      dimension_.push_back(kUnknown);
      if (c != OpClass::kCommunication) continue;
      const std::optional<CommDimension> d = dimensions_.of(op);
      if (d) dimension_.back() = static_cast<std::size_t>(*d);
      CommTime& comm = comm_of(op);
      comm.dimension = d;
      add(comm.all);
    }
  }

  CommTime& comm_of(const DeviceOp& op) {
    const std::size_t d = dimension_[static_cast<std::size_t>(&op - t_.ops.data())];
    const std::int64_t size = t_.groups[op.group].size;
    CommTime& comm = comm_[{d, op.comm, size}];
    comm.kind = op.comm;
    comm.group_size = size;
    return comm;
  }

  // From the first to the last moment, what nothing hides.
  void sweep() {
    std::vector<Edge> edges;
    edges.reserve(2 * t_.ops.size());
    for (std::uint32_t i = 0; i < t_.ops.size(); ++i) {
      const DeviceOp& op = t_.ops[i];
      if (!(op.duration > 0)) continue;
      edges.push_back({op.start, 1, i});
      edges.push_back({op.start + op.duration, -1, i});
    }
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
      return a.at != b.at ? a.at < b.at : a.change > b.change;
    });
    const std::vector<TimeSpan> loading = merged(t_.data_loading);
    std::size_t load = 0;
    Active now;
    std::vector<std::uint32_t> running;  // communication, by start
    double last = window_.start;
    for (const Edge& edge : edges) {
      if (edge.at > last) account(now, running, last, edge.at, loading, load);
      last = std::max(last, edge.at);
      const OpClass c = class_of(t_.ops[edge.op]);
      if (c == OpClass::kCommunication) {
        now.comm[dimension_[edge.op]] += edge.change;
        if (edge.change > 0) {
          running.push_back(edge.op);
        } else {
          running.erase(std::find(running.begin(), running.end(), edge.op));
        }
      } else {
        (c == OpClass::kCopy ? now.copies : now.compute) += edge.change;
      }
    }
  }

  void account(const Active& now, const std::vector<std::uint32_t>& running, double from, double to,
               const std::vector<TimeSpan>& loading, std::size_t& load) {
    const Seconds t = per_step(to - from);
    if (now.compute > 0) {
      m_.computing += t;
      if (!running.empty()) m_.beside += t;
    } else if (!running.empty()) {
      // The one that began first is what the others wait for.
      comm_of(t_.ops[running.front()]).exposed += t;
    } else if (now.copies > 0) {
      m_.copying += t;
    } else {
      const double loaded = covered(loading, from, to, load);
      m_.loading += per_step(loaded);
      m_.waiting += per_step(to - from - loaded);
      if (to - from >= kShortGap) m_.gaps += 1.0 / static_cast<double>(window_.steps);
    }
  }

  // Kernels of one name and shape, alone and beside communication.
  void find_slow_down() {
    std::vector<TimeSpan> comm;
    for (const DeviceOp& op : t_.ops) {
      if (class_of(op) == OpClass::kCommunication) {
        comm.push_back({op.start, op.start + op.duration});
      }
    }
    comm = merged(std::move(comm));
    struct Both {
      double alone = 0, beside = 0;
      std::int64_t alone_count = 0, beside_count = 0;
    };
    std::map<std::pair<std::uint32_t, std::uint32_t>, Both> kinds;
    std::size_t from = 0;
    for (const DeviceOp& op : t_.ops) {
      if (!computes(class_of(op)) || !(op.duration > 0)) continue;
      const double share = covered(comm, op.start, op.start + op.duration, from) / op.duration;
      Both& both = kinds[{op.name, op.shape}];
      if (share < 0.1) both.alone += op.duration, ++both.alone_count;
      if (share > 0.9) both.beside += op.duration, ++both.beside_count;
    }
    for (const auto& [kind, both] : kinds) {
      if (both.alone_count < 3 || both.beside_count < 3) continue;
      const double alone = both.alone / static_cast<double>(both.alone_count);
      m_.slow_down += per_step(both.beside - alone * static_cast<double>(both.beside_count));
    }
  }

  void finish_lists() {
    const Seconds all = m_.of(OpClass::kProduct).time;
    if (all.si() > 0) m_.wide_products = per_step(wide_) / all;
    for (const auto& [key, product] : products_) m_.products.push_back(product);
    std::sort(m_.products.begin(), m_.products.end(),
              [](const auto& a, const auto& b) { return a.all.time > b.all.time; });
    for (const auto& [key, comm] : comm_) m_.communication.push_back(comm);
    std::sort(m_.communication.begin(), m_.communication.end(),
              [](const auto& a, const auto& b) { return a.exposed > b.exposed; });
  }

  const DeviceTrace& t_;
  TraceDimensions dimensions_;
  Window window_;
  DeviceMeasure m_;
  double wide_ = 0;                     // us in products of fp32 or TF32
  std::vector<std::size_t> dimension_;  // by operation
  std::map<std::array<std::int64_t, 4>, ProductTime> products_;
  std::map<std::tuple<std::size_t, CommKind, std::int64_t>, CommTime> comm_;
};

}  // namespace

OpTime DeviceMeasure::of(OpClass c) const {
  OpTime sum;
  for (const OpTime& t : classes[static_cast<std::size_t>(c)]) {
    sum.time += t.time;
    sum.count += t.count;
  }
  return sum;
}

Seconds DeviceMeasure::exposed(CommDimension d) const {
  Seconds sum;
  for (const CommTime& c : communication) {
    if (c.dimension == d) sum += c.exposed;
  }
  return sum;
}

DeviceMeasure measured_device(const DeviceTrace& trace, const PlanCost& plan) {
  return Measurer(trace, plan).measure();
}

}  // namespace meshplan
