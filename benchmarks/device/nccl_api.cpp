#include "nccl_api.hpp"

#include <climits>
#include <cstdlib>
#include <dlfcn.h>

#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace meshplan::device::nccl {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& out, std::string& reason) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr)
    reason = std::string("this NCCL has no ") + name + ": 2.18 or later is needed";
  out = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

bool find_all(void* l, Api& a, std::string& why) {
  return find(l, "ncclGetVersion", a.version, why) &&
         find(l, "ncclGetUniqueId", a.unique_id, why) &&
         find(l, "ncclCommInitRankConfig", a.init_rank, why) &&
         find(l, "ncclCommSplit", a.split, why) && find(l, "ncclCommFinalize", a.finalize, why) &&
         find(l, "ncclCommDestroy", a.destroy, why) && find(l, "ncclCommAbort", a.abort, why) &&
         find(l, "ncclCommGetAsyncError", a.async_error, why) &&
         find(l, "ncclGetErrorString", a.error_text, why) &&
         find(l, "ncclGetLastError", a.last_error, why) &&
         find(l, "ncclGroupStart", a.group_start, why) &&
         find(l, "ncclGroupEnd", a.group_end, why) && find(l, "ncclAllReduce", a.all_reduce, why) &&
         find(l, "ncclAllGather", a.all_gather, why) &&
         find(l, "ncclReduceScatter", a.reduce_scatter, why) &&
         find(l, "ncclBroadcast", a.broadcast, why) && find(l, "ncclSend", a.send, why) &&
         find(l, "ncclRecv", a.receive, why);
}

}  // namespace

Config non_blocking_config() {
  constexpr unsigned kMagic = 0xcafebeef, kVersion = 21800;
  Config c{};
  c.size = sizeof(Config);
  c.magic = kMagic;
  c.version = kVersion;
  c.blocking = 0;
  c.cga_cluster_size = c.least_blocks = c.most_blocks = c.split_share = c.traffic_class = INT_MIN;
  c.network = nullptr;
  return c;
}

const Api* load(std::string& reason) {
  static Api api;
  static bool loaded = false;
  if (loaded) return &api;
  const char* named = std::getenv("MESHPLAN_NCCL_LIBRARY");
  const char* file = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason = "NCCL is needed to measure communication and is not on this machine (" +
             std::string(dlerror()) + "); MESHPLAN_NCCL_LIBRARY may name it";
    return nullptr;
  }
  loaded = find_all(library, api, reason);
  return loaded ? &api : nullptr;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

#ifdef NCCL_MAJOR
// Ours against the header, where there is one.
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(kInProgress == static_cast<int>(ncclInProgress));
static_assert(kUint8 == static_cast<int>(ncclUint8) && kFloat16 == static_cast<int>(ncclFloat16) &&
              kFloat32 == static_cast<int>(ncclFloat32) &&
              kBfloat16 == static_cast<int>(ncclBfloat16) && kSum == static_cast<int>(ncclSum));
static_assert(kNoColour == NCCL_SPLIT_NOCOLOR);
static_assert(offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(Config, most_blocks) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(Config, network) == offsetof(ncclConfig_t, netName) &&
              offsetof(Config, split_share) == offsetof(ncclConfig_t, splitShare));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0)
static_assert(offsetof(Config, traffic_class) == offsetof(ncclConfig_t, trafficClass));
#endif
#endif

}  // namespace meshplan::device::nccl
