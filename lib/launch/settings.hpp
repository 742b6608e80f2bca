#pragma once
// Settings of a framework by their dotted names, from a configuration file and from options of a
// command line, with typed access that collects every problem with its position.
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"
#include "launch/imported_run.hpp"
#include "launch/program_options.hpp"
#include "launch/shell_words.hpp"

namespace meshplan {

class Settings {
 public:
  struct Setting {
    YamlNode value;  // kNull: an option without a value
    SettingPlace place;
  };

  // Every value below `root` that is no map, as "section.key"; `text` is where positions point to.
  void add(const YamlNode& root, std::string_view text, const std::string& file);
  // An option of a command line or script, over what a file says.
  void add(const std::string& name, const ShellWord& word, const ShellWord* value,
           const ShellScript& script, const std::string& file);

  [[nodiscard]] const Setting* find(const std::string& name);
  [[nodiscard]] bool has(const std::string& name) { return find(name) != nullptr; }
  // What is set otherwise or not at all gives `otherwise`, the former with a problem.
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise);
  // The same of a number that is set outside of `range`.
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise,
                                     IntegerRange range);
  [[nodiscard]] bool flag(const std::string& name, bool otherwise);
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = {});

  // What `over` sets goes before what this sets.
  void add_over(const Settings& over);

  // "auto" and null stand for what another program fills in: as if they were absent.
  void leave_out(std::string_view value, std::vector<std::string>& names);

  void report(const std::string& name, std::string message, std::string hint = {});
  [[nodiscard]] const Diagnostics& problems() const { return problems_; }

  [[nodiscard]] std::map<std::string, SettingPlace, std::less<>> places() const;
  [[nodiscard]] std::vector<std::string> not_read() const;
  [[nodiscard]] const std::map<std::string, Setting>& all() const { return all_; }

 private:
  std::map<std::string, Setting> all_;
  std::set<std::string> read_;
  Diagnostics problems_;
};

// A run and the settings that say it.
struct SettingsRun : ImportedRun {
  Settings settings;
};

}  // namespace meshplan
