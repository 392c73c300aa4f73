// Two proposals of the source analysis, each built and counted: the triangular solve by wave
// shuffles, and where the state lives while a chunk is worked on. Every variant's result is
// compared with the others' on the host before its figures are used.
#pragma once

#include <string>
#include <vector>

#include "hip/emulator/modelled_card.h"

namespace gdn::hip {

struct Experiment {
  std::string variant;
  gfx906::ModelledLaunch launch;
  double relative_l2 = 0;  ///< of its result against float64 on the host
};

/// Inverses of `systems` unit lower triangular 64 x 64 matrices.
std::vector<Experiment> run_solves(int systems);
std::string solve_table(const std::vector<Experiment>& results);

/// P = W S and S <- S + K^T P over `chunks` chunks of 64 rows, Dk = Dv = 128, `heads` heads.
std::vector<Experiment> run_state_placements(int heads, int chunks);
std::string state_table(const std::vector<Experiment>& results);

}  // namespace gdn::hip
