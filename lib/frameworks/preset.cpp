#include "frameworks/preset.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// Rows are added, never changed or moved: names of strategies point into them.
class Catalogue {
 public:
  Catalogue() {
    for (Preset& row : built_in_presets()) rows_.push_back(std::move(row));
  }

  void set_source(PresetSource source) {
    const std::unique_lock lock(mutex_);
    source_ = std::move(source);
  }

  // What is wrong with the source's rows, if anything is.
  Diagnostics read_source() {
    const std::unique_lock lock(mutex_);
    if (!source_) return problems_;
    const PresetSource source = std::exchange(source_, nullptr);
    Result<std::vector<Preset>> more = source();
    if (!more) return problems_ = more.errors();
    for (Preset& row : std::move(more).value()) rows_.push_back(std::move(row));
    return {};
  }

  // The first row that `wanted` accepts, or null.
  template <class Wanted>
  const Preset* find(const Wanted& wanted) {
    const std::shared_lock lock(mutex_);
    const auto row = std::find_if(rows_.begin(), rows_.end(), wanted);
    return row == rows_.end() ? nullptr : &*row;
  }

  std::vector<const Preset*> rows() {
    const std::shared_lock lock(mutex_);
    std::vector<const Preset*> all;
    for (const Preset& row : rows_) all.push_back(&row);
    return all;
  }

 private:
  std::shared_mutex mutex_;
  std::deque<Preset> rows_;
  PresetSource source_;
  Diagnostics problems_;
};

Catalogue& catalogue() {
  static Catalogue all;
  return all;
}

bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() != 4 && text.size() != 7 && text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kForm[i] == 'd' ? !digit : text[i] != '-') return false;
  }
  return true;
}

using Rows = std::vector<const Preset*>;

// The rows of a framework, newest first; an alias stands for its framework.
Rows rows_of(std::string_view framework) {
  const Rows all = catalogue().rows();
  const auto named = std::find_if(all.begin(), all.end(), [&](const Preset* row) {
    return row->alias == framework || row->framework_name == framework;
  });
  Rows own;
  if (named == all.end()) return own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [&](const Preset* row) { return row->framework_name == (*named)->framework_name; });
  std::stable_sort(own.begin(), own.end(),
                   [](const Preset* a, const Preset* b) { return a->date > b->date; });
  return own;
}

const Preset* row_of(const Rows& rows, std::string_view framework, std::string_view release) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Preset* row) {
    if (release.empty()) return row->alias == framework || row->framework_name == framework;
    if (row->release_name == release) return true;
    return is_date(release) && row->date.substr(0, release.size()) <= release;
  });
  return found == rows.end() ? nullptr : *found;
}

std::vector<std::string_view> framework_names() {
  std::vector<std::string_view> names;
  for (const Preset* row : catalogue().rows()) {
    for (const std::string_view name :
         {std::string_view(row->framework_name), std::string_view(row->alias)}) {
      const bool known = std::find(names.begin(), names.end(), name) != names.end();
      if (!name.empty() && !known) names.push_back(name);
    }
  }
  return names;
}

// "did you mean 'x'?", or all names.
std::string hint_of(std::string_view text, const std::vector<std::string_view>& names) {
  if (const auto meant = nearest(text, names)) return "did you mean '" + *meant + "'?";
  const std::vector<std::string> all(names.begin(), names.end());
  return "one of " + join_words(all, " or ");
}

Diagnostic unknown_framework(std::string_view framework) {
  return error("there is no framework '" + std::string(framework) + "'",
               hint_of(framework, framework_names()));
}

Diagnostic unknown_release(const Rows& rows, std::string_view release) {
  const Preset& oldest = *rows.back();
  const std::string wanted(release);
  if (is_date(release)) {
    return error("no release of " + oldest.framework_name + " is as old as " + wanted,
                 "the oldest known is " + oldest.release_name + " of " + oldest.date);
  }
  std::vector<std::string_view> names;
  for (const Preset* row : rows) names.push_back(row->release_name);
  const std::string hint = hint_of(release, names);
  return error(
      oldest.framework_name + " has no known release '" + wanted + "'",
      hint + (hint.back() == '?' ? " A" : "; a") + " date stands for the newest until then");
}

}  // namespace

bool is_preset_key(std::string_view key) {
  constexpr std::array<std::string_view, 5> kAlone{"zero", "master_weights", "grad_dtype",
                                                   "optimizer_dtype", "offload.weights"};
  const auto in = [&](std::string_view map) { return key.substr(0, map.size()) == map; };
  return in("overlap.") || in("kernels.") || in("runtime.") ||
         std::find(kAlone.begin(), kAlone.end(), key) != kAlone.end();
}

