#pragma once
// Files that are either the old one or the whole new one, whatever happens in between.
#include <filesystem>
#include <string_view>

#include "base/result.hpp"

namespace meshplan {

struct Written {};

// Writes a temporary file next to `path`, flushes it to the disk and renames it over `path`.
Result<Written> write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace meshplan
