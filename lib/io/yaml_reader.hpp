#pragma once
// Typed access to a YamlNode map that collects every problem, each with its position: missing keys,
// wrong types, unknown names with the nearest valid one. A format is then a list of lines
//   map.read("num_layers", m.num_layers, Need::kRequired);
// and a key that no line asked for is unknown.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "io/yaml_tree.hpp"
#include "spec/findings.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

enum class Need { kOptional, kRequired };

// A text that was parsed, and what is wrong with it.
class Document {
 public:
  // `file` is how diagnostics call the text. After a failed parse the root is an empty map.
  Document(std::string_view text, std::string file);
  // A tree that was not read from YAML, and the text that its positions point into.
  Document(YamlNode root, std::string_view text, std::string file);
  // A value inside of another document, to be read as a document of its own: same text and file.
  Document(const Document& whole, YamlNode part);

  [[nodiscard]] const YamlNode& root() const { return root_; }
  [[nodiscard]] const std::string& file() const { return file_; }

  // Reports at a node. `key` (dotted) is remembered, so that no follow-up of it is reported.
  void report(const YamlNode& at, const std::string& key, std::string message,
              std::string hint = {});
  // Adds diagnostics that have their positions already.
  void add(const Diagnostics& diagnostics);
  // Adds the findings whose keys were all read well, at the position of the first key they name.
  void add(const Findings& findings);

  // Enough was reported: what follows is not kept.
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool ok() const { return !has_errors(diagnostics_); }
  [[nodiscard]] const Diagnostics& diagnostics() const { return diagnostics_; }

  // Where a dotted key ("moe.top_k", "levels[0].span") stands: its value, else the nearest value
  // around it.
  [[nodiscard]] const YamlNode& node_of(std::string_view key) const;

 private:
  std::string file_;
  std::shared_ptr<const std::string> text_;  // shared with the documents of its parts
  YamlNode root_;
  Diagnostics diagnostics_;
  std::set<std::string, std::less<>> bad_keys_;

  void keep(Diagnostic d);
  // Something was reported at the key, around it or inside of it.
  [[nodiscard]] bool is_bad_key(std::string_view key) const;
};

// One map of a document. Keys that were asked for are the known ones.
class MapReader {
 public:
  // What a key without value or with null means: an error, or the same as no key at all (JSON).
  enum class Nulls { kRefused, kAbsent };

  // Reports if `node` is not a map, and then reads as if it were empty.
  MapReader(Document& document, const YamlNode& node, std::string path = {},
            Nulls nulls = Nulls::kRefused);

  // The value of a key, or null; the key becomes a known one.
  const YamlNode* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) { return find(key) != nullptr; }

  // Reads a value into `target` and says if there was a good one; else `target` stays as it is and,
  // unless an optional key is absent, a problem is reported.
  template <class T>
  bool read(std::string_view key, T& target, Need need = Need::kOptional);
  template <class T>
  bool read(std::string_view key, std::optional<T>& target, Need need = Need::kOptional);

  // A map or the items of a list below a key.
  std::optional<MapReader> map(std::string_view key, Need need = Need::kOptional);
  std::vector<const YamlNode*> list(std::string_view key, Need need = Need::kOptional);

  // Reports at a key of this map (or at the map, where the key is absent).
  void report(std::string_view key, std::string message, std::string hint = {});

  // Reports the keys that nothing asked for, with the nearest known one.
  void refuse_unknown();

  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] const YamlNode& node() const { return *node_; }
  [[nodiscard]] Document& document() { return *document_; }

 private:
  Document* document_;
  const YamlNode* node_;
  std::string path_;
  Nulls nulls_;
  bool readable_ = true;
  std::vector<std::string> known_;

  const YamlNode* present(std::string_view key, Need need);
};

// Reads one value; `key` is its dotted name in messages.
bool read_value(Document& d, const std::string& key, const YamlNode& node, std::int64_t& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, int& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, double& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, bool& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, std::string& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, Bytes& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, BytesPerSecond& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, FlopsPerSecond& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, Seconds& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node,
                std::vector<std::int64_t>& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node,
                std::vector<std::string>& target);

// Index of the name that a scalar spells; reports the choices otherwise.
std::optional<std::size_t> read_name(Document& d, const std::string& key, const YamlNode& node,
                                     std::span<const std::string_view> names);

template <class E>
requires std::is_enum_v<E>
bool read_value(Document& d, const std::string& key, const YamlNode& node, E& target) {
  static constexpr auto names = names_of<E>();
  const std::optional<std::size_t> index = read_name(d, key, node, names);
  if (index) target = NameTable<E>::rows[*index].value;
  return index.has_value();
}

template <class T>
bool MapReader::read(std::string_view key, T& target, Need need) {
  const YamlNode* value = present(key, need);
  return value != nullptr && read_value(*document_, path_of(key), *value, target);
}

template <class T>
bool MapReader::read(std::string_view key, std::optional<T>& target, Need need) {
  T value{};
  if (!read(key, value, need)) return false;
  target = std::move(value);
  return true;
}

}  // namespace meshplan
