#pragma once
// NCCL's functions, found when they are needed: one GPU is measured without them, and PyTorch's own
// copy serves as well as the system's. The declarations are those of NCCL 2.18 and later
// (nccl.h, docs.nvidia.com/deeplearning/nccl), which newer versions accept by the sizes they carry.
#include <cstddef>
#include <cuda_runtime_api.h>
#include <memory>
#include <string>

namespace meshplan::device::nccl {

constexpr int kUniqueIdBytes = 128;
struct UniqueId {
  char internal[kUniqueIdBytes];
};
using Comm = void*;

enum Status : int { kSuccess = 0, kInProgress = 7 };
enum Type : int { kUint8 = 1, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9 };
constexpr int kSum = 0;
constexpr int kNoColour = -1;

// ncclConfig_t of 2.26, which is as large as that of 2.18: what came later keeps its defaults.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size;
  int least_blocks;
  int most_blocks;
  const char* network;
  int split_share;
  int traffic_class;  // since 2.26, in what was padding at the end before
};
static_assert(sizeof(Config) == 48);  // of 2.18 as of 2.26
[[nodiscard]] Config non_blocking_config();

struct Api {
  int (*version)(int*);
  int (*unique_id)(UniqueId*);
  int (*init_rank)(Comm*, int, UniqueId, int, Config*);
  int (*split)(Comm, int, int, Comm*, Config*);
  int (*finalize)(Comm);
  int (*destroy)(Comm);
  int (*abort)(Comm);
  int (*async_error)(Comm, int*);
  const char* (*error_text)(int);
  const char* (*last_error)(Comm);
  int (*group_start)();
  int (*group_end)();
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t);
  int (*all_gather)(const void*, void*, std::size_t, int, Comm, cudaStream_t);
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t);
  int (*broadcast)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t);
  int (*send)(const void*, std::size_t, int, int, Comm, cudaStream_t);
  int (*receive)(void*, std::size_t, int, int, Comm, cudaStream_t);
};

// Null with a reason where there is no NCCL: MESHPLAN_NCCL_LIBRARY names it, else libnccl.so.2 is
// looked for as any library is.
[[nodiscard]] const Api* load(std::string& reason);

// 22809 -> "2.28.9"
[[nodiscard]] std::string version_text(int version);

}  // namespace meshplan::device::nccl
