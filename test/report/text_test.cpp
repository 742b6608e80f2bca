#include <sstream>

#include "report/estimate_text.hpp"
#include "report/lists.hpp"
#include "report/mixed_text.hpp"
#include "report/plan_table.hpp"
#include "report/sample.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

std::size_t widest_line(const std::string& text) {
  std::istringstream stream(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("--strategy")) widest = std::max(widest, display_width(line));
  }
  return widest;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the time table names every term that takes time, and its share") {
  CHECK(time_table(sample_plan(), {}) ==
        "time of one step       seconds    share\n"
        "---------------------  -------  -------  ---------------\n"
        "compute                 2.0000   50.0 %  ###############\n"
        "recomputation           0.2500    6.2 %  ##\n"
        "tensor-parallel comm.   0.2500    6.2 %  ##\n"
        "pipeline bubble         0.5000   12.5 %  ####\n"
        "data-parallel comm.     0.5000   12.5 %  ####\n"
        "optimizer step          0.2500    6.2 %  ##\n"
        "launch and offload      0.2500    6.2 %  ##\n"
        "step                    4.0000  100.0 %\n");
}

TEST_CASE("the memory table has a row per pipeline rank and a column per term") {
  const std::string text = memory_table(sample_plan().stages, {});
  CHECK(has(text, "   0   4.00 8.00 12.00 32.00   2.00 0.00 1.00 0.50 0.50 2.00 60.00 80.00\n"));
  CHECK(has(text, "   1   4.00 8.00 12.00 16.00   2.00 0.00 1.00 0.50 0.50 2.00 44.00 80.00\n"));
}

TEST_CASE("the communication table names the level that each group crosses") {
  const std::string text = communication_table(sample_plan(), sample_cluster(), {});
  CHECK(has(text, "tp   all-reduce          2  inside   32.0 MiB    192  1.25 ms   250 ms\n"));
  CHECK(has(text, "dp   reduce-scatter      2  between  3.00 GiB      1   500 ms   500 ms\n"));
}

TEST_CASE("a plan without communication says so") {
  PlanCost p = sample_plan();
  p.communication.clear();
  CHECK(communication_table(p, sample_cluster(), {}) == "No communication.\n");
}

TEST_CASE("an estimate states its interval, its throughput, its FLOP convention and its warnings") {
  const std::string text = estimate_text(sample_model(), sample_cluster(), sample_plan(), {});
  CHECK(has(text, "4.00 s, in four runs of five between "));
  CHECK(has(text, "Out of memory"));
  CHECK(has(text, "250,000 tokens/s, 31,250 per GPU"));
  CHECK(has(text, "MFU 45.0 %, causal attention counted half"));
  CHECK(has(text, "250 TFLOP/s per GPU: MFU 50.0 %, HFU 60.0 %"));
  CHECK(has(text, "60.0 GiB of 80.0 GiB (75.0 %) on pipeline rank 0"));
  CHECK(has(text, "warning: a warning that the report repeats"));
  CHECK(has(text, "in full (non-causal), as PaLM"));
  CHECK_FALSE(has(text, "USD"));
}

TEST_CASE("the price of a step appears where the cluster states one") {
  ClusterSpec c = sample_cluster();
  c.usd_per_gpu_hour = 9;
  CHECK(has(estimate_text(sample_model(), c, sample_plan(), {}), "0.0800 USD per step"));
}

TEST_CASE("a plan that does not fit says why, by how much, and what would make it fit, in order") {
  const std::string text = infeasible_text(sample_miss(), {});
  CHECK(has(text, "activations and buffers beside"));
  CHECK(has(text, "- pipeline rank 0 needs 90.0 GiB of 80.0 GiB\n- 10.0 GiB are missing\n"));
  CHECK(has(text, "cheapest first:\n  1. recompute=full: fits\n  2. twice the pp: fits\n"));
  CHECK(has(text, " 90.00 80.00\n"));
}

TEST_CASE("an illegal strategy lists the broken rules and no memory") {
  Verdict v;
  v.state =
      Infeasible{InfeasibleReason::kIllegal, {"'tp' must divide the 16 heads, got 3"}, {}, {}};
  CHECK(infeasible_text(v, {}) ==
        "This strategy is illegal.\n- 'tp' must divide the 16 heads, got 3\n");
}

TEST_CASE("ranked plans show step time, throughput, utilisation, memory and what is idle") {
  const std::string text = plan_table(sample_result(), sample_cluster(), {.width = 120});
  CHECK(has(text, "4.00 s     31,250  45.0%  60.0 GiB 75%"));
  CHECK(has(text, "12.5%  18.8%\n"));
  CHECK(has(text, "5.00 s     25,000  45.0%"));
}

