#pragma once
// What every subcommand shares: flags, exit codes, and how it hands its work to main.
#include <CLI/CLI.hpp>
#include <functional>

namespace meshplan {

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

// Set by the subcommand that the user chose; returns the exit code.
using Action = std::function<int()>;

void add_plan_command(CLI::App& app, Action& action);
void add_estimate_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_validate_command(CLI::App& app, Action& action);
void add_calibrate_command(CLI::App& app, Action& action);
void add_list_command(CLI::App& app, Action& action);
void add_import_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_lint_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);

// Version, help and examples of the program itself.
void describe_program(CLI::App& app);

// A subcommand whose help ends in `example`.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& what,
                      const std::string& example);

// A flag with a value, which the help calls `type`.
template <class T>
CLI::Option* add_value_flag(CLI::App& command, const std::string& name, T& value,
                            const std::string& type, const std::string& help) {
  return command.add_option(name, value, help)->type_name(type);
}

// --json, -v and -q, which every subcommand has; call it after the command's own flags are added.
void add_common_flags(CLI::App& command, CommonFlags& flags);

}  // namespace meshplan
