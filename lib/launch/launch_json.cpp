// launch.json: what a job launcher needs, flat.
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "launch/targets.hpp"
#include "layout/group_names.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLaunchSchemaVersion = 1;
constexpr std::int64_t kMostListed = 65'536;  // ranks: 20 MB of text

// Groups that a launcher or a debugger asks for; the others follow from them.
bool is_listed(Group g) {
  return g != Group::kTpCp && g != Group::kEtpEp && g != Group::kZeroReplica &&
         g != Group::kPpNeighbour && g != Group::kEmbedding;
}

// The groups of one kind, each once, and for every rank which of them it is in.
void add_groups(const Strategy& s, const GroupName& kind, Json& groups, std::vector<Json>& ranks) {
  Json all = Json::array();
  std::vector<bool> placed(ranks.size(), false);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (placed[rank]) continue;
    const std::vector<std::int64_t> members =
        group_members(s, kind.group, static_cast<std::int64_t>(rank));
    for (const std::int64_t member : members) {
      placed[static_cast<std::size_t>(member)] = true;
      ranks[static_cast<std::size_t>(member)][kind.name] = all.size();
    }
    all.push_back(members);
  }
  groups[kind.name] = std::move(all);
}

Json sizes(const Strategy& s) {
  return {{"tp", s.tp},
          {"pp", s.pp},
          {"vp", s.vp},
          {"cp", s.cp},
          {"ep", s.ep},
          {"etp", s.etp},
          {"dp", s.dp},
          {"expert_dp", expert_dp(s)},
          {"zero_group", shard_group(s)},
          {"micro_batch", s.micro_batch},
          {"global_batch", s.global_batch},
          {"microbatches", num_microbatches(s)},
          {"seq_len", s.seq_len}};
}

}  // namespace

std::string launch_document(const LaunchPlan& plan, const LaunchCommand& command,
                            LaunchFormat format, Target target, std::string_view tool_version) {
  const Strategy& s = plan.strategy;
  const std::int64_t per_node = std::min(plan.cluster.gpus_per_node, num_gpus(s));
  Json json{{"schema_version", kLaunchSchemaVersion},
            {"tool", {{"name", "meshplan"}, {"version", std::string(tool_version)}}},
            {"format", std::string(name_of(format))},
            {"target", std::string(name_of(target))},
            {"model", plan.model.name},
            {"cluster", plan.cluster.name},
            {"strategy", to_text(s)},
            {"world_size", num_gpus(s)},
            {"nodes", plan.cluster.nodes},
            {"tasks_per_node", 1},
            {"gpus_per_node", per_node},
            {"sizes", sizes(s)}};
  json["environment"] = Json::object();
  for (const auto& [name, value] : command.environment) json["environment"][name] = value;
  json["unset"] = command.unset;
  json["arguments"] = Json::object();
  for (const LaunchCommand::Section& section : command.sections) {
    Json words = Json::array();
    for (const std::vector<std::string>& line : section.lines) {
      for (const std::string& word : line) words.push_back(word);
    }
    json["arguments"][section.name] = std::move(words);
  }
  json["notes"] = command.notes;
  if (num_gpus(s) > kMostListed) {
    json["notes"].push_back("more than " + with_thousands(kMostListed) +
                            " ranks: neither they nor their groups are listed");
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  std::vector<Json> ranks(static_cast<std::size_t>(num_gpus(s)));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    ranks[r] = {{"rank", rank}, {"node", rank / per_node}, {"local_rank", rank % per_node}};
  }
  Json groups = Json::object();
  for (const GroupName& kind : kGroupNames) {
    if (is_listed(kind.group)) add_groups(s, kind, groups, ranks);
  }
  json["groups"] = std::move(groups);
  json["ranks"] = std::move(ranks);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace meshplan
