#include "partition/step_models.hpp"

#include <utility>

namespace meshplan {

StepModelPool::Borrowed StepModelPool::borrow() {
  std::unique_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      entry = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!entry) entry = std::make_unique<Entry>(model_, cluster_);
  return {*this, std::move(entry)};
}

void StepModelPool::give_back(std::unique_ptr<Entry> entry) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(entry));
}

}  // namespace meshplan
