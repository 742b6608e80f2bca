#pragma once
// Files that are either the old one or the whole new one, whatever happens in between.
#include <filesystem>
#include <string_view>

#include "base/result.hpp"

namespace meshplan {

struct Written {};

// Writes a temporary file (".meshplan-tmp-...") next to `path`, flushes it to the disk and renames
// it over `path`. A symbolic link stays one: what it leads to is replaced. The mode of a replaced
// file stays, and a file that may not be written is an error. Pipes and devices are written to.
// A run that is killed may leave its temporary file; a later one removes it after ten minutes.
Result<Written> write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace meshplan
