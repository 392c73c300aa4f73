// Stands in for cuda/hopper/wgmma.cuh. A warpgroup's product is made by each of its warps for its
// own 16 rows, when its lanes issue it; the hardware may read its operands later, up to the wait,
// which is not modelled.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "cuda/hopper/matrix.cuh"

namespace gdn::cuda_emulated::hopper::wgmma {

inline std::uint64_t k_major_128(std::uint32_t tile) {
  return static_cast<std::uint64_t>((tile & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) |
         (1ull << 62);
}
inline std::uint64_t mn_major_128(std::uint32_t tile, std::uint32_t panel) {
  return static_cast<std::uint64_t>((tile & 0x3ffff) >> 4) |
         (static_cast<std::uint64_t>(panel >> 4) << 16) | (64ull << 32) | (1ull << 62);
}
inline std::uint64_t k_major_32(std::uint32_t tile) {
  return static_cast<std::uint64_t>((tile & 0x3ffff) >> 4) | (1ull << 16) | (16ull << 32) |
         (3ull << 62);
}
inline std::uint64_t k_major_plain(std::uint32_t tile, std::uint32_t along_k,
                                   std::uint32_t along_n) {
  return static_cast<std::uint64_t>((tile & 0x3ffff) >> 4) |
         (static_cast<std::uint64_t>(along_k >> 4) << 16) |
         (static_cast<std::uint64_t>(along_n >> 4) << 32);
}
inline std::uint32_t tf32_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits + 0x1000;
}

inline void registers_ready() {}
inline void commit() {}
template <int Pending>
void wait() {}
template <int N>
void hold(float (&)[N]) {}
template <int N>
void hold(std::uint32_t (&)[N]) {}
template <typename... Arrays>
void made_before_wait(bool, const Arrays&...) {}

namespace detail {

/// PTX ISA, "Matrix-Descriptor Format".
struct Tile {
  std::uint32_t start, leading, stride;  ///< bytes
  bool swizzle_128;                      ///< otherwise 32
  const unsigned char* shared = cuda_grid::dynamic_shared_memory();

