#include "io/presets_file.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

constexpr const char* kGood = R"(framework: own
releases:
  - release: v2
    alias: own-v2
    date: 2025-03-01
    source: its code
    zero: 3
    overlap: {grad_reduce: true}
    kernels: {host_factor: 2.5}
    runtime:
      late_gradients: true
  - release: v1
    date: 2024-11
    source: its code
    checkpoint:
      shards: {kind: at-load, how: load it, source: its handbook}
      model: {kind: "no", how: keep tp, source: its handbook}
)";

std::string errors_of(const std::string& text) {
  const Result<std::vector<Preset>> all = parse_presets(text, "own.yaml");
  return all ? "no error" : to_text(all.errors());
}

std::string changed(std::string from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("A file of presets gives rows of a strategy's own keys") {
  const Result<std::vector<Preset>> all = parse_presets(kGood, "own.yaml");
  if (!all) FAIL(to_text(all.errors()));
  REQUIRE(all->size() == 2);
  const Preset& newest = all->front();
  CHECK(newest.framework_name == "own");
  CHECK(newest.release_name == "v2");
  CHECK(newest.alias == "own-v2");
  CHECK((*all)[1].alias.empty());
  CHECK(newest.date == "2025-03-01");
  CHECK(newest.values.zero == 3);
  CHECK(newest.values.overlap.grad_reduce);
  CHECK(newest.values.overlap.tp_backward);  // as a strategy has it that names no framework
  CHECK(newest.values.runtime.host_factor == 2.5);
  CHECK(newest.values.runtime.late_gradients);
  CHECK_FALSE(newest.exported);
  CHECK((*all)[1].values == PresetValues{});
  CHECK((*all)[1].shards.kind == ReshardKind::kAtLoad);
  CHECK((*all)[1].model.how == "keep tp");
}

TEST_CASE("What is wrong with a file of presets is said with its place") {
  CHECK(errors_of(changed("    zero: 3\n", "    zeros: 3\n")) ==
        "own.yaml:7:5: error: unknown key 'releases[0].zeros'\n      zeros: 3\n      ^~~~~\n  "
        "hint: did you mean 'zero'?\n");
  CHECK(errors_of(changed("zero: 3", "zero: 5")).find("must be from 0 to 3") != std::string::npos);
  CHECK(errors_of(changed("late_gradients", "late_gradient")).find("own.yaml:11:7") == 0);
  CHECK(errors_of(changed("date: 2025-03-01", "date: last year")).find("must be a date") !=
        std::string::npos);
  CHECK(errors_of(changed("date: 2025-03-01", "date: 2023-03-01")).find("newest first") !=
        std::string::npos);
  CHECK(errors_of(changed("kind: at-load", "kind: maybe")).find("one of unchanged, at-load") !=
        std::string::npos);
  CHECK(errors_of("framework: own\n").find("'releases' is missing") != std::string::npos);
  CHECK(errors_of(changed("    date: 2024-11\n", "")).find("'releases[1].date' is missing") !=
        std::string::npos);
}

TEST_CASE("The shipped files of presets are good") {
  const Result<std::vector<Preset>> all = load_presets(DataFolders({MESHPLAN_SOURCE_DIR}));
  if (!all) FAIL(to_text(all.errors()));
  CHECK(all->size() == 7);
}

}  // namespace meshplan
