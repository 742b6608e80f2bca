#include "probe/backend.hpp"

namespace meshplan {
namespace {

std::optional<std::string> group_problem(const RankGroup& g, const Machine& m) {
  const auto ranks = static_cast<std::int64_t>(m.ranks.size());
  if (g.size < 2) return "a group of one rank has nobody to talk to";
  if (auto problem = malformed(g)) return "there is no such group: " + *problem;
  if (period_of(g) > ranks) {
    return "needs " + std::to_string(period_of(g)) + " ranks, there are " + std::to_string(ranks);
  }
  return std::nullopt;
}

std::optional<std::string> collective_problem(const CollectiveOperation& c, const Machine& m) {
  if (auto problem = group_problem(c.group, m)) return problem;
  const bool sends = c.collective == Collective::kSendRecv;
  if (sends && !c.bidirectional && c.group.size != 2) {
    return "a send one way needs a group of two ranks";
  }
  if (!sends && (c.bidirectional || c.ping_pong)) return "only sends go both ways";
  if (c.bidirectional && c.ping_pong) return "a ping-pong goes one way at a time";
  if (c.bytes < Bytes{1}) return "there is nothing to send";
  return std::nullopt;
}

std::optional<std::string> kernel_problem(bool positive, const Machine& m) {
  if (!m.accelerator) return "the backend '" + m.backend + "' measures communication only";
  if (!positive) return "every size must be at least 1";
  return std::nullopt;
}

std::optional<std::string> problem(const CollectiveOperation& c, const Machine& m) {
  return collective_problem(c, m);
}
std::optional<std::string> problem(const GemmOperation& g, const Machine& m) {
  return kernel_problem(g.m > 0 && g.n > 0 && g.k > 0 && g.count > 0, m);
}
std::optional<std::string> problem(const AttentionOperation& a, const Machine& m) {
  if (a.kv_heads > 0 && a.heads % a.kv_heads != 0) return "heads must be a multiple of kv_heads";
  if (a.causal && a.queries > a.keys) return "a causal mask needs a key for every query";
  return kernel_problem(a.batch > 0 && a.heads > 0 && a.kv_heads > 0 && a.queries > 0 &&
                            a.keys > 0 && a.qk_dim > 0 && a.v_dim > 0,
                        m);
}
std::optional<std::string> problem(const MemoryOperation& o, const Machine& m) {
  return kernel_problem(o.rows > 0 && o.columns > 0, m);
}
std::optional<std::string> problem(const CopyOperation& c, const Machine& m) {
  return kernel_problem(c.bytes > Bytes{0}, m);
}
std::optional<std::string> problem(const LaunchOperation& l, const Machine& m) {
  return kernel_problem(l.kernels > 0, m);
}
std::optional<std::string> problem(const OverlapOperation& o, const Machine& m) {
  if (auto first = problem(o.compute, m)) return first;
  return collective_problem(o.communication, m);
}

}  // namespace

std::optional<std::string> why_impossible(const Operation& op, const Machine& m) {
  return std::visit([&m](const auto& one) { return problem(one, m); }, op);
}

}  // namespace meshplan
