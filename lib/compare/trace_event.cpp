#include "compare/trace_event.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace meshplan {
namespace {

using Json = nlohmann::json;

enum class Key {
  kOther,
  kTraceEvents,
  kDistributedInfo,
  kOtherData,
  kRank,
  kWorldSize,
  kTool,
  kPhase,
  kCategory,
  kName,
  kPid,
  kTid,
  kStart,
  kDuration,
  kArgs,
  kExternal,
  kCorrelation,
  kDevice,
  kStream,
  kCollective,
  kGroupName,
  kGroupDescription,
  kGroupRanks,
  kGroupSize,
  kInElements,
  kOutElements,
  kDtype,
  kInputDims,
  kMicrobatch
};

// Kineto's names: libkineto/src/output_json.cpp and torch/csrc/profiler/util.h.
Key key_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Key>, 28> kKeys{
      {{"args", Key::kArgs},
       {"cat", Key::kCategory},
       {"dur", Key::kDuration},
       {"name", Key::kName},
       {"ph", Key::kPhase},
       {"pid", Key::kPid},
       {"tid", Key::kTid},
       {"ts", Key::kStart},
       {"External id", Key::kExternal},
       {"external id", Key::kExternal},
       {"correlation", Key::kCorrelation},
       {"device", Key::kDevice},
       {"stream", Key::kStream},
       {"Input Dims", Key::kInputDims},
       {"Collective name", Key::kCollective},
       {"Process Group Name", Key::kGroupName},
       {"Process Group Description", Key::kGroupDescription},
       {"Process Group Ranks", Key::kGroupRanks},
       {"Group size", Key::kGroupSize},
       {"In msg nelems", Key::kInElements},
       {"Out msg nelems", Key::kOutElements},
       {"dtype", Key::kDtype},
       {"microbatch", Key::kMicrobatch},
       {"traceEvents", Key::kTraceEvents},
       {"distributedInfo", Key::kDistributedInfo},
       {"otherData", Key::kOtherData},
       {"rank", Key::kRank},
       {"tool", Key::kTool}}};
  if (text == "world_size") return Key::kWorldSize;
  for (const auto& [name, key] : kKeys) {
    if (name == text) return key;
  }
  return Key::kOther;
}

constexpr std::size_t kMostRanks = 1U << 20, kMostSizes = 64;

// "[0, 1, 8]" -> its numbers; a list that is cut short ("[0, 1, ...]") gives none.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> all;
  if (text.find("..") != std::string_view::npos) return all;
  for (std::size_t i = 0; i < text.size() && all.size() < kMostRanks;) {
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (failure == std::errc{}) {
      all.push_back(value);
      i = static_cast<std::size_t>(end - text.data());
    } else {
      ++i;
    }
  }
  return all;
}

// Depths: 0 outside, 1 the document (or a bare list of events), 2 the list of events, 3 an event, 4
// its arguments, 5 and 6 lists inside of them. A bare list makes everything one less deep.
class EventReader : public Json::json_sax_t {
 public:
  EventReader(const std::function<void(const TraceEvent&)>& event, TraceHeader& header)
      : hand_over_(event), header_(header) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }
  // How many bytes were looked at when the problem was found.
  [[nodiscard]] std::size_t position() const { return position_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t value) override {
    return take(static_cast<double>(value), value);
  }
  bool number_unsigned(std::uint64_t value) override {
    return take(static_cast<double>(value),
                value < 1ULL << 62 ? static_cast<std::int64_t>(value) : std::int64_t{0});
  }
  bool number_float(double value, const std::string&) override {
    const bool whole = std::abs(value) < 1e15;
    return take(value, whole ? static_cast<std::int64_t>(value) : 0);
  }
  bool string(std::string& value) override;
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override;
  bool key(std::string& value) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    position_ = position;
    problem_ = e.what();
    return false;
  }

 private:
  static constexpr int kMostNesting = 512;
  // How deep an event lies; 0 until the list of them begins.
  [[nodiscard]] bool in_event() const { return list_ > 0 && depth_ == list_ + 1; }
  [[nodiscard]] bool in_arguments() const {
    return list_ > 0 && depth_ == list_ + 2 && section_ == Key::kArgs;
  }
  [[nodiscard]] std::string* text_field();
  bool take(double value, std::int64_t whole);
  void take_argument(std::int64_t whole);
  bool deeper() {
    if (++depth_ <= kMostNesting) return true;
    problem_ = "lists or objects are nested more than 512 deep";
    return false;
  }

  const std::function<void(const TraceEvent&)>& hand_over_;
  TraceHeader& header_;
  TraceEvent event_;
  std::string problem_;
  int depth_ = 0, list_ = 0;
  Key key_ = Key::kOther, section_ = Key::kOther;
  std::size_t position_ = 0;
};

// Where a text of this key goes; null: nowhere.
std::string* EventReader::text_field() {
  if (in_event()) {
    if (key_ == Key::kPhase) return &event_.phase;
    if (key_ == Key::kCategory) return &event_.category;
    if (key_ == Key::kName) return &event_.name;
  } else if (in_arguments()) {
    if (key_ == Key::kCollective) return &event_.collective;
    if (key_ == Key::kGroupName) return &event_.group_name;
    if (key_ == Key::kGroupDescription) return &event_.group_description;
    if (key_ == Key::kDtype) return &event_.dtype;
  } else if (depth_ == 2 && section_ == Key::kOtherData && key_ == Key::kTool) {
    return &header_.tool;
  }
  return nullptr;
}

