#include "report/estimate_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "model/parameters.hpp"
#include "report/lengths_text.hpp"
#include "report/rates.hpp"
#include "report/terms.hpp"
#include "report/uncertainty_text.hpp"
#include "study/expert_spread.hpp"

namespace meshplan {
namespace {

std::string heading(std::string_view text, const TextOptions& options) {
  return emphasised(text, Emphasis::kHeading, options) + '\n';
}

std::string gib(Bytes n) { return fixed(n.si() / static_cast<double>(kGiB), 2); }

std::string labelled(const std::string& label, const std::string& value,
                     const TextOptions& options) {
  constexpr std::size_t kSummaryLabel = 18;
  return paragraph(label + std::string(kSummaryLabel - std::min(kSummaryLabel, label.size()), ' '),
                   value, options);
}

std::string usd(double value) {
  return fixed(value, value < 0.1 ? 4 : value < 10 ? 3 : 2) + " USD";
}

// Calls per step are whole numbers unless an operation happens in some microbatches only.
std::string calls(double count) { return count >= 100 ? rounded(count) : human_count(count); }

std::string summary(const ClusterSpec& c, const PlanCost& p, const TextOptions& options) {
  const Rates r = rates(p, c);
  const MemoryBreakdown& fullest = p.memory();
  std::string text = labelled("Step time", step_time_text(p, c), options);
  text += labelled(
      "Throughput",
      rounded(r.tokens_per_s) + " tokens/s, " + rounded(r.tokens_per_s_per_gpu) + " per GPU",
      options);
  text +=
      labelled("Utilisation",
               "MFU " + human_percent(p.mfu_causal) + ", causal attention counted half", options);
  text += labelled("Attention in full",
                   human_rate(r.model_flops_per_gpu) + " per GPU: MFU " + human_percent(p.mfu) +
                       ", HFU " + human_percent(p.hfu),
                   options);
  text += labelled("Memory",
                   human_bytes(fullest.peak) + " of " + human_bytes(fullest.capacity) + " (" +
                       human_percent(fullest.peak.si() / fullest.capacity.si()) +
                       ") on pipeline rank " + std::to_string(p.fullest_stage),
                   options);
  if (const Bytes cached = p.stages[p.fullest_stage].cached; cached > Bytes{0}) {
    text += labelled("nvidia-smi",
                     "up to " + human_bytes(fullest.peak + cached) +
                         ": lengths vary, and the allocator keeps segments too small for the "
                         "longest until memory runs out (runtime.expandable_segments=true)",
                     options);
  }
  text += labelled("Out of memory", out_of_memory_text(fullest), options);
  if (r.usd_per_step) text += labelled("Price", usd(*r.usd_per_step) + " per step", options);
  return text;
}

std::string warnings_text(const PlanCost& p, const TextOptions& options) {
  std::string text;
  for (const std::string& warning : p.warnings) {
    text += paragraph("warning: ", warning, options);
  }
  return text.empty() ? text : '\n' + text;
}

std::string held_by(const StageCost& s, bool encoder) {
  std::vector<std::string> parts;
  if (s.embedding && encoder) parts.emplace_back("encoder");
  if (s.embedding) parts.emplace_back("embedding");
  if (s.head) parts.emplace_back("head");
  return join_words(parts, ", ");
}

std::string reason_text(const Infeasible& i) {
  switch (i.reason) {
    case InfeasibleReason::kIllegal:
      return "This strategy is illegal.";
    case InfeasibleReason::kModelStates:
      return "This strategy does not fit: weights, gradients and optimizer states alone exceed the "
             "memory.";
    case InfeasibleReason::kActivations:
      return "This strategy does not fit: the model states do, activations and buffers beside them "
             "do not.";
    case InfeasibleReason::kHostMemory:
      return "This strategy does not fit: what it offloads exceeds the host's memory.";
  }
  return {};
}

}  // namespace

namespace {

// Where a job takes a part of each NVLink domain.
std::string domains_text(const ClusterSpec& c) {
  for (const LinkLevel& level : c.levels) {
    if (level.domain == 0) continue;
    return ", " + std::to_string(level.span) + " of the " + std::to_string(level.domain) +
           " in each domain of " + level.name;
  }
  return {};
}

}  // namespace

std::string subject_text(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                         const TextOptions& options) {
  const ParameterCount count = parameter_count(m);
  std::string model = m.name + " (" + human_count(static_cast<double>(count.total)) + " parameters";
  if (count.active != count.total) {
    model += ", " + human_count(static_cast<double>(count.active)) + " active";
  }
  return paragraph("",
                   model + ") on " + c.name + ", " + with_thousands(num_gpus(c)) +
                       (num_gpus(c) == 1 ? " GPU (" : " GPUs (") + c.device.name + ")" +
                       domains_text(c),
                   options) +
         paragraph("", "one step: " + workload_text(m, s), options);
}

std::string strategy_line(const Strategy& s) {
  return "--strategy '" + printable(to_text(s)) + "'\n";
}

std::string time_table(const PlanCost& p, const TextOptions& options) {
  constexpr std::size_t kBar = 30;
  Table table({{"time of one step", Align::kLeft}, {"seconds"}, {"share"}, {"", Align::kLeft}});
  for (const TimeTermRow& row : kTimeTerms) {
    const Seconds t = p.time.*row.term;
    if (t == Seconds{}) continue;
    const double share = t / p.step_time;
    table.add_row(
        {std::string(row.label), fixed(t.si(), 4), human_percent(share), bar(share, kBar)});
  }
  table.add_row({"step", fixed(p.step_time.si(), 4), human_percent(1), ""});
  return table.text(options);
}

std::string memory_table(const std::vector<StageCost>& stages, const TextOptions& options) {
  std::vector<Column> columns{{"rank"}};
  for (const MemoryTermRow& row : kMemoryTerms) columns.push_back({std::string(row.label)});
  Table table(std::move(columns), 1);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    std::vector<std::string> cells{std::to_string(i)};
    for (const MemoryTermRow& row : kMemoryTerms) cells.push_back(gib(stages[i].memory.*row.term));
    table.add_row(std::move(cells));
  }
  return table.text(options) +
         paragraph("",
                   "GiB on the fullest device of each pipeline rank. kept: allocated between two "
                   "steps beside the states, most of it in buffer. resv, not usable by tensors: "
                   "nccl (communicators) + ctx (driver context, libraries) + frag (allocator). "
                   "peak: weight + grad + optim + activ + buffer + resv.",
                   options);
}

