#include "report/validation.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"

namespace meshplan {
namespace {

std::string deviation_text(double ratio) {
  return (ratio >= 0 ? "+" : "") + narrow_percent(ratio, 1);
}

std::string machine_line_for_people(const Machine& m) {
  const std::string device = m.ranks.empty() ? "" : " (" + m.ranks.front().device + ")";
  std::string text = std::to_string(m.ranks.size()) + (m.ranks.size() == 1 ? " rank" : " ranks") +
                     device + " on " + std::to_string(m.nodes) +
                     (m.nodes == 1 ? " node" : " nodes") + ", backend " + m.backend;
  if (m.time_sliced) text += "; the ranks share a device: communication is not measured";
  return text;
}

std::string plans_table(const Validation& v, const TextOptions& options) {
  Table table({{"#"},
               {"new"},
               {"strategy", Align::kLeft, true},
               {"predicted"},
               {"measured"},
               {"off by"},
               {"covered"},
               {"extrapolated"}});
  std::vector<const PlanCheck*> order;
  for (const PlanCheck& plan : v.plans) order.push_back(&plan);
  std::sort(order.begin(), order.end(),
            [](const PlanCheck* a, const PlanCheck* b) { return a->new_rank < b->new_rank; });
  for (const PlanCheck* plan : order) {
    const bool good = std::abs(plan->deviation()) <= v.tolerance;
    table.add_row({std::to_string(plan->rank), std::to_string(plan->new_rank),
                   short_text(plan->strategy), human_time(plan->predicted),
                   human_time(plan->step_time),
                   deviation_text(plan->deviation()) + (good ? "" : "!"),
                   narrow_percent(plan->coverage, 1), narrow_percent(plan->extrapolated, 1)});
  }
  return table.text(options) +
         paragraph(
             "",
             "measured: the predicted step with measured operations in place of predicted "
             "ones; covered: their share of the step outside of the pipeline's bubble; !: off "
             "by more than " +
                 narrow_percent(v.tolerance, 1),
             options);
}

std::string what_ran(const OperationCheck& op) {
  std::string text = describe(*op.subset.operation);
  if (op.subset.fidelity == Fidelity::kExtrapolated) text += " (" + op.subset.reason + ")";
  for (const std::string& note : op.notes) text += ", " + note;
  return text;
}

// A collective's own description says what it is; kernels have a place in the layer.
std::string named(const OperationCheck& op) {
  return (op.planned.collective ? std::string() : op.planned.name + ": ") + what_ran(op);
}

std::string operations_table(const PlanCheck& plan, const ValidationTextOptions& what,
                             const TextOptions& options) {
  constexpr double kLeast = 0.001;  // of the step
  std::vector<const OperationCheck*> measured, shown;
  for (const OperationCheck& op : plan.operations) {
    if (!op.measured) continue;
    measured.push_back(&op);
    if (what.every_operation || op.share >= kLeast) shown.push_back(&op);
  }
  if (shown.empty()) shown = measured;  // nothing weighs: all of it is news
  const std::size_t hidden = measured.size() - shown.size();
  std::stable_sort(
      shown.begin(), shown.end(),
      [](const OperationCheck* a, const OperationCheck* b) { return a->share > b->share; });
  if (shown.empty()) return "Nothing of it was measured.\n";
  Table table({{"part", Align::kLeft},
               {"operation", Align::kLeft, true},
               {"calls"},
               {"share"},
               {"predicted"},
               {"measured"},
               {"ratio"}});
  for (const OperationCheck* op : shown) {
    table.add_row({op->planned.part, named(*op),
                   with_thousands(std::llround(op->planned.count_per_step)),
                   narrow_percent(op->share, 1), human_time(op->subset.predicted),
                   human_time(*op->measured), fixed(op->ratio(), 2)});
  }
  std::string text = table.text(options);
  if (hidden > 0) {
    text += std::to_string(hidden) + " more that take less than " + narrow_percent(kLeast, 1) +
            " of the step: --verbose\n";
  }
  return text;
}

// Where the host's launches keep measurements out of the step time: off by nothing then does not
// mean as predicted.
std::string host_text(const PlanCheck& plan, const TextOptions& options) {
  if (!plan.is_host_bound()) return {};
  const bool slower = plan.hidden > Seconds{};
  const Seconds hidden = slower ? plan.hidden : plan.hidden * -1.0;
  return paragraph("bound by the host: ",
                   "launching kernels takes " + human_time(plan.host) + " of the predicted " +
                       human_time(plan.predicted) + ", and hides " + human_time(hidden) +
                       " by which operations were measured " + (slower ? "slower" : "faster") +
                       " than predicted",
                   options);
}

// Reasons with the share of the step that each leaves unmeasured, the heaviest first.
std::string unmeasured_text(const PlanCheck& plan, const TextOptions& options) {
  std::map<std::string, double> shares;
  for (const OperationCheck& op : plan.operations) {
    if (op.subset.fidelity == Fidelity::kPredicted) shares[op.subset.reason] += op.share;
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [reason, share] : shares) order.emplace_back(share, reason);
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (const auto& [share, reason] : order) {
    text +=
        paragraph("not measured: ", narrow_percent(share, 1) + " of the step: " + reason, options);
  }
  return text;
}

}  // namespace

std::string validation_text(const ModelSpec& m, const Machine& machine, const Validation& v,
                            const ValidationTextOptions& what, const TextOptions& options) {
  std::string text = paragraph("",
                               printable(m.name) + " on " + machine_line_for_people(machine) +
                                   "; " + std::to_string(v.samples) + " operations measured",
                               options);
  if (v.not_reached > 0) {
    text += paragraph("", std::to_string(v.not_reached) + " operations were not reached", options);
  }
  text += '\n' + plans_table(v, options);
  for (const PlanCheck& plan : v.plans) {
    text += '\n' + emphasised("Plan " + std::to_string(plan.rank), Emphasis::kHeading, options) +
            ": " + short_text(plan.strategy) + '\n' + operations_table(plan, what, options) +
            host_text(plan, options) + unmeasured_text(plan, options);
  }
  return text;
}

std::string validation_agenda_text(const Machine& machine, const Validation& v,
                                   const TextOptions& options) {
  Table table({{"plan"},
               {"part", Align::kLeft},
               {"operation", Align::kLeft, true},
               {"calls"},
               {"share"},
               {"predicted"},
               {"how", Align::kLeft}});
  for (const PlanCheck& plan : v.plans) {
    for (const OperationCheck& op : plan.operations) {
      if (!op.subset.operation) continue;
      table.add_row({std::to_string(plan.rank), op.planned.part, named(op),
                     with_thousands(std::llround(op.planned.count_per_step)),
                     narrow_percent(op.share, 1), human_time(op.subset.predicted),
                     std::string(name_of(op.subset.fidelity))});
    }
  }
  std::string text = paragraph("", machine_line_for_people(machine), options) + '\n';
  if (!table.empty()) text += table.text(options);
  for (const PlanCheck& plan : v.plans) {
    text += "Plan " + std::to_string(plan.rank) + '\n' + unmeasured_text(plan, options);
  }
  return text;
}

}  // namespace meshplan
