#include "spec/strategy_keys.hpp"

#include <array>
#include <charconv>

#include "base/check.hpp"

namespace meshplan {
namespace {

constexpr std::array kShortNames{
    std::pair{"dp", &Strategy::dp},   std::pair{"vp", &Strategy::vp},
    std::pair{"cp", &Strategy::cp},   std::pair{"ep", &Strategy::ep},
    std::pair{"etp", &Strategy::etp},
};

}  // namespace

std::string key_text(std::int64_t value) { return std::to_string(value); }
std::string key_text(int value) { return std::to_string(value); }
std::string key_text(bool value) { return value ? "true" : "false"; }

std::string key_text(double value) {
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

std::string key_text(const std::vector<std::int64_t>& value) {
  std::string text = "[";
  for (std::size_t i = 0; i < value.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(value[i]);
  }
  return text + "]";
}

std::string key_text(const RankOrder& value) {
  std::string text;
  for (const Axis axis : value) text += (text.empty() ? "" : "-") + std::string(name_of(axis));
  return text;
}

std::span<const std::string_view> strategy_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> list;
    const Strategy s;
    for_each_key(s, [&](std::string_view key, const auto&) { list.push_back(key); });
    return list;
  }();
  return keys;
}

std::string value_text(const Strategy& s, std::string_view key) {
  std::string text;
  bool found = false;
  for_each_key(s, [&](std::string_view name, const auto& value) {
    if (name != key) return;
    text = key_text(value);
    found = true;
  });
  PLAN_CHECK(found);
  return text;
}

std::string to_text(const Strategy& s) {
  // A reader starts from the preset of the framework; dp is derived where it is not written.
  Strategy start = framework_preset(s.framework);
  start.dp = 0;
  std::vector<std::string> usual;
  for_each_key(start,
               [&](std::string_view, const auto& value) { usual.push_back(key_text(value)); });
  std::string text;
  std::size_t i = 0;
  for_each_key(s, [&](std::string_view key, const auto& value) {
    const std::string own = key_text(value);
    if (key == "framework" || own != usual[i]) {
      text += (text.empty() ? "" : ",") + std::string(key) + "=" + own;
    }
    ++i;
  });
  return text;
}

std::string short_text(const Strategy& s) {
  std::string text = "tp" + std::to_string(s.tp) + " pp" + std::to_string(s.pp);
  for (const auto& [name, member] : kShortNames) {
    const std::int64_t value = s.*member;
    if (value == 1 && std::string_view(name) != "dp") continue;
    if (std::string_view(name) == "etp" && s.ep == 1 && value == s.tp) continue;
    text += " " + std::string(name) + std::to_string(value);
  }
  text += " mbs" + std::to_string(s.micro_batch) + " zero" + std::to_string(s.zero);
  if (s.zero_group > 0) text += "/" + std::to_string(s.zero_group);
  if (s.sequence_parallel) text += " sp";
  if (s.pp > 1) text += " " + std::string(name_of(s.schedule));
  if (!s.stage_layers.empty()) text += " layers" + key_text(s.stage_layers);
  if (!s.recompute_layers.empty()) {
    text += " recompute" + key_text(s.recompute_layers);
  } else if (s.recompute != Recompute::kNone) {
    text += " recompute-" + std::string(name_of(s.recompute));
  }
  if (s.offload.optimizer) text += " offload-optimizer";
  if (s.offload.activations) text += " offload-activations";
  return text;
}

}  // namespace meshplan
