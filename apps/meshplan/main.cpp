#include <cstdio>
#include <exception>

#include "base/check.hpp"
#include "command.hpp"
#include "console.hpp"
#include "edges.hpp"
#include "usage.hpp"

namespace meshplan {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Plans how to train a large model on a cluster.", "meshplan");
  Action action;
  describe_program(app);
  add_plan_command(app, action);
  add_estimate_command(app, action);
  add_explain_command(app, action);
  add_bench_command(app, action);
  add_validate_command(app, action);
  add_calibrate_command(app, action);
  add_list_command(app, action);
  add_import_command(app, action);
  add_export_command(app, action);
  add_lint_command(app, action);
  add_report_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    return write_result(app.version() + "\n", kExitOk);
  } catch (const CLI::Success&) {
    return write_result(app.help(), kExitOk);
  } catch (const CLI::ParseError& failure) {
    std::fputs(usage_error(app, failure).c_str(), stderr);
    return kExitBadInput;
  }
  if (action) return action();
  std::fputs(app.help().c_str(), stderr);
  return kExitBadInput;
}

}  // namespace
}  // namespace meshplan

int main(int argc, char** argv) {
  meshplan::guard_edges();
  try {
    return meshplan::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr,
                 "internal error: %s\nThis is a bug of meshplan. Please report it with the "
                 "command line and the input files.\n",
                 failure.what());
    return meshplan::kExitInternal;
  }
}
