// Two builds measured in turn: A B B A A B B A ..., each turn a process of its own that runs the
// same sweep into a rows file of its own. What drifts slowly (clocks, temperature, other load)
// meets both builds alike, and what differs from process to process (memory placement) is seen,
// which samples of one process cannot show.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/rows/row_store.h"

namespace gdn {

struct PairedOptions {
  std::string a;         ///< gdnbench binary of the build before
  std::string b;         ///< and of the build after; may be the same file
  bool plugins = false;  ///< both are plug-ins instead, which this program measures
  int pairs = 5;         ///< processes per side
  /// What follows `BINARY sweep`; --out and --quiet are added.
  std::vector<std::string> sweep_arguments;
  std::string folder;  ///< rows files go here as a-1.h5, b-1.h5, ...; must exist, without them
};

/// One process of the plan: pair and side.
struct PairedTurn {
  int pair = 0;
  bool is_b = false;
};
/// The turns in order: pair 0 A B, pair 1 B A, pair 2 A B, ...
std::vector<PairedTurn> paired_order(int pairs);

struct PairedRuns {
  std::vector<StoredRows> a;  ///< one per pair; pair i of A and of B ran one after the other
  std::vector<StoredRows> b;
};

/// Runs the processes one after another. Exit code 1 of one (a row failed its check) is not an
/// error here: the row says so. Throws Error(bad_input) naming the binary if it cannot be run, ends
/// with another code or a signal, or leaves no rows file; and if the folder already has rows files.
/// `on_turn` is called before each process, with the number of the turn from 0.
PairedRuns run_paired(const PairedOptions& options,
                      const std::function<void(std::size_t, const PairedTurn&)>& on_turn = {});

}  // namespace gdn
