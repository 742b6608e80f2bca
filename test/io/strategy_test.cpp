// Strategies from key=value text and files: precedence, positions, round trip.
#include <filesystem>
#include <fstream>
#include <random>
#include <type_traits>

#include "io/load.hpp"
#include "io/strategy_file.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"
#include "support/temporary_folder.hpp"

namespace meshplan {
namespace {

std::string errors_of(const std::string& text) {
  const auto read = load_strategy(text, Strategy{});
  return read.ok() ? "no error" : to_text(read.errors());
}

// Any value of the right type; to_text does not ask whether it is legal, but reading does ask for
// ranges, so numbers stay small and positive.
class RandomValue {
 public:
  explicit RandomValue(unsigned seed) : random_(seed) {}

  template <class T>
  void operator()(std::string_view key, T& member) {
    if constexpr (std::is_base_of_v<LastingName, T>) {
      (void)key;  // chosen first: it decides the preset
    } else if constexpr (std::is_same_v<T, bool>) {
      member = below(2) == 1;
    } else if constexpr (std::is_enum_v<T>) {
      member = NameTable<T>::rows[below(NameTable<T>::rows.size())].value;
      if constexpr (std::is_same_v<T, Dtype>) {
        if (member == Dtype::kFp8) member = Dtype::kBf16;
      }
    } else if constexpr (std::is_same_v<T, LoraTargets>) {
      for (const auto& row : NameTable<LoraTarget>::rows) {
        if (below(2) == 0) member.insert(row.value);
      }
    } else if constexpr (std::is_same_v<T, RankOrder>) {
      std::shuffle(member.begin(), member.end(), random_);
    } else if constexpr (std::is_same_v<T, RecomputeModules> ||
                         std::is_same_v<T, CudaGraphModules> || std::is_same_v<T, OffloadModules> ||
                         std::is_same_v<T, FrozenParts>) {
      for (const auto& row : NameTable<typename T::Value>::rows) {
        if (below(3) == 0) member.add(row.value);
      }
    } else if constexpr (std::is_same_v<T, double>) {
      member = static_cast<double>(below(1000)) / (key == "lora.dropout" ? 1001.0 : 7.0);
      if (key == "kernels.product_rate") member = 0.5 + member / 1000;
    } else if constexpr (std::is_same_v<T, int>) {
      member = static_cast<int>(below(4));
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      // Together at most 2,048 chunks.
      const std::size_t most = key == "pp" ? 16 : key == "vp" ? 128 : 4096;
      member = static_cast<std::int64_t>(1 + below(most));
    } else {
      member.clear();
      for (std::size_t i = below(5); i > 0; --i)
        member.push_back(static_cast<std::int64_t>(1 + below(9)));
    }
  }

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

 private:
  std::mt19937 random_;
};

Strategy random_strategy(unsigned seed) {
  RandomValue random(seed);
  static const std::vector<const Preset*> presets = [] {
    (void)shipped_preset("nanotron");
    return *all_presets();
  }();
  Strategy s = with_preset(Strategy{}, *presets[random.below(presets.size())]);
  for_each_key(s, [&](std::string_view key, auto& member) {
    // Half of the keys keep what the preset or the default says.
    if (random.below(2) == 0) random(key, member);
  });
  s.seq_len = std::max<std::int64_t>(s.seq_len, 1);
  return s;
}

}  // namespace

TEST_CASE("A strategy written as text reads back to the same strategy") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Strategy s = random_strategy(seed);
    const std::string text = to_text(s);
    INFO(text);
    const auto read = load_strategy(text, Strategy{});
    if (!read.ok()) FAIL(to_text(read.errors()));
    CHECK(*read == s);
  }
}

TEST_CASE("A strategy file reads like the same text on the command line") {
  const TemporaryFolder folder;
  const std::string path = folder.write("s.yaml",
                                        "framework: deepspeed\n"
                                        "tp: 2\n"
                                        "overlap: {param_gather: false}\n"
                                        "kernels:\n"
                                        "  fused_rope: true\n"
                                        "stage_layers: [3, 5]\n"
                                        "order: tp-cp-ep-pp-dp\n");
  const auto file = load_strategy(path, Strategy{});
  const auto text = load_strategy(
      "framework=deepspeed,tp=2,overlap.param_gather=false,kernels.fused_rope=true,"
      "stage_layers=[3,5],order=tp-cp-ep-pp-dp",
      Strategy{});
  if (!file.ok()) FAIL(to_text(file.errors()));
  REQUIRE(text.ok());
  CHECK(*file == *text);
  CHECK(file->zero == 3);  // of the preset
  CHECK_FALSE(file->overlap.param_gather);
  CHECK(file->overlap.grad_reduce);
}

TEST_CASE("Explicit keys win over the preset, the preset over other flags") {
  Strategy flags = framework_preset(Framework::kMegatron);
  flags.global_batch = 256;
  flags.seq_len = 2048;
  flags.dp = 4;
  const auto read = load_strategy("framework=fsdp,zero=2", flags);
  REQUIRE(read.ok());
  CHECK(read->zero == 2);
  CHECK(read->grad_dtype == Dtype::kBf16);  // of fsdp
  CHECK(read->global_batch == 256);         // of the flags
  CHECK(read->dp == 0);                     // not stated: derived later
  const auto same = load_strategy("tp=2", flags);
  REQUIRE(same.ok());
  CHECK(same->overlap == flags.overlap);  // no framework stated: that of the flags stays
}

