// The CPU backend's own promises: its device, its threads, its instruction sets.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <variant>
#include <vector>

#include "cpu/instruction_set.h"
#include "cpu/parallel.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "reference/errors.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

/// Sets an environment variable for one scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

struct ScopedThreads {
  explicit ScopedThreads(int threads) { cpu::set_thread_count(threads); }
  ~ScopedThreads() { cpu::set_thread_count(0); }
};

template <typename Action>
ErrorKind kind_of_error(const Action& action, std::string* message) {
  try {
    action();
  } catch (const Error& error) {
    *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::device_failure;
}

TEST(CpuDevice, DescribesTheMachine) {
  const auto device = open_device("cpu");
  const DeviceInfo& info = device->info();
  EXPECT_EQ(info.backend, "cpu");
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.multiprocessors, cpu::thread_count());
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GT(device->free_memory_bytes(), 0);
  EXPECT_LE(device->free_memory_bytes(), info.memory_bytes);
  EXPECT_FALSE(info.modelled_time);
  // Where the system names a cache, the largest that it names is the last level.
  std::int64_t kib = 0;
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cache/index0/size") >> kib) {
    EXPECT_GE(info.l2_bytes, kib * 1024);
  }
}

// In a process that has not asked before: under AddressSanitizer the first question sets up an
// allocator of the C library that nothing else uses, and no lock of that library is held then.
TEST(CpuDevice, AnyNumberOfThreadsAskForFreeMemoryAtOnce) {
  constexpr int kThreads = 4;
  const auto device = open_device("cpu");
  std::atomic<int> to_come{kThreads};
  std::atomic<int> positive{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        --to_come;
        while (to_come > 0) {  // awake, so that they ask in the same microsecond
        }
        for (int question = 0; question < 100; ++question) {
          positive += device->free_memory_bytes() > 0;
        }
      });
    }
  }
  EXPECT_EQ(positive, kThreads * 100);
}

TEST(CpuDevice, AllocationsAreAlignedAndMayBeEmpty) {
  const auto device = open_device("cpu");
  for (const std::int64_t bytes : {0, 1, 63, 64, 65, 100000}) {
    const DeviceBuffer buffer = device->allocate(bytes);
    ASSERT_NE(buffer.data(), nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u) << bytes;
    EXPECT_EQ(buffer.bytes(), bytes);
    device->fill_async(buffer.data(), 0xAB, bytes);
  }
}

TEST(CpuDevice, SaysHowMuchMemoryThereIsBeforeAllocatingTooMuch) {
  const auto device = open_device("cpu");
  std::string message;
  const std::int64_t bytes = device->info().memory_bytes + 1;
  EXPECT_EQ(kind_of_error([&] { device->allocate(bytes); }, &message), ErrorKind::out_of_memory);
  EXPECT_NE(message.find(std::to_string(bytes)), std::string::npos) << message;
  EXPECT_NE(message.find("available"), std::string::npos) << message;
}

TEST(CpuDevice, CopiesAndFills) {
  const auto device = open_device("cpu");
  const std::vector<int> source = {1, 2, 3, 4};
  const DeviceBuffer a = device->allocate(16), b = device->allocate(16);
  device->upload(a.data(), source.data(), 16);
  device->copy_async(b.data(), a.data(), 16);
  device->fill_async(a.data(), 0xFF, 16);
  std::vector<int> seen(4), filled(4);
  device->download(seen.data(), b.data(), 16);
  device->download(filled.data(), a.data(), 16);
  EXPECT_EQ(seen, source);
  EXPECT_EQ(filled, std::vector<int>(4, -1));
}

TEST(CpuDevice, TimesTheLaunchAloneAfterPreparing) {
  const auto device = open_device("cpu");
  std::vector<std::string> order;
  const TimeSample sample = device->time_launch([&] { order.emplace_back("prepare"); },
                                                [&] { order.emplace_back("launch"); });
  EXPECT_EQ(order, (std::vector<std::string>{"prepare", "launch"}));
  EXPECT_GE(sample.time_ms, 0);
  EXPECT_EQ(device->capture([] {}), nullptr) << "there are no graphs on the CPU";
  EXPECT_EQ(device->native_stream(), nullptr);
}

