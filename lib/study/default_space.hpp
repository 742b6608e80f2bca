#pragma once
// What is searched where nobody names a space.
#include <cstdint>
#include <span>
#include <string>

#include "search/search.hpp"

namespace meshplan {

struct DefaultSpace {
  Space space = Space::kFull;
  // Why it is not what an exporter accepts, for a reader; empty where it is, and where the
  // request's framework has no exporter.
  std::string why_full;
};

// What the exporter of the request's framework accepts. Where it accepts nothing of what is asked
// for on any of `sizes`, or there is none, everything that is legal. sizes: numbers of devices;
// none stands for the whole cluster. request.space is not read.
[[nodiscard]] DefaultSpace default_space(const ModelSpec& m, const ClusterSpec& c,
                                         const SearchRequest& request,
                                         std::span<const std::int64_t> sizes);

}  // namespace meshplan
