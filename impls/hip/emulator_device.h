// The gfx906 emulator as a Device: runs everywhere, executes the machine code that would ship, and
// throws Error(device_failure) for every fault the emulator finds. Its times are modelled
// (emulator/cost_model.h), never measured.
#pragma once

#include <memory>
#include <vector>

#include "hip/emulator/emulator.h"
#include "hip/emulator/modelled_card.h"
#include "interface/device.h"

namespace gdn::hip {

BackendStatus emulator_status();
/// `card`: what the modelled times are of.
std::unique_ptr<Device> open_emulator(const gfx906::LaunchOptions& options = {},
                                      const gfx906::CardModel& card = {});

/// Counters of everything launched on the device since it was opened; with LaunchOptions::profile
/// all of them are filled. Throws Error(bad_input) if `device` is not an emulator.
const gfx906::Counters& emulator_counters(const Device& device);
/// Every kernel of the last time_launch(), with its counters and modelled time. Throws the same.
const std::vector<gfx906::ModelledLaunch>& modelled_launches(const Device& device);

}  // namespace gdn::hip
