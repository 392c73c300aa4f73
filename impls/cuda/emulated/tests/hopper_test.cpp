// Hopper's primitives on the emulated grid: mbarriers, the copy engine and warpgroup products mean
// what the PTX ISA says, and their misuse is reported.
#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/element.cuh"
#include "cuda/emulated/tests/failure.h"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/bulk_copy.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/launch_kernel.cuh"

namespace gdn::cuda_emulated::hopper {
namespace {

using cuda_grid::ExecutionOptions;
using cuda_grid::failure_of;
using cuda_grid::ThreadOrder;

const std::vector<ExecutionOptions> kOrders = {
    {ThreadOrder::forward, 0}, {ThreadOrder::reverse, 0}, {ThreadOrder::random, 2}};

// A tensor [heads][tokens][128] seen as {64, tokens, 2, heads}, as the fused kernel's maps are.
struct Tokens {
  int count, heads;
  std::vector<std::uint16_t> elements;
  CUtensorMap map{};

  Tokens(int token_count, int head_count)
      : count(token_count),
        heads(head_count),
        elements(static_cast<std::size_t>(token_count * head_count * 128)) {
    map = make_tensor_map(
        elements.data(), DType::float16,
        {{64, 1, 64}, {count, 128, 64}, {2, 64, 2}, {heads, std::int64_t{count} * 128, 1}},
        "tokens");
  }
  std::uint16_t& at(int head, int token, int d) {
    return elements[static_cast<std::size_t>((head * count + token) * 128 + d)];
  }
};

constexpr std::uint32_t kTileBytes = 16384;

// A tile from one tensor to another through shared memory; thread 0 copies, all read.
__global__ void copy_tile_kernel(CUtensorMap from, CUtensorMap to, int token, std::uint16_t* seen) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t tile = shared_address(shared), full = tile + kTileBytes;
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(full, kTileBytes);
    tensor_load(tile, &from, full, 0, token, 0, 1);
  }
  mbarrier_wait(full, 0);
  for (int i = static_cast<int>(threadIdx.x); i < 64 * 128; i += 64) {
    const int row = i / 128, d = i % 128;
    seen[i] = load_shared<std::uint16_t>(
        tile + static_cast<std::uint32_t>(d / 64) * 8192 +
        swizzle_128(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(d % 64 * 2)));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    tensor_store(&to, tile, 0, token, 0, 1);
    bulk_commit();
    bulk_wait<0>();
  }
}

TEST(EmulatedHopper, TiledCopiesSwizzleFillOutsideWithZerosAndDoNotWriteThere) {
  for (const ExecutionOptions& order : kOrders) {
    cuda_grid::set_execution_options(order);
    Tokens from(100, 2), to(100, 2);
    for (std::size_t i = 0; i < from.elements.size(); ++i) {
      from.elements[i] = static_cast<std::uint16_t>(i + 1);
    }
    std::vector<std::uint16_t> seen(64 * 128);
    launch_kernel(copy_tile_kernel, 1, 64, kTileBytes + 8, nullptr, from.map, to.map, 70,
                  seen.data());
    for (int row = 0; row < 64; ++row) {
      for (int d = 0; d < 128; ++d) {
        const std::uint16_t expected = row < 30 ? from.at(1, 70 + row, d) : 0;
        ASSERT_EQ(seen[static_cast<std::size_t>(row * 128 + d)], expected) << row << "," << d;
        if (row < 30) {
          ASSERT_EQ(to.at(1, 70 + row, d), expected);
        }
      }
    }
    EXPECT_EQ(to.at(0, 99, 127), 0);
    EXPECT_EQ(to.at(1, 69, 127), 0);
  }
}

// Rows of 64 elements from a matrix of fewer dimensions than the copy has coordinates.
__global__ void copy_rows_kernel(CUtensorMap from, int row, std::uint16_t* seen) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  constexpr int kRows = 8, kBytes = 1024;
  const std::uint32_t tile = shared_address(shared), full = tile + kBytes;
  mbarrier_init(full, 1);
  mbarrier_arrive_expect(full, kBytes);
  tensor_load(tile, &from, full, 0, row, 0, 0);
  mbarrier_wait(full, 0);
  for (int i = 0; i < kRows * 64; i++)
    seen[i] =
        load_shared<std::uint16_t>(tile + swizzle_128(static_cast<std::uint32_t>(i / 64),
                                                      static_cast<std::uint32_t>(i % 64 * 2)));
}

