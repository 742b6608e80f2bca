#include "launch/shell_words.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "launch/shell_interpreter.hpp"
#include "launch/slurm_request.hpp"

namespace meshplan {
namespace {

using shell::Outcome;
using shell::Started;
using shell::Value;
using shell::without_folder;

ShellWord word_of(const Value& v) {
  ShellWord word{shell::text_of(v), 1, 1, shell::unknown_names(v)};
  if (!v.empty()) {
    word.line = v.front().line;
    word.column = v.front().column;
  }
  return word;
}

bool is_option(const ShellWord& word) { return word.text.starts_with("--"); }

// Modules of Python that start others.
constexpr std::array<std::string_view, 5> kLaunchers{
    "torch.distributed.run", "torch.distributed.launch", "torchrun", "accelerate.commands.launch",
    "deepspeed.launcher.runner"};

// Index of the word that names the program; the number of words where none does.
std::size_t program_in(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py")) return i;
    const bool module = words[i].text == "-m" || words[i].text == "--module";
    if (!module || i + 1 >= words.size()) continue;
    const std::string& name = words[i + 1].text;
    if (std::find(kLaunchers.begin(), kLaunchers.end(), name) == kLaunchers.end()) return i + 1;
  }
  return words.size();
}

// Options that only training programs have tell their commands from others.
constexpr std::array<std::string_view, 9> kMarks{"--num-layers",
                                                 "--hidden-size",
                                                 "--micro-batch-size",
                                                 "--deepspeed",
                                                 "--job.config",
                                                 "--deepspeed_config",
                                                 "--model.",
                                                 "--per_device_train_batch_size",
                                                 "--model_name_or_path"};

int marks_in(const std::vector<ShellWord>& words) {
  int marks = 0;
  for (const ShellWord& word : words) {
    for (const std::string_view mark : kMarks) {
      const bool prefix = mark.ends_with(".") || mark == "--job.config";
      const std::string_view name = std::string_view(word.text).substr(0, word.text.find('='));
      if (prefix ? name.starts_with(mark) : name == mark) ++marks;
    }
  }
  return marks;
}

std::vector<ShellWord> words_of(const std::vector<Value>& values) {
  std::vector<ShellWord> words;
  words.reserve(values.size());
  for (const Value& v : values) words.push_back(word_of(v));
  return words;
}

// All options that stand in a file which starts nothing.
std::vector<ShellWord> loose_options(const Outcome& outcome) {
  std::vector<std::vector<ShellWord>> parts;
  for (const Started& s : outcome.started) {
    if (!s.words.empty() && shell::text_of(s.words.front()).starts_with("--")) {
      parts.push_back(words_of(s.words));
    }
  }
  for (const auto& [name, variable] : outcome.variables) {
    std::vector<ShellWord> words;
    for (const Value& item : variable.items) {
      if (variable.array) {
        words.push_back(word_of(item));
        continue;
      }
      // An assigned text is split where it is used.
      Value rest;
      for (const shell::Segment& s : item) {
        for (std::size_t begin = 0; begin < s.text.size();) {
          const std::size_t at = s.text.find_first_not_of(" \t\r\n", begin);
          if (at == std::string::npos) break;
          const std::size_t end = std::min(s.text.find_first_of(" \t\r\n", at), s.text.size());
          words.push_back({s.text.substr(at, end - at), s.line, s.column + static_cast<int>(at)});
          begin = end;
        }
        if (!s.unknown.empty()) words.push_back(word_of({s}));
      }
    }
    const bool options = std::any_of(words.begin(), words.end(), is_option);
    if (options && is_option(words.front())) parts.push_back(std::move(words));
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.front().line, a.front().column) <
           std::pair(b.front().line, b.front().column);
  });
  // A text that others repeat stands there once.
  std::vector<ShellWord> all;
  std::map<std::pair<int, int>, bool> seen;
  for (const std::vector<ShellWord>& part : parts) {
    for (const ShellWord& word : part) {
      if (seen.emplace(std::pair(word.line, word.column), true).second) all.push_back(word);
    }
  }
  return all;
}

// What one way through the script comes to.
struct Way {
  Outcome outcome;
  std::vector<ShellWord> words, launcher;
  std::string program;
  std::map<std::string, ShellWord> environment;  // before the command
  std::size_t programs = 0;
  bool trains = false;
  std::map<std::string, std::string> signature;  // option -> values, of those that matter
};

