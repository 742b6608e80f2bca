#include "cross_print.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/text.hpp"
#include "cost/uncertainty.hpp"
#include "text_table.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::ordered_json;

struct SourceErrors {
  std::string name;
  std::int64_t runs = 0;
  std::optional<ErrorStats> shipped;
  ErrorStats all_sources, left_out;
};

std::vector<double> errors_of(const std::vector<Prediction>& predictions, const std::string& name) {
  std::vector<double> errors;
  for (const Prediction& p : predictions) {
    if (p.source->name == name)
      errors.push_back(relative_error(p.cost.step_time.si(), p.run->step_time->si()));
  }
  return errors;
}

std::vector<SourceErrors> table_of(const CrossValidation& all, const Report& shipped) {
  std::vector<SourceErrors> rows;
  for (const Refit& refit : all.refits) {
    const std::vector<double> errors = errors_of(all.held_out, refit.left_out);
    if (errors.empty()) continue;
    SourceErrors row;
    row.name = refit.left_out;
    row.runs = static_cast<std::int64_t>(errors.size());
    row.left_out = error_stats(errors);
    row.all_sources = error_stats(errors_of(all.all_sources, refit.left_out));
    for (const SourceScore& source : shipped.sources) {
      if (source.name == refit.left_out) row.shipped = source.step_time;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

using Statistic = double ErrorStats::*;

std::optional<double> macro(const std::vector<SourceErrors>& rows, Statistic statistic,
                            ErrorStats SourceErrors::*part) {
  if (rows.empty()) return std::nullopt;
  double sum = 0;
  for (const SourceErrors& row : rows) sum += row.*part.*statistic;
  return sum / static_cast<double>(rows.size());
}

std::optional<double> macro_shipped(const std::vector<SourceErrors>& rows, Statistic statistic) {
  double sum = 0;
  for (const SourceErrors& row : rows) {
    if (!row.shipped) return std::nullopt;
    sum += (*row.shipped).*statistic;
  }
  if (rows.empty()) return std::nullopt;
  return sum / static_cast<double>(rows.size());
}

std::string percent(std::optional<double> fraction) {
  return fraction ? fixed(100 * *fraction, 1) : "-";
}

constexpr std::array kStatistics{&ErrorStats::bias, &ErrorStats::median_abs, &ErrorStats::p90_abs};

std::string errors_text(const std::vector<SourceErrors>& rows) {
  std::vector<Cells> cells{{"source", "runs", "shipped: bias %", "median %", "p90 %",
                            "chosen on all: bias %", "median %", "p90 %", "left out: bias %",
                            "median %", "p90 %"}};
  for (const SourceErrors& row : rows) {
    Cells line{row.name, std::to_string(row.runs)};
    for (const Statistic s : kStatistics)
      line.push_back(row.shipped ? percent((*row.shipped).*s) : "-");
    for (const Statistic s : kStatistics) line.push_back(percent(row.all_sources.*s));
    for (const Statistic s : kStatistics) line.push_back(percent(row.left_out.*s));
    cells.push_back(std::move(line));
  }
  Cells mean{"mean of " + std::to_string(rows.size()) + " sources", ""};
  for (const Statistic s : kStatistics) mean.push_back(percent(macro_shipped(rows, s)));
  for (const Statistic s : kStatistics)
    mean.push_back(percent(macro(rows, s, &SourceErrors::all_sources)));
  for (const Statistic s : kStatistics)
    mean.push_back(percent(macro(rows, s, &SourceErrors::left_out)));
  cells.push_back(std::move(mean));
  return aligned(cells);
}

// Three digits that count.
std::string short_number(double x) {
  if (x == 0) return "0";
  const double size = std::floor(std::log10(std::abs(x)));
  if (size < -4) return fixed(x * 1e6, std::max(0, 2 - static_cast<int>(size + 6))) + "e-6";
  return fixed(x, std::max(0, 2 - static_cast<int>(size)));
}

std::string constants_text(const CrossValidation& all,
                           const std::vector<FittedConstant>& constants) {
  std::vector<Cells> cells{{"constant", "uninformed", "shipped", "on all", "left out: lowest", "by",
                            "highest", "by", "unknown to the others"}};
  for (const FittedConstant& constant : constants) {
    std::string lowest_by, highest_by, unknown;
    double lowest = INFINITY, highest = -INFINITY, on_all = constant.uninformed;
    for (const Refit& refit : all.refits) {
      const auto found = refit.values.find(constant.name);
      if (found == refit.values.end()) continue;
      const double value = found->second;
      if (refit.left_out.empty()) {
        on_all = value;
        continue;
      }
      const auto& none = refit.undetermined;
      if (std::find(none.begin(), none.end(), constant.name) != none.end()) {
        unknown += (unknown.empty() ? "" : ", ") + refit.left_out;
        continue;
      }
      if (value < lowest) lowest = value, lowest_by = refit.left_out;
      if (value > highest) highest = value, highest_by = refit.left_out;
    }
    const auto shipped = all.shipped.find(constant.name);
    const bool some = std::isfinite(lowest);
    cells.push_back({constant.name, short_number(constant.uninformed),
                     shipped == all.shipped.end() ? "-" : short_number(shipped->second),
                     short_number(on_all), some ? short_number(lowest) : "-", lowest_by,
                     some ? short_number(highest) : "-", highest_by, unknown});
  }
  return aligned(cells);
}

json stats_json(const std::optional<ErrorStats>& stats) {
  if (!stats) return {};
  return {{"median_abs", stats->median_abs},
          {"mean_abs", stats->mean_abs},
          {"p90_abs", stats->p90_abs},
          {"bias", stats->bias}};
}

json intervals_json(const ErrorReport& errors) {
  json out{{"promised", 0.8}, {"coverage_macro", macro_coverage(errors.coverage)}};
  out["sources"] = json::object();
  for (const Coverage& c : errors.coverage)
    out["sources"][c.source] = {
        {"n", c.runs}, {"inside", c.inside}, {"median_width", c.median_width}};
  const auto bins = [](const std::vector<Reliability>& all) {
    json list = json::array();
    for (const Reliability& r : all)
      list.push_back({{"from", r.low},
                      {"to", r.high},
                      {"n", r.count},
                      {"said", r.said},
                      {"came_true", r.came}});
    return list;
  };
  out["order_reliability"] = bins(errors.order);
  out["memory_reliability"] = bins(errors.memory);
  return out;
}

json refit_json(const Refit& refit) {
  return {{"left_out", refit.left_out.empty() ? json() : json(refit.left_out)},
          {"values", refit.values},
          {"unknown_to_the_others", refit.undetermined}};
}

}  // namespace

std::string to_text(const CrossValidation& all, const std::vector<FittedConstant>& constants,
                    const Report& shipped) {
  return errors_text(table_of(all, shipped)) +
         "\nshipped: the constants of the device files and framework presets. chosen on all: the "
         "same\nconstants chosen anew from uninformed values, by one procedure, on all sources. "
         "left out: by the\nsame procedure on the other sources.\n\n" +
         constants_text(all, constants);
}

std::vector<std::string> not_as_chosen(const CrossValidation& all,
                                       const std::vector<FittedConstant>& constants) {
  constexpr double kRounding = 1.0 / 50;
  std::vector<std::string> differing;
  const std::map<std::string, double>& chosen = all.refits.back().values;
  for (const FittedConstant& c : constants) {
    const auto ships = all.shipped.find(c.name), should = chosen.find(c.name);
    if (ships == all.shipped.end() || should == chosen.end()) continue;
    if (std::abs(ships->second - should->second) > kRounding * (c.high - c.low))
      differing.push_back(c.name + " ships as " + short_number(ships->second) +
                          ", chosen: " + short_number(should->second));
  }
  return differing;
}

std::string to_json(const CrossValidation& all, const Report& shipped, const ErrorReport& errors) {
  json out{{"schema_version", 1}};
  const std::vector<SourceErrors> rows = table_of(all, shipped);
  const auto or_null = [](std::optional<double> x) { return x ? json(*x) : json(); };
  json macros;
  for (const auto& [name, statistic] :
       {std::pair{"median_abs", &ErrorStats::median_abs},
        std::pair{"mean_abs", &ErrorStats::mean_abs}, std::pair{"p90_abs", &ErrorStats::p90_abs}}) {
    macros["shipped"][name] = or_null(macro_shipped(rows, statistic));
    macros["all_sources"][name] = or_null(macro(rows, statistic, &SourceErrors::all_sources));
    macros["left_out"][name] = or_null(macro(rows, statistic, &SourceErrors::left_out));
  }
  out["macro"] = macros;
  out["sources"] = json::object();
  for (const SourceErrors& row : rows)
    out["sources"][row.name] = {{"n", row.runs},
                                {"shipped", stats_json(row.shipped)},
                                {"all_sources", stats_json(row.all_sources)},
                                {"left_out", stats_json(row.left_out)}};
  out["constants"] = json::array();
  for (const Refit& refit : all.refits) out["constants"].push_back(refit_json(refit));
  out["intervals"] = intervals_json(errors);
  out["runs"] = json::array();
  for (std::size_t i = 0; i < all.held_out.size(); ++i) {
    const Prediction& p = all.held_out[i];
    const StepTimeInterval& interval = errors.intervals[i];
    out["runs"].push_back({{"id", p.run->id},
                           {"source", p.source->name},
                           {"regime", std::string(name_of(regime_of(p.cost)))},
                           {"predicted_s", p.cost.step_time.si()},
                           {"measured_s", p.run->step_time->si()},
                           {"interval_s", {interval.low.si(), interval.high.si()}}});
  }
  return out.dump(1) + "\n";
}

}  // namespace meshplan::accuracy
