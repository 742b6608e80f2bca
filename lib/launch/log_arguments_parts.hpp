#pragma once
// Parts of reading printed arguments; private to this library.
#include <optional>
#include <string>
#include <vector>

#include "io/log_lines.hpp"
#include "launch/log_arguments.hpp"

namespace meshplan {

// An argument list whose options stand in the lines that the log has them in, so that what is wrong
// with one is reported where it is.
class PrintedOptions {
 public:
  void add(const std::string& name, const std::vector<std::string>& values, int line);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> lines_;
};

// NeMo 1's configuration (nemo_log_arguments.cpp).
[[nodiscard]] std::optional<PrintedArguments> nemo_arguments(const std::vector<LogLine>& lines,
                                                             const std::string& file);

}  // namespace meshplan
