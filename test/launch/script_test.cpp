#include <nlohmann/json.hpp>

#include "launch/plans.hpp"
#include "layout/groups.hpp"

namespace meshplan {
namespace {

const std::string& text_of(const LaunchFiles& files, const std::string& name) {
  for (const LaunchFile& file : files.files) {
    if (file.name == name) return file.text;
  }
  FAIL("no file " << name);
  return files.files.front().text;
}

}  // namespace

TEST_CASE("launch.json places every rank in one group of each kind") {
  const LaunchPlan p = test::plan_of("mixtral-8x7b", "dgx-h100", 32,
                                     "tp=2,sequence_parallel=true,pp=2,cp=2,ep=4,global_batch=32");
  const LaunchFiles files = launch_files(LaunchFormat::kSlurm, p, "test").value();
  const auto json = nlohmann::json::parse(text_of(files, "launch.json"));
  CHECK(json["world_size"] == 32);
  CHECK(json["nodes"] == 4);
  CHECK(json["gpus_per_node"] == 8);
  REQUIRE(json["ranks"].size() == 32);
  for (const auto& [kind, groups] : json["groups"].items()) {
    INFO(kind);
    std::vector<int> seen(32, 0);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::size_t rank : groups[g]) {
        ++seen[rank];
        CHECK(json["ranks"][rank][kind] == g);
      }
    }
    CHECK(seen == std::vector<int>(32, 1));
  }
  // tp innermost, then cp, dp and pp: Megatron-Core parallel_state.py.
  CHECK(json["groups"]["tp"][0] == std::vector<int>{0, 1});
  CHECK(json["groups"]["cp"][0] == std::vector<int>{0, 2});
  CHECK(json["groups"]["dp"][0] == std::vector<int>{0, 4, 8, 12});
  CHECK(json["groups"]["pp"][0] == std::vector<int>{0, 16});
  CHECK(json["ranks"][17]["node"] == 2);
  CHECK(json["ranks"][17]["local_rank"] == 1);
}

TEST_CASE("launch.json lists no ranks of a job of more than 65,536, and says so") {
  for (const std::int64_t gpus : {65'536, 131'072}) {
    const LaunchPlan p = test::plan_of("llama-2-7b", "dgx-h100", gpus, "global_batch=131072");
    const LaunchFiles files = launch_files(LaunchFormat::kMegatron, p, "test").value();
    const auto json = nlohmann::json::parse(text_of(files, "launch.json"));
    const bool listed = gpus == 65'536;
    CHECK(json["world_size"] == gpus);
    CHECK(json.contains("ranks") == listed);
    CHECK(json.contains("groups") == listed);
    const std::string notes = json["notes"].dump();
    CHECK((notes.find("more than 65,536 ranks") == std::string::npos) == listed);
  }
}

TEST_CASE("a Slurm job asks for the plan's nodes and devices") {
  const LaunchPlan p = test::plan_of("llama-2-7b", "dgx-h100", 64, "tp=2");
  const LaunchFiles files = launch_files(LaunchFormat::kSlurm, p, "test").value();
  CHECK(files.files.front().name == "train.sbatch");
  const std::string& job = text_of(files, "train.sbatch");
  CHECK(job.find("#SBATCH --nodes=8\n") != std::string::npos);
  CHECK(job.find("#SBATCH --gpus-per-node=8\n") != std::string::npos);
  CHECK(text_of(files, "train.sh").find("--nnodes 8 --nproc-per-node 8") != std::string::npos);
  CHECK(job.find("--segment") == std::string::npos);
}

TEST_CASE("a job on NVLink domains of many nodes asks for equal parts of them") {
  const auto job = [](std::int64_t gpus) {
    const LaunchPlan p = test::plan_of("llama-2-7b", "gb200-nvl72", gpus,
                                       "global_batch=" + std::to_string(4 * gpus));
    const LaunchFiles files = launch_files(LaunchFormat::kSlurm, p, "test").value();
    return text_of(files, "train.sbatch");
  };
  CHECK(job(128).find("#SBATCH --segment=16\n") != std::string::npos);
  CHECK(job(144).find("#SBATCH --segment=18\n") != std::string::npos);
  CHECK(job(72).find("--segment") == std::string::npos);  // one domain
  CHECK(job(76).find("--segment") == std::string::npos);  // no equal parts
}

TEST_CASE("names reach scripts as comments and job names only") {
  LaunchPlan p = test::plan_of("llama-2-7b", "dgx-h100", 64, "tp=2");
  p.model.name = "x\n#SBATCH --wrap=id\n$(touch owned) `id` '\"";
  p.cluster.name = "y\nid";
  const LaunchFiles files = launch_files(LaunchFormat::kSlurm, p, "test").value();
  for (const char* name : {"train.sbatch", "train.sh"}) {
    const std::string& text = text_of(files, name);
    CHECK(text.find("\n#SBATCH --wrap") == std::string::npos);
    CHECK(text.find("\nid") == std::string::npos);
    for (std::size_t at = text.find("touch"); at != std::string::npos;
         at = text.find("touch", at + 1)) {
      const std::size_t line = text.rfind('\n', at) + 1;
      CHECK(text[line] == '#');
    }
  }
}

}  // namespace meshplan
