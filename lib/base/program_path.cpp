#include "base/program_path.hpp"

#include <cstdlib>
#include <system_error>

namespace meshplan {

std::filesystem::path program_path() {
  if (const char* launcher = std::getenv("MESHPLAN_PROGRAM");
      launcher != nullptr && *launcher == '/') {
    return launcher;
  }
  std::error_code failure;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? std::filesystem::path() : program;
}

}  // namespace meshplan
