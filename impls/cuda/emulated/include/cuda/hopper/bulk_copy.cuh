// Stands in for cuda/hopper/bulk_copy.cuh: the copy engine's transfers, late as it may make them.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cuda/emulated/grid.h"

namespace gdn::cuda_emulated::hopper {

namespace detail {

using BoxPlace = std::array<int, 5>;  ///< coordinates of a box's first element, innermost first

/// Calls row(shared, global) for every 16 bytes of a box; `global` is null outside the tensor.
/// Rows of 128 bytes lie dense in shared memory, their 16-byte units XORed with the row.
template <typename Row>
void for_box_units(std::uint32_t tile, const CUtensorMap& map, const BoxPlace& at, Row row) {
  unsigned char* const shared = cuda_grid::dynamic_shared_memory();
  std::uint32_t address = tile;
  const std::int64_t rows = map.box[1] * map.box[2] * map.box[3] * map.box[4];
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t c[5] = {at[0]};
    std::int64_t outer = i;
    for (int d = 1; d < 5; outer /= map.box[d], ++d) c[d] = at[d] + outer % map.box[d];
    for (std::int64_t i0 = 0; i0 < map.box[0]; i0 += 8, address += 16) {
      c[0] = at[0] + i0;
      bool inside = true;
      std::int64_t offset = 0;
      for (int d = 0; d < 5; ++d) {
        inside = inside && c[d] >= 0 && c[d] < map.sizes[d];
        offset += c[d] * map.strides[d];
      }
      const std::uint32_t swizzled = address ^ (((address >> 7) & 7) << 4);
      row(shared + swizzled, inside ? map.base + offset : nullptr);
    }
  }
}

/// A card refuses an instruction of another rank than the map's.
inline void require_rank(const CUtensorMap& map, int rank) {
  if (map.rank == rank) return;
  std::fprintf(stderr, "emulated tensor copy of %d dimensions by a map of %d\n", rank, map.rank);
  std::abort();
}

inline void load_box(std::uint32_t destination, const CUtensorMap* map, std::uint32_t barrier,
                     const BoxPlace& at) {
  const auto bytes = static_cast<std::uint32_t>(2 * map->box[0] * map->box[1] * map->box[2] *
                                                map->box[3] * map->box[4]);
  cuda_grid::add_load(barrier, bytes, [=] {
    for_box_units(destination, *map, at, [](unsigned char* shared, const unsigned char* global) {
      if (global == nullptr) {
        std::memset(shared, 0, 16);
      } else {
        std::memcpy(shared, global, 16);
      }
    });
  });
}
inline void store_box(const CUtensorMap* map, std::uint32_t source, const BoxPlace& at) {
  // A box may end outside the array and, loaded, begin there. An H200 ends a kernel that stores one which does.
  for (const int coordinate : at) {
    if (coordinate >= 0) continue;
    std::fprintf(stderr, "emulated tensor store from coordinate %d on: it must lie inside\n",
                 coordinate);
    std::abort();
  }
  cuda_grid::add_store([=] {
    for_box_units(source, *map, at, [](const unsigned char* shared, unsigned char* global) {
      if (global != nullptr) std::memcpy(global, shared, 16);
    });
  });
}

}  // namespace detail

inline void tensor_load(std::uint32_t destination, const CUtensorMap* map, std::uint32_t barrier,
                        int c0, int c1, int c2, int c3) {
  detail::require_rank(*map, 4);
  detail::load_box(destination, map, barrier, {c0, c1, c2, c3, 0});
}
inline void tensor_load(std::uint32_t destination, const CUtensorMap* map, std::uint32_t barrier,
                        int c0, int c1, int c2, int c3, int c4) {
  detail::require_rank(*map, 5);
  detail::load_box(destination, map, barrier, {c0, c1, c2, c3, c4});
}
inline void tensor_store(const CUtensorMap* map, std::uint32_t source, int c0, int c1, int c2,
                         int c3) {
  detail::require_rank(*map, 4);
  detail::store_box(map, source, {c0, c1, c2, c3, 0});
}
inline void tensor_store(const CUtensorMap* map, std::uint32_t source, int c0, int c1, int c2,
                         int c3, int c4) {
  detail::require_rank(*map, 5);
  detail::store_box(map, source, {c0, c1, c2, c3, c4});
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
