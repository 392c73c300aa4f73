#include "cpu/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "cpu/instruction_set.h"
#include "cpu/parallel.h"

namespace gdn::cpu {
namespace {

template <typename Body>
double best_seconds(int repetitions, const Body& body) {
  double best = 1e300;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (repetition > 0) best = std::min(best, taken.count());  // the first one warms up
  }
  return best;
}

double copy_tb_per_s(std::int64_t last_level_cache_bytes, std::int64_t free_memory_bytes) {
  // Source and destination together are twice the cache, so that streaming through them leaves
  // nothing of one pass to the next; never more than a quarter of the free memory.
  const std::int64_t bytes =
      std::clamp<std::int64_t>(last_level_cache_bytes, std::int64_t{64} << 20,
                               std::max<std::int64_t>(free_memory_bytes / 8, 1 << 20));
  const auto source = std::make_unique<unsigned char[]>(static_cast<std::size_t>(bytes));
  const auto destination = std::make_unique<unsigned char[]>(static_cast<std::size_t>(bytes));
  const int workers = thread_count();
  const double seconds = best_seconds(3, [&] {
    parallel_for(workers, workers, [&](std::int64_t part, int) {
      const std::int64_t first = bytes * part / workers;
      const std::int64_t last = bytes * (part + 1) / workers;
      std::memcpy(destination.get() + first, source.get() + first,
                  static_cast<std::size_t>(last - first));
    });
  });
  return 2.0 * static_cast<double>(bytes) / seconds * 1e-12;
}

double float32_tflops() {
  constexpr std::int64_t size = 256;  // three operands of 256 KiB: in the second-level cache
#ifdef __SANITIZE_ADDRESS__  // no figure of such a build is used, and every command that times would take 5 s for it
  constexpr int products = 1;
#else
  constexpr int products = 32;
#endif
  const auto multiply_add = version_for(instruction_set(), GDN_CPU_VERSIONS(multiply_add_square));
  const int workers = thread_count();
  struct Operands {
    std::vector<float> a = std::vector<float>(size * size, 0.5f);
    std::vector<float> b = std::vector<float>(size * size, 0.25f);
    std::vector<float> c = std::vector<float>(size * size, 0.0f);
  };
  std::vector<Operands> operands(static_cast<std::size_t>(workers));
  const double seconds = best_seconds(5, [&] {
    parallel_for(workers, workers, [&](std::int64_t item, int) {
      Operands& o = operands[static_cast<std::size_t>(item)];
      for (int i = 0; i < products; ++i) {
        multiply_add(o.a.data(), o.b.data(), o.c.data(), size);
      }
    });
  });
  return 2.0 * size * size * size * products * workers / seconds * 1e-12;
}

}  // namespace

Device::Ceilings measured_ceilings(std::int64_t last_level_cache_bytes,
                                   std::int64_t free_memory_bytes) {
  static const Device::Ceilings ceilings = [&] {
    Device::Ceilings measured;
    measured.copy_tb_per_s = copy_tb_per_s(last_level_cache_bytes, free_memory_bytes);
    measured.float32_tflops = float32_tflops();
    return measured;
  }();
  return ceilings;
}

}  // namespace gdn::cpu
