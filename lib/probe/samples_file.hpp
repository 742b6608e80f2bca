#pragma once
// Raw measurements as JSON lines: the machine first, then one sample per line. Written after every
// measurement, so that a run that is cut off keeps what it has; read back by fits and --resume.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "probe/sample.hpp"

namespace meshplan {

struct SamplesFile {
  Machine machine;
  std::vector<Sample> samples;
  bool operator==(const SamplesFile&) const = default;
};

// One line of JSON each, without the line's end. Times in seconds, sizes in bytes.
[[nodiscard]] std::string operation_line(const Operation& op);
[[nodiscard]] std::string sample_line(const Sample& s);
[[nodiscard]] std::string machine_line(const Machine& m);

[[nodiscard]] std::string samples_text(const SamplesFile& f);

// Errors carry file:line. A last line that was cut off is an error like any other.
Result<SamplesFile> parse_samples(std::string_view text, const std::string& file);
Result<Operation> parse_operation(std::string_view json);

}  // namespace meshplan
