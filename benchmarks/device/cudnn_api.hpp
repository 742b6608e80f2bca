#pragma once
// cuDNN's graph interface, loaded when the first attention is asked for: without the library
// everything else still runs. Only where its header was found.
#include <cudnn.h>
#include <string>

namespace meshplan::device::cudnn {

struct Api {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_text = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;
};

// libcudnn.so.9, or what MESHPLAN_CUDNN_LIBRARY names. Throws ImpossibleError with the reason.
[[nodiscard]] const Api& api();

// One for this process, made when first asked for.
[[nodiscard]] cudnnHandle_t handle();

// Throws: ImpossibleError where cuDNN does not support it, else DeviceError.
void require(cudnnStatus_t code, const char* what);

}  // namespace meshplan::device::cudnn
