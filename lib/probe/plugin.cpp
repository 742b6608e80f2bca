#include "probe/plugin.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <system_error>

#include "base/program_path.hpp"

namespace meshplan {
namespace {

std::string file_name(BackendKind kind) {
  return kind == BackendKind::kNccl ? "libmeshplan_cuda.so" : "libmeshplan_mpi.so";
}

std::string way_out(BackendKind kind) {
  return kind == BackendKind::kNccl
             ? "it needs the CUDA 13 runtime and cuBLASLt on the library path (LD_LIBRARY_PATH)"
             : "it needs the MPI library that it was built with (Debian: libopenmpi3)";
}

// How a plug-in that is not there comes about.
std::string to_build(BackendKind kind) {
  return kind == BackendKind::kNccl
             ? "install the CUDA 13 toolkit with nvcc and cuBLASLt; scripts/run bench then builds "
               "it"
             : "run scripts/install_packages mpi; scripts/run bench then builds it";
}

// "libnccl.so.2: cannot open shared object file: ..." -> "libnccl.so.2".
std::string missing_library(const std::string& reason) {
  constexpr std::string_view kCannotOpen = ": cannot open shared object file";
  const std::size_t end = reason.find(kCannotOpen);
  return end == std::string::npos ? std::string() : reason.substr(0, end);
}

Diagnostic load_error(BackendKind kind, const std::filesystem::path& path,
                      const std::string& reason) {
  const std::string missing = missing_library(reason);
  if (!missing.empty() && missing != path.string()) {
    return error("the backend '" + std::string(name_of(kind)) + "' needs the library " + missing +
                     ", which is not on this machine",
                 way_out(kind));
  }
  return error("the backend '" + std::string(name_of(kind)) + "' cannot be loaded: " + reason,
               way_out(kind));
}

void fill(const CollectiveOperation& c, std::int64_t rank, std::int64_t ranks,
          meshplan_probe_collective& out) {
  const GroupPlace place = place_of(c.group, rank, ranks);
  out.collective = static_cast<std::int32_t>(c.collective);
  out.dtype = static_cast<std::int32_t>(c.dtype);
  out.bidirectional = c.bidirectional ? 1 : 0;
  out.ping_pong = c.ping_pong ? 1 : 0;
  out.bytes = c.bytes.count();
  out.group = place.group;
  out.member = place.member;
  out.group_size = c.group.size;
  const RankGroup& g = c.group;
  const std::array<std::int64_t, MESHPLAN_PROBE_DIVISION> division{
      g.size, g.stride, g.concurrent ? 1 : 0, g.run, g.jump, g.period};
  std::copy(division.begin(), division.end(), std::begin(out.division));
}

void fill(const GemmOperation& g, meshplan_probe_gemm& out) {
  out.layout = static_cast<std::int32_t>(g.layout);
  out.precision = static_cast<std::int32_t>(g.precision);
  out.accumulate = g.accumulate ? 1 : 0;
  out.m = g.m, out.n = g.n, out.k = g.k, out.count = g.count;
}

void fill(const AttentionOperation& a, meshplan_probe_attention& out) {
  out.dtype = static_cast<std::int32_t>(a.dtype);
  out.causal = a.causal ? 1 : 0;
  out.backward = a.backward ? 1 : 0;
  out.batch = a.batch, out.heads = a.heads, out.kv_heads = a.kv_heads;
  out.queries = a.queries, out.keys = a.keys, out.qk_dim = a.qk_dim, out.v_dim = a.v_dim;
}

}  // namespace

std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* given = std::getenv("MESHPLAN_PLUGINS"); given != nullptr && *given != '\0') {
    folders.emplace_back(given);
    return folders;
  }
  const std::filesystem::path program = program_path().parent_path();
  if (program.empty()) return folders;
  folders.push_back(program / "plugins");
  for (const char* lib : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    folders.push_back(program.parent_path() / lib / "meshplan");
  }
  return folders;
}

Result<std::shared_ptr<Plugin>> Plugin::load(BackendKind kind,
                                             const std::vector<std::filesystem::path>& folders) {
  const std::string file = file_name(kind);
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / file;
    std::error_code failure;
    if (!std::filesystem::exists(path, failure)) continue;
    // Open MPI's own plug-ins look for its symbols in the global scope.
    const int scope = kind == BackendKind::kMpi ? RTLD_GLOBAL : RTLD_LOCAL;
    void* library = dlopen(path.c_str(), RTLD_NOW | scope);  // NOLINT: closed by the process's end
    if (library == nullptr) return load_error(kind, path, dlerror());
    void* symbol = dlsym(library, MESHPLAN_PROBE_SYMBOL);
    if (symbol == nullptr) return load_error(kind, path, "it is not a plug-in of meshplan");
    const auto entry = reinterpret_cast<meshplan_probe_plugin_function>(symbol);
    const meshplan_probe_plugin_table* table = entry(MESHPLAN_PROBE_ABI);
    if (table == nullptr || table->abi != MESHPLAN_PROBE_ABI) {
      return load_error(kind, path, "it belongs to another version of meshplan");
    }
    return std::shared_ptr<Plugin>(new Plugin(table, path.string()));
  }
  return error("the backend '" + std::string(name_of(kind)) + "' is not installed: there is no " +
                   file + (folders.empty() ? "" : " in " + folders.front().string()),
               to_build(kind) + ", or set MESHPLAN_PLUGINS to the folder of the plug-ins");
}

meshplan_probe_operation to_abi(const Operation& op, std::int64_t rank, std::int64_t ranks) {
  meshplan_probe_operation out{};
  out.kind = static_cast<std::int32_t>(op.index());
  if (const auto* c = std::get_if<CollectiveOperation>(&op)) {
    fill(*c, rank, ranks, out.collective);
  } else if (const auto* g = std::get_if<GemmOperation>(&op)) {
    fill(*g, out.gemm);
  } else if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    fill(*a, out.attention);
  } else if (const auto* m = std::get_if<MemoryOperation>(&op)) {
    out.memory = {static_cast<std::int32_t>(m->kernel), static_cast<std::int32_t>(m->dtype),
                  m->rows, m->columns};
  } else if (const auto* copy = std::get_if<CopyOperation>(&op)) {
    out.copy = {static_cast<std::int32_t>(copy->direction), copy->bytes.count()};
  } else if (const auto* l = std::get_if<LaunchOperation>(&op)) {
    out.launch = {l->graph ? 1 : 0, l->kernels};
  } else if (const auto* o = std::get_if<OverlapOperation>(&op)) {
    fill(o->compute, out.gemm);
    fill(o->communication, rank, ranks, out.collective);
  }
  return out;
}

static_assert(std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_COLLECTIVE, Operation>,
                             CollectiveOperation>);
static_assert(
    std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_GEMM, Operation>, GemmOperation>);
static_assert(std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_ATTENTION, Operation>,
                             AttentionOperation>);
static_assert(
    std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_MEMORY, Operation>, MemoryOperation>);
static_assert(
    std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_COPY, Operation>, CopyOperation>);
static_assert(
    std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_LAUNCH, Operation>, LaunchOperation>);
static_assert(std::is_same_v<std::variant_alternative_t<MESHPLAN_PROBE_OVERLAP, Operation>,
                             OverlapOperation>);

}  // namespace meshplan
