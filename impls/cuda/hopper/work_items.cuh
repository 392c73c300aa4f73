// Work items of persistent blocks: one warp or thread of a block finds them and hands each to the
// block's other roles through a ring of slots in shared memory.
//
// What an item says is the kernel's own. Its Layout names the type, `Item`, and the ring, `Items`
// (a Ring whose buffers hold one item each). Of the type only Item::load_uniform(address) is asked,
// by which a whole warp reads an item from shared memory.
#pragma once

#include <cstdint>

#include "cuda/hopper/ring.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// Whole warps: the work item of this number, read once by every thread that follows the items.
template <typename Layout>
__device__ __forceinline__ typename Layout::Item follow_item(uint32_t sm, int number) {
  const auto slot = ring_use<typename Layout::Items>(number);
  slot.await_full(sm);
  const typename Layout::Item item = Layout::Item::load_uniform(slot.buffer(sm));
  slot.release(sm);
  return item;
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
