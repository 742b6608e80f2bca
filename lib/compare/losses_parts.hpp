#pragma once
// What the parts of the verdict share; private to this library.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compare/losses.hpp"

namespace meshplan {

struct LossContext {
  const TraceComparison& t;
  const ModelSpec& m;
  const ClusterSpec& c;
  const PlanCost& plan;
  Seconds least;  // what is lost must be that at least

  [[nodiscard]] const DeviceMeasure& device() const { return t.devices[t.shown]; }
  [[nodiscard]] OpTime measured(OpClass op) const;
  [[nodiscard]] OpTime predicted(OpClass op) const;
  // How much longer a class takes than predicted.
  [[nodiscard]] Seconds more(OpClass op) const { return measured(op).time - predicted(op).time; }
  // The step that the changed strategy is predicted to take; nothing where it is illegal or does
  // not fit.
  [[nodiscard]] std::optional<Seconds> step_with(
      const std::function<void(Strategy&)>& change) const;
  // By how much that is shorter than the plan's.
  [[nodiscard]] std::optional<Seconds> gain_of(const std::function<void(Strategy&)>& change) const;
};

// "420 ms measured, 50.0 ms predicted"
[[nodiscard]] std::string against(Seconds measured, Seconds predicted);

// Each adds what it finds.
void find_communication(const LossContext& x, std::vector<TimeLoss>& all);
void find_kernels(const LossContext& x, std::vector<TimeLoss>& all);
void find_products(const LossContext& x, std::vector<TimeLoss>& all);
void find_host(const LossContext& x, std::vector<TimeLoss>& all);
void find_ranks(const LossContext& x, std::vector<TimeLoss>& all);

}  // namespace meshplan
