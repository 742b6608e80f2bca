#include "compare/kineto.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>

#include "compare/launch_ranges.hpp"
#include "compare/trace_event.hpp"

namespace meshplan {
namespace {

// Larger identifiers of operators are not followed: a table has one entry each.
constexpr std::int64_t kMostExternal = std::int64_t{1} << 25;
constexpr std::size_t kMostThreads = 60'000;

std::string lower(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

double bytes_of_dtype(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, double>, 9> kSizes{{{"BFloat16", 2},
                                                                       {"Half", 2},
                                                                       {"Float", 4},
                                                                       {"Double", 8},
                                                                       {"Long", 8},
                                                                       {"Int", 4},
                                                                       {"Byte", 1},
                                                                       {"Char", 1},
                                                                       {"Bool", 1}}};
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return dtype.starts_with("Float8") ? 1 : 0;
}

// The records of one device.
class DeviceBuilder {
 public:
  DeviceTrace trace;

  void add_kernel(const TraceEvent& e, double base) {
    DeviceOp op;
    op.start = e.start - base;
    op.duration = std::max(e.duration, 0.0);
    op.name = name_of_kernel(e.name);
    op.stream = static_cast<std::int32_t>(e.stream >= 0 ? e.stream : e.tid);
    const OpName& name = trace.names[op.name];
    op.direction = name.direction;
    if (name.cls == OpClass::kCommunication) {
      const CommKind said = comm_kind(lower(e.collective));
      op.comm = said != CommKind::kNone ? said : name.comm;
      op.group = group_of(e);
      const bool gathers = op.comm == CommKind::kAllGather;
      op.bytes = bytes_of_dtype(e.dtype) * static_cast<double>(std::max<std::int64_t>(
                                               gathers ? e.out_elements : e.in_elements, 0));
    }
    trace.ops.push_back(op);
    externals_.push_back(e.external);
  }

  [[nodiscard]] const std::vector<std::int64_t>& externals() const { return externals_; }

 private:
  std::uint32_t name_of_kernel(const std::string& name) {
    const auto [at, added] =
        names_.try_emplace(name, static_cast<std::uint32_t>(trace.names.size()));
    if (added) trace.names.push_back(classified(name));
    return at->second;
  }

  std::uint32_t group_of(const TraceEvent& e) {
    CommGroup group{e.group_size, e.group_description, e.group_ranks};
    if (group.size <= 0) group.size = static_cast<std::int64_t>(group.ranks.size());
    if (group.description.empty()) group.description = e.group_name;
    if (group == CommGroup{}) return 0;
    const auto at = std::find(trace.groups.begin(), trace.groups.end(), group);
    if (at != trace.groups.end()) return static_cast<std::uint32_t>(at - trace.groups.begin());
    if (trace.groups.size() >= 1000) return 0;  // no run has as many
    trace.groups.push_back(std::move(group));
    return static_cast<std::uint32_t>(trace.groups.size() - 1);
  }

  std::unordered_map<std::string, std::uint32_t> names_;
  std::vector<std::int64_t> externals_;  // of `ops`, as long as they are in the order of the file
};

class ChromeReader {
 public:
  void add(const TraceEvent& e) {
    if (e.phase != "X" || !std::isfinite(e.start) || !std::isfinite(e.duration)) return;
    if (!based_) base_ = e.start;
    based_ = true;
    if (own_) return add_task(e);
    const std::string category = lower(e.category);
    if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" ||
        category == "memcpy" || category == "memset") {
      const std::int64_t device = e.device >= 0 ? e.device : e.pid;
      if (devices_.size() < kMostDevices || devices_.contains(device)) {
        devices_[device].add_kernel(e, base_);
      }
    } else if (category == "cpu_op" || category == "operator") {
      add_operator(e);
    } else if (category == "cuda_runtime" || category == "runtime" || category == "hip_runtime") {
      add_call(e);
    } else if (category == "user_annotation" || category == "gpu_user_annotation") {
      add_annotation(e, category == "user_annotation");
    }
  }

  void is_own(bool own) { own_ = own; }

  std::vector<DeviceTrace> traces(const TraceHeader& header, const std::string& file) {
    std::vector<DeviceTrace> all;
    for (auto& [device, builder] : devices_) {
      DeviceTrace& trace = builder.trace;
      trace.file = file;
      trace.rank = own_ || devices_.size() > 1 ? device : header.rank;
      if (trace.rank < 0) trace.rank = rank_of_name(file);
      trace.world = header.world;
      trace.own = own_;
      resolve(builder);
      const std::vector<TimeSpan>& on_device = device_steps_[device];
      trace.steps = steps_.empty() ? on_device : steps_;
      trace.data_loading = data_loading_;
      trace.allocations = allocations_;
      trace.allocation_time = allocation_time_;
      std::stable_sort(trace.ops.begin(), trace.ops.end(),
                       [](const DeviceOp& a, const DeviceOp& b) { return a.start < b.start; });
      if (!steps_.empty() && !on_device.empty()) leave_out_earlier(trace, on_device);
      all.push_back(std::move(trace));
    }
    return all;
  }

 private:
  // A host that is ahead of its device marks a step while the device still works on earlier ones,
  // whose kernels are in the file as well. The marks on the device say where the first step begins.
  static void leave_out_earlier(DeviceTrace& trace, const std::vector<TimeSpan>& on_device) {
    const double first =
        std::min_element(on_device.begin(), on_device.end(),
                         [](const TimeSpan& a, const TimeSpan& b) { return a.start < b.start; })
            ->start;
    const auto begin = std::find_if(trace.ops.begin(), trace.ops.end(),
                                    [&](const DeviceOp& op) { return op.start >= first; });
    for (auto op = trace.ops.begin(); op != begin; ++op) {
      trace.earlier_until = std::max(trace.earlier_until, op->start + op->duration);
    }
    trace.earlier_until = std::min(trace.earlier_until, first);
    trace.ops.erase(trace.ops.begin(), begin);
  }

  // A task of a pipeline rank, of 'meshplan report --trace'.
  void add_task(const TraceEvent& e) {
    if (devices_.size() >= kMostDevices && !devices_.contains(e.pid)) return;
    DeviceTrace& trace = devices_[e.pid].trace;
    trace.tasks.push_back({e.start - base_, e.start - base_ + e.duration, e.category, e.name});
  }

  void add_operator(const TraceEvent& e) {
    if (e.name.starts_with("enumerate(DataLoader)")) add_loading(e);
    const std::size_t thread = thread_of(e.tid);
    if (e.name.starts_with("autograd::engine::evaluate_function")) backward_[thread] = true;
    if (e.external < 0 || e.external >= kMostExternal) return;
    const auto id = static_cast<std::size_t>(e.external);
    if (operators_.size() <= id) operators_.resize(std::max(id + 1, operators_.size() * 3 / 2));
    operators_[id] = static_cast<std::uint16_t>(thread + 1);
    const ProductShape shape = product_shape(e.name, e.input_sizes);
    if (shape.m > 0) shapes_[e.external] = shape;
  }

  void add_call(const TraceEvent& e) {
    constexpr std::array<std::string_view, 6> kCalls{"cudaMalloc", "cudaFree",      "hipMalloc",
                                                     "hipFree",    "cudaHostAlloc", "cuMemCreate"};
    if (std::find(kCalls.begin(), kCalls.end(), e.name) == kCalls.end()) return;
    ++allocations_;
    allocation_time_ += e.duration;
  }

  void add_annotation(const TraceEvent& e, bool of_host) {
    if (e.name.starts_with("ProfilerStep#")) {
      std::vector<TimeSpan>& steps =
          of_host ? steps_ : device_steps_[e.device >= 0 ? e.device : e.pid];
      steps.push_back({e.start - base_, e.start - base_ + e.duration});
    } else if (e.name.starts_with("enumerate(DataLoader)")) {
      add_loading(e);
    }
  }

  void add_loading(const TraceEvent& e) {
    data_loading_.push_back({e.start - base_, e.start - base_ + e.duration});
  }

  std::size_t thread_of(std::int64_t tid) {
    const auto [at, added] = threads_.try_emplace(tid, threads_.size());
    if (added && threads_.size() > kMostThreads) at->second = 0;
    if (backward_.size() <= at->second) backward_.resize(at->second + 1);
    return at->second;
  }

  // What kernels take from the operators that launched them: sizes, and the direction, since
  // PyTorch runs backward passes in threads of their own.
  void resolve(DeviceBuilder& builder) {
    DeviceTrace& trace = builder.trace;
    std::unordered_map<std::int64_t, std::uint32_t> places;
    const bool knows = std::find(backward_.begin(), backward_.end(), true) != backward_.end();
    for (std::size_t i = 0; i < trace.ops.size(); ++i) {
      const std::int64_t external = builder.externals()[i];
      if (external < 0 || external >= static_cast<std::int64_t>(operators_.size())) continue;
      const std::uint16_t thread = operators_[static_cast<std::size_t>(external)];
      if (thread == 0) continue;
      DeviceOp& op = trace.ops[i];
      if (knows) op.direction = backward_[thread - 1U] ? Direction::kBackward : Direction::kForward;
      if (trace.names[op.name].cls != OpClass::kProduct) continue;
      const auto shape = shapes_.find(external);
      if (shape == shapes_.end()) continue;
      const auto known = std::find(trace.shapes.begin(), trace.shapes.end(), shape->second);
      if (known == trace.shapes.end()) {
        if (trace.shapes.size() >= 4000) continue;  // of a model that changes its shapes
        trace.shapes.push_back(shape->second);
        op.shape = static_cast<std::uint32_t>(trace.shapes.size() - 1);
      } else {
        op.shape = static_cast<std::uint32_t>(known - trace.shapes.begin());
      }
    }
  }

  std::map<std::int64_t, DeviceBuilder> devices_;
  std::vector<std::uint16_t> operators_;  // thread + 1 by "External id"
  std::unordered_map<std::int64_t, ProductShape> shapes_;
  std::unordered_map<std::int64_t, std::size_t> threads_;
  std::vector<bool> backward_ = std::vector<bool>(1);
  std::vector<TimeSpan> steps_, data_loading_;
  std::map<std::int64_t, std::vector<TimeSpan>> device_steps_;  // by device
  std::int64_t allocations_ = 0;
  double allocation_time_ = 0;
  double base_ = 0;
  bool based_ = false, own_ = false;
};

}  // namespace

std::int64_t rank_of_name(std::string_view file) {
  const std::size_t slash = file.find_last_of('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  const std::string name = lower(file);
  for (std::size_t at = name.find("rank"); at != std::string::npos;
       at = name.find("rank", at + 1)) {
    std::size_t digits = at + 4;
    while (digits < name.size() && (name[digits] == '-' || name[digits] == '_')) ++digits;
    std::int64_t rank = 0;
    const auto [end, failure] =
        std::from_chars(name.data() + digits, name.data() + name.size(), rank);
    if (failure == std::errc{} && end != name.data() + digits) return rank;
  }
  return -1;
}

Result<std::vector<DeviceTrace>> read_chrome_trace(ByteStream bytes, const std::string& file) {
  TraceHeader header;
  ChromeReader reader;
  const std::string problem = read_trace_events(
      bytes,
      [&](const TraceEvent& e) {
        reader.is_own(header.tool.starts_with("meshplan"));
        reader.add(e);
      },
      header);
  std::vector<DeviceTrace> traces = reader.traces(header, file);
  if (traces.empty()) {
    return error_at({file},
                    problem.empty() ? "no kernel of a device is in this trace"
                                    : problem + ", and no kernel of a device stands before that",
                    "PyTorch's profiler writes them with ProfilerActivity.CUDA");
  }
  if (!problem.empty()) {
    for (DeviceTrace& trace : traces) trace.notes.push_back(problem + ": what it holds is used");
  }
  return traces;
}

}  // namespace meshplan
