#include <algorithm>

#include "base/text.hpp"
#include "report/fit_json.hpp"

namespace meshplan {

std::string numbers_text(std::span<const BenchProfileReport::Number> numbers,
                         const TextOptions& options) {
  Table table({{"number", Align::kLeft},
               {"before"},
               {"after"},
               {"samples"},
               {"residual"},
               {"held out"},
               {"p90"}});
  for (const BenchProfileReport::Number& n : numbers) {
    const bool held_out = n.errors.held_out_p90 > 0;
    table.add_row({n.key, n.before, n.after, std::to_string(n.errors.samples),
                   human_percent(n.errors.residual_median),
                   held_out ? human_percent(n.errors.held_out_median) : "-",
                   held_out ? human_percent(n.errors.held_out_p90) : "-"});
  }
  return table.text(options);
}

std::string comparison_text(std::span<const BenchProfileReport::Compared> rows,
                            const TextOptions& options) {
  Table table({{"operation", Align::kLeft},
               {"ranks"},
               {"nodes"},
               {"size"},
               {"log"},
               {"profile"},
               {"ratio"},
               {"from", Align::kLeft}});
  std::vector<double> ratios;
  for (const BenchProfileReport::Compared& row : rows) {
    ratios.push_back(row.predicted / row.log);
    table.add_row({std::string(name_of(row.operation)), std::to_string(row.ranks),
                   std::to_string(row.nodes), human_bytes(row.bytes), human_time(row.log),
                   human_time(row.predicted), fixed(ratios.back(), 2),
                   row.measured ? "measured curve" : "model"});
  }
  if (ratios.empty()) return table.text(options);
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return table.text(options) +
         paragraph("",
                   "The profile's times over the log's: " + fixed(*middle, 2) + " in the middle.",
                   options);
}

Json bench_profile_json(const BenchProfileReport& report) {
  Json json{{"fits", Json::array()},
            {"numbers", Json::array()},
            {"comparison", Json::array()},
            {"warnings", report.warnings},
            {"facts", report.facts}};
  if (!report.file.empty()) json["file"] = report.file;
  if (!report.device_file.empty()) json["device_file"] = report.device_file;
  for (const CollectiveFit& fit : report.fits) json["fits"].push_back(fit_json(fit));
  for (const BenchProfileReport::Number& n : report.numbers) {
    json["numbers"].push_back({{"key", n.key},
                               {"before", n.before},
                               {"after", n.after},
                               {"errors", errors_json(n.errors)}});
  }
  for (const BenchProfileReport::Compared& row : report.compared) {
    json["comparison"].push_back({{"operation", std::string(name_of(row.operation))},
                                  {"ranks", row.ranks},
                                  {"nodes", row.nodes},
                                  {"bytes", row.bytes.count()},
                                  {"log_s", number(row.log.si())},
                                  {"profile_s", number(row.predicted.si())},
                                  {"ratio", number(row.predicted / row.log)},
                                  {"from_measured_curve", row.measured}});
  }
  return json;
}

}  // namespace meshplan
