#include "spec/key_meanings.hpp"

#include <vector>

#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("every key of a strategy has a meaning, in order and within a line") {
  std::vector<std::string_view> keys;
  for (const KeyMeaning& row : strategy_key_meanings()) {
    CAPTURE(row.key);
    keys.push_back(row.key);
    CHECK_FALSE(row.meaning.empty());
    CHECK(row.meaning.size() <= 100);
  }
  const auto all = strategy_keys();
  CHECK(keys == std::vector<std::string_view>(all.begin(), all.end()));
}
