// Any text as a device file.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "spec/device.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshplan;
  const Result<DeviceSpec> device = parse_device(fuzz::as_text(data, size), "fuzz.yaml");
  fuzz::require_value_or_errors(device);
  if (device.ok()) static_cast<void>(validate(*device));
  return 0;
}
