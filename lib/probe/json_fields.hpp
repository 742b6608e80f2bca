#pragma once
// Values <-> JSON, from one list of fields per type; private to this library.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "probe/sample.hpp"

namespace meshplan::probe_json {

using Json = nlohmann::ordered_json;

// Each field list is a function `fields(archive, value)`; a Writer and a Reader walk it.
class Writer;
class Reader;

Json to_json(std::int64_t v);
Json to_json(double v);
Json to_json(bool v);
Json to_json(const std::string& v);
Json to_json(Bytes v);
Json to_json(Seconds v);
Json to_json(const Operation& op);

// What is wrong with a text, thrown by readers and caught at the library's interface.
struct BadJson {
  std::string message;
};

void from_json(const Json& j, std::int64_t& v);
void from_json(const Json& j, double& v);
void from_json(const Json& j, bool& v);
void from_json(const Json& j, std::string& v);
void from_json(const Json& j, Bytes& v);
void from_json(const Json& j, Seconds& v);
void from_json(const Json& j, Operation& op);

template <class E>
requires std::is_enum_v<E> Json to_json(E v) { return std::string(name_of(v)); }

template <class E>
requires std::is_enum_v<E>
void from_json(const Json& j, E& v) {
  std::string name;
  from_json(j, name);
  const std::optional<E> found = from_name<E>(name);
  if (!found) throw BadJson{"has an unknown name '" + name + "'"};
  v = *found;
}

template <class T>
concept HasFields = requires(Writer& w, T& v) {
  fields(w, v);
};

template <class T>
requires HasFields<T> Json to_json(const T& v);
template <class T>
requires HasFields<T>
void from_json(const Json& j, T& v);

template <class T>
Json to_json(const std::vector<T>& all) {
  Json out = Json::array();
  for (const T& one : all) out.push_back(to_json(one));
  return out;
}

template <class T>
void from_json(const Json& j, std::vector<T>& all) {
  if (!j.is_array()) throw BadJson{"must be a list"};
  all.assign(j.size(), T{});
  for (std::size_t i = 0; i < j.size(); ++i) from_json(j[i], all[i]);
}

inline Json to_json(const std::map<std::string, std::string>& all) {
  Json out = Json::object();
  for (const auto& [key, value] : all) out[key] = value;
  return out;
}

inline void from_json(const Json& j, std::map<std::string, std::string>& all) {
  if (!j.is_object()) throw BadJson{"must be a map"};
  for (const auto& [key, value] : j.items()) from_json(value, all[key]);
}

class Writer {
 public:
  Json json = Json::object();

  template <class T>
  void operator()(const char* key, const T& value) {
    json[key] = to_json(value);
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) json[key] = to_json(*value);
  }
  void unless_zero(const char* key, std::int64_t value) {
    if (value != 0) json[key] = value;
  }
  void unless_false(const char* key, bool value) {
    if (value) json[key] = true;
  }
};

class Reader {
 public:
  explicit Reader(const Json& j) : json_(j) {
    if (!j.is_object()) throw BadJson{"must be a map"};
  }

