#include "log.hpp"

#include <ctime>
#include <memory>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <string>

#include "base/printable.hpp"

namespace meshplan {
namespace {

// What is logged names files and hosts.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = printable_lines({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return spdlog::details::make_unique<PrintableText>();
  }
};

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kQuiet:
      return spdlog::level::err;
    case LogLevel::kNormal:
      return spdlog::level::info;
    case LogLevel::kVerbose:
      break;
  }
  return spdlog::level::debug;
}

void log(spdlog::level::level_enum level, std::string_view text) {
  spdlog::log(level, spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace

void set_up_log(LogLevel level, bool colour) {
  const auto mode = colour ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto logger = spdlog::stderr_color_mt("meshplan", mode);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(level_of(level));
  spdlog::set_default_logger(std::move(logger));
}

void log_debug(std::string_view text) { log(spdlog::level::debug, text); }
void log_info(std::string_view text) { log(spdlog::level::info, text); }
void log_warning(std::string_view text) { log(spdlog::level::warn, text); }
void log_error(std::string_view text) { log(spdlog::level::err, text); }

}  // namespace meshplan
