#pragma once

#include <filesystem>
#include <string_view>

#include "io/load.hpp"

namespace meshplan {

// The file of `folder` (kModelFolder or kClusterFolder) whose name is the same but for what hubs
// and people write differently: case, organisation, punctuation, dates, versions, words that tell
// variants of the same sizes apart ("Instruct", "FP8"), the size where a family has one, and
// releases that are another's architecture trained on (DeepSeek-R1). Empty if there is none.
[[nodiscard]] std::filesystem::path find_shipped(std::string_view folder, std::string_view name,
                                                 const DataFolders& data);

}  // namespace meshplan
