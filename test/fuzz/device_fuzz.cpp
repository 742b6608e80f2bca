// Any text as a device file; what is sound is written and reads back to the same device, whatever
// the comment above it.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "io/profile_yaml.hpp"
#include "spec/device.hpp"

MESHPLAN_FUZZ_TARGET(device) {
  using namespace meshplan;
  const Result<DeviceSpec> device = parse_device(fuzz::as_text(data, size), "fuzz.yaml");
  fuzz::require_value_or_errors(device);
  if (!device.ok() || has_errors(validate(*device))) return 0;
  const std::string written = device_yaml(*device);
  const Result<DeviceSpec> again = parse_device(written, "written.yaml");
  fuzz::require(again.ok() && device_yaml(*again) == written);
  const std::string commented = device_yaml(*device, fuzz::as_text(data, size));
  const Result<DeviceSpec> below = parse_device(commented, "commented.yaml");
  fuzz::require(below.ok() && *below == *again);
  return 0;
}
