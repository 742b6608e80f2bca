#pragma once
// What every subcommand shares: flags, exit codes, and how it hands its work to the program.
// CLI11 stays behind it, in command.cpp: its headers and templates cost seconds per file.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace CLI {  // NOLINT: its name
class App;
}

namespace meshplan {

struct CommandFact;

enum ExitCode : int {
  kExitOk = 0,
  kExitNoPlan = 1,
  kExitBadInput = 2,
  kExitDevice = 3,
  kExitInternal = 70,
};

struct CommonFlags {
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

using RestOfLine = std::optional<std::vector<std::string>>;

// What a subcommand does once its flags are read; returns the exit code.
using Action = std::function<int()>;

// The flags of one subcommand. A name without dashes is that of a positional argument. What the
// values are written to must live until the program has run; `type` is what the help calls a value.
class Subcommand {
 public:
  Subcommand(CLI::App& app, Action& chosen, std::map<std::string, RestOfLine*>& rests)
      : app_(&app), chosen_(&chosen), rests_(&rests) {}

  void add_switch(const std::string& name, bool& value, const std::string& help);
  void add_value(const std::string& name, std::string& value, const std::string& type,
                 const std::string& help);
  // --name A B
  void add_values(const std::string& name, std::vector<std::string>& values,
                  const std::string& type, const std::string& help);
  // --name A --name B
  void add_repeated(const std::string& name, std::vector<std::string>& values,
                    const std::string& type, const std::string& help);
  // --name A,B
  void add_comma_list(const std::string& name, std::vector<std::string>& values,
                      const std::string& type, const std::string& help);
  // What stands behind "--"; nothing where there is no "--".
  void add_rest(RestOfLine& rest);
  // --json, -v and -q, which every subcommand has; call it after the command's own flags are added.
  void add_common(CommonFlags& flags);
  void set_action(Action action);

 private:
  CLI::App* app_;
  Action* chosen_;
  std::map<std::string, RestOfLine*>* rests_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // A subcommand whose help ends in `example`.
  [[nodiscard]] Subcommand add_command(const std::string& name, const std::string& what,
                                       const std::string& example);
  // What `--help` prints for a command, or for the program where there is no name.
  [[nodiscard]] Result<std::string> help(const std::string& command) const;
  // The completion script of a shell: bash, zsh or fish.
  [[nodiscard]] Result<std::string> completion(const std::string& shell) const;
  // The program first, whose name is empty, then every command (command_facts.hpp).
  [[nodiscard]] std::vector<CommandFact> facts() const;
  // Does what the command line asks for; returns the exit code.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Action action_;                             // of the subcommand that the user chose
  std::map<std::string, RestOfLine*> rests_;  // by the names of the subcommands that take them
};

void add_plan_command(CommandLine& program);
void add_estimate_command(CommandLine& program);
void add_explain_command(CommandLine& program);
void add_mix_command(CommandLine& program);
void add_bench_command(CommandLine& program);
void add_validate_command(CommandLine& program);
void add_calibrate_command(CommandLine& program);
void add_compare_command(CommandLine& program);
void add_list_command(CommandLine& program);
void add_import_command(CommandLine& program);
void add_export_command(CommandLine& program);
void add_lint_command(CommandLine& program);
void add_report_command(CommandLine& program);
void add_serve_command(CommandLine& program);
void add_help_commands(CommandLine& program);  // help, completion and version

}  // namespace meshplan
