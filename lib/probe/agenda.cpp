#include "probe/agenda.hpp"

#include <algorithm>

namespace meshplan {
namespace {

// An operation and its turn: all of one turn come before any of the next.
struct Item {
  Operation operation;
  int turn = 0;
};

class Builder {
 public:
  Builder(const Machine& m, const AgendaOptions& options) : machine_(m), options_(options) {}

  void add(const Operation& op, int turn) {
    const bool wanted = options_.kinds.empty() || options_.kinds.count(kind_of(op)) > 0;
    if (wanted) items_.push_back({op, turn});
  }

  std::vector<Operation> in_order() {
    std::stable_sort(items_.begin(), items_.end(),
                     [](const Item& a, const Item& b) { return a.turn < b.turn; });
    std::vector<Operation> all;
    for (const Item& item : items_) all.push_back(item.operation);
    return all;
  }

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const AgendaOptions& options() const { return options_; }

 private:
  const Machine& machine_;
  const AgendaOptions& options_;
  std::vector<Item> items_;
};

// Powers of two from 8 B to 1 GiB: every fourth first, then those between, then the odd ones.
constexpr int kFirstPower = 3, kLastPower = 30;
int turn_of_power(int power) {
  const int step = power - kFirstPower;
  if (step % 4 == 0) return 0;
  return step % 2 == 0 ? 1 : 2;
}

struct CollectiveKind {
  Collective collective;
  bool bidirectional = false;
};
constexpr CollectiveKind kCollectives[] = {
    {Collective::kAllReduce},      {Collective::kAllGather}, {Collective::kReduceScatter},
    {Collective::kAllToAll},       {Collective::kBroadcast}, {Collective::kSendRecv},
    {Collective::kSendRecv, true},
};

// Operations with parts take whole elements per rank.
Bytes divided(Collective c, Bytes bytes, std::int64_t ranks, std::int64_t element) {
  const bool parts =
      c == Collective::kAllGather || c == Collective::kReduceScatter || c == Collective::kAllToAll;
  const std::int64_t unit = parts ? ranks * element : element;
  return Bytes{bytes.count() / unit * unit};
}

void add_collectives(Builder& b) {
  const Machine& m = b.machine();
  const Dtype dtype = m.accelerator ? Dtype::kBf16 : Dtype::kFp32;
  for (int power = kFirstPower; power <= kLastPower; ++power) {
    if (Bytes{std::int64_t{1} << power} > b.options().largest) break;
    for (const RankGroup& g : group_shapes(m)) {
      for (const CollectiveKind& kind : kCollectives) {
        const bool one_way = kind.collective == Collective::kSendRecv && !kind.bidirectional;
        if (one_way && g.size != 2) continue;
        const Bytes bytes =
            divided(kind.collective, Bytes{std::int64_t{1} << power}, g.size, size_of(dtype));
        if (bytes == Bytes{0}) continue;
        b.add(CollectiveOperation{kind.collective, bytes, dtype, g, kind.bidirectional},
              turn_of_power(power));
      }
    }
  }
}

// Latency: a message and its answer, so small that its bytes take no time. One-way messages follow
// each other without waiting and show how many a second there can be instead.
void add_ping_pongs(Builder& b) {
  const Machine& m = b.machine();
  const Dtype dtype = m.accelerator ? Dtype::kBf16 : Dtype::kFp32;
  for (const std::int64_t bytes : {8, 64, 512}) {
    if (Bytes{bytes} > b.options().largest) break;
    for (const RankGroup& g : group_shapes(m)) {
      if (g.size != 2) continue;
      CollectiveOperation op{Collective::kSendRecv, Bytes{bytes}, dtype, g};
      op.ping_pong = true;
      b.add(op, bytes == 8 ? 0 : 1);
    }
  }
}

void add_gemms(Builder& b) {
  constexpr int kLayouts = 3;
  int precision_turn = 0;
  for (const Precision p : {Precision::kBf16, Precision::kFp8, Precision::kFp16}) {
    const std::vector<GemmOperation> all = gemm_agenda(p);
    // Each precision has one shape in all layouts early: where time is short it is still checked.
    // Shapes that fill the device have steady runs, which are for bf16 first.
    int early = kLayouts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int third = static_cast<int>(3 * i / all.size());
      const bool first = early > 0 && !fills_device(all[i]);
      if (first) --early;
      b.add(all[i], first ? 0 : std::min(2, third + precision_turn));
    }
    ++precision_turn;
  }
}

void add_attention(Builder& b) {
  for (const std::int64_t dim : {128, 64}) {
    for (const std::int64_t tokens : {4096, 1024, 16384, 2048, 8192, 512, 32768}) {
      for (const bool backward : {false, true}) {
        AttentionOperation a;
        a.batch = std::max<std::int64_t>(1, 8192 / tokens);
        a.heads = a.kv_heads = 16;
        a.queries = a.keys = tokens;
        a.qk_dim = a.v_dim = dim;
        a.backward = backward;
        b.add(a, tokens == 4096 ? 0 : tokens == 1024 || tokens == 16384 ? 1 : 2);
      }
    }
  }
  // Heads that share keys, as in Llama 3, and no mask.
  for (const bool backward : {false, true}) {
    b.add(AttentionOperation{1, 32, 8, 8192, 8192, 128, 128, true, backward}, 1);
    b.add(AttentionOperation{2, 16, 16, 4096, 4096, 128, 128, false, backward}, 2);
    // Context parallelism: a rank's queries and halves of others' keys, the last rows of the mask.
    b.add(AttentionOperation{1, 16, 16, 4096, 2048, 128, 128, false, backward}, 2);
    b.add(AttentionOperation{1, 16, 16, 2048, 4096, 128, 128, false, backward}, 2);
    b.add(AttentionOperation{1, 16, 16, 2048, 16384, 128, 128, true, backward}, 1);
  }
}

void add_memory_kernels(Builder& b) {
  for (const NameRow<MemoryKernel>& row : NameTable<MemoryKernel>::rows) {
    for (const std::int64_t rows : {8192, 1024, 32768, 128}) {
      b.add(MemoryOperation{row.value, rows, 4096}, rows == 8192 ? 0 : rows == 1024 ? 1 : 2);
    }
  }
}

void add_copies_and_launches(Builder& b) {
  for (const NameRow<CopyDirection>& row : NameTable<CopyDirection>::rows) {
    for (const std::int64_t mib : {256, 16, 1}) {
      b.add(CopyOperation{row.value, Bytes{mib * kMiB}}, mib == 256 ? 0 : 2);
    }
  }
  b.add(LaunchOperation{1000, false}, 0);
  b.add(LaunchOperation{1000, true}, 0);
}

void add_overlaps(Builder& b) {
  const GemmOperation product{8192, 8192, 4096};
  for (const RankGroup& g : group_shapes(b.machine())) {
    int turn = 0;
    for (const Collective c :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
      const Bytes bytes = divided(c, Bytes{64 * kMiB}, g.size, 2);
      b.add(OverlapOperation{product, {c, bytes, Dtype::kBf16, g}}, turn++);
    }
  }
}

void add_unique(std::vector<RankGroup>& all, const RankGroup& g) {
  if (g.size > 1 && std::find(all.begin(), all.end(), g) == all.end()) all.push_back(g);
}

}  // namespace

