#include "probe/samples_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"
#include "base/json_shape.hpp"
#include "base/printable.hpp"
#include "probe/json_fields.hpp"

namespace meshplan {
namespace probe_json {
namespace {

// The names of Operation's alternatives, in their order.
constexpr std::array<const char*, std::variant_size_v<Operation>> kKinds{
    "collective", "gemm", "attention", "memory", "copy", "launch", "overlap"};

template <std::size_t I = 0>
Operation read_kind(const std::string& kind, const Json& j) {
  if constexpr (I == kKinds.size()) {
    throw BadJson{"has an unknown kind '" + kind + "'"};
  } else {
    if (kind != kKinds[I]) return read_kind<I + 1>(kind, j);
    std::variant_alternative_t<I, Operation> op;
    from_json(j, op);
    return op;
  }
}

}  // namespace

Json to_json(std::int64_t v) { return v; }
Json to_json(double v) {
  PLAN_CHECK(std::isfinite(v));
  return v;
}
Json to_json(bool v) { return v; }
Json to_json(const std::string& v) { return v; }
Json to_json(Bytes v) { return v.count(); }
Json to_json(Seconds v) { return to_json(v.si()); }
Json to_json(const Operation& op) {
  Json j = {{"kind", kKinds[op.index()]}};
  j.update(std::visit([](const auto& one) { return to_json(one); }, op));
  return j;
}

void from_json(const Json& j, std::int64_t& v) {
  if (!j.is_number_integer()) throw BadJson{"must be a whole number"};
  if (j.is_number_unsigned() && j.get<std::uint64_t>() > INT64_MAX) throw BadJson{"is too large"};
  v = j.get<std::int64_t>();
}
void from_json(const Json& j, double& v) {
  if (!j.is_number()) throw BadJson{"must be a number"};
  v = j.get<double>();
  if (!std::isfinite(v)) throw BadJson{"must be finite"};
}
void from_json(const Json& j, bool& v) {
  if (!j.is_boolean()) throw BadJson{"must be true or false"};
  v = j.get<bool>();
}
void from_json(const Json& j, std::string& v) {
  if (!j.is_string()) throw BadJson{"must be a text"};
  v = j.get<std::string>();
}
void from_json(const Json& j, Bytes& v) {
  std::int64_t n = 0;
  from_json(j, n);
  if (n < 0) throw BadJson{"must not be negative"};
  v = Bytes{n};
}
void from_json(const Json& j, Seconds& v) {
  double s = 0;
  from_json(j, s);
  if (s < 0) throw BadJson{"must not be negative"};
  v = Seconds{s};
}
void from_json(const Json& j, Operation& op) {
  Reader r(j);
  std::string kind;
  r("kind", kind);
  op = read_kind(kind, j);
}

Json parse(std::string_view text) {
  if (!is_within(text, {})) throw BadJson{"holds too many values, or nests them too deeply"};
  Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw BadJson{"is not JSON, or was cut off"};
  return j;
}

}  // namespace probe_json

namespace {

using probe_json::BadJson;
using probe_json::Json;

std::string line_of(const Json& j) {
  // Names of hosts and variables may hold stray bytes; that must not end the run.
  return escaped_json(j.dump(-1, ' ', false, Json::error_handler_t::replace));
}

template <class T>
std::string tagged_line(const char* tag, const T& value) {
  Json j = {{"record", tag}};
  j.update(probe_json::to_json(value));
  return line_of(j);
}

void read_line(std::string_view text, bool first, SamplesFile& f) {
  const Json j = probe_json::parse(text);
  std::string record;
  probe_json::Reader reader(j);
  reader("record", record);
  if (first != (record == "machine")) throw BadJson{"has the machine's record in the wrong place"};
  if (record == "machine") {
    probe_json::from_json(j, f.machine);
  } else if (record == "sample") {
    probe_json::from_json(j, f.samples.emplace_back());
  } else {
    throw BadJson{"has an unknown record '" + record + "'"};
  }
}

}  // namespace

std::string operation_line(const Operation& op) { return line_of(probe_json::to_json(op)); }
std::string sample_line(const Sample& s) { return tagged_line("sample", s); }
std::string machine_line(const Machine& m) { return tagged_line("machine", m); }

std::string samples_text(const SamplesFile& f) {
  std::string text = machine_line(f.machine) + '\n';
  for (const Sample& s : f.samples) text += sample_line(s) + '\n';
  return text;
}

Result<SamplesFile> parse_samples(std::string_view text, const std::string& file) {
  SamplesFile f;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    try {
      read_line(line, number == 1, f);
    } catch (const BadJson& problem) {
      return error_at({file, number, 0}, "this line " + problem.message,
                      "expected what 'meshplan bench' writes: JSON lines of measurements");
    }
  }
  if (number == 0) return error_at({file}, "there are no measurements in this file");
  return f;
}

Result<Operation> parse_operation(std::string_view json) {
  try {
    Operation op;
    probe_json::from_json(probe_json::parse(json), op);
    return op;
  } catch (const BadJson& problem) {
    return error("the operation " + problem.message);
  }
}

}  // namespace meshplan
