#pragma once
// A machine that exists only in a test: times come from a function.
#include <functional>

#include "probe/backend.hpp"

namespace meshplan {

// `ranks` on nodes of `ranks_per_node`, an accelerator unless said otherwise.
[[nodiscard]] Machine fake_machine(std::int64_t ranks, std::int64_t ranks_per_node);

class FakeBackend : public Backend {
 public:
  // The time of one call; a Result so that failures can be played too.
  using Clock = std::function<Result<Seconds>(const Operation&)>;

  // The time of one call after the device was busy with it for so long.
  using Lasting = std::function<Seconds(const Operation&, Seconds)>;

  // Without `lasting` the clock's times last.
  FakeBackend(Machine machine, Clock clock, Lasting lasting = {});

  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::optional<std::string> why_not(const Operation& op) const override;
  [[nodiscard]] Result<Sample> measure(const Operation& op, const MeasureOptions& o) override;
  [[nodiscard]] bool alive() const override { return alive_; }

  // A lost rank: the next measurements fail.
  void lose_rank() { alive_ = false; }
  [[nodiscard]] std::int64_t measured() const { return measured_; }

 private:
  Machine machine_;
  Clock clock_;
  Lasting lasting_;
  bool alive_ = true;
  std::int64_t measured_ = 0;
};

}  // namespace meshplan
