#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "report/comparison_parts.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kShownProducts = 12, kShownRanks = 16;

std::string plain_count(double n) {
  return n >= 10 || n == std::floor(n) ? with_thousands(std::llround(n)) : fixed(n, 1);
}

std::string time_or(const OpTime& t, const char* otherwise) {
  return t.count > 0 || t.time.si() > 0 ? human_time(t.time) : otherwise;
}

std::string difference(Seconds measured, Seconds predicted) {
  const Seconds more = measured - predicted;
  return (more.si() < 0 ? "-" : "+") + human_time(Seconds{std::abs(more.si())});
}

std::string rank_name(const DeviceMeasure& d) {
  return d.rank >= 0 ? std::to_string(d.rank) : printable(d.file);
}

// Forward and backward in one cell, "-" where neither is told.
std::string both_ways(const OpTime& forward, const OpTime& backward) {
  if (!(forward.count > 0) && !(backward.count > 0)) return "-";
  return time_or(forward, "-") + " / " + time_or(backward, "-");
}

std::string classes_text(const TraceComparison& t, const TextOptions& options) {
  const bool told = std::any_of(t.classes.begin(), t.classes.end(), [](const ComparedClass& c) {
    return c.measured_forward.count > 0 && c.measured_backward.count > 0;
  });
  Table table({{"kernels of a step", Align::kLeft},
               {"count"},
               {"predicted"},
               {"measured"},
               {"predicted"},
               {"difference"}});
  Table ways({{"forward / backward", Align::kLeft}, {"measured"}, {"predicted"}});
  for (const ComparedClass& c : t.classes) {
    if (c.cls == OpClass::kCommunication) continue;
    table.add_row({std::string(name_of(c.cls)), plain_count(c.measured.count),
                   c.predicted.count > 0 ? plain_count(c.predicted.count) : "-",
                   time_or(c.measured, "-"), time_or(c.predicted, "-"),
                   difference(c.measured.time, c.predicted.time)});
    const bool some = c.measured_forward.count > 0 || c.measured_backward.count > 0;
    if (!some || c.cls == OpClass::kOptimizer || c.cls == OpClass::kCopy) continue;
    ways.add_row({std::string(name_of(c.cls)), both_ways(c.measured_forward, c.measured_backward),
                  both_ways(c.predicted_forward, c.predicted_backward)});
  }
  return table.text(options) + (told ? "\n" + ways.text(options) : "");
}

std::string direction_name(Direction d) {
  return d == Direction::kForward ? "forward" : "backward";
}

// Which of them takes more than a tenth longer than the middle one.
std::string stands_out(const char* what, const std::string& direction,
                       const std::vector<Seconds>& all) {
  std::vector<Seconds> told = all;
  std::erase(told, Seconds{});
  if (told.size() < 3) return {};
  std::sort(told.begin(), told.end());
  const Seconds middle = told[told.size() / 2], most = told.back();
  if (!(most > middle * 1.1)) return {};
  const auto at = std::find(all.begin(), all.end(), most) - all.begin();
  return "The " + direction + " pass of " + what + " " + std::to_string(at + 1) + " of " +
         std::to_string(all.size()) + " computes " + fixed(most / middle, 2) +
         " times as long as the middle one's.";
}

std::string passes_text(const TraceComparison& t, const TextOptions& options) {
  Table table({{"one layer, one microbatch", Align::kLeft},
               {"passes"},
               {"median"},
               {"slowest"},
               {"predicted"},
               {"with gaps"}});
  std::vector<std::string> said;
  for (const ComparedPasses& p : t.passes) {
    const LayerPasses& m = p.measured;
    const std::string name = direction_name(m.direction);
    table.add_row({name, with_thousands(m.count), human_time(m.median), human_time(m.slowest),
                   human_time(p.predicted), human_time(m.elapsed)});
    said.push_back(stands_out("layer", name, m.layers));
    said.push_back(stands_out("microbatch", name, m.microbatches));
  }
  if (table.empty()) return {};
  std::string text = "\n" + table.text(options);
  for (const std::string& line : said) {
    if (!line.empty()) text += paragraph("", line, options);
  }
  return text;
}