TEST_CASE("a ranked plan takes two lines at most, and no word of it is broken") {
  SearchResult r = sample_result();
  r.plans.resize(1, sample_plan());
  Strategy& s = r.plans.front().strategy;
  s = sample_strategy();
  s.tp = 8, s.pp = 4, s.vp = 10, s.sequence_parallel = true;
  s.schedule = Schedule::kInterleaved, s.recompute = Recompute::kSelective;
  s.stage_layers = {20, 21, 20, 19};
  s.recompute_layers.assign(4, 0);
  const std::string name = short_text(s);
  REQUIRE(name.size() > 60);
  CAPTURE(name);
  for (const std::size_t width : {80U, 100U, 200U}) {
    const std::string text = plan_table(r, sample_cluster(), {.width = width});
    CAPTURE(width, text);
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line) && !line.starts_with("MFU:");) {
      CHECK(display_width(line) <= width);
      lines.push_back(line);
    }
    REQUIRE(lines.size() >= 3);
    CHECK(lines.size() <= 4);  // header, rule, the plan
    std::string all;
    for (const std::string& line : lines) all += line + ' ';
    std::istringstream words(name);
    for (std::string word; words >> word;) CHECK(has(all, " " + word + " "));
  }
}

TEST_CASE("variants of a decision within the tie are counted in its row, not listed") {
  SearchResult r = sample_result();
  r.plans.resize(1, sample_plan());
  r.plans.push_back(r.plans.front());
  r.plans.back().strategy.vp = 2 * r.plans.front().strategy.vp;
  const std::string text = plan_table(r, sample_cluster(), {.width = 120});
  CHECK(has(text, short_text(r.plans.front().strategy) + " (+1)"));
  CHECK(has(text, "which differ in vp"));
  CHECK_FALSE(has(text, short_text(r.plans.back().strategy)));
  CHECK_FALSE(has(text, "practically tied with plan 1"));
}

TEST_CASE("the search's counts, proof and reasons are stated") {
  const std::string text = search_text(sample_result(), {.every_reason = true}, {.width = 120});
  CHECK(has(text, "Searched 1,200 strategies in 250 ms: 900 illegal, 200 ruled out by a bound,"));
  CHECK(has(text, "Proof: no strategy of the space is faster\n"));
  CHECK(has(text, "model_states              150\n"));
  CHECK_FALSE(has(search_text(sample_result(), {}, {}), "model_states"));
}

TEST_CASE("when nothing fits the closest miss and its remedies take the place of plans") {
  SearchResult r = sample_result();
  r.plans.clear();
  r.closest_miss = sample_miss();
  r.closest_strategy = sample_strategy();
  SearchRequest request;
  request.base = sample_strategy();
  const std::string text = search_report(sample_model(), sample_cluster(), request, r, {}, {});
  CHECK(has(text, "No plan fits.\nThe closest miss:\n--strategy 'framework=megatron,tp=2,"));
  CHECK(has(text, "1. recompute=full: fits"));
  r.proof.exact = false;
  CHECK(has(search_report(sample_model(), sample_cluster(), request, r, {}, {}),
            "No plan was found before the search was stopped.\n"));
}

TEST_CASE("no line of a report is wider than 80 columns, except the strategy to copy") {
  PlanCost wide = sample_plan();
  wide.strategy.tp = 128;
  wide.strategy.dp = 2048;
  wide.strategy.vp = 16;
  wide.step_time = Seconds{123.4};
  wide.stages.assign(16, wide.stages.front());
  SearchResult r = sample_result();
  r.plans = {wide};
  CHECK(widest_line(plan_table(r, sample_cluster(), {})) <= 80);
  CHECK(widest_line(estimate_text(sample_model(), sample_cluster(), wide, {})) <= 80);
  CHECK(widest_line(infeasible_text(sample_miss(), {})) <= 80);
  CHECK(widest_line(schedule_list({})) <= 80);
  CHECK(widest_line(framework_list(*all_presets(), {})) <= 80);
}

TEST_CASE("text without colour holds no escape code, text with colour does") {
  const auto text = [](bool colour) {
    return estimate_text(sample_model(), sample_cluster(), sample_plan(), {.colour = colour}) +
           infeasible_text(sample_miss(), {.colour = colour});
  };
  CHECK_FALSE(has(text(false), "\x1b"));
  CHECK(has(text(true), "\x1b[1mMemory\x1b[0m"));
  CHECK(has(text(true), "\x1b[31m"));
}

TEST_CASE("two kinds of machines: what was not searched to the end is not said to fit nothing") {
  const MixedClusters own{sample_cluster(), sample_cluster()};
  const auto text = [&](const Mixed& found) {
    return mixed_report(sample_model(), own, SearchRequest{}, found, {});
  };
  Mixed found;
  found.clusters = own;
  CHECK(has(text(found), "Nothing fits"));
  CHECK(has(text(found), "alone: nothing fits"));
  found.exact = false, found.alone_open = {true, false};
  CHECK_FALSE(has(text(found), "Nothing fits"));
  CHECK(has(text(found), "Nothing was found in the time given"));
  CHECK(has(text(found), "alone: nothing was found in the time given"));
  CHECK(has(text(found), "alone: nothing fits"));
  found.alone[1] = sample_plan(), found.alone_open = {};
  CHECK(has(text(found), "none for both kinds was found"));
  found.exact = true;
  CHECK(has(text(found), "no plan fits both kinds"));
}
