#include "work.hpp"

#if __has_include(<cudnn.h>)
#include <cmath>
#include <optional>
#include <vector>

#include "attention_graph.hpp"

namespace meshplan::device {
namespace {

using cudnn::BackwardGraph;
using cudnn::ForwardGraph;

struct Sizes {
  std::int64_t q, k, v, o, rows;  // elements
};

Sizes sizes_of(const meshplan_probe_attention& a) {
  return {a.batch * a.queries * a.heads * a.qk_dim, a.batch * a.keys * a.kv_heads * a.qk_dim,
          a.batch * a.keys * a.kv_heads * a.v_dim, a.batch * a.queries * a.heads * a.v_dim,
          a.batch * a.queries * a.heads};
}

// Flash attention through cuDNN. The backward pass runs on the outputs and row statistics of a
// forward pass of the same data.
class Attention : public Work {
 public:
  Attention(const meshplan_probe_attention& a, const Properties& p)
      : a_(a),
        dtype_(static_cast<Dtype>(a.dtype)),
        sizes_(sizes_of(a)),
        forward_(cudnn::forward_graph(a)) {
    if (a.backward != 0) {
      backward_.emplace(cudnn::backward_graph(a));
      row_sums_ = Buffer(sizes_.rows * 4);
      d_q_sum_ = Buffer(sizes_.q * 4);
    }
    allocate(p);
  }

  void issue(cudaStream_t stream) override {
    run(sets_[next_], stream);
    next_ = (next_ + 1) % sets_.size();
  }

  CheckResult check(cudaStream_t stream, const Finish& finish) override {
    // What no result is: a gradient that is not written shows.
    const Set& s = sets_.front();
    for (const Buffer* b : {&s.d_q, &s.d_k, &s.d_v}) {
      if (b->size() > 0)
        MESHPLAN_CUDA(cudaMemset(b->data(), 0x55, static_cast<std::size_t>(b->size())));
    }
    finish_copies();
    run(s, stream);
    finish();
    return compare();
  }

 private:
  struct Set {
    Buffer q, k, v, o, stats, d_o, d_q, d_k, d_v;
  };

  meshplan_probe_attention a_;
  Dtype dtype_;
  Sizes sizes_;
  ForwardGraph forward_;
  std::optional<BackwardGraph> backward_;
  Buffer row_sums_, d_q_sum_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;

  void allocate(const Properties& p) {
    const std::int64_t e = size_of(dtype_);
    const bool back = backward_.has_value();
    const std::int64_t once = e * (sizes_.q + sizes_.k + sizes_.v + sizes_.o) + 4 * sizes_.rows;
    const std::int64_t copies = copies_past_cache(p, back ? 2 * once : once);
    const Stream stream;
    for (std::int64_t i = 0; i < copies; ++i) {
      Set s{Buffer(e * sizes_.q),
            Buffer(e * sizes_.k),
            Buffer(e * sizes_.v),
            Buffer(e * sizes_.o),
            Buffer(4 * sizes_.rows),
            {},
            {},
            {},
            {}};
      fill_or_copy(s.q, &Set::q, 1);
      fill_or_copy(s.k, &Set::k, 2);
      fill_or_copy(s.v, &Set::v, 3);
      if (back) {
        s.d_o = Buffer(e * sizes_.o);
        s.d_q = Buffer(e * sizes_.q);
        s.d_k = Buffer(e * sizes_.k);
        s.d_v = Buffer(e * sizes_.v);
        fill_or_copy(s.d_o, &Set::d_o, 4);
        finish_copies();
        run_forward(s, stream);
      }
      sets_.push_back(std::move(s));
    }
    finish_copies();
    MESHPLAN_CUDA(cudaStreamSynchronize(stream));
  }

  // An operand of the first set, or of another one the same.
  void fill_or_copy(Buffer& b, Buffer Set::*operand, unsigned seed) const {
    if (sets_.empty()) {
      fill_random(b, dtype_, seed);
    } else {
      b = copy_of(sets_.front().*operand);
    }
  }

  void run_forward(const Set& s, cudaStream_t stream) const {
    const ForwardGraph& f = forward_;
    f.graph.run({{f.q, s.q.data()},
                 {f.k, s.k.data()},
                 {f.v, s.v.data()},
                 {f.o, s.o.data()},
                 {f.stats, s.stats.data()}},
                stream);
  }

  void run(const Set& s, cudaStream_t stream) const {
    if (!backward_) return run_forward(s, stream);
    const BackwardGraph& b = *backward_;
    b.graph.run({{b.q, s.q.data()},
                 {b.k, s.k.data()},
                 {b.v, s.v.data()},
                 {b.o, s.o.data()},
                 {b.stats, s.stats.data()},
                 {b.d_o, s.d_o.data()},
                 {b.d_q, s.d_q.data()},
                 {b.d_k, s.d_k.data()},
                 {b.d_v, s.d_v.data()},
                 {b.row_sums, row_sums_.data()},
                 {b.d_q_sum, d_q_sum_.data()}},
                stream);
  }