  template <class T>
  void operator()(const char* key, T& value) {
    const auto at = json_.find(key);
    if (at == json_.end()) throw BadJson{"lacks the key '" + std::string(key) + "'"};
    read(key, *at, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const auto at = json_.find(key);
    if (at == json_.end()) return;
    T present{};
    read(key, *at, present);
    value = std::move(present);
  }
  void unless_zero(const char* key, std::int64_t& value) {
    const auto at = json_.find(key);
    if (at != json_.end()) read(key, *at, value);
  }
  void unless_false(const char* key, bool& value) {
    const auto at = json_.find(key);
    if (at != json_.end()) read(key, *at, value);
  }

 private:
  const Json& json_;

  template <class T>
  static void read(const char* key, const Json& j, T& value) {
    try {
      from_json(j, value);
    } catch (const BadJson& problem) {
      throw BadJson{"'" + std::string(key) + "' " + problem.message};
    }
  }
};

template <class T>
requires HasFields<T> Json to_json(const T& v) {
  Writer w;
  fields(w, const_cast<T&>(v));  // NOLINT: a writer only reads
  return std::move(w.json);
}

template <class T>
requires HasFields<T>
void from_json(const Json& j, T& v) {
  Reader r(j);
  fields(r, v);
}

template <class A>
void fields(A& a, RankGroup& g) {
  a("size", g.size), a("stride", g.stride), a("nodes", g.nodes), a("concurrent", g.concurrent);
  a.unless_zero("run", g.run), a.unless_zero("jump", g.jump), a.unless_zero("period", g.period);
}
template <class A>
void fields(A& a, CollectiveOperation& c) {
  a("collective", c.collective), a("bytes", c.bytes), a("dtype", c.dtype), a("group", c.group);
  a("bidirectional", c.bidirectional), a.unless_false("ping_pong", c.ping_pong);
}
template <class A>
void fields(A& a, GemmOperation& g) {
  a("m", g.m), a("n", g.n), a("k", g.k), a("count", g.count), a("layout", g.layout);
  a("precision", g.precision), a("accumulate", g.accumulate);
}
template <class A>
void fields(A& a, AttentionOperation& o) {
  a("batch", o.batch), a("heads", o.heads), a("kv_heads", o.kv_heads), a("queries", o.queries);
  a("keys", o.keys), a("qk_dim", o.qk_dim), a("v_dim", o.v_dim), a("causal", o.causal);
  a("backward", o.backward), a("dtype", o.dtype);
}
template <class A>
void fields(A& a, MemoryOperation& m) {
  a("kernel", m.kernel), a("rows", m.rows), a("columns", m.columns), a("dtype", m.dtype);
}
template <class A>
void fields(A& a, CopyOperation& c) {
  a("direction", c.direction), a("bytes", c.bytes);
}
template <class A>
void fields(A& a, LaunchOperation& l) {
  a("kernels", l.kernels), a("graph", l.graph);
}
template <class A>
void fields(A& a, OverlapOperation& o) {
  a("compute", o.compute), a("communication", o.communication);
}
template <class A>
void fields(A& a, OverlapTimes& t) {
  a("compute_alone_s", t.compute_alone), a("communication_alone_s", t.communication_alone);
  a("compute_beside_s", t.compute_beside), a("communication_beside_s", t.communication_beside);
}
template <class A>
void fields(A& a, SteadyTimes& t) {
  a("median_s", t.median), a("spread", t.spread), a("lasted_s", t.lasted);
  a("settled", t.settled), a("clock", t.clock);
}
template <class A>
void fields(A& a, Sample& s) {
  a("operation", s.operation), a("median_s", s.median), a("spread", s.spread);
  a("calls", s.calls), a.unless_zero("taken", s.taken), a("outliers", s.outliers);
  a("throttled", s.throttled), a("clock", s.clock), a("steady", s.steady);
  a("slowest_rank", s.slowest_rank), a("lag", s.lag), a("quiet", s.quiet);
  a("host_median_s", s.host_median), a("overlap", s.overlap);
  a("correctness", s.correctness), a("note", s.note), a("times_s", s.times);
}
template <class A>
void fields(A& a, RankPlace& p) {
  a("rank", p.rank), a("local_rank", p.local_rank), a("node", p.node), a("host", p.host);
  a("device", p.device), a("device_id", p.device_id);
}
template <class A>
void fields(A& a, Machine& m) {
  a("backend", m.backend), a("accelerator", m.accelerator), a("nodes", m.nodes);
  a("ranks_per_node", m.ranks_per_node), a("device_memory_bytes", m.device_memory);
  a("versions", m.versions), a("environment", m.environment), a("date", m.date);
  a("time_sliced", m.time_sliced), a("ranks", m.ranks);
}

// Throws BadJson.
[[nodiscard]] Json parse(std::string_view text);

}  // namespace meshplan::probe_json
