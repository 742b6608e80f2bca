// Any text as a launch script of Megatron-LM: read, linted, and the model that it says written and
// read back.
#include "fuzz/runs.hpp"
#include "launch/bridge_config.hpp"
#include "launch/bridge_script.hpp"
#include "launch/functional_test.hpp"
#include "launch/megatron_import.hpp"
#include "launch/nemo_config.hpp"
#include "launch/primus_config.hpp"
#include "launch/shell.hpp"

namespace meshplan::fuzz {
namespace {

// A word that is written for a shell reads back as the one word that it was.
void check_quoting(std::string_view text) {
  const std::string word = '-' + std::string(text.substr(0, 200));  // never an assignment
  if (word.find('\0') != std::string::npos) return;
  const ShellScript script =
      read_shell("torchrun train.py --num-layers " + shell_word(word) + "\n");
  require(script.words.size() == 2 && script.words[1].text == word);
  for (const char c : comment_text(text)) require(static_cast<unsigned char>(c) >= 0x20);
}

}  // namespace
}  // namespace meshplan::fuzz

MESHPLAN_FUZZ_TARGET(megatron) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::check_quoting(text);
  fuzz::require_value_or_errors(functional_test_arguments({"test.yaml", std::string(text)}));
  fuzz::require_value_or_errors(bridge_arguments({"run_config.yaml", std::string(text)}));
  static const ModelSpec model = *load_model("llama-2-7b", DataFolders({MESHPLAN_SOURCE_DIR}));
  RunContext context;
  context.model = model;
  fuzz::require_value_or_errors(read_bridge_script({"train.sh", std::string(text)}, context));
  fuzz::require_value_or_errors(nemo_arguments({"nemo.yaml", std::string(text)}, {}));
  fuzz::require_value_or_errors(primus_arguments({"job.yaml", std::string(text)}, {}));
  const Result<MegatronRun> run = read_megatron_run(text, "train.sh");
  fuzz::require_value_or_errors(run);
  if (!run.ok()) return 0;
  fuzz::check_run(*run);
  for (const auto& cluster : fuzz::clusters_of(*run)) {
    fuzz::check_lint(lint(*run, cluster, "train.sh"));
  }
  return 0;
}