  // Rows of the first set as float64: token `t` of `heads` in a sequence of `tokens`.
  class Host {
   public:
    Host(const Buffer& b, Dtype d, std::int64_t tokens, std::int64_t heads, std::int64_t size)
        : bytes_(static_cast<std::size_t>(b.size())),
          dtype_(d),
          tokens_(tokens),
          heads_(heads),
          size_(size) {
      MESHPLAN_CUDA(cudaMemcpy(bytes_.data(), b.data(), bytes_.size(), cudaMemcpyDeviceToHost));
    }
    [[nodiscard]] double at(std::int64_t batch, std::int64_t t, std::int64_t head,
                            std::int64_t i) const {
      return value_at(bytes_.data(), ((batch * tokens_ + t) * heads_ + head) * size_ + i, dtype_);
    }
    [[nodiscard]] double dot(const Host& o, std::int64_t batch, std::int64_t t, std::int64_t head,
                             std::int64_t other_t, std::int64_t other_head) const {
      double sum = 0;
      for (std::int64_t i = 0; i < size_; ++i) {
        sum += at(batch, t, head, i) * o.at(batch, other_t, other_head, i);
      }
      return sum;
    }

   private:
    std::vector<char> bytes_;
    Dtype dtype_;
    std::int64_t tokens_, heads_, size_;
  };

  // Probabilities of one query over its keys.
  std::vector<double> probabilities(const Host& q, const Host& k, std::int64_t batch,
                                    std::int64_t head, std::int64_t query) const {
    const std::int64_t keys = a_.causal != 0 ? query + 1 + a_.keys - a_.queries : a_.keys;
    const std::int64_t shared = head * a_.kv_heads / a_.heads;
    const double scale = static_cast<double>(cudnn::scale_of(a_));
    std::vector<double> p(static_cast<std::size_t>(keys));
    double most = -1e300, sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      p[j] = scale * q.dot(k, batch, query, head, static_cast<std::int64_t>(j), shared);
      most = std::max(most, p[j]);
    }
    for (double& x : p) sum += x = std::exp(x - most);
    for (double& x : p) x /= sum;
    return p;
  }

  // Some rows of what was computed against float64: outputs forward, all three gradients backward.
  // Probabilities and results are rounded to 16 bits on the way.
  CheckResult compare() const {
    constexpr std::int64_t kRows = 6;
    const Set& s = sets_.front();
    const Host q(s.q, dtype_, a_.queries, a_.heads, a_.qk_dim);
    const Host k(s.k, dtype_, a_.keys, a_.kv_heads, a_.qk_dim);
    const Host v(s.v, dtype_, a_.keys, a_.kv_heads, a_.v_dim);
    const Host o(s.o, dtype_, a_.queries, a_.heads, a_.v_dim);
    std::optional<Gradients> g;
    if (backward_) {
      g.emplace(Gradients{Host(s.d_o, dtype_, a_.queries, a_.heads, a_.v_dim),
                          Host(s.d_q, dtype_, a_.queries, a_.heads, a_.qk_dim)});
    }
    CheckResult result{0, "cuDNN " + std::to_string(cudnn::api().version())};
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t query = i == 0 ? a_.queries - 1 : i * 104'729 % a_.queries;
      const std::int64_t head = i * 7 % a_.heads, batch = i % a_.batch;
      const std::vector<double> p = probabilities(q, k, batch, head, query);
      result.wrong += g ? wrong_gradient(*g, p, k, v, o, {batch, query, head})
                        : wrong_output(p, v, o, {batch, query, head});
    }
    if (g) result.wrong += wrong_key_gradients(s, g->d_o, q, k, v, o);
    return result;
  }

  struct Gradients {
    Host d_o, d_q;
  };

  struct Row {
    std::int64_t batch, query, head;
  };

  [[nodiscard]] bool near(double got, double want, double size) const {
    const double rounding = dtype_ == Dtype::kFp16 ? std::ldexp(1, -9) : std::ldexp(1, -6);
    return std::abs(got - want) <= rounding * (std::abs(want) + size);
  }

  std::int64_t wrong_output(const std::vector<double>& p, const Host& v, const Host& o,
                            const Row& r) const {
    std::int64_t wrong = 0;
    const std::int64_t shared = r.head * a_.kv_heads / a_.heads;
    for (std::int64_t i = 0; i < a_.v_dim; ++i) {
      double want = 0, size = 0;
      for (std::size_t j = 0; j < p.size(); ++j) {
        const double x = p[j] * v.at(r.batch, static_cast<std::int64_t>(j), shared, i);
        want += x, size += std::abs(x);
      }
      if (!near(o.at(r.batch, r.query, r.head, i), want, size)) ++wrong;
    }
    return wrong;
  }

