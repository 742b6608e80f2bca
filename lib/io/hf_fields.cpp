#include "io/hf_fields.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace meshplan {
namespace {

// A mapping without keys.
const YamlNode& no_keys() {
  static const YamlNode node = [] {
    YamlNode map;
    map.kind = YamlNode::Kind::kMap;
    return map;
  }();
  return node;
}

std::string spelled(const HfNames& names) {
  std::vector<std::string> quoted;
  for (const std::string_view name : names) quoted.push_back("'" + std::string(name) + "'");
  return join_words(quoted, " or ");
}

// Values by which a file says that it has no such thing.
bool is_off(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kNull) return true;
  if (node.kind == YamlNode::Kind::kScalar) {
    return node.text == "false" || node.text == "0" || node.text == "0.0" || node.text.empty();
  }
  return node.items.empty() && node.entries.empty();
}

bool same_value(const YamlNode& a, const YamlNode& b) {
  return a.kind == b.kind && a.text == b.text;
}

}  // namespace

HfFields::HfFields(Document& document, const YamlNode& map, HfOrigins& origins)
    : document_(&document), map_(&map), origins_(&origins), asked_(std::make_shared<Asked>()) {}

void HfFields::ask(const HfNames& names) const {
  for (const std::string_view name : names) asked_->keys.emplace(name);
}

bool HfFields::is_list(const HfNames& names) const {
  for (const std::string_view name : names) {
    const YamlNode* node = map_->find(name);
    if (node != nullptr && node->kind == YamlNode::Kind::kSequence) return true;
  }
  return false;
}

void HfFields::add_unread(const YamlNode& map, const Asked& asked, const std::string& prefix,
                          std::vector<std::string>& keys) {
  for (const auto& [name, node] : map.entries) {
    const auto section = asked.sections.find(name.text);
    if (section != asked.sections.end() && node.kind == YamlNode::Kind::kMap) {
      add_unread(node, *section->second, prefix + name.text + ".", keys);
    } else if (!asked.keys.contains(name.text) && !is_off(node)) {
      keys.push_back(prefix + name.text);
    }
  }
}

std::vector<std::string> HfFields::unread() const {
  std::vector<std::string> keys;
  add_unread(*map_, *asked_, "", keys);
  return keys;
}

bool HfFields::has(const HfNames& names) const {
  ask(names);
  for (const std::string_view name : names) {
    const YamlNode* node = map_->find(name);
    if (node != nullptr && node->kind != YamlNode::Kind::kNull) return true;
  }
  return false;
}

bool HfFields::is_null(const HfNames& names) const {
  for (const std::string_view name : names) {
    const YamlNode* node = map_->find(name);
    if (node != nullptr) return !has(names);
  }
  return false;
}

// The first spelling that is present and not null; another one with another value is an error.
const YamlNode* HfFields::value(const HfNames& names) {
  ask(names);
  const YamlNode* found = nullptr;
  std::string_view found_name;
  for (const std::string_view name : names) {
    const YamlNode* node = map_->find(name);
    if (node == nullptr || node->kind == YamlNode::Kind::kNull) continue;
    if (found == nullptr) {
      found = node;
      found_name = name;
    } else if (!same_value(*found, *node)) {
      document_->report(*node, std::string(name),
                        "'" + std::string(name) + "' contradicts '" + std::string(found_name) +
                            "' (" + found->text + "), another spelling of the same key");
    }
  }
  return found;
}

const YamlNode& HfFields::nearest_node(const HfNames& names) const {
  for (const std::string_view name : names) {
    if (const YamlNode* node = map_->find(name)) return *node;
  }
  return *map_;
}

void HfFields::error(const HfNames& names, const std::string& message, const std::string& hint) {
  const std::string key = names.empty() ? std::string() : std::string(names.front());
  document_->report(nearest_node(names), key, message, hint);
}

std::int64_t HfFields::integer(const std::string& key, const HfNames& names, std::int64_t fallback,
                               IntegerRange range) {
  const YamlNode* node = value(names);
  if (node == nullptr) return fallback;
  const std::string name{names.front()};
  std::int64_t number = 0;
  if (!read_value(*document_, name, *node, number)) return fallback;
  if (number >= range.lowest && number <= range.highest) {
    (*origins_)[key] = node;
    return number;
  }
  document_->report(*node, name,
                    "'" + name + "' must be from " + with_thousands(range.lowest) + " to " +
                        with_thousands(range.highest) + ", got " + std::to_string(number));
  return fallback;
}

