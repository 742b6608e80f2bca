#pragma once
// Where the process meets the system: signals, limits and standard streams.

namespace meshplan {

// Called first. A closed pipe and a file beyond `ulimit -f` become failed writes; Ctrl-C and
// SIGTERM end the process with a message, as the shell expects of a program that a signal ended; a
// standard stream that is closed is opened, so that no file gets its number.
void set_up_process();

}  // namespace meshplan