bool EventReader::string(std::string& value) {
  if (std::string* field = text_field(); field != nullptr) {
    field->swap(value);
  } else if (in_arguments() && key_ == Key::kGroupRanks) {
    event_.group_ranks = numbers_in(value);
  } else if (in_event() && (key_ == Key::kStart || key_ == Key::kDuration)) {
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    return take(number, 0);
  }
  return true;
}

bool EventReader::take(double value, std::int64_t whole) {
  if (in_event()) {
    if (key_ == Key::kStart) event_.start = value;
    if (key_ == Key::kDuration) event_.duration = value;
    if (key_ == Key::kPid) event_.pid = whole;
    if (key_ == Key::kTid) event_.tid = whole;
  } else if (in_arguments()) {
    take_argument(whole);
  } else if (list_ > 0 && depth_ >= list_ + 3 && section_ == Key::kArgs) {
    if (key_ == Key::kGroupRanks && event_.group_ranks.size() < kMostRanks) {
      event_.group_ranks.push_back(whole);
    }
    if (key_ == Key::kInputDims && depth_ == list_ + 4 && !event_.input_sizes.empty() &&
        event_.input_sizes.back().size() < kMostSizes) {
      event_.input_sizes.back().push_back(whole);
    }
  } else if (depth_ == 2 && section_ == Key::kDistributedInfo) {
    if (key_ == Key::kRank) header_.rank = whole;
    if (key_ == Key::kWorldSize) header_.world = whole;
  }
  return true;
}

void EventReader::take_argument(std::int64_t whole) {
  switch (key_) {
    case Key::kExternal:
      event_.external = whole;
      break;
    case Key::kCorrelation:
      event_.correlation = whole;
      break;
    case Key::kDevice:
      event_.device = whole;
      break;
    case Key::kStream:
      event_.stream = whole;
      break;
    case Key::kGroupSize:
      event_.group_size = whole;
      break;
    case Key::kInElements:
      event_.in_elements = whole;
      break;
    case Key::kOutElements:
      event_.out_elements = whole;
      break;
    case Key::kMicrobatch:
      event_.microbatch = whole;
      break;
    default:
      break;
  }
}

bool EventReader::start_object(std::size_t) {
  if (list_ > 0 && depth_ == list_) event_.clear();
  if (depth_ == 1 || (list_ > 0 && depth_ == list_ + 1)) section_ = key_;
  return deeper();
}

bool EventReader::key(std::string& value) {
  if (depth_ <= 2 || in_event() || in_arguments()) {
    key_ = key_of(value);
  }
  return true;
}

bool EventReader::end_object() {
  --depth_;
  if (list_ > 0 && depth_ == list_) hand_over_(event_);
  if (list_ > 0 && depth_ == list_ + 1) section_ = Key::kOther;
  return true;
}

bool EventReader::start_array(std::size_t) {
  if (depth_ == 0 || (depth_ == 1 && list_ == 0 && key_ == Key::kTraceEvents)) list_ = depth_ + 1;
  if (in_arguments() && key_ == Key::kInputDims) event_.input_sizes.clear();
  if (list_ > 0 && depth_ == list_ + 3 && section_ == Key::kArgs && key_ == Key::kInputDims &&
      event_.input_sizes.size() < kMostSizes) {
    event_.input_sizes.emplace_back();
  }
  return deeper();
}

bool EventReader::end_array() {
  --depth_;
  if (list_ > 0 && depth_ < list_) list_ = 0;
  return true;
}

// The bytes of a stream as nlohmann's parser wants them, one by one.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;  // NOLINT: the names of the standard
  using value_type = char;                            // NOLINT
  using difference_type = std::ptrdiff_t;             // NOLINT
  using pointer = const char*;                        // NOLINT
  using reference = const char&;                      // NOLINT

  ByteIterator() = default;
  explicit ByteIterator(ByteStream& bytes) : bytes_(&bytes) { refill(); }
  reference operator*() const { return *at_; }
  ByteIterator& operator++() {
    if (++at_ == end_) refill();
    return *this;
  }
  ByteIterator operator++(int) {
    ByteIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const ByteIterator& o) const { return at_ == o.at_; }
  bool operator!=(const ByteIterator& o) const { return at_ != o.at_; }

 private:
  void refill() {
    const std::string_view block = bytes_->next();
    at_ = block.empty() ? nullptr : block.data();
    end_ = block.empty() ? nullptr : block.data() + block.size();
  }

  ByteStream* bytes_ = nullptr;
  const char *at_ = nullptr, *end_ = nullptr;
};

}  // namespace

void TraceEvent::clear() {
  phase.clear(), category.clear(), name.clear();
  pid = tid = -1;
  start = duration = 0;
  external = correlation = device = stream = -1;
  collective.clear(), group_name.clear(), group_description.clear(), dtype.clear();
  group_size = in_elements = out_elements = 0;
  group_ranks.clear();
  input_sizes.clear();
  microbatch = -1;
}

std::string read_trace_events(ByteStream& bytes,
                              const std::function<void(const TraceEvent&)>& event,
                              TraceHeader& header) {
  EventReader reader(event, header);
  const bool whole = Json::sax_parse(ByteIterator(bytes), ByteIterator(), &reader);
  if (!bytes.problem().empty()) return bytes.problem();
  if (whole) return {};
  // "[json.exception.parse_error.101] parse error at line 3, column 5: ..."
  std::string problem = reader.problem();
  const std::size_t at = problem.find("parse error at ");
  if (at != std::string::npos) problem.erase(0, at);
  const std::size_t colon = problem.find(": ");
  // A word or number that the end cuts in two is no damage.
  const bool ends = bytes.next().empty() && reader.position() >= bytes.total();
  return ends ? "the file breaks off" : "the file is damaged: " + problem.substr(0, colon);
}

}  // namespace meshplan
