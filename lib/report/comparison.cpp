#include "report/comparison.hpp"

#include <array>
#include <cmath>

#include "base/text.hpp"
#include "report/calibration_parts.hpp"
#include "report/comparison_parts.hpp"
#include "report/estimate_text.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

struct TermWords {
  StepTerm term;
  std::string_view label;
};
constexpr std::array kWords{TermWords{StepTerm::kForward, "forward"},
                            TermWords{StepTerm::kBackward, "backward"},
                            TermWords{StepTerm::kForwardBackward, "forward and backward"},
                            TermWords{StepTerm::kCompute, "computation"},
                            TermWords{StepTerm::kOptimizer, "optimizer step"},
                            TermWords{StepTerm::kDataParallel, "data-parallel comm."},
                            TermWords{StepTerm::kTensorParallel, "tensor-parallel comm."},
                            TermWords{StepTerm::kContextParallel, "context-parallel comm."},
                            TermWords{StepTerm::kExpertParallel, "expert-parallel comm."},
                            TermWords{StepTerm::kPipeline, "pipeline comm."},
                            TermWords{StepTerm::kBubble, "pipeline bubble"},
                            TermWords{StepTerm::kPipelineWait, "pipeline comm. and bubble"},
                            TermWords{StepTerm::kLaunch, "launch and offload"},
                            TermWords{StepTerm::kCopies, "copies"},
                            TermWords{StepTerm::kDataLoading, "data loading"},
                            TermWords{StepTerm::kCheckpointing, "checkpointing"},
                            TermWords{StepTerm::kStalls, "stalls"}};

std::string range_text(const std::optional<TermTime>& t, const char* otherwise) {
  if (!t) return otherwise;
  const std::string most = human_time(t->most), least = human_time(t->least);
  return most == least ? most : least + " to " + most;
}

std::string difference_text(const ComparedTerm& term) {
  if (!term.measured || !term.predicted) return "";
  const Seconds more = term.measured->most - term.predicted->most;
  if (std::abs(more.si()) < 1e-6 * term.predicted->most.si()) return "0 s";
  return (more.si() < 0 ? "-" : "+") + human_time(Seconds{std::abs(more.si())});
}

double tokens_per_s(const ComparedRun& run, Seconds step) {
  return run.predicted.tokens_per_step / step.si();
}

std::string totals_text(const ComparedRun& run, const TextOptions& options) {
  Table table({{"", Align::kLeft}, {"measured"}, {"predicted"}, {"measured is"}});
  const Seconds measured = run.measured_step(), predicted = run.predicted.step_time;
  table.add_row({"step time", human_time(measured), human_time(predicted),
                 signed_percent(measured / predicted - 1)});
  if (run.predicted.like_runs.any()) {
    const Seconds expected = run.predicted.expected_time();
    table.add_row(
        {"by runs like it", "", human_time(expected), signed_percent(measured / expected - 1)});
  }
  const auto gpus = static_cast<double>(num_gpus(run.predicted.strategy));
  const double rate = tokens_per_s(run, measured), expected = tokens_per_s(run, predicted);
  table.add_row({"tokens/s", with_thousands(std::llround(rate)),
                 with_thousands(std::llround(expected)), signed_percent(rate / expected - 1)});
  table.add_row({"tokens/s/GPU", with_thousands(std::llround(rate / gpus)),
                 with_thousands(std::llround(expected / gpus)), ""});
  table.add_row({"MFU", human_percent(run.predicted.mfu_causal * (predicted / measured)),
                 human_percent(run.predicted.mfu_causal), ""});
  const MemoryBreakdown& memory = run.predicted.memory();
  const Bytes allocated = memory.allocated(), reserved = allocated + memory.fragmentation;
  if (run.allocated.count() > 0) {
    table.add_row({"allocated at most", human_bytes(run.allocated), human_bytes(allocated),
                   signed_percent(run.allocated.si() / allocated.si() - 1)});
  }
  if (run.reserved.count() > 0) {
    table.add_row({"reserved at most", human_bytes(run.reserved), human_bytes(reserved),
                   signed_percent(run.reserved.si() / reserved.si() - 1)});
  }
  return table.text(options);
}

std::string steps_text(const ComparedRun& run, const TextOptions& options) {
  const SteadySteps& s = *run.steps;
  std::string text = "median of " + with_thousands(s.reports) +
                     (s.reports == 1 ? " report" : " reports") + ", half of them within " +
                     human_percent(s.spread) + "; left out: " + with_thousands(s.warm_up) +
                     " of the warm-up";
  if (s.outliers > 0) {
    text += " and " + with_thousands(s.outliers) + " far slower, which cost " +
            human_time(s.stalls) + " a step in the mean";
  }
  return paragraph("Steps: ", text + ".", options);
}

std::string label_of(StepTerm term) {
  return std::string(kWords[static_cast<std::size_t>(term)].label);
}

