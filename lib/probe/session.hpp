#pragma once
// This process as part of a measuring job: finds its rank, meets the others, and is then either the
// one that leads (rank 0, which has the Backend) or one that follows.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probe/backend.hpp"
#include "probe/job.hpp"
#include "probe/plugin.hpp"

namespace meshplan {

struct SessionOptions {
  std::optional<BackendKind> backend;  // nothing: NCCL where a GPU is found, else MPI
  std::string version;                 // of meshplan
  std::string settings;                // whatever else must be equal on every rank
  std::string profile;                 // fingerprint of its files, empty where it cannot read them
  Seconds timeout{20};                 // for the ranks to meet, and for each step after that
  std::function<bool()> interrupted;   // asked often; true: end soon
  std::vector<std::filesystem::path> folders = plugin_folders();
};

class Session {
 public:
  // Blocks until all ranks have met. Errors name the rank that did not come, that runs another
  // version or other settings, the port that is taken, the library that is missing.
  static Result<std::unique_ptr<Session>> open(const SessionOptions& options,
                                               const Environment& environment);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] const Job& job() const;
  [[nodiscard]] bool leads() const;

  // Rank 0 only.
  [[nodiscard]] Backend& backend();
  // The others: returns when rank 0 is done.
  [[nodiscard]] Result<bool> follow();
  // Rank 0, at an orderly end. After a failure the process must end by std::_Exit instead: a thread
  // may be stuck in a driver.
  void close();

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshplan
