#pragma once
// Text with a unit <-> a quantity: "80 GiB", "450 GB/s", "400 Gbit/s", "989 TFLOP/s", "5 us".
// Decimal prefixes are powers of 1000 (GB = 1e9 bytes), binary ones of 1024 (GiB = 2^30 bytes).
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/units.hpp"

namespace meshplan {

// Each fails with one diagnostic (no position) if the number is malformed, not finite, negative,
// has no unit, or has a unit of another dimension.
Result<Bytes> parse_bytes(std::string_view text);
Result<BytesPerSecond> parse_bandwidth(std::string_view text);
Result<FlopsPerSecond> parse_flop_rate(std::string_view text);
Result<Seconds> parse_time(std::string_view text);

// The shortest text that the functions above read back to exactly the same value, for files that
// programs read again; human_bytes() and its like (base/text.hpp) round.
[[nodiscard]] std::string exact_text(Bytes n);
[[nodiscard]] std::string exact_text(BytesPerSecond r);
[[nodiscard]] std::string exact_text(FlopsPerSecond r);
[[nodiscard]] std::string exact_text(Seconds t);

// Whole numbers and decimals without a unit; no leading zeros as octal, no hex, no "nan".
Result<std::int64_t> parse_integer(std::string_view text);
Result<double> parse_real(std::string_view text);

}  // namespace meshplan
