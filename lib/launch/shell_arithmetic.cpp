#include "launch/shell_arithmetic.hpp"

#include <array>
#include <charconv>

#include "launch/shell_syntax.hpp"

namespace meshplan::shell {
namespace {

using Number = std::optional<std::int64_t>;

struct Operator {
  std::string_view text;
  int rank;  // higher binds tighter
};
// Longer ones first, where one begins another.
constexpr std::array kOperators{
    Operator{"||", 1}, Operator{"&&", 2}, Operator{"==", 6}, Operator{"!=", 6},  Operator{"<=", 7},
    Operator{">=", 7}, Operator{"<<", 8}, Operator{">>", 8}, Operator{"**", 11}, Operator{"|", 3},
    Operator{"^", 4},  Operator{"&", 5},  Operator{"<", 7},  Operator{">", 7},   Operator{"+", 9},
    Operator{"-", 9},  Operator{"*", 10}, Operator{"/", 10}, Operator{"%", 10}};

// Numbers wrap round, as those of the shell.
std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::uint64_t result = 1;
  auto factor = static_cast<std::uint64_t>(base);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= factor;
    factor *= factor;
  }
  return wrapped(result);
}

Number divided(std::int64_t a, std::int64_t b, bool remainder) {
  if (b == 0) return std::nullopt;
  if (b == -1) return remainder ? 0 : wrapped(-static_cast<std::uint64_t>(a));
  return remainder ? a % b : a / b;
}

Number apply(std::string_view op, Number left, Number right) {
  // What is known of one side may decide.
  if (op == "&&" && ((left && *left == 0) || (right && *right == 0))) return 0;
  if (op == "||" && ((left && *left != 0) || (right && *right != 0))) return 1;
  if (!left || !right) return std::nullopt;
  const std::int64_t a = *left, b = *right;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  if (op == "+") return wrapped(ua + ub);
  if (op == "-") return wrapped(ua - ub);
  if (op == "*") return wrapped(ua * ub);
  if (op == "/" || op == "%") return divided(a, b, op == "%");
  if (op == "**") return power(a, b);
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "<<") return wrapped(ua << (ub % 64));
  if (op == ">>") return a >> (ub % 64);
  return op == "&&" ? (a != 0 && b != 0) : (a != 0 || b != 0);
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const ArithmeticVariables& variables)
      : text_(text), variables_(variables) {}

  Number all() {
    Number value = list();
    gap();
    return at_ < text_.size() || failed_ ? std::nullopt : value;
  }

 private:
  void gap() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n\"").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }
  bool take(std::string_view what) {
    gap();
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  Number list() {
    Number value = assignment();
    while (take(",")) value = assignment();
    return value;
  }

  Number assignment() {
    gap();
    const std::size_t begin = at_;
    const std::string name = read_name();
    if (!name.empty()) {
      gap();
      const std::string_view rest = text_.substr(at_);
      if (rest.starts_with("=") && !rest.starts_with("==")) {
        ++at_;
        return set(name, deeper([&] { return assignment(); }));
      }
      const std::size_t sign = rest.starts_with("**") || rest.starts_with("<<") ? 2 : 1;
      if (rest.size() > 1 && rest.substr(1).starts_with("=") &&
          std::string_view("+-*/%&|^").find(rest.front()) != std::string_view::npos) {
        at_ += sign + 1;
        const Number right = deeper([&] { return assignment(); });
        return set(name, apply(rest.substr(0, sign), variables_.get(name), right));
      }
    }
    at_ = begin;
    return ternary();
  }

  Number set(const std::string& name, Number value) {
    variables_.set(name, value);
    return value;
  }

  template <class Part>
  Number deeper(const Part& part) {
    constexpr int kDeepest = 100;
    if (++depth_ > kDeepest) failed_ = true;
    Number value = failed_ ? std::nullopt : part();
    --depth_;
    return value;
  }

  Number ternary() {
    const Number condition = binary(1);
    if (!take("?")) return condition;
    const Number yes = deeper([&] { return ternary(); });
    if (!take(":")) failed_ = true;
    const Number no = deeper([&] { return ternary(); });
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  Number binary(int lowest) {
    Number left = unary();
    while (true) {
      gap();
      const Operator* found = nullptr;
      for (const Operator& op : kOperators) {
        if (found == nullptr && text_.substr(at_).starts_with(op.text)) found = &op;
      }
      if (found == nullptr || found->rank < lowest) return left;
      at_ += found->text.size();
      const Number right = deeper([&] { return binary(found->rank + 1); });
      left = apply(found->text, left, right);
    }
  }

  Number unary() {
    if (take("++") || take("--")) {
      const std::int64_t step = text_[at_ - 1] == '+' ? 1 : -1;
      gap();
      const std::string name = read_name();
      const Number old = variables_.get(name);
      return set(name, apply("+", old, step));
    }
    if (take("-")) return apply("-", 0, deeper([&] { return unary(); }));
    if (take("+")) return deeper([&] { return unary(); });
    if (take("!")) return apply("==", 0, deeper([&] { return unary(); }));
    if (take("~")) return apply("^", -1, deeper([&] { return unary(); }));
    if (take("(")) {
      const Number value = deeper([&] { return list(); });
      if (!take(")")) failed_ = true;
      return value;
    }
    return operand();
  }

  std::string read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (is_name(name)) return std::string(name);
    at_ = begin;
    return {};
  }

  Number operand() {
    gap();
    const std::string name = read_name();
    if (name.empty()) return number();
    const Number value = variables_.get(name);
    if (take("++")) {
      variables_.set(name, apply("+", value, 1));
    } else if (take("--")) {
      variables_.set(name, apply("-", value, 1));
    }
    return value;
  }

  Number number() {
    int base = 10;
    if (text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X")) {
      base = 16;
      at_ += 2;
    } else if (text_.substr(at_).starts_with("0")) {
      base = 8;
    }
    std::int64_t value = 0;
    const auto [stop, failure] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value, base);
    if (failure != std::errc{}) {
      failed_ = true;
      return std::nullopt;
    }
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  std::string_view text_;
  const ArithmeticVariables& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view text,
                                       const ArithmeticVariables& variables) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return 0;
  return Evaluator(text, variables).all();
}

}  // namespace meshplan::shell
