#include "launch/program_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace meshplan {
namespace {

constexpr std::array<std::string_view, 22> kLauncher{
    "--nnodes",      "--nproc-per-node", "--node-rank",     "--master-addr",
    "--master-port", "--rdzv-backend",   "--rdzv-endpoint", "--rdzv-id",
    "--rdzv-conf",   "--standalone",     "--max-restarts",  "--tee",
    "--log-dir",     "--redirects",      "--role",          "--local-addr",
    "--num-nodes",   "--num-gpus",       "--hostfile",      "--include",
    "--exclude",     "--no-ssh-check"};

std::string dashed(std::string_view name) {
  std::string plain(name.substr(0, name.find('=')));
  std::replace(plain.begin(), plain.end(), '_', '-');
  return plain;
}

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::string digits;  // Python reads 9_765_625 as a number
  for (const char c : text) {
    if (c != '_' || digits.empty()) digits += c;
  }
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, value);
  if (failure == std::errc{} && stop == end) return value;
  return std::nullopt;
}

std::string joined(const std::vector<ShellWord>& values) {
  std::string text;
  for (const ShellWord& word : values) {
    text += (text.empty() ? "" : " ") + (word.unknown.empty() ? word.text : "$" + word.unknown);
  }
  return text;
}

}  // namespace

bool is_launcher_option(std::string_view name) {
  const std::string plain = dashed(name);
  return std::find(kLauncher.begin(), kLauncher.end(), plain) != kLauncher.end();
}

ProgramOptions::ProgramOptions(const ShellScript& script, const OptionTable& table,
                               std::string file)
    : script_(script), table_(table), file_(std::move(file)) {
  ProgramOption* last = nullptr;
  bool launcher = false;
  for (const ShellWord& word : script.words) {
    if (!word.text.starts_with("--")) {
      const bool takes =
          last != nullptr && (last->values.empty() || word.unknown.empty() || !word.text.empty());
      if (takes) last->values.push_back(word);
      if (!takes && !launcher && !word.unknown.empty()) loose_.push_back(word.unknown);
      continue;
    }
    const std::size_t equals = std::min(word.text.find('='), word.text.size());
    const std::string name = word.text.substr(0, equals);
    // Without a program's name the words of what starts it stand among its own.
    launcher = script.program.empty() && is_launcher_option(name);
    last = nullptr;
    if (launcher) continue;
    last = &all_[name];
    *last = {word, {}};
    if (equals < word.text.size()) {
      last->values.push_back({word.text.substr(equals + 1), word.line, word.column, word.unknown});
    }
  }
  // A flag takes no value: what stands behind it in place of one may hold options.
  for (auto& [name, option] : all_) {
    const std::optional<KnownOption> known = table.find(name);
    if (!known || known->arity != '0') continue;
    for (const ShellWord& word : option.values) {
      if (!word.unknown.empty()) loose_.push_back(word.unknown);
    }
    option.values.clear();
  }
}

const ProgramOption* ProgramOptions::find(const std::string& name) {
  read_.insert(name);
  const auto found = all_.find(name);
  return found == all_.end() || odd_value(name, found->second) != nullptr ? nullptr
                                                                          : &found->second;
}

void ProgramOptions::report(const ShellWord& at, const std::string& message,
                            const std::string& hint) {
  Diagnostic d =
      error_at({file_, at.line, at.column, static_cast<int>(at.text.size())}, message, hint);
  d.source_line = script_.line_of(at);
  problems_.push_back(std::move(d));
}

void ProgramOptions::report(const std::string& message, const std::string& hint) {
  problems_.push_back(error_at({file_}, message, hint));
}

std::string ProgramOptions::text(const std::string& name, const std::string& otherwise) {
  const ProgramOption* o = find(name);
  if (o == nullptr || o->values.empty()) return otherwise;
  const ShellWord& value = o->values.front();
  if (value.unknown.empty()) return value.text;
  open_[value.unknown].push_back(&o->name);
  return otherwise;
}

