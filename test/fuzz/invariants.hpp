#pragma once
// What must hold of every estimate and of every search, whatever they are of.
#include <string>

#include "fuzz/choices.hpp"

namespace meshplan::fuzz {

// The JSON documents that came of a case; empty where there is none. A property that does not hold
// ends the program (require, fuzz.hpp).
struct Documents {
  std::string estimate, plan;
};

// Terms add up to the step time, each of them finite and not negative; the memory peak is the sum
// of its parts; a plan that fits fits; what is written as key=value text reads back to the same
// costs.
[[nodiscard]] Documents check_estimate(const Case& c);

// The plans are in order and legal, each of them exactly what an estimate of its strategy says, and
// the file that is written of them reads back.
[[nodiscard]] Documents check_search(Choices& choices, const Case& c);

}  // namespace meshplan::fuzz
