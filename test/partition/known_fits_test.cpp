#include "partition/known_fits.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

// Layers of one unit each, but for a heavy one; a stage holds so many units.
bool holds(int stage, int begin, int end) {
  constexpr int kHeavy = 4;
  const int units = end - begin + (begin <= kHeavy && kHeavy < end ? 3 : 0);
  return units <= (stage == 0 ? 3 : 5);
}

TEST_CASE("what a rank is known to hold says the same of parts of it, and of more") {
  constexpr int kLayers = 9;
  int known = 0;
  for (int told = 0; told < 2 * kLayers; ++told) {
    KnownFits fits(2, kLayers);
    const int stage = told % 2, begin = told / 2;
    CHECK_FALSE(fits.fits(stage, begin, begin + 1).has_value());
    for (int end = begin + 1; end <= kLayers; ++end) {
      fits.add(stage, begin, end, holds(stage, begin, end));
      CHECK(fits.fits(stage, begin, end) == holds(stage, begin, end));
    }
    for (int s = 0; s < 2; ++s) {
      for (int b = 0; b < kLayers; ++b) {
        for (int e = b + 1; e <= kLayers; ++e) {
          const std::optional<bool> said = fits.fits(s, b, e);
          CAPTURE(stage, begin, s, b, e);
          if (said) CHECK(*said == holds(s, b, e));
          if (s != stage) CHECK_FALSE(said.has_value());
          known += said && b != begin ? 1 : 0;
        }
      }
    }
  }
  CHECK(known > 100);
}

}  // namespace
}  // namespace meshplan
