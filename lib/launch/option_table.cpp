#include "launch/option_table.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"

namespace meshplan {

OptionTable::OptionTable(std::initializer_list<std::span<const OptionGroup>> lists) {
  for (const std::span<const OptionGroup> list : lists) {
    for (const OptionGroup& group : list) {
      std::string_view rest = group.names;
      while (true) {
        const std::size_t begin = rest.find_first_not_of(" \n");
        if (begin == std::string_view::npos) break;
        rest.remove_prefix(begin);
        std::string_view word = rest.substr(0, rest.find_first_of(" \n"));
        rest.remove_prefix(word.size());
        const std::size_t equals = std::min(word.find('='), word.size());
        const std::string_view listed =
            equals < word.size() ? word.substr(equals + 1) : std::string_view();
        word = word.substr(0, equals);
        const std::size_t slash = word.find('/');
        const char arity = slash == std::string_view::npos ? '1' : word[slash + 1];
        all_.emplace("--" + std::string(word.substr(0, slash)),
                     KnownOption{group.effect, group.what, arity, listed});
      }
    }
  }
}

namespace {

std::vector<std::string> parts_of(std::string_view listed) {
  std::vector<std::string> all;
  while (!listed.empty()) {
    const std::size_t end = std::min(listed.find('|'), listed.size());
    all.emplace_back(listed.substr(0, end));
    listed.remove_prefix(std::min(end + 1, listed.size()));
  }
  return all;
}

}  // namespace

bool KnownOption::leaves_out(std::string_view value) const {
  if (effect != OptionEffect::kNotModelled) return false;
  const std::vector<std::string> same = parts_of(listed);
  return std::none_of(same.begin(), same.end(), [&](const std::string& one) {
    return one == value || value.ends_with(" " + one);
  });
}

bool KnownOption::has_value(std::string_view value) const {
  if (effect == OptionEffect::kNotModelled || listed.empty() || value.empty()) return true;
  if (value == "None" || value == "null" || value == "none") return true;
  const std::vector<std::string> all = parts_of(listed);
  return std::find(all.begin(), all.end(), value.substr(value.rfind('.') + 1)) != all.end();
}

std::string KnownOption::choices() const { return join_words(parts_of(listed)); }

std::optional<KnownOption> OptionTable::find(std::string_view name) const {
  const auto found = all_.find(name);
  if (found == all_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> OptionTable::nearest(std::string_view name) const {
  std::vector<std::string_view> names;
  names.reserve(all_.size());
  for (const auto& [known, option] : all_) names.emplace_back(known);
  return meshplan::nearest(name, names);
}

const OptionTable& megatron_options() {
  static const OptionTable table{megatron_groups(), megatron_groups_beside(), pai_groups(),
                                 primus_groups(), nemo_groups()};
  return table;
}

const OptionTable& megatron_deepspeed_options() {
  static const OptionTable table{megatron_deepspeed_groups(), megatron_groups(),
                                 megatron_groups_beside()};
  return table;
}

std::string more_unknown_options(std::size_t count) {
  return "there are no options of " + std::to_string(count) + " more names";
}

}  // namespace meshplan
