#include "spec/key_value.hpp"

#include <type_traits>

#include "base/check.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {

std::string key_text(const KeyValue& value) {
  return std::visit([](const auto& v) { return key_text(v); }, value);
}

void assign(Strategy& s, std::string_view key, const KeyValue& value) {
  if (key == "framework") {
    const auto framework = std::get<Framework>(value);
    if (framework != s.framework) s = with_preset(s, framework);
    return;
  }
  bool found = false;
  for_each_key(s, [&](std::string_view name, auto& member) {
    if (name != key) return;
    member = std::get<std::remove_cvref_t<decltype(member)>>(value);
    found = true;
  });
  PLAN_CHECK(found);
}

std::vector<KeyValue> every_value(std::string_view key) {
  std::vector<KeyValue> all;
  const Strategy types;
  for_each_key(types, [&](std::string_view name, const auto& member) {
    using T = std::remove_cvref_t<decltype(member)>;
    if (name != key) return;
    if constexpr (std::is_same_v<T, bool>) all = {false, true};
    if constexpr (std::is_enum_v<T>) {
      for (const auto& row : NameTable<T>::rows) all.emplace_back(row.value);
    }
  });
  return all;
}

}  // namespace meshplan
