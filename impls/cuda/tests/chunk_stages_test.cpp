// The CUDA chunkwise kernels: what they cover, which needs no device; and their stages on their
// own: the triangular inverse by its normalised residual (LAPACK's ratio), and the float32 block
// product against float64.
#include "chunk_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda/cuda_device.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta.h"
#include "interface/problem.h"

namespace gdn {
namespace {

using Matrix = std::vector<float>;  // row-major C x C

double infinity_norm(const Matrix& a, int C) {
  double norm = 0;
  for (int i = 0; i < C; ++i) {
    double sum = 0;
    for (int j = 0; j <= i; ++j) sum += std::abs(static_cast<double>(a[i * C + j]));
    norm = std::max(norm, sum);
  }
  return norm;
}

// ||L T - I|| / (C eps ||L|| ||T||) over the lower triangle; NaN when T holds one.
double normalised_residual(const Matrix& L, const Matrix& T, int C) {
  double worst = 0;
  for (int i = 0; i < C; ++i) {
    double row = 0;
    for (int j = 0; j <= i; ++j) {
      double sum = i == j ? -1 : 0;
      for (int k = j; k <= i; ++k) {
        sum += static_cast<double>(L[i * C + k]) * static_cast<double>(T[k * C + j]);
      }
      row += std::abs(sum);
    }
    if (!(row <= worst)) worst = row;
  }
  return worst / (C * 0x1p-24 * infinity_norm(L, C) * infinity_norm(T, C));
}

// L = I + strict_lower(beta <k_i, k_j>).
Matrix from_keys(int C, double beta, const std::function<double(int, int)>& inner_product) {
  Matrix L(static_cast<std::size_t>(C) * C, 0.0f);
  for (int i = 0; i < C; ++i) {
    for (int j = 0; j < i; ++j) L[i * C + j] = static_cast<float>(beta * inner_product(i, j));
    L[i * C + i] = 1;
  }
  return L;
}

Support support(const std::string& name, const std::string& problem) {
  return find_implementation(gated_delta_operation(), name)
      .supports(Problem::parse("gated_delta:" + problem));
}

TEST(ChunkwiseSupport, CoversEveryDtypeDimAndChunk) {
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    for (const std::string dim : {"64x64", "128x128", "96x192", "256x256", "200x400"}) {
      for (const std::string chunk : {"16", "32", "64", "128", "auto"}) {
        const std::string problem = "dim=" + dim + ",dtype=" + dtype + ",chunk=" + chunk;
        const bool too_large = dtype == "f32" && chunk == "128" && dim == "256x256";
        const Support chunkwise = support("cuda/chunkwise", problem);
        EXPECT_EQ(chunkwise.ok, !too_large) << problem << ": " << chunkwise.reason;
        const bool fused_chunk = chunk != "128" && !(chunk == "64" && dtype == "f32");
        const Support fused = support("cuda/fused", problem);
        EXPECT_EQ(fused.ok, fused_chunk) << problem << ": " << fused.reason;
      }
    }
  }
}

TEST(ChunkwiseSupport, GivesReasonsInWords) {
  for (const std::string name : {"cuda/chunkwise", "cuda/fused"}) {
    EXPECT_NE(support(name, "dim=264,dtype=bf16").reason.find("Dk=264"), std::string::npos);
    EXPECT_NE(support(name, "dim=60x100,dtype=bf16").reason.find("multiple of 8"),
              std::string::npos);
    EXPECT_NE(support(name, "dim=64,chunk=48").reason.find("chunk=48"), std::string::npos);
  }
  EXPECT_NE(support("cuda/chunkwise", "dim=256,chunk=128").reason.find("shared memory"),
            std::string::npos);
}

class ChunkStages : public testing::Test {
 protected:
  void SetUp() override {
    const BackendStatus status = cuda::status();
    if (!status.available) GTEST_SKIP() << status.detail;
  }
};

TEST_F(ChunkStages, TriangularInverseHasAResidualOfRounding) {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  for (const int C : {16, 32, 64, 128}) {
    std::vector<std::pair<std::string, Matrix>> cases;
    cases.emplace_back("identity", from_keys(C, 0, [](int, int) { return 0.0; }));
    for (const double beta : {1.0, 2.0}) {
      const std::string of = ", beta=" + std::to_string(beta);
      cases.emplace_back("equal keys" + of, from_keys(C, beta, [](int, int) { return 1.0; }));
      cases.emplace_back("alternating keys" + of, from_keys(C, beta, [](int i, int j) {
                           return (i - j) % 2 == 0 ? 1.0 : -1.0;
                         }));
      cases.emplace_back("correlated keys" + of, from_keys(C, beta, [&](int, int) {
                           return 0.9 + 0.05 * normal(generator);
                         }));
    }
    cases.emplace_back("random keys",
                       from_keys(C, 1, [&](int, int) { return normal(generator) / 11.3; }));
    cases.emplace_back("growing inverse",
                       from_keys(C, 1, [&](int, int) { return 0.5 * normal(generator); }));
    for (const auto& [name, L] : cases) {
      const Matrix T = test::invert_unit_lower_on_cuda(L, C);
      const double residual = normalised_residual(L, T, C);
      EXPECT_TRUE(residual <= 1) << name << ", C=" << C << ": residual " << residual;
    }
  }
}

TEST_F(ChunkStages, ResetsLeaveExactZerosInTheInverse) {
  constexpr int C = 64;
  // tokens from 40 on do not see earlier ones
  const Matrix L = from_keys(C, 1, [](int i, int j) { return (i >= 40) == (j >= 40) ? 0.5 : 0.0; });
  const Matrix T = test::invert_unit_lower_on_cuda(L, C);
  for (int i = 40; i < C; ++i) {
    for (int j = 0; j < 40; ++j) EXPECT_EQ(T[i * C + j], 0.0f) << i << ", " << j;
  }
}

TEST_F(ChunkStages, Float32ProductsHaveTheErrorOfFloat32) {
  std::mt19937 generator(11);
  std::normal_distribution<float> normal;
  for (const bool transposed : {false, true}) {
    for (const int columns : {16, 128, 4096}) {
      std::vector<float> A(static_cast<std::size_t>(16) * columns), B(A.size());
      for (float& x : A) x = normal(generator);
      for (float& x : B) x = normal(generator);
      const std::vector<float> sums = test::multiply_blocks_on_cuda(A, B, transposed);
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; ++j) {
          double exact = 0, magnitude = 0;
          for (int k = 0; k < columns; ++k) {
            const double term = static_cast<double>(A[i * columns + k]) * B[j * columns + k];
            exact += term;
            magnitude += std::abs(term);
          }
          const double error = std::abs(sums[i * 16 + j] - exact);
          // a product keeps 21 bits; each sum of 16 rounds the growing total once
          const double bound = (0x1p-21 + columns / 16 * 0x1p-24) * magnitude;
          EXPECT_TRUE(error <= bound) << columns << " columns, transposed " << transposed << ", ("
                                      << i << ", " << j << "): " << error / magnitude;
        }
      }
    }
  }
}

TEST_F(ChunkStages, ProductsKeepNaNAndInfinity) {
  std::vector<float> A(256, 1.0f), B(256, 1.0f);
  A[5] = std::numeric_limits<float>::quiet_NaN();
  B[16 * 3] = std::numeric_limits<float>::infinity();
  const std::vector<float> sums = test::multiply_blocks_on_cuda(A, B, false);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      const float sum = sums[i * 16 + j];
      EXPECT_EQ(std::isfinite(sum), i != 0 && j != 3) << i << ", " << j << ": " << sum;
    }
  }
}

}  // namespace
}  // namespace gdn
