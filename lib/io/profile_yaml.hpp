#pragma once
// Cluster and device specs as the YAML of a profile; it reads back to the same spec.
#include <string>
#include <string_view>

#include "spec/cluster.hpp"
#include "spec/device.hpp"

namespace meshplan {

// How a cluster file names its device: by the name of a shipped one, or by writing it out.
enum class DeviceForm { kName, kInline };

// `comment` goes on top, a '#' before each of its lines. Measured points and samples are rounded to
// six digits; everything else reads back exactly.
[[nodiscard]] std::string cluster_yaml(const ClusterSpec& c, DeviceForm device,
                                       std::string_view comment = {});
// Sources whose keys begin with "measured." are the file's section `measured:`.
[[nodiscard]] std::string device_yaml(const DeviceSpec& d, std::string_view comment = {});

// The device with a section `measured:` that says when, where and with what.
[[nodiscard]] DeviceSpec with_provenance(DeviceSpec d, const Provenance& p);

}  // namespace meshplan
