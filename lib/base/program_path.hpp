#pragma once
// Where this program lies.
#include <filesystem>

namespace meshplan {

// The file that starts this program again: the launcher's where there is one (the portable
// archive's says so in MESHPLAN_PROGRAM, apps/launcher/), else the program's own. Empty where
// nobody knows.
[[nodiscard]] std::filesystem::path program_path();

}  // namespace meshplan