TEST(EmulatedHopper, ATensorMapOfAMatrixHasSizeOneInTheOtherDimensions) {
  cuda_grid::set_execution_options({});
  std::vector<std::uint16_t> elements(20 * 64), seen(8 * 64);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::uint16_t>(i);
  const CUtensorMap map =
      make_tensor_map(elements.data(), DType::bfloat16, {{64, 1, 64}, {20, 64, 8}}, "rows");
  launch_kernel(copy_rows_kernel, 1, 1, 1024 + 8, nullptr, map, 16, seen.data());
  for (std::size_t i = 0; i < seen.size(); ++i)
    ASSERT_EQ(seen[i], i < 4 * 64 ? elements[16 * 64 + i] : 0) << i;
}

// Two tokens of four rows of 64 elements each, of which an array has the steps -1 to 2 or, of the other, step 0 alone as
// a token's last row: what a box has outside is zeros as it comes, and is not written. A card stores no box that begins
// outside.
__global__ void copy_steps_kernel(CUtensorMap from, CUtensorMap to, int token,
                                  std::uint16_t* seen) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  constexpr int kRows = 8, kBytes = 1024;
  const std::uint32_t tile = shared_address(shared), full = tile + kBytes;
  mbarrier_init(full, 1);
  mbarrier_arrive_expect(full, kBytes);
  tensor_load(tile, &from, full, 0, -1, token, 0, 0);
  mbarrier_wait(full, 0);
  for (int i = 0; i < kRows * 64; i++)
    seen[i] =
        load_shared<std::uint16_t>(tile + swizzle_128(static_cast<std::uint32_t>(i / 64),
                                                      static_cast<std::uint32_t>(i % 64 * 2)));
  tensor_store(&to, tile + 3 * 128, 0, 0, token, 0, 0);  // from the first token's last row on
  bulk_commit();
  bulk_wait<0>();
}

TEST(EmulatedHopper, ABoxOfFiveDimensionsMayBeginBeforeAnArray) {
  cuda_grid::set_execution_options({});
  constexpr int kTokens = 5, kSteps = 3, kRow = 64;
  std::vector<std::uint16_t> from(kTokens * kSteps * kRow), to(kTokens * kRow), seen(8 * kRow);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint16_t>(i + 1);
  const auto map = [&](std::vector<std::uint16_t>& elements, int steps) {
    return make_tensor_map(elements.data(), DType::bfloat16,
                           {{kRow, 1, kRow},
                            {steps, kRow, 4},
                            {kTokens, std::int64_t{steps} * kRow, 2},
                            {1, kRow, 1},
                            {1, kRow, 1}},
                           "steps");
  };
  for (const int token : {0, 2, 4}) {
    std::fill(to.begin(), to.end(), 0);
    launch_kernel(copy_steps_kernel, 1, 1, 1024 + 8, nullptr, map(from, kSteps), map(to, 1), token,
                  seen.data());
    for (int row = 0; row < 8; ++row) {
      const int of = token + row / 4, step = row % 4 - 1;
      for (int d = 0; d < kRow; ++d) {
        const bool inside = step >= 0 && of < kTokens;
        ASSERT_EQ(seen[static_cast<std::size_t>(row * kRow + d)],
                  inside ? from[static_cast<std::size_t>((of * kSteps + step) * kRow + d)] : 0)
            << "token " << token << ", row " << row;
      }
    }
    for (int t = 0; t < kTokens; ++t)
      for (int d = 0; d < kRow; ++d)
        ASSERT_EQ(to[static_cast<std::size_t>(t * kRow + d)],
                  t == token || t == token + 1
                      ? from[static_cast<std::size_t>((t * kSteps + 2) * kRow + d)]
                      : 0)
            << "token " << token << ", at " << t;
  }
}

TEST(EmulatedHopper, ATensorMapThatTheEngineCannotReadIsRefused) {
  std::vector<std::uint16_t> elements(64);
  const auto refused = [&](DType dtype, std::initializer_list<TensorDimension> dimensions) {
    EXPECT_THROW(make_tensor_map(elements.data(), dtype, dimensions, "x"), Error);
  };
  refused(DType::float32, {{64, 1, 64}});
  refused(DType::float16, {});
  refused(DType::float16, {{4, 1, 4}, {1, 8, 1}, {1, 8, 1}, {1, 8, 1}, {1, 8, 1}, {1, 8, 1}});
  refused(DType::float16, {{4, 1, 4}, {2, 4, 2}});  // rows 8 bytes apart
}

