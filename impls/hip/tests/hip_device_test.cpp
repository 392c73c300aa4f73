// The device "hip" where there is no card: every way in which it cannot be opened, and, on a
// runtime that only pretends (fake_hip_runtime.cpp), what it asks of the runtime and what it says
// when a call fails.
#include "hip/hip_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "fake_hip_runtime.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/gated_delta/params.h"
#include "hip/kernel_launcher.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

TEST(HipDevice, SaysWhyItIsNotThere) {
  const BackendStatus found = status();
  EXPECT_EQ(found.backend, "hip");
  if (found.available) GTEST_SKIP() << "there is a gfx906 here: " << found.detail;
  EXPECT_NE(found.detail, "");
  try {
    (void)open_device("hip");
    FAIL() << "opened without a card";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device_unavailable);
    EXPECT_EQ(exit_code(error.kind()), 3);
    EXPECT_NE(std::string(error.what()).find(found.detail), std::string::npos) << error.what();
  }
}

/// Opening device `index` with this runtime library fails with exit code 3 and these words, and
/// status_with() says them too.
void expect_unavailable(const std::string& library, int index, const std::string& words) {
  try {
    (void)open_with(library, index);
    ADD_FAILURE() << "opened; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 3);
    EXPECT_NE(std::string(error.what()).find("device 'hip"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
  if (index != 0) return;
  const BackendStatus status = status_with(library);
  EXPECT_FALSE(status.available);
  EXPECT_NE(status.detail.find(words), std::string::npos) << status.detail;
}

TEST(HipDevice, AMissingForeignOrOldRuntimeLibraryIsNamed) {
  expect_unavailable("libamdhip64.so.no-such-version", 0, "no-such-version");
  expect_unavailable("libc.so.6", 0, "the HIP runtime has no function hip");
  expect_unavailable(GDN_FAKE_HIP_OLD_LIBRARY, 0, "the HIP runtime has no function hipGraph");
}

class FakeHip : public testing::Test {
 protected:
  FakeHip() { set("GDN_FAKE_HIP_CARDS", "gfx906:sramecc+:xnack-"); }
  ~FakeHip() override {
    set("GDN_FAKE_HIP_CARDS", "");
    set("GDN_FAKE_HIP_FAILS", "");
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static std::unique_ptr<Device> open_fake(int index = 0) {
    return open_with(GDN_FAKE_HIP_LIBRARY, index);
  }

  /// What the runtime was asked to do, in order: kernels and events.
  static std::vector<FakeHipLaunch> asked() {
    const auto count = function<decltype(&fake_hip_num_launches)>("fake_hip_num_launches");
    const auto launch = function<decltype(&fake_hip_launch)>("fake_hip_launch");
    std::vector<FakeHipLaunch> all;
    for (int i = 0; i < count(); ++i) all.push_back(*launch(i));
    function<decltype(&fake_hip_forget)>("fake_hip_forget")();
    return all;
  }
  template <typename Function>
  static Function function(const char* name) {
    void* library = dlopen(GDN_FAKE_HIP_LIBRARY, RTLD_NOW);
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

TEST_F(FakeHip, CardsOfOtherArchitecturesAreNamedAndNotCounted) {
  set("GDN_FAKE_HIP_CARDS", "");
  expect_unavailable(GDN_FAKE_HIP_LIBRARY, 0, "shows no device");
  set("GDN_FAKE_HIP_CARDS", "error");
  expect_unavailable(GDN_FAKE_HIP_LIBRARY, 0, "'fake words' (hipErrorNoDevice)");
  set("GDN_FAKE_HIP_CARDS", "gfx90a:xnack-,gfx1030");
  expect_unavailable(GDN_FAKE_HIP_LIBRARY, 0,
                     "no gfx906 among the HIP devices (gfx90a:xnack-, gfx1030)");
  set("GDN_FAKE_HIP_CARDS", "gfx90a,gfx906:sramecc+");
  expect_unavailable(GDN_FAKE_HIP_LIBRARY, 1, "'hip:1': this machine has 1 gfx906");
  const auto device = open_fake();
  EXPECT_EQ(device->info().backend, "hip");
  EXPECT_EQ(device->info().name, "Fake card (gfx906:sramecc+)");
  EXPECT_FALSE(device->info().modelled_time);
  EXPECT_TRUE(status_with(GDN_FAKE_HIP_LIBRARY).available);
}

TEST_F(FakeHip, LaunchesWhatThePlanSaysInsideTheEventsOfATimedRun) {
  const auto device = open_fake();
  const Case inputs =
      generate_case(Problem::parse("gated_delta:heads=1/2,dim=64x150,seq=40+3,dtype=f32"));
  DeviceCase on_device(inputs, *device);
  const auto plan = find_implementation(gated_delta_operation(), "hip/fused")
                        .plan(inputs.problem, on_device.arguments(), *device);
  asked();
  const TimeSample sample = device->time_launch({}, [&] { plan->run(); });
  EXPECT_EQ(sample.time_ms, 1.5);
  const std::vector<FakeHipLaunch> timed = asked();
  ASSERT_EQ(timed.size(), 4u);
  EXPECT_STREQ(timed[0].kernel, "hold_stream");
  EXPECT_STREQ(timed[1].kernel, "(event)");
  EXPECT_EQ(std::string(timed[2].kernel).rfind("fused_", 0), 0u) << timed[2].kernel;
  EXPECT_STREQ(timed[3].kernel, "(event)");
  EXPECT_EQ(timed[2].grid[1], 2u);  // value heads
  EXPECT_EQ(timed[2].grid[2], 2u);  // sequences
  EXPECT_EQ(timed[2].block[0], 256u);
  EXPECT_EQ(timed[2].argument_bytes, sizeof(GatedDeltaParams));

  const auto replay = device->capture([&] { plan->run(); });
  EXPECT_TRUE(asked().empty());
  replay();
  ASSERT_EQ(asked().size(), 1u);
}

TEST_F(FakeHip, MemoryGoesThereAndBackAndRunsOut) {
  const auto device = open_fake();
  const DeviceBuffer buffer = device->allocate(100), other = device->allocate(100);
  const std::vector<char> sent(100, 'x');
  std::vector<char> received(100, ' ');
  device->upload(buffer.data(), sent.data(), 100);
  device->fill_async(buffer.as<char>() + 50, 'y', 50);
  device->copy_async(other.data(), buffer.data(), 100);
  device->download(received.data(), other.data(), 100);
  EXPECT_EQ(received[49], 'x');
  EXPECT_EQ(received[50], 'y');
  EXPECT_EQ(device->allocate(0).data(), nullptr);
  try {
    (void)device->allocate(std::int64_t{1} << 40);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("1099511627776 bytes asked for"), std::string::npos);
  }
}

TEST_F(FakeHip, EveryCallThatFailsIsNamed) {
  const Case inputs = generate_case(Problem::parse("gated_delta:heads=1,dim=64,seq=4,dtype=f32"));
  const Implementation& naive = find_implementation(gated_delta_operation(), "hip/naive");
  const auto work = [&] {
    const auto device = open_fake();
    DeviceCase on_device(inputs, *device);
    const auto plan = naive.plan(inputs.problem, on_device.arguments(), *device);
    device->time_launch([&] { device->flush_cache_async(); }, [&] { plan->run(); });
    device->capture([&] { plan->run(); })();
    (void)device->free_memory_bytes();
    device->synchronize();
  };
  work();
  for (const std::string function : {"hipSetDevice",          "hipGetDeviceProperties",
                                     "hipDriverGetVersion",   "hipStreamCreateWithFlags",
                                     "hipEventCreate",        "hipHostMalloc",
                                     "hipMemcpyAsync",        "hipMemsetAsync",
                                     "hipModuleLoadData",     "hipModuleGetFunction",
                                     "hipModuleLaunchKernel", "hipEventRecord",
                                     "hipEventSynchronize",   "hipEventElapsedTime",
                                     "hipStreamBeginCapture", "hipStreamEndCapture",
                                     "hipGraphInstantiate",   "hipGraphLaunch",
                                     "hipMemGetInfo",         "hipStreamSynchronize",
                                     "hipGetLastError"}) {
    set("GDN_FAKE_HIP_FAILS", function);
    try {
      work();
      ADD_FAILURE() << function << " failed and nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::device_failure) << function;
      EXPECT_NE(std::string(error.what()).find(function), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("fake words"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace gdn::hip
