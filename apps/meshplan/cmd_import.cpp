#include <memory>

#include "import.hpp"
#include "io/lengths_file.hpp"
#include "io/write.hpp"
#include "log.hpp"
#include "report/model_yaml.hpp"

namespace meshplan {
namespace {

void check_flags(const ImportFlags& flags, const ImportKind& kind, Diagnostics& problems) {
  const std::string name(kind.name);
  if (flags.files.size() > 1 && !kind.several_files) {
    problems.push_back(
        error("import " + name + " takes one file, got " + std::to_string(flags.files.size())));
  }
  if (kind.of_cluster && flags.cluster.empty()) {
    problems.push_back(error("--cluster is missing",
                             "name the cluster that was measured: 'meshplan list clusters' shows "
                             "the shipped ones"));
  }
  const std::pair<const char*, bool> extra[] = {
      {"--cluster", !flags.cluster.empty() && !kind.of_cluster},
      {"--operation", !flags.operation.empty() && kind.name != "nccl-tests"},
      {"--ranks", !flags.ranks.empty() && kind.name != "nccl-tests"},
      {"--device", !flags.device.empty() && !kind.of_topology},
      {"--nodes", !flags.nodes.empty() && !kind.of_topology && kind.name != "nccl-tests"},
      {"--network", !flags.network.empty() && !kind.of_topology},
      {"--nic-bandwidth", !flags.nic_bandwidth.empty() && !kind.of_topology},
      {"--model", !flags.open.model.empty() && !kind.of_run},
      {"--gpus", !flags.open.gpus.empty() && !kind.of_run},
      {"--release", !flags.open.release.empty() && !kind.of_run},
      {"--seq-len", !flags.open.seq_len.empty() && !kind.of_run},
      {"--micro-batch", !flags.open.micro_batch.empty() && !kind.of_run},
      {"--grad-accum", !flags.open.accumulation.empty() && !kind.of_run},
      {"--global-batch", !flags.open.global_batch.empty() && !kind.of_run},
      {"--set", !flags.open.set.empty() && !kind.of_run},
      {"arguments behind '--'", flags.open.arguments.has_value() && !kind.of_run},
      {"--lenient", flags.open.lenient && !kind.of_run},
      {"--report", flags.report && !kind.of_run}};
  for (const auto& [flag, misplaced] : extra) {
    if (misplaced) problems.push_back(error("import " + name + " does not take " + flag));
  }
}

int import_files(const ImportFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  if (flags.kind.empty() || flags.files.empty()) {
    problems.push_back(error("import needs a kind and a file",
                             "for example 'meshplan import hf-config config.json'"));
    return report_errors(problems, flags.common);
  }
  const ImportKind kind = read_choice(
      flags.kind, "import", kImportKinds, [](const ImportKind& k) { return k.name; }, problems);
  if (problems.empty()) check_flags(flags, kind, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  return kind.run(flags);
}

}  // namespace

int write_import(const ImportFlags& flags, const std::string& file_text,
                 const std::string& document) {
  if (!flags.out.empty()) {
    Diagnostics problems;
    take(write_file_atomically(flags.out, file_text), flags.out, problems);
    if (has_errors(problems)) return report_errors(problems, flags.common);
    log_info("wrote " + flags.out);
  }
  if (flags.common.json) return write_result(document, kExitOk);
  return flags.out.empty() ? write_result(file_text, kExitOk) : kExitOk;
}

int import_hf_config(const ImportFlags& flags) {
  const std::string& file = flags.files.front();
  Diagnostics problems;
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return report_errors(problems, flags.common);
  const std::optional<ModelSpec> model = take(parse_hf_config(*text, file), file, problems);
  if (!model) return report_errors(problems, flags.common);
  for (const std::string& note : model->notes) log_warning(note);
  return write_import(flags, model_yaml(*model), model_document(kTool, *model));
}

int import_lengths(const ImportFlags& flags) {
  const std::string& file = flags.files.front();
  Diagnostics problems;
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return report_errors(problems, flags.common);
  const std::optional<LengthSpec> lengths = take(parse_token_counts(*text, file), file, problems);
  if (!lengths) return report_errors(problems, flags.common);
  return write_import(flags, lengths_file_text(*lengths), lengths_document(kTool, *lengths));
}

static void add_topology_flags(Subcommand& command, ImportFlags& flags) {
  command.add_value("--device", flags.device, "NAME|FILE",
                    "The device of the nodes: a shipped name or a device file (nvidia-smi-topo; "
                    "nccl-topo where its PCI id is not known)");
  command.add_value("--nodes", flags.nodes, "N",
                    "Nodes of the cluster (topologies; default 1), or of --ranks");
  command.add_value("--network", flags.network, "KIND",
                    "Network between the nodes (topologies): infiniband (default), roce, ethernet");
  command.add_value(
      "--nic-bandwidth", flags.nic_bandwidth, "RATE",
      "Rate of one network card, one direction, for example '400 Gbit/s' (topologies)");
}

void add_import_command(CommandLine& program) {
  const auto flags = std::make_shared<ImportFlags>();
  Subcommand command = program.add_command(
      "import", "Turn files of other tools into models, clusters and strategies",
      "meshplan import hf-config config.json --out my-model.yaml\n"
      "  meshplan import nvidia-smi-topo topo.txt --device h100-sxm-80gb --nodes 4 \\\n"
      "      --nic-bandwidth '400 Gbit/s' --out my-cluster.yaml\n"
      "  meshplan import nccl-tests all_reduce.log alltoall.log --cluster dgx-h100 \\\n"
      "      --out measured.yaml\n"
      "  meshplan import deepspeed ds_config.json train.sh --model llama-2-7b --out run\n"
      "  meshplan import megatron-args train.sh --set NNODES=4 -- 8b 4096");
  std::string kinds;
  for (const ImportKind& kind : kImportKinds) {
    kinds += (kinds.empty() ? "" : "; ") + std::string(kind.name) + ": " + std::string(kind.what);
  }
  command.add_value("kind", flags->kind, "", kinds);
  command.add_values(
      "file", flags->files, "",
      "The file to read, - for standard input; nccl-tests, deepspeed, torchtitan: one "
      "or more");
  command.add_value("--cluster", flags->cluster, "NAME|FILE",
                    "The cluster that was measured: a shipped name or a cluster file (nccl-tests, "
                    "bench-samples)");
  command.add_value(
      "--operation", flags->operation, "NAME",
      "What logs measured that do not say it (nccl-tests): " + choices_text<Collective>());
  command.add_value("--ranks", flags->ranks, "N",
                    "Ranks of logs whose lines do not name them all (nccl-tests); they fill the "
                    "cluster's nodes unless --nodes says on how many they were");
  add_topology_flags(command, *flags);
  add_open_flags(command, flags->open);
  command.add_switch("--report", flags->report,
                     "Print what every option was taken as, and what is assumed, instead of the "
                     "result (runs)");
  command.add_value("--out", flags->out, "FILE|DIR",
                    "Write the result here instead of standard output; of a run it is a folder for "
                    "model.yaml and strategy.yaml");
  command.add_common(flags->common);
  command.set_action([flags] { return import_files(*flags); });
}

}  // namespace meshplan
