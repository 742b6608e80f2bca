#include "report/bench.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "comm/measured.hpp"
#include "probe/agenda.hpp"
#include "report/fit_json.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

// One line of the table: an operation whatever its size, in one kind of group.
struct Row {
  std::string name, group;
  std::vector<const Sample*> samples;  // in increasing order of their sizes
};

std::string group_text(const RankGroup& g) {
  std::string text = std::to_string(g.size) + " ranks";
  if (g.run > 0) text += " as runs of " + std::to_string(g.run);
  if (g.stride > 1) text += ", stride " + std::to_string(g.stride);
  if (g.run > 0) text += ", " + std::to_string(g.jump) + " apart";
  if (g.nodes > 1) text += ", " + std::to_string(g.nodes) + " nodes";
  if (!g.concurrent) text += ", alone";
  return text;
}

double flops_of(const Operation& op) {
  if (const auto* g = std::get_if<GemmOperation>(&op)) {
    return 2.0 * static_cast<double>(g->m) * static_cast<double>(g->n) * static_cast<double>(g->k) *
           static_cast<double>(g->count);
  }
  if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    const auto queries = static_cast<double>(a->queries), keys = static_cast<double>(a->keys);
    const double pairs = queries * (a->causal ? keys - queries / 2 : keys);
    const double forward = 2.0 * static_cast<double>(a->batch * a->heads) * pairs *
                           static_cast<double>(a->qk_dim + a->v_dim);
    return a->backward ? 2.5 * forward : forward;
  }
  return 0;
}

double size_of_operation(const Operation& op) {
  const double flops = flops_of(op);
  return flops > 0 ? flops : buffer_bytes(op).si();
}

std::string rate_text(const Sample& s) {
  if (s.median <= Seconds{0}) return "-";
  if (const auto* c = std::get_if<CollectiveOperation>(&s.operation)) {
    return human_bandwidth(bus_bandwidth(*c, s.median)) + " bus";
  }
  const double flops = flops_of(s.operation);
  if (flops > 0) {
    return human_rate(Flops{flops} / s.median) +
           (s.steady ? ", steady " + human_rate(Flops{flops} / s.steady->median) : "");
  }
  if (const auto* m = std::get_if<MemoryOperation>(&s.operation)) {
    return human_bandwidth(traffic(*m) / s.median);
  }
  if (const auto* c = std::get_if<CopyOperation>(&s.operation)) {
    return human_bandwidth(c->bytes / s.median);
  }
  if (s.overlap) {
    return fixed(s.overlap->compute_beside / s.overlap->compute_alone, 2) + " x slower, comm " +
           fixed(s.overlap->communication_beside / s.overlap->communication_alone, 2) + " x";
  }
  return "-";
}

std::string name_of_row(const Operation& op) {
  if (const auto* c = std::get_if<CollectiveOperation>(&op)) {
    const char* kind = c->ping_pong ? "ping-pong " : c->bidirectional ? "bidirectional " : "";
    return kind + std::string(name_of(c->collective));
  }
  if (const auto* g = std::get_if<GemmOperation>(&op)) {
    return "gemm " + std::string(name_of(g->precision)) + ' ' + std::string(name_of(g->layout));
  }
  if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    return std::string("attention ") + (a->backward ? "backward" : "forward") + " head " +
           std::to_string(a->qk_dim);
  }
  if (const auto* m = std::get_if<MemoryOperation>(&op)) return std::string(name_of(m->kernel));
  if (const auto* c = std::get_if<CopyOperation>(&op)) {
    return std::string(name_of(c->direction)) + " copy";
  }
  if (const auto* l = std::get_if<LaunchOperation>(&op)) {
    return l->graph ? "kernel from a graph" : "kernel launch";
  }
  const auto& o = std::get<OverlapOperation>(op);
  return "gemm beside " + std::string(name_of(o.communication.collective));
}

std::vector<Row> rows_of(const std::vector<Sample>& samples) {
  std::vector<Row> rows;
  for (const Sample& s : samples) {
    const RankGroup* g = group_of(s.operation);
    const std::string name = name_of_row(s.operation), group = g != nullptr ? group_text(*g) : "-";
    auto at = std::find_if(rows.begin(), rows.end(),
                           [&](const Row& r) { return r.name == name && r.group == group; });
    if (at == rows.end()) at = rows.insert(at, {name, group, {}});
    at->samples.push_back(&s);
  }
  for (Row& row : rows) {
    std::stable_sort(row.samples.begin(), row.samples.end(), [](const Sample* a, const Sample* b) {
      return size_of_operation(a->operation) < size_of_operation(b->operation);
    });
  }
  return rows;
}