TEST(CpuThreads, DoEveryItemOnceWithOneThreadPerWorker) {
  for (const int workers : {1, 2, 3, 7}) {
    for (const std::int64_t count : {0, 1, 2, 1000}) {
      std::vector<int> done(static_cast<std::size_t>(count), 0);
      std::vector<int> in_use(static_cast<std::size_t>(workers), 0);
      std::mutex mutex;
      cpu::parallel_for(count, workers, [&](std::int64_t item, int worker) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          ASSERT_GE(worker, 0);
          ASSERT_LT(worker, workers);
          EXPECT_EQ(in_use[static_cast<std::size_t>(worker)]++, 0);
        }
        ++done[static_cast<std::size_t>(item)];
        const std::lock_guard<std::mutex> lock(mutex);
        --in_use[static_cast<std::size_t>(worker)];
      });
      EXPECT_EQ(done, std::vector<int>(static_cast<std::size_t>(count), 1));
    }
  }
}

TEST(CpuThreads, PassAnExceptionOnAndGoOnWorking) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    EXPECT_THROW(cpu::parallel_for(100, 3,
                                   [](std::int64_t item, int) {
                                     if (item == 50) throw std::runtime_error("item 50");
                                   }),
                 std::runtime_error);
    int count = 0;
    std::mutex mutex;
    cpu::parallel_for(100, 3, [&](std::int64_t, int) {
      const std::lock_guard<std::mutex> lock(mutex);
      ++count;
    });
    EXPECT_EQ(count, 100);
  }
}

TEST(CpuThreads, AreCountedByTheEnvironment) {
  std::string message;
  {
    const ScopedVariable variable("GDN_CPU_THREADS", "3");
    EXPECT_EQ(cpu::thread_count(), 3);
    const ScopedThreads chosen(5);
    EXPECT_EQ(cpu::thread_count(), 5);
  }
  for (const char* bad : {"0", "-1", "two", "3x", "100000"}) {
    const ScopedVariable variable("GDN_CPU_THREADS", bad);
    EXPECT_EQ(kind_of_error([] { cpu::thread_count(); }, &message), ErrorKind::bad_input);
    EXPECT_NE(message.find("GDN_CPU_THREADS"), std::string::npos) << message;
  }
  EXPECT_EQ(kind_of_error([] { cpu::set_thread_count(-1); }, &message), ErrorKind::bad_input);
}

/// Every CPU implementation on a ragged problem of its operation.
std::vector<std::pair<const Implementation*, Case>> every_cpu_case() {
  std::vector<std::pair<const Implementation*, Case>> cases;
  for (const Implementation* implementation : all_implementations()) {
    if (implementation->description().backend != "cpu") continue;
    const Operation operation = implementation->description().operation;
    std::string text = to_string(operation) + ":heads=2/4,dim=64x100,seq=100+0+33+1+70,dtype=f32";
    if (operation->has_field("gates")) text += ",gates=mid";
    if (operation->has_field("h0")) text += ",h0=normal";
    cases.emplace_back(implementation, generate_case(Problem::parse(text)));
  }
  return cases;
}

TEST(CpuThreads, DoNotChangeAnyBit) {
  const auto device = open_device("cpu");
  for (const auto& [implementation, inputs] : every_cpu_case()) {
    SCOPED_TRACE(implementation->description().name + " on " + inputs.problem.to_string());
    const ScopedThreads one(1);
    const Outputs expected = execute(*implementation, inputs, *device);
    for (const int threads : {2, 3, 8}) {
      const ScopedThreads many(threads);
      const Outputs outputs = execute(*implementation, inputs, *device);
      for (const auto& [output, values] : expected) {
        EXPECT_TRUE(same_bits(outputs[output], values)) << output;
      }
    }
  }
}

