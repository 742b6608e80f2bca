#pragma once
// Every rank but 0: does what rank 0 says until it says that it is done. Private to this library.
#include "probe/rank_device.hpp"

namespace meshplan {

// True when rank 0 ended the job in good order. Errors say why this rank stopped.
Result<bool> serve_rank_zero(Connection& connection, RankDevice& device,
                             std::chrono::milliseconds timeout,
                             const std::function<bool()>& interrupted);

}  // namespace meshplan