  // dQ = scale sum_j P_j (dO v_j - dO o) k_j.
  std::int64_t wrong_gradient(const Gradients& g, const std::vector<double>& p, const Host& k,
                              const Host& v, const Host& o, const Row& r) const {
    const auto& [d_o, d_q] = g;
    const std::int64_t shared = r.head * a_.kv_heads / a_.heads;
    const double mean = d_o.dot(o, r.batch, r.query, r.head, r.query, r.head);
    const double scale = static_cast<double>(cudnn::scale_of(a_));
    std::vector<double> want(static_cast<std::size_t>(a_.qk_dim)), size(want.size());
    for (std::size_t j = 0; j < p.size(); ++j) {
      const auto key = static_cast<std::int64_t>(j);
      const double d_p = d_o.dot(v, r.batch, r.query, r.head, key, shared);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double x = scale * p[j] * k.at(r.batch, key, shared, static_cast<std::int64_t>(i));
        want[i] += x * (d_p - mean);
        size[i] += std::abs(x) * (std::abs(d_p) + std::abs(mean));
      }
    }
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double got = d_q.at(r.batch, r.query, r.head, static_cast<std::int64_t>(i));
      if (!near(got, want[i], size[i])) ++wrong;
    }
    return wrong;
  }

  // A sum over queries, and the root of its squared terms: their roundings are independent, and a
  // long sum is far smaller than its terms together.
  struct Sums {
    explicit Sums(std::int64_t n)
        : value(static_cast<std::size_t>(n)), squares(static_cast<std::size_t>(n)) {}
    std::vector<double> value, squares;
    void add(std::size_t i, double x) { value[i] += x, squares[i] += x * x; }
  };

  // Of some keys: dV = sum_i P_i dO_i and dK = scale sum_i P_i (dO_i v - dO_i o_i) q_i, over all
  // queries that see the key, of all heads that share it. P comes from the forward pass's row
  // statistics: dQ's check has its own.
  std::int64_t wrong_key_gradients(const Set& s, const Host& d_o, const Host& q, const Host& k,
                                   const Host& v, const Host& o) const {
    constexpr std::int64_t kKeys = 3;
    const Host d_k(s.d_k, dtype_, a_.keys, a_.kv_heads, a_.qk_dim);
    const Host d_v(s.d_v, dtype_, a_.keys, a_.kv_heads, a_.v_dim);
    const Host stats(s.stats, Dtype::kFp32, a_.heads, a_.queries, 1);  // [batch, heads, queries]
    const double scale = static_cast<double>(cudnn::scale_of(a_));
    const std::int64_t sharing = a_.heads / a_.kv_heads;
    std::int64_t wrong = 0;
    for (std::int64_t n = 0; n < kKeys; ++n) {
      const std::int64_t key = n * (a_.keys - 1) / (kKeys - 1);
      const std::int64_t shared = n * 3 % a_.kv_heads, batch = n % a_.batch;
      const std::int64_t first =
          a_.causal != 0 ? std::max<std::int64_t>(0, key - (a_.keys - a_.queries)) : 0;
      Sums keys(a_.qk_dim), values(a_.v_dim);
      for (std::int64_t head = shared * sharing; head < (shared + 1) * sharing; ++head) {
        for (std::int64_t i = first; i < a_.queries; ++i) {
          const double p =
              std::exp(scale * q.dot(k, batch, i, head, key, shared) - stats.at(batch, head, i, 0));
          const double d_p = d_o.dot(v, batch, i, head, key, shared);
          const double d_s = scale * p * (d_p - d_o.dot(o, batch, i, head, i, head));
          for (std::int64_t c = 0; c < a_.v_dim; ++c) {
            values.add(static_cast<std::size_t>(c), p * d_o.at(batch, i, head, c));
          }
          for (std::int64_t c = 0; c < a_.qk_dim; ++c) {
            keys.add(static_cast<std::size_t>(c), d_s * q.at(batch, i, head, c));
          }
        }
      }
      wrong += wrong_sums(d_k, keys, {batch, key, shared});
      wrong += wrong_sums(d_v, values, {batch, key, shared});
    }
    return wrong;
  }

  std::int64_t wrong_sums(const Host& got, const Sums& want, const Row& r) const {
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < want.value.size(); ++i) {
      const double size = 2 * std::sqrt(want.squares[i]);
      const double found = got.at(r.batch, r.query, r.head, static_cast<std::int64_t>(i));
      if (!near(found, want.value[i], size)) ++wrong;
    }
    return wrong;
  }
};

}  // namespace

std::unique_ptr<Work> make_attention(const meshplan_probe_attention& a, const Properties& p) {
  if (a.causal != 0 && a.queries > a.keys) {
    throw ImpossibleError("a causal mask needs a key for every query");
  }
  if (a.kv_heads < 1 || a.heads % a.kv_heads != 0) {
    throw ImpossibleError("heads must be a multiple of the key and value heads");
  }
  return std::make_unique<Attention>(a, p);
}

}  // namespace meshplan::device

#else

namespace meshplan::device {

std::unique_ptr<Work> make_attention(const meshplan_probe_attention& /*a*/,
                                     const Properties& /*p*/) {
  throw ImpossibleError("this plug-in was built without cuDNN's header, so it has no attention");
}

}  // namespace meshplan::device
#endif
