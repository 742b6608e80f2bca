#include "nvml_clock.hpp"

#include <array>
#include <dlfcn.h>

namespace meshplan::device {
namespace {

constexpr int kMultiprocessorClock = 1;  // NVML_CLOCK_SM

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

// Toolkits bring neither header nor stub of it everywhere, so its few functions are looked up.
DeviceClock::DeviceClock(const std::string& bus_id) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = find<int (*)()>(library, "nvmlInit_v2");
  const auto by_bus_id =
      find<int (*)(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto highest = find<int (*)(void*, int, unsigned*)>(library, "nvmlDeviceGetMaxClockInfo");
  const auto driver = find<int (*)(char*, unsigned)>(library, "nvmlSystemGetDriverVersion");
  clock_ = find<int (*)(void*, int, unsigned*)>(library, "nvmlDeviceGetClockInfo");
  if (init == nullptr || by_bus_id == nullptr || highest == nullptr || clock_ == nullptr) return;
  if (init() != 0 || by_bus_id(bus_id.c_str(), &device_) != 0) return;
  if (highest(device_, kMultiprocessorClock, &highest_) != 0) highest_ = 0;
  std::array<char, 96> text{};
  if (driver != nullptr && driver(text.data(), text.size()) == 0) driver_ = text.data();
}

double DeviceClock::ratio() const {
  unsigned now = 0;
  if (highest_ == 0 || clock_(device_, kMultiprocessorClock, &now) != 0) return -1;
  return static_cast<double>(now) / static_cast<double>(highest_);
}

}  // namespace meshplan::device
