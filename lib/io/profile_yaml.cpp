#include "io/profile_yaml.hpp"

#include <algorithm>

#include "base/printable.hpp"
#include "io/measured_keys.hpp"
#include "io/yaml_text.hpp"

namespace meshplan {
namespace {

class Lines {
 public:
  explicit Lines(std::size_t indent = 0) : indent_(indent, ' ') {}
  void key(std::string_view key, const std::string& value) {
    text_ += indent_ + std::string(key) + ":" + (value.empty() ? "" : " " + value) + "\n";
  }
  // "{a: 1, b: 2}"
  void flow(std::string_view name, const std::vector<std::pair<std::string, std::string>>& pairs) {
    std::string value = "{";
    for (const auto& [k, v] : pairs) value += (value.size() > 1 ? ", " : "") + k + ": " + v;
    key(name, value + "}");
  }
  void add(const std::string& lines) { text_ += lines; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string indent_, text_;
};

std::string commented(std::string_view comment) {
  std::string text;
  for (std::size_t at = 0; at < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', at), comment.size());
    // Names may stand in it, and YAML ends lines at more than '\n'.
    text += "# " + printable_text(comment.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return text;
}

// Keys of these maps come from outside ("NCCL_ALGO", "peak.bf16", "time slices"): what YAML could
// take for anything but words is quoted.
std::string key_of(const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_inner = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == ' ';
  };
  std::string lower = name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool reserved = lower.find(' ') == std::string::npos && yaml_text(lower) != lower;
  const bool plain = !name.empty() && is_letter(name.front()) && name.back() != ' ' && !reserved &&
                     std::all_of(name.begin(), name.end(), is_inner);
  return plain ? name : yaml_quoted(name);
}

std::string text_map(std::string_view key, const std::map<std::string, std::string>& map,
                     std::size_t indent) {
  if (map.empty()) return {};
  Lines lines(indent);
  lines.key(key, "");
  Lines inner(indent + 2);
  for (const auto& [name, value] : map) inner.key(key_of(name), yaml_text(value));
  lines.add(inner.text());
  return lines.text();
}

std::string provenance_yaml(const Provenance& p, std::size_t indent) {
  Lines lines(indent);
  lines.key("measured", "");
  Lines inner(indent + 2);
  const std::pair<std::string_view, const std::string*> fields[] = {
      {"method", &p.method}, {"date", &p.date}, {"host", &p.host}, {"gpu", &p.gpu},
      {"driver", &p.driver}, {"cuda", &p.cuda}, {"nccl", &p.nccl}};
  for (const auto& [key, value] : fields) {
    if (!value->empty()) inner.key(key, yaml_text(*value));
  }
  inner.add(text_map("environment", p.environment, indent + 2));
  inner.add(text_map("notes", p.notes, indent + 2));
  lines.add(inner.text());
  return lines.text();
}

std::string seen_run_yaml(const SeenRun& run) {
  const auto real = [](double value) { return yaml_real(value, Digits::kSix); };
  std::vector<std::pair<std::string, std::string>> sensitivity;
  for (const auto& [name, value] : run.sensitivity)
    sensitivity.emplace_back(yaml_text(name), real(value));
  Lines lines(4);
  lines.key("error", real(run.error));
  lines.key("noise", real(run.noise));
  lines.flow("sensitivity", sensitivity);
  return "  - name: " + yaml_text(run.name) + "\n" + lines.text();
}

std::string sizes_yaml(const std::vector<TimedSize>& sizes) {
  std::string text = "[";
  for (const auto& [bytes, time] : sizes) {
    text += (text.size() > 1 ? ", " : "") + std::string("[") + yaml_bytes(bytes) + ", " +
            yaml_time(time, Digits::kSix) + "]";
  }
  return text + "]";
}

std::string errors_yaml(const FitErrors& e) {
  const auto real = [](double value) { return yaml_real(value, Digits::kSix); };
  Lines lines;
  lines.flow("errors", {{"residual_median", real(e.residual_median)},
                        {"residual_p90", real(e.residual_p90)},
                        {"held_out_median", real(e.held_out_median)},
                        {"held_out_p90", real(e.held_out_p90)},
                        {"samples", std::to_string(e.samples)},
                        {"outliers", std::to_string(e.outliers)}});
  return lines.text();
}

std::string fit_yaml(const CollectiveFit& fit) {
  std::string text = "  - operation: " + std::string(name_of(fit.operation)) + "\n";
  Lines lines(4);
  lines.key("level", yaml_text(fit.level));
  lines.key("ranks", std::to_string(fit.ranks));
  lines.key("nodes", std::to_string(fit.nodes));
  if (fit.bidirectional) lines.key("bidirectional", "true");
  lines.key("points", sizes_yaml(fit.points));
  if (fit.summary) {
    lines.flow("summary", {{"latency", yaml_time(fit.summary->latency, Digits::kSix)},
                           {"bandwidth", yaml_bandwidth(fit.summary->bandwidth, Digits::kSix)},
                           {"error", yaml_real(fit.summary->error, Digits::kSix)}});
  }
  if (fit.errors) lines.add("    " + errors_yaml(*fit.errors));
  if (!fit.samples.empty()) lines.key("samples", sizes_yaml(fit.samples));
  return text + lines.text();
}

std::string level_yaml(const LinkLevel& level) {
  std::string text = "  - {name: " + yaml_text(level.name) +
                     ", span: " + (level.span == 0 ? "all" : std::to_string(level.span)) +
                     ", bandwidth: " + yaml_bandwidth(level.bandwidth) +
                     ", latency: " + yaml_time(level.latency) +
                     ", kind: " + std::string(name_of(level.kind));
  if (level.oversubscription != 1)
    text += ", oversubscription: " + yaml_real(level.oversubscription);
  if (level.token_message > Seconds{0})
    text += ", token_message: " + yaml_time(level.token_message);
  return text + "}\n";
}

template <class T, class ToText>
std::vector<std::pair<std::string, std::string>> per_precision(const PerPrecision<T>& values,
                                                               const ToText& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    if (values[i] > T{}) pairs.emplace_back(NameTable<Precision>::rows[i].name, text(values[i]));
  }
  return pairs;
}

std::string device_keys(const DeviceSpec& d, std::size_t indent) {
  Lines lines(indent), nested(indent + 2);
  lines.key("name", yaml_text(d.name));
  lines.key("architecture", std::string(name_of(d.architecture)));
  lines.key("memory", yaml_bytes(d.memory));
  lines.key("context", yaml_bytes(d.context));
  lines.key("memory_bandwidth", yaml_bandwidth(d.memory_bandwidth));
  lines.key("l2_cache", yaml_bytes(d.l2_cache));
  lines.key("multiprocessors", std::to_string(d.multiprocessors));
  lines.flow("peak", per_precision(d.peak, [](FlopsPerSecond r) { return yaml_flop_rate(r); }));
  lines.key("gemm", "");
  nested.flow("sustained", per_precision(d.gemm.sustained, [](double v) { return yaml_real(v); }));
  nested.key("k_half", yaml_real(d.gemm.k_half));
  if (d.gemm.output_exposed > 0) {
    nested.key("output_exposed", yaml_real(d.gemm.output_exposed));
  }
  lines.add(nested.text());
  lines.flow("attention", {{"forward", yaml_real(d.attention.forward)},
                           {"backward", yaml_real(d.attention.backward)},
                           {"seq_half", yaml_real(d.attention.seq_half)}});
  lines.key("memory_efficiency", yaml_real(d.memory_efficiency));
  lines.key("kernel_overhead", yaml_time(d.kernel_overhead));
  lines.key("collective_gap", yaml_time(d.collective_gap));
  lines.key("launch_gap", yaml_time(d.launch_gap));
  lines.key("host_link", yaml_bandwidth(d.host_link));
  lines.key("tdp_watts", yaml_real(d.tdp_watts));
  lines.key("overlap_slowdown", yaml_real(d.overlap_slowdown));
  if (d.variability > 0) lines.key("variability", yaml_real(d.variability));
  std::map<std::string, std::string> sources, measured;
  for (const auto& [key, value] : d.sources) {
    const bool section = key.rfind(kMeasuredSource, 0) == 0;
    (section ? measured[key.substr(kMeasuredSource.size())] : sources[key]) = value;
  }
  lines.add(text_map("sources", sources, indent));
  lines.add(text_map("measured", measured, indent));
  return lines.text();
}

}  // namespace

std::string cluster_yaml(const ClusterSpec& c, DeviceForm device, std::string_view comment) {
  Lines lines;
  lines.add(commented(comment));
  lines.key("name", yaml_text(c.name));
  if (device == DeviceForm::kName) {
    lines.key("device", yaml_text(c.device.name));
  } else {
    lines.key("device", "");
    lines.add(device_keys(c.device, 2));
  }
  lines.key("nodes", std::to_string(c.nodes));
  lines.key("gpus_per_node", std::to_string(c.gpus_per_node));
  lines.key("levels", "");
  for (const LinkLevel& level : c.levels) lines.add(level_yaml(level));
  if (!c.collectives.empty()) lines.key("collectives", "");
  for (const CollectiveFit& fit : c.collectives) lines.add(fit_yaml(fit));
  if (c.measured) lines.add(provenance_yaml(*c.measured, 0));
  if (!c.seen_runs.empty()) lines.key("seen_runs", "");
  for (const SeenRun& run : c.seen_runs) lines.add(seen_run_yaml(run));
  if (c.host_memory.count() > 0) lines.key("host_memory", yaml_bytes(c.host_memory));
  if (c.usd_per_gpu_hour) {
    lines.flow("cost", {{"usd_per_gpu_hour", yaml_real(*c.usd_per_gpu_hour)}});
  }
  if (!c.source.empty()) lines.key("source", yaml_text(c.source));
  return lines.text();
}

DeviceSpec with_provenance(DeviceSpec d, const Provenance& p) {
  // An earlier measurement of the device is not this one's.
  std::erase_if(d.sources, [](const auto& s) { return s.first.starts_with(kMeasuredSource); });
  const auto say = [&d](const std::string& key, const std::string& value) {
    if (!value.empty()) d.sources[std::string(kMeasuredSource) + key] = value;
  };
  for (const auto& [name, value] : p.environment) say(name, value);
  for (const auto& [what, value] : p.notes) say(what, value);
  say("method", p.method), say("date", p.date), say("host", p.host), say("gpu", p.gpu);
  say("driver", p.driver), say("cuda", p.cuda), say("nccl", p.nccl);
  return d;
}

std::string device_yaml(const DeviceSpec& d, std::string_view comment) {
  return commented(comment) + device_keys(d, 0);
}

}  // namespace meshplan
