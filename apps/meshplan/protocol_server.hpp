#pragma once
// A server of the Model Context Protocol (modelcontextprotocol.io, revision 2025-06-18) over two
// descriptors: one JSON-RPC 2.0 message a line. Calls of tools run beside each other, each as a run
// of this program, so that one can be cancelled and none takes the server down.
#include <string>

#include "protocol_tools.hpp"

namespace meshplan {

class ProtocolServer {
 public:
  ProtocolServer(ProtocolTools tools, int in, int out)
      : tools_(std::move(tools)), in_(in), out_(out) {}

  // Answers until the input ends; then the calls that still run are ended too. The exit code.
  [[nodiscard]] int run();

  static constexpr std::size_t kMostCalls = 4;  // that run at a time; more of them wait
  static constexpr std::size_t kLongestMessage = std::size_t{64} << 20U;  // bytes

 private:
  ProtocolTools tools_;
  int in_, out_;
};

}  // namespace meshplan
