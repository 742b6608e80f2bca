#include "html.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.hpp"

namespace meshplan::accuracy {
namespace {

constexpr double kSize = 640, kMargin = 76;  // of the plot, in pixels

constexpr std::string_view kStyle =
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;"
    "color:#222;background:#fff}.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}th:first-child,td:first-child{text-align:left}svg{max-width:"
    "100%;height:auto}.key{display:inline-block;width:.8em;height:.8em;border-radius:50%;"
    "margin-right:.4em}tr[tabindex]{cursor:default}@media(prefers-color-scheme:dark){body{color:"
    "#ddd;background:#181818}th,td{border-color:#444}}";

// Colours spread by the golden angle: neighbouring sources differ.
std::string colour(std::size_t i) {
  constexpr double kGoldenAngle = 360 * (2 - std::numbers::phi_v<double>);
  const double hue = std::fmod(static_cast<double>(i) * kGoldenAngle, 360);
  return "hsl(" + fixed(hue, 0) + ",65%,45%)";
}

// Whole decades around all times.
struct Axis {
  double low = 0, high = 1;  // log10 of seconds

  [[nodiscard]] double at(double seconds) const {
    return kMargin + (std::log10(seconds) - low) / (high - low) * (kSize - 2 * kMargin);
  }
};

Axis axis_of(const Report& report) {
  double least = 1, most = 1;
  bool any = false;
  for (const SourceScore& source : report.sources) {
    for (const ScoredRun& run : source.runs) {
      for (const double t : {run.measured_s, run.prediction->cost.step_time.si()}) {
        least = any ? std::min(least, t) : t;
        most = any ? std::max(most, t) : t;
        any = true;
      }
    }
  }
  const Axis axis{std::floor(std::log10(least)), std::ceil(std::log10(most))};
  return axis.high > axis.low ? axis : Axis{axis.low, axis.low + 1};
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1='" + fixed(x1, 1) + "' y1='" + fixed(kSize - y1, 1) + "' x2='" + fixed(x2, 1) +
         "' y2='" + fixed(kSize - y2, 1) + "' " + std::string(style) + "/>";
}

std::string label(double x, double y, std::string_view anchor, const std::string& text) {
  return "<text x='" + fixed(x, 1) + "' y='" + fixed(kSize - y, 1) + "' text-anchor='" +
         std::string(anchor) + "' font-size='12' fill='currentColor'>" + text + "</text>";
}

// Whole seconds stay seconds: decades are read against each other.
std::string decade_name(double decade) {
  const double seconds = std::pow(10, decade);
  return decade >= 0 ? with_thousands(std::llround(seconds)) + " s" : human_time(Seconds{seconds});
}

std::string grid(const Axis& axis) {
  std::string svg;
  const double far = kSize - kMargin;
  for (double decade = axis.low; decade <= axis.high; decade += 1) {
    const double at = axis.at(std::pow(10, decade));
    const std::string name = decade_name(decade);
    svg +=
        line(at, kMargin, at, far, "stroke='#8884'") + line(kMargin, at, far, at, "stroke='#8884'");
    svg += label(at, kMargin - 18, "middle", name) + label(kMargin - 6, at - 4, "end", name);
  }
  svg += line(kMargin, kMargin, far, far, "stroke='currentColor'");
  // Ten per cent either way.
  const double shift = std::log10(1.1) / (axis.high - axis.low) * (kSize - 2 * kMargin);
  svg += line(kMargin, kMargin + shift, far - shift, far, "stroke='#888' stroke-dasharray='4 4'");
  svg += line(kMargin + shift, kMargin, far, far - shift, "stroke='#888' stroke-dasharray='4 4'");
  svg += label(kSize / 2, 14, "middle", "measured step time");
  svg += "<text transform='translate(14 " + fixed(kSize / 2, 0) +
         ") rotate(-90)' text-anchor='middle' font-size='12' fill='currentColor'>"
         "predicted step time</text>";
  return svg;
}

// While a source's row is pointed at or has the focus, the runs of the others fade.
std::string one_source_rules(const Report& report) {
  std::string css;
  for (std::size_t i = 0; i < report.sources.size(); ++i) {
    const std::string id = "#s" + std::to_string(i);
    css += "body:has(" + id + ":hover," + id + ":focus) g:not(.s" + std::to_string(i) +
           "){opacity:.07}";
  }
  return css;
}

std::string scatter(const Report& report) {
  const Axis axis = axis_of(report);
  std::string svg = "<svg viewBox='0 0 " + fixed(kSize, 0) + " " + fixed(kSize, 0) + "' width='" +
                    fixed(kSize, 0) +
                    "' role='img' aria-label='predicted against "
                    "measured step time'>" +
                    grid(axis);
  for (std::size_t i = 0; i < report.sources.size(); ++i) {
    svg += "<g class='s" + std::to_string(i) + "' fill='" + colour(i) + "' fill-opacity='.6'>";
    for (const ScoredRun& run : report.sources[i].runs) {
      const double predicted = run.prediction->cost.step_time.si();
      svg += "<circle r='3' cx='" + fixed(axis.at(run.measured_s), 1) + "' cy='" +
             fixed(kSize - axis.at(predicted), 1) + "'><title>" +
             escape_html(run.prediction->run->id) + ": " + human_percent(run.error) +
             "</title></circle>";
    }
    svg += "</g>";
  }
  return svg + "</svg>";
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

std::string stats_cells(const std::optional<ErrorStats>& stats) {
  if (!stats) return cell("") + cell("") + cell("") + cell("");
  return cell(human_percent(stats->bias)) + cell(human_percent(stats->median_abs)) +
         cell(human_percent(stats->mean_abs)) + cell(human_percent(stats->p90_abs));
}

std::string source_table(const Report& report) {
  std::string html =
      "<div class='wide'><table><tr><th>source<th>runs<th>bias<th>median<th>mean<th>90th "
      "percentile<th>memory, "
      "median<th>regret, mean<th>Kendall tau</tr>";
  for (std::size_t i = 0; i < report.sources.size(); ++i) {
    const SourceScore& s = report.sources[i];
    html += "<tr id='s" + std::to_string(i) +
            "' tabindex='0'><td><span class='key' style='background:" + colour(i) + "'></span>" +
            escape_html(s.name) + "</td>" + cell(std::to_string(s.runs.size())) +
            stats_cells(s.step_time) + cell(s.memory ? human_percent(s.memory->median_abs) : "") +
            cell(s.choice ? human_percent(s.choice->regret_mean) : "") +
            cell(s.choice && s.choice->kendall_tau ? fixed(*s.choice->kendall_tau, 2) : "") +
            "</tr>";
  }
  const Macro& m = report.macro;
  html += "<tr><th>mean of sources</th><th></th>" + stats_cells(m.step_time) +
          cell(m.memory ? human_percent(m.memory->median_abs) : "") +
          cell(m.regret_mean ? human_percent(*m.regret_mean) : "") +
          cell(m.kendall_tau ? fixed(*m.kendall_tau, 2) : "") + "</tr>";
  return html + "</table></div>";
}

std::string run_table(const Report& report) {
  std::string html =
      "<details><summary>every run</summary><div "
      "class='wide'><table><tr><th>run<th>measured<th>predicted<th>error"
      "<th>memory error</tr>";
  for (const SourceScore& source : report.sources) {
    for (const ScoredRun& run : source.runs) {
      html += "<tr>" + cell(escape_html(run.prediction->run->id)) +
              cell(human_time(Seconds{run.measured_s})) +
              cell(human_time(run.prediction->cost.step_time)) + cell(human_percent(run.error)) +
              cell(run.memory_error ? human_percent(*run.memory_error) : "") + "</tr>";
    }
  }
  return html + "</table></div></details>";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string to_html(const Report& report) {
  std::string html =
      "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,initial-scale=1'><meta name='color-scheme' content='light "
      "dark'><title>meshplan: predicted against measured</title><style>" +
      std::string(kStyle) + one_source_rules(report) +
      "</style><h1>Predicted against measured</h1><p>Every point is a published "
      "training run; dashed lines are ten per cent off. Errors are predicted / "
      "measured - 1. Point at a source in the table to see its runs alone.</p>";
  html += scatter(report) + source_table(report);
  if (!report.skipped.empty())
    html += "<p>" + std::to_string(report.skipped.size()) +
            " runs were skipped for a stated reason (see the JSON report).</p>";
  return html + run_table(report) + "</html>\n";
}

}  // namespace meshplan::accuracy