// What the fullest rank's allocator hands out, entry by entry.
std::string ledger_table(const Ledger& ledger, std::size_t rank, const TextOptions& options) {
  Table table(
      {{"entry", Align::kLeft}, {"GiB"}, {"there", Align::kLeft}, {"formula", Align::kLeft}});
  for (const LedgerEntry& e : ledger.entries) {
    table.add_row({std::string(e.name), gib(e.bytes), std::string(name_of(e.lifetime)),
                   std::string(e.formula)});
  }
  std::string moments;
  for (const MomentBytes& m : ledger.moments) {
    moments += (moments.empty() ? "" : "; ") + std::string(name_of(m.moment)) + ": " +
               gib(m.allocated) + " GiB" + (m.moment == ledger.fullest ? " (the most)" : "");
  }
  return table.text(options) + paragraph("",
                                         "Allocated on the fullest device of pipeline rank " +
                                             std::to_string(rank) + ". " + moments + ".",
                                         options);
}

// Of models whose layers differ: how many of each kind every rank has.
std::string kinds_table(const PlanCost& p, const TextOptions& options) {
  std::vector<std::string> kinds;
  for (const StageCost& s : p.stages) {
    for (const LayerKindCount& k : s.kinds) {
      if (std::find(kinds.begin(), kinds.end(), k.kind) == kinds.end()) kinds.push_back(k.kind);
    }
  }
  if (kinds.size() < 2) return {};
  std::vector<Column> columns{{"rank"}};
  for (const std::string& kind : kinds) columns.push_back({kind});
  Table table(columns);
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    std::vector<std::string> row{std::to_string(i)};
    for (const std::string& kind : kinds) {
      std::int64_t layers = 0;
      for (const LayerKindCount& k : p.stages[i].kinds) layers += k.kind == kind ? k.layers : 0;
      row.push_back(std::to_string(layers));
    }
    table.add_row(row);
  }
  return "\nLayers by kind\n" + table.text(options);
}

std::string stage_table(const PlanCost& p, bool encoder, const TextOptions& options) {
  Table table({{"rank"},
               {"layers"},
               {"recomputed"},
               {"forward"},
               {"backward"},
               {"in flight"},
               {"parameters"},
               {"holds", Align::kLeft}});
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    const StageCost& s = p.stages[i];
    table.add_row({std::to_string(i), std::to_string(s.layers), std::to_string(s.recomputed_layers),
                   human_time(s.forward), human_time(s.backward), std::to_string(s.in_flight),
                   human_count(static_cast<double>(s.parameters)), held_by(s, encoder)});
  }
  return table.text(options) +
         paragraph("",
                   "forward, backward: one microbatch; in flight: microbatches per chunk at the "
                   "memory peak; parameters: held by one device",
                   options) +
         kinds_table(p, options);
}

