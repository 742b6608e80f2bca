#pragma once
// Keys of a Hugging Face configuration that no family asked for.
#include <string>
#include <vector>

#include "io/hf_fields.hpp"

namespace meshplan::hf {

// Those that may change what a plan stands on: without names of tokens, settings of generation,
// constants of norms and positions, and what else says nothing of sizes or work.
[[nodiscard]] std::vector<std::string> unread_keys(const HfFields& f);

}  // namespace meshplan::hf
