#include "report/model_yaml.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "model/parameters.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

// Words that YAML 1.1 or 1.2 reads as something other than text.
constexpr std::array<std::string_view, 9> kReserved{"true", "false", "null", "yes", "no",
                                                    "on",   "off",   "y",    "n"};

bool is_bare_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_word = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (text.empty() || !is_letter(text.front())) return false;
  if (!std::all_of(text.begin(), text.end(), is_word)) return false;
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kReserved.begin(), kReserved.end(), lower) == kReserved.end();
}

// The escapes of YAML's double-quoted text include those of JSON.
std::string scalar_text(const Json& value) {
  if (value.is_string() && is_bare_word(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return escaped_json(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Small mappings stay on one line: {kind: gqa}, those inside of them too.
std::string flow_text(const Json& map) {
  std::string text = "{";
  for (const auto& [key, value] : map.items()) {
    text += (text.size() > 1 ? ", " : "") + key + ": " +
            (value.is_object() ? flow_text(value) : scalar_text(value));
  }
  return text + "}";
}

}  // namespace

std::string model_yaml(const ModelSpec& m) {
  const ParameterCount n = parameter_count(m);
  std::string text = "# " + with_thousands(n.total) + " parameters";
  if (n.active != n.total) text += ", " + with_thousands(n.active) + " active";
  text += "\n";
  const Json keys = model_keys(m);  // items() keeps no copy
  for (const auto& [key, value] : keys.items()) {
    if (key == "attention") {
      text += key + ": " + flow_text(value) + "\n";
    } else if (value.is_array()) {
      text += key + ":\n";
      for (const Json& item : value) {
        text += "  - " + (item.is_object() ? flow_text(item) : scalar_text(item)) + "\n";
      }
    } else if (value.is_object()) {
      text += key + ":\n";
      for (const auto& [inner, leaf] : value.items()) {
        text +=
            "  " + inner + ": " + (leaf.is_object() ? flow_text(leaf) : scalar_text(leaf)) + "\n";
      }
    } else {
      text += key + ": " + scalar_text(value) + "\n";
    }
  }
  return text;
}

}  // namespace meshplan