std::string products_text(const TraceComparison& t, const TextOptions& options) {
  Table table({{"products", Align::kLeft, true},
               {"sizes", Align::kLeft},
               {"count"},
               {"predicted"},
               {"measured"},
               {"predicted"}});
  for (const ComparedProduct& p : t.products) {
    if (&p - t.products.data() >= static_cast<std::ptrdiff_t>(kShownProducts)) break;
    if (!(p.measured.count > 0)) continue;
    const ProductShape& s = p.shape;
    const std::string sizes =
        std::to_string(s.m) + " " + std::to_string(s.n) + " " + std::to_string(s.k);
    table.add_row({p.name.empty() ? "-" : p.name,
                   s.count > 1 ? std::to_string(s.count) + " of " + sizes : sizes,
                   plain_count(p.measured.count),
                   p.predicted.count > 0 ? plain_count(p.predicted.count) : "-",
                   time_or(p.measured, "-"), time_or(p.predicted, "-")});
  }
  return table.empty() ? std::string() : "\n" + table.text(options);
}

std::string communication_text(const TraceComparison& t, const TextOptions& options) {
  Table table(
      {{"communication", Align::kLeft}, {"measured"}, {"predicted"}, {"exposed"}, {"predicted"}});
  for (const ComparedComm& c : t.communication) {
    if (!(c.measured.time.si() > 0) && !(c.predicted.time.si() > 0)) continue;
    table.add_row({c.dimension ? std::string(name_of(*c.dimension)) : "not known",
                   time_or(c.measured, "-"), time_or(c.predicted, "-"),
                   human_time(c.measured_exposed), human_time(c.predicted_exposed)});
  }
  return table.empty() ? std::string() : "\n" + table.text(options);
}

std::string ranks_text(const TraceComparison& t, const TextOptions& options) {
  if (t.devices.size() < 2 || t.classes.empty()) return {};
  Table table({{"rank", Align::kLeft, true},
               {"step"},
               {"computing"},
               {"products"},
               {"exposed comm."},
               {"idle"}});
  for (std::size_t i = 0; i < std::min(t.devices.size(), kShownRanks); ++i) {
    const DeviceMeasure& d = t.devices[i];
    Seconds exposed;
    for (const CommTime& c : d.communication) exposed += c.exposed;
    table.add_row({rank_name(d), human_time(d.step), human_time(d.computing),
                   human_time(d.of(OpClass::kProduct).time), human_time(exposed),
                   human_time(d.waiting + d.loading + d.copying)});
  }
  std::string text = "\n" + table.text(options);
  if (t.devices.size() > kShownRanks) {
    text += "and " + with_thousands(static_cast<std::int64_t>(t.devices.size() - kShownRanks)) +
            " more ranks (--json lists them)\n";
  }
  return text;
}

Json optime_json(const OpTime& t) {
  return {{"time_s", number(t.time.si())}, {"count", number(t.count)}};
}

Json device_json(const DeviceMeasure& d) {
  Json json{{"file", d.file}};
  if (d.rank >= 0) json["rank"] = d.rank;
  json.update({{"steps", d.steps},
               {"steps_from", d.steps_from},
               {"step_s", number(d.step.si())},
               {"computing_s", number(d.computing.si())},
               {"products_s", number(d.of(OpClass::kProduct).time.si())},
               {"copies_exposed_s", number(d.copying.si())},
               {"data_loading_s", number(d.loading.si())},
               {"waiting_s", number(d.waiting.si())},
               {"gaps", number(d.gaps)},
               {"kernels", number(d.kernels)},
               {"slow_down_s", number(d.slow_down.si())},
               {"allocations", number(d.allocations)},
               {"notes", d.notes}});
  json["communication"] = Json::array();
  for (const CommTime& c : d.communication) {
    Json comm{{"kind", name_of(c.kind)}};
    if (c.dimension) comm["dimension"] = name_of(*c.dimension);
    if (c.group_size > 0) comm["group_size"] = c.group_size;
    comm.update({{"time_s", number(c.all.time.si())},
                 {"count", number(c.all.count)},
                 {"exposed_s", number(c.exposed.si())}});
    json["communication"].push_back(comm);
  }
  return json;
}

}  // namespace