std::string ProgramOptions::path(const std::string& name) {
  const ProgramOption* o = find(name);
  return o == nullptr || o->values.empty() ? std::string() : o->values.front().text;
}

double ProgramOptions::real(const std::string& name, double otherwise) {
  const std::string value = text(name);
  double result = otherwise;
  const auto [stop, failure] = std::from_chars(value.data(), value.data() + value.size(), result);
  return failure == std::errc{} && std::isfinite(result) ? result : otherwise;
}

std::int64_t ProgramOptions::number(const std::string& name, std::int64_t otherwise,
                                    IntegerRange range) {
  const ProgramOption* o = find(name);
  if (o == nullptr) return otherwise;
  if (o->values.empty()) {
    report(o->name, name + " has no value",
           script_.program.empty() ? "" : "give the script its arguments, or --set NAME=VALUE");
    return otherwise;
  }
  const ShellWord& word = o->values.front();
  if (!word.unknown.empty()) {
    open_[word.unknown].push_back(&o->name);
    return otherwise;
  }
  const std::optional<std::int64_t> value = integer_in(word.text);
  if (!value) {
    report(word, name + " must be a whole number, got \"" + word.text + "\"");
    return otherwise;
  }
  const std::optional<std::string> wrong = out_of_range(name, *value, range);
  if (wrong) report(word, *wrong);
  return wrong ? otherwise : *value;
}

void ProgramOptions::unknown_option(const std::string& name, const ShellWord& at, bool lenient,
                                    ImportedRun& run) {
  run.unknown.push_back(name);
  if (lenient || run.unknown.size() > OptionTable::kMostNamed) return;
  const std::optional<std::string> meant = table_.nearest(name);
  report(
      at, "there is no option " + name,
      (meant ? "did you mean " + *meant + "? " : std::string()) + "--lenient goes on without it");
}

