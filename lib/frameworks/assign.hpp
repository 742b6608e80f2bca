#pragma once
// Values of a strategy's keys by name, where a framework or a release brings its preset.
#include <string_view>
#include <vector>

#include "spec/key_value.hpp"

namespace meshplan {

// The key's value becomes `value`, which must be of the key's type. A framework, or a release of
// the strategy's framework, brings its preset; false, and nothing changes, where there is no such
// one.
bool assign(Strategy& s, std::string_view key, const KeyValue& value);

// Every value that the key can have; empty where they have no list (numbers, lists, rank orders,
// releases). Of frameworks those that are built in.
[[nodiscard]] std::vector<KeyValue> every_value(std::string_view key);

}  // namespace meshplan
