#include "harness/tables/table_relative.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "harness/tables/pivot.h"
#include "interface/error.h"

namespace gdn {
namespace {

bool is_timed(const Row& row) { return row.ok() && row.time_ms > 0; }

// What two rows share that are the same work, in which form whatever: the chunk is the form's.
std::string work_of(const Row& row) {
  Problem problem = Problem::parse(row.problem);
  problem.chunk = 0;
  return problem.to_string() + " " + row.mode + " " + row.device;
}

std::vector<Row> timed(const std::vector<Row>& rows) {
  std::vector<Row> result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [](const Row& row) { return row.mode != kVerifyMode; });
  return result;
}

// Everything but what a comparison varies.
std::string rest_of(const Row& row, const std::function<void(Problem&)>& level) {
  Problem problem = Problem::parse(row.problem);
  level(problem);
  return problem.to_string() + " " + row.implementation + " " + row.mode + " " + row.device;
}

// A table of `cell`, and one of the time over that of the row which `is_base` chooses among those
// that are level with it.
std::vector<Table> absolute_and_relative(const std::vector<Row>& rows, const PivotOptions& absolute,
                                         const std::string& relative_title,
                                         const std::function<void(Problem&)>& level,
                                         const std::function<bool(const Row&)>& is_base) {
  std::map<std::string, const Row*> bases;
  for (const Row& row : rows) {
    if (is_timed(row) && is_base(row)) bases[rest_of(row, level)] = &row;
  }
  const Quantity relative = {"relative_time", "relative", [&](const Row& row) {
                               const auto base = bases.find(rest_of(row, level));
                               if (base == bases.end()) return std::string();
                               return significant(row.time_ms / base->second->time_ms, 3);
                             }};
  std::vector<Table> tables = pivot(rows, absolute);
  PivotOptions options = absolute;
  options.title = relative_title;
  const std::vector<Table> ratios = pivot(rows, options, relative);
  tables.insert(tables.end(), ratios.begin(), ratios.end());
  return tables;
}

}  // namespace

std::vector<Table> updates_form(const std::vector<Row>& rows) {
  const Label variant = find_label("variant");
  std::vector<Row> fitting = timed(rows);
  std::erase_if(fitting, [&](const Row& row) { return variant.text(row).empty(); });
  std::set<std::string> variants;
  for (const Row& row : fitting) variants.insert(variant.text(row));
  if (variants.size() < 2) {
    throw_bad_input(
        "table form 'updates': no rows fit; expected timed rows of several variants, as "
        "--gates none,real --update delta,additive");
  }
  return absolute_and_relative(
      fitting,
      {"Throughput in Kt/s by variant of the recurrence",
       {"implementation", "shape"},
       {"variant"},
       "kilo_tokens_per_s"},
      "Time over that of Gated DeltaNet, by variant of the recurrence",
      [](Problem& problem) {
        problem.update = UpdateRule::delta;
        problem.steps = 1;
        problem.decay = DecayPer::head;
        problem.gates = GateDistribution::real;
      },
      [](const Row& row) { return find_label("variant").text(row) == "Gated DeltaNet"; });
}

std::vector<Table> steps_form(const std::vector<Row>& rows) {
  const std::vector<Row> fitting = timed(rows);
  std::set<std::int64_t> steps;
  for (const Row& row : fitting) steps.insert(row.integer("steps"));
  if (steps.size() < 2) {
    throw_bad_input(
        "table form 'steps': no rows fit; expected timed rows of several n, as --steps 1,2,4");
  }
  return absolute_and_relative(
      fitting,
      {"Time in ms by Householder steps per token (DeltaProduct)",
       {"implementation", "shape"},
       {"steps"},
       "time_ms"},
      "Time over that of one step per token, by steps (DeltaProduct)",
      [](Problem& problem) { problem.steps = 1; },
      [](const Row& row) { return row.integer("steps") == 1; });
}

std::vector<Table> speedup_form(const std::vector<Row>& rows) {
  std::map<std::string, const Row*> recurrent;  // the quickest by work
  for (const Row& row : rows) {
    if (!is_timed(row) || row.form != "recurrent") continue;
    const auto [entry, inserted] = recurrent.try_emplace(work_of(row), &row);
    if (!inserted && row.time_ms < entry->second->time_ms) entry->second = &row;
  }
  std::vector<Row> parallel;
  std::vector<const Row*> counterparts;
  for (const Row& row : rows) {
    if (row.mode == kVerifyMode || (row.form != "chunkwise" && row.form != "fused")) continue;
    const auto counterpart = recurrent.find(work_of(row));
    if (counterpart == recurrent.end()) continue;
    parallel.push_back(row);
    counterparts.push_back(counterpart->second);
  }
  if (parallel.empty()) {
    throw_bad_input(
        "table form 'speedup': no row fits; expected timed rows of a recurrent and of a chunkwise "
        "or fused implementation on one problem");
  }
  const Quantity speedup = {"speedup", "speed-up", [&](const Row& row) {
                              const Row& counterpart = *recurrent.at(work_of(row));
                              return significant(counterpart.time_ms / row.time_ms, 3);
                            }};
  std::vector<Table> tables =
      pivot(parallel,
            {"Speed-up over the recurrent form, by batch x sequence length and head dim",
             {"implementation", "dims"},
             {"shape"},
             ""},
            speedup);
  std::string names;
  for (const std::string& name :
       distinct(counterparts, [](const Row& row) { return row.implementation; })) {
    names += (names.empty() ? "" : ", ") + name;
  }
  for (Table& table : tables) {
    table.notes.insert(table.notes.begin(),
                       "Time of the quickest recurrent implementation (" + names +
                           ") on the same problem over the time of the line's");
  }
  return tables;
}

}  // namespace gdn