  explicit Tile(std::uint64_t descriptor)
      : start(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        swizzle_128(descriptor >> 62 == 1) {}

  /// Elements k to k + 7 (k 0 or 8) of row `row`, k contiguous.
  template <typename Element>
  void k_major(int row, int k, double* eight) const {
    const std::uint32_t row_bytes = swizzle_128 ? 128 : 32;
    widen<Element>(start + static_cast<std::uint32_t>(row / 8) * stride +
                       static_cast<std::uint32_t>(row % 8) * row_bytes +
                       2 * static_cast<std::uint32_t>(k),
                   eight);
  }
  /// Elements `row` to row + 7 (a multiple of 8) of line k, rows contiguous in panels of 64.
  template <typename Element>
  void mn_major(int row, int k, double* eight) const {
    widen<Element>(start + static_cast<std::uint32_t>(row / 64) * leading +
                       static_cast<std::uint32_t>(k / 8) * stride +
                       static_cast<std::uint32_t>(k % 8) * 128 +
                       2 * static_cast<std::uint32_t>(row % 64),
                   eight);
  }
  /// The eight of 16 bytes, which swizzling leaves side by side.
  template <typename Element>
  void widen(std::uint32_t address, double* eight) const {
    const std::uint32_t flipped =
        swizzle_128 ? ((address >> 7) & 7) << 4 : ((address >> 7) & 1) << 4;
    std::uint16_t bits[8];
    std::memcpy(bits, shared + (address ^ flipped), sizeof bits);
    for (int i = 0; i < 8; ++i) {
      eight[i] = static_cast<double>(cuda_emulated::detail::widened<Element>(bits[i], 0));
    }
  }
};

/// sums[n][m] = a[0 .. kDepth-1][m] b[n][0 .. kDepth-1] for 16 rows m and `columns` columns n; element k of column n of b is
/// b[n * along_n + k * along_k]. Rows side by side, so that b is read as it lies in either order.
template <int kDepth>
void multiply_columns(const double (*a)[16], const double* b, int along_n, int along_k, int columns,
                      float (*sums)[16]) {
  using cuda_emulated::detail::FourDoubles;
  using cuda_emulated::detail::FourFloats;
  for (int n = 0; n < columns; n += 2) {
    FourDoubles held[2][4] = {};
    for (int k = 0; k < kDepth; ++k) {
      const double elements[2] = {b[n * along_n + k * along_k], b[(n + 1) * along_n + k * along_k]};
      for (int i = 0; i < 4; ++i) {
        const FourDoubles line = cuda_emulated::detail::four_at(a[k] + 4 * i);
        cuda_emulated::detail::add_product(held[0][i], elements[0], line);
        cuda_emulated::detail::add_product(held[1][i], elements[1], line);
      }
    }
    for (int c = 0; c < 2; ++c) {
      for (int i = 0; i < 4; ++i) {
        const FourFloats rounded = __builtin_convertvector(held[c][i], FourFloats);
        std::memcpy(sums[n + c] + 4 * i, &rounded, sizeof rounded);
      }
    }
  }
}

/// Hands each lane its sums: 4 j + e is row lane / 4 + 8 (e / 2), column 8 j + 2 (lane % 4) + e % 2.
template <int N>
void hand_out(const float (&sums)[N][16], cuda_grid::WarpSlots& slots) {
  for (int lane = 0; lane < 32; ++lane) {
    float own[N / 2];
    for (int i = 0; i < N / 2; ++i) {
      own[i] = sums[8 * (i / 4) + 2 * (lane % 4) + i % 2][lane / 4 + 8 * (i % 4 / 2)];
    }
    std::memcpy(slots.result[lane], own, sizeof own);
  }
}

struct Given {
  std::uint32_t a[4];
  std::uint64_t a_tile;
  std::uint64_t b_tile;
};

/// One warp's 16 x N part of a product.
template <typename Element, int N, bool ATile, bool BTransposed>
void multiply(cuda_grid::WarpSlots& slots) {
  double a[16][16], b[16 * N];  // a[k][m]
  float sums[N][16];
  Given given;
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(&given, slots.given[lane], sizeof given);
    if (ATile) continue;
    for (int e = 0; e < 8; ++e) {
      a[2 * (lane % 4) + e % 2 + 8 * (e / 4)][lane / 4 + 8 * (e / 2 % 2)] =
          static_cast<double>(cuda_emulated::detail::widened<Element>(given.a[e / 2], e % 2));
    }
  }
  if (ATile) {
    const int first_row = static_cast<int>(threadIdx.x) / 32 % 4 * 16;
    const Tile tile(given.a_tile);
    for (int m = 0; m < 16; ++m) {
      double row[16];
      tile.k_major<Element>(first_row + m, 0, row);
      tile.k_major<Element>(first_row + m, 8, row + 8);
      for (int k = 0; k < 16; ++k) a[k][m] = row[k];
    }
  }
  const Tile tile(given.b_tile);
  if (BTransposed) {
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < N; n += 8) tile.mn_major<Element>(n, k, b + k * N + n);
    }
  } else {
    for (int n = 0; n < N; ++n) {
      for (int k = 0; k < 16; k += 8) tile.k_major<Element>(n, k, b + n * 16 + k);
    }
  }
  multiply_columns<16>(a, b, BTransposed ? 1 : 16, BTransposed ? N : 1, N, sums);
  hand_out(sums, slots);
}

