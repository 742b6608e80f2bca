#pragma once
// This process among others.
#include <string>

namespace meshplan {

[[nodiscard]] std::string host_name();

// Boot, process namespace, number and start time: no other process ever has the same.
[[nodiscard]] std::string process_identity();

// The number in an identity, "?" if there is none.
[[nodiscard]] std::string process_number(const std::string& identity);

// Ends a process of this machine that no longer reacts, after the launcher had a moment to do so in
// good order and to learn this process's exit code. Nothing happens unless it is that very one.
void end_process_soon(const std::string& identity);

}  // namespace meshplan
