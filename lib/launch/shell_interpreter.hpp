#pragma once
// Runs a script as far as it can be run without its machine: nothing outside of this program is
// started, read or written. Commands that it would start are recorded.
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/shell_syntax.hpp"

namespace meshplan::shell {

// Calls within calls, and items of one array or list.
inline constexpr int kDeepestCalls = 40;
inline constexpr std::size_t kMostItems = 100'000;

enum class Truth { kFalse, kTrue, kUnknown };

struct Variable {
  std::vector<Value> items;
  std::vector<std::string> keys;  // of an associative array, one per item
  bool array = false;
};

// A command that would be started, with the assignments before it.
struct Started {
  std::vector<Value> words;
  std::map<std::string, Value> environment;
};

// A condition that cannot be known here.
struct Decision {
  int line = 0;
  std::string text;   // of the condition
  std::string names;  // variables that would say it; empty where it is something else
  bool taken = false;
};

struct Inputs {
  std::map<std::string, std::string> fixed;        // whatever the script assigns
  std::map<std::string, std::string> environment;  // before the script begins
  std::optional<std::vector<std::string>> arguments;
  // Text of a file that the script reads as its own; nothing where there is none.
  std::function<std::optional<std::string>(const std::string&)> read_file;
  // A variable that nothing sets is empty where the script asks whether it is.
  bool unset_is_empty = true;
  std::vector<bool> decisions;  // the first ones; later ones are not taken
};

struct Outcome {
  std::vector<Started> started;
  std::map<std::string, Variable> variables;
  std::map<std::string, Value> files;  // that the script writes from here-documents, by their names
  std::vector<Decision> decisions;
  std::map<std::string, std::string> defaults;  // of variables that nothing sets
  std::set<std::string> taken;                  // of Inputs::environment
  bool took_as_empty = false;                   // Inputs::unset_is_empty decided something
  std::vector<std::string> not_read;            // files that it reads as its own and are not here
};

class Interpreter {
 public:
  explicit Interpreter(const Inputs& inputs);
  Outcome run(const Source& script);

 private:
  enum class Mode { kPlain, kQuoted, kDocument };
  struct Fields {
    std::vector<Value> all;
    Value current;
    bool open = false;
    bool splits = true;

    void add(Segment s);
    void split(const Value& v);
    void close();
  };

  // shell_expand.cpp
  [[nodiscard]] std::vector<Value> fields_of(Range word);
  [[nodiscard]] Value text_in(Range word, Mode mode = Mode::kPlain);
  void expand(Range range, Mode mode, Fields& out);
  std::size_t backslash(Range range, std::size_t at, Mode mode, Fields& out);
  std::size_t dollar(Range range, std::size_t at, Mode mode, Fields& out);
  void braces(Range inside, Mode mode, Fields& out);
  void list(const std::vector<Value>& items, Mode mode, bool joined, Fields& out);
  void put(const Value& v, Mode mode, Fields& out);
  [[nodiscard]] Value changed(const Value& v, std::string_view change, Range inside, Mode mode);
  [[nodiscard]] Value element(const Variable& v, Range index);
  [[nodiscard]] Value value_of(const std::string& name, const Segment& at);
  [[nodiscard]] bool is_unset(const std::string& name) const;
  [[nodiscard]] Value substitution(Range command);
  [[nodiscard]] Value calculated(Range expression);
  [[nodiscard]] std::optional<std::int64_t> number(const Value& expression, std::string& names);

  // shell_commands.cpp
  Truth execute(const Node& node);
  Truth conditional(const Node& node);
  Truth choice(const Node& node);
  Truth loop(const Node& node);
  Truth counted_loop(const Node& node);
  Truth while_loop(const Node& node);
  Truth body(const Node& node);
  Truth simple(const Node& node);
  std::optional<Truth> built_in(const std::string& name, std::vector<Value>& words);
  std::optional<Truth> control(const std::string& name, const std::vector<Value>& words);
  void declare(const Node& node, std::size_t first);
  void assign(Range word, std::map<std::string, Value>* environment = nullptr);
  void assign_array(Variable& v, Range inside);
  void set(const std::string& name, Value value);
  void start(std::vector<Value> words, std::map<std::string, Value> environment);
  Truth evaluate(const Value& text);
  void source(const Value& path);
  void print(const std::string& name, const std::vector<Value>& words);
  void write_documents(const Node& node, const std::vector<Value>& words);
  [[nodiscard]] Value output_of(const std::vector<Value>& words);
  bool decide(Truth truth, const Node& condition, const std::string& text = {});
  [[nodiscard]] bool stops() const { return stopped_ || returning_ || breaking_ || steps_ <= 0; }

  // shell_test.cpp
  Truth test(const Node& node);
  Truth test(std::vector<Value> words, const std::vector<Range>* raw);
  Truth either(std::size_t&at), both(std::size_t&at), one(std::size_t&at);
  Truth unary(std::string_view what, const Value& v);
  Truth binary(const Value& left, std::string_view what, const Value& right, bool literal);
  Truth unknown_truth(const Value& v);

  const Inputs& inputs_;
  Outcome out_;
  std::deque<Source> sources_;                 // of texts that are run
  std::deque<std::unique_ptr<Node>> scripts_;  // functions point into them
  std::map<std::string, const Node*> functions_;
  std::vector<Value> arguments_;
  bool knows_arguments_ = false;
  std::size_t shifted_ = 0;
  std::string assigned_;       // variable whose value is being made
  Value* captured_ = nullptr;  // what a command substitution prints
  std::string reasons_;        // names that the last unknown condition depends on
  std::vector<Value> tested_;
  const std::vector<Range>* tested_raw_ = nullptr;
  bool in_loop_condition_ = false;
  bool stopped_ = false, returning_ = false, breaking_ = false;
  int depth_ = 0;
  long steps_ = 20'000;           // commands that are run, over all
  std::size_t room_ = 1U << 21U;  // characters that variables may stand for, over all
};

}  // namespace meshplan::shell
