#include "probe/operation.hpp"

#include <utility>

#include "base/text.hpp"

namespace meshplan {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

std::string text(std::int64_t n) { return std::to_string(n); }

std::string group_text(const RankGroup& g) {
  std::string out = (g.concurrent ? "in groups of " : "in one group of ") + text(g.size);
  if (g.run > 0) out += " as runs of " + text(g.run);
  if (g.stride != 1) out += ", stride " + text(g.stride);
  if (g.run > 0) out += ", " + text(g.jump) + " apart";
  if (g.period > 0) out += ", in every " + text(g.period) + " ranks";
  if (g.nodes > 1) out += ", on " + text(g.nodes) + " nodes";
  return out;
}

std::string describe_one(const CollectiveOperation& c) {
  const char* kind = c.ping_pong ? "ping-pong " : c.bidirectional ? "bidirectional " : "";
  return kind + std::string(name_of(c.collective)) + " of " + human_bytes(c.bytes) + ' ' +
         std::string(name_of(c.dtype)) + ' ' + group_text(c.group);
}

std::string describe_one(const GemmOperation& g) {
  std::string out = std::string(name_of(g.layout)) + " gemm ";
  if (g.count != 1) out += text(g.count) + " x ";
  return out + text(g.m) + 'x' + text(g.n) + 'x' + text(g.k) + ' ' +
         std::string(name_of(g.precision)) + (g.accumulate ? " accumulating" : "");
}

std::string describe_one(const AttentionOperation& a) {
  std::string out = std::string(a.causal ? "causal " : "") + "attention " +
                    (a.backward ? "backward" : "forward") + " batch " + text(a.batch) + ", " +
                    text(a.heads) + " heads";
  if (a.kv_heads != a.heads) out += " (" + text(a.kv_heads) + " of keys)";
  out += ", " + text(a.queries) + 'x' + text(a.keys) + " tokens, head size " + text(a.qk_dim);
  if (a.v_dim != a.qk_dim) out += '/' + text(a.v_dim);
  return out + ' ' + std::string(name_of(a.dtype));
}

std::string describe_one(const MemoryOperation& m) {
  return std::string(name_of(m.kernel)) + " of " + text(m.rows) + 'x' + text(m.columns) + ' ' +
         std::string(name_of(m.dtype));
}

std::string describe_one(const CopyOperation& c) {
  return std::string(name_of(c.direction)) + " copy of " + human_bytes(c.bytes);
}

std::string describe_one(const LaunchOperation& l) {
  return "launch of " + text(l.kernels) + " kernels" + (l.graph ? " from a graph" : "");
}

std::string describe_one(const OverlapOperation& o) {
  return describe_one(o.compute) + " beside " + describe_one(o.communication);
}

// Elements of both operands and of the result, rounded as the buffers are.
Bytes gemm_bytes(const GemmOperation& g) {
  const std::int64_t in = g.precision == Precision::kFp8 ? 1 : storage_size(g.precision);
  const std::int64_t out = g.accumulate ? 4 : storage_size(g.precision);
  return Bytes{g.count * ((g.m * g.k + g.k * g.n) * in + g.m * g.n * out)};
}

Bytes attention_bytes(const AttentionOperation& a) {
  const std::int64_t q = a.batch * a.queries * a.heads * (a.qk_dim + a.v_dim);
  const std::int64_t kv = a.batch * a.keys * a.kv_heads * (a.qk_dim + a.v_dim);
  const std::int64_t statistics = a.batch * a.queries * a.heads * 4;
  // Backward keeps the gradients of all four besides.
  return Bytes{(q + kv) * size_of(a.dtype) * (a.backward ? 2 : 1) + statistics};
}

}  // namespace

std::string describe(const Operation& op) {
  return std::visit([](const auto& one) { return describe_one(one); }, op);
}

Bytes buffer_bytes(const Operation& op) {
  return std::visit(Overloaded{
                        // A send and a receive buffer, each as large as the larger side.
                        [](const CollectiveOperation& c) { return c.bytes * 2; },
                        [](const GemmOperation& g) { return gemm_bytes(g); },
                        [](const AttentionOperation& a) { return attention_bytes(a); },
                        [](const MemoryOperation& m) { return traffic(m); },
                        [](const CopyOperation& c) { return c.bytes * 2; },
                        [](const LaunchOperation&) { return Bytes{0}; },
                        [](const OverlapOperation& o) {
                          return gemm_bytes(o.compute) + o.communication.bytes * 2;
                        },
                    },
                    op);
}

