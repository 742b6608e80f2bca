#pragma once
// Step models (cost/step_model.hpp) that the threads of a search take turns with.
#include <memory>
#include <mutex>
#include <vector>

#include "cost/step_model.hpp"

namespace meshplan {

// Those that no thread is using. What they give does not depend on what they did before.
class StepModelPool {
  struct Entry {
    Entry(const ModelSpec& m, const ClusterSpec& c) : model(m, c, runner) {}
    PipelineRunner runner;
    StepModel model;
  };

 public:
  StepModelPool(const ModelSpec& m, const ClusterSpec& c) : model_(m), cluster_(c) {}

  // Goes back to the pool in the end.
  class Borrowed {
   public:
    Borrowed(StepModelPool& pool, std::unique_ptr<Entry> entry)
        : pool_(pool), entry_(std::move(entry)) {}
    ~Borrowed() { pool_.give_back(std::move(entry_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

    [[nodiscard]] StepModel* operator->() const { return &entry_->model; }

   private:
    StepModelPool& pool_;
    std::unique_ptr<Entry> entry_;
  };
  [[nodiscard]] Borrowed borrow();

 private:
  void give_back(std::unique_ptr<Entry> entry);

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> idle_;
};

}  // namespace meshplan
