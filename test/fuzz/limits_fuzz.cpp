// Any text as the limits and the freed keys of a search.
#include "fuzz/fuzz.hpp"
#include "io/limits.hpp"

MESHPLAN_FUZZ_TARGET(limits) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  const Result<std::vector<Limit>> limits = parse_limits(text, "--limit");
  fuzz::require_value_or_errors(limits);
  if (limits.ok()) {
    for (const Limit& limit : *limits) fuzz::require(!limit.key.empty());
  }
  fuzz::require_value_or_errors(parse_free_keys(text, "--free"));
  return 0;
}
