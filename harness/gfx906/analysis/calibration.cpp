#include "harness/gfx906/analysis/calibration.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/gfx906/analysis/kernels.h"
#include "harness/gfx906/analysis/params.h"
#include "harness/gfx906/analysis/table.h"
#include "hip/emulator_device.h"
#include "hip/kernel_launcher.h"

namespace gdn::hip {
namespace {

constexpr std::uint32_t kGroups = 120;  // two for each CU
constexpr std::int64_t kItems = std::int64_t{kGroups} * 256;
constexpr std::int64_t kMemoryFloats = kItems * 4 * 4 * 16;  // 31 MB: well beyond the L2
constexpr std::int32_t kRounds = 4;
constexpr std::int32_t kRoundsBefore = 16;  // after which what is asked for is what bounds

class Runner {
 public:
  Runner()
      : device_(open_emulator()),
        sink_(device_->allocate(kItems * 4)),
        source_(device_->allocate(kMemoryFloats * 4)),
        destination_(device_->allocate(kMemoryFloats * 4)) {
    add_analysis_kernels();
    std::memset(source_.data(), 0, static_cast<std::size_t>(source_.bytes()));
  }
  const gfx906::CardModel card;

  /// Operations of the kernel's body per microsecond, over the whole card.
  double operations_per_us(const std::string& kernel) {
    return static_cast<double>(kItems) * kRounds * kBodyOperations / us_of_rounds(kernel);
  }
  /// Cycles per operation of one wave alone.
  double cycles_per_operation(const std::string& kernel) {
    return us_of_rounds(kernel, 1, 64) * card.clock_mhz / (kRounds * kBodyOperations);
  }
  double tb_per_s(const std::string& kernel, double bytes) {
    return bytes / execution_us(kernel, kRounds) / 1e6;
  }

 private:
  /// What stays in the L2 at the end is written back within it.
  double execution_us(const std::string& kernel, std::int32_t rounds,
                      std::uint32_t groups = kGroups, std::uint32_t items = 256) {
    const CalibrationParams params{
        sink_.as<float>(), source_.as<float>(), destination_.as<float>(), kMemoryFloats, rounds, 0};
    const TimeSample sample = device_->time_launch({}, [&] {
      launcher_of(*device_).launch("calibrate_" + kernel, {groups, 1, 1}, {items, 1, 1}, &params,
                                   sizeof(params));
    });
    return 1000 * sample.time_ms - card.dispatch_us;
  }
  /// Of kRounds rounds: what so many more take longer, so that start and end are left out.
  double us_of_rounds(const std::string& kernel, std::uint32_t groups = kGroups,
                      std::uint32_t items = 256) {
    return execution_us(kernel, kRoundsBefore + kRounds, groups, items) -
           execution_us(kernel, kRoundsBefore, groups, items);
  }

  std::unique_ptr<Device> device_;
  DeviceBuffer sink_;
  DeviceBuffer source_;
  DeviceBuffer destination_;
};

}  // namespace

double Calibration::miss() const {
  if (published_high == 0 || within()) return 0;
  return modelled / (modelled < published_low ? published_low : published_high) - 1;
}

std::vector<Calibration> calibrate() {
  Runner runner;
  const double tera = 1e-6;  // operations per microsecond to 1e12 per second
  const double fma32 = 2 * tera * runner.operations_per_us("fma_independent");
  const double bytes = static_cast<double>(kMemoryFloats) * 4;
  const auto lds = [&](const char* kernel, int read_bytes) {
    return read_bytes * tera * runner.operations_per_us(kernel);
  };
  // The figure measured on 64 CUs at 1730 MHz; the kernel is bound by the VALU, which scales.
  const double on_64_units = fma32 * 64 / runner.card.compute_units * 1730 / runner.card.clock_mhz;
  return {
      {"float32 FMA, peak", "TFLOP/s", 13.4, 13.4, "1", false, fma32},
      {"packed float16 FMA, peak", "TFLOP/s", 26.8, 26.8, "1", false,
       4 * tera * runner.operations_per_us("fma_packed_float16")},
      {"float64 FMA, peak", "TFLOP/s", 6.7, 6.7, "1", false,
       2 * tera * runner.operations_per_us("fma_float64")},
      {"float16 dot2 into float32", "TFLOP/s", 0, 0, "", false,
       4 * tera * runner.operations_per_us("dot2_float16")},
      {"float32 FMA, measured, 64 CUs at 1730 MHz", "TFLOP/s", 13.8, 13.8, "2", false, on_64_units},
      {"memory, reading", "TB/s", 0.880, 0.892, "2", true, runner.tb_per_s("memory_read", bytes)},
      {"memory, copying (read + written)", "TB/s", 0.713, 0.718, "2", true,
       runner.tb_per_s("memory_copy", 2 * bytes)},
      {"LDS reads of 16 bytes a lane", "TB/s", 9.5, 11.2, "3", false, lds("lds_read_b128", 16)},
      {"LDS reads of 8 bytes a lane", "TB/s", 4.3, 8.8, "3", false, lds("lds_read_b64", 8)},
      {"LDS reads of 4 bytes a lane", "TB/s", 1.9, 3.9, "3", false, lds("lds_read_b32", 4)},
      {"LDS reads, all lanes in one bank", "TB/s", 0, 0, "", false, lds("lds_read_conflict", 4)},
      {"lane exchange by ds_bpermute", "10^9/s", 962, 970, "3", true,
       1e-3 * runner.operations_per_us("exchange_bpermute")},
      {"lane exchange by DPP", "10^9/s", 1778, 1784, "3", false,
       1e-3 * runner.operations_per_us("exchange_dpp")},
      {"dispatch", "us", 4, 4, "2", true, runner.card.dispatch_us},
      {"dependent FMA", "cycles", 4, 4, "4", false, runner.cycles_per_operation("fma_dependent")},
      {"dependent LDS read (MI308X)", "cycles", 52, 64, "5", true,
       runner.cycles_per_operation("lds_chase")},
      {"dependent memory read (MI308X)", "cycles", 500, 800, "5", true,
       runner.cycles_per_operation("memory_chase")},
  };
}

std::string calibration_table(const std::vector<Calibration>& results) {
  MarkdownTable table({"quantity", "published", "source", "modelled", "unit", "verdict"});
  for (const Calibration& r : results) {
    const std::string published =
        r.published_high == 0 ? "none found"
        : r.published_low == r.published_high
            ? fmt::format("{:.4g}", r.published_low)
            : fmt::format("{:.4g} to {:.4g}", r.published_low, r.published_high);
    std::string verdict = r.published_high == 0 ? "-"
                          : r.within()          ? "within"
                                                : fmt::format("{:+.1f} %", 100 * r.miss());
    if (r.set_by) verdict += " (set by it)";
    table.add({r.quantity, published, r.source.empty() ? "-" : "[" + r.source + "]",
               fmt::format("{:.4g}", r.modelled), r.unit, verdict});
  }
  return table.text();
}

}  // namespace gdn::hip
