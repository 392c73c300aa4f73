// The emulator as a Device.
#include "hip/emulator_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/kernel_launcher.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

TEST(EmulatorDevice, OpensByNameAndSaysItsTimesAreModelled) {
  const auto device = open_device("gfx906-emulator");
  EXPECT_EQ(device->info().backend, "gfx906-emulator");
  EXPECT_TRUE(device->info().modelled_time);
  EXPECT_EQ(device->ceilings().copy_tb_per_s, 0);
}

TEST(EmulatorDevice, MemoryIsCountedAndBounded) {
  const auto device = open_emulator();
  const std::int64_t free = device->free_memory_bytes();
  {
    const DeviceBuffer buffer = device->allocate(1000);
    EXPECT_EQ(device->free_memory_bytes(), free - 1000);
    const std::vector<char> sent(1000, 'x');
    std::vector<char> received(1000, ' ');
    device->upload(buffer.data(), sent.data(), 1000);
    device->fill_async(buffer.as<char>() + 500, 'y', 500);
    device->download(received.data(), buffer.data(), 1000);
    EXPECT_EQ(received[499], 'x');
    EXPECT_EQ(received[500], 'y');
  }
  EXPECT_EQ(device->free_memory_bytes(), free);
  try {
    (void)device->allocate(free + 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
}

TEST(EmulatorDevice, RefusesPlansOfOtherBackendsAndOthersRefuseIt) {
  const auto cpu = open_device("cpu");
  EXPECT_THROW((void)launcher_of(*cpu), Error);
  const Problem problem = Problem::parse("gated_delta:heads=1,dim=32,seq=4,dtype=f32");
  const Case inputs = generate_case(problem);
  EXPECT_THROW(
      (void)execute(find_implementation(gated_delta_operation(), "hip/naive"), inputs, *cpu),
      Error);
}

/// A kernel's modelled time is positive and the same on every run; more work takes longer.
TEST(EmulatorDevice, ModelledTimesAreRepeatableAndGrowWithTheWork) {
  const Implementation& fused = find_implementation(gated_delta_operation(), "hip/fused");
  const auto time_of = [&](const std::string& lengths) {
    const auto device = open_emulator();
    const Case inputs =
        generate_case(Problem::parse("gated_delta:heads=1,dim=64,dtype=f32,seq=" + lengths));
    DeviceCase on_device(inputs, *device);
    const auto plan = fused.plan(inputs.problem, on_device.arguments(), *device);
    return device->time_launch([&] { on_device.reset_async(); }, [&] { plan->run(); }).time_ms;
  };
  const double once = time_of("64");
  EXPECT_GT(once, 0);
  EXPECT_EQ(once, time_of("64"));
  EXPECT_GT(time_of("128"), once);
}

TEST(EmulatorDevice, CountsWhatWasExecuted) {
  gfx906::LaunchOptions options;
  options.profile = true;
  const auto device = open_emulator(options);
  const Case inputs =
      generate_case(Problem::parse("gated_delta:heads=1,dim=64,dtype=f32,seq=33,gates=mid"));
  (void)execute(find_implementation(gated_delta_operation(), "hip/fused"), inputs, *device);
  const gfx906::Counters& counters = emulator_counters(*device);
  EXPECT_EQ(counters.workgroups, 1u);
  EXPECT_EQ(counters.waves, 4u);
  EXPECT_EQ(counters.barriers, 2u * 5u);  // two chunks
  EXPECT_GT(counters.by_mnemonic.at("ds_read_b128"), 0u);
  EXPECT_GT(counters.global_lines, 33u * 64u * 4u * 3u / 64u);
  EXPECT_GT(counters.path_cycles, 0u);
}

}  // namespace
}  // namespace gdn::hip
