// The ledger of every pipeline rank: what an entry is stands once, its bytes per rank.
#include <algorithm>
#include <utility>
#include <vector>

#include "report/json_value.hpp"

namespace meshplan {
namespace {

bool alike(const LedgerEntry& a, const LedgerEntry& b) {
  return a.name == b.name && a.lifetime == b.lifetime;
}

Json rank_json(const Ledger& ledger, const std::vector<LedgerEntry>& rows) {
  Json bytes = Json::array();
  for (const LedgerEntry& row : rows) {
    const auto here = std::find_if(ledger.entries.begin(), ledger.entries.end(),
                                   [&](const LedgerEntry& e) { return alike(e, row); });
    bytes.push_back(here == ledger.entries.end() ? 0 : here->bytes.count());
  }
  Json moments = Json::array();
  for (const MomentBytes& m : ledger.moments) {
    moments.push_back(
        {{"moment", std::string(name_of(m.moment))}, {"allocated_bytes", m.allocated.count()}});
  }
  return {{"bytes", std::move(bytes)},
          {"moments", std::move(moments)},
          {"fullest_moment", std::string(name_of(ledger.fullest))}};
}

}  // namespace

Json ledger_json(const std::vector<StageCost>& stages) {
  std::vector<LedgerEntry> rows;
  for (const StageCost& s : stages) {
    for (const LedgerEntry& e : s.ledger.entries) {
      const bool known =
          std::any_of(rows.begin(), rows.end(), [&](const LedgerEntry& r) { return alike(e, r); });
      if (!known) rows.push_back(e);
    }
  }
  Json entries = Json::array();
  for (const LedgerEntry& e : rows) {
    entries.push_back({{"name", std::string(e.name)},
                       {"lifetime", std::string(name_of(e.lifetime))},
                       {"formula", std::string(e.formula)},
                       {"source", std::string(e.source)}});
  }
  Json ranks = Json::array();
  for (const StageCost& s : stages) ranks.push_back(rank_json(s.ledger, rows));
  return {{"entries", std::move(entries)}, {"ranks", std::move(ranks)}};
}

}  // namespace meshplan
