#pragma once
// Sequence lengths and batches as people write them: "8k", "128K", "4M tokens".
#include <cstdint>
#include <string>
#include <string_view>

#include "base/diagnostic.hpp"

namespace meshplan {

struct WrittenCount {
  std::int64_t value = 0;  // 0: not given, or no number
  bool tokens = false;     // said to be tokens: "4M tokens", or a batch in millions
};

// k and M stand for 1,024 and its square, as in the names of contexts and batches: 8k is 8,192, 4M
// are 4,194,304. `units`: what may follow ("tokens" or "sequences").
[[nodiscard]] WrittenCount read_written_count(const std::string& text, std::string_view flag,
                                              std::int64_t most, Diagnostics& problems);

// The sequences of a batch of so many tokens: the nearest number of them, which is said where they
// are not as many tokens.
[[nodiscard]] std::int64_t sequences_of(std::int64_t tokens, std::int64_t seq_len,
                                        std::string_view flag, Diagnostics& problems);

}  // namespace meshplan