TEST(CpuInstructionSets, EachAgreesWithTheReference) {
  const auto device = open_device("cpu");
  const cpu::InstructionSet widest = cpu::instruction_set();
  for (const auto& [implementation, inputs] : every_cpu_case()) {
    const auto reference = reference::evaluate<double>(inputs);
    for (const auto set :
         {cpu::InstructionSet::baseline, cpu::InstructionSet::avx2, cpu::InstructionSet::avx512}) {
      if (set > widest) continue;
      SCOPED_TRACE(implementation->description().name + " with " + to_string(set) + " on " +
                   inputs.problem.to_string());
      const ScopedVariable variable("GDN_CPU_ISA", to_string(set));
      const auto report =
          reference::compare(inputs, reference, execute(*implementation, inputs, *device));
      EXPECT_EQ(reference::violation(report, report.limits), "");
    }
  }
}

// The rule of impls/cpu/instruction_set.h: without it a row does not say what was measured.
TEST(CpuInstructionSets, TheChoiceOfEveryPlanNamesTheOneItRunsOn) {
  const auto device = open_device("cpu");
  const cpu::InstructionSet widest = cpu::instruction_set();
  for (const auto& [implementation, inputs] : every_cpu_case()) {
    for (const auto set :
         {cpu::InstructionSet::baseline, cpu::InstructionSet::avx2, cpu::InstructionSet::avx512}) {
      if (set > widest) continue;
      const ScopedVariable variable("GDN_CPU_ISA", to_string(set));
      const DeviceCase on_device(inputs, *device);
      const auto plan = implementation->plan(inputs.problem, on_device.arguments(), *device);
      EXPECT_NE(plan->info().choice.find("isa=" + to_string(set)), std::string::npos)
          << implementation->description().name << " on " << inputs.problem.to_string()
          << " chose '" << plan->info().choice << "', expected isa=" << to_string(set);
    }
  }
}

// Matrix products with fused multiply-adds round once where the baseline's round twice.
TEST(CpuInstructionSets, AreDifferentCode) {
  if (cpu::instruction_set() == cpu::InstructionSet::baseline) GTEST_SKIP() << "only the baseline";
  const auto device = open_device("cpu");
  const Case inputs =
      generate_case(Problem::parse("gated_delta:heads=1,dim=64,seq=100,dtype=f32,gates=mid"));
  const Implementation& chunkwise = find_implementation(gated_delta_operation(), "cpu/chunkwise");
  const Outputs widest = execute(chunkwise, inputs, *device);
  const ScopedVariable variable("GDN_CPU_ISA", "baseline");
  EXPECT_FALSE(same_bits(widest["output"], execute(chunkwise, inputs, *device)["output"]));
}

TEST(CpuInstructionSets, RefuseUnknownNames) {
  std::string message;
  const ScopedVariable variable("GDN_CPU_ISA", "avx1024");
  EXPECT_EQ(kind_of_error([] { cpu::instruction_set(); }, &message), ErrorKind::bad_input);
  EXPECT_NE(message.find("avx512"), std::string::npos) << message;
}

// More than 128 MiB, which several threads convert block by block: every block where it belongs.
TEST(DeviceCase, LargeArraysArriveAndReturnAsTheyAre) {
  const auto device = open_device("cpu");
  // [180000, 192] channels.
  const Case batch =
      generate_case(Problem::parse("causal_conv1d:heads=1/1,dim=64,seq=1x180000,dtype=f32"));
  {
    const DeviceCase on_device(batch, *device);
    const void* input = on_device.arguments().input("qkv");
    EXPECT_EQ(std::memcmp(input, batch["qkv"].data(), batch["qkv"].size() * sizeof(float)), 0);
    on_device.check_guards();  // the device's fingerprint is the host's
  }
  const Case states =
      generate_case(Problem::parse("gated_delta:heads=1/1,dim=64,seq=8200x1,dtype=f32,h0=normal"));
  const DeviceCase on_device(states, *device);
  EXPECT_EQ(on_device.download()["final_state"], states["initial_state"]);
}

}  // namespace
}  // namespace gdn
