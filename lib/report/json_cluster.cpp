#include "base/quantity.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

// By the names of the precisions; what is zero is not stated.
template <class T, class ToJson>
Json by_precision(const PerPrecision<T>& values, const ToJson& to_json) {
  Json json = Json::object();
  for (const auto& row : NameTable<Precision>::rows) {
    const T value = values[static_cast<std::size_t>(row.value)];
    if (value != T{}) json[row.name] = to_json(value);
  }
  return json;
}

Json level_keys(const LinkLevel& level) {
  Json keys{{"name", level.name},
            {"span", level.span > 0 ? Json(level.span) : Json("all")},
            {"bandwidth", exact_text(level.bandwidth)},
            {"latency", exact_text(level.latency)},
            {"kind", std::string(name_of(level.kind))},
            {"oversubscription", number(level.oversubscription)}};
  if (level.token_message > Seconds{0}) keys["token_message"] = exact_text(level.token_message);
  return keys;
}

Json fit_keys(const CollectiveFit& fit) {
  Json points = Json::array();
  for (const auto& [size, time] : fit.points) {
    points.push_back({exact_text(size), exact_text(time)});
  }
  Json json{{"operation", std::string(name_of(fit.operation))},
            {"level", fit.level},
            {"ranks", fit.ranks},
            {"nodes", fit.nodes}};
  if (fit.bidirectional) json["bidirectional"] = true;
  json["points"] = std::move(points);
  return json;
}

}  // namespace

Json device_keys(const DeviceSpec& d) {
  Json json{{"name", d.name},
            {"architecture", std::string(name_of(d.architecture))},
            {"memory", exact_text(d.memory)},
            {"context", exact_text(d.context)},
            {"memory_bandwidth", exact_text(d.memory_bandwidth)},
            {"l2_cache", exact_text(d.l2_cache)},
            {"multiprocessors", d.multiprocessors},
            {"peak", by_precision(d.peak, [](FlopsPerSecond rate) { return exact_text(rate); })},
            {"gemm",
             {{"sustained", by_precision(d.gemm.sustained, number)},
              {"k_half", number(d.gemm.k_half)},
              {"output_exposed", number(d.gemm.output_exposed)}}},
            {"attention",
             {{"forward", number(d.attention.forward)},
              {"backward", number(d.attention.backward)},
              {"seq_half", number(d.attention.seq_half)}}},
            {"memory_efficiency", number(d.memory_efficiency)},
            {"kernel_overhead", exact_text(d.kernel_overhead)},
            {"launch_gap", exact_text(d.launch_gap)},
            {"host_link", exact_text(d.host_link)},
            {"collective_gap", exact_text(d.collective_gap)},
            {"tdp_watts", number(d.tdp_watts)},
            {"overlap_slowdown", number(d.overlap_slowdown)},
            {"variability", number(d.variability)}};
  if (!d.sources.empty()) json["sources"] = d.sources;
  return json;
}

Json cluster_keys(const ClusterSpec& c) {
  Json json{{"name", c.name},
            {"device", device_keys(c.device)},
            {"nodes", c.nodes},
            {"gpus_per_node", c.gpus_per_node},
            {"levels", Json::array()}};
  for (const LinkLevel& level : c.levels) json["levels"].push_back(level_keys(level));
  for (const CollectiveFit& fit : c.collectives) json["collectives"].push_back(fit_keys(fit));
  for (const SeenRun& run : c.seen_runs) {
    json["seen_runs"].push_back({{"name", run.name},
                                 {"error", number(run.error)},
                                 {"noise", number(run.noise)},
                                 {"sensitivity", run.sensitivity}});
  }
  if (c.host_memory != Bytes{}) json["host_memory"] = exact_text(c.host_memory);
  if (c.usd_per_gpu_hour) json["cost"] = {{"usd_per_gpu_hour", number(*c.usd_per_gpu_hour)}};
  if (!c.source.empty()) json["source"] = c.source;
  return json;
}

Json cluster_json(const ClusterSpec& c) {
  Json levels = Json::array();
  for (const LinkLevel& level : c.levels) {
    levels.push_back({{"name", level.name},
                      {"kind", std::string(name_of(level.kind))},
                      {"span", level.span > 0 ? Json(level.span) : Json(nullptr)},
                      {"bandwidth_bytes_per_s", number(level.bandwidth.si())},
                      {"latency_s", number(level.latency.si())},
                      {"oversubscription", number(level.oversubscription)}});
    if (level.domain > 0) levels.back()["domain"] = level.domain;
    if (level.token_message > Seconds{0})
      levels.back()["token_message_s"] = number(level.token_message.si());
  }
  Json json{{"name", c.name},   {"device", c.device.name},          {"gpus", num_gpus(c)},
            {"nodes", c.nodes}, {"gpus_per_node", c.gpus_per_node}, {"levels", std::move(levels)}};
  if (c.usd_per_gpu_hour) json["usd_per_gpu_hour"] = number(*c.usd_per_gpu_hour);
  json["spec"] = cluster_keys(c);
  return json;
}

Json device_json(const DeviceSpec& d) {
  return {{"name", d.name},
          {"architecture", std::string(name_of(d.architecture))},
          {"memory_bytes", d.memory.count()},
          {"memory_bandwidth_bytes_per_s", number(d.memory_bandwidth.si())},
          {"peak_flops_per_s",
           by_precision(d.peak, [](FlopsPerSecond rate) { return number(rate.si()); })},
          {"multiprocessors", d.multiprocessors},
          {"tdp_watts", number(d.tdp_watts)}};
}

}  // namespace meshplan