__global__ void missing_bytes_kernel() {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t full = shared_address(shared);
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_arrive_expect(full, 128);
  }
  __syncthreads();
  mbarrier_wait(full, 0);
}
__global__ void too_many_arrivals_kernel() {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t full = shared_address(shared);
  if (threadIdx.x == 0) {
    mbarrier_init(full, 2);
    mbarrier_arrive_expect(full, 16);
  }
  __syncthreads();
  mbarrier_arrive(full);
}
__global__ void no_barrier_kernel() { mbarrier_arrive(64); }

TEST(EmulatedHopper, ReportsMisusedMbarriers) {
  EXPECT_NE(failure_of([] { launch_kernel(missing_bytes_kernel, 1, 32, 64, nullptr); })
                .find("at the mbarrier at shared address 0, where 0 arrivals and 128 bytes are "
                      "missing"),
            std::string::npos);
  EXPECT_NE(failure_of([] {
              launch_kernel(too_many_arrivals_kernel, 1, 32, 64, nullptr);
            }).find("more arrivals at the mbarrier at shared address 0 than its 2"),
            std::string::npos);
  EXPECT_NE(failure_of([] {
              launch_kernel(no_barrier_kernel, 1, 32, 64, nullptr);
            }).find("no mbarrier has been made at shared address 64"),
            std::string::npos);
}

// The buffer of a store is written again without waiting for the store to have read it.
template <bool kWaits>
__global__ void reused_buffer_kernel(std::uint32_t* out) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t buffer = shared_address(shared);
  for (std::uint32_t i = 0; i < 2; ++i) {
    store_shared(buffer, make_uint4(i, i, i, i));
    bulk_store(out + 4 * i, buffer, 16);
    bulk_commit();
    if (kWaits) bulk_wait_read<0>();
  }
  bulk_wait<0>();
}

