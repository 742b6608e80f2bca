#include "base/json_shape.hpp"

#include <vector>

namespace meshplan {

bool is_within(std::string_view json, const JsonLimits& limits) {
  std::size_t values = 0;
  std::vector<std::size_t> keys{0};  // of every open bracket
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '[' || c == '{') keys.push_back(0);
    if ((c == ']' || c == '}') && keys.size() > 1) keys.pop_back();
    if (c == ':') ++keys.back();
    if (c == ',' || c == '[' || c == '{') ++values;
    if (keys.size() - 1 > limits.depth || values > limits.values || keys.back() > limits.keys) {
      return false;
    }
  }
  return true;
}

}  // namespace meshplan
