// Strided copies: several in one launch, each cut in tiles of 32 x 32 elements, a block a tile.
//
// A tile spans the dimension that is fastest where values are read and the one that is fastest where
// they are written. It goes through shared memory, so that both sides are read and written along their
// own fastest dimension. Where that is the same dimension, a tile is a piece of it and of the next one.
//
// Not timed so far: device memory should bound it, and a launch tiny copies. Values pass as they are where
// the types agree, else as float32 or as 64-bit integers.
#include <algorithm>
#include <array>
#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/strided_copy.h"
#include "interface/float8.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;  // threads of a block: [kRows][kTile]
constexpr int kPitch = kTile + 1;

/// A copy whose dimensions are in the order: what is outside of a tile, then the tile's two, the one
/// that is fastest in `to` last.
struct TiledCopy {
  StridedCopy copy;
  bool reads_along_last = true;  ///< else along the one before it
  /// Which dimension of the order is which of the copy as it was given: bounds count those.
  std::int64_t weights[StridedCopy::kMaxRank] =
      {};  ///< of a place in the bounded count; 0: not in it
  unsigned int first_block = 0;
};

struct CopyParams {
  TiledCopy copies[kCopiesPerLaunch];
  int count = 0;
};
static_assert(sizeof(CopyParams) <= 4096, "a kernel's parameters");

/// An element as 64 bits: itself where types agree, an integer, or a float32.
__device__ std::uint64_t load_bits(const StridedCopy& copy, std::int64_t at) {
  const bool as_it_is = copy.from_type == copy.to_type;
  const void* const from = copy.from;
  switch (copy.from_type) {
    case StorageType::int64:
      return static_cast<const std::uint64_t*>(from)[at];
    case StorageType::int32:
      return static_cast<std::uint64_t>(
          static_cast<std::int64_t>(static_cast<const std::int32_t*>(from)[at]));
    case StorageType::int8:
      return static_cast<std::uint64_t>(
          static_cast<std::int64_t>(static_cast<const std::int8_t*>(from)[at]));
    case StorageType::bfloat16:
    case StorageType::float16: {
      const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[at];
      if (as_it_is) return bits;
      return __float_as_uint(load_element(
          from, at, copy.from_type == StorageType::bfloat16 ? DType::bfloat16 : DType::float16));
    }
    case StorageType::float8_e4m3:
    case StorageType::float8_e5m2: {
      const std::uint8_t bits = static_cast<const std::uint8_t*>(from)[at];
      if (as_it_is) return bits;
      return __float_as_uint(copy.from_type == StorageType::float8_e4m3
                                 ? Float8E4M3::to_float(bits)
                                 : Float8E5M2::to_float(bits));
    }
    case StorageType::float32:
      break;
  }
  return static_cast<const std::uint32_t*>(from)[at];
}

__device__ void store_bits(const StridedCopy& copy, std::int64_t at, std::uint64_t bits) {
  const bool as_it_is = copy.from_type == copy.to_type;
  void* const to = copy.to;
  const float value = __uint_as_float(static_cast<std::uint32_t>(bits));
  switch (copy.to_type) {
    case StorageType::int64:
      static_cast<std::uint64_t*>(to)[at] = bits;
      return;
    case StorageType::int32:
      static_cast<std::uint32_t*>(to)[at] = static_cast<std::uint32_t>(bits);
      return;
    case StorageType::int8:
      static_cast<std::uint8_t*>(to)[at] = static_cast<std::uint8_t>(bits);
      return;
    case StorageType::bfloat16:
    case StorageType::float16:
      if (as_it_is) {
        static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(bits);
      } else {
        store_element(to, at,
                      copy.to_type == StorageType::bfloat16 ? DType::bfloat16 : DType::float16,
                      value);
      }
      return;
    case StorageType::float8_e4m3:
      static_cast<std::uint8_t*>(to)[at] =
          as_it_is ? static_cast<std::uint8_t>(bits) : Float8E4M3::from_float(value);
      return;
    case StorageType::float8_e5m2:
      static_cast<std::uint8_t*>(to)[at] =
          as_it_is ? static_cast<std::uint8_t>(bits) : Float8E5M2::from_float(value);
      return;
    case StorageType::float32:
      break;
  }
  static_cast<std::uint32_t*>(to)[at] = static_cast<std::uint32_t>(bits);
}

/// Where a tile begins, in both arrays and in the bounded count.
struct TilePlace {
  std::int64_t from = 0, to = 0, counted = 0;
  std::int64_t last = 0, before = 0;  ///< places of its two dimensions
  bool is_copied = true;
};
__device__ TilePlace place_of(const TiledCopy& tiled, std::int64_t tile) {
  const StridedCopy& copy = tiled.copy;
  TilePlace place;
  const auto take = [&](std::int64_t extent) {
    const std::int64_t at = tile % extent;
    tile /= extent;
    return at;
  };
  const int last = copy.rank - 1;
  place.last = kTile * take((copy.extents[last] + kTile - 1) / kTile);
  place.before = kTile * take((copy.extents[last - 1] + kTile - 1) / kTile);
  for (int d = last - 2; d >= 0; --d) {
    std::int64_t at = take(copy.extents[d]);
    place.counted += at * tiled.weights[d];
    if (d == 0 && copy.rows) {
      at = copy.rows[at];
      place.is_copied = at >= 0;
    }
    place.from += at * copy.from_strides[d];
    place.to += at * copy.to_strides[d];
  }
  return place;
}

