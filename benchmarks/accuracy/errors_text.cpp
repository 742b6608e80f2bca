// The generated source file.
#include <array>
#include <cmath>

#include "base/check.hpp"
#include "base/text.hpp"
#include "errors.hpp"

namespace meshplan::accuracy {
namespace {

std::string number(double x) {
  PLAN_CHECK(std::isfinite(x));
  return fixed(x, 4);
}

std::string band_text(std::size_t regime, const ErrorBand& band) {
  return "      ErrorBand{" + number(band.centre) + ", " + number(band.below) + ", " +
         number(band.above) + ", " + std::to_string(band.sources) + ", " +
         std::to_string(band.runs) + "},  // " + std::string(name_of(static_cast<Regime>(regime))) +
         "\n";
}

std::string memory_text(const std::string& name, const MemoryErrors& errors) {
  std::string text = "  e." + name + " = {{";
  for (std::size_t i = 0; i < errors.quantiles.size(); ++i) {
    const bool new_line = i % 10 == 0;
    text += (i == 0 ? "" : ",") + std::string(new_line ? "\n      " : " ") +
            number(errors.quantiles[i]);
  }
  return text + "},\n      " + std::to_string(errors.sources) + ", " + std::to_string(errors.runs) +
         "};\n";
}

// {"a", "b"}
std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "\"" : ", \"") + word + "\"";
  return "{" + text + "}";
}

}  // namespace

std::string table_text(const MeasuredErrors& errors) {
  std::string text = R"(// Generated; `cmake --build BUILD --target accuracy-errors` writes it anew.
#include "cost/measured_errors.hpp"

// clang-format off
namespace meshplan {
namespace {

MeasuredErrors table() {
  MeasuredErrors e;
  e.step_time = {  // centre, below, above, sources, runs
)";
  for (std::size_t g = 0; g < kNumRegimes; ++g) text += band_text(g, errors.step_time[g]);
  text += "  };\n";
  text += "  e.unseen_device = " + number(errors.unseen_device) + ";\n";
  text += "  e.unseen_framework = " + number(errors.unseen_framework) + ";\n";
  text += "  e.devices = " + list(errors.devices) + ";\n";
  text += "  e.frameworks = " + list(errors.frameworks) + ";\n";
  text += "  e.most_gpus = " + std::to_string(errors.most_gpus) + ";\n";
  text += memory_text("device_memory", errors.device_memory);
  text += memory_text("allocator_memory", errors.allocator_memory);
  text += "  e.order_floor = " + number(errors.order_floor) + ";\n";
  text += "  e.order_spread = " + number(errors.order_spread) + ";\n";
  text += "  e.order_sources = " + std::to_string(errors.order_sources) + ";\n";
  text += "  e.order_pairs = " + std::to_string(errors.order_pairs) + ";\n";
  text += "  e.sources = {  // name, median error as shipped and left out\n";
  for (const SourceError& s : errors.sources)
    text += "      {\"" + s.name + "\", " + number(s.shipped) + ", " + number(s.left_out) + "},\n";
  text += R"(  };
  return e;
}

}  // namespace

const MeasuredErrors& shipped_errors() {
  static const MeasuredErrors shipped = table();
  return shipped;
}

}  // namespace meshplan
)";
  return text;
}

}  // namespace meshplan::accuracy