std::string_view name_of(ReshardKind k) {
  constexpr std::array<std::string_view, 5> kNames{"unchanged", "at-load", "with-option",
                                                   "converted", "no"};
  return kNames[static_cast<std::size_t>(k)];
}

void set_preset_source(PresetSource source) { catalogue().set_source(std::move(source)); }

Result<std::vector<const Preset*>> all_presets() {
  if (Diagnostics problems = catalogue().read_source(); has_errors(problems)) return problems;
  Rows all;
  for (const Preset* first : catalogue().rows()) {
    if (std::find(all.begin(), all.end(), first) != all.end()) continue;
    const Rows own = rows_of(first->framework_name);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Result<const Preset*> find_preset(std::string_view framework, std::string_view release) {
  if (const Preset* row = row_of(rows_of(framework), framework, release)) return row;
  if (Diagnostics problems = catalogue().read_source(); has_errors(problems)) return problems;
  const Rows rows = rows_of(framework);
  if (rows.empty()) return unknown_framework(framework);
  if (const Preset* row = row_of(rows, framework, release)) return row;
  return unknown_release(rows, release);
}

const Preset& preset_of(const Strategy& s) {
  if (s.release == Release{}) return newest_preset(s.framework);
  const Preset* row = catalogue().find([&](const Preset& p) {
    return p.release_name == s.release.text() && p.framework_name == s.framework.text();
  });
  PLAN_CHECK(row != nullptr);
  return *row;
}

const Preset& newest_preset(Framework f) {
  const Preset* row =
      catalogue().find([&](const Preset& p) { return p.framework_name == f.text(); });
  PLAN_CHECK(row != nullptr);
  return *row;
}

PresetValues values_of(const Strategy& s) {
  return {s.zero,    s.master_weights, s.grad_dtype,     s.optimizer_dtype,
          s.overlap, s.runtime,        s.offload.weights};
}

Strategy with_preset(Strategy s, const Preset& preset) {
  s.framework = preset.framework();
  s.release = preset.release();
  s.zero = preset.values.zero;
  s.master_weights = preset.values.master_weights;
  s.grad_dtype = preset.values.grad_dtype;
  s.optimizer_dtype = preset.values.optimizer_dtype;
  s.overlap = preset.values.overlap;
  s.runtime = preset.values.runtime;
  s.offload.weights = preset.values.offload_weights;
  return s;
}

Strategy with_preset(Strategy s, Framework f) {
  return with_preset(std::move(s), newest_preset(f));
}

Strategy framework_preset(Framework f) { return with_preset(Strategy{}, f); }

Strategy as_carried(Strategy s) {
  const bool by_bridge = has_adapters(s) || !s.frozen.empty();
  if (s.framework != Framework::kMegatron || !by_bridge) return s;
  if (&preset_of(s) == &newest_preset(s.framework)) s.runtime.inplace_cross_entropy = true;
  return s;
}

std::string full_name(const Preset& preset) {
  const bool newest = &newest_preset(preset.framework()) == &preset;
  return preset.framework_name + (newest ? "" : " " + preset.release_name);
}

std::vector<std::pair<std::string_view, std::string>> own_values(const Strategy& s) {
  // A reader starts from the preset of the framework; dp is derived where it is not written.
  const Preset& preset = preset_of(s);
  Strategy start = with_preset(Strategy{}, preset);
  start.dp = 0;
  start.lora = s.lora, start.frozen = s.frozen;
  start.runtime = as_carried(start).runtime;
  start.lora = {}, start.frozen = {};
  const bool newest = &newest_preset(s.framework) == &preset;
  std::vector<std::string> usual;
  for_each_key(start,
               [&](std::string_view, const auto& value) { usual.push_back(key_text(value)); });
  std::vector<std::pair<std::string_view, std::string>> own;
  std::size_t i = 0;
  for_each_key(s, [&](std::string_view key, const auto& value) {
    std::string text = key_text(value);
    const bool written = key == "framework" || (key == "release" ? !newest : text != usual[i]);
    if (written) own.emplace_back(key, std::move(text));
    ++i;
  });
  return own;
}

std::string to_text(const Strategy& s) {
  std::string text;
  for (const auto& [key, value] : own_values(s)) {
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + value;
  }
  return text;
}

}  // namespace meshplan
