#include "io/yaml_reader.hpp"

#include <algorithm>
#include <tuple>

#include "base/quantity.hpp"
#include "base/text.hpp"
#include "io/unknown_key.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kMostDiagnostics = 100;

std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  constexpr std::size_t kShown = 60;
  if (node.text.size() <= kShown) return "\"" + node.text + "\"";
  std::size_t end = kShown;  // not in the middle of a character
  while (end > 0 && (static_cast<unsigned char>(node.text[end]) & 0xC0U) == 0x80U) --end;
  return "\"" + node.text.substr(0, end) + "...\"";
}

void report_type(Document& d, const std::string& key, const YamlNode& node, std::string_view wanted,
                 std::string hint = {}) {
  d.report(node, key, "'" + key + "' must be " + std::string(wanted) + ", got " + shown(node),
           std::move(hint));
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "010" is eight to some readers of YAML and ten to others.
bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

bool is_number_text(Document& d, const std::string& key, const YamlNode& node,
                    std::string_view wanted) {
  if (node.kind != YamlNode::Kind::kScalar) {
    report_type(d, key, node, wanted);
    return false;
  }
  if (node.quoted) {
    report_type(d, key, node, wanted, "leave out the quotes");
    return false;
  }
  if (has_leading_zero(node.text)) {
    report_type(d, key, node, wanted, "leave out the leading zero");
    return false;
  }
  return true;
}

// Takes over a quantity, or reports why the text is none.
template <class T>
bool take(Document& d, const std::string& key, const YamlNode& node,
          Result<T> (*parse)(std::string_view), T& target) {
  if (node.kind != YamlNode::Kind::kScalar) {
    report_type(d, key, node, "a number with a unit");
    return false;
  }
  const Result<T> value = parse(node.text);
  if (!value) {
    const Diagnostic& why = value.errors().front();
    d.report(node, key, "'" + key + "': " + why.message, why.hint);
    return false;
  }
  target = *value;
  return true;
}

// The longest prefix of a dotted key that names something: "levels[0].span" -> "levels[0]".
std::string_view parent_of(std::string_view key) {
  const std::size_t cut = key.find_last_of(".[");
  return cut == std::string_view::npos ? std::string_view{} : key.substr(0, cut);
}

// One step down from `node`: "span", or "[0]" of a list.
const YamlNode* step_down(const YamlNode& node, std::string_view& rest) {
  if (rest.starts_with('[')) {
    const Result<std::int64_t> index = parse_integer(rest.substr(1, rest.find(']') - 1));
    rest.remove_prefix(std::min(rest.find(']') + 1, rest.size()));
    if (!index || *index < 0 || static_cast<std::size_t>(*index) >= node.items.size())
      return nullptr;
    return &node.items[static_cast<std::size_t>(*index)];
  }
  if (rest.starts_with('.')) rest.remove_prefix(1);
  // A key of a flattened map holds dots itself.
  if (const YamlNode* whole = node.find(rest)) {
    rest = {};
    return whole;
  }
  const std::string_view word = rest.substr(0, rest.find_first_of(".["));
  rest.remove_prefix(word.size());
  return node.find(word);
}

}  // namespace

Document::Document(std::string_view text, std::string file)
    : file_(std::move(file)), text_(std::make_shared<const std::string>(normalised_lines(text))) {
  root_.kind = YamlNode::Kind::kMap;
  Result<YamlNode> parsed = parse_yaml(*text_, file_);
  if (parsed) {
    root_ = std::move(parsed).value();
  } else {
    diagnostics_ = parsed.errors();
  }
}

Document::Document(YamlNode root, std::string_view text, std::string file)
    : file_(std::move(file)),
      text_(std::make_shared<const std::string>(normalised_lines(text))),
      root_(std::move(root)) {}

Document::Document(const Document& whole, YamlNode part)
    : file_(whole.file_), text_(whole.text_), root_(std::move(part)) {}

