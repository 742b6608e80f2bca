#include "search/worker_pool.hpp"

#include <algorithm>

namespace meshplan {

WorkerPool::WorkerPool(int threads) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t all = threads > 0 ? static_cast<std::size_t>(threads) : cores;
  for (std::size_t i = 1; i < all; ++i) threads_.emplace_back([this] { help(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void WorkerPool::run(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    next_ = 0, count_ = count;
    failure_ = nullptr;
    ++round_;
  }
  if (count > 1) wake_.notify_all();
  take_turns();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0 && next_ >= count_; });
  if (failure_) std::rethrow_exception(failure_);
}

void WorkerPool::help() {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_) return;
      seen = round_;
    }
    take_turns();
  }
}

void WorkerPool::take_turns() {
  std::unique_lock lock(mutex_);
  while (next_ < count_) {
    const std::size_t i = next_++;
    ++busy_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*work_)(i);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy_;
    if (failure && (!failure_ || i < failed_at_)) failure_ = failure, failed_at_ = i;
  }
  if (busy_ == 0) done_.notify_all();
}

}  // namespace meshplan
