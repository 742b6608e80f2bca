// A libnvidia-ml that knows a driver and one clock, of FAKE_NVML_CLOCK (default 1980) of 1980 MHz.
#include <cstdio>
#include <cstdlib>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  static int only = 0;
  *device = &only;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* megahertz) { return *megahertz = 1980, 0; }
int nvmlDeviceGetClockInfo(void*, int, unsigned* megahertz) {
  const char* now = std::getenv("FAKE_NVML_CLOCK");
  *megahertz = now != nullptr ? static_cast<unsigned>(std::atoi(now)) : 1980;
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "999.01");
  return 0;
}

}  // extern "C"
