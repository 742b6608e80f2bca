#pragma once
// Where the process meets the system: signals, limits and standard streams.
#include <atomic>

namespace meshplan {

// Called first. A closed pipe and a file beyond `ulimit -f` become failed writes; Ctrl-C and
// SIGTERM end the process with a message, as the shell expects of a program that a signal ended; a
// standard stream that is closed is opened, so that no file gets its number.
void set_up_process();

// From now on the first Ctrl-C only sets what this returns and says so on standard error; the next
// one ends the program. Where SIGINT was ignored from the start, it still is.
[[nodiscard]] const std::atomic<bool>& catch_interrupt();

}  // namespace meshplan