std::int64_t HfFields::size(const std::string& key, const HfNames& names, std::int64_t largest) {
  if (!has(names)) {
    error(names, spelled(names) + " is missing",
          "this size has no default: the file does not describe a whole model");
    return 1;
  }
  return integer(key, names, 1, {1, largest});
}

std::int64_t HfFields::size_or(const std::string& key, const HfNames& names,
                               std::int64_t fallback) {
  return integer(key, names, fallback, {1, kLargestHfSize});
}

std::int64_t HfFields::count_or(const std::string& key, const HfNames& names,
                                std::int64_t fallback) {
  return integer(key, names, fallback, {0, kLargestHfSize});
}

std::int64_t HfFields::index_or(const std::string& key, const HfNames& names,
                                std::int64_t fallback) {
  if (is_list(names)) return first_count_or(key, names, fallback);
  return integer(key, names, fallback, {-1, kLargestHfSize});
}

double HfFields::real_or(const std::string& key, const HfNames& names, double fallback) {
  const YamlNode* node = value(names);
  if (node == nullptr) return fallback;
  double number = fallback;
  if (!read_value(*document_, std::string(names.front()), *node, number)) return fallback;
  (*origins_)[key] = node;
  return number;
}

bool HfFields::flag_or(const HfNames& names, bool fallback) {
  const YamlNode* node = value(names);
  bool flag = fallback;
  if (node != nullptr) read_value(*document_, std::string(names.front()), *node, flag);
  return flag;
}

std::string HfFields::text_or(const HfNames& names, const std::string& fallback) {
  const YamlNode* node = value(names);
  std::string text = fallback;
  if (node != nullptr) read_value(*document_, std::string(names.front()), *node, text);
  return text;
}

std::vector<std::int64_t> HfFields::counts(const HfNames& names) {
  const YamlNode* node = value(names);
  std::vector<std::int64_t> items;
  if (node != nullptr) read_value(*document_, std::string(names.front()), *node, items);
  for (const std::int64_t item : items) {
    if (item >= 0) continue;
    error(names, "'" + std::string(names.front()) + "' holds a negative number");
    return {};
  }
  return items;
}

std::vector<std::string> HfFields::texts(const HfNames& names) {
  const YamlNode* node = value(names);
  if (node == nullptr) return {};
  if (node->kind != YamlNode::Kind::kSequence) {
    error(names, "'" + std::string(names.front()) + "' must be a list of words");
    return {};
  }
  std::vector<std::string> items;
  for (const YamlNode& item : node->items) {
    std::string text;
    if (!read_value(*document_, std::string(names.front()), item, text)) return {};
    items.push_back(std::move(text));
  }
  return items;
}

std::int64_t HfFields::first_count_or(const std::string& key, const HfNames& names,
                                      std::int64_t fallback) {
  if (!is_list(names)) return count_or(key, names, fallback);
  const std::vector<std::int64_t> all = counts(names);
  return all.empty() ? fallback : std::min(all.front(), kLargestHfSize);
}

std::vector<HfFields> HfFields::sections(std::string_view name) {
  std::vector<HfFields> all;
  const YamlNode* node = value({name});
  if (node == nullptr || node->kind != YamlNode::Kind::kSequence) return all;
  for (const YamlNode& item : node->items) {
    if (item.kind == YamlNode::Kind::kMap) all.emplace_back(*document_, item, *origins_);
  }
  if (all.size() == node->items.size()) return all;
  error({name}, "'" + std::string(name) + "' must be a list of mappings");
  return {};
}

HfFields HfFields::section(std::string_view name) {
  const YamlNode* node = value({name});
  if (node != nullptr && node->kind != YamlNode::Kind::kMap) {
    error({name}, "'" + std::string(name) + "' must be a mapping");
    node = nullptr;
  }
  HfFields inner{*document_, node == nullptr ? no_keys() : *node, *origins_};
  const auto [same, is_new] = asked_->sections.emplace(std::string(name), inner.asked_);
  if (!is_new) inner.asked_ = same->second;
  return inner;
}

}  // namespace meshplan
