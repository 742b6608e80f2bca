// How many processes a launch starts.
#include <algorithm>
#include <array>
#include <charconv>

#include "launch/program_options.hpp"

namespace meshplan {
namespace {

class World {
 public:
  World(const ShellScript& script, const std::string& file) : script_(script), file_(file) {}

  Result<std::int64_t> read(ImportedRun* run) {
    scan(script_.launcher);
    if (script_.program.empty()) scan(script_.words);
    const SlurmRequest& slurm = script_.slurm;
    std::string source = "the command that starts the processes";
    const std::int64_t tasks = each_ > 0 ? each_ : tasks_per_node_;
    if (tasks == 0 && !open_.empty() && run != nullptr) {
      run->notes.push_back("how many processes a node has is not known: nothing here sets " +
                           open_);
    }
    if (nodes_ == 0) nodes_ = slurm.nodes > 0 ? slurm.nodes : (known_nodes_ ? 1 : 0);
    std::int64_t each = tasks;
    if (each == 0 && slurm.nodes > 0) {
      source = "#SBATCH";
      each = std::max(slurm.gpus_per_node, slurm.tasks_per_node * slurm.gpus_per_task);
      if (each == 0) each = slurm.tasks_per_node;
    }
    if (each == 0 && slurm.gpus > 0) return stated(slurm.gpus, "#SBATCH", run);
    if (each == 0 && ranks_ > 0) return stated(ranks_, "mpirun", run);
    if (!problems_.empty()) return problems_;
    if (nodes_ == 0 || each == 0) return variables(run);
    const std::int64_t world = bounded_product({nodes_, each});
    if (const auto wrong = out_of_range("nodes times processes on each", world, kRanks)) {
      return error_at({file_}, *wrong);
    }
    return stated(world, source, run);
  }

 private:
  static std::optional<std::int64_t> integer(const std::string& text) {
    std::int64_t value = 0;
    const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc{} && stop == text.data() + text.size()) return value;
    return std::nullopt;
  }

  std::int64_t stated(std::int64_t world, const std::string& source, ImportedRun* run) {
    if (run != nullptr) run->world_source = source;
    return world;
  }

  // `all`: words that stand for all there are ("gpu", "auto", -1) are no error.
  std::int64_t count(const std::string& what, const ShellWord& value, const ShellWord& at,
                     bool all = true) {
    if (!value.unknown.empty()) {
      open_ += (open_.empty() ? "" : ", ") + value.unknown;
      return 0;
    }
    constexpr std::int64_t kAll = -1;  // also "gpu", "auto", "2:4"
    const std::optional<std::int64_t> read = integer(value.text);
    const std::int64_t number = read.value_or(kAll);
    const std::optional<std::string> wrong = out_of_range(what, number, kRanks);
    if (!read || (all && number == kAll) || !wrong) return std::max<std::int64_t>(number, 0);
    Diagnostic d = error_at({file_, at.line, at.column, static_cast<int>(at.text.size())}, *wrong);
    d.source_line = script_.line_of(at);
    problems_.push_back(std::move(d));
    return 0;
  }

  void scan(const std::vector<ShellWord>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      std::string name = words[i].text;
      ShellWord value = i + 1 < words.size() ? words[i + 1] : ShellWord();
      if (const std::size_t equals = name.find('='); equals != std::string::npos) {
        value = {name.substr(equals + 1), words[i].line, words[i].column, words[i].unknown};
        name.resize(equals);
      }
      const bool ranks = name == "-n" || name == "-np" || name == "--np";
      const std::string written = name;
      std::replace(name.begin(), name.end(), '_', '-');
      if (name == "--nnodes" || name == "--num-nodes" || name == "--num-machines" ||
          name == "--nodes" || name == "-N") {
        nodes_ = count(written, value, words[i]);
        known_nodes_ = nodes_ > 0;
      } else if (name == "--nproc-per-node" || name == "--num-gpus") {
        each_ = count(written, value, words[i]);
      } else if (name == "--ntasks-per-node" || name == "--gpus-per-node") {
        tasks_per_node_ = std::max(tasks_per_node_, count(written, value, words[i]));
      } else if (ranks) {
        ranks_ = count(written, value, words[i]);
      }
    }
  }

  // Variables that name the whole: WORLD_SIZE of a list of arguments, NGPU of torchtitan.
  Result<std::int64_t> variables(ImportedRun* run) {
    for (const char* name : {"WORLD_SIZE", "NGPU"}) {
      const auto found = script_.variables.find(name);
      if (found == script_.variables.end() || found->second.text.empty()) continue;
      const std::int64_t world = count(name, found->second, found->second, false);
      if (!problems_.empty()) return problems_;
      if (world > 0) return stated(world, name, run);
    }
    return std::int64_t{0};
  }

  const ShellScript& script_;
  const std::string& file_;
  std::int64_t nodes_ = 0, each_ = 0, tasks_per_node_ = 0, ranks_ = 0;
  bool known_nodes_ = true;
  std::string open_;  // variables that nothing sets
  Diagnostics problems_;
};

}  // namespace

Result<std::int64_t> launched_world(const ShellScript& script, const std::string& file,
                                    ImportedRun* run) {
  return World(script, file).read(run);
}

}  // namespace meshplan
