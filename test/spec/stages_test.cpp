// How layers are divided over pipeline ranks when a strategy does not say.
#include <numeric>

#include "frameworks/preset.hpp"
#include "spec/legal.hpp"
#include "spec/strategy.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("[F-STAGE-1] nanotron's ranks fill up to their share of matrix elements, head included") {
  // The 1B model of its sweep: a layer counts 4 h^2 + 3 h f = 67.1 M elements, the head 268.4 M,
  // four layers' worth; over 8 ranks a share is 2.5 layers.
  ModelSpec m;
  m.num_layers = 16;
  m.hidden_size = 2048;
  m.num_attention_heads = m.num_query_groups = 32;
  m.head_dim = 64;
  m.ffn_hidden_size = 8192;
  m.vocab_size = 131072;
  Strategy s;
  s.runtime.stage_split = StageSplit::kElements;
  s.pp = 4;
  // Share 5 layers: a rank is left when its sum exceeds it, so the first takes 6 (6 > 5), the
  // second goes to 11 (> 10), the third to 16 (> 15), the last has the head alone.
  CHECK(stage_layers(s, m) == std::vector<std::int64_t>{6, 5, 5, 0});
  // Share 2.5: ranks are left at 3, 6, 8, 11, 13 and 16 layers; two more hold the head and the
  // loss.
  s.pp = 8;
  CHECK(stage_layers(s, m) == std::vector<std::int64_t>{3, 3, 2, 3, 2, 3, 0, 0});
  s.pp = 4;
  s.runtime.stage_split = StageSplit::kEven;
  CHECK(stage_layers(s, m) == std::vector<std::int64_t>{4, 4, 4, 4});
}

TEST_CASE("where chunks cannot be equal the ends give way") {
  // Llama 3 405B (2407.21783 sec. 3.3.2): 126 layers on 16 ranks, one less on the first and last.
  ModelSpec m;
  m.num_layers = 126;
  Strategy s;
  s.pp = 16, s.vp = 8;
  CHECK(stage_layers(s, m) ==
        std::vector<std::int64_t>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  m.num_layers = 61;
  s.pp = 4, s.vp = 2;
  CHECK(stage_layers(s, m) == std::vector<std::int64_t>{15, 16, 15, 15});
}

TEST_CASE("layers by chunk are those of the ranks, in an interleaved schedule") {
  ModelSpec m = model();
  m.num_layers = 8;
  Strategy s = legal();
  s.vp = 2, s.schedule = Schedule::kInterleaved;
  s.stage_layers = {4, 4};
  s.chunk_layers = {3, 2, 1, 2};
  const auto said = [&] { return to_text(validate(s, m, cluster(64))); };
  CHECK(said().empty());
  s.chunk_layers = {3, 3, 1, 1};
  CHECK(said().empty());
  s.chunk_layers = {3, 3, 2};
  CHECK(said() == "error: 'chunk_layers' lists 3 chunks, but pp * vp = 4\n");
  s.chunk_layers = {3, 1, 2, 2};
  CHECK(said() ==
        "error: 'chunk_layers' gives the pipeline ranks [5,3] layers, 'stage_layers' [4,4]\n");
  s.stage_layers.clear();  // then the chunks say
  CHECK(said().empty());
  CHECK(stage_layers(s, m) == std::vector<std::int64_t>{5, 3});
  s.chunk_layers = {3, 1, 2, 1};
  CHECK(said() == "error: 'chunk_layers' adds up to 7 layers, but the model has 8\n");
  s.chunk_layers = {4, 4};
  s.schedule = Schedule::k1f1b, s.vp = 1;
  CHECK(said() ==
        "error: 'chunk_layers' is of interleaved schedules\n"
        "  hint: leave it out, or state 'stage_layers'\n");
}

TEST_CASE("nanotron's division holds every layer once") {
  ModelSpec m;
  m.hidden_size = 4096;
  m.num_attention_heads = m.num_query_groups = 32;
  m.head_dim = 128;
  m.ffn_hidden_size = 14336;
  Strategy s;
  s.runtime.stage_split = StageSplit::kElements;
  m.num_layers = GENERATE(16, 32, 61);
  m.vocab_size = GENERATE(32000, 131072, 1000000);
  s.pp = GENERATE(2, 4, 8, 16);
  const std::vector<std::int64_t> layers = stage_layers(s, m);
  CHECK(layers.size() == static_cast<std::size_t>(s.pp));
  CHECK(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == m.num_layers);
}
