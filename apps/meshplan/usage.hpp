#pragma once
// What is wrong with a command line, and what was probably meant.
#include <CLI/CLI.hpp>
#include <string>

#include "base/diagnostic.hpp"

namespace meshplan {

// Help texts that keep within 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option_desc(const CLI::Option* option) const override;
};

// There is no such command; names the nearest one.
[[nodiscard]] Diagnostic unknown_command(const CLI::App& app, const std::string& word);

// Message for a command line that `app` could not parse; ends in '\n'.
[[nodiscard]] std::string usage_error(const CLI::App& app, const CLI::ParseError& failure);

}  // namespace meshplan
