#include "harness/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/row_store.h"
#include "harness/suites.h"
#include "harness/sweep.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Keeps rows in memory; nothing is finished beforehand.
class RowList : public RowSink {
 public:
  bool is_finished(const Row&) const override { return false; }
  void add(const Row& row, const std::vector<TimeSample>&) override { rows.push_back(row); }
  std::vector<Row> rows;
};

std::string baseline_key(const Row& row) { return row.implementation + " on " + row.problem; }

// An error held to its baseline, and the element type it is rounded to.
struct HeldError {
  const char* name;
  double Row::*error;
  std::string Row::*dtype;
};
const std::vector<HeldError>& held_errors() {
  static const std::vector<HeldError> errors = {
      {"output", &Row::output_relative_l2, &Row::output_dtype},
      {"state", &Row::state_relative_l2, &Row::state_dtype},
      {"conv_output", &Row::conv_output_relative_l2, &Row::token_dtype},
      {"conv_state", &Row::conv_state_relative_l2, &Row::state_dtype}};
  return errors;
}

std::vector<std::string> chosen_problems() {
  // 200 tokens are three whole chunks of 64 and a tail, and more of smaller chunks.
  return {
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=16",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=32",
      "gated_delta:heads=2/4,dim=64x64,seq=1x200,dtype=f32,gates=mid,h0=normal,chunk=128",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=f32,gates=real",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=bf16,gates=real",
      "gated_delta:heads=1/2,dim=128x128,seq=1x200,dtype=f16,gates=real,state=f16,h0=normal",
      "gated_delta:heads=1/3,dim=96x192,seq=1x200,dtype=bf16,gates=weak,betas=wide,out=f32",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=none,keys=correlated",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=reset,layout=vk,h0=normal",
      "gated_delta:heads=2/2,dim=64x64,seq=1x200,dtype=f32,gates=strong,keys=unnormalised,norm=1",
      "gated_delta:heads=2/4,dim=64x64,seq=1x70+1x0+1x1+1x130,dtype=f32,gates=mid,h0=normal,"
      "slots=padding,pool_pad=8",
      "gated_delta:heads=2/8,dim=64x64,seq=16x1,dtype=bf16,gates=real,h0=normal",
      "causal_conv1d:heads=2/4,dim=64x64,seq=1x70+1x130,dtype=bf16",
      "causal_conv1d:heads=2/4,dim=64x64,seq=1x3+1x130,dtype=f32,bias=1,act=none",
      "gated_delta_layer:heads=2/4,dim=64x64,seq=1x70+1x130,dtype=bf16,gates=real,gate=logits,"
      "beta=logit,norm=1,h0=normal"};
}

// Every `step`-th problem of a suite that takes no more than that many operations.
void add_suite(const std::string& name, std::size_t step, double most_operations,
               std::vector<Problem>& problems) {
  const Suite suite = find_suite(name);
  for (std::size_t i = 0; i < suite.problems.size(); i += step) {
    const Problem& problem = suite.problems[i].problem;
    if (reference::evaluation_flops(problem) > most_operations) continue;
    if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
      problems.push_back(problem);
    }
  }
}

}  // namespace

std::vector<Problem> baseline_problems(const std::string& backend) {
  std::vector<Problem> problems;
  for (const std::string& text : chosen_problems()) problems.push_back(Problem::parse(text));
  const bool emulated = backend.find("emulat") != std::string::npos;
  add_suite("quick", 1, emulated ? 2e7 : std::numeric_limits<double>::infinity(), problems);
  if (backend == "cpu") add_suite("stress", 4, 6e7, problems);
  return problems;
}

std::vector<Row> measure_errors(const std::vector<Problem>& problems,
                                const std::vector<const Implementation*>& implementations,
                                Device& device, const std::string& command) {
  SweepOptions options;
  options.time = false;
  options.command = command;
  RowList list;
  sweep(problems, implementations, device, options, list, nullptr, nullptr);
  std::erase_if(list.rows, [](const Row& row) { return row.status == row_status::kSkipped; });
  return list.rows;
}

std::vector<std::string> grown_errors(const Row& stored, const Row& measured,
                                      const BaselineLimits& limits) {
  std::vector<std::string> grown;
  for (const HeldError& held : held_errors()) {
    const double before = stored.*held.error;
    const double error = measured.*held.error;
    if (std::isnan(before) && std::isnan(error)) continue;  // the operation has no such output
    const double negligible = unit_roundoff(parse_dtype(measured.*held.dtype, held.name)) / 4;
    const double limit = std::max(limits.growth * before, negligible);
    if (!(error <= limit)) {
      grown.push_back(
          fmt::format("{} error {:.3g}, stored {:.3g}, limit {:.3g} "
                      "({:g} x the stored error)",
                      held.name, error, before, limit, limits.growth));
    }
  }
  return grown;
}

std::vector<BaselineFinding> compare_baseline(const std::vector<Row>& stored,
                                              const std::vector<Row>& current,
                                              const BaselineLimits& limits) {
  std::map<std::string, const Row*> now;
  for (const Row& row : current) now[baseline_key(row)] = &row;

  std::vector<BaselineFinding> findings;
  std::map<std::string, const Row*> known;
  for (const Row& row : stored) {
    const std::string key = baseline_key(row);
    known[key] = &row;
    const auto found = now.find(key);
    if (found == now.end()) {
      findings.push_back({key, "stored, but not measured now: implementation or case is gone"});
      continue;
    }
    const Row& measured = *found->second;
    if (!measured.ok()) continue;  // reported below
    for (const std::string& what : grown_errors(row, measured, limits)) {
      findings.push_back({key, what});
    }
  }
  for (const Row& row : current) {
    const std::string key = baseline_key(row);
    if (!row.ok()) {
      findings.push_back({key, row.status + ": " + row.reason});
    } else if (known.count(key) == 0) {
      findings.push_back({key, "nothing is stored of it; gdnbench baseline update stores it"});
    }
  }
  return findings;
}

void store_baseline(const std::string& path, const std::vector<Row>& rows) {
  if (rows.empty()) throw_bad_input("baseline '" + path + "': no rows to store");
  for (const Row& row : rows) {
    if (!row.ok()) {
      throw_bad_input("baseline '" + path + "': not stored, " + baseline_key(row) + " is " +
                      row.status + ": " + row.reason);
    }
  }
  StoredRows stored;
  for (const Row& row : rows) stored.add(row, {});
  write_rows(path, stored);
}

}  // namespace gdn
