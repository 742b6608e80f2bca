#pragma once
// Rank 0: leads every rank through each measurement, step by step, and notices which one does not
// follow. Private to this library.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "probe/backend.hpp"
#include "probe/rank_device.hpp"

namespace meshplan {

struct CoordinatorOptions {
  std::chrono::milliseconds timeout{20'000};  // of one step of one operation, start-up included
  std::chrono::milliseconds silence{8'000};   // without a heartbeat
  std::function<bool()> interrupted;          // the user wants an end
};

// A rank as rank 0 sees it.
struct Peer {
  Hello hello;
  std::optional<Connection> connection;  // none: rank 0 itself
  Clock::time_point heard = Clock::now();
  std::int64_t step = 0;
  std::int64_t answers = -1;  // its device
  std::optional<Reply> reply;
};

class Coordinator : public Backend {
 public:
  // `peers` in the order of ranks, the first of them this process.
  Coordinator(std::vector<Peer> peers, std::shared_ptr<RankDevice> device,
              CoordinatorOptions options);
  ~Coordinator() override;

  // Takes every rank's device, compares their versions and connects them.
  Result<bool> begin();
  // An orderly end; without it the other ranks end with an error.
  void end();

  [[nodiscard]] const Machine& machine() const override { return machine_; }
  [[nodiscard]] std::optional<std::string> why_not(const Operation& op) const override;
  [[nodiscard]] Result<Sample> measure(const Operation& op, const MeasureOptions& o) override;
  [[nodiscard]] Result<bool> confirm() override;
  [[nodiscard]] bool alive() const override { return alive_; }

 private:
  std::vector<Peer> peers_;
  std::shared_ptr<RankDevice> device_;
  CoordinatorOptions options_;
  Machine machine_;
  std::int64_t sequence_ = 0;
  bool alive_ = true, ended_ = false;

  // One step on every rank; `what` names it in errors. Fails if any rank failed.
  using Replies = std::vector<Reply>;
  Result<Replies> round(Command command, const std::string& what);
  [[nodiscard]] bool all_replied() const;
  void wait_for_events();
  [[nodiscard]] std::optional<Diagnostic> collect(const std::string& what);
  [[nodiscard]] std::optional<Diagnostic> hear(Peer& peer, const std::string& what);
  [[nodiscard]] std::optional<Diagnostic> take_message(Peer& peer, const std::string& text,
                                                       const std::string& what);
  [[nodiscard]] std::optional<Diagnostic> find_silent(const std::string& what);
  [[nodiscard]] Diagnostic find_guilty(const std::string& what);
  // "2 of 8 ranks, rank 3 on a (process 1), rank 4 on b (process 2),"
  [[nodiscard]] std::string waiting_ranks(std::size_t waiting) const;
  [[nodiscard]] std::optional<Diagnostic> failed_reply(const std::string& what);
  Diagnostic give_up(Diagnostic reason);

  [[nodiscard]] std::optional<Diagnostic> compare_facts(const Replies& replies) const;
  void fill_machine(const Replies& replies);
  Result<Sample> measure_prepared(const Operation& op, const MeasureOptions& o);
  Result<Sample> take_times(const Operation& op, const MeasureOptions& o);
  // Repetitions of one part of the operation; other_calls of an overlap's collective.
  struct Repetitions {
    std::int64_t part = 0, calls = 1, other_calls = 1, repetitions = 1;
  };
  Result<Replies> timed(const Operation& op, const Repetitions& r);
  // In as many rounds as a round's time limit takes.
  Result<Replies> timed_in_rounds(const Operation& op, Repetitions r, Seconds repetition);
  // The same with warm-up, as many as the options ask for and the time allows.
  struct Timed {
    Replies replies;
    std::int64_t calls = 1;
    Seconds median;
  };
  Result<Repetitions> warm_up(const Operation& op, const MeasureOptions& o, std::int64_t part,
                              Seconds& once);
  Result<Timed> timed_part(const Operation& op, const MeasureOptions& o, std::int64_t part);
  // Long repetitions of `once` per call until the rate lasts.
  Result<SteadyTimes> take_steady(const Operation& op, Seconds once, const SteadyLimits& limits);
  Result<Sample> take_overlap(const Operation& op, const MeasureOptions& o);
  Result<bool> check_result(const Operation& op, Sample& sample);
  // Times of the repetitions that count, by rank.
  [[nodiscard]] std::vector<std::vector<Seconds>> times_of(
      const Operation& op, const Replies& replies, std::vector<double> Reply::*column) const;
};

// "rank 3 on gpu07 (process 1234)"
[[nodiscard]] std::string name_of(const Hello& h);

}  // namespace meshplan
