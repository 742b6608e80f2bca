#include "compare/memory_snapshot.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_map>

namespace meshplan {
namespace {

using Kind = PickleNode::Kind;

struct FrameMark {
  std::string_view part;
  MemoryPart of;
};
// Names of PyTorch, Megatron-Core, DeepSpeed and torchtitan. An optimizer's step calls
// communication and products of its own, and weights are made inside of modules: the outer frames
// decide first.
constexpr std::array kFrameMarks{FrameMark{"optimizer", MemoryPart::kOptimizer},
                                 FrameMark{"adam", MemoryPart::kOptimizer},
                                 FrameMark{"param_and_grad_buffer", MemoryPart::kGradients},
                                 FrameMark{"accumulategrad", MemoryPart::kGradients},
                                 FrameMark{"grad_buffer", MemoryPart::kGradients},
                                 FrameMark{"main_grad", MemoryPart::kGradients},
                                 FrameMark{"flat_param", MemoryPart::kWeights},
                                 FrameMark{"fsdp_param", MemoryPart::kWeights},
                                 FrameMark{"init_weights", MemoryPart::kWeights},
                                 FrameMark{"reset_parameters", MemoryPart::kWeights},
                                 FrameMark{"from_pretrained", MemoryPart::kWeights},
                                 FrameMark{"load_state_dict", MemoryPart::kWeights},
                                 FrameMark{"get_model", MemoryPart::kWeights},
                                 FrameMark{"model_provider", MemoryPart::kWeights},
                                 FrameMark{"to_empty", MemoryPart::kWeights},
                                 FrameMark{"__init__", MemoryPart::kWeights},
                                 FrameMark{"global_memory_buffer", MemoryPart::kBuffers},
                                 FrameMark{"distributed_c10d", MemoryPart::kBuffers},
                                 FrameMark{"all_gather", MemoryPart::kBuffers},
                                 FrameMark{"reduce_scatter", MemoryPart::kBuffers},
                                 FrameMark{"workspace", MemoryPart::kBuffers},
                                 FrameMark{"forward", MemoryPart::kActivations},
                                 FrameMark{"backward", MemoryPart::kActivations},
                                 FrameMark{"autograd", MemoryPart::kActivations},
                                 FrameMark{"checkpoint", MemoryPart::kActivations}};

std::int64_t integer_of(const PickleTree& tree, const PickleNode& map, std::string_view key) {
  const PickleNode* value = tree.find(map, key);
  return value != nullptr && value->kind == Kind::kInteger ? value->integer : 0;
}

std::string_view text_of(const PickleTree& tree, const PickleNode& map, std::string_view key) {
  const PickleNode* value = tree.find(map, key);
  return value != nullptr && value->kind == Kind::kText ? std::string_view(value->text)
                                                        : std::string_view();
}

constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;

std::int64_t size_of(const PickleTree& tree, const PickleNode& map, std::string_view key) {
  const std::int64_t size = integer_of(tree, map, key);
  return size > 0 && size < kMostBytes ? size : 0;
}

class SnapshotReader {
 public:
  explicit SnapshotReader(const PickleTree& tree) : tree_(tree) {}

  // Of one device: what is there at the end, and how it came.
  MemoryMeasure device(const PickleNode& segments, std::int64_t device, const PickleNode* trace) {
    live_.clear();
    MemoryMeasure m;
    Bytes reserved;
    for (const std::uint32_t place : segments.items) {
      const PickleNode& segment = tree_.at(place);
      if (integer_of(tree_, segment, "device") != device) continue;
      reserved += Bytes{size_of(tree_, segment, "total_size")};
      add_blocks(segment);
    }
    std::vector<Bytes> now(kMemoryParts);
    for (const auto& [address, block] : live_) now[index(block.part)] += Bytes{block.size};
    m.parts = now;
    m.allocated = total(now);
    m.reserved = reserved;
    if (trace != nullptr && trace->kind == Kind::kList) rewind(*trace, now, reserved, m);
    return m;
  }

 private:
  struct Block {
    std::int64_t size = 0;
    MemoryPart part = MemoryPart::kUnknown;
  };

  static std::size_t index(MemoryPart part) { return static_cast<std::size_t>(part); }
  static Bytes total(const std::vector<Bytes>& parts) {
    Bytes sum;
    for (const Bytes& b : parts) sum += b;
    return sum;
  }

