#include "compare/memory_measure.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "compare/memory_snapshot.hpp"
#include "io/log_lines.hpp"

namespace meshplan {
namespace {

constexpr double kMost = 1e15;  // bytes

Bytes bytes_of(double amount) {
  return amount > 0 && amount < kMost ? ceil_bytes(amount) : Bytes{};
}

// "1.50 GiB" behind a key, or before one.
std::optional<double> amount_at(std::string_view text) {
  const std::optional<double> value = number_after(text, "");
  if (!value || *value < 0) return std::nullopt;
  const std::size_t unit = text.find_first_of("BKMGT", text.find_first_of("0123456789"));
  if (unit == std::string_view::npos) return std::nullopt;
  constexpr std::array<std::pair<char, double>, 5> kUnits{
      {{'B', 1.0}, {'K', 0x1p10}, {'M', 0x1p20}, {'G', 0x1p30}, {'T', 0x1p40}}};
  for (const auto& [letter, size] : kUnits) {
    if (letter == text[unit]) return *value * size;
  }
  return std::nullopt;
}

Bytes amount_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  return bytes_of(amount_at(text.substr(at + key.size(), 40)).value_or(0));
}

// The amount whose words end in `key`: "70.21 GiB is allocated by PyTorch".
Bytes amount_before(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::size_t begin = at;
  const auto part = [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
  };
  while (begin > 0 && !part(text[begin - 1]) && at - begin < 8) --begin;
  while (begin > 0 && part(text[begin - 1])) --begin;
  return bytes_of(amount_at(text.substr(begin, at - begin + 1)).value_or(0));
}

// The largest number behind a key of memory_stats(), as JSON or as Python prints a dict.
std::optional<double> largest_after(std::string_view text, std::string_view key) {
  std::optional<double> most;
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    std::string_view rest = text.substr(at + key.size(), 60);
    const std::size_t value = rest.find_first_not_of("\"': \t=");
    if (value == std::string_view::npos || value == 0) continue;
    const std::optional<double> number = number_after(rest.substr(value), "");
    if (number && (!most || *number > *most)) most = number;
  }
  return most;
}

// A row of memory_summary(): "| Allocated memory | 20 GiB | 40 GiB | ...": the second is the peak.
Bytes summary_peak(std::string_view text, std::string_view row) {
  const std::size_t at = text.find(row);
  if (at == std::string_view::npos) return {};
  std::size_t bar = text.find('|', at);
  if (bar != std::string_view::npos) bar = text.find('|', bar + 1);
  if (bar == std::string_view::npos) return {};
  return bytes_of(amount_at(text.substr(bar + 1, 40)).value_or(0));
}

bool says_something(const MemoryMeasure& m) {
  return m.allocated.count() > 0 || m.reserved.count() > 0 || m.failed.has_value();
}

MemoryMeasure statistics(std::string_view text, const std::string& file) {
  MemoryMeasure m;
  m.file = file;
  m.kind = "statistics";
  m.allocated = bytes_of(largest_after(text, "allocated_bytes.all.peak").value_or(0));
  m.reserved = bytes_of(largest_after(text, "reserved_bytes.all.peak").value_or(0));
  if (m.allocated.count() == 0) m.allocated = summary_peak(text, "Allocated memory");
  if (m.reserved.count() == 0) m.reserved = summary_peak(text, "GPU reserved memory");
  const auto count = [&](std::string_view key, std::string_view other) {
    const double n = largest_after(text, key).value_or(largest_after(text, other).value_or(0));
    return n > 0 && n < 1e15 ? static_cast<std::int64_t>(n) : 0;
  };
  m.retries = count("num_alloc_retries", "cudaMalloc retries:");
  m.out_of_memory_errors = count("num_ooms", "CUDA OOMs:");
  m.failed = find_out_of_memory(text);
  if (m.failed) {
    m.kind = "out of memory";
    m.out_of_memory_errors = std::max<std::int64_t>(m.out_of_memory_errors, 1);
    m.allocated = std::max(m.allocated, m.failed->allocated);
    m.reserved = std::max(m.reserved, m.failed->allocated + m.failed->unallocated);
  }
  return m;
}

}  // namespace

// PyTorch c10/cuda/CUDACachingAllocator.cpp, before and since 2.1.
std::optional<OutOfMemory> find_out_of_memory(std::string_view text) {
  const std::size_t at = text.rfind("Tried to allocate ");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view message = text.substr(at, 1000);
  OutOfMemory e;
  e.wanted = amount_after(message, "Tried to allocate ");
  e.capacity = amount_after(message, "total capacity of ");
  e.free = amount_after(message, "of which ");
  e.allocated = amount_before(message, " is allocated by PyTorch");
  e.unallocated = amount_before(message, " is reserved by PyTorch but unallocated");
  if (e.capacity.count() == 0) {
    e.capacity = amount_before(message, " total capacity");
    e.free = amount_before(message, " free;");
    e.allocated = amount_before(message, " already allocated");
    const Bytes reserved = amount_before(message, " reserved in total by PyTorch");
    if (reserved > e.allocated) e.unallocated = reserved - e.allocated;
  }
  if (e.wanted.count() == 0) return std::nullopt;
  return e;
}

Bytes predicted_part(const MemoryBreakdown& memory, MemoryPart part) {
  switch (part) {
    case MemoryPart::kWeights:
      return memory.weights;
    case MemoryPart::kGradients:
      return memory.gradients;
    case MemoryPart::kOptimizer:
      return memory.optimizer;
    case MemoryPart::kActivations:
      return memory.activations;
    case MemoryPart::kBuffers:
      return memory.buffers;
    case MemoryPart::kUnknown:
      return {};
  }
  return {};
}

Result<MemoryMeasure> parse_memory(std::string_view bytes, const std::string& file) {
  // Protocol 2 and later.
  if (bytes.size() > 1 && static_cast<unsigned char>(bytes[0]) == 0x80) {
    Result<PickleTree> tree = parse_pickle(bytes, file);
    if (!tree) return tree.errors();
    return measured_snapshot(*tree, file);
  }
  MemoryMeasure m = statistics(bytes, file);
  if (says_something(m)) return m;
  return error_at({file}, "says nothing of a device's memory",
                  "torch.cuda.memory._dump_snapshot(file), or what torch.cuda.memory_stats() or "
                  "memory_summary() return, or the message of an out-of-memory error");
}

}  // namespace meshplan
