#include "io/limits.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>

#include "base/text.hpp"
#include "io/key_values.hpp"
#include "io/strategy_file.hpp"
#include "io/unknown_key.hpp"
#include "io/yaml_reader.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

LimitOp op_of(std::string_view text) {
  if (text == "<=") return LimitOp::kAtMost;
  if (text == ">=") return LimitOp::kAtLeast;
  if (text == "<") return LimitOp::kBelow;
  if (text == ">") return LimitOp::kAbove;
  return LimitOp::kEqual;
}

// Reads one value of a key of type T into the limit.
template <class T>
bool read_limit_value(Document& d, const std::string& key, const YamlNode& node, Limit& limit) {
  T value{};
  if (!read_value(d, key, node, value)) return false;
  limit.values.emplace_back(std::move(value));
  return true;
}

class LimitReader {
 public:
  explicit LimitReader(Document& d) : d_(d) {}

  void read(const KeyItem& item) {
    bool known = false;
    const Strategy types;
    for_each_key(types, [&](std::string_view key, const auto& member) {
      if (key != item.key.text) return;
      known = true;
      read_typed<std::remove_cvref_t<decltype(member)>>(item);
    });
    if (!known) refuse_unknown(item);
  }

  std::vector<Limit> take() { return std::move(limits_); }

 private:
  template <class T>
  void read_typed(const KeyItem& item) {
    const std::string& key = item.key.text;
    Limit limit{key, op_of(item.op), {}};
    const bool ordered = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
    if (limit.op != LimitOp::kEqual && (!ordered || item.values.size() > 1)) {
      d_.report(item.key, key,
                ordered ? "'" + key + item.op + "' needs exactly one number"
                        : "'" + key + "' has no order: '" + item.op + "' cannot compare it",
                "write " + key + "=value");
      return;
    }
    for (const YamlNode& node : item.values) {
      if (node.kind == YamlNode::Kind::kNull) {
        d_.report(item.key, key, "'" + key + "' has no value");
        return;
      }
      if (!read_limit_value<T>(d_, key, node, limit)) return;
    }
    limits_.push_back(std::move(limit));
  }

  // As a map would report it: with the nearest known key.
  void refuse_unknown(const KeyItem& item) {
    YamlNode map;
    map.kind = YamlNode::Kind::kMap;
    map.entries.push_back({item.key, item.values.front()});
    MapReader r(d_, map);
    for (const std::string_view key : strategy_keys()) (void)r.has(key);
    r.refuse_unknown();
  }

  Document& d_;
  std::vector<Limit> limits_;
};

}  // namespace

Result<std::vector<Limit>> parse_limits(std::string_view text, const std::string& flag) {
  const Result<std::vector<KeyItem>> items = parse_key_items(text, flag);
  if (!items) return items.errors();
  YamlNode root;
  root.kind = YamlNode::Kind::kMap;
  Document document(std::move(root), text, flag);
  LimitReader reader(document);
  for (const KeyItem& item : *items) reader.read(item);
  if (!document.ok()) return document.diagnostics();
  return reader.take();
}

Result<std::vector<Limit>> parse_free_keys(std::string_view text, const std::string& flag) {
  std::vector<Limit> freed;
  Diagnostics problems;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string key(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::span<const std::string_view> keys = strategy_keys();
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      freed.push_back({key, LimitOp::kFree, {}});
      continue;
    }
    problems.push_back(error_at({flag}, "unknown key '" + key + "'", hint_for_unknown(key, keys)));
  }
  if (!problems.empty()) return problems;
  return freed;
}

}  // namespace meshplan
