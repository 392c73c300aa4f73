// Executes a few lines of assembler text on one wave: the instructions under test, nothing around
// them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "hip/emulator/emulator.h"

namespace gdn::gfx906 {

class WaveTest : public testing::Test {
 protected:
  WaveTest() : wave_(std::make_unique<Wave>()) { clear(*wave_); }

  Wave& wave() { return *wave_; }

  void set_lanes(int reg, const std::function<std::uint32_t(int)>& value) {
    for (int lane = 0; lane < kLanes; ++lane) {
      wave().v[reg][lane] = value(lane);
    }
    wave().v_defined[reg] = kAllLanes;
  }
  void set_floats(int reg, const std::function<float(int)>& value) {
    set_lanes(reg, [&](int lane) { return std::bit_cast<std::uint32_t>(value(lane)); });
  }
  void set_doubles(int reg, const std::function<double(int)>& value) {
    set_lanes(reg, [&](int lane) {
      return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(value(lane)));
    });
    set_lanes(reg + 1, [&](int lane) {
      return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(value(lane)) >> 32);
    });
  }
  std::uint32_t lane(int reg, int index) { return wave().v[reg][index]; }
  float lane_float(int reg, int index) { return std::bit_cast<float>(wave().v[reg][index]); }
  std::uint64_t lane64(int reg, int index) {
    return wave().v[reg][index] | static_cast<std::uint64_t>(wave().v[reg + 1][index]) << 32;
  }

  /// Runs the lines, then s_endpgm. Global memory is the ranges given; LDS is kept between calls.
  void run(const std::string& lines, const std::vector<MemoryRange>& global = {}) {
    kernel_.name = "listing";
    kernel_.code = decode_listing(lines + "\ns_endpgm\n");
    for (const Instruction& instruction : kernel_.code) {
      ASSERT_NE(instruction.execute, nullptr) << "not known: " << instruction.text;
    }
    ranges_ = global;
    if (!context_) {
      context_ = std::make_unique<Context>(
          Context{kernel_, ranges_, options_, 0, {}, {}, {}, {}, 0, 0, {}, {}});
      context_->lds.reset(1024);
    }
    context_->last_range = {};
    wave().pc = 0;
    wave().state = WaveState::running;
    execute_wave(*context_, wave());
  }
  std::uint64_t num_faults() const { return context_->num_faults; }
  const std::vector<Fault>& faults() const { return context_->faults; }
  Context& context() { return *context_; }

  LaunchOptions options_;

 private:
  Kernel kernel_;
  std::vector<MemoryRange> ranges_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Wave> wave_;
};

}  // namespace gdn::gfx906
