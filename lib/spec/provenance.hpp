#pragma once
// Where the measured numbers of a profile come from.
#include <map>
#include <string>

namespace meshplan {

struct Provenance {
  std::string method;              // "nccl-tests 2.17.6", "meshplan bench (mpi)", "training logs"
  std::string date;                // ISO 8601; of the measurement
  std::string host;                // the first, and how many more there were
  std::string gpu;                 // as the driver calls it
  std::string driver, cuda, nccl;  // versions
  std::map<std::string, std::string> environment;  // variables that change what is measured
  std::map<std::string, std::string> notes;        // what else whoever reads the numbers must know

  bool operator==(const Provenance&) const = default;
};

}  // namespace meshplan
