#include "report/calibration.hpp"

#include "base/text.hpp"
#include "report/calibration_parts.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

std::string value_text(const CalibrationParameter& p, double value) {
  return p.unit == "s" ? human_time(Seconds{value}) : fixed(value, 3);
}

std::string runs_text(const Calibration& c, const TextOptions& options) {
  Table table({{"log", Align::kLeft, true},
               {"measured"},
               {"before"},
               {"error"},
               {"after"},
               {"error"},
               {"left out"}});
  for (const CalibrationRun& run : c.runs) {
    table.add_row({run.file, human_time(run.measured), human_time(run.before),
                   signed_percent(run.before / run.measured - 1), human_time(run.after),
                   signed_percent(run.after / run.measured - 1),
                   run.leave_one_out ? signed_percent(*run.leave_one_out) : "-"});
  }
  return table.text(options);
}

// What the logs say of memory: no parameter follows from it, but a difference is worth seeing.
std::string memory_text(const Calibration& c, const TextOptions& options) {
  Table table({{"log", Align::kLeft, true},
               {"allocated"},
               {"predicted"},
               {"error"},
               {"reserved"},
               {"predicted"}});
  for (const CalibrationRun& run : c.runs) {
    const bool allocated = run.allocated.count() > 0, reserved = run.reserved.count() > 0;
    if (!allocated && !reserved) continue;
    table.add_row(
        {run.file, allocated ? human_bytes(run.allocated) : "-",
         human_bytes(run.allocated_predicted),
         allocated ? signed_percent(run.allocated_predicted.si() / run.allocated.si() - 1) : "-",
         reserved ? human_bytes(run.reserved) : "-", human_bytes(run.reserved_predicted)});
  }
  return table.empty() ? std::string() : "\n" + table.text(options);
}

Json run_json(const CalibrationRun& run) {
  Json json{{"file", run.file},
            {"framework", run.framework},
            {"strategy", strategy_json(run.strategy)},
            {"measured_step_time_s", number(run.measured.si())},
            {"spread", number(run.spread)},
            {"reports", run.reports},
            {"predicted_before_s", number(run.before.si())},
            {"predicted_after_s", number(run.after.si())},
            {"allocated_predicted_bytes", run.allocated_predicted.count()},
            {"reserved_predicted_bytes", run.reserved_predicted.count()}};
  if (run.leave_one_out) json["leave_one_out_error"] = number(*run.leave_one_out);
  if (run.allocated.count() > 0) json["allocated_bytes"] = run.allocated.count();
  if (run.reserved.count() > 0) json["reserved_bytes"] = run.reserved.count();
  return json;
}

}  // namespace

std::string parameters_text(std::span<const CalibrationParameter> parameters,
                            const TextOptions& options) {
  Table table({{"parameter", Align::kLeft},
               {"before"},
               {"after"},
               {"deviation"},
               {"not fitted because", Align::kLeft, true}});
  for (const CalibrationParameter& p : parameters) {
    table.add_row({p.name, value_text(p, p.before), p.fitted ? value_text(p, p.after) : "-",
                   p.fitted ? human_percent(p.deviation) : "-", p.reason});
  }
  return table.text(options);
}

Json parameter_json(const CalibrationParameter& p) {
  Json json{{"name", p.name},
            {"unit", p.unit.empty() ? "1" : p.unit},
            {"before", number(p.before)},
            {"after", number(p.after)},
            {"fitted", p.fitted}};
  if (p.fitted) json["deviation"] = number(p.deviation);
  if (!p.fitted) json["reason"] = p.reason;
  return json;
}

std::string calibration_text(const Calibration& c, const TextOptions& options) {
  std::string text = runs_text(c, options) + "\n" + parameters_text(c.parameters, options);
  text += memory_text(c, options) + "\n";
  std::string summary = "Median error " + human_percent(c.error_before) + " before the fit, " +
                        human_percent(c.error_after) + " after it";
  summary += c.leave_one_out ? ", " + human_percent(*c.leave_one_out) +
                                   " on runs that the fit was kept from: expect this on a new run."
                             : ". With one run there is nothing to judge the fit by.";
  return text + paragraph("", summary, options);
}

std::string calibration_document(const ToolInfo& tool, const Calibration& c, const ModelSpec& m,
                                 const ClusterSpec& fitted) {
  Json json = document(tool);
  json.update({{"model", model_json(m)},
               {"cluster", cluster_json(fitted)},
               {"runs", Json::array()},
               {"parameters", Json::array()},
               {"median_error_before", number(c.error_before)},
               {"median_error_after", number(c.error_after)}});
  if (c.leave_one_out) json["median_leave_one_out_error"] = number(*c.leave_one_out);
  for (const CalibrationRun& run : c.runs) json["runs"].push_back(run_json(run));
  for (const CalibrationParameter& p : c.parameters) {
    json["parameters"].push_back(parameter_json(p));
  }
  return document_text(json);
}

}  // namespace meshplan
