#pragma once
// Parts of reading torchtitan's settings; private to this library.
#include "launch/settings.hpp"

namespace meshplan {

// What is recomputed, in which precision, and what the compiler joins, into run.strategy.
void read_torchtitan_kernels(Settings& settings, SettingsRun& run);

}  // namespace meshplan