/// The number of a tf32 operand: its last 13 bits are ignored.
inline double tf32_number(std::uint32_t bits) {
  bits &= 0xffffe000u;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return static_cast<double>(x);
}
/// The same of tf32 and k 8, b in blocks of 8 rows of 16 bytes, not swizzled.
template <int N>
void multiply_tf32(cuda_grid::WarpSlots& slots) {
  double a[8][16], b[N * 8];  // a[k][m]
  float sums[N][16];
  Given given;
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(&given, slots.given[lane], sizeof given);
    for (int e = 0; e < 4; ++e)
      a[lane % 4 + 4 * (e / 2)][lane / 4 + 8 * (e % 2)] = tf32_number(given.a[e]);
  }
  const Tile tile(given.b_tile);
  for (int n = 0; n < N; ++n) {
    for (int k = 0; k < 8; ++k) {
      std::uint32_t bits;
      std::memcpy(&bits,
                  tile.shared + tile.start + static_cast<std::uint32_t>(n / 8) * tile.stride +
                      static_cast<std::uint32_t>(n % 8) * 16 +
                      static_cast<std::uint32_t>(k / 4) * tile.leading +
                      static_cast<std::uint32_t>(k % 4) * 4,
                  sizeof bits);
      b[n * 8 + k] = tf32_number(bits);
    }
  }
  multiply_columns<8>(a, b, 8, 1, N, sums);
  hand_out(sums, slots);
}

template <int N>
void add_product(const char* name, float (&d)[N], const Given& given, bool accumulate,
                 void (*complete)(cuda_grid::WarpSlots&)) {
  const auto& slots = cuda_grid::meet(name, &given, sizeof given, complete);
  float own[N];
  std::memcpy(own, slots.result[cuda_grid::lane_index()], sizeof own);
  for (int i = 0; i < N; ++i) d[i] = accumulate ? d[i] + own[i] : own[i];
}

}  // namespace detail

template <typename Element>
void multiply_rs_n16(float (&d)[8], const std::uint32_t* a, std::uint64_t b, bool accumulate) {
  detail::add_product("wgmma.m64n16k16", d, {{a[0], a[1], a[2], a[3]}, 0, b}, accumulate,
                      detail::multiply<Element, 16, false, false>);
}
template <typename Element>
void multiply_rs_n32(float (&d)[16], const std::uint32_t* a, std::uint64_t b, bool accumulate) {
  detail::add_product("wgmma.m64n32k16", d, {{a[0], a[1], a[2], a[3]}, 0, b}, accumulate,
                      detail::multiply<Element, 32, false, false>);
}
template <typename Element>
void multiply_rs_n64(float (&d)[32], const std::uint32_t* a, std::uint64_t b, bool accumulate) {
  detail::add_product("wgmma.m64n64k16", d, {{a[0], a[1], a[2], a[3]}, 0, b}, accumulate,
                      detail::multiply<Element, 64, false, false>);
}
inline void multiply_rs_n64_tf32(float (&d)[32], const std::uint32_t* a, std::uint64_t b,
                                 bool accumulate) {
  detail::add_product("wgmma.m64n64k8.tf32", d, {{a[0], a[1], a[2], a[3]}, 0, b}, accumulate,
                      detail::multiply_tf32<64>);
}
template <typename Element>
void multiply_rs_n128_trans(float (&d)[64], const std::uint32_t* a, std::uint64_t b) {
  detail::add_product("wgmma.m64n128k16", d, {{a[0], a[1], a[2], a[3]}, 0, b}, true,
                      detail::multiply<Element, 128, false, true>);
}
template <typename Element>
void multiply_ss_n64(float (&d)[32], std::uint64_t a, std::uint64_t b, bool accumulate) {
  detail::add_product("wgmma.m64n64k16.ss", d, {{0, 0, 0, 0}, a, b}, accumulate,
                      detail::multiply<Element, 64, true, false>);
}

template <typename Element>
void multiply_rs_n64_trans(float (&d)[32], const std::uint32_t* a, std::uint64_t b,
                           bool accumulate) {
  detail::add_product("wgmma.m64n64k16.trans", d, {{a[0], a[1], a[2], a[3]}, 0, b}, accumulate,
                      detail::multiply<Element, 64, false, true>);
}
template <typename Element>
void multiply_ss_n64_trans(float (&d)[32], std::uint64_t a, std::uint64_t b, bool accumulate) {
  detail::add_product("wgmma.m64n64k16.ss.trans", d, {{0, 0, 0, 0}, a, b}, accumulate,
                      detail::multiply<Element, 64, true, true>);
}

}  // namespace gdn::cuda_emulated::hopper::wgmma
