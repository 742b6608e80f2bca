#include "calibrate/collectives.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "comm/collectives.hpp"

namespace meshplan {
namespace {

// Nodes, ranks, and whether sends go both ways.
using Shape = std::tuple<Collective, std::string, std::int64_t, std::int64_t, bool>;

std::string group_text(std::int64_t ranks, std::int64_t nodes) {
  return std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
         (nodes == 1 ? " node" : " nodes");
}

Diagnostic no_room(const ClusterSpec& c, std::int64_t ranks, std::int64_t nodes) {
  return error("a group of " + group_text(ranks, nodes) + " does not fit cluster '" + c.name +
                   "', which has " + std::to_string(c.gpus_per_node) + " devices on each of " +
                   std::to_string(c.nodes) + (c.nodes == 1 ? " node" : " nodes"),
               "give the cluster that was measured");
}

// The sample's level, by name or by the group's size.
Result<std::string> level_name(const ClusterSpec& c, const CollectiveSample& s) {
  const std::optional<std::size_t> level = level_of_group(c, s.ranks, s.nodes);
  if (!level) return no_room(c, s.ranks, s.nodes);
  if (s.level.empty()) return c.levels[*level].name;
  const bool known = std::any_of(c.levels.begin(), c.levels.end(),
                                 [&](const LinkLevel& l) { return l.name == s.level; });
  if (!known) return error("cluster '" + c.name + "' has no level '" + s.level + "'");
  return s.level;
}

// Neighbouring devices: the first members of the first nodes.
GroupShape shape_of(const ClusterSpec& c, std::int64_t ranks, std::int64_t nodes) {
  GroupShape g;
  g.size = ranks;
  g.num_levels = c.levels.size();
  const std::int64_t per_node = ranks / nodes;
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    const std::int64_t span = c.levels[l].span == 0 ? num_gpus(c) : c.levels[l].span;
    const std::int64_t whole_nodes = std::max<std::int64_t>(span / c.gpus_per_node, 1);
    const std::int64_t in_node = std::min(per_node, std::min(span, c.gpus_per_node));
    g.within[l] = std::min(ranks, in_node * std::min(nodes, whole_nodes));
    g.blocks[l] = ceil_div(ranks, g.within[l]);
  }
  g.level = *level_of_group(c, ranks, nodes);
  return g;
}

}  // namespace

std::optional<std::size_t> level_of_group(const ClusterSpec& c, std::int64_t ranks,
                                          std::int64_t nodes) {
  if (ranks < 2 || nodes < 1 || ranks % nodes != 0 || nodes > c.nodes ||
      ranks / nodes > c.gpus_per_node) {
    return std::nullopt;
  }
  // From the first device of the first node to the last one used on the last node.
  const std::int64_t reach = (nodes - 1) * c.gpus_per_node + ranks / nodes;
  for (std::size_t l = 0; l < c.levels.size(); ++l) {
    if (c.levels[l].span == 0 || c.levels[l].span >= reach) return l;
  }
  return std::nullopt;
}

Result<CollectiveFits> fit_collectives(std::span<const CollectiveSample> samples,
                                       const ClusterSpec& c) {
  std::map<Shape, std::vector<TimedSize>> groups;
  for (const CollectiveSample& s : samples) {
    Result<std::string> level = level_name(c, s);
    if (!level) return level.errors();
    groups[{s.operation, *level, s.nodes, s.ranks, s.bidirectional}].emplace_back(s.bytes, s.time);
  }
  CollectiveFits result;
  Diagnostics problems;
  for (auto& [shape, timed] : groups) {
    const auto& [operation, level, nodes, ranks, bidirectional] = shape;
    std::stable_sort(timed.begin(), timed.end(),
                     [](const TimedSize& a, const TimedSize& b) { return a.first < b.first; });
    const Result<CurveFit> fit = fit_curve(timed);
    const std::string what = (bidirectional ? "bidirectional " : "") +
                             std::string(name_of(operation)) + " of " + group_text(ranks, nodes) +
                             ": ";
    if (!fit) {
      for (Diagnostic d : fit.errors()) {
        result.warnings.push_back(what + d.message);
        d.message = what + d.message;
        problems.push_back(std::move(d));
      }
      continue;
    }
    for (const auto& [bytes, time] : fit->outliers) {
      result.warnings.push_back(what + "the time of " + human_bytes(bytes) + ", " +
                                human_time(time) + ", is far off the other sizes' and left out");
    }
    result.fits.push_back({.operation = operation,
                           .level = level,
                           .ranks = ranks,
                           .nodes = nodes,
                           .points = fit->points,
                           .summary = fit->summary,
                           .errors = fit->errors,
                           .samples = std::move(timed),
                           .bidirectional = bidirectional});
  }
  if (!result.fits.empty()) return result;
  if (problems.empty()) return error("there is not one sample of a collective");
  return problems;
}

ClusterSpec with_collectives(ClusterSpec c, std::span<const CollectiveFit> fits) {
  for (const CollectiveFit& fit : fits) {
    const auto same =
        std::find_if(c.collectives.begin(), c.collectives.end(), [&](const CollectiveFit& old) {
          return old.operation == fit.operation && old.level == fit.level &&
                 old.ranks == fit.ranks && old.nodes == fit.nodes &&
                 old.bidirectional == fit.bidirectional;
        });
    if (same == c.collectives.end()) {
      c.collectives.push_back(fit);
    } else {
      *same = fit;
    }
  }
  return c;
}

Result<std::vector<Comparison>> compare(std::span<const CollectiveSample> samples,
                                        const ClusterSpec& c) {
  std::vector<Comparison> all;
  for (const CollectiveSample& s : samples) {
    if (!level_of_group(c, s.ranks, s.nodes)) return no_room(c, s.ranks, s.nodes);
    const CollectiveTime time =
        collective_time(c, s.operation, s.bytes, shape_of(c, s.ranks, s.nodes), s.bidirectional);
    all.push_back({s, time.total, time.algorithm == Algorithm::kMeasured});
  }
  return all;
}

}  // namespace meshplan
