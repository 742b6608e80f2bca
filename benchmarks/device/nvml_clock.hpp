#pragma once
// How fast the device runs now, from NVIDIA's management library, where there is one.
#include <string>

namespace meshplan::device {

class DeviceClock {
 public:
  explicit DeviceClock(const std::string& bus_id);
  // Clock of the multiprocessors over the highest; negative: not known.
  [[nodiscard]] double ratio() const;
  [[nodiscard]] const std::string& driver() const { return driver_; }

 private:
  void* device_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  unsigned highest_ = 0;
  std::string driver_;
};

}  // namespace meshplan::device
