// An assistant's way in: the same commands as tools of the Model Context Protocol.
#include <csignal>
#include <memory>
#include <unistd.h>

#include "console.hpp"
#include "protocol_server.hpp"

namespace meshplan {
namespace {

struct ServeFlags {
  CommonFlags common;
  bool stdio = false;
};

int serve(const CommandLine& program, const ServeFlags& flags) {
  set_up_logging(flags.common);
  if (!flags.stdio) {
    return report_errors({error("where to listen is missing", "--stdio")}, flags.common);
  }
  (void)std::signal(SIGPIPE, SIG_IGN);  // a client that left is seen by write()
  ProtocolServer server(ProtocolTools(program.facts()), STDIN_FILENO, STDOUT_FILENO);
  return server.run();
}

}  // namespace

void add_serve_command(CommandLine& program) {
  const auto flags = std::make_shared<ServeFlags>();
  Subcommand command = program.add_command(
      "serve", "Answer an assistant: plan, estimate, explain, import and lint as its tools",
      "claude mcp add meshplan -- meshplan serve --stdio");
  command.add_switch("--stdio", flags->stdio,
                     "Speak the Model Context Protocol over standard input and output, until the "
                     "input ends");
  command.add_common(flags->common);
  command.set_action([&program, flags] { return serve(program, *flags); });
}

}  // namespace meshplan
