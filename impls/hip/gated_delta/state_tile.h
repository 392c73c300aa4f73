// Part of one head's state in the registers of one or more waves: D rows, 32 columns a wave. The
// recurrent, the chunkwise and the fused kernels hold it this way. Included by .hip files only.
//
// Lane (group g = lane % 8, column set lane / 8) of wave w holds columns 32 w + 4 (lane / 8) + 0..3
// and rows 32 j + 4 g + 0..3 for all j: D/2 registers. So
//   - a vector of D rows is read as 8 groups x 4 consecutive elements, one access for each 32 rows,
//     from LDS without bank conflicts, and each element serves 4 columns;
//   - a product with S is 16 multiply-adds for each 32 rows, then a sum over the 8 groups by DPP,
//     three steps for each of the 4 columns;
//   - the pool is read and written 4 elements a lane, along the columns or along the rows,
//     whichever is contiguous: the 8 column sets, or the 8 groups, make whole cache lines (128
//     bytes of float32, 64 of 16-bit elements).
#pragma once

#include <type_traits>

#include "hip/gated_delta/device.h"

namespace gdn::hip {

constexpr int kWaveColumns = kWave / 2;

struct TileThread {
  int lane, wave;
  int group;   ///< 0..7: which rows
  int column;  ///< first of four, within the workgroup's columns
};
__device__ __forceinline__ TileThread tile_thread() {
  const int lane = static_cast<int>(threadIdx.x) % kWave;
  const int wave = uniform(static_cast<int>(threadIdx.x) / kWave);
  return {lane, wave, lane % 8, wave * kWaveColumns + lane / 8 * 4};
}

/// The same from counted_lane(). The compiler cannot know that they are the same, so it keeps none
/// of the addresses computed from one in registers until the other is used: that would be two
/// registers for each of the state's.
__device__ __forceinline__ TileThread counted_tile_thread() {
  const int lane = counted_lane();
  const int wave = tile_thread().wave;
  return {lane, wave, lane % 8, wave * kWaveColumns + lane / 8 * 4};
}

/// What a kernel knows of GatedDeltaParams::packets when it is compiled.
enum class Access { either, packets };

/// D rows and kWaveColumns columns for each of `waves` waves.
template <int D, int waves, Access access = Access::either>
struct StateTile {
  float s[D / 32][4][4];  ///< rows 32 j + 4 group + r, columns column + e

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] = 0.0f;
    }
  }

  /// Rows beyond Dk as zeros, as load_pool() leaves them: the products of tokens take them times
  /// zero.
  __device__ __forceinline__ void clear_rows_beyond(int Dk) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const bool inside = 32 * j + 4 * tile_thread().group < Dk;
#pragma unroll
      for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] = inside ? s[j][i / 4][i % 4] : 0.0f;
    }
  }

  // ---- the state pool; `first_column` is the workgroup's first ----

  __device__ __forceinline__ void load_pool(const GatedDeltaParams& p, std::int64_t row, int head,
                                            int first_column) {
    clear();
    if (p.read_state == 0) return;
    const TileThread thread = tile_thread();
    const std::int64_t first = state_index(p, row, head, 0, first_column);
    if (access == Access::either && p.packets == 0) {
      for_each_element(p, thread, first_column, [&](bool inside, unsigned offset, float& x) {
        x = inside ? load_element(p.state_pool, p.state_element, first + offset) : 0.0f;
      });
      return;
    }
    with_element(p.state_element, [&](auto* type) {
      using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
      const T* const base = static_cast<const T*>(p.state_pool) + first;
      for_each_packet(p, thread, first_column, [&](bool inside, unsigned offset, float(&x)[4]) {
        const auto packet = load_inside<T, 4>(inside, base, offset);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = to_float(packet.x[i]);
      });
    });
  }
  __device__ __forceinline__ void store_pool(const GatedDeltaParams& p, std::int64_t row, int head,
                                             int first_column) {
    if (p.write_state == 0) return;
    const TileThread thread = counted_tile_thread();
    const std::int64_t first = state_index(p, row, head, 0, first_column);
    if (access == Access::either && p.packets == 0) {
      for_each_element(p, thread, first_column, [&](bool inside, unsigned offset, float& x) {
        if (inside) store_element(p.state_pool, p.state_element, first + offset, x);
      });
      return;
    }
    with_element(p.state_element, [&](auto* type) {
      using T = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
      T* const base = mutable_array(type, p.state_pool) + first;
      for_each_packet(p, thread, first_column, [&](bool inside, unsigned offset, float(&x)[4]) {
        Packet<T, 4> packet;
#pragma unroll
        for (int i = 0; i < 4; ++i) store_as(&packet.x[i], x[i]);
        if (inside) store_packet(base + offset, packet);
      });
    });
  }

  /// store_pool() to a pool of 16 bits in packets, by stochastic rounding.
  __device__ __forceinline__ void store_pool_by_chance(const GatedDeltaParams& p, std::int64_t row,
                                                       int head, int first_column,
                                                       std::uint32_t seed) {
    static_assert(access == Access::packets);
    if (p.write_state == 0) return;
    const TileThread thread = counted_tile_thread();
    const auto of_row = static_cast<std::uint32_t>(state_index(p, 0, head, 0, first_column));
    auto* const base =
        static_cast<std::uint16_t*>(p.state_pool) + state_index(p, row, head, 0, first_column);
    for_each_packet(p, thread, first_column, [&](bool inside, unsigned offset, float(&x)[4]) {
      const std::uint32_t at = of_row + offset;  // half of a group
      const RoundingBits random = rounding_bits(seed, at / kRoundingGroup);
      const auto first = static_cast<int>(at % kRoundingGroup);
      Packet<std::uint16_t, 4> packet;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        packet.x[i] = rounded_by_chance(p.state_element, x[i], random.of(first + i));
      }
      if (inside) store_packet(base + offset, packet);
    });
  }

  // ---- a workspace, as the registers hold it: no bounds, every access whole ----

  static constexpr int kElements = D * kWaveColumns * waves;
  __device__ __forceinline__ void store_registers(float* to) const {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        reinterpret_cast<float4*>(to)[(4 * j + r) * kWave * waves + threadIdx.x] =
            make_float4(s[j][r][0], s[j][r][1], s[j][r][2], s[j][r][3]);
      }
    }
  }
  __device__ __forceinline__ void load_registers(const float* from) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float4 x =
            reinterpret_cast<const float4*>(from)[(4 * j + r) * kWave * waves + threadIdx.x];
        s[j][r][0] = x.x;
        s[j][r][1] = x.y;
        s[j][r][2] = x.z;
        s[j][r][3] = x.w;
      }
    }
  }

  // ---- arithmetic. An element of float16 is widened by the multiply-add (v_fma_mix_f32) ----

  /// (tile S) of row 8 block + group of `tile`, this thread's four columns.
  template <typename Element, int C, int width>
  __device__ __forceinline__ float4 rows_times_state(const Element (&tile)[C][width],
                                                     int block) const {
    const TileThread thread = tile_thread();
    float kept[4] = {};
#pragma unroll 2
    for (int i = 0; i < 8; ++i) {
      const Element* const row = tile[8 * block + i];
      float sum[4] = {};
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        const auto x =
            *reinterpret_cast<const Packet<Element, 4>*>(&row[32 * j + 4 * thread.group]);
        add_product(j, x, sum);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[e] = sum_of_groups(sum[e]);
        kept[e] = thread.group == i ? sum[e] : kept[e];
      }
    }
    return {kept[0], kept[1], kept[2], kept[3]};
  }
  /// sum[e] += x S over this lane's rows 32 j + ...
  template <typename Element>
  __device__ __forceinline__ void add_product(int j, const Packet<Element, 4>& x,
                                              float (&sum)[4]) const {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] = fmaf(to_float(x.x[r]), s[j][r][e], sum[e]);
    }
  }
  /// S += x u^T over this lane's rows 32 j + ...
  template <typename Element>
  __device__ __forceinline__ void add_outer_product(int j, const Packet<Element, 4>& x,
                                                    const float (&u)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) s[j][r][e] = fmaf(to_float(x.x[r]), u[e], s[j][r][e]);
    }
  }
  /// Each row by its own factor.
  __device__ __forceinline__ void scale_rows(const float* factors) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const auto of_rows =
          *reinterpret_cast<const Packet<float, 4>*>(&factors[32 * j + 4 * tile_thread().group]);
