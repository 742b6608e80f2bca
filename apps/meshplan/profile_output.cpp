#include "profile_output.hpp"

#include "io/profile_yaml.hpp"

namespace meshplan {

std::string profile_text(const ClusterSpec& c) {
  const Result<DeviceSpec> shipped = load_device(c.device.name, DataFolders::standard());
  const bool same = shipped.ok() && *shipped == c.device;
  return cluster_yaml(c, same ? DeviceForm::kName : DeviceForm::kInline);
}

}  // namespace meshplan
