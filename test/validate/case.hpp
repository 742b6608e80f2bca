#pragma once
// Plans and machines whose times are known multiples of the predictions.
#include <map>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "cost/llama.hpp"
#include "cost/step.hpp"
#include "probe/fake_backend.hpp"
#include "validate/validate.hpp"

namespace meshplan::test {

inline ModelSpec model() {
  ModelSpec m = llama_like(8);
  m.tied_embeddings = false;
  return m;
}

// Nothing overlaps, so that a step is the sum of its parts.
inline Strategy plain(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Strategy s = modern_strategy(tp, pp, dp);
  s.overlap = {};
  s.overlap.tp_backward = false;
  return s;
}

struct Case {
  ModelSpec m = model();
  ClusterSpec c;
  ValidateRequest request;

  explicit Case(std::int64_t gpus) : c(plain_cluster(gpus)) {}
  void add(const Strategy& s) {
    const auto rank = static_cast<std::int64_t>(request.plans.size()) + 1;
    request.plans.push_back({rank, complete(s, m, c)});
  }
  [[nodiscard]] PlanCost cost(std::size_t i) const {
    return cost_of(m, c, request.plans[i].strategy);
  }
};

inline const CollectiveOperation* collective_of(const Operation& op) {
  return std::get_if<CollectiveOperation>(&op);
}

// A machine that takes `factor` times what the plans' own formulas say, except where it is told.
struct SlowMachine {
  std::vector<std::pair<Operation, Seconds>> predicted;
  double kernels = 1, collectives = 1;
  std::map<Collective, double> one{};

  SlowMachine(const Case& t, const Machine& machine) {
    for (std::size_t i = 0; i < t.request.plans.size(); ++i) {
      for (const PlannedOperation& p : planned_operations(t.m, t.c, t.cost(i))) {
        const Subset s = subset_for(p, t.c, machine);
        if (s.operation) predicted.emplace_back(*s.operation, s.predicted);
      }
    }
  }

  Result<Seconds> time(const Operation& op) const {
    for (const auto& [known, seconds] : predicted) {
      if (!(known == op)) continue;
      const CollectiveOperation* c = collective_of(op);
      if (c == nullptr) return seconds * kernels;
      const auto special = one.find(c->collective);
      return seconds * (special == one.end() ? collectives : special->second);
    }
    return error("nobody planned " + describe(op));
  }
};

inline Machine cpu_machine(std::int64_t ranks, std::int64_t per_node) {
  Machine m = fake_machine(ranks, per_node);
  m.accelerator = false;
  return m;
}

inline Validation validate(const Case& t, const Machine& machine, const SlowMachine& slow) {
  FakeBackend backend(machine, [&](const Operation& op) { return slow.time(op); });
  return validate_plans(t.m, t.c, t.request, backend);
}

// Sum of the shares of the operations for which `is` holds.
template <class Is>
double share(const PlanCheck& plan, const Is& is) {
  double sum = 0;
  for (const OperationCheck& op : plan.operations) {
    if (is(op)) sum += op.share;
  }
  return sum;
}

inline bool is_collective(const OperationCheck& op) { return op.planned.collective.has_value(); }

}  // namespace meshplan::test