OperationKind kind_of(const Operation& op) { return static_cast<OperationKind>(op.index()); }

std::vector<RankGroup> group_shapes(const Machine& m) {
  const auto ranks = static_cast<std::int64_t>(m.ranks.size());
  const std::int64_t per_node = m.ranks_per_node;
  std::vector<RankGroup> all;
  if (ranks < 2) return all;
  add_unique(all, {.size = std::min(per_node, ranks)});
  const bool even = ranks == m.nodes * per_node;
  if (m.nodes > 1) {
    add_unique(all, {.size = ranks});
    if (even && per_node > 1) {
      add_unique(all, {.size = m.nodes, .stride = per_node, .concurrent = true});
      add_unique(all, {.size = m.nodes, .stride = per_node, .concurrent = false});
      add_unique(all, {.size = 2, .stride = per_node, .concurrent = true});
      // Two of each node, as data parallel ranks are where tensor parallel ones fill half of it.
      const bool halves = per_node >= 4 && per_node % 2 == 0;
      if (halves) add_unique(all, {.size = 2 * m.nodes, .stride = per_node / 2});
    }
  }
  for (std::int64_t size = 2; size < per_node; size *= 2) add_unique(all, {.size = size});
  if (per_node >= 4 && per_node % 2 == 0) add_unique(all, {.size = 2, .stride = per_node / 2});
  return all;
}

