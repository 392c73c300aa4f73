#include "harness/gfx906/analysis/experiments.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "harness/gfx906/analysis/kernels.h"
#include "harness/gfx906/analysis/params.h"
#include "harness/gfx906/analysis/table.h"
#include "hip/emulator_device.h"
#include "hip/kernel_launcher.h"

namespace gdn::hip {
namespace {

std::vector<float> random_values(std::size_t count, double spread, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {  // no distribution of the library: the same on every machine
    value = static_cast<float>(spread * (static_cast<double>(random()) / 2147483648.0 - 1));
  }
  return values;
}
DeviceBuffer on_device(Device& device, const std::vector<float>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
  DeviceBuffer buffer = device.allocate(bytes);
  device.upload(buffer.data(), values.data(), bytes);
  return buffer;
}
double relative_l2(const float* result, const std::vector<double>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (result[i] - expected[i]) * (result[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}
std::string thousands(std::uint64_t count) {
  return fmt::format("{:.1f}", static_cast<double>(count) / 1e3);
}
std::uint64_t count_of(const gfx906::Counters& counters, const std::string& mnemonic) {
  const auto found = counters.by_mnemonic.find(mnemonic);
  return found == counters.by_mnemonic.end() ? 0 : found->second;
}
std::uint64_t units(const gfx906::Counters& counters, gfx906::Unit unit) {
  return counters.instructions[static_cast<std::size_t>(unit)];
}

}  // namespace

std::vector<Experiment> run_solves(int systems) {
  constexpr int n = 64;
  const std::vector<float> lower =
      random_values(static_cast<std::size_t>(systems) * n * n, 0.125, 1);
  std::vector<double> expected(n * n, 0.0);  // of the first system
  for (int column = 0; column < n; ++column) {
    for (int i = 0; i < n; ++i) {
      double x = i == column ? 1 : 0;
      for (int j = 0; j < i; ++j) {
        x -= lower[static_cast<std::size_t>(i * n + j)] *
             expected[static_cast<std::size_t>(j * n + column)];
      }
      expected[static_cast<std::size_t>(i * n + column)] = x;
    }
  }
  add_analysis_kernels();
  std::vector<Experiment> results;
  for (const char* variant : {"shuffle", "readlane", "column"}) {
    const auto device = open_emulator();
    const DeviceBuffer from = on_device(*device, lower);
    const DeviceBuffer to = device->allocate(from.bytes());
    const SolveParams params{from.as<float>(), to.as<float>()};
    device->time_launch({}, [&] {
      launcher_of(*device).launch(std::string("solve_by_") + variant,
                                  {static_cast<std::uint32_t>(systems), 1, 1}, {64, 1, 1}, &params,
                                  sizeof(params));
    });
    results.push_back(
        {variant, modelled_launches(*device).front(), relative_l2(to.as<float>(), expected)});
  }
  return results;
}

std::string solve_table(const std::vector<Experiment>& results) {
  MarkdownTable table({"a wave solves", "VALU instructions", "ds_bpermute", "v_readlane",
                       "LDS reads", "LDS cycles", "path of a system, cycles", "modelled us"});
  const auto named = [](const std::string& variant) -> std::string {
    if (variant == "shuffle") return "a row per lane, solved value by `__shfl`";
    if (variant == "readlane") return "a row per lane, solved value by `v_readlane`";
    return "a right-hand side per lane, matrix from LDS";
  };
  for (const Experiment& result : results) {
    const gfx906::Counters& counters = result.launch.counters;
    const std::uint64_t n = counters.workgroups;
    const std::uint64_t valu = units(counters, gfx906::Unit::vector);
    table.add({named(result.variant), fmt::format("{}", valu / n),
               fmt::format("{}", count_of(counters, "ds_bpermute_b32") / n),
               fmt::format("{}", count_of(counters, "v_readlane_b32") / n),
               fmt::format("{}", units(counters, gfx906::Unit::lds) / n),
               fmt::format("{}", counters.lds_cycles / n),
               fmt::format("{}", counters.path_cycles / n),
               fmt::format("{:.1f}", result.launch.time.execution_us())});
  }
  return table.text();
}

namespace {

/// The first head's state after all its rows, `rows` of them at a time, in float64.
std::vector<double> state_after(const std::vector<float>& carried, const std::vector<float>& key,
                                const std::vector<float>& initial, int chunks, int rows) {
  constexpr std::size_t n = 128;
  std::vector<double> state(initial.begin(), initial.begin() + n * n);
  const auto step = static_cast<std::size_t>(rows);
  std::vector<double> product(step * n);
  for (std::size_t first = 0; first < static_cast<std::size_t>(chunks) * 64; first += step) {
    for (std::size_t t = 0; t < step; ++t) {
      for (std::size_t v = 0; v < n; ++v) {
        double sum = 0;
        for (std::size_t k = 0; k < n; ++k) sum += carried[(first + t) * n + k] * state[k * n + v];
        product[t * n + v] = sum;
      }
    }
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t v = 0; v < n; ++v) {
        for (std::size_t t = 0; t < step; ++t) {
          state[k * n + v] += key[(first + t) * n + k] * product[t * n + v];
        }
      }
    }
  }
  return state;
}

}  // namespace

std::vector<Experiment> run_state_placements(int heads, int chunks) {
  constexpr std::size_t kState = 128 * 128, kTile = 64 * 128;
  const std::size_t tokens = static_cast<std::size_t>(heads * chunks) * kTile;
  const std::vector<float> carried = random_values(tokens, 0.02, 1);
  const std::vector<float> key = random_values(tokens, 0.02, 2);
  const std::vector<float> state = random_values(static_cast<std::size_t>(heads) * kState, 1, 3);
  add_analysis_kernels();
  std::vector<Experiment> results;
  for (const char* variant : {"in_lds", "in_tiles", "streamed", "in_registers"}) {
    const auto device = open_emulator();
    const DeviceBuffer w = on_device(*device, carried), k = on_device(*device, key);
    const DeviceBuffer s = on_device(*device, state);
    const DeviceBuffer p = device->allocate(static_cast<std::int64_t>(heads * kTile * 4));
    const StateParams params{w.as<float>(), k.as<float>(), s.as<float>(), p.as<float>(), chunks, 0};
    device->time_launch({}, [&] {
      launcher_of(*device).launch(std::string("state_") + variant,
                                  {static_cast<std::uint32_t>(heads), 1, 1}, {256, 1, 1}, &params,
                                  sizeof(params));
    });
    const int rows = std::string(variant) == "in_registers" ? 32 : 64;
    results.push_back({variant, modelled_launches(*device).front(),
                       relative_l2(s.as<float>(), state_after(carried, key, state, chunks, rows))});
  }
  return results;
}

std::string state_table(const std::vector<Experiment>& results) {
  MarkdownTable table({"state", "VALU instructions, 10^3", "LDS reads and writes, 10^3",
                       "LDS cycles, 10^3 (conflicts)", "memory MB asked for", "cache lines, 10^3",
                       "path, 10^3 cycles", "modelled us", "bound"});
  const auto named = [](const std::string& variant) -> std::string {
    if (variant == "in_lds") return "A: all of it in LDS";
    if (variant == "in_tiles") return "B: 32 x 128 at a time in LDS";
    if (variant == "streamed") return "C: streamed from memory";
    return "in registers, 32 rows at a time";
  };
  for (const Experiment& result : results) {
    const gfx906::Counters& counters = result.launch.counters;
    const std::uint64_t n = counters.workgroups;
    table.add({named(result.variant), thousands(units(counters, gfx906::Unit::vector) / n),
               thousands(units(counters, gfx906::Unit::lds) / n),
               fmt::format("{} ({})", thousands(counters.lds_cycles / n),
                           thousands(counters.lds_conflict_cycles / n)),
               fmt::format("{:.2f}", static_cast<double>(counters.global_bytes_read +
                                                         counters.global_bytes_written) /
                                         static_cast<double>(n) / 1e6),
               thousands(counters.global_lines / n), thousands(counters.path_cycles / n),
               fmt::format("{:.0f}", result.launch.time.execution_us()),
               result.launch.time.bound()});
  }
  return table.text();
}

}  // namespace gdn::hip
