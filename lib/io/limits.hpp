#pragma once
// "tp<=8,pp>=2,vp=1|2,schedule=1f1b|interleaved" -> limits of a search; "order,zero_group" -> keys
// of which it looks at every value.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/limits.hpp"

namespace meshplan {

// `flag` is how diagnostics call the text: "--limit" or "--fix".
Result<std::vector<Limit>> parse_limits(std::string_view text, const std::string& flag);

Result<std::vector<Limit>> parse_free_keys(std::string_view text, const std::string& flag);

}  // namespace meshplan
