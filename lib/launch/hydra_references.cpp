#include "launch/hydra_references.hpp"

#include <algorithm>
#include <string_view>

#include "base/quantity.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {
namespace {

constexpr int kDeepest = 16;

std::string without_margin(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

}  // namespace

Result<std::string> HydraReferences::resolved(const std::string& text) const {
  return resolved(text, 0);
}

Result<std::string> HydraReferences::resolved(std::string text, int depth) const {
  for (std::size_t end = 0; (end = text.find('}')) != std::string::npos;) {
    const std::size_t begin = text.rfind("${", end);
    if (begin == std::string::npos) break;
    if (depth++ > kDeepest) return error("references name each other: " + text);
    const Result<std::string> value = value_of(text.substr(begin + 2, end - begin - 2), depth);
    if (!value) return value.errors();
    text.replace(begin, end + 1 - begin, *value);
  }
  return text;
}

// What a function of omegaconf makes of its arguments; NeMo registers "multiply"
// (nemo/core/config/hydra_runner.py and the launcher's main.py).
std::optional<std::string> HydraReferences::called(const std::string& function,
                                                   const std::string& arguments) const {
  const std::size_t comma = arguments.find(',');
  const std::string first = without_margin(arguments.substr(0, comma));
  const std::string second =
      comma == std::string::npos ? std::string() : without_margin(arguments.substr(comma + 1));
  if (function == "oc.env") {
    const auto found = variables_.find(first);
    if (found != variables_.end()) return found->second;
    return comma == std::string::npos ? std::nullopt : std::optional(second);
  }
  const Result<std::int64_t> a = parse_integer(first), b = parse_integer(second);
  if (function != "multiply" || !a || !b || *a < 0 || *b < 0) return std::nullopt;
  return std::to_string(bounded_product({*a, *b}));
}

Result<std::string> HydraReferences::value_of(const std::string& name, int depth) const {
  if (const auto stated = variables_.find(name); stated != variables_.end()) return stated->second;
  const Diagnostic unknown =
      error("nothing says what ${" + name + "} is", "--set " + name + "=VALUE");
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
    const std::optional<std::string> value = called(name.substr(0, colon), name.substr(colon + 1));
    return value ? Result<std::string>(*value) : Result<std::string>(unknown);
  }
  std::string_view path = name;
  const YamlNode* node = &root_;
  constexpr std::string_view kWhole = "training.";  // where the launcher has the root
  if (path.starts_with('.')) {
    path.remove_prefix(1);
    node = &section_;
  } else if (path.starts_with(kWhole)) {
    path.remove_prefix(kWhole.size());
  }
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->kind == YamlNode::Kind::kMap ? node->find(path.substr(0, dot)) : nullptr;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  if (node == nullptr || node->kind != YamlNode::Kind::kScalar) return unknown;
  return resolved(node->text, depth);
}

}  // namespace meshplan
