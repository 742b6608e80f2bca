#pragma once
// Which rank of which job this process is: read from what mpirun, srun and torchrun leave in the
// environment.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

// The value of a variable, or null. std::getenv, or a table in a test.
using Environment = std::function<const char*(const char*)>;

struct Job {
  std::string launcher;  // "torchrun", "mpirun", "srun", "none"
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_ranks = 1;
  // Where the ranks meet; empty and 0: not known from the environment.
  std::string address;
  int port = 0;
  std::string token;  // what a process must know to be let in
  bool operator==(const Job&) const = default;
};

// RANK/WORLD_SIZE/LOCAL_RANK/LOCAL_WORLD_SIZE with MASTER_ADDR/MASTER_PORT; OMPI_COMM_WORLD_*;
// PMI_*; SLURM_* of a step. Errors name the variable. The ranks meet at MASTER_PORT + 1, since
// torchrun itself may listen on MASTER_PORT; MESHPLAN_RENDEZVOUS=host:port overrides both.
// MESHPLAN_JOB_TOKEN adds a secret to the token.
Result<Job> find_job(const Environment& environment);

// First host of Slurm's notation: "gpu[07-12,20],login" -> "gpu07".
[[nodiscard]] std::string first_host(std::string_view nodelist);

struct HostPort {
  std::string host;
  int port = 0;
};
// "host:port", "[2001:db8::1]:port".
Result<HostPort> parse_host_port(std::string_view text);

}  // namespace meshplan
