#include <memory>
#include <spdlog/spdlog.h>

#include "console.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "report/model_yaml.hpp"

namespace meshplan {
namespace {

struct ImportFlags {
  CommonFlags common;
  std::string kind, file, out;
};

int import_file(const ImportFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  if (flags.kind.empty() || flags.file.empty()) {
    problems.push_back(error("import needs a kind and a file",
                             "for example 'meshplan import hf-config config.json'"));
    return report_errors(problems, flags.common);
  }
  constexpr std::array kKinds{std::string_view("hf-config")};
  read_choice(
      flags.kind, "import", kKinds, [](std::string_view name) { return name; }, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  const std::optional<std::string> text = take(read_text_file(flags.file), flags.file, problems);
  if (!text) return report_errors(problems, flags.common);
  const std::optional<ModelSpec> model =
      take(parse_hf_config(*text, flags.file), flags.file, problems);
  if (!model) return report_errors(problems, flags.common);

  const std::string yaml = model_yaml(*model);
  if (!flags.out.empty()) {
    take(write_file_atomically(flags.out, yaml), flags.out, problems);
    if (has_errors(problems)) return report_errors(problems, flags.common);
    spdlog::info("wrote {}", flags.out);
  }
  if (flags.common.json) return write_result(model_document(kTool, *model), kExitOk);
  return flags.out.empty() ? write_result(yaml, kExitOk) : kExitOk;
}

}  // namespace

void add_import_command(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      add_command(app, "import", "Turn a Hugging Face config.json into a model file",
                  "meshplan import hf-config config.json --out my-model.yaml");
  command->add_option("kind", flags->kind, "hf-config: a Hugging Face config.json")->type_name("");
  command->add_option("file", flags->file, "The file to read")->type_name("");
  command->add_option("--out", flags->out, "Write the model file here instead of standard output")
      ->type_name("FILE");
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return import_file(*flags); }; });
}

}  // namespace meshplan