  MemoryPart part_of(const PickleNode& map) {
    const PickleNode* frames = tree_.find(map, "frames");
    if (frames == nullptr || frames->kind != Kind::kList) return MemoryPart::kUnknown;
    std::string text;
    for (const std::uint32_t place : frames->items) {
      const PickleNode& frame = tree_.at(place);
      text += std::string(text_of(tree_, frame, "filename")) + ' ' +
              std::string(text_of(tree_, frame, "name")) + '\n';
      if (text.size() > 20'000) break;
    }
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return part_of_frames(text);
  }

  void add_blocks(const PickleNode& segment) {
    const PickleNode* blocks = tree_.find(segment, "blocks");
    if (blocks == nullptr || blocks->kind != Kind::kList) return;
    std::int64_t address = integer_of(tree_, segment, "address");
    for (const std::uint32_t place : blocks->items) {
      const PickleNode& block = tree_.at(place);
      const std::int64_t size = size_of(tree_, block, "size");
      const std::int64_t own = integer_of(tree_, block, "address");
      const std::string_view state = text_of(tree_, block, "state");
      if (state == "active_allocated" || state == "active_pending_free") {
        live_[own != 0 ? own : address] = {size, part_of(block)};
      }
      address += size;
    }
  }

  // Backwards from the end, where all is known, to the fullest moment.
  void rewind(const PickleNode& trace, std::vector<Bytes> now, Bytes reserved, MemoryMeasure& m) {
    const std::vector<MemoryPart> parts = parts_of(trace);
    Bytes allocated = m.allocated;
    for (std::size_t i = trace.items.size(); i-- > 0;) {
      const PickleNode& event = tree_.at(trace.items[i]);
      const std::string_view action = text_of(tree_, event, "action");
      const Bytes size{size_of(tree_, event, "size")};
      Bytes& part = now[index(parts[i])];
      if (action == "oom") {
        OutOfMemory e;
        e.wanted = size;
        e.free = Bytes{size_of(tree_, event, "device_free")};
        e.allocated = allocated;
        if (reserved > allocated) e.unallocated = reserved - allocated;
        if (!m.failed) m.failed = e;
        ++m.out_of_memory_errors;
      } else if (action == "alloc") {
        part -= std::min(part, size);
        allocated -= std::min(allocated, size);
      } else if (action == "free_completed") {
        part += size;
        allocated += size;
      } else if (action == "segment_alloc") {
        reserved -= std::min(reserved, size);
      } else if (action == "segment_free") {
        reserved += size;
        if (i > 0) ++m.retries;
      }
      m.reserved = std::max(m.reserved, reserved);
      if (allocated > m.allocated) {
        m.allocated = allocated;
        m.parts = now;
      }
    }
  }

  // What each event's block is of: a free has no frames of its own, but its allocation had.
  std::vector<MemoryPart> parts_of(const PickleNode& trace) {
    std::vector<MemoryPart> parts;
    std::unordered_map<std::int64_t, MemoryPart> open;
    for (const std::uint32_t place : trace.items) {
      const PickleNode& event = tree_.at(place);
      const std::string_view action = text_of(tree_, event, "action");
      const std::int64_t address = integer_of(tree_, event, "addr");
      MemoryPart part = MemoryPart::kUnknown;
      if (action == "alloc") {
        part = open[address] = part_of(event);
      } else if (const auto known = open.find(address); known != open.end()) {
        part = known->second;
      }
      parts.push_back(part);
    }
    return parts;
  }

  const PickleTree& tree_;
  std::unordered_map<std::int64_t, Block> live_;
};

}  // namespace

MemoryPart part_of_frames(std::string_view frames) {
  for (const FrameMark& mark : kFrameMarks) {
    if (frames.find(mark.part) != std::string_view::npos) return mark.of;
  }
  return MemoryPart::kUnknown;
}

Result<MemoryMeasure> measured_snapshot(const PickleTree& tree, const std::string& file) {
  const PickleNode& root = tree.at(tree.root);
  const PickleNode* segments = tree.find(root, "segments");
  // A history without its end does not lead back from what is there at the end.
  const PickleNode* traces = tree.cut ? nullptr : tree.find(root, "device_traces");
  const bool all_there = !tree.cut || tree.find(root, "device_traces") != nullptr;
  if (segments == nullptr || segments->kind != Kind::kList) {
    return error_at({file},
                    tree.cut ? "the file breaks off before it says what memory holds"
                             : "is a pickle, but no snapshot of memory",
                    "torch.cuda.memory._dump_snapshot writes one");
  }
  std::vector<std::int64_t> devices;
  for (const std::uint32_t place : segments->items) {
    devices.push_back(integer_of(tree, tree.at(place), "device"));
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  if (devices.empty()) return error_at({file}, "the snapshot has no memory of a device");
  SnapshotReader reader(tree);
  MemoryMeasure fullest;
  for (const std::int64_t device : devices) {
    const bool traced = traces != nullptr && traces->kind == Kind::kList && device >= 0 &&
                        static_cast<std::size_t>(device) < traces->items.size();
    const PickleNode* trace =
        traced ? &tree.at(traces->items[static_cast<std::size_t>(device)]) : nullptr;
    MemoryMeasure m = reader.device(*segments, device, trace);
    if (!all_there) {
      m.notes.emplace_back("the file breaks off within the list of what is there: it is more");
    } else if (tree.cut) {
      m.notes.emplace_back(
          "the file breaks off within its history: what is there at its end is compared, not the "
          "fullest moment");
    } else if (trace == nullptr || trace->items.empty()) {
      m.notes.emplace_back(
          "the snapshot has no history: what is there at its end is compared, not "
          "the fullest moment (torch.cuda.memory._record_memory_history())");
    }
    if (m.allocated >= fullest.allocated) fullest = std::move(m);
  }
  fullest.file = file;
  fullest.kind = "snapshot";
  return fullest;
}

}  // namespace meshplan