void ProgramOptions::account_open(bool lenient, ImportedRun& run) {
  // What depends on a condition that is asked for is said once.
  std::set<std::string> undecided;
  for (const UndecidedBranch& branch : script_.undecided) {
    undecided.insert(branch.options.begin(), branch.options.end());
  }
  for (const auto& [variables, options] : open_) {
    std::vector<std::string> names;
    for (const ShellWord* word : options) {
      const std::string name = word->text.substr(0, word->text.find('='));
      if (undecided.contains(name)) continue;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    if (names.empty()) continue;
    constexpr std::size_t kMost = 4;
    const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    if (more > 0) names.push_back(std::to_string(more) + " more");
    const bool command = variables.starts_with("$(");
    const bool nameless = variables.starts_with("argument") || variables.starts_with("the number");
    report(*options.front(),
           "nothing here says what " + variables + " is, and " + join_words(names) +
               (names.size() == 1 && more == 0 ? " needs it" : " need it"),
           command
               ? "give --set NAME=VALUE for the variable that holds it, or import what 'bash -x' "
                 "prints of the script"
           : nameless ? "give the script's arguments behind '--'"
                      : "give --set " + variables.substr(0, variables.find_first_of(" ,")) +
                            "=VALUE, or the script's arguments behind '--'");
  }
  for (const UndecidedBranch& branch : script_.undecided) {
    std::vector<std::string> names = branch.options;
    constexpr std::size_t kMost = 4;
    const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    if (more > 0) names.push_back(std::to_string(more) + " more options");
    const std::string what = "whether '" + branch.condition + "' holds is not known here, and " +
                             join_words(names) + (names.size() == 1 ? " depends" : " depend") +
                             " on it";
    if (lenient) {
      run.notes.push_back("line " + std::to_string(branch.line) + ": " + what +
                          ": taken as if it did not");
      continue;
    }
    report({branch.condition, branch.line, 1}, what,
           branch.variables.empty()
               ? "import what 'bash -x' prints of the script; --lenient goes on as if it did not"
           : branch.variables.starts_with("argument") || branch.variables.starts_with("the number")
               ? "give the script's arguments behind '--'"
               : "give --set " + branch.variables.substr(0, branch.variables.find_first_of(" ,")) +
                     "=VALUE, or the script's arguments behind '--'");
  }
}

// Variables that nothing in the script sets, where an option that says what is trained and how has
// their value.
void ProgramOptions::account_variables(ImportedRun& run) {
  std::set<std::string> used;
  const auto use = [&](const ShellWord& word) {
    if (!word.text.starts_with("--")) used.insert(word.text);
    const std::size_t equals = word.text.find('=');
    if (equals != std::string::npos) used.insert(word.text.substr(equals + 1));
  };
  for (const auto& [name, option] : all_) {
    const std::optional<KnownOption> known = table_.find(name);
    if (known && known->effect == OptionEffect::kNoEffect) continue;
    for (const ShellWord& word : option.values) use(word);
  }
  for (const ShellWord& word : script_.launcher) use(word);
  for (const auto& [name, value] : script_.defaults) {
    // Which node this is, and where the first one is.
    constexpr std::array<std::string_view, 5> kPlace{"NODE_RANK", "RANK", "MASTER_ADDR",
                                                     "MASTER_PORT", "SLURM_NODEID"};
    if (std::find(kPlace.begin(), kPlace.end(), name) != kPlace.end()) continue;
    const bool argument = name.find_first_not_of("0123456789") == std::string::npos;
    if (value.empty() ? argument || name.starts_with("argument") : !used.contains(value)) continue;
    run.assumed.push_back(
        {argument ? "argument " + name : name, value.empty() ? "empty" : value, "nothing sets it"});
  }
  for (const auto& [name, value] : script_.environment) {
    if (used.contains(value)) run.assumed.push_back({name, value, "the environment"});
  }
}

const ShellWord* ProgramOptions::odd_value(const std::string& name,
                                           const ProgramOption& option) const {
  const std::optional<KnownOption> known = table_.find(name);
  const auto odd = std::find_if(option.values.begin(), option.values.end(), [&](const auto& word) {
    return known && word.unknown.empty() && !known->has_value(word.text);
  });
  return odd == option.values.end() ? nullptr : &*odd;
}

void ProgramOptions::account(bool lenient, ImportedRun& run) {
  for (const auto& [name, option] : all_) {
    const ShellWord& at = option.name;
    const SettingPlace place{{file_, at.line, at.column, static_cast<int>(at.text.size())},
                             script_.shared_line_of(at)};
    run.places[name] = place;
    const std::optional<KnownOption> known = table_.find(name);
    if (!known) {
      unknown_option(name, at, lenient, run);
      continue;
    }
    const std::string value = joined(option.values);
    OptionEffect effect = known->effect;
    if (effect == OptionEffect::kNotModelled && !known->leaves_out(value)) {
      effect = OptionEffect::kModelled;
    }
    if (effect == OptionEffect::kNoEffect) run.not_read.push_back(name);
    std::string what(known->what);
    if (const ShellWord* odd = odd_value(name, option)) {
      effect = OptionEffect::kNotModelled;
      what = "a value that is not known is taken as if the option were not given";
      if (!lenient) {
        report(*odd, name + " has no value '" + odd->text + "'",
               "it is one of " + known->choices() + "; --lenient goes on as if it were not given");
      }
    }
    run.options.push_back({name, value, effect, what, place.where.line});
  }
  if (!lenient && run.unknown.size() > OptionTable::kMostNamed) {
    report(more_unknown_options(run.unknown.size() - OptionTable::kMostNamed), {});
  }
  account_open(lenient, run);
  std::sort(loose_.begin(), loose_.end());
  loose_.erase(std::unique(loose_.begin(), loose_.end()), loose_.end());
  for (const std::string& variable : loose_) {
    run.assumed.push_back({"options in $" + variable, "none", "nothing here sets it"});
  }
  account_variables(run);
  for (const std::string& name : script_.not_read) {
    run.notes.push_back("what " + name + " sets is not known: the file is not here");
  }
  if (script_.programs > 1) {
    run.notes.push_back("the file starts " + std::to_string(script_.programs) +
                        " programs that train: read is " + script_.program);
  }
}

}  // namespace meshplan
