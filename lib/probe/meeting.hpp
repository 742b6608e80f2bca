#pragma once
// How the ranks of a job find each other on the control channel. Private to this library.
#include <functional>
#include <vector>

#include "probe/coordinator.hpp"

namespace meshplan {

// Rank 0: lets the job's other ranks in, in the order of ranks behind `own`. Strangers are shown
// the door; a rank that is not like this one is an error, as is one that does not come.
Result<std::vector<Peer>> admit_ranks(const Listener& listener, const Hello& own,
                                      Clock::time_point deadline,
                                      const std::function<bool()>& interrupted);

// The others: tells rank 0 who this is.
Result<Connection> introduce(const std::string& address, int port, const Hello& own,
                             Clock::time_point deadline);

}  // namespace meshplan
