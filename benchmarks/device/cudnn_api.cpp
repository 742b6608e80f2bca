#if __has_include(<cudnn.h>)
#include "cudnn_api.hpp"

#include <array>
#include <cstdlib>
#include <dlfcn.h>

#include "cuda_support.hpp"

namespace meshplan::device::cudnn {
namespace {

template <class Function>
void find(void* library, const char* name, Function& out) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw ImpossibleError(std::string("this cuDNN has no ") + name + ": version 9 is needed");
  }
  out = reinterpret_cast<Function>(symbol);
}

Api load() {
  const char* named = std::getenv("MESHPLAN_CUDNN_LIBRARY");
  const char* file = named != nullptr && *named != '\0' ? named : "libcudnn.so.9";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw ImpossibleError("attention needs cuDNN 9, which is not on this machine (" +
                          std::string(why != nullptr ? why : file) +
                          "); MESHPLAN_CUDNN_LIBRARY may name it");
  }
  Api a;
  find(library, "cudnnGetVersion", a.version);
  find(library, "cudnnGetErrorString", a.error_text);
  find(library, "cudnnGetLastErrorString", a.last_error);
  find(library, "cudnnCreate", a.create);
  find(library, "cudnnSetStream", a.set_stream);
  find(library, "cudnnBackendCreateDescriptor", a.create_descriptor);
  find(library, "cudnnBackendDestroyDescriptor", a.destroy_descriptor);
  find(library, "cudnnBackendSetAttribute", a.set_attribute);
  find(library, "cudnnBackendGetAttribute", a.get_attribute);
  find(library, "cudnnBackendFinalize", a.finalize);
  find(library, "cudnnBackendExecute", a.execute);
  return a;
}

}  // namespace

const Api& api() {
  static const Api loaded = load();  // tried again where it threw
  return loaded;
}

cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t h = nullptr;
    require(api().create(&h), "the start of cuDNN");
    return h;
  }();
  return made;
}

namespace {

// Whether the device failed: a graph that cuDNN cannot compile or run, or that there is no memory
// for, concerns one operation alone. Errors come in categories of a thousand (cudnn_graph.h).
bool device_failed(cudnnStatus_t code) {
  switch (code) {
    case CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return false;
    default:
      break;
  }
  const int category = CUDNN_STATUS_CATEGORY(code);
  return category == CUDNN_STATUS_EXECUTION_FAILED || category == CUDNN_STATUS_INTERNAL_ERROR;
}

}  // namespace

void require(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> detail{};
  api().last_error(detail.data(), detail.size());
  const std::string reason = std::string("cuDNN's ") + what + ": " + api().error_text(code) +
                             (detail[0] != '\0' ? std::string(": ") + detail.data() : "");
  if (device_failed(code)) throw DeviceError(reason);
  throw ImpossibleError(reason);
}

}  // namespace meshplan::device::cudnn
#endif
