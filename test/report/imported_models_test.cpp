// What import writes of a configuration is the model that it read.
#include <filesystem>
#include <string>

#include "io/load.hpp"
#include "report/model_yaml.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("An imported model reads back from the file that import writes") {
  const std::filesystem::path folder =
      std::filesystem::path(MESHPLAN_SOURCE_DIR) / "test" / "io" / "hf_configs";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path());
    const auto text = read_text_file(entry.path());
    REQUIRE(text.ok());
    const auto model = parse_hf_config(*text, entry.path().filename().string());
    if (!model.ok()) FAIL(to_text(model.errors()));
    const auto again = parse_model(model_yaml(*model), "model.yaml");
    if (!again.ok()) FAIL(to_text(again.errors()));
    CHECK(*again == *model);
    ++files;
  }
  CHECK(files >= 50);
}