TEST_CASE("The keys that were stated are known") {
  const auto read = read_strategy("tp=2,overlap.tp=true,recompute=[1,2]", Strategy{});
  REQUIRE(read.ok());
  CHECK(read->given == std::set<std::string>{"tp", "overlap.tp", "recompute_layers"});
  CHECK(read->strategy.recompute_layers == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("Blanks around keys and values do not matter") {
  const auto read =
      load_strategy(" tp = 2 , stage_layers = [ 1 , 2 ] ,schedule= gpipe ", Strategy{});
  REQUIRE(read.ok());
  CHECK(read->tp == 2);
  CHECK(read->stage_layers == std::vector<std::int64_t>{1, 2});
  CHECK(read->schedule == Schedule::kGpipe);
}

TEST_CASE("Problems of key=value text point into it") {
  struct Row {
    const char* text;
    const char* want;
  };
  const auto row = GENERATE(values<Row>({
      {"tp=eight",
       "--strategy:1:4: error: 'tp' must be a whole number, got \"eight\"\n"
       "  tp=eight\n"
       "     ^~~~~\n"},
      {"tp=0,pp=2",
       "--strategy:1:4: error: 'tp' must be from 1 to 16,777,216, got 0\n"
       "  tp=0,pp=2\n"
       "     ^\n"},
      {"pp=2,tp=08",
       "--strategy:1:9: error: 'tp' must be a whole number, got \"08\"\n"
       "  pp=2,tp=08\n"
       "          ^~\n"
       "  hint: leave out the leading zero\n"},
      {"dp=0",
       "--strategy:1:4: error: 'dp' must be from 1 to 16,777,216, got 0\n"
       "  dp=0\n"
       "     ^\n"},
      {"tpp=8",
       "--strategy:1:1: error: unknown key 'tpp'\n"
       "  tpp=8\n"
       "  ^~~\n"
       "  hint: did you mean 'tp'?\n"},
      {"tp=8,tp=4",
       "--strategy:1:6: error: key 'tp' appears twice\n"
       "  tp=8,tp=4\n"
       "       ^~\n"},
      {"tp=8,,pp=2",
       "--strategy:1:6: error: a key=value is missing here\n"
       "  tp=8,,pp=2\n"
       "       ^\n"},
      {"=8",
       "--strategy:1:1: error: a key is missing here\n"
       "  =8\n"
       "  ^\n"},
      {"tp=",
       "--strategy:1:1: error: 'tp' has no value\n"
       "  tp=\n"
       "  ^~\n"},
      {"tp<=8,pp=1",
       "--strategy:1:1: error: 'tp' needs exactly one value\n"
       "  tp<=8,pp=1\n"
       "  ^~\n"
       "  hint: write key=value\n"},
      {"stage_layers=[1,x",
       "--strategy:1:14: error: '[' is not closed\n"
       "  stage_layers=[1,x\n"
       "               ^\n"},
      {"stage_layers=[1,x]",
       "--strategy:1:17: error: 'stage_layers[1]' must be a whole number, got \"x\"\n"
       "  stage_layers=[1,x]\n"
       "                  ^\n"},
      {"stage_layers=4",
       "--strategy:1:14: error: 'stage_layers' must be a list of whole numbers, got \"4\"\n"
       "  stage_layers=4\n"
       "               ^\n"},
      {"order=tp-pp",
       "--strategy:1:7: error: 'order' must list each of tp, cp, ep, dp and pp once\n"
       "  order=tp-pp\n"
       "        ^~~~~\n"
       "  hint: for example tp-cp-ep-dp-pp\n"},
      {"schedule=1f1bb",
       "--strategy:1:10: error: 'schedule' must be one of gpipe, 1f1b, interleaved, zb-h1, zb-v, "
       "dualpipe, v-half, v-min, got \"1f1bb\"\n"
       "  schedule=1f1bb\n"
       "           ^~~~~\n"
       "  hint: did you mean '1f1b'?\n"},
      {"flash_attention=yes",
       "--strategy:1:17: error: 'flash_attention' must be true or false, got \"yes\"\n"
       "  flash_attention=yes\n"
       "                  ^~~\n"},
      {"precision=bf16,zero=9,offload=true",
       "--strategy:1:21: error: 'zero' must be from 0 to 3, got 9\n"
       "  precision=bf16,zero=9,offload=true\n"
       "                      ^\n"
       "--strategy:1:23: error: unknown key 'offload'\n"
       "  precision=bf16,zero=9,offload=true\n"
       "                        ^~~~~~~\n"
       "  hint: its keys are offload.optimizer, offload.optimizer_fraction, "
       "offload.master_weights, "
       "offload.overlap_copies, offload.weights, offload.activations, "
       "offload.activation_layers, offload.modules and offload.activation_fraction\n"},
  }));
  CHECK(errors_of(row.text) == row.want);
}

TEST_CASE("Text without an equals sign is a file") {
  CHECK(errors_of("/nowhere/plan.yaml") ==
        "/nowhere/plan.yaml: error: no such file\n"
        "  hint: write key=value,key=value,... or the path of a file\n");
  CHECK(errors_of("") ==
        "--strategy: error: the strategy is empty\n"
        "  hint: write key=value,key=value,... or the path of a file\n");
}

TEST_CASE("Text that is not UTF-8 or far too long is refused") {
  CHECK(errors_of("tp=\xff") == "--strategy: error: not UTF-8 text\n");
  CHECK(errors_of("tp=" + std::string(1 << 17, '1')) == "--strategy: error: longer than 64 KiB\n");
}

TEST_CASE(
    "A key that is gone reads with the value that every file has, and is an error otherwise") {
  const Strategy s = framework_preset(Framework::kMegatron);
  const auto read = [&](const std::string& text) { return load_strategy(text, s); };
  CHECK(read("tp=2,kernels.message_launches=0").ok());
  CHECK(to_text(read("kernels.message_launches=2").errors()).find("no longer a key") !=
        std::string::npos);
}

}  // namespace meshplan
