// Stacks of their own for functions that take turns on one processor.
#pragma once

#include <cstddef>

namespace gdn::cuda_grid {

/// Leaves this stack, whose place is kept in `from`, and goes on where `to` was left. Returns when somebody
/// goes on at that place.
void switch_stack(void** from, void* to);

/// The place of a stack in size bytes at `bottom`, where `entry` is called by the first switch to it. It must
/// not return. Of the bytes only the upper ones are touched.
void* new_stack(unsigned char* bottom, std::size_t size, void (*entry)());

}  // namespace gdn::cuda_grid
