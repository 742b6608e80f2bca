#include "parallel.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace meshplan::accuracy {

void for_each_place(std::size_t size, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < size; i = next++) work(i);
    } catch (...) {
      const std::scoped_lock lock(failure_lock);
      failure = std::current_exception();
      next = size;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(loop);
  loop();
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace meshplan::accuracy
