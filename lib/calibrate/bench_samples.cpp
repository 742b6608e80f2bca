#include "calibrate/bench_samples.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

namespace meshplan {
namespace {

// Why a sample does not count; empty if it does.
std::string why_not(const Sample& s, const CollectiveOperation& op, const Machine& machine) {
  const auto ranks = static_cast<std::int64_t>(machine.ranks.size());
  if (s.correctness == Correctness::kWrong) return "its result was wrong";
  if (s.throttled) return "the device was throttled";
  if (!(s.median.si() > 0)) return "it has no time";
  if (malformed(op.group)) return "there is no such group";
  // Training runs all sibling groups at once; alone they do not share the network.
  if (!op.group.concurrent && op.group.size * 2 <= ranks) return "its group ran alone";
  return {};
}

// Others kept running on the ranks' processors in nearly every repetition.
bool is_disturbed(const Sample& s) { return s.quiet && *s.quiet < kFewestQuiet; }

// What samples of one operation and group share, whatever their size.
using Family = std::tuple<Collective, Dtype, bool, std::array<std::int64_t, 7>>;
Family family_of(const CollectiveOperation& c) {
  const RankGroup& g = c.group;
  return {c.collective,
          c.dtype,
          c.bidirectional,
          {g.size, g.stride, g.nodes, g.concurrent ? 1 : 0, g.run, g.jump, g.period}};
}

// Families of which disturbed samples can be spared: enough others are quiet. On processors that
// always hold more ranks than cores nothing is quiet, and everything counts.
std::set<Family> quiet_families(std::span<const Sample> all) {
  constexpr int kEnough = 8;
  std::map<Family, int> quiet;
  for (const Sample& s : all) {
    const auto* op = std::get_if<CollectiveOperation>(&s.operation);
    if (op != nullptr && !is_disturbed(s)) ++quiet[family_of(*op)];
  }
  std::set<Family> families;
  for (const auto& [family, count] : quiet) {
    if (count >= kEnough) families.insert(family);
  }
  return families;
}

// From a group's first member to its last one.
std::string level_of(const RankGroup& g, const ClusterSpec& c) {
  const std::int64_t reach = reach_of(g);
  for (const LinkLevel& level : c.levels) {
    if (level.span == 0 || level.span >= reach) return level.name;
  }
  return {};
}

}  // namespace

Result<BenchCollectives> bench_collectives(std::span<const Sample> samples, const Machine& machine,
                                           const ClusterSpec& c) {
  BenchCollectives result;
  if (machine.nodes > 1 && machine.ranks_per_node != c.gpus_per_node) {
    return error("the nodes that were measured hold " + std::to_string(machine.ranks_per_node) +
                     " ranks, those of cluster '" + c.name + "' " +
                     std::to_string(c.gpus_per_node) + " devices",
                 "give the cluster that was measured");
  }
  std::map<std::string, std::int64_t> left_out;
  const std::set<Family> quiet = quiet_families(samples);
  for (const Sample& s : samples) {
    const auto* op = std::get_if<CollectiveOperation>(&s.operation);
    if (op == nullptr) continue;
    std::string reason = machine.time_sliced ? "its ranks shared one device in time slices"
                                             : why_not(s, *op, machine);
    if (reason.empty() && is_disturbed(s) && quiet.contains(family_of(*op))) {
      reason = "something else kept running on its processors";
    }
    if (!reason.empty()) {
      ++left_out[reason];
      continue;
    }
    if (op->ping_pong) {
      result.latencies.push_back({level_of(op->group, c), s.median / 2});
      continue;
    }
    const std::int64_t nodes = op->group.nodes > 0 ? op->group.nodes : nodes_of(op->group, machine);
    result.samples.push_back({.operation = op->collective,
                              .ranks = op->group.size,
                              .nodes = std::max<std::int64_t>(nodes, 1),
                              .level = level_of(op->group, c),
                              .bytes = op->bytes,
                              .time = s.median,
                              .bidirectional = op->bidirectional});
  }
  for (const auto& [reason, count] : left_out) {
    result.warnings.push_back(std::to_string(count) + (count == 1 ? " sample" : " samples") +
                              " left out: " + reason);
  }
  return result;
}

Provenance provenance_of(const Machine& machine) {
  Provenance p;
  p.method = "meshplan bench (" + machine.backend + ")";
  p.date = machine.date;
  std::set<std::string> hosts, devices;
  for (const RankPlace& rank : machine.ranks) {
    hosts.insert(rank.host);
    devices.insert(rank.device);
  }
  if (!machine.ranks.empty()) {
    p.host = machine.ranks.front().host;
    p.gpu = devices.size() == 1 ? *devices.begin() : "";
  }
  if (hosts.size() > 1) p.host += " and " + std::to_string(hosts.size() - 1) + " more";
  for (const auto& [name, version] : machine.versions) {
    if (name == "driver") {
      p.driver = version;
    } else if (name == "cuda") {
      p.cuda = version;
    } else if (name == "nccl") {
      p.nccl = version;
    } else {
      p.notes[name] = version;
    }
  }
  p.environment = machine.environment;
  if (machine.time_sliced) p.notes["time slices"] = "several ranks shared one device";
  return p;
}

}  // namespace meshplan
