// Where one head's 64 KB state may live while a chunk is worked on: the three places a fused kernel
// could put it other than registers. Each kernel does the state's part of a chunk, P = W S and then
// S <- S + K^T P, and nothing else, for 64 rows and Dk = Dv = 128.
//
// In all of them a work-item computes 8 x 4 of P and 8 x 8 of the update.
#include <hip/hip_runtime.h>

#include <type_traits>

#include "harness/gfx906/analysis/params.h"

namespace gdn::hip {
namespace {

constexpr int kRows = 64, kDim = 128, kTile = 32;

struct Item {
  int p_row, p_column;  ///< its 8 x 4 of P
  int s_row, s_column;  ///< its 8 x 8 of S
};
__device__ __forceinline__ Item item() {
  const int thread = static_cast<int>(threadIdx.x);
  return {thread / 32 * 8, thread % 32 * 4, thread / 16 * 8, thread % 16 * 8};
}
__device__ __forceinline__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ void store4(float* to, const float (&x)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}

/// p += w(row, k) s(k, column..column + 3) for k in [first, last).
template <typename W, typename S>
__device__ __forceinline__ void accumulate_product(float (&p)[8][4], int first, int last, W w,
                                                   S s) {
#pragma unroll 4
  for (int k = first; k < last; ++k) {
    const float4 right = s(k);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float left = w(i, k);
      p[i][0] = fmaf(left, right.x, p[i][0]);
      p[i][1] = fmaf(left, right.y, p[i][1]);
      p[i][2] = fmaf(left, right.z, p[i][2]);
      p[i][3] = fmaf(left, right.w, p[i][3]);
    }
  }
}

/// K^T P over the chunk's rows: 8 x 8 of it from key_rows(t) and product_rows(t), each 8 values.
template <typename Key, typename Product>
__device__ __forceinline__ void accumulate_update(float (&update)[8][8], Key key_rows,
                                                  Product product_rows) {
#pragma unroll 2
  for (int t = 0; t < kRows; ++t) {
    float k[8], p[8];
    key_rows(t, k);
    product_rows(t, p);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) update[i][j] = fmaf(k[i], p[j], update[i][j]);
    }
  }
}
__device__ __forceinline__ void load8(const float* from, float (&x)[8]) {
  const float4 low = load4(from), high = load4(from + 4);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

}  // namespace

extern "C" {

/// Option A: the whole state in LDS, which is then full: W and K are read from memory by every
/// work-item that needs them, and P goes through memory.
__global__ __launch_bounds__(256) void state_in_lds(StateParams p) {
  alignas(16) __shared__ float state[kDim][kDim];
  const std::int64_t head = blockIdx.x;
  const Item at = item();
  float* const pool = p.state + head * kDim * kDim;
  float* const product = p.product + head * kRows * kDim;
  for (int i = static_cast<int>(threadIdx.x); i < kDim * kDim; i += 256)
    state[i / kDim][i % kDim] = pool[i];
  __syncthreads();
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const std::int64_t tokens = (head * p.chunks + chunk) * kRows * kDim;
    const float* const w = p.carried + tokens;
    const float* const key = p.key + tokens;
    float x[8][4] = {};
    accumulate_product(
        x, 0, kDim, [&](int i, int k) { return w[(at.p_row + i) * kDim + k]; },
        [&](int k) { return load4(&state[k][at.p_column]); });
#pragma unroll
    for (int i = 0; i < 8; ++i) store4(&product[(at.p_row + i) * kDim + at.p_column], x[i]);
    __syncthreads();
    float update[8][8] = {};
    accumulate_update(
        update, [&](int t, float(&k)[8]) { load8(&key[t * kDim + at.s_row], k); },
        [&](int t, float(&v)[8]) { load8(&product[t * kDim + at.s_column], v); });
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) state[at.s_row + i][at.s_column + j] += update[i][j];
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < kDim * kDim; i += 256)
    pool[i] = state[i / kDim][i % kDim];
}

/// Option B: the state in memory, 32 rows at a time in LDS (four passes of 16 KB, the first of the
/// two ways the tiles can be cut); P in LDS, W and K from memory 32 columns at a time.
__global__ __launch_bounds__(256) void state_in_tiles(StateParams p) {
  alignas(16) __shared__ float state[kTile][kDim];
  alignas(16) __shared__ float rows[kRows][kTile + 4];
  alignas(16) __shared__ float product[kRows][kDim];
  const std::int64_t head = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const Item at = item();
  float* const pool = p.state + head * kDim * kDim;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const std::int64_t tokens = (head * p.chunks + chunk) * kRows * kDim;
    const auto load_tile = [&](int tile, const float* source) {
      for (int i = thread; i < kTile * kDim; i += 256) {
        state[i / kDim][i % kDim] = pool[tile * kTile * kDim + i];
      }
      for (int i = thread; i < kRows * kTile; i += 256) {
        rows[i / kTile][i % kTile] = source[i / kTile * kDim + tile * kTile + i % kTile];
      }
      __syncthreads();
    };
    float x[8][4] = {};
    for (int tile = 0; tile < kDim / kTile; ++tile) {
      load_tile(tile, p.carried + tokens);
      accumulate_product(
          x, 0, kTile, [&](int i, int k) { return rows[at.p_row + i][k]; },
          [&](int k) { return load4(&state[k][at.p_column]); });
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) store4(&product[at.p_row + i][at.p_column], x[i]);
    // Here a work-item has 2 x 8 of a tile.
    const int row = thread / 16 * 2, column = thread % 16 * 8;
    for (int tile = 0; tile < kDim / kTile; ++tile) {
      load_tile(tile, p.key + tokens);
      float update[2][8] = {};
#pragma unroll 2
      for (int t = 0; t < kRows; ++t) {
        float v[8];
        load8(&product[t][column], v);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            update[i][j] = fmaf(rows[t][row + i], v[j], update[i][j]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          pool[(tile * kTile + row + i) * kDim + column + j] =
              state[row + i][column + j] + update[i][j];
        }
      }
      __syncthreads();
    }
  }
}