std::string size_text(const Operation& op) {
  if (const auto* c = std::get_if<CollectiveOperation>(&op)) return human_bytes(c->bytes);
  if (const auto* g = std::get_if<GemmOperation>(&op)) {
    return std::to_string(g->m) + 'x' + std::to_string(g->n) + 'x' + std::to_string(g->k);
  }
  if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    return std::to_string(a->queries) + " tokens";
  }
  if (std::holds_alternative<LaunchOperation>(op)) return "-";
  return human_bytes(buffer_bytes(op));
}

double typical_spread(const Row& row) {
  std::vector<double> spreads;
  for (const Sample* s : row.samples) spreads.push_back(s->spread);
  std::nth_element(spreads.begin(),
                   spreads.begin() + static_cast<std::ptrdiff_t>(spreads.size() / 2),
                   spreads.end());
  return spreads[spreads.size() / 2];
}

std::string samples_table(const std::vector<Sample>& samples, const TextOptions& options) {
  Table table({{"operation", Align::kLeft},
               {"group", Align::kLeft, true},
               {"sizes"},
               {"smallest"},
               {"time"},
               {"largest"},
               {"time"},
               {"rate"},
               {"spread"}});
  for (const Row& row : rows_of(samples)) {
    const Sample& least = *row.samples.front();
    const Sample& most = *row.samples.back();
    table.add_row({row.name, row.group, std::to_string(row.samples.size()),
                   size_text(least.operation), human_time(least.median), size_text(most.operation),
                   human_time(most.median), rate_text(most), human_percent(typical_spread(row))});
  }
  return table.text(options);
}

std::string end_text(const BenchOutcome& o) {
  switch (o.end) {
    case BenchEnd::kComplete:
      return "Everything was measured";
    case BenchEnd::kOutOfTime:
      return "The time was up before " + std::to_string(o.not_reached) + " operations";
    case BenchEnd::kInterrupted:
      return "Interrupted before " + std::to_string(o.not_reached) + " operations";
    case BenchEnd::kFailed:
      return "Failed before " + std::to_string(o.not_reached) + " operations";
  }
  return {};
}

std::string_view end_name(BenchEnd end) {
  switch (end) {
    case BenchEnd::kComplete:
      return "complete";
    case BenchEnd::kOutOfTime:
      return "out-of-time";
    case BenchEnd::kInterrupted:
      return "interrupted";
    case BenchEnd::kFailed:
      return "failed";
  }
  return {};
}

// Reasons and how many operations each concerns: a list of every size would hide them.
std::map<std::string, int> reasons(const std::vector<Skipped>& all) {
  std::map<std::string, int> counts;
  for (const Skipped& s : all) ++counts[s.reason];
  return counts;
}

Json sample_json(const Sample& s) {
  Json j = {{"operation", Json::parse(operation_line(s.operation))},
            {"text", describe(s.operation)},
            {"median_s", number(s.median.si())},
            {"spread", number(s.spread)},
            {"repetitions", s.times.size()},
            {"taken", repetitions_of(s)},
            {"outliers", s.outliers},
            {"throttled", s.throttled},
            {"correctness", std::string(name_of(s.correctness))}};
  if (const auto* c = std::get_if<CollectiveOperation>(&s.operation);
      c != nullptr && s.median > Seconds{0}) {
    j["bus_bandwidth_bytes_per_s"] = number(bus_bandwidth(*c, s.median).si());
  }
  const double flops = flops_of(s.operation);
  if (flops > 0 && s.median > Seconds{0}) j["flops_per_s"] = number(flops / s.median.si());
  if (s.clock) j["clock"] = number(*s.clock);
  if (s.steady) {
    j["steady"] = {{"median_s", number(s.steady->median.si())},
                   {"spread", number(s.steady->spread)},
                   {"lasted_s", number(s.steady->lasted.si())},
                   {"settled", s.steady->settled}};
    if (s.steady->clock) j["steady"]["clock"] = number(*s.steady->clock);
  }
  return j;
}

}  // namespace

BytesPerSecond bus_bandwidth(const CollectiveOperation& c, Seconds t) {
  const double factor = bus_factor(c.collective, static_cast<double>(c.group.size));
  const double messages = c.ping_pong ? 2 : 1;
  return BytesPerSecond{c.bytes.si() * messages * factor / t.si()};
}

std::size_t wrong_results(const BenchOutcome& outcome) {
  const auto& all = outcome.file.samples;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Sample& s) {
    return s.correctness == Correctness::kWrong;
  }));
}

