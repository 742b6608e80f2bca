// Any text as a log with printed arguments, which the importers then read.
#include "frameworks/preset.hpp"
#include "fuzz/fuzz.hpp"
#include "launch/deepspeed_import.hpp"
#include "launch/log_arguments.hpp"
#include "launch/megatron_import.hpp"
#include "launch/torchtitan_import.hpp"

MESHPLAN_FUZZ_TARGET(log_arguments) {
  using namespace meshplan;
  const auto read = printed_arguments(fuzz::as_text(data, size), "train.log");
  fuzz::require_value_or_errors(read);
  if (!read || !*read) return 0;
  const std::optional<PrintedArguments>& printed = *read;
  fuzz::require(!printed->files.empty() && !printed->program.empty() && printed->line > 0);
  fuzz::require(printed->gpus >= 0 && printed->gpus <= kRanks.highest);
  RunContext context;
  context.gpus = printed->gpus;
  if (printed->target == Target::kMegatron) {
    fuzz::require_value_or_errors(
        read_megatron_run(printed->files.front().text, "train.log", context));
  } else if (printed->target == Target::kDeepspeed) {
    fuzz::require_value_or_errors(read_deepspeed_run(printed->files, context));
  } else {
    fuzz::require_value_or_errors(read_torchtitan_run(printed->files, context));
  }
  return 0;
}
