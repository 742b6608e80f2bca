#include "spec/cluster.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "spec/findings.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kMostLevels = 6;
constexpr RealRange kBandwidth{1, 1e18};
constexpr RealRange kLatency{0, 60};

std::string level_key(std::size_t i) { return "levels[" + std::to_string(i) + "]"; }

void check_level(const LinkLevel& level, const std::string& key, Findings& f) {
  if (level.name.empty()) f.error({key + ".name", key}, "'" + key + ".name' is empty");
  f.check(key + ".span", level.span, {0, kMostClusterGpus});
  f.check(key + ".bandwidth", level.bandwidth.si(), kBandwidth);
  f.check(key + ".latency", level.latency.si(), kLatency);
  f.check(key + ".oversubscription", level.oversubscription, {1, 1000});
  f.check(key + ".token_message", level.token_message.si(), kLatency);
}

// Each level joins whole blocks of the one below it.
void check_nesting(const ClusterSpec& c, Findings& f) {
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    const std::int64_t span = c.levels[i].span;
    const std::string key = level_key(i) + ".span";
    const bool last = i + 1 == c.levels.size();
    if (span == 0 && !last) {
      f.error({key}, "'" + key + "' is all, but a level follows it",
              "only the outermost level spans all");
    }
    if (span == 1) f.error({key}, "'" + key + "' connects one device to nothing");
    if (i == 0 || span == 0 || c.levels[i - 1].span == 0) continue;
    const std::int64_t below = c.levels[i - 1].span;
    if (span <= below || span % below != 0) {
      f.error({key}, "'" + key + "' must be a multiple of the span below it, " +
                         std::to_string(below) + ", got " + std::to_string(span));
    }
  }
  const std::int64_t outermost = c.levels.back().span;
  if (outermost != 0 && outermost < num_gpus(c)) {
    const std::string key = level_key(c.levels.size() - 1) + ".span";
    f.error({key},
            "the outermost level connects " + with_thousands(outermost) + " of the " +
                with_thousands(num_gpus(c)) + " devices",
            "write span: all");
  }
}

void check_names(const ClusterSpec& c, Findings& f) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    if (!seen.insert(c.levels[i].name).second) {
      f.error({level_key(i) + ".name"}, "level name '" + c.levels[i].name + "' appears twice");
    }
  }
}

void check_points(const CollectiveFit& fit, const std::string& key, Findings& f) {
  if (fit.points.empty()) f.error({key + ".points", key}, "'" + key + ".points' is empty");
  for (std::size_t i = 0; i < fit.points.size(); ++i) {
    const auto& [size, time] = fit.points[i];
    const bool increasing = i == 0 || size > fit.points[i - 1].first;
    if (size.count() < 1 || !increasing || !(time.si() > 0) || time.si() > 3600) {
      f.error({key + ".points"},
              "'" + key + ".points' must have increasing sizes and times over zero");
      return;
    }
  }
}

// Nothing computes with these: they only have to be what they claim to be.
void check_measured(const CollectiveFit& fit, const std::string& key, Findings& f) {
  for (const auto& [size, time] : fit.samples) {
    if (size.count() >= 1 && time.si() > 0) continue;
    f.error({key + ".samples"}, "'" + key + ".samples' must have sizes and times over zero");
    return;
  }
  if (!fit.errors) return;
  constexpr RealRange kError{0, 1e6};
  f.check(key + ".errors.residual_median", fit.errors->residual_median, kError);
  f.check(key + ".errors.held_out_median", fit.errors->held_out_median, kError);
}

void check_collectives(const ClusterSpec& c, Findings& f) {
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    const CollectiveFit& fit = c.collectives[i];
    const std::string key = "collectives[" + std::to_string(i) + "]";
    const bool known = std::any_of(c.levels.begin(), c.levels.end(),
                                   [&](const LinkLevel& level) { return level.name == fit.level; });
    if (!known)
      f.error({key + ".level", key}, "'" + key + ".level' names no level: '" + fit.level + "'");
    f.check(key + ".ranks", fit.ranks, {2, kMostClusterGpus});
    f.check(key + ".nodes", fit.nodes, {1, kMostClusterGpus});
    if (fit.bidirectional && fit.operation != Collective::kSendRecv) {
      f.error({key + ".bidirectional"}, "'" + key + ".bidirectional' is of send-recv, not of " +
                                            std::string(name_of(fit.operation)));
    }
    check_points(fit, key, f);
    check_measured(fit, key, f);
  }
}

}  // namespace

