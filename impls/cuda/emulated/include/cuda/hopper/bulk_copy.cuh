// Stands in for cuda/hopper/bulk_copy.cuh: the copy engine's transfers, late as it may make them.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulated/grid.h"

namespace gdn::cuda_emulated::hopper {

namespace detail {

/// Calls row(shared, global) for every 16 bytes of a box; `global` is null outside the tensor.
/// Rows of 128 bytes lie dense in shared memory, their 16-byte units XORed with the row.
template <typename Row>
void for_box_units(std::uint32_t tile, const CUtensorMap& map, const int (&at)[4], Row row) {
  unsigned char* const shared = cuda_grid::dynamic_shared_memory();
  std::uint32_t address = tile;
  for (std::int64_t i3 = 0; i3 < map.box[3]; ++i3) {
    for (std::int64_t i2 = 0; i2 < map.box[2]; ++i2) {
      for (std::int64_t i1 = 0; i1 < map.box[1]; ++i1) {
        for (std::int64_t i0 = 0; i0 < map.box[0]; i0 += 8, address += 16) {
          const std::int64_t c[4] = {at[0] + i0, at[1] + i1, at[2] + i2, at[3] + i3};
          bool inside = true;
          std::int64_t offset = 0;
          for (int d = 0; d < 4; ++d) {
            inside = inside && c[d] >= 0 && c[d] < map.sizes[d];
            offset += c[d] * map.strides[d];
          }
          const std::uint32_t swizzled = address ^ (((address >> 7) & 7) << 4);
          row(shared + swizzled, inside ? map.base + offset : nullptr);
        }
      }
    }
  }
}

}  // namespace detail

inline void tensor_load(std::uint32_t destination, const CUtensorMap* map, std::uint32_t barrier,
                        int c0, int c1, int c2, int c3) {
  const auto bytes =
      static_cast<std::uint32_t>(2 * map->box[0] * map->box[1] * map->box[2] * map->box[3]);
  cuda_grid::add_load(barrier, bytes, [=] {
    detail::for_box_units(destination, *map, {c0, c1, c2, c3},
                          [](unsigned char* shared, const unsigned char* global) {
                            if (global == nullptr) {
                              std::memset(shared, 0, 16);
                            } else {
                              std::memcpy(shared, global, 16);
                            }
                          });
  });
}
inline void tensor_store(const CUtensorMap* map, std::uint32_t source, int c0, int c1, int c2,
                         int c3) {
  cuda_grid::add_store([=] {
    detail::for_box_units(source, *map, {c0, c1, c2, c3},
                          [](const unsigned char* shared, unsigned char* global) {
                            if (global != nullptr) std::memcpy(global, shared, 16);
                          });
  });
}
inline void prefetch_tensor_map(const CUtensorMap*) {}

inline void bulk_load(std::uint32_t destination, const void* source, std::uint32_t bytes,
                      std::uint32_t barrier) {
  cuda_grid::add_load(barrier, bytes, [=] {
    std::memcpy(cuda_grid::dynamic_shared_memory() + destination, source, bytes);
  });
}
inline void bulk_store(void* destination, std::uint32_t source, std::uint32_t bytes) {
  cuda_grid::add_store(
      [=] { std::memcpy(destination, cuda_grid::dynamic_shared_memory() + source, bytes); });
}
inline void bulk_commit() { cuda_grid::close_store_group(); }
template <int Pending>
void bulk_wait_read() {
  cuda_grid::wait_store_groups(Pending);
}
template <int Pending>
void bulk_wait() {
  cuda_grid::wait_store_groups(Pending);
}

// Only looks whether there is such an address.
inline void prefetch_line(const void* source) {
  static_cast<void>(*static_cast<const volatile char*>(source));
}

// Late as a store may be made, and waited for the same way. A card ends a kernel whose address is misaligned.
inline void copy_4_async(std::uint32_t destination, const void* source) {
  if (reinterpret_cast<std::uintptr_t>(source) % 4 != 0 || destination % 4 != 0) {
    std::fputs("emulated cp.async of 4 bytes: a misaligned address\n", stderr);
    std::abort();
  }
  cuda_grid::add_store(
      [=] { std::memcpy(cuda_grid::dynamic_shared_memory() + destination, source, 4); });
}
inline void wait_own_copies() {
  cuda_grid::close_store_group();
  cuda_grid::wait_store_groups(0);
}

}  // namespace gdn::cuda_emulated::hopper
