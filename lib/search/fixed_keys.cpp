#include "search/fixed_keys.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

constexpr std::array<std::string_view, 18> kSearched{"tp",
                                                     "pp",
                                                     "vp",
                                                     "cp",
                                                     "cp_kind",
                                                     "ep",
                                                     "etp",
                                                     "dp",
                                                     "zero",
                                                     "zero_group",
                                                     "sequence_parallel",
                                                     "micro_batch",
                                                     "schedule",
                                                     "stage_layers",
                                                     "recompute",
                                                     "recompute_layers",
                                                     "offload.optimizer",
                                                     "offload.activations"};

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

bool read(std::string_view text, std::int64_t& value) { return read_number(text, value); }
bool read(std::string_view text, int& value) { return read_number(text, value); }
bool read(std::string_view text, double& value) { return read_number(text, value); }

bool read(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool read(std::string_view text, std::vector<std::int64_t>& value) {
  value.clear();
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::int64_t n = 0;
    if (!read_number(text.substr(0, comma), n)) return false;
    value.push_back(n);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

bool read(std::string_view text, RankOrder& value) {
  for (Axis& axis : value) {
    const std::size_t dash = std::min(text.find('-'), text.size());
    const std::optional<Axis> named = from_name<Axis>(text.substr(0, dash));
    if (!named) return false;
    axis = *named;
    text.remove_prefix(std::min(dash + 1, text.size()));
  }
  return text.empty();
}

template <class E>
requires std::is_enum_v<E>
bool read(std::string_view text, E& value) {
  const std::optional<E> named = from_name<E>(text);
  if (named) value = *named;
  return named.has_value();
}

// Every value of a key that has a list of them; empty otherwise.
std::vector<std::string> every_value(std::string_view key) {
  std::vector<std::string> all;
  const Strategy types;
  for_each_key(types, [&](std::string_view name, const auto& member) {
    using T = std::remove_cvref_t<decltype(member)>;
    if (name != key) return;
    if constexpr (std::is_same_v<T, bool>) all = {"false", "true"};
    if constexpr (std::is_enum_v<T>) {
      for (const auto& row : NameTable<T>::rows) all.emplace_back(row.name);
    }
  });
  return all;
}

// What `before` becomes under one limit on a key that is not searched.
std::vector<Strategy> limited(const std::vector<Strategy>& before, const Limit& limit) {
  std::vector<Strategy> after;
  for (const Strategy& s : before) {
    if (limit.op != LimitOp::kEqual) {
      if (satisfies(s, limit)) after.push_back(s);
      continue;
    }
    for (const std::string& text : limit.values) {
      Strategy changed = s;
      if (!assign(changed, limit.key, text)) continue;
      if (std::find(after.begin(), after.end(), changed) == after.end()) after.push_back(changed);
    }
  }
  return after;
}

}  // namespace

bool is_searched(std::string_view key) {
  return key == "order" || std::find(kSearched.begin(), kSearched.end(), key) != kSearched.end();
}

bool assign(Strategy& s, std::string_view key, std::string_view text) {
  if (key == "framework") {
    const std::optional<Framework> named = from_name<Framework>(text);
    if (!named) return false;
    if (*named != s.framework) s = with_preset(s, *named);
    return true;
  }
  bool good = false;
  for_each_key(s, [&](std::string_view name, auto& value) {
    if (name == key) good = read(text, value);
  });
  return good;
}

std::vector<std::int64_t> read_list(std::string_view text) {
  std::vector<std::int64_t> list;
  if (!read(text, list)) list.clear();
  return list;
}

Result<std::vector<Strategy>> fixed_bases(const Strategy& base, const std::vector<Limit>& limits) {
  std::vector<Limit> ordered;  // a framework's preset comes before the keys that override it
  for (const Limit& limit : limits) {
    if (is_searched(limit.key)) continue;
    ordered.push_back(limit);
    if (limit.op != LimitOp::kFree) continue;
    ordered.back() = {limit.key, LimitOp::kEqual, every_value(limit.key), 0};
    if (ordered.back().values.empty()) {
      return error("'" + limit.key + "' has no list of values to search",
                   "state some: --fix '" + limit.key + "=A|B'");
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const Limit& a, const Limit& b) {
    return a.key == "framework" && b.key != "framework";
  });
  std::vector<Strategy> bases{base};
  for (const Limit& limit : ordered) {
    std::vector<Strategy> left = limited(bases, limit);
    if (left.empty()) {
      return error("'" + to_text(limit) + "' excludes " + limit.key + "=" +
                       value_text(bases.front(), limit.key) + ", which the search does not vary",
                   "state the value with --fix " + limit.key + "=...");
    }
    bases = std::move(left);
  }
  // A key named twice must satisfy both.
  std::erase_if(bases, [&](const Strategy& s) { return !satisfies(s, ordered); });
  if (bases.empty()) return error("the fixed keys contradict each other");
  return bases;
}

}  // namespace meshplan