void Document::report(const YamlNode& at, const std::string& key, std::string message,
                      std::string hint) {
  if (!key.empty()) bad_keys_.insert(key);
  if (full()) return;
  Diagnostic d =
      error_at({file_, at.line, at.column, at.length}, std::move(message), std::move(hint));
  d.source_line = line_of(*text_, at.line);
  keep(std::move(d));
}

void Document::add(const Diagnostics& diagnostics) {
  diagnostics_.insert(diagnostics_.end(), diagnostics.begin(), diagnostics.end());
}

void Document::add(const Findings& findings) {
  for (const Finding& finding : findings.all()) {
    const auto is_bad = [&](const std::string& key) { return is_bad_key(key); };
    if (full() || std::any_of(finding.keys.begin(), finding.keys.end(), is_bad)) continue;
    const YamlNode& at = finding.keys.empty() ? root_ : node_of(finding.keys.front());
    Diagnostic d = finding.diagnostic;
    d.where = {file_, at.line, at.column, at.length};
    d.source_line = line_of(*text_, at.line);
    keep(std::move(d));
  }
}

bool Document::is_bad_key(std::string_view key) const {
  for (std::string_view k = key; !k.empty(); k = parent_of(k)) {
    if (bad_keys_.contains(k)) return true;
  }
  for (const char separator : {'.', '['}) {
    const std::string below = std::string(key) + separator;
    const auto part = bad_keys_.lower_bound(below);
    if (part != bad_keys_.end() && part->starts_with(below)) return true;
  }
  return false;
}

bool Document::full() const { return diagnostics_.size() > kMostDiagnostics; }

// In the order of the text, however the keys were asked for.
void Document::keep(Diagnostic d) {
  if (diagnostics_.size() == kMostDiagnostics) {
    diagnostics_.push_back(error_at({file_}, "more problems follow that are not shown"));
    return;
  }
  const auto after = std::upper_bound(
      diagnostics_.begin(), diagnostics_.end(), d, [&](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.where.line, a.where.column) < std::tie(b.where.line, b.where.column);
      });
  diagnostics_.insert(after, std::move(d));
}

const YamlNode& Document::node_of(std::string_view key) const {
  const YamlNode* node = &root_;
  while (!key.empty()) {
    const YamlNode* below = step_down(*node, key);
    if (below == nullptr) break;
    node = below;
  }
  return *node;
}

MapReader::MapReader(Document& document, const YamlNode& node, std::string path, Nulls nulls)
    : document_(&document), node_(&node), path_(std::move(path)), nulls_(nulls) {
  if (node.kind == YamlNode::Kind::kMap) return;
  readable_ = false;
  const std::string what = path_.empty() ? "the file" : "'" + path_ + "'";
  document.report(node, path_, what + " must be a map of keys and values, got " + shown(node));
}

const YamlNode* MapReader::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const YamlNode* value = node_->find(key);
  const bool absent =
      value == nullptr || (nulls_ == Nulls::kAbsent && value->kind == YamlNode::Kind::kNull);
  return absent ? nullptr : value;
}

const YamlNode* MapReader::present(std::string_view key, Need need) {
  const YamlNode* value = find(key);
  if (value == nullptr) {
    if (need == Need::kRequired && readable_) report(key, "'" + path_of(key) + "' is missing");
    return nullptr;
  }
  if (value->kind == YamlNode::Kind::kNull) {
    // Nothing is there to point at but the key itself.
    const auto entry = std::find_if(node_->entries.begin(), node_->entries.end(),
                                    [&](const auto& e) { return e.first.text == key; });
    document_->report(entry->first, path_of(key), "'" + path_of(key) + "' has no value");
    return nullptr;
  }
  return value;
}

std::optional<MapReader> MapReader::map(std::string_view key, Need need) {
  const YamlNode* value = present(key, need);
  if (value == nullptr) return std::nullopt;
  MapReader below(*document_, *value, path_of(key), nulls_);
  if (!below.readable_) return std::nullopt;
  return below;
}

std::vector<const YamlNode*> MapReader::list(std::string_view key, Need need) {
  const YamlNode* value = present(key, need);
  std::vector<const YamlNode*> items;
  if (value == nullptr) return items;
  if (value->kind != YamlNode::Kind::kSequence) {
    report_type(*document_, path_of(key), *value, "a list");
    return items;
  }
  for (const YamlNode& item : value->items) items.push_back(&item);
  return items;
}

