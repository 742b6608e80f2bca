#include "spec/key_value.hpp"

#include "spec/strategy_keys.hpp"

namespace meshplan {

std::string key_text(const KeyValue& value) {
  return std::visit([](const auto& v) { return key_text(v); }, value);
}

}  // namespace meshplan