TEST(EmulatedHopper, ABufferReusedBeforeItsStoreHasReadItShows) {
  cuda_grid::set_execution_options(kOrders[1]);
  std::vector<std::uint32_t> out(8, 9);
  launch_kernel(reused_buffer_kernel<true>, 1, 1, 64, nullptr, out.data());
  EXPECT_EQ(out, (std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  launch_kernel(reused_buffer_kernel<false>, 1, 1, 64, nullptr, out.data());
  EXPECT_EQ(out, (std::vector<std::uint32_t>{1, 1, 1, 1, 1, 1, 1, 1}));
}

enum class Form { rs_n16, rs_n64, ss_n64, rs_n64_trans, ss_n64_trans, rs_n128_trans };
constexpr bool is_transposed(Form form) {
  return form == Form::rs_n64_trans || form == Form::ss_n64_trans || form == Form::rs_n128_trans;
}

// d [64 x N] = a [64 x 16] b [16 x N] of small integers: a [m][k], b [k][n] from global memory,
// operands placed in shared memory as the descriptors' layouts say.
template <Form form>
__global__ void product_kernel(const float* a, const float* b, float* d) {
  using Element = __nv_bfloat16;
  constexpr int N = form == Form::rs_n128_trans ? 128 : form == Form::rs_n16 ? 16 : 64;
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t B = shared_address(shared), A = B + 32768;
  const int t = static_cast<int>(threadIdx.x), w = t / 32, l = t % 32;
  const auto u = [](int x) { return static_cast<std::uint32_t>(x); };
  for (int i = t; i < 16 * N; i += 128) {
    const int k = i / N, n = i % N;
    const std::uint32_t at = is_transposed(form)
                                 ? B + u(n / 64) * 8192 + swizzle_128(u(k), u(n % 64) * 2)
                                 : B + swizzle_128(u(n), u(k) * 2);
    store_shared(at, __float2bfloat16_rn(b[k * N + n]));
  }
  for (int i = t; i < 64 * 16; i += 128) {
    store_shared(A + swizzle_128(u(i / 16), u(i % 16) * 2), __float2bfloat16_rn(a[i]));
  }
  fence_async_proxy();
  __syncthreads();
  const auto pair = [&](int row, int k) {
    return pack<Element>(a[(16 * w + row) * 16 + k], a[(16 * w + row) * 16 + k + 1]);
  };
  const std::uint32_t registers[4] = {pair(l / 4, 2 * (l % 4)), pair(l / 4 + 8, 2 * (l % 4)),
                                      pair(l / 4, 2 * (l % 4) + 8),
                                      pair(l / 4 + 8, 2 * (l % 4) + 8)};
  float sums[N / 2];
  for (float& sum : sums) sum = 1;
  wgmma::registers_ready();
  if constexpr (form == Form::rs_n128_trans) {
    wgmma::multiply_rs_n128_trans<Element>(sums, registers, wgmma::mn_major_128(B, 8192));
  } else if constexpr (form == Form::rs_n64_trans) {
    wgmma::multiply_rs_n64_trans<Element>(sums, registers, wgmma::mn_major_128(B, 8192), true);
  } else if constexpr (form == Form::ss_n64_trans) {
    wgmma::multiply_ss_n64_trans<Element>(sums, wgmma::k_major_128(A), wgmma::mn_major_128(B, 8192),
                                          true);
  } else if constexpr (form == Form::rs_n16) {
    wgmma::multiply_rs_n16<Element>(sums, registers, wgmma::k_major_128(B), true);
  } else if constexpr (form == Form::rs_n64) {
    wgmma::multiply_rs_n64<Element>(sums, registers, wgmma::k_major_128(B), true);
  } else {
    wgmma::multiply_ss_n64<Element>(sums, wgmma::k_major_128(A), wgmma::k_major_128(B), true);
  }
  wgmma::commit();
  wgmma::wait<0>();
  for (int j = 0; j < N / 8; ++j) {
    for (int e = 0; e < 4; ++e) {
      d[(16 * w + l / 4 + 8 * (e / 2)) * N + 8 * j + 2 * (l % 4) + e % 2] = sums[4 * j + e];
    }
  }
}

template <Form form>
void expect_product(int N) {
  std::mt19937 random(11);
  const auto values = [&](int count) {
    std::vector<float> made(static_cast<std::size_t>(count));
    for (float& value : made) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    return made;
  };
  const std::vector<float> a = values(64 * 16), b = values(16 * N);
  std::vector<float> d(static_cast<std::size_t>(64 * N));
  cudaFuncSetAttribute(product_kernel<form>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  launch_kernel(product_kernel<form>, 1, 128, 65536, nullptr, a.data(), b.data(), d.data());
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < N; ++n) {
      float sum = 1;
      for (int k = 0; k < 16; ++k) {
        sum += a[static_cast<std::size_t>(m * 16 + k)] * b[static_cast<std::size_t>(k * N + n)];
      }
      ASSERT_EQ(d[static_cast<std::size_t>(m * N + n)], sum) << m << "," << n;
    }
  }
}

TEST(EmulatedHopper, WarpgroupProductsReadTheLayoutsOfTheirDescriptors) {
  expect_product<Form::rs_n16>(16);
  expect_product<Form::rs_n64>(64);
  expect_product<Form::ss_n64>(64);
  expect_product<Form::rs_n64_trans>(64);
  expect_product<Form::ss_n64_trans>(64);
  expect_product<Form::rs_n128_trans>(128);
}

// d [64 x 64] = a [64 x 8] b [8 x 64] of tf32: b in blocks of 8 columns n by 4 lines k, the two of a column's 8 lines 128
// bytes apart, those of the next columns 256.
__global__ void tf32_product_kernel(const float* a, const float* b, float* d) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t B = shared_address(shared);
  const int t = static_cast<int>(threadIdx.x), w = t / 32, l = t % 32;
  for (int i = t; i < 8 * 64; i += 128) {
    const int k = i / 64, n = i % 64;
    store_shared(
        B + static_cast<std::uint32_t>(256 * (n / 8) + 128 * (k / 4) + 16 * (n % 8) + 4 * (k % 4)),
        b[i]);
  }
  fence_async_proxy();
  __syncthreads();
  const auto operand = [&](int row, int k) { return wgmma::tf32_of(a[(16 * w + row) * 8 + k]); };
  const std::uint32_t registers[4] = {operand(l / 4, l % 4), operand(l / 4 + 8, l % 4),
                                      operand(l / 4, l % 4 + 4), operand(l / 4 + 8, l % 4 + 4)};
  float sums[32];
  for (float& sum : sums) sum = 1;
  wgmma::registers_ready();
  wgmma::multiply_rs_n64_tf32(sums, registers, wgmma::k_major_plain(B, 128, 256), true);
  wgmma::commit();
  wgmma::wait<0>();
  for (int j = 0; j < 8; ++j)
    for (int e = 0; e < 4; ++e)
      d[(16 * w + l / 4 + 8 * (e / 2)) * 64 + 8 * j + 2 * (l % 4) + e % 2] = sums[4 * j + e];
}