__global__ void __launch_bounds__(kTile* kRows)
    strided_copy_kernel(LargeParameter<CopyParams> params) {
  GDN_DYNAMIC_SHARED_MEMORY(memory, 16);
  auto* const tile = reinterpret_cast<std::uint64_t*>(memory);  // [before][last], kPitch apart
  int which = 0;
  while (which + 1 < params.count && blockIdx.x >= params.copies[which + 1].first_block) ++which;
  const TiledCopy& tiled = params.copies[which];
  const StridedCopy& copy = tiled.copy;
  const int last = copy.rank - 1, before = last - 1;
  const TilePlace place = place_of(tiled, blockIdx.x - tiled.first_block);
  const std::int64_t bound = copy.bound ? copy.bound[0] : 0;
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile;

  // body(place in the tile's dimension `before`, in `last`) of the elements that are copied, 32
  // threads side by side along one of the two.
  const auto for_elements = [&](bool along_last, const auto& body) {
    for (int row = y; row < kTile; row += kRows) {
      const int b = along_last ? row : x, l = along_last ? x : row;
      const std::int64_t at_before = place.before + b, at_last = place.last + l;
      if (at_before >= copy.extents[before] || at_last >= copy.extents[last]) continue;
      const std::int64_t counted =
          place.counted + at_before * tiled.weights[before] + at_last * tiled.weights[last];
      if (!place.is_copied || (copy.bound && counted >= bound)) continue;
      body(at_before, at_last, tile[b * kPitch + l]);
    }
  };
  for_elements(tiled.reads_along_last, [&](std::int64_t b, std::int64_t l, std::uint64_t& bits) {
    bits =
        load_bits(copy, place.from + b * copy.from_strides[before] + l * copy.from_strides[last]);
  });
  __syncthreads();
  for_elements(true, [&](std::int64_t b, std::int64_t l, std::uint64_t& bits) {
    store_bits(copy, place.to + b * copy.to_strides[before] + l * copy.to_strides[last], bits);
  });
}

/// The dimension, of those that are not `taken`, whose elements lie closest; dimension 0 of a pool
/// stays outside of tiles.
int closest(const StridedCopy& copy, const StridedCopy::Extents& strides, int taken) {
  int best = -1;
  for (int d = copy.rows ? 1 : 0; d < copy.rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (d == taken || (copy.extents[at] == 1 && best >= 0)) continue;
    if (best < 0 || copy.extents[static_cast<std::size_t>(best)] == 1 ||
        strides[at] < strides[static_cast<std::size_t>(best)]) {
      best = d;
    }
  }
  return best;
}

void append_dimension(StridedCopy& copy) {
  copy.extents[static_cast<std::size_t>(copy.rank)] = 1;
  copy.from_strides[static_cast<std::size_t>(copy.rank)] = 0;
  copy.to_strides[static_cast<std::size_t>(copy.rank)] = 0;
  ++copy.rank;
}

TiledCopy tiled(const StridedCopy& given) {
  StridedCopy copy = merged(given);
  while (copy.rank < (copy.rows ? 3 : 2)) append_dimension(copy);
  std::array<std::int64_t, StridedCopy::kMaxRank> weights{};
  if (copy.bound) {
    std::int64_t weight = 1;
    for (int d = copy.bounded_end - 1; d >= copy.bounded_begin; --d) {
      weights[static_cast<std::size_t>(d)] = weight;
      weight *= copy.extents[static_cast<std::size_t>(d)];
    }
  }
  const int last = closest(copy, copy.to_strides, -1);
  const int fastest_read = closest(copy, copy.from_strides, -1);
  const int before = fastest_read != last ? fastest_read : closest(copy, copy.to_strides, last);

  TiledCopy result;
  result.copy = copy;
  result.reads_along_last = fastest_read == last;
  int to = 0;
  const auto put = [&](int d) {
    const auto from = static_cast<std::size_t>(d), at = static_cast<std::size_t>(to);
    result.copy.extents[at] = copy.extents[from];
    result.copy.from_strides[at] = copy.from_strides[from];
    result.copy.to_strides[at] = copy.to_strides[from];
    result.weights[at] = weights[from];
    ++to;
  };
  for (int d = 0; d < copy.rank; ++d) {
    if (d != last && d != before) put(d);
  }
  put(before);
  put(last);
  return result;
}

std::int64_t tiles_of(const TiledCopy& copy) {
  std::int64_t tiles = 1;
  for (int d = 0; d < copy.copy.rank; ++d) {
    const std::int64_t extent = copy.copy.extents[static_cast<std::size_t>(d)];
    tiles *= d + 2 < copy.copy.rank ? extent : (extent + kTile - 1) / kTile;
  }
  return tiles;
}

}  // namespace

void enqueue_strided_copies(std::span<const StridedCopy> copies, cudaStream_t stream) {
  CopyParams params;
  std::int64_t blocks = 0;
  const auto launch = [&] {
    if (params.count == 0) return;
    launch_kernel(strided_copy_kernel, grid_blocks(blocks, "a conversion of tensors"),
                  kTile * kRows, sizeof(std::uint64_t) * kTile * kPitch, stream, params);
    params = CopyParams{};
    blocks = 0;
  };
  for (const StridedCopy& copy : copies) {
    if (copy.elements() == 0) continue;
    TiledCopy next = tiled(copy);
    next.first_block = grid_blocks(blocks, "a conversion of tensors");
    params.copies[params.count++] = next;
    blocks += tiles_of(next);
    if (params.count == kCopiesPerLaunch) launch();
  }
  launch();
}

}  // namespace gdn::GDN_CUDA_TARGET