std::map<std::string, std::string> signature_of(const std::vector<ShellWord>& words,
                                                const ShellInputs& inputs) {
  std::map<std::string, std::string> all;
  std::string* values = nullptr;
  for (const ShellWord& word : words) {
    if (!is_option(word)) {
      if (values != nullptr) *values += word.text + "\n" + word.unknown + "\n";
      continue;
    }
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(0, equals);
    values = nullptr;
    if (inputs.matters && !inputs.matters(name)) continue;
    values = &all[name];
    *values = equals == std::string::npos ? "" : word.text.substr(equals + 1) + "\n";
  }
  return all;
}

void choose_program(Way& way) {
  int most = 0;
  std::map<std::string, bool> names;
  for (const Started& s : way.outcome.started) {
    const std::string command = shell::text_of(s.words.front());
    if (command.starts_with("--")) continue;  // of an argument list
    const std::string name = without_folder(command);
    if (name == "cat" || name == "tee" || name == "sed") continue;
    std::vector<ShellWord> words = words_of(s.words);
    const std::size_t program = program_in(words);
    const int marks = marks_in(words);
    const bool options = std::count_if(words.begin(), words.end(), is_option) > 0;
    const int score = 2 * marks + (program < words.size() && options ? 1 : 0);
    if (marks > 1 && program < words.size()) names[words[program].text] = true;
    if (score <= most || marks == 0) continue;
    most = score;
    way.trains = true;
    const bool named = program < words.size();
    const std::size_t behind = named ? program + 1 : 1;
    const auto split = words.begin() + static_cast<std::ptrdiff_t>(named ? program : 1);
    way.program = named ? words[program].text : std::string();
    way.launcher.assign(std::move_iterator(words.begin()), std::move_iterator(split));
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(behind));
    way.words = std::move(words);
    way.environment.clear();
    for (const auto& [variable, value] : s.environment) {
      way.environment[variable] = word_of(value);
    }
  }
  way.programs = names.size();
}

// A command that starts processes, where no options tell a training program from others.
void choose_launcher(Way& way) {
  constexpr std::array<std::string_view, 6> kStart{"torchrun", "deepspeed",  "srun",
                                                   "mpirun",   "accelerate", "python"};
  for (const Started& s : way.outcome.started) {
    const std::vector<ShellWord> words = words_of(s.words);
    const std::string name = without_folder(words.front().text);
    const bool starts = std::find(kStart.begin(), kStart.end(), name) != kStart.end();
    const std::size_t program = program_in(words);
    const bool named = program < words.size();
    if (!starts || program == 0 || (!named && name == "python")) continue;
    way.trains = true;
    way.launcher.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(program));
    if (!named) return;
    way.program = words[program].text;
    way.words.assign(words.begin() + static_cast<std::ptrdiff_t>(program) + 1, words.end());
    return;
  }
}

Way follow(const shell::Source& source, const ShellInputs& inputs, const shell::Inputs& how) {
  Way way;
  way.outcome = shell::Interpreter(how).run(source);
  choose_program(way);
  if (!way.trains) {
    way.words = loose_options(way.outcome);
    if (marks_in(way.words) == 0) choose_launcher(way);
  }
  way.signature = signature_of(way.words, inputs);
  return way;
}

constexpr std::size_t kMostWays = 64;

// Every way through conditions that cannot be known, the first with none of them taken.
std::vector<Way> all_ways(const shell::Source& source, const ShellInputs& inputs,
                          shell::Inputs how) {
  std::vector<Way> ways;
  while (ways.size() < kMostWays) {
    ways.push_back(follow(source, inputs, how));
    std::vector<bool> next;
    for (const shell::Decision& d : ways.back().outcome.decisions) next.push_back(d.taken);
    while (!next.empty() && next.back()) next.pop_back();
    if (next.empty()) break;
    next.back() = true;
    how.decisions = std::move(next);
  }
  if (ways.size() < kMostWays) return ways;
  // Too many to follow all: of the others those that take one condition.
  const std::size_t count = std::min(ways.front().outcome.decisions.size(), kMostWays);
  for (std::size_t i = 0; i < count; ++i) {
    how.decisions.assign(i + 1, false);
    how.decisions.back() = true;
    ways.push_back(follow(source, inputs, how));
  }
  return ways;
}