bool has_token_proxies(const ClusterSpec& c) {
  return std::any_of(c.levels.begin(), c.levels.end(),
                     [](const LinkLevel& level) { return level.token_message > Seconds{0}; });
}

std::int64_t num_gpus(const ClusterSpec& c) { return c.nodes * c.gpus_per_node; }

namespace {

void place_in_equal_parts(ClusterSpec& c, std::int64_t gpus) {
  if (c.levels.empty()) return;
  LinkLevel& inner = c.levels.front();
  if (inner.domain > 0) inner.span = std::exchange(inner.domain, 0);
  const bool alone = c.levels.size() == 1 || c.levels[1].span == 0;
  if (!alone || inner.span <= c.gpus_per_node || gpus <= inner.span) return;
  const std::int64_t whole = inner.span;
  for (std::int64_t part = whole; 2 * part >= whole; part -= c.gpus_per_node) {
    if (gpus % part != 0) continue;
    inner.span = part;
    inner.domain = part < whole ? whole : 0;
    return;
  }
}

// What a fit could have written.
void check_seen_runs(const ClusterSpec& c, Findings& f) {
  if (c.seen_runs.size() > kMostSeenRuns) {
    f.error({"seen_runs"}, "'seen_runs' lists " + std::to_string(c.seen_runs.size()) +
                               " runs, more than " + std::to_string(kMostSeenRuns));
  }
  for (std::size_t i = 0; i < c.seen_runs.size(); ++i) {
    const SeenRun& run = c.seen_runs[i];
    const std::string key = "seen_runs[" + std::to_string(i) + "].";
    f.check(key + "error", run.error, {-20, 20});
    f.check(key + "noise", run.noise, {0, 10});
    for (const auto& [name, value] : run.sensitivity)
      f.check(key + "sensitivity", value, {-100, 100});
  }
}

}  // namespace

ClusterSpec with_gpus(ClusterSpec c, std::int64_t gpus) {
  PLAN_CHECK(gpus > 0 && c.gpus_per_node > 0);
  if (gpus < c.gpus_per_node) c.gpus_per_node = gpus;
  c.nodes = ceil_div(gpus, c.gpus_per_node);
  place_in_equal_parts(c, num_gpus(c));
  return c;
}

Findings findings(const ClusterSpec& c) {
  Findings f;
  if (c.name.empty()) f.error({"name"}, "'name' is empty");
  f.check("nodes", c.nodes, {1, kMostClusterGpus});
  f.check("gpus_per_node", c.gpus_per_node, {1, 1 << 12});
  f.check("host_memory", c.host_memory.count(), {0, std::int64_t{1} << 52});
  if (c.usd_per_gpu_hour) f.check("cost.usd_per_gpu_hour", *c.usd_per_gpu_hour, {0, 1e6});
  if (c.levels.empty() || c.levels.size() > kMostLevels) {
    f.error({"levels"}, "'levels' must list 1 to " + std::to_string(kMostLevels) + " levels, got " +
                            std::to_string(c.levels.size()));
  }
  for (std::size_t i = 0; i < c.levels.size(); ++i) check_level(c.levels[i], level_key(i), f);
  check_collectives(c, f);
  check_seen_runs(c, f);
  if (f.has_errors()) return f;
  if (num_gpus(c) > kMostClusterGpus) {
    f.error({"nodes", "gpus_per_node"}, "'nodes' times 'gpus_per_node' is " +
                                            with_thousands(num_gpus(c)) + " devices, more than " +
                                            with_thousands(kMostClusterGpus));
  }
  check_names(c, f);
  check_nesting(c, f);
  return f;
}

Diagnostics validate(const ClusterSpec& c) {
  Diagnostics all = findings(c).diagnostics();
  for (Diagnostic d : validate(c.device)) {
    d.message = "device: " + d.message;
    all.push_back(std::move(d));
  }
  return all;
}

}  // namespace meshplan