std::string terms_text(const ComparedRun& run, const TextOptions& options) {
  Table table({{"a step's", Align::kLeft}, {"measured"}, {"predicted"}, {"difference"}});
  std::string sources;
  for (const ComparedTerm& term : run.terms) {
    table.add_row({label_of(term.term), range_text(term.measured, "-"),
                   range_text(term.predicted, "not modelled"), difference_text(term)});
    if (!term.measured) continue;
    sources += (sources.empty() ? "" : "; ") + label_of(term.term) + ": " + term.source;
  }
  return table.text(options) +
         (sources.empty() ? "" : "\n" + paragraph("Measured by: ", sources + ".", options));
}

std::string run_text(const ComparedRun& run, const TextOptions& options) {
  const Strategy& s = run.predicted.strategy;
  const std::string what = run.framework.empty() ? "a trace" : "a log of " + run.framework;
  std::string text = subject_text(run.model, run.cluster, s, options) + strategy_line(s) + '\n' +
                     paragraph("Model and strategy: ", run.read_from, options) + '\n' +
                     emphasised(run.file + ", " + what, Emphasis::kHeading, options) + "\n\n" +
                     totals_text(run, options) + '\n';
  if (run.steps) text += steps_text(run, options) + '\n';
  text += terms_text(run, options);
  if (run.memory) text += '\n' + memory_text(*run.memory, run.predicted, options);
  if (run.trace) text += '\n' + trace_text(*run.trace, options);
  const bool traced = run.trace && !run.trace->classes.empty();
  if (traced || !run.losses.empty()) text += '\n' + losses_text(run.losses, options);
  if (!run.notes.empty()) text += '\n';
  for (const std::string& note : run.notes) text += paragraph("Note: ", note, options);
  return text;
}

Json measured_and_predicted(double measured, double predicted) {
  return {{"measured", number(measured)}, {"predicted", number(predicted)}};
}

Json term_json(const ComparedTerm& term) {
  Json json{{"term", name_of(term.term)}};
  if (term.measured) {
    json["measured_s"] = number(term.measured->most.si());
    json["measured_least_s"] = number(term.measured->least.si());
    json["source"] = term.source;
  }
  if (term.predicted) {
    json["predicted_s"] = number(term.predicted->most.si());
    json["predicted_least_s"] = number(term.predicted->least.si());
  }
  return json;
}

Json run_json(const ComparedRun& run) {
  const Seconds measured = run.measured_step(), predicted = run.predicted.step_time;
  const MemoryBreakdown& memory = run.predicted.memory();
  Json json{{"file", run.file}};
  if (!run.framework.empty()) json["framework"] = run.framework;
  json.update({{"read_from", run.read_from},
               {"model", model_json(run.model)},
               {"cluster", cluster_json(run.cluster)},
               {"strategy", strategy_json(run.predicted.strategy)}});
  if (run.steps) {
    json.update({{"reports", run.steps->reports},
                 {"warm_up_reports", run.steps->warm_up},
                 {"outliers", run.steps->outliers},
                 {"spread", number(run.steps->spread)}});
  }
  json.update({{"step_time_s", measured_and_predicted(measured.si(), predicted.si())},
               {"tokens_per_s", measured_and_predicted(tokens_per_s(run, measured),
                                                       tokens_per_s(run, predicted))}});
  if (run.predicted.like_runs.any()) json["like_runs"] = like_runs_json(run.predicted);
  if (run.allocated.count() > 0) {
    json["allocated_bytes"] = measured_and_predicted(run.allocated.si(), memory.allocated().si());
  }
  if (run.reserved.count() > 0) {
    json["reserved_bytes"] =
        measured_and_predicted(run.reserved.si(), (memory.allocated() + memory.fragmentation).si());
  }
  json["terms"] = Json::array();
  for (const ComparedTerm& term : run.terms) json["terms"].push_back(term_json(term));
  if (run.memory) json["memory"] = memory_measure_json(*run.memory, run.predicted);
  if (run.trace) json["trace"] = trace_json(*run.trace);
  json["losses"] = losses_json(run.losses);
  json["notes"] = run.notes;
  return json;
}

}  // namespace

std::string comparison_text(std::span<const ComparedRun> runs,
                            std::span<const CalibrationParameter> learnt,
                            const TextOptions& options) {
  std::string text;
  for (const ComparedRun& run : runs) text += (text.empty() ? "" : "\n") + run_text(run, options);
  if (!learnt.empty()) {
    text += "\n" + emphasised("What the profile learnt", Emphasis::kHeading, options) + "\n\n" +
            parameters_text(learnt, options);
  }
  return text;
}

std::string comparison_document(const ToolInfo& tool, std::span<const ComparedRun> runs,
                                std::span<const CalibrationParameter> learnt) {
  Json json = document(tool);
  json["runs"] = Json::array();
  for (const ComparedRun& run : runs) json["runs"].push_back(run_json(run));
  for (const CalibrationParameter& p : learnt) json["learnt"].push_back(parameter_json(p));
  return document_text(json);
}

}  // namespace meshplan
