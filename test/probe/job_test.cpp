#include "probe/job.hpp"

#include <map>

#include "support/catch.hpp"

namespace meshplan {
namespace {

using Table = std::map<std::string, std::string>;

Environment environment(Table table) {
  return [table = std::move(table)](const char* name) -> const char* {
    const auto at = table.find(name);
    return at == table.end() ? nullptr : at->second.c_str();
  };
}

TEST_CASE("torchrun's variables make a job") {
  const Result<Job> job = find_job(environment({{"RANK", "5"},
                                                {"WORLD_SIZE", "16"},
                                                {"LOCAL_RANK", "1"},
                                                {"LOCAL_WORLD_SIZE", "4"},
                                                {"MASTER_ADDR", "node0"},
                                                {"MASTER_PORT", "29500"}}));
  REQUIRE(job);
  CHECK(job->launcher == "torchrun");
  CHECK(job->rank == 5);
  CHECK(job->ranks == 16);
  CHECK(job->local_rank == 1);
  CHECK(job->local_ranks == 4);
  CHECK(job->address == "node0");
  CHECK(job->port == 29501);  // torchrun listens on 29500 itself
}

TEST_CASE("mpirun's variables make a job that does not know where to meet") {
  const Result<Job> job = find_job(environment({{"OMPI_COMM_WORLD_RANK", "1"},
                                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  REQUIRE(job);
  CHECK(job->launcher == "mpirun");
  CHECK(job->rank == 1);
  CHECK(job->ranks == 2);
  CHECK(job->address.empty());
}

TEST_CASE("a Slurm step meets on its first node, each step at its own port") {
  Table slurm{{"SLURM_PROCID", "9"},
              {"SLURM_STEP_NUM_TASKS", "16"},
              {"SLURM_LOCALID", "1"},
              {"SLURM_STEP_NODELIST", "gpu[07-08]"},
              {"SLURM_JOB_ID", "123456"},
              {"SLURM_STEP_ID", "0"},
              {"SLURM_STEP_TASKS_PER_NODE", "8(x2)"}};
  const Result<Job> first = find_job(environment(slurm));
  slurm["SLURM_STEP_ID"] = "1";
  const Result<Job> second = find_job(environment(slurm));
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->launcher == "srun");
  CHECK(first->rank == 9);
  CHECK(first->ranks == 16);
  CHECK(first->local_ranks == 8);
  CHECK(first->address == "gpu07");
  CHECK(first->port >= 20000);
  CHECK(first->port < 40000);
  CHECK(first->port != second->port);
  CHECK(first->token != second->token);
}

TEST_CASE("a batch script's own shell is no rank") {
  const Result<Job> job =
      find_job(environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "1"}}));
  REQUIRE(job);
  CHECK(job->launcher == "none");
  CHECK(job->ranks == 1);
}

TEST_CASE("a rendezvous that is named comes before what the launcher says") {
  const Result<Job> job = find_job(environment({{"RANK", "0"},
                                                {"WORLD_SIZE", "2"},
                                                {"LOCAL_RANK", "0"},
                                                {"MASTER_ADDR", "a"},
                                                {"MASTER_PORT", "1"},
                                                {"MESHPLAN_RENDEZVOUS", "[::1]:4000"}}));
  REQUIRE(job);
  CHECK(job->address == "::1");
  CHECK(job->port == 4000);
}

TEST_CASE("the secret of a job is part of its token") {
  const Result<Job> without = find_job(environment({}));
  const Result<Job> with = find_job(environment({{"MESHPLAN_JOB_TOKEN", "s3cret"}}));
  REQUIRE(without);
  REQUIRE(with);
  CHECK(without->token != with->token);
}

TEST_CASE("variables that make no sense are named") {
  struct Row {
    Table table;
    std::string named;
  };
  const Row row = GENERATE(values<Row>({
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}, "WORLD_SIZE"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65536"}},
       "MASTER_PORT"},
  }));
  const Result<Job> job = find_job(environment(row.table));
  REQUIRE_FALSE(job);
  CHECK(job.errors().front().message.find("variable " + row.named + " is") != std::string::npos);
}

TEST_CASE("the first host of Slurm's lists") {
  CHECK(first_host("gpu[07-12,20],login") == "gpu07");
  CHECK(first_host("gpu[3]") == "gpu3");
  CHECK(first_host("a,b[1-2]") == "a");
  CHECK(first_host("alone") == "alone");
  CHECK(first_host("rack[1-2]n[4-5]") == "rack1n");  // two ranges: srun writes hosts out instead
  CHECK(first_host("n[01-02].cluster") == "n01.cluster");
  CHECK(first_host("") == "");
}

TEST_CASE("a host and a port") {
  CHECK(parse_host_port("node1:80")->host == "node1");
  CHECK(parse_host_port("node1:80")->port == 80);
  for (const char* bad : {"node1", ":80", "node1:", "node1:0", "node1:65536", "node1:8o", ""}) {
    CHECK_FALSE(parse_host_port(bad));
  }
}

}  // namespace
}  // namespace meshplan
