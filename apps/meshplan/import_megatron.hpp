#pragma once
// import megatron-args: a launch script or argument list of Megatron-LM.
#include <string>

#include "command.hpp"

namespace meshplan {

// model.yaml and strategy.yaml into the folder `out`, or both on standard output.
[[nodiscard]] int import_megatron(const std::string& file, const std::string& out,
                                  const CommonFlags& common);

}  // namespace meshplan
