#pragma once
// One strategy's verdict for people: every term of its time, memory and communication, or why it
// cannot run and what would make it run.
#include <string>

#include "cost/plan_cost.hpp"
#include "report/table.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// "llama-2-7b (6.74 B parameters) on dgx-a100-80gb, 8 GPUs" and the workload, two lines.
[[nodiscard]] std::string subject_text(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                       const TextOptions& options);

// The strategy as a flag to copy: never wrapped, quoted because shells expand brackets.
[[nodiscard]] std::string strategy_line(const Strategy& s);

[[nodiscard]] std::string estimate_text(const ModelSpec& m, const ClusterSpec& c, const PlanCost& p,
                                        const TextOptions& options);

// The verdict of a strategy that does not fit or is illegal: the reason, the shortfall, the memory
// of every stage, and the remedies, cheapest first.
[[nodiscard]] std::string infeasible_text(const Verdict& verdict, const TextOptions& options);

// What the busiest expert-parallel rank costs, usually and in bad layers; empty where the loads of
// the experts are not known one by one.
[[nodiscard]] std::string expert_load_text(const ModelSpec& m, const ClusterSpec& c,
                                           const PlanCost& p, const TextOptions& options);

// Parts of the above.
[[nodiscard]] std::string time_table(const PlanCost& p, const TextOptions& options);
[[nodiscard]] std::string memory_table(const std::vector<StageCost>& stages,
                                       const TextOptions& options);
[[nodiscard]] std::string stage_table(const PlanCost& p, const TextOptions& options);
[[nodiscard]] std::string communication_table(const PlanCost& p, const ClusterSpec& c,
                                              const TextOptions& options);

}  // namespace meshplan