std::string trace_text(const TraceComparison& t, const TextOptions& options) {
  std::string text;
  if (!t.devices.empty()) {
    const DeviceMeasure& d = t.devices[t.shown];
    const std::string who = d.rank >= 0 ? "rank " + std::to_string(d.rank) : d.file;
    text += paragraph(
        "Trace: ",
        who +
            (t.devices.size() > 1
                 ? ", which computes longest of " +
                       with_thousands(static_cast<std::int64_t>(t.devices.size())) + " traced"
                 : "") +
            "; " + with_thousands(d.steps) + (d.steps == 1 ? " step" : " steps") + ", told by " +
            d.steps_from + ".",
        options);
  }
  if (!t.classes.empty()) {
    text += "\n" + classes_text(t, options) + passes_text(t, options) + products_text(t, options) +
            communication_text(t, options);
  }
  text += ranks_text(t, options);
  std::vector<std::string> notes = t.notes;
  for (const DeviceMeasure& d : t.devices) {
    for (const std::string& note : d.notes) notes.push_back(d.file + ": " + note);
  }
  if (!notes.empty()) text += "\n";
  for (const std::string& note : notes) text += paragraph("Note: ", note, options);
  return text;
}

Json trace_json(const TraceComparison& t) {
  Json json{{"devices", Json::array()},  {"classes", Json::array()},
            {"products", Json::array()}, {"communication", Json::array()},
            {"passes", Json::array()},   {"notes", t.notes}};
  for (const DeviceMeasure& d : t.devices) json["devices"].push_back(device_json(d));
  for (const ComparedClass& c : t.classes) {
    Json row{{"class", name_of(c.cls)},
             {"measured", optime_json(c.measured)},
             {"predicted", optime_json(c.predicted)}};
    for (const auto& [name, way] : {std::pair{"measured_forward", &c.measured_forward},
                                    std::pair{"measured_backward", &c.measured_backward},
                                    std::pair{"predicted_forward", &c.predicted_forward},
                                    std::pair{"predicted_backward", &c.predicted_backward}}) {
      if (way->count > 0) row[name] = optime_json(*way);
    }
    json["classes"].push_back(row);
  }
  const auto seconds = [](const std::vector<Seconds>& all) {
    Json list = Json::array();
    for (const Seconds s : all) list.push_back(number(s.si()));
    return list;
  };
  for (const ComparedPasses& p : t.passes) {
    const LayerPasses& m = p.measured;
    json["passes"].push_back({{"direction", direction_name(m.direction)},
                              {"count", m.count},
                              {"median_s", number(m.median.si())},
                              {"slowest_s", number(m.slowest.si())},
                              {"elapsed_s", number(m.elapsed.si())},
                              {"predicted_s", number(p.predicted.si())},
                              {"layers_s", seconds(m.layers)},
                              {"microbatches_s", seconds(m.microbatches)}});
  }
  for (const ComparedProduct& p : t.products) {
    json["products"].push_back({{"operations", p.name},
                                {"sizes", {p.shape.m, p.shape.n, p.shape.k}},
                                {"at_once", p.shape.count},
                                {"measured", optime_json(p.measured)},
                                {"predicted", optime_json(p.predicted)}});
  }
  for (const ComparedComm& c : t.communication) {
    Json comm = Json::object();
    if (c.dimension) comm["dimension"] = name_of(*c.dimension);
    comm.update({{"measured", optime_json(c.measured)},
                 {"predicted", optime_json(c.predicted)},
                 {"measured_exposed_s", number(c.measured_exposed.si())},
                 {"predicted_exposed_s", number(c.predicted_exposed.si())}});
    json["communication"].push_back(comm);
  }
  return json;
}

std::string losses_text(std::span<const TimeLoss> losses, const TextOptions& options) {
  if (losses.empty()) {
    return paragraph(
        "Verdict: ", "no cause of a hundredth of the step or more stands out of the traces.",
        options);
  }
  std::string text =
      emphasised("Verdict, most seconds of a step first", Emphasis::kHeading, options) + "\n";
  for (const TimeLoss& f : losses) {
    std::string line = f.what + " (" + f.evidence + "): " + f.remedy + ".";
    if (f.gain) {
      line += " Predicted gain " + human_time(*f.gain) + " a step";
      line += f.changes.empty() ? "." : " with " + f.changes + ".";
    }
    text += paragraph("- " + human_time(f.lost) + ": ", line, options);
  }
  return text;
}

Json losses_json(std::span<const TimeLoss> losses) {
  Json all = Json::array();
  for (const TimeLoss& f : losses) {
    Json json{{"kind", name_of(f.kind)},
              {"what", f.what},
              {"evidence", f.evidence},
              {"remedy", f.remedy},
              {"lost_s", number(f.lost.si())}};
    if (!f.changes.empty()) json["changes"] = f.changes;
    if (f.gain) json["predicted_gain_s"] = number(f.gain->si());
    all.push_back(json);
  }
  return all;
}

}  // namespace meshplan
