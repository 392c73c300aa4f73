#include "cpu/matrix_product.h"

#include <algorithm>

#include "cpu/parallel.h"

namespace gdn::cpu {
namespace {

constexpr std::int64_t kColumnsPerBlock = 256;

}  // namespace

std::function<void()> matrix_product(const MatrixProduct& product, const void* a, const void* b,
                                     void* c) {
  if (product.dtype != DType::float32) return nullptr;
  const auto multiply = version_for(instruction_set(), GDN_CPU_VERSIONS(multiply_columns));
  const int workers = thread_count();
  const std::int64_t blocks = (product.columns + kColumnsPerBlock - 1) / kColumnsPerBlock;
  return [=] {
    parallel_for(blocks, workers, [&](std::int64_t block, int) {
      const std::int64_t first = block * kColumnsPerBlock;
      multiply(product, static_cast<const float*>(a), static_cast<const float*>(b),
               static_cast<float*>(c), first, std::min(first + kColumnsPerBlock, product.columns));
    });
  };
}

}  // namespace gdn::cpu
