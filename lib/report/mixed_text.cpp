#include "report/mixed_text.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "cost/uncertainty.hpp"
#include "model/parameters.hpp"
#include "report/estimate_text.hpp"
#include "report/lengths_text.hpp"

namespace meshplan {
namespace {

std::string machines(const ClusterSpec& c) {
  return with_thousands(num_gpus(c)) + " GPUs of " + printable(c.name) + " (" +
         printable(c.device.name) + ")";
}

std::string slower_by(Seconds time, Seconds best) {
  const double ratio = time / best;
  constexpr double kSame = 1.0005;  // as it is printed
  if (ratio < kSame) return "the same";
  return ratio < 2 ? human_percent(ratio - 1) + " slower" : fixed(ratio, 1) + " times as long";
}

// The faster of the kinds that can do the job alone; 2: neither.
std::size_t faster_alone(const Mixed& found) {
  std::size_t best = found.alone.size();
  for (std::size_t g = 0; g < found.alone.size(); ++g) {
    if (!found.alone[g]) continue;
    if (best == found.alone.size() || found.alone[g]->step_time < found.alone[best]->step_time) {
      best = g;
    }
  }
  return best;
}

// What one plan on both kinds would do where one kind alone does it in `alone`.
std::string against_alone(const Mixed& found, Seconds alone) {
  if (found.best) {
    return "both kinds take " + human_time(found.best->step_time) + ", " +
           slower_by(found.best->step_time, alone) + ": what they exchange outweighs the devices";
  }
  return found.exact ? "no plan fits both kinds"
                     : "none for both kinds was found in the time given";
}

std::string answer_text(const MixedClusters& own, const Mixed& found, const TextOptions& options) {
  const std::size_t alone = faster_alone(found);
  const bool is_alone = alone < own.size();
  if (!found.best && !is_alone) {
    const bool open = !found.exact || found.alone_open[0] || found.alone_open[1];
    return paragraph("",
                     open ? "Nothing was found in the time given, and not all was tried."
                          : "Nothing fits: neither kind alone, nor one plan on both.",
                     options);
  }
  if (!found.best || (is_alone && found.alone[alone]->step_time <= found.best->step_time)) {
    const PlanCost& plan = *found.alone[alone];
    return paragraph("Recommended: ",
                     machines(own[alone]) + " alone: " + short_text(plan.strategy) + ", " +
                         human_time(plan.step_time) + " a step; " +
                         against_alone(found, plan.step_time),
                     options);
  }
  const MixedPlan& best = *found.best;
  const PlanCost& first = best.groups[0].plan;
  std::string worth;
  if (is_alone) {
    worth = "; " + fixed(found.alone[alone]->step_time / best.step_time, 2) + " times as fast as " +
            printable(own[alone].name) + " alone";
  }
  return paragraph(
      "Recommended: ",
      short_text(first.strategy) + ": " + human_time(best.step_time) + " a step" + worth, options);
}

std::string group_table(const MixedClusters& own, const MixedPlan& best,
                        const TextOptions& options) {
  Table table({{"machines", Align::kLeft, true},
               {"GPUs"},
               {"replicas"},
               {"microbatches"},
               {"step"},
               {"waits"},
               {"memory"},
               {"OOM"}});
  for (std::size_t g = 0; g < best.groups.size(); ++g) {
    const MixedGroup& group = best.groups[g];
    const MemoryBreakdown& memory = group.plan.memory();
    table.add_row({printable(own[g].name), with_thousands(group.gpus),
                   with_thousands(group.replicas),
                   with_thousands(group.microbatches) + " of " +
                       std::to_string(group.plan.strategy.micro_batch),
                   human_time(group.plan.step_time),
                   narrow_percent(1 - group.plan.step_time / best.step_time, 1),
                   human_bytes(memory.peak) + " " +
                       narrow_percent(memory.peak.si() / memory.capacity.si(), 0),
                   narrow_percent(out_of_memory_probability(memory), 0)});
  }
  return table.text(options);
}

std::string comparison_text(const MixedClusters& own, const Mixed& found,
                            const TextOptions& options) {
  std::string text;
  if (found.even && found.best) {
    text +=
        paragraph("- ",
                  "with as many sequences for each replica: " + human_time(found.even->step_time) +
                      ", " + slower_by(found.even->step_time, found.best->step_time) + " (" +
                      short_text(found.even->groups[0].plan.strategy) + ")",
                  options);
  }
  for (std::size_t g = 0; g < own.size(); ++g) {
    const std::optional<PlanCost>& alone = found.alone[g];
    text += paragraph(
        "- ",
        machines(own[g]) + " alone: " +
            (alone ? human_time(alone->step_time) + " (" + short_text(alone->strategy) + ")"
                   : std::string(found.alone_open[g] ? "nothing was found in the time given"
                                                     : "nothing fits")),
        options);
  }
  return text;
}

}  // namespace

std::string mixed_statement(const Mixed& found, const SearchRequest& request) {
  const std::string space =
      "of the " + std::string(name_of(request.space)) +
      " space that puts whole replicas on machines of one kind, all with the same plan, and gives "
      "every replica of a kind as many sequences";
  if (!found.best) {
    return found.exact ? "exact: no strategy " + space + " fits both kinds"
                       : "open: none was found that fits both kinds, and not all were tried";
  }
  if (found.exact) return "exact: no strategy " + space + " is faster";
  return "bounded: no strategy " + space + " is faster by more than " + human_percent(found.gap);
}

std::string mixed_report(const ModelSpec& m, const MixedClusters& own, const SearchRequest& request,
                         const Mixed& found, const TextOptions& options) {
  std::string text =
      paragraph("",
                m.name + " (" + human_count(static_cast<double>(parameter_count(m).total)) +
                    " parameters) on " + machines(own[0]) + " and " + machines(own[1]),
                options);
  text += paragraph("", "one step: " + workload_text(m, request.base), options) + '\n';
  text += answer_text(own, found, options);
  if (found.best) {
    text += '\n' + group_table(own, *found.best, options) +
            paragraph("",
                      "microbatches: of every replica, each of so many sequences; waits: share of "
                      "the step, for the other kind",
                      options);
  }
  text += '\n' + comparison_text(own, found, options);
  if (found.best) {
    text += paragraph(
        "- ",
        "to launch it: no framework that meshplan writes for gives replicas different numbers of "
        "microbatches by itself. The sampler must deal them out as above, and gradients are "
        "summed over tokens, not averaged over replicas. The ranks of a replica lie next to each "
        "other (order tp-cp-ep-pp-dp), those of a kind too",
        options);
    text += paragraph("- ",
                      "both networks between nodes count as the slower of the two; links inside a "
                      "node as each kind has them",
                      options);
    for (std::size_t g = 0; g < own.size(); ++g) {
      text += "\nAll " + with_thousands(num_gpus(found.clusters[g])) + " GPUs as if they were " +
              printable(own[g].device.name) + ":\n" +
              strategy_line(found.best->groups[g].plan.strategy);
    }
  }
  text += '\n' +
          paragraph("Searched ",
                    with_thousands(found.searches) + " times, in " + human_time(found.wall) + ".",
                    options);
  return text + paragraph("Proof: ", mixed_statement(found, request), options);
}

}  // namespace meshplan
