// Any text as a quantity: what is accepted is finite and not negative, and prints.
#include <cmath>

#include "base/quantity.hpp"
#include "base/text.hpp"
#include "fuzz/fuzz.hpp"

MESHPLAN_FUZZ_TARGET(units) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  const auto sane = [](double si) { return std::isfinite(si) && si >= 0; };

  const Result<Bytes> bytes = parse_bytes(text);
  fuzz::require_value_or_errors(bytes);
  if (bytes.ok()) fuzz::require(bytes->count() >= 0 && !human_bytes(*bytes).empty());

  const Result<BytesPerSecond> bandwidth = parse_bandwidth(text);
  fuzz::require_value_or_errors(bandwidth);
  if (bandwidth.ok()) {
    fuzz::require(sane(bandwidth->si()) && !human_bandwidth(*bandwidth).empty());
  }

  const Result<FlopsPerSecond> rate = parse_flop_rate(text);
  fuzz::require_value_or_errors(rate);
  if (rate.ok()) fuzz::require(sane(rate->si()) && !human_rate(*rate).empty());

  const Result<Seconds> time = parse_time(text);
  fuzz::require_value_or_errors(time);
  if (time.ok()) fuzz::require(sane(time->si()) && !human_time(*time).empty());

  fuzz::require_value_or_errors(parse_integer(text));
  const Result<double> real = parse_real(text);
  fuzz::require_value_or_errors(real);
  if (real.ok()) fuzz::require(std::isfinite(*real));
  return 0;
}
