// Error baselines: how far each implementation is from the reference on a fixed set of small cases,
// stored as rows of mode "verify". A later check fails when an error grew beyond what is stored.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"
#include "harness/sweep/baseline_findings.h"
#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn {

/// What a backend is held to, no problem twice: small problems of every operation with at least
/// three chunks, gates that show chunk-boundary faults, each token dtype, grouped heads, state
/// pools, ragged batches; the suite quick; and on the CPU every fourth problem of the suite stress.
/// Problems that take an emulator or this sample long are left out.
std::vector<Problem> baseline_problems(const Backend& backend);

/// Errors of every implementation on every problem it supports, as rows of mode "verify".
std::vector<Row> measure_errors(const std::vector<Problem>& problems,
                                const std::vector<const Implementation*>& implementations,
                                Device& device, const std::string& command);

struct BaselineLimits {
  /// An error may be this many times the stored one: room for instruction sets that round
  /// differently (2.13 is the most seen between those of cpu/chunkwise), far below what a wrong
  /// formula does.
  double growth = 2.5;
};

/// What is worse than stored, one finding each, in the order of the rows.
std::vector<BaselineFinding> compare_baseline(const std::vector<Row>& stored,
                                              const std::vector<Row>& current,
                                              const BaselineLimits& limits = {});

/// Stores the rows. Throws Error(bad_input), storing nothing, if one is not ok: a bad baseline
/// cannot be stored.
void store_baseline(const std::string& path, const std::vector<Row>& rows);

}  // namespace gdn
