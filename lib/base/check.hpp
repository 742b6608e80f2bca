#pragma once
// PLAN_CHECK marks what only a bug of ours can break; main turns it into exit code 70.
#include <stdexcept>
#include <string>

namespace meshplan {

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Out of line, as checks stand in inner loops.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_check(const char* condition,
                                                              const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition);
}

}  // namespace meshplan

#define PLAN_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::meshplan::fail_check(#condition, __FILE__, __LINE__))
