// Implementations that a process adds to those of the build: a plug-in's.
#pragma once

#include "interface/implementation.h"

namespace gdn {

/// From now on all_implementations() ends in it. It says itself what its description does not name
/// (description_support) and outlives the process's use of it. Before anything else looks through the
/// list in another thread.
void add_implementation(const Implementation& implementation);

}  // namespace gdn