// The last condition that is taken on a way decides between it and the way with it not taken.
void find_undecided(const std::vector<const Way*>& ways, std::vector<UndecidedBranch>& found) {
  for (const Way* way : ways) {
    const auto& mine = way->outcome.decisions;
    std::size_t last = mine.size();
    while (last > 0 && !mine[last - 1].taken) --last;
    if (last == 0) continue;
    for (const Way* other : ways) {
      const auto& its = other->outcome.decisions;
      if (its.size() < last || its[last - 1].taken) continue;
      bool same = true;
      for (std::size_t i = 0; i + 1 < last; ++i) same = same && its[i].taken == mine[i].taken;
      for (std::size_t i = last; i < its.size(); ++i) same = same && !its[i].taken;
      if (!same || other->signature == way->signature) continue;
      const shell::Decision& d = mine[last - 1];
      auto known = std::find_if(found.begin(), found.end(), [&](const UndecidedBranch& b) {
        return b.line == d.line && b.condition == d.text;
      });
      if (known == found.end()) {
        found.push_back({d.line, d.text, d.names, {}});
        known = std::prev(found.end());
      }
      UndecidedBranch& branch = *known;
      const auto note = [&](const Way& a, const Way& b) {
        for (const auto& [name, values] : a.signature) {
          const auto there = b.signature.find(name);
          const bool differs = there == b.signature.end() || there->second != values;
          const auto& all = branch.options;
          if (differs && std::find(all.begin(), all.end(), name) == all.end()) {
            branch.options.push_back(name);
          }
        }
      };
      note(*way, *other);
      note(*other, *way);
    }
  }
}

// "bash -x" writes every command behind a "+".
bool is_trace(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || text[begin] != '+') return false;
  const std::size_t end = text.find_first_not_of('+', begin);
  return end != std::string_view::npos && text[end] == ' ';
}

// Its commands, each where it stands; what they printed is no command.
std::string commands_of_trace(std::string_view text) {
  std::string script;
  bool quoted = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t plus = line.find_first_not_of('+');
    const bool command =
        !quoted && line.starts_with("+") && plus != std::string_view::npos && line[plus] == ' ';
    if (command || quoted) {
      script +=
          command ? std::string(plus, ' ') + std::string(line.substr(plus)) : std::string(line);
      for (const char c : line) quoted = quoted != (c == '\'');
    }
    script += '\n';
  }
  return script;
}

void finish(const Way& way, const ShellInputs& inputs, ShellScript& script) {
  script.words = way.words;
  script.launcher = way.launcher;
  script.program = way.program;
  script.programs = way.programs;
  for (const auto& [name, variable] : way.outcome.variables) {
    if (!variable.items.empty() && inputs.environment.find(name) == inputs.environment.end()) {
      script.variables[name] = word_of(variable.items.front());
    }
  }
  for (const auto& [name, word] : way.environment) script.variables[name] = word;
  for (const auto& [name, text] : way.outcome.files) {
    if (shell::is_known(text)) script.files[name] = shell::text_of(text);
  }
  script.defaults = way.outcome.defaults;
  script.not_read = way.outcome.not_read;
  for (const std::string& name : way.outcome.taken) {
    const auto value = inputs.environment.find(name);
    if (value != inputs.environment.end()) script.environment[name] = value->second;
  }
}

}  // namespace

SourceLine ShellScript::shared_line_of(const ShellWord& word) const {
  const auto index = static_cast<std::size_t>(std::max(word.line, 1)) - 1;
  return index < lines.size() ? lines[index] : std::make_shared<const std::string>();
}

ShellScript read_shell(std::string_view text, const ShellInputs& inputs) {
  ShellScript script;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    script.lines.push_back(std::make_shared<const std::string>(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  script.slurm = read_slurm_request(text);
  const std::string commands = is_trace(text) ? commands_of_trace(text) : std::string(text);
  const shell::Source source = shell::source_of(commands);
  shell::Inputs how;
  how.fixed = inputs.variables;
  how.environment = slurm_environment(script.slurm);
  for (const auto& [name, value] : inputs.environment) how.environment[name] = value;
  how.arguments = inputs.arguments;
  how.read_file = inputs.read_file;
  std::vector<Way> ways = all_ways(source, inputs, how);
  const auto trains = [](const Way& way) { return way.trains; };
  const auto took_as_empty = [](const Way& way) { return way.outcome.took_as_empty; };
  if (std::none_of(ways.begin(), ways.end(), trains) &&
      std::any_of(ways.begin(), ways.end(), took_as_empty)) {
    // A script that stops where a variable is empty asks for it.
    how.unset_is_empty = false;
    how.decisions.clear();
    std::vector<Way> others = all_ways(source, inputs, how);
    if (std::any_of(others.begin(), others.end(), trains)) ways = std::move(others);
  }
  std::vector<const Way*> possible;
  for (const Way& way : ways) {
    if (way.trains) possible.push_back(&way);
  }
  if (possible.empty()) possible.push_back(&ways.front());
  find_undecided(possible, script.undecided);
  finish(*possible.front(), inputs, script);
  return script;
}

}  // namespace meshplan
