#include "report/comparison_html.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "compare/trace_dimensions.hpp"
#include "report/comparison_parts.hpp"
#include "report/table.hpp"

namespace meshplan {
namespace {

constexpr double kWidth = 960, kLane = 46, kLabel = 96;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

struct Colour {
  OpClass cls;
  std::string_view fill;
};
constexpr std::array kColours{
    Colour{OpClass::kProduct, "#2f6db3"},     Colour{OpClass::kAttention, "#6f4fa8"},
    Colour{OpClass::kNorm, "#3d9a8b"},        Colour{OpClass::kSoftmax, "#8a6d3b"},
    Colour{OpClass::kElementwise, "#7fb069"}, Colour{OpClass::kRouting, "#b5651d"},
    Colour{OpClass::kOptimizer, "#555555"},   Colour{OpClass::kCommunication, "#d1495b"},
    Colour{OpClass::kCopy, "#edae49"},        Colour{OpClass::kOther, "#aaaaaa"}};

std::string rectangle(double x, double y, double width, double height, std::string_view fill,
                      const std::string& title = {}) {
  if (!(width > 0) || !(height > 0)) return {};
  return "<rect x=\"" + fixed(x, 2) + "\" y=\"" + fixed(y, 2) + "\" width=\"" + fixed(width, 2) +
         "\" height=\"" + fixed(height, 2) + "\" fill=\"" + std::string(fill) + "\">" +
         (title.empty() ? "" : "<title>" + escaped(title) + "</title>") + "</rect>\n";
}

std::string label(double x, double y, const std::string& text, const char* anchor = "start") {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor +
         "\">" + escaped(text) + "</text>\n";
}

// Kernels in one lane, communication and copies in the next.
std::string measured_lanes(const StepPicture& p, double scale) {
  std::string svg;
  const double width = p.length.si() * scale / static_cast<double>(p.columns.size());
  for (std::size_t i = 0; i < p.columns.size(); ++i) {
    const double x = kLabel + width * static_cast<double>(i);
    double up = kLane, beside = 2 * kLane + 6;
    for (const Colour& colour : kColours) {
      const double share = p.columns[i][static_cast<std::size_t>(colour.cls)];
      if (share < 0.01) continue;
      const bool computes = colour.cls != OpClass::kCommunication && colour.cls != OpClass::kCopy;
      double& base = computes ? up : beside;
      const double floor = computes ? 0 : kLane + 6;
      const double height = std::min(share * kLane, base - floor);
      base -= height;
      svg += rectangle(x, base, width + 0.3, height, colour.fill);
    }
  }
  return svg;
}

std::string predicted_lane(const StepTimeline& t, std::int64_t rank, double top, double scale) {
  std::string svg;
  const auto span = [&](Seconds start, Seconds end, std::string_view fill, const char* what) {
    svg += rectangle(kLabel + start.si() * scale, top, (end - start).si() * scale, kLane, fill,
                     std::string(what) + ", " + human_time(end - start));
  };
  if (rank >= static_cast<std::int64_t>(t.ranks.size())) return svg;
  const RankTimeline& mine = t.ranks[static_cast<std::size_t>(rank)];
  for (const TimelineEntry& task : mine.tasks) {
    const bool forward = task.task.kind == TaskKind::kForward;
    span(task.start, task.end, forward ? "#9cc4ea" : "#2f6db3", forward ? "forward" : "backward");
  }
  span(mine.reduction.start, mine.reduction.end, "#d1495b", "gradient reduction");
  span(t.unpaired.start, t.unpaired.end, "#edae49", "first and last passes, alone");
  span(t.tied_embedding.start, t.tied_embedding.end, "#d1495b", "tied embedding");
  span(t.optimizer.start, t.optimizer.end, "#555555", "optimizer step");
  span(t.offload.start, t.offload.end, "#edae49", "offload");
  return svg;
}

std::string legend() {
  std::string html = "<p class=\"legend\">";
  for (const Colour& colour : kColours) {
    html += "<span><i style=\"background:" + std::string(colour.fill) + "\"></i>" +
            std::string(name_of(colour.cls)) + "</span> ";
  }
  return html + "<span>predicted: forward light, backward dark</span></p>\n";
}

std::string timeline_chart(const ComparedRun& run, const std::optional<StepTimeline>& timeline) {
  const bool drawn = run.trace && !run.trace->picture.columns.empty();
  const Seconds measured = drawn ? run.trace->picture.length : run.measured_step();
  const Seconds longest = std::max(measured, run.predicted.step_time);
  const double scale = (kWidth - kLabel - 8) / longest.si();
  const double predicted_top = 2 * kLane + 24;
  std::string svg = "<svg viewBox=\"0 0 " + fixed(kWidth, 0) + " " +
                    fixed(predicted_top + kLane + 30, 0) +
                    "\" role=\"img\" aria-label=\"the measured step above the predicted one\">\n";
  svg += label(0, 28, "measured") + label(0, predicted_top + 28, "predicted");
  if (drawn) {
    svg += label(0, kLane + 34, "comm., copies") + measured_lanes(run.trace->picture, scale);
  } else {
    svg += rectangle(kLabel, 0, measured.si() * scale, kLane, "#bbbbbb", "no trace");
  }
  std::int64_t rank = static_cast<std::int64_t>(run.predicted.last_stage);
  if (drawn) {
    rank = pipeline_rank_of(run.predicted.strategy, run.trace->devices[run.trace->shown].rank);
  }
  svg += timeline ? predicted_lane(*timeline, rank, predicted_top, scale)
                  : rectangle(kLabel, predicted_top, run.predicted.step_time.si() * scale, kLane,
                              "#bbbbbb", "too many passes to draw");
  const double foot = predicted_top + kLane + 18;
  svg += label(kLabel, foot, "0 s") + label(kWidth - 4, foot, human_time(longest), "end");
  return svg + "</svg>\n" + (drawn ? legend() : "");
}

struct Bar {
  std::string name;
  double change = 0;
};

// From the predicted step to the measured one, by the terms that both have; what they leave over is
// the last one.
std::string waterfall(const ComparedRun& run) {
  std::vector<Bar> bars;
  double rest = (run.measured_step() - run.predicted.step_time).si();
  const bool traced = std::any_of(run.terms.begin(), run.terms.end(), [](const ComparedTerm& t) {
    return t.term == StepTerm::kCompute && t.measured;
  });
  for (const ComparedTerm& term : run.terms) {
    // What a trace or the passes tell is not counted once more; the median step has no stalls.
    const bool passes = term.term == StepTerm::kForward || term.term == StepTerm::kBackward;
    const bool told = term.term == StepTerm::kForwardBackward || (passes && traced);
    if (!term.measured || told || term.term == StepTerm::kStalls) continue;
    const double predicted = term.predicted ? term.predicted->most.si() : 0;
    bars.push_back({std::string(name_of(term.term)), term.measured->most.si() - predicted});
    rest -= bars.back().change;
  }
  std::sort(bars.begin(), bars.end(),
            [](const Bar& a, const Bar& b) { return std::abs(a.change) > std::abs(b.change); });
  if (std::abs(rest) > 1e-6 * run.measured_step().si()) bars.push_back({"not told apart", rest});
  double low = 0, high = std::max(run.measured_step(), run.predicted.step_time).si();
  double at = run.predicted.step_time.si();
  for (const Bar& bar : bars) {
    at += bar.change;
    low = std::min(low, at), high = std::max(high, at);
  }
  const double row = 24, left = 150;
  const double scale = (kWidth - left - 110) / std::max(high - low, 1e-12);
  const auto x_of = [&](double value) { return left + (value - low) * scale; };
  double y = 4;
  std::string svg = "<svg viewBox=\"0 0 " + fixed(kWidth, 0) + " " +
                    fixed(row * static_cast<double>(bars.size() + 2) + 8, 0) +
                    "\" role=\"img\" aria-label=\"differences from predicted to measured\">\n";
  const auto add = [&](const std::string& name, double from, double to, std::string_view fill,
                       const std::string& value) {
    svg += label(0, y + 15, name);
    svg += rectangle(x_of(std::min(from, to)), y, std::max(std::abs(to - from) * scale, 1.0),
                     row - 6, fill);
    svg += label(x_of(std::max(from, to)) + 6, y + 15, value);
    y += row;
  };
  add("predicted step", 0, run.predicted.step_time.si(), "#9cc4ea",
      human_time(run.predicted.step_time));
  at = run.predicted.step_time.si();
  for (const Bar& bar : bars) {
    const std::string value =
        (bar.change < 0 ? "-" : "+") + human_time(Seconds{std::abs(bar.change)});
    add(bar.name, at, at + bar.change, bar.change < 0 ? "#3d9a8b" : "#d1495b", value);
    at += bar.change;
  }
  add("measured step", 0, run.measured_step().si(), "#2f6db3", human_time(run.measured_step()));
  return svg + "</svg>\n";
}

std::string run_html(const ComparedRun& run, const std::optional<StepTimeline>& timeline) {
  std::string html = "<section>\n<h2>" + escaped(run.file) + "</h2>\n<p>" +
                     escaped(run.model.name) + " on " + escaped(run.cluster.name) + ", " +
                     with_thousands(num_gpus(run.predicted.strategy)) + " GPUs; " +
                     escaped(short_text(run.predicted.strategy)) + ". Measured " +
                     human_time(run.measured_step()) + ", predicted " +
                     human_time(run.predicted.step_time) + " a step.</p>\n";
  html += "<h3>One step over time</h3>\n" + timeline_chart(run, timeline);
  html += "<h3>From predicted to measured</h3>\n" + waterfall(run);
  if (!run.losses.empty()) html += "<h3>Verdict</h3>\n<ol>\n";
  for (const TimeLoss& loss : run.losses) {
    html += "<li><b>" + human_time(loss.lost) + ": " + escaped(loss.what) + "</b> (" +
            escaped(loss.evidence) + "). " + escaped(loss.remedy) + ".";
    if (loss.gain) html += " Predicted gain " + human_time(*loss.gain) + " a step.";
    html += "</li>\n";
  }
  if (!run.losses.empty()) html += "</ol>\n";
  for (const std::string& note : run.notes) html += "<p class=\"note\">" + escaped(note) + "</p>\n";
  return html + "</section>\n";
}

}  // namespace

std::string comparison_html(std::span<const ComparedRun> runs,
                            std::span<const std::optional<StepTimeline>> timelines) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>meshplan: measured and predicted</title>\n<style>\n"
      "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 "
      "1rem;color:#222;background:#fff}svg{width:100%;height:auto;display:block}svg "
      "text{font:12px system-ui,sans-serif;fill:#444}.legend "
      "span{margin-right:.9rem;font-size:12px}"
      ".legend i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}.note{color:#666}"
      "\n</style></head><body>\n<h1>Measured and predicted</h1>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) html += run_html(runs[i], timelines[i]);
  return html + "</body></html>\n";
}

}  // namespace meshplan
