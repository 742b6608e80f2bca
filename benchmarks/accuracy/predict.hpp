#pragma once
// Predictions for published runs, by the same calls as `meshplan estimate`.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cost/plan_cost.hpp"
#include "cost/uncertainty.hpp"
#include "machine.hpp"
#include "mapping.hpp"
#include "run.hpp"

namespace meshplan::accuracy {

// One run with everything that its prediction needs; which is why it can be made in parallel.
struct Task {
  const Source* source = nullptr;
  const Run* run = nullptr;
  ClusterSpec cluster;
  Mapped mapped;
};

struct Prediction {
  const Source* source = nullptr;
  const Run* run = nullptr;
  ModelSpec model;
  std::string cluster;
  std::string device;
  PlanCost cost;
  StepTimeInterval interval;
  bool fits = false;
  std::vector<std::string> searched;
  std::optional<std::int64_t> longest;  // sequence that fits, where that was measured
};

struct Skipped {
  const Source* source = nullptr;
  const Run* run = nullptr;
  std::string reason;
};

// Ready to be predicted, or why not. `overrides` are strategy keys ("key=value") put last.
[[nodiscard]] std::variant<Task, Skipped> prepare(const Source& source, const Run& run,
                                                  Machines& machines,
                                                  const std::vector<std::string>& overrides);

// The fastest candidate that fits with room to spare, else the fastest that fits, else the fastest;
// skipped if no candidate is legal.
[[nodiscard]] std::variant<Prediction, Skipped> predict(const Task& task);

// The prediction that `kind` of measured memory is compared with. Allocator-level peaks leave out
// the context and the communicators; what the allocator handed out leaves out fragmentation too.
[[nodiscard]] Bytes comparable_memory(const MemoryBreakdown& m, MemoryKind kind);
// Of the fullest rank, and what its allocator keeps of shorter microbatches where the tool sees it.
[[nodiscard]] Bytes comparable_memory(const PlanCost& cost, MemoryKind kind);

// All tasks, on `threads` threads; results keep the order.
[[nodiscard]] std::vector<std::variant<Prediction, Skipped>> predict_all(
    const std::vector<Task>& tasks, int threads);

// The tasks at these places, in their order.
[[nodiscard]] std::vector<std::variant<Prediction, Skipped>> predict_some(
    const std::vector<Task>& tasks, std::span<const std::size_t> places, int threads);

}  // namespace meshplan::accuracy
