#include "frameworks/assign.hpp"

#include <algorithm>
#include <type_traits>

#include "base/check.hpp"
#include "frameworks/preset.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

bool assign_preset(Strategy& s, Framework framework, Release release) {
  const Result<const Preset*> preset = find_preset(framework.text(), release.text());
  if (!preset) return false;
  s = with_preset(s, **preset);
  return true;
}

std::vector<KeyValue> built_in_frameworks() {
  return {Framework::kMegatron, Framework::kMegatronDeepspeed, Framework::kDeepspeed,
          Framework::kFsdp, Framework::kTorchtitan};
}

}  // namespace

bool assign(Strategy& s, std::string_view key, const KeyValue& value) {
  if (key == "framework") {
    const auto framework = std::get<Framework>(value);
    return framework == s.framework || assign_preset(s, framework, Release{});
  }
  if (key == "release") {
    const auto release = std::get<Release>(value);
    return release == s.release || assign_preset(s, s.framework, release);
  }
  bool found = false;
  for_each_key(s, [&](std::string_view name, auto& member) {
    if (name != key) return;
    member = std::get<std::remove_cvref_t<decltype(member)>>(value);
    found = true;
  });
  PLAN_CHECK(found);
  return true;
}

std::vector<KeyValue> every_value(std::string_view key) {
  if (key == "framework") return built_in_frameworks();
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