// What each kernel has to move if it keeps everything else in registers. Activations have the
// operation's type; norms keep one fp32 statistic per row; Adam reads and writes fp32 master
// weights and both moments, reads an fp32 gradient and writes the 16-bit copy.
Bytes traffic(const MemoryOperation& m) {
  const std::int64_t n = m.rows * m.columns, size = size_of(m.dtype);
  switch (m.kernel) {
    case MemoryKernel::kRmsNorm:  // x -> y, weights, statistics
      return Bytes{2 * n * size + m.columns * size + 4 * m.rows};
    case MemoryKernel::kRmsNormBackward:  // x, dy -> dx, weights and their gradient, statistics
      return Bytes{3 * n * size + m.columns * (size + 4) + 4 * m.rows};
    case MemoryKernel::kGatedActivation:  // a, b -> y
      return Bytes{3 * n * size};
    case MemoryKernel::kGatedActivationBackward:  // a, b, dy -> da, db
      return Bytes{5 * n * size};
    case MemoryKernel::kRotary:  // x -> x; the table of one position per row stays in the cache
      return Bytes{2 * n * size};
    case MemoryKernel::kResidual:  // a, b -> y
      return Bytes{3 * n * size};
    case MemoryKernel::kAdam:
      return Bytes{n * (4 + 3 * 8 + size)};
    case MemoryKernel::kCast:
      return Bytes{n * (4 + size)};
    case MemoryKernel::kFill:
      return Bytes{n * size};
  }
  return Bytes{0};
}

std::optional<std::string> malformed(const RankGroup& g) {
  constexpr std::int64_t kMost = 1'000'000'000;  // ranks: products of two still fit
  for (const std::int64_t n : {g.size, g.stride, g.run, g.jump, g.period}) {
    if (n < 0 || n > kMost) return "its sizes and distances must be from 0 to 1000000000";
  }
  if (g.size < 1) return "it must have at least one member";
  if (g.stride < 1) return "the distance of neighbouring members must be at least 1";
  if (g.run == 0 && g.jump != 0) return "runs of no members have no distance";
  if (g.run > 0) {
    if (g.size % g.run != 0) return "its members must make whole runs";
    const std::int64_t inside = g.run * g.stride;
    if (g.jump < inside || g.jump % inside != 0) {
      return "the distance of its runs must be a multiple of what one spans";
    }
  }
  if (g.period > 0 && g.period < reach_of(g)) return "it must fit into its period";
  return std::nullopt;
}

std::int64_t reach_of(const RankGroup& g) {
  if (g.run == 0) return (g.size - 1) * g.stride + 1;
  return (g.size / g.run - 1) * g.jump + (g.run - 1) * g.stride + 1;
}

std::int64_t period_of(const RankGroup& g) {
  if (g.period > 0) return g.period;
  return g.run > 0 ? g.size / g.run * g.jump : g.size * g.stride;
}

GroupPlace place_of(const RankGroup& g, std::int64_t rank, std::int64_t ranks) {
  if (malformed(g)) return {};
  const std::int64_t period = period_of(g), block = rank / period;
  if (rank < 0 || block >= ranks / period) return {};
  const std::int64_t run = g.run > 0 ? g.run : g.size, runs = g.size / run;
  const std::int64_t span = run * g.stride;  // of a run and those between its members
  const std::int64_t jump = g.run > 0 ? g.jump : span, together = runs * jump;
  const std::int64_t here = rank % period;
  const std::int64_t outer = here / jump % runs, inner = here / g.stride % run;
  const std::int64_t first = here - outer * jump - inner * g.stride;
  if (first + reach_of(g) > period) return {};
  // Groups of a block begin at these places, `starts` of them in each `together` ranks.
  const std::int64_t starts = jump / run;
  const std::int64_t start = first % together / span * g.stride + first % g.stride;
  GroupPlace place;
  place.group = (block * ceil_div(period, together) + first / together) * starts + start;
  place.member = outer * run + inner;
  if (!g.concurrent && place.group != 0) return {};
  return place;
}

const RankGroup* group_of(const Operation& op) {
  if (const auto* c = std::get_if<CollectiveOperation>(&op)) return &c->group;
  if (const auto* o = std::get_if<OverlapOperation>(&op)) return &o->communication.group;
  return nullptr;
}

RankGroup* group_of(Operation& op) {
  return const_cast<RankGroup*>(group_of(std::as_const(op)));  // NOLINT: the object is not const
}

}  // namespace meshplan
