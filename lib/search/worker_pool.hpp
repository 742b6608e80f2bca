#pragma once
// Runs the same function for many indices on a few threads.
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace meshplan {

class WorkerPool {
 public:
  // `threads` in all, the caller's included; 0: one per core.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Calls work(0) .. work(count - 1), in any order, and returns when all are done. What a call
  // throws is thrown here; of several the one of the smallest index.
  void run(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  void help();
  void take_turns();

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t next_ = 0, count_ = 0, busy_ = 0, round_ = 0;
  std::size_t failed_at_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace meshplan
