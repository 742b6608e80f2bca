#pragma once
// Device files, and devices written inside of a cluster file.
#include "io/yaml_reader.hpp"
#include "spec/device.hpp"

namespace meshplan {

// Reads every key of a device and checks its values; problems go to the reader's document.
[[nodiscard]] DeviceSpec read_device(MapReader& r);

}  // namespace meshplan