#pragma unroll
      for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] *= of_rows.x[i / 4];
    }
  }
  __device__ __forceinline__ void scale(float factor) {
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
#pragma unroll
      for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] *= factor;
    }
  }

 private:
  /// Calls transfer(inside, offset from the tile's first element, x) for the whole tile: x four
  /// neighbours along whichever of rows and columns is contiguous.
  template <typename F>
  __device__ __forceinline__ void for_each_packet(const GatedDeltaParams& p,
                                                  const TileThread& thread, int first_column,
                                                  F transfer) {
    if (p.state_value_stride == 1) {
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        const int k = 32 * (i / 4) + 4 * thread.group + i % 4;
        transfer(inside(p, k, first_column + thread.column), offset(p, k, thread.column),
                 s[i / 4][i % 4]);
      }
      // Merged with the other branch's end, the last elements would be addressed by a pointer, and
      // lie in scratch memory.
      compiler_fence();
    } else {
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        const int k = 32 * (i / 4) + 4 * thread.group, column = thread.column + i % 4;
        float x[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) x[r] = s[i / 4][r][i % 4];
        transfer(inside(p, k, first_column + column), offset(p, k, column), x);
#pragma unroll
        for (int r = 0; r < 4; ++r) s[i / 4][r][i % 4] = x[r];
      }
    }
  }
  /// The same for x one element. The code of 32 rows serves all: it works on s[0], then s moves on
  /// by one, all the way round.
  template <typename F>
  __device__ __forceinline__ void for_each_element(const GatedDeltaParams& p,
                                                   const TileThread& thread, int first_column,
                                                   F transfer) {
#pragma unroll 1
    for (int first = 0; first < D; first += 32) {
      float done[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int k = first + 4 * thread.group + i / 4, column = thread.column + i % 4;
        done[i] = s[0][i / 4][i % 4];
        transfer(inside(p, k, first_column + column), offset(p, k, column), done[i]);
      }
#pragma unroll
      for (int j = 0; j + 1 < D / 32; ++j) {
#pragma unroll
        for (int i = 0; i < 16; ++i) s[j][i / 4][i % 4] = s[j + 1][i / 4][i % 4];
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) s[D / 32 - 1][i / 4][i % 4] = done[i];
    }
  }
  static __device__ __forceinline__ bool inside(const GatedDeltaParams& p, int k, int column) {
    return (k < p.key_head_dim) & (column < p.value_head_dim);
  }
  static __device__ __forceinline__ unsigned offset(const GatedDeltaParams& p, int k, int column) {
    return static_cast<unsigned>(k) * static_cast<unsigned>(p.state_key_stride) +
           static_cast<unsigned>(column) * static_cast<unsigned>(p.state_value_stride);
  }
};

}  // namespace gdn::hip
