#pragma once
// What a space says of strategies that break a rule.
#include <string>

#include "base/text.hpp"
#include "spec/findings.hpp"

namespace meshplan {

inline std::string reason_of(const Finding& finding) {
  return "illegal (" + join_words(finding.keys, ", ") + ")";
}

}  // namespace meshplan