std::string machine_text(const Machine& m, const TextOptions& options) {
  std::string versions;
  for (const auto& [name, version] : m.versions) {
    versions += (versions.empty() ? "" : ", ") + name + ' ' + version;
  }
  const std::string device = m.ranks.empty() ? "" : m.ranks.front().device;
  std::string text = paragraph("",
                               std::to_string(m.ranks.size()) + " x " + device + " on " +
                                   std::to_string(m.nodes) + (m.nodes == 1 ? " node" : " nodes") +
                                   ", backend " + m.backend + " (" + versions + ")",
                               options);
  if (m.time_sliced) {
    text += paragraph("",
                      "Several ranks share one device: the times are time slices, never a "
                      "bandwidth.",
                      options);
  }
  return text;
}

std::string straggler_text(const std::vector<Sample>& samples, const Machine& m,
                           const TextOptions& options) {
  std::string text;
  for (const Straggler& s : stragglers(samples)) {
    const auto at = static_cast<std::size_t>(s.rank);
    const std::string host = at < m.ranks.size() ? " on " + m.ranks[at].host : "";
    text += paragraph(emphasised("SLOW: ", Emphasis::kBad, options),
                      "rank " + std::to_string(s.rank) + host + " takes " + human_percent(s.lag) +
                          " longer than the others in " + std::to_string(s.operations) + " of " +
                          std::to_string(s.of) +
                          " operations that each rank does alone, and every step would wait for "
                          "it: look at its clocks, temperature, power limit and other processes",
                      options);
  }
  return text;
}

std::string bench_text(const BenchOutcome& o, const TextOptions& options) {
  std::string text = machine_text(o.file.machine, options) + '\n';
  if (!o.file.samples.empty()) text += samples_table(o.file.samples, options) + '\n';
  text += paragraph(
      "",
      end_text(o) + "; " + std::to_string(o.file.samples.size()) + " samples" +
          (o.resumed > 0 ? ", " + std::to_string(o.resumed) + " of them from before" : "") + ".",
      options);
  if (o.short_samples > 0) {
    text += paragraph("short: ",
                      std::to_string(o.short_samples) +
                          " samples are of fewer repetitions than were asked for; a larger "
                          "--budget has time for all",
                      options);
  }
  for (const auto& [reason, count] : reasons(o.skipped)) {
    text += paragraph("left out: ", std::to_string(count) + " operations: " + reason, options);
  }
  text += straggler_text(o.file.samples, o.file.machine, options);
  for (const Sample& s : o.file.samples) {
    if (s.correctness != Correctness::kWrong) continue;
    text += paragraph(emphasised("WRONG: ", Emphasis::kBad, options),
                      describe(s.operation) + ": " + s.note, options);
  }
  return text;
}

std::string agenda_text(const Machine& m, const std::vector<Operation>& all,
                        const TextOptions& options) {
  std::vector<Sample> planned;
  for (const Operation& op : all) {
    Sample s;
    s.operation = op;
    if (RankGroup* group = group_of(s.operation)) group->nodes = nodes_of(*group, m);
    planned.push_back(std::move(s));
  }
  Table table({{"operation", Align::kLeft},
               {"group", Align::kLeft, true},
               {"sizes"},
               {"smallest"},
               {"largest"}});
  for (const Row& row : rows_of(planned)) {
    table.add_row({row.name, row.group, std::to_string(row.samples.size()),
                   size_text(row.samples.front()->operation),
                   size_text(row.samples.back()->operation)});
  }
  return machine_text(m, options) + '\n' + table.text(options) + '\n' + std::to_string(all.size()) +
         " operations would be measured.\n";
}

std::string bench_document(const ToolInfo& tool, const BenchOutcome& o,
                           const std::string& samples_file, const BenchProfileReport* profile) {
  Json json = document(tool);
  json.update({{"machine", Json::parse(machine_line(o.file.machine))},
               {"end", std::string(end_name(o.end))},
               {"resumed", o.resumed},
               {"not_reached", o.not_reached},
               {"wrong_results", wrong_results(o)},
               {"short_samples", o.short_samples}});
  if (!samples_file.empty()) json["samples_file"] = samples_file;
  json["skipped"] = Json::array();
  for (const Skipped& s : o.skipped) {
    json["skipped"].push_back({{"text", describe(s.operation)}, {"reason", s.reason}});
  }
  json["stragglers"] = Json::array();
  for (const Straggler& s : stragglers(o.file.samples)) {
    json["stragglers"].push_back(
        {{"rank", s.rank}, {"operations", s.operations}, {"of", s.of}, {"lag", number(s.lag)}});
  }
  json["samples"] = Json::array();
  for (const Sample& s : o.file.samples) json["samples"].push_back(sample_json(s));
  if (profile != nullptr) json["profile"] = bench_profile_json(*profile);
  return document_text(json);
}

}  // namespace meshplan
