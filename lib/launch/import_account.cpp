#include "launch/import_account.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "base/text.hpp"

namespace meshplan {

std::vector<std::string> left_out_texts(const ImportedRun& run) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const ReadOption& option : run.options) {
    if (option.effect != OptionEffect::kNotModelled) continue;
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == option.what; });
    if (same == groups.end()) {
      groups.push_back({option.what, {option.name}});
    } else {
      same->second.push_back(option.name);
    }
  }
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const auto& [what, names] : groups) texts.push_back(join_words(names) + ": " + what);
  return texts;
}

std::vector<std::string> assumed_texts(const ImportedRun& run) {
  std::vector<std::string> texts;
  texts.reserve(run.assumed.size());
  for (const AssumedValue& a : run.assumed) {
    texts.push_back(a.what + " " + a.value + " (" + a.source + ")");
  }
  return texts;
}

Diagnostics account_findings(const ImportedRun& run, const OptionTable& table,
                             const std::string& file) {
  Diagnostics all;
  const std::size_t named = std::min(run.unknown.size(), OptionTable::kMostNamed);
  for (const std::string& name : std::span(run.unknown).first(named)) {
    const std::optional<std::string> meant = table.nearest(name);
    Diagnostic d =
        error_at({file}, "there is no option " + name, meant ? "did you mean " + *meant + "?" : "");
    const auto place = run.places.find(name);
    if (place != run.places.end()) {
      d.where = place->second.where;
      d.source_line = *place->second.source_line;
    }
    all.push_back(std::move(d));
  }
  if (const std::size_t more = run.unknown.size() - named; more > 0) {
    all.push_back(error_at({file}, more_unknown_options(more)));
  }
  const auto note = [&](const std::string& text) {
    Diagnostic d = error_at({file}, text);
    d.severity = Severity::kNote;
    all.push_back(std::move(d));
  };
  for (const std::string& text : left_out_texts(run)) note("not modelled: " + text);
  if (!run.assumed.empty()) note("assumed: " + join_words(assumed_texts(run)));
  return all;
}

std::string account_text(const ImportedRun& run) {
  const auto count = [&](OptionEffect effect) {
    return std::count_if(run.options.begin(), run.options.end(),
                         [&](const ReadOption& option) { return option.effect == effect; });
  };
  if (run.options.empty()) return {};
  const auto total = run.options.size() + run.unknown.size();
  std::string text = std::to_string(total) +
                     " options: " + std::to_string(count(OptionEffect::kModelled)) + " modelled, " +
                     std::to_string(count(OptionEffect::kNoEffect)) +
                     " without effect on time and memory, " +
                     std::to_string(count(OptionEffect::kNotModelled)) + " not modelled";
  if (!run.unknown.empty()) text += ", " + std::to_string(run.unknown.size()) + " unknown";
  return text;
}

}  // namespace meshplan