std::string communication_table(const PlanCost& p, const ClusterSpec& c,
                                const TextOptions& options) {
  Table table({{"dim", Align::kLeft},
               {"operation", Align::kLeft},
               {"ranks"},
               {"level", Align::kLeft},
               {"size"},
               {"calls"},
               {"each"},
               {"exposed"}});
  for (const CommEntry& e : p.communication) {
    PLAN_CHECK(e.level < c.levels.size());
    table.add_row({std::string(name_of(e.dimension)), std::string(name_of(e.operation)),
                   with_thousands(e.group_size), c.levels[e.level].name, human_bytes(e.bytes),
                   calls(e.count_per_step), human_time(e.time_each), human_time(e.exposed)});
  }
  if (table.empty()) return paragraph("", "No communication.", options);
  return table.text(options) +
         paragraph("",
                   "calls: of one device in one step; exposed: what nothing hides, of all calls",
                   options);
}

std::string estimate_text(const ModelSpec& m, const ClusterSpec& c, const PlanCost& p,
                          const TextOptions& options) {
  std::string text = subject_text(m, c, p.strategy, options);
  text += strategy_line(p.strategy) + '\n';
  text += summary(c, p, options) + warnings_text(p, options);
  text += expert_load_text(m, c, p, options) + lengths_text(m, c, p, options) + '\n';
  text += time_table(p, options) + '\n';
  text += heading("Memory", options) + memory_table(p.stages, options) + '\n';
  text += heading("Memory ledger", options) +
          ledger_table(p.stages[p.fullest_stage].ledger, p.fullest_stage, options) + '\n';
  text +=
      heading("Pipeline ranks", options) + stage_table(p, m.encoder.has_value(), options) + '\n';
  text += heading("Communication", options) + communication_table(p, c, options) + '\n';
  text += paragraph("",
                    "MFU is the model's share of the devices' peak rate: with the scores that a "
                    "causal mask leaves, about half, as Megatron-LM counts today, and with "
                    "attention in full (non-causal), as PaLM and earlier Megatron-LM do. HFU "
                    "counts what recomputation repeats as well.",
                    options);
  return text;
}

std::string expert_load_text(const ModelSpec& m, const ClusterSpec& c, const PlanCost& p,
                             const TextOptions& options) {
  const std::optional<ExpertSpread> spread = expert_spread(m, c, p);
  if (!spread) return {};
  const RankLoad& load = spread->load;
  if (load.ranks == 1) {
    return labelled("Expert load", "every rank holds all experts: none waits for another", options);
  }
  return labelled("Expert load",
                  "the busiest of " + with_thousands(load.ranks) + " expert-parallel ranks gets " +
                      fixed(load.median, 2) + " times the mean load (median over placements), " +
                      fixed(load.p99, 2) + " times at the 99th percentile: a step of " +
                      human_time(spread->step_median) + ", of " + human_time(spread->step_p99) +
                      " if every layer were that unlucky; " + human_bytes(spread->peak_median) +
                      " of memory, " + human_bytes(spread->peak_p99) +
                      " then, which is what must fit",
                  options);
}

std::string infeasible_text(const Verdict& verdict, const TextOptions& options) {
  const Infeasible& i = verdict.infeasible();
  std::string text;
  for (const std::string& line : wrap_text(reason_text(i), options.width)) {
    text += emphasised(line, Emphasis::kBad, options) + '\n';
  }
  for (const std::string& message : i.messages) text += paragraph("- ", message, options);
  if (i.shortfall.count() > 0)
    text += paragraph("- ", human_bytes(i.shortfall) + " are missing", options);
  if (!i.remedies.empty()) {
    text += '\n' + std::string(i.reason == InfeasibleReason::kIllegal ? "What would make it legal"
                                                                      : "What would make it fit");
    text += ", cheapest first:\n";
  }
  for (std::size_t n = 0; n < i.remedies.size(); ++n) {
    text += paragraph("  " + std::to_string(n + 1) + ". ", i.remedies[n], options);
  }
  if (!verdict.stages.empty()) text += '\n' + memory_table(verdict.stages, options);
  return text;
}

}  // namespace meshplan
