// The backend's implementations and the unfused chain on one problem: what each executes, moves and
// would take.
#pragma once

#include <string>
#include <vector>

#include "hip/emulator/modelled_card.h"
#include "interface/implementation.h"

namespace gdn::hip {

struct Profile {
  std::string implementation;
  DType token_dtype = DType::float32;
  std::vector<gfx906::ModelledLaunch> launches;
  double total_us = 0;  ///< modelled, dispatches and what is left dirty in the L2 included

  gfx906::Counters counters() const { return gfx906::total_counters(launches); }
  double dispatch_us() const;
  double execution_us() const;
};

/// One run through the emulator, from an empty L2, as one of `copies` equal parts of a larger
/// problem that run side by side: counters are multiplied by `copies`, times are those of the
/// whole, and a part has its share of the L2. Heads are such parts: no kernel treats one unlike
/// another.
Profile profile(const Implementation& implementation, const Problem& problem, int copies = 1);
/// One row per profile: launches, instructions, memory traffic, LDS, the modelled time in its
/// parts.
std::string profile_table(const std::vector<Profile>& profiles);
/// The launches of one profile by kernel: how often, instructions, traffic, time.
std::string kernel_table(const Profile& profile);

}  // namespace gdn::hip
