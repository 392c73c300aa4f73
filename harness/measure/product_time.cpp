#include "harness/measure/product_time.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "interface/error.h"

namespace gdn {
namespace {

// Small integers: exact in every element type, and in sums of any order. Rows repeat, and columns
// of B.
constexpr std::int64_t kPeriodOfA = 3, kPeriodOfB = 7, kColumnPeriod = 5;
float entry_of_a(std::int64_t row, std::int64_t inner) {
  return static_cast<float>((row % kPeriodOfA + inner) % 4) - 1.0f;
}
float entry_of_b(std::int64_t inner, std::int64_t column) {
  return static_cast<float>((inner * 3 + column % kColumnPeriod) % 7) - 3.0f;
}

template <typename Entry>
DeviceBuffer filled(Device& device, DType dtype, std::int64_t rows, std::int64_t columns,
                    std::int64_t period, const Entry& entry) {
  const std::int64_t row_bytes = columns * static_cast<std::int64_t>(size_of(dtype));
  std::vector<float> values(static_cast<std::size_t>(columns));
  std::vector<std::byte> stored(static_cast<std::size_t>(rows * row_bytes));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::byte* const row = stored.data() + r * row_bytes;
    if (r >= period) {
      std::memcpy(row, row - period * row_bytes, static_cast<std::size_t>(row_bytes));
      continue;
    }
    for (std::int64_t c = 0; c < columns; ++c) values[static_cast<std::size_t>(c)] = entry(r, c);
    encode(dtype, values.data(), row, columns);
  }
  DeviceBuffer buffer = device.allocate(static_cast<std::int64_t>(stored.size()));
  device.upload(buffer.data(), stored.data(), buffer.bytes());
  return buffer;
}

// Whole rows, first, middle and last: a block of columns left out shows in each of them.
void check(const MatrixProduct& product, Device& device, const DeviceBuffer& result) {
  const double tolerance = product.dtype == DType::float32 ? 1e-5 : 1e-2;
  const std::int64_t row_bytes =
      product.columns * static_cast<std::int64_t>(size_of(product.dtype));
  std::vector<std::byte> stored(static_cast<std::size_t>(row_bytes));
  std::vector<float> values(static_cast<std::size_t>(product.columns));
  for (const std::int64_t row : {std::int64_t{0}, product.rows / 2, product.rows - 1}) {
    device.download(stored.data(), static_cast<const std::byte*>(result.data()) + row * row_bytes,
                    row_bytes);
    decode(product.dtype, stored.data(), values.data(), product.columns);
    double expected_of[kColumnPeriod] = {}, size_of_terms[kColumnPeriod] = {};
    for (std::int64_t column = 0; column < kColumnPeriod; ++column) {
      for (std::int64_t i = 0; i < product.inner; ++i) {
        const double term = static_cast<double>(entry_of_a(row, i)) * entry_of_b(i, column);
        expected_of[column] += term;
        size_of_terms[column] += std::abs(term);
      }
    }
    for (std::int64_t column = 0; column < product.columns; ++column) {
      const double expected = expected_of[column % kColumnPeriod];
      const double size = size_of_terms[column % kColumnPeriod];
      const double found = values[static_cast<std::size_t>(column)];
      if (!(std::abs(found - expected) <= tolerance * size)) {
        throw Error(ErrorKind::device_failure,
                    fmt::format("product {}x{}x{}: entry [{}, {}] is {}, expected {}", product.rows,
                                product.columns, product.inner, row, column, found, expected));
      }
    }
  }
}

}  // namespace

ProductTime time_product(const MatrixProduct& product, Device& device,
                         const MeasureOptions& options) {
  const DeviceBuffer a =
      filled(device, product.dtype, product.rows, product.inner, kPeriodOfA, entry_of_a);
  const DeviceBuffer b =
      filled(device, product.dtype, product.inner, product.columns, kPeriodOfB, entry_of_b);
  const std::int64_t entries = product.rows * product.columns;
  const DeviceBuffer c =
      device.allocate(entries * static_cast<std::int64_t>(size_of(product.dtype)));
  const auto multiply = matrix_product(device, product, a.data(), b.data(), c.data());
  if (!multiply) {
    throw Error(ErrorKind::unsupported,
                fmt::format("dense products in {} on {}: no matrix library for them here",
                            long_name(product.dtype), device.info().backend));
  }
  const auto prepare = [&] {
    if (options.mode == CacheMode::cold) device.flush_cache_async();
  };
  device.time_launch(prepare, multiply);  // the first call sets up
  device.fill_async(c.data(), 0xff, c.bytes());
  StoppingRule rule(options.stopping);
  std::vector<TimeSample> samples;
  const auto begin = std::chrono::steady_clock::now();
  StopReason stop = StopReason::none;
  while (stop == StopReason::none) {
    samples.push_back(device.time_launch(prepare, multiply));
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    stop = rule.add(samples.back().time_ms, wall.count());
  }
  device.synchronize();
  check(product, device, c);

  ProductTime result;
  result.time_ms =
      summarize(counted_times_ms(samples, tag_throttled(samples, options.throttle_fraction)));
  const double flops = 2.0 * static_cast<double>(product.rows) *
                       static_cast<double>(product.columns) * static_cast<double>(product.inner);
  result.tflops = flops / result.time_ms.median * 1e-9;
  return result;
}

}  // namespace gdn
