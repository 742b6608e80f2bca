// Any text as raw measurements and as one operation; what parses is written and reads back.
#include "fuzz/fuzz.hpp"
#include "probe/samples_file.hpp"

MESHPLAN_FUZZ_TARGET(samples) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  const Result<SamplesFile> file = parse_samples(text, "samples.jsonl");
  fuzz::require_value_or_errors(file);
  if (file.ok()) {
    const Result<SamplesFile> again = parse_samples(samples_text(*file), "samples.jsonl");
    fuzz::require(again.ok() && *again == *file);
    for (const Sample& sample : file->samples) static_cast<void>(is_noisy(sample));
  }
  const Result<Operation> operation = parse_operation(text);
  fuzz::require_value_or_errors(operation);
  if (operation.ok()) {
    const Result<Operation> again = parse_operation(operation_line(*operation));
    fuzz::require(again.ok() && *again == *operation);
    fuzz::require(!describe(*operation).empty());
  }
  return 0;
}