std::vector<GemmOperation> gemm_agenda(Precision p) {
  struct Shape {
    std::int64_t tokens, out, in;
  };
  // Output and input features of a linear layer, by tokens: QKV, projection, MLP up and down of
  // hidden sizes 2048 to 16384, whole and cut by tensor parallelism.
  constexpr Shape kShapes[] = {
      {8192, 8192, 8192},   {4096, 12288, 4096}, {8192, 28672, 8192}, {4096, 4096, 11008},
      {8192, 3584, 8192},   {8192, 8192, 3584},  {2048, 6144, 2048},  {4096, 1024, 4096},
      {16384, 2048, 16384}, {2048, 2048, 8192},  {4096, 4096, 512},   {8192, 1280, 8192},
      {1024, 4096, 4096},   {4096, 32000, 4096}, {2048, 16384, 2048}, {8192, 8192, 1024},
      {4096, 5120, 5120},   {2048, 1536, 12288}, {16384, 6144, 6144}, {512, 8192, 8192},
      {8192, 8192, 2048},   {8192, 8192, 16384}, {8192, 8192, 512},   {1024, 1024, 1024},
      {3072, 9216, 3072},   {6144, 2560, 10240}, {4096, 14336, 4096}, {4096, 4096, 14336},
      {256, 4096, 4096},    {2048, 7168, 20480},
  };
  std::vector<GemmOperation> all;
  for (const Shape& s : kShapes) {
    // dx[tokens, in] = dy[tokens, out] W[out, in];  dW[out, in] += dy^T[out, tokens] x[tokens, in]
    all.push_back({s.tokens, s.out, s.in, 1, GemmLayout::kForward, p});
    all.push_back({s.tokens, s.in, s.out, 1, GemmLayout::kInputGradient, p});
    all.push_back({s.out, s.in, s.tokens, 1, GemmLayout::kWeightGradient, p, true});
  }
  return all;
}

bool fills_device(const Operation& op) {
  constexpr std::int64_t kWide = 8192, kLong = 4096, kLongest = 16384, kHeadSize = 128;
  if (const auto* g = std::get_if<GemmOperation>(&op)) {
    return std::min({g->m, g->n, g->k}) >= kWide;
  }
  if (const auto* a = std::get_if<AttentionOperation>(&op)) {
    return a->causal && a->queries == a->keys && a->kv_heads == a->heads &&
           a->qk_dim == kHeadSize && (a->queries == kLong || a->queries == kLongest);
  }
  return false;
}

std::vector<Operation> agenda(const Machine& m, const AgendaOptions& options) {
  Builder b(m, options);
  if (m.accelerator && !m.time_sliced) {
    add_copies_and_launches(b);
    add_gemms(b);
    add_attention(b);
    add_memory_kernels(b);
    add_overlaps(b);
  }
  add_collectives(b);
  add_ping_pongs(b);
  return b.in_order();
}

static_assert(NameTable<OperationKind>::rows.size() == std::variant_size_v<Operation>);

}  // namespace meshplan