TEST(EmulatedHopper, ProductsOfTf32KeepElevenBits) {
  std::mt19937 random(12);
  std::vector<float> a(64 * 8), rounded(64 * 8), b(8 * 64), d(64 * 64);
  for (std::size_t i = 0; i < a.size(); ++i) {
    // of a number of three bits: half a unit of the eleventh bit behind it, which goes away from zero, or a quarter
    const float number =
        static_cast<float>(static_cast<int>(random() % 4) + 4) * (random() % 2 == 0 ? 1.0f : -1.0f);
    const float unit = 4 * 0x1p-10f, part = static_cast<float>(random() % 3) / 4;
    a[i] = number * (1 + part * unit / std::abs(number));
    rounded[i] = number + (part == 0.5f ? std::copysign(unit, number) : 0.0f);
  }
  for (float& x : b) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
  cudaFuncSetAttribute(tf32_product_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 8192);
  launch_kernel(tf32_product_kernel, 1, 128, 8192, nullptr, a.data(), b.data(), d.data());
  for (std::size_t m = 0; m < 64; ++m) {
    for (std::size_t n = 0; n < 64; ++n) {
      float sum = 1;
      for (std::size_t k = 0; k < 8; ++k) sum += rounded[m * 8 + k] * b[k * 64 + n];
      ASSERT_EQ(d[m * 64 + n], sum) << m << "," << n;
    }
  }
}

__global__ void matrix_stores_kernel(std::uint16_t* plain, std::uint16_t* transposed) {
  GDN_DYNAMIC_SHARED_MEMORY(shared, 1024);
  const std::uint32_t base = shared_address(shared), lane = threadIdx.x;
  const auto pair = [&](std::uint32_t matrix) {
    const std::uint32_t first = 64 * matrix + 2 * lane;
    return first | (first + 1) << 16;
  };
  store_matrix_x4(base + 16 * lane, pair(0), pair(1), pair(2), pair(3));
  __syncwarp();
  for (std::uint32_t i = lane; i < 256; i += 32)
    plain[i] = load_shared<std::uint16_t>(base + 2 * i);
  __syncwarp();
  store_matrix_x4_trans(base + 16 * lane, pair(0), pair(1), pair(2), pair(3));
  __syncwarp();
  for (std::uint32_t i = lane; i < 256; i += 32) {
    transposed[i] = load_shared<std::uint16_t>(base + 2 * i);
  }
}

TEST(EmulatedHopper, MatrixStoresPlaceEachLanesPairs) {
  std::vector<std::uint16_t> plain(256), transposed(256);
  launch_kernel(matrix_stores_kernel, 1, 32, 1024, nullptr, plain.data(), transposed.data());
  for (unsigned int i = 0; i < 256; ++i) {
    const unsigned int row = i / 8 % 8, column = i % 8;
    EXPECT_EQ(plain[i], i);
    EXPECT_EQ(transposed[i], i / 64 * 64 + 8 * column + row);
  }
}

// The outer warps wait for what the middle warp of the other block writes, so that either block's processor
// would be kept by a warp that waits, whichever comes first.
__global__ void flags_of_the_other_block_kernel(int* flags) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  if (threadIdx.x % 32 != 0) return;
  if (warp == 1) {
    store_release(flags + blockIdx.x, 1);
  } else {
    while (load_acquire(flags + (1 - blockIdx.x)) == 0) {
    }
  }
}

TEST(EmulatedHopper, AThreadThatWaitsForAnotherBlockLetsItsOwnGoOn) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "blocks run one after the other";
  for (const ThreadOrder order :
       {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::random}) {
    cuda_grid::set_execution_options({order, 1});
    std::vector<int> flags(2);
    EXPECT_EQ(failure_of([&] {
                launch_kernel(flags_of_the_other_block_kernel, 2, 96, 0, nullptr, flags.data());
              }),
              "");
    EXPECT_EQ(flags[0] + flags[1], 2);
  }
  cuda_grid::set_execution_options({});
}

}  // namespace
}  // namespace gdn::cuda_emulated::hopper
