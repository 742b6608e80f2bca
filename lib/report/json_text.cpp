#include <algorithm>

#include "base/printable.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

bool is_plain(const Json& value) { return !value.is_structured() && !value.is_string(); }

// Numbers, truth values and nulls stand on one line, however many; everything else one per line.
bool on_one_line(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_plain);
}

// Names come from files that were checked to be UTF-8; a stray byte must still not end the run.
std::string compact(const Json& value) {
  return escaped_json(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void write(const Json& value, const std::string& indent, std::string& text) {
  if (!value.is_structured() || value.empty()) {
    text += compact(value);
    return;
  }
  const bool one_line = on_one_line(value), object = value.is_object();
  const std::string inner = indent + "  ";
  text += object ? '{' : '[';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) text += one_line ? ", " : ",";
    first = false;
    if (!one_line) text += '\n' + inner;
    if (object) text += compact(Json(key)) + ": ";
    write(item, inner, text);
  }
  if (!one_line) text += '\n' + indent;
  text += object ? '}' : ']';
}

}  // namespace

std::string document_text(const Json& document) {
  std::string text;
  write(document, "", text);
  return text + '\n';
}

}  // namespace meshplan
