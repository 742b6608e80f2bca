#include <cstdio>
#include <exception>

#include "command.hpp"
#include "frameworks/preset.hpp"
#include "io/presets_file.hpp"
#include "process_setup.hpp"

namespace meshplan {
namespace {

int run(int argc, char** argv) {
  set_preset_source([] { return load_presets(DataFolders::standard()); });
  CommandLine program;
  add_plan_command(program);
  add_estimate_command(program);
  add_explain_command(program);
  add_mix_command(program);
  add_bench_command(program);
  add_validate_command(program);
  add_calibrate_command(program);
  add_compare_command(program);
  add_list_command(program);
  add_import_command(program);
  add_export_command(program);
  add_lint_command(program);
  add_report_command(program);
  add_serve_command(program);
  add_help_commands(program);
  return program.run(argc, argv);
}

}  // namespace
}  // namespace meshplan

int main(int argc, char** argv) {
  meshplan::set_up_process();
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