void MapReader::report(std::string_view key, std::string message, std::string hint) {
  const YamlNode* value = node_->find(key);
  document_->report(value == nullptr ? *node_ : *value, path_of(key), std::move(message),
                    std::move(hint));
}

void MapReader::refuse_unknown() {
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  for (const auto& [key, value] : node_->entries) {
    if (document_->full()) return;
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) continue;
    document_->report(key, path_of(key.text), "unknown key '" + path_of(key.text) + "'",
                      hint_for_unknown(key.text, known));
  }
}

std::string MapReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, std::int64_t& target) {
  constexpr std::string_view kWanted = "a whole number";
  if (!is_number_text(d, key, node, kWanted)) return false;
  const Result<std::int64_t> value = parse_integer(node.text);
  if (value) {
    target = *value;
    return true;
  }
  if (is_digits(node.text)) {
    d.report(node, key, "'" + key + "' is too large, got " + shown(node));
  } else {
    report_type(d, key, node, kWanted);
  }
  return false;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, int& target) {
  std::int64_t wide = 0;
  if (!read_value(d, key, node, wide)) return false;
  constexpr std::int64_t kLargest = 1 << 30;
  if (wide < -kLargest || wide > kLargest) {
    d.report(node, key, "'" + key + "' is too large, got " + shown(node));
    return false;
  }
  target = static_cast<int>(wide);
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, double& target) {
  if (!is_number_text(d, key, node, "a number")) return false;
  const Result<double> value = parse_real(node.text);
  if (!value) {
    report_type(d, key, node, "a number");
    return false;
  }
  target = *value;
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, bool& target) {
  const bool is_word = node.kind == YamlNode::Kind::kScalar && !node.quoted;
  if (is_word && (node.text == "true" || node.text == "false")) {
    target = node.text == "true";
    return true;
  }
  report_type(d, key, node, "true or false");
  return false;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, std::string& target) {
  if (node.kind != YamlNode::Kind::kScalar) {
    report_type(d, key, node, "text");
    return false;
  }
  target = node.text;
  return true;
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, Bytes& target) {
  return take(d, key, node, parse_bytes, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, BytesPerSecond& target) {
  return take(d, key, node, parse_bandwidth, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, FlopsPerSecond& target) {
  return take(d, key, node, parse_flop_rate, target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node, Seconds& target) {
  return take(d, key, node, parse_time, target);
}

namespace {

template <class T>
bool read_list(Document& d, const std::string& key, const YamlNode& node, const char* wanted,
               std::vector<T>& target) {
  if (node.kind != YamlNode::Kind::kSequence) {
    report_type(d, key, node, wanted);
    return false;
  }
  std::vector<T> values(node.items.size());
  bool good = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    good = read_value(d, key + "[" + std::to_string(i) + "]", node.items[i], values[i]) && good;
  }
  if (good) target = std::move(values);
  return good;
}

}  // namespace

bool read_value(Document& d, const std::string& key, const YamlNode& node,
                std::vector<std::int64_t>& target) {
  return read_list(d, key, node, "a list of whole numbers", target);
}

bool read_value(Document& d, const std::string& key, const YamlNode& node,
                std::vector<std::string>& target) {
  return read_list(d, key, node, "a list of texts", target);
}

std::optional<std::size_t> read_name(Document& d, const std::string& key, const YamlNode& node,
                                     std::span<const std::string_view> names) {
  if (node.kind == YamlNode::Kind::kScalar) {
    const auto found = std::find(names.begin(), names.end(), node.text);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  std::string choices;
  for (const std::string_view name : names)
    choices += (choices.empty() ? "" : ", ") + std::string(name);
  const std::optional<std::string> near =
      node.kind == YamlNode::Kind::kScalar ? nearest(node.text, names) : std::nullopt;
  report_type(d, key, node, "one of " + choices, near ? "did you mean '" + *near + "'?" : "");
  return std::nullopt;
}

}  // namespace meshplan
