#include "yaml_tree.hpp"

#include <charconv>
#include <cstdint>
#include <sstream>
#include <vector>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace meshplan::accuracy {
namespace {

using nlohmann::json;

template <class T>
bool whole_number(std::string_view text, T& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  std::int64_t integer = 0;
  if (whole_number(text, integer)) return integer;
  // from_chars would also read "inf" and "nan"; YAML writes those with a dot.
  const bool starts_as_number = text.find_first_of("0123456789") <= 2;
  double real = 0;
  if (starts_as_number && whole_number(text, real)) return real;
  return text;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  [[nodiscard]] json take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override { add({}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "aliases are not accepted");
  }
  void OnScalar(const YAML::Mark&, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    if (expects_key()) {
      frames_.back().key = value;
      frames_.back().has_key = true;
      return;
    }
    add(tag == "?" ? plain_scalar(value) : json(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, json::array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, json::object());
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    json value;
    std::string key;
    bool has_key = false;
  };

  [[nodiscard]] bool expects_key() const {
    return !frames_.empty() && frames_.back().value.is_object() && !frames_.back().has_key;
  }

  void open(const YAML::Mark& mark, json empty) {
    constexpr std::size_t kDeepest = 64;
    if (frames_.size() >= kDeepest) throw YAML::ParserException(mark, "nested too deeply");
    if (expects_key()) throw YAML::ParserException(mark, "a key must be a single word");
    frames_.push_back({std::move(empty), {}, false});
  }

  void close() {
    json done = std::move(frames_.back().value);
    frames_.pop_back();
    add(std::move(done));
  }

  void add(json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& top = frames_.back();
    if (top.value.is_array()) {
      top.value.push_back(std::move(value));
    } else if (!top.has_key) {  // a null key
      top.key.clear();
      top.has_key = true;
    } else {
      top.value.emplace(std::move(top.key), std::move(value));
      top.has_key = false;
    }
  }

  json root_;
  std::vector<Frame> frames_;
};

}  // namespace

Result<json> yaml_tree(const std::string& text, const std::string& file) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) return json();
    return builder.take();
  } catch (const YAML::Exception& e) {
    const bool known = e.mark.line >= 0;
    return error_at({file, known ? e.mark.line + 1 : 0, known ? e.mark.column + 1 : 0, 1},
                    "not valid YAML: " + e.msg);
  }
}

}  // namespace meshplan::accuracy
