#include "report/profile.hpp"

#include "base/text.hpp"
#include "report/fit_json.hpp"

namespace meshplan {
namespace {

Json sizes_json(const std::vector<TimedSize>& sizes) {
  Json all = Json::array();
  for (const auto& [bytes, time] : sizes) {
    all.push_back({{"bytes", bytes.count()}, {"time_s", number(time.si())}});
  }
  return all;
}

Json provenance_json(const Provenance& p) {
  Json json{{"method", p.method}};
  const std::pair<const char*, const std::string*> fields[] = {
      {"date", &p.date},     {"host", &p.host}, {"gpu", &p.gpu},
      {"driver", &p.driver}, {"cuda", &p.cuda}, {"nccl", &p.nccl}};
  for (const auto& [key, value] : fields) {
    if (!value->empty()) json[key] = *value;
  }
  json["environment"] = Json::object();
  for (const auto& [name, value] : p.environment) json["environment"][name] = value;
  json["notes"] = Json::object();
  for (const auto& [name, value] : p.notes) json["notes"][name] = value;
  return json;
}

}  // namespace

Json errors_json(const FitErrors& e) {
  return {{"residual_median", number(e.residual_median)},
          {"residual_p90", number(e.residual_p90)},
          {"held_out_median", number(e.held_out_median)},
          {"held_out_p90", number(e.held_out_p90)},
          {"samples", e.samples},
          {"outliers", e.outliers}};
}

Json fit_json(const CollectiveFit& fit) {
  Json json{{"operation", std::string(name_of(fit.operation))},
            {"level", fit.level},
            {"ranks", fit.ranks},
            {"nodes", fit.nodes},
            {"bidirectional", fit.bidirectional},
            {"points", sizes_json(fit.points)}};
  if (fit.summary) {
    json["latency_s"] = number(fit.summary->latency.si());
    json["bandwidth_bytes_per_s"] = number(fit.summary->bandwidth.si());
    json["summary_error"] = number(fit.summary->error);
  }
  if (fit.errors) json["errors"] = errors_json(*fit.errors);
  if (!fit.samples.empty()) json["samples"] = sizes_json(fit.samples);
  return json;
}

std::string fits_text(std::span<const CollectiveFit> fits, const TextOptions& options) {
  Table table({{"operation", Align::kLeft},
               {"level", Align::kLeft, true},
               {"ranks"},
               {"nodes"},
               {"latency"},
               {"bandwidth"},
               {"residual"},
               {"held out"},
               {"p90"}},
              1);
  for (const CollectiveFit& fit : fits) {
    const bool summary = fit.summary.has_value(), errors = fit.errors.has_value();
    const bool rate = summary && fit.summary->bandwidth.si() > 0;
    const std::string both = fit.bidirectional ? "bidirectional " : "";
    table.add_row({both + std::string(name_of(fit.operation)), fit.level, std::to_string(fit.ranks),
                   std::to_string(fit.nodes), summary ? human_time(fit.summary->latency) : "-",
                   rate ? human_bandwidth(fit.summary->bandwidth) : "-",
                   errors ? human_percent(fit.errors->residual_median) : "-",
                   errors ? human_percent(fit.errors->held_out_median) : "-",
                   errors ? human_percent(fit.errors->held_out_p90) : "-"});
  }
  return table.text(options) +
         paragraph("",
                   "Latency and bandwidth sum up a curve; prediction reads the curve. Errors "
                   "are relative: the median of what the fit has seen, then the median and the "
                   "90th percentile of sizes that it was kept from.",
                   options);
}

std::string profile_document(const ToolInfo& tool, const ClusterSpec& c) {
  Json json = document(tool);
  json["cluster"] = cluster_json(c);
  json["fits"] = Json::array();
  for (const CollectiveFit& fit : c.collectives) json["fits"].push_back(fit_json(fit));
  if (c.measured) json["measured"] = provenance_json(*c.measured);
  return document_text(json);
}

}  // namespace meshplan