/// Option C: the state in memory, streamed through registers; W, K and P in LDS.
__global__ __launch_bounds__(256) void state_streamed(StateParams p) {
  alignas(16) __shared__ float rows[kRows][kDim];  // W, then P
  alignas(16) __shared__ float key[kRows / 2][kDim];
  const std::int64_t head = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const Item at = item();
  float* const pool = p.state + head * kDim * kDim;
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const std::int64_t tokens = (head * p.chunks + chunk) * kRows * kDim;
    for (int i = thread; i < kRows * kDim; i += 256)
      rows[i / kDim][i % kDim] = p.carried[tokens + i];
    __syncthreads();
    float x[8][4] = {};
    accumulate_product(
        x, 0, kDim, [&](int i, int k) { return rows[at.p_row + i][k]; },
        [&](int k) { return load4(&pool[k * kDim + at.p_column]); });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) store4(&rows[at.p_row + i][at.p_column], x[i]);
    float update[8][8] = {};
    for (int half = 0; half < 2; ++half) {
      for (int i = thread; i < kRows / 2 * kDim; i += 256) {
        key[i / kDim][i % kDim] = p.key[tokens + half * kRows / 2 * kDim + i];
      }
      __syncthreads();
#pragma unroll 2
      for (int t = 0; t < kRows / 2; ++t) {
        float k[8], v[8];
        load8(&key[t][at.s_row], k);
        load8(&rows[half * kRows / 2 + t][at.s_column], v);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) update[i][j] = fmaf(k[i], v[j], update[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) pool[(at.s_row + i) * kDim + at.s_column + j] += update[i][j];
    }
    __syncthreads();
  }
}

/// What the backend does: the state in registers for the whole sequence. A work-item holds rows
/// 32 j + 4 g + 0..3 (g = lane mod 8, j = 0..3) of 4 columns; a row of W times its part of S is
/// summed over the 8 g by DPP. W, K and P in LDS, 32 rows at a time.
__global__ __launch_bounds__(256) void state_in_registers(StateParams p) {
  constexpr int kStep = 32;
  alignas(16) __shared__ float rows[kStep][kDim + 4];
  alignas(16) __shared__ float key[kStep][kDim + 4];
  alignas(16) __shared__ float product[kStep][kDim + 4];
  const std::int64_t head = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x), group = thread % 8, column = thread / 8 * 4;
  float* const pool = p.state + head * kDim * kDim;
  float s[4][4][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float4 x = load4(&pool[(32 * j + 4 * group + r) * kDim + column]);
      s[j][r][0] = x.x, s[j][r][1] = x.y, s[j][r][2] = x.z, s[j][r][3] = x.w;
    }
  }
  const auto moved = [](float x, auto control) {
    return __builtin_bit_cast(
        float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), decltype(control)::value,
                                           0xf, 0xf, true));
  };
  const auto sum_of_groups = [&](float x) {
    x += moved(x, std::integral_constant<int, 0xb1>{});         // quad_perm:[1,0,3,2]
    x += moved(x, std::integral_constant<int, 0x4e>{});         // quad_perm:[2,3,0,1]
    return x + moved(x, std::integral_constant<int, 0x141>{});  // row_half_mirror
  };
  for (int step = 0; step < p.chunks * (kRows / kStep); ++step) {
    const std::int64_t tokens = (head * p.chunks * (kRows / kStep) + step) * kStep * kDim;
    for (int i = thread; i < kStep * kDim; i += 256) {
      rows[i / kDim][i % kDim] = p.carried[tokens + i];
      key[i / kDim][i % kDim] = p.key[tokens + i];
    }
    __syncthreads();
#pragma unroll 1
    for (int block = 0; block < kStep / 8; ++block) {
      float kept[4] = {};
#pragma unroll 2
      for (int i = 0; i < 8; ++i) {
        float sum[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float4 w = load4(&rows[8 * block + i][32 * j + 4 * group]);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum[e] = fmaf(w.x, s[j][0][e], sum[e]);
            sum[e] = fmaf(w.y, s[j][1][e], sum[e]);
            sum[e] = fmaf(w.z, s[j][2][e], sum[e]);
            sum[e] = fmaf(w.w, s[j][3][e], sum[e]);
          }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float total = sum_of_groups(sum[e]);
          kept[e] = group == i ? total : kept[e];
        }
      }
      store4(&product[8 * block + group][column], kept);
    }
    __syncthreads();
#pragma unroll 2
    for (int t = 0; t < kStep; ++t) {
      const float4 v = load4(&product[t][column]);
      const float u[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float4 k = load4(&key[t][32 * j + 4 * group]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          s[j][0][e] = fmaf(k.x, u[e], s[j][0][e]);
          s[j][1][e] = fmaf(k.y, u[e], s[j][1][e]);
          s[j][2][e] = fmaf(k.z, u[e], s[j][2][e]);
          s[j][3][e] = fmaf(k.w, u[e], s[j][3][e]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int r = 0; r < 4; ++r) store4(&pool[(32 * j + 4 * group + r) * kDim + column], s[j][r]);
  }
}

}  // extern "C"

}  // namespace gdn::hip
