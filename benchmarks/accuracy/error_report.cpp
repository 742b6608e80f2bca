#include "error_report.hpp"

#include <cmath>

#include "base/text.hpp"
#include "cost/uncertainty.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

std::string percent(double fraction) { return fixed(100 * fraction, 1); }

std::string coverage_text(const std::vector<Coverage>& coverage) {
  std::vector<Cells> cells{{"source", "runs", "inside %", "median width %"}};
  double width = 0;
  for (const Coverage& c : coverage) {
    cells.push_back({c.source, std::to_string(c.runs), percent(c.inside), percent(c.median_width)});
    width += c.median_width / static_cast<double>(coverage.size());
  }
  cells.push_back({"mean of " + std::to_string(coverage.size()) + " sources", "",
                   percent(macro_coverage(coverage)), percent(width)});
  return "\nInterval of the step time that promises 80 %, made from the other sources' errors:\n" +
         aligned(cells);
}

std::string bands_text(const MeasuredErrors& table) {
  std::vector<Cells> cells{{"regime", "sources", "runs", "low %", "centre %", "high %"}};
  const auto change = [](double log_ratio) { return percent(std::exp(log_ratio) - 1); };
  for (std::size_t g = 0; g < kNumRegimes; ++g) {
    const ErrorBand& band = table.step_time[g];
    cells.push_back({std::string(name_of(static_cast<Regime>(g))), std::to_string(band.sources),
                     std::to_string(band.runs), change(band.centre - band.below),
                     change(band.centre), change(band.centre + band.above)});
  }
  return "\nMeasured over predicted that ships, by regime (the interval also holds the "
         "prediction):\n" +
         aligned(cells) + "wider by " + fixed(table.unseen_device, 2) +
         " on a device that no source ran on, by " + fixed(table.unseen_framework, 2) +
         " with a framework that none used\n";
}

std::string reliability_text(const std::string& title, const std::vector<Reliability>& bins) {
  std::vector<Cells> cells{{"said %", "cases", "mean said %", "came true %"}};
  for (const Reliability& bin : bins) {
    if (bin.count == 0) continue;
    cells.push_back({percent(bin.low) + " to " + percent(bin.high), std::to_string(bin.count),
                     percent(bin.said), percent(bin.came)});
  }
  return "\n" + title + "\n" + aligned(cells);
}

}  // namespace

ErrorReport error_report(const CrossValidation& all, const Report& shipped,
                         const std::vector<Prediction>& predictions,
                         const std::vector<Prediction>& unfitted) {
  Residuals residuals = residuals_of(all.held_out, predictions);
  add_unfitted(residuals, unfitted);
  ErrorReport report;
  report.table = measured_errors(residuals);
  report.coverage = coverage_of(residuals);
  std::vector<MeasuredErrors> without;
  for (std::size_t s = 0; s < residuals.sources.size(); ++s)
    without.push_back(measured_errors(residuals, s));
  for (std::size_t i = 0; i < all.held_out.size(); ++i) {
    const TimeResidual& r = residuals.time[i];
    report.intervals.push_back(
        interval_around(all.held_out[i].cost.step_time, band_for(r, without[r.source])));
  }
  report.order = order_reliability(residuals);
  report.memory = memory_reliability(predictions, residuals);
  for (const std::string& name : residuals.sources) {
    SourceError error{name, 0, 0};
    for (const SourceScore& source : shipped.sources) {
      if (source.name == name && source.step_time) error.shipped = source.step_time->median_abs;
    }
    std::vector<double> errors;
    for (const Prediction& p : all.held_out) {
      if (p.source->name == name)
        errors.push_back(std::abs(relative_error(p.cost.step_time.si(), p.run->step_time->si())));
    }
    if (errors.empty()) continue;  // chose no constant
    error.left_out = median(std::move(errors));
    report.table.sources.push_back(std::move(error));
  }
  return report;
}

double macro_coverage(const std::vector<Coverage>& coverage) {
  double sum = 0;
  for (const Coverage& c : coverage) sum += c.inside / static_cast<double>(coverage.size());
  return sum;
}

std::string to_text(const ErrorReport& report) {
  return coverage_text(report.coverage) + bands_text(report.table) +
         reliability_text(
             "Order of two plans of a sweep, by the other sources' errors (means over sources):",
             report.order) +
         reliability_text(
             "Out of memory, over the sources that publish runs of both kinds, by the other "
             "sources' errors:",
             report.memory);
}

}  // namespace meshplan::accuracy
