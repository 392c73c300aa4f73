// The CUDA backend itself: what a machine without a device is told, and on one that has it, the
// device interface, the float64 recurrence on the GPU, and what needs sizes or strides of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "cuda/cuda_device.h"
#include "cuda/reference_float64.h"
#include "harness/measure/product_time.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "interface/fingerprint.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

std::string message_of(const std::function<void()>& action, ErrorKind expected) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

TEST(CudaStatus, SaysWhyThereIsNoDeviceInOneLine) {
  const BackendStatus status = cuda::status();
  EXPECT_EQ(status.backend, "cuda");
  EXPECT_FALSE(status.detail.empty());
  EXPECT_EQ(status.detail.find('\n'), std::string::npos);
  if (status.available) GTEST_SKIP() << "there is a device: " << status.detail;
  const std::string message =
      message_of([] { open_device("cuda"); }, ErrorKind::device_unavailable);
  EXPECT_NE(message.find("device 'cuda'"), std::string::npos) << message;
  EXPECT_NE(message.find(status.detail), std::string::npos) << message;
  EXPECT_EQ(open_device("best")->info().backend, "cpu");
}

TEST(CudaSupports, GivesReasonsInWords) {
  const auto reason = [](const char* name, const char* problem) {
    return find_implementation(gated_delta_operation(), name)
        .supports(Problem::parse(problem))
        .reason;
  };
  EXPECT_NE(reason("cuda/recurrent", "gated_delta:dim=80").find("Dk=80"), std::string::npos);
  EXPECT_NE(reason("cuda/recurrent_staged", "gated_delta:dim=264").find("Dk=264"),
            std::string::npos);
  EXPECT_NE(reason("cuda/recurrent_staged", "gated_delta:dim=64x100").find("Dv=100"),
            std::string::npos);
  EXPECT_EQ(reason("cuda/recurrent_staged", "gated_delta:dim=200x400"), "");
  EXPECT_EQ(reason("cuda/naive", "gated_delta:dim=17x3"), "");
}

class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    const BackendStatus status = cuda::status();
    if (!status.available) GTEST_SKIP() << status.detail;
    static const std::unique_ptr<Device> opened = open_device("cuda");
    device_ = opened.get();
  }
  Device& device() { return *device_; }

 private:
  Device* device_ = nullptr;
};

TEST_F(OnCuda, CopiesAndFillsAreOrdered) {
  std::vector<float> values(100003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
  const DeviceBuffer a = device().allocate(bytes);
  const DeviceBuffer b = device().allocate(bytes);
  device().upload(a.data(), values.data(), bytes);
  device().fill_async(b.data(), 0xff, bytes);
  device().copy_async(b.data(), a.data(), bytes);
  device().fill_async(a.data(), 0, bytes);
  std::vector<float> back(values.size());
  device().download(back.data(), b.data(), bytes);
  EXPECT_TRUE(same_bits(back, values));
  device().download(back.data(), a.data(), bytes);
  EXPECT_TRUE(same_bits(back, std::vector<float>(values.size(), 0.0f)));
}

std::vector<unsigned char> counted_bytes(std::int64_t count) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(i ^ (i >> 8) ^ (i >> 16));
  }
  return bytes;
}

// What is staged goes in blocks of 1 MiB; the source may change as soon as upload() returns.
TEST_F(OnCuda, CopiesOfAnySizeArriveWhole) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 20;
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, kBlock - 1,
                                   kBlock, kBlock + 1, 2 * kBlock + 5, 7 * kBlock}) {
    const std::vector<unsigned char> values = counted_bytes(count);
    std::vector<unsigned char> source = values;
    const DeviceBuffer buffer = device().allocate(count);
    device().upload(buffer.data(), source.data(), count);
    std::fill(source.begin(), source.end(), static_cast<unsigned char>(0xee));
    std::vector<unsigned char> back(values.size());
    device().download(back.data(), buffer.data(), count);
    EXPECT_EQ(back == values, true) << count << " bytes";
  }
}

TEST_F(OnCuda, FingerprintsAreThoseOfTheHost) {
  for (const std::int64_t count : {1, 7, 8, 9, 64, 2047, 4096, 1'000'003, 9'000'001}) {
    std::vector<unsigned char> values = counted_bytes(count);
    const DeviceBuffer buffer = device().allocate(count);
    device().upload(buffer.data(), values.data(), count);
    EXPECT_EQ(device().fingerprint(buffer.data(), count), fingerprint_of(values.data(), count))
        << count << " bytes";
  }
}

TEST_F(OnCuda, OutOfMemoryNamesBytesAskedAndFree) {
  const std::int64_t bytes = std::int64_t{1} << 50;
  const std::string message =
      message_of([&] { device().allocate(bytes); }, ErrorKind::out_of_memory);
  EXPECT_NE(message.find(std::to_string(bytes)), std::string::npos) << message;
  EXPECT_NE(message.find("bytes free"), std::string::npos) << message;
  device().synchronize();  // the failed allocation is not reported again
}

TEST_F(OnCuda, ADeviceThatIsNotThereIsRefused) {
  const std::string message =
      message_of([] { open_device("cuda:97"); }, ErrorKind::device_unavailable);
  EXPECT_NE(message.find("cuda:97"), std::string::npos) << message;
}

TEST_F(OnCuda, TimedIntervalExcludesWhatIsPreparedAndGrowsWithTheWork) {
  const std::int64_t bytes = std::int64_t{256} << 20;
  const DeviceBuffer a = device().allocate(bytes);
  const auto fills = [&](int count) {
    return [&, count] {
      for (int i = 0; i < count; ++i) device().fill_async(a.data(), 1, bytes);
    };
  };
  device().time_launch({}, fills(1));
  const TimeSample one = device().time_launch(fills(50), fills(1));
  const TimeSample fifty = device().time_launch({}, fills(50));
  EXPECT_GT(one.time_ms, 0);
  EXPECT_GT(fifty.time_ms, 10 * one.time_ms);  // 50 times the work: nothing of prepare in `one`
  EXPECT_GT(one.clock_mhz, 100);
  EXPECT_LT(one.clock_mhz, 5000);
}

TEST_F(OnCuda, SensorsReadWithinTheirPhysicalRange) {
  const Device::Telemetry sensors = device().telemetry();
  if (std::isnan(sensors.power_w)) GTEST_SKIP() << "no sensors: libnvidia-ml.so.1 did not answer";
  EXPECT_GT(sensors.power_w, 10);
  EXPECT_LT(sensors.power_w, 1.5 * sensors.power_limit_w);
  EXPECT_GT(sensors.memory_clock_mhz, 100);
  EXPECT_LT(sensors.memory_clock_mhz, 20000);
  EXPECT_GT(sensors.temperature_c, 5);
  EXPECT_LT(sensors.temperature_c, 110);
}

TEST_F(OnCuda, DenseProductsOfTheMatrixLibraryAreRight) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    const MatrixProduct product{96, 80, 64, dtype};
    if (!matrix_product(device(), product, nullptr, nullptr, nullptr)) {
      GTEST_SKIP() << "cuBLAS is not installed here";
    }
    const ProductTime time = time_product(product, device(), {});  // throws if an entry is wrong
    EXPECT_GT(time.time_ms.median, 0) << long_name(dtype);
  }
}

// A launch that waits for the stream would wait for the kernel that holds it: for ever.
TEST_F(OnCuda, TimingSomethingThatWaitsIsRefusedAndDoesNotHang) {
  const std::string message =
      message_of([&] { device().time_launch({}, [&] { device().synchronize(); }); },
                 ErrorKind::device_failure);
  EXPECT_NE(message.find("must not wait"), std::string::npos) << message;
  EXPECT_THROW(device().time_launch({}, [] { throw Error(ErrorKind::bad_input, "x"); }), Error);
  device().synchronize();
  EXPECT_GE(device().time_launch({}, [] {}).time_ms, 0);
}

TEST_F(OnCuda, GraphReplaysGiveTheSameBits) {
  for (const char* name : {"cuda/naive", "cuda/recurrent", "cuda/recurrent_staged"}) {
    const Implementation& implementation = find_implementation(gated_delta_operation(), name);
    const Case inputs = generate_case(
        Problem::parse("gated_delta:heads=2/4,dim=64,seq=33+70,dtype=bf16,gates=mid,h0=normal"));
    const Outputs direct = execute(implementation, inputs, device());
    DeviceCase on_device(inputs, device());
    const auto plan = implementation.plan(inputs.problem, on_device.arguments(), device());
    const std::function<void()> replay = device().capture([&] { plan->run(); });
    ASSERT_TRUE(replay) << name;
    for (int run = 0; run < 2; ++run) {
      on_device.reset_async();
      replay();
      const Outputs outputs = on_device.download();
      EXPECT_TRUE(same_bits(outputs["output"], direct["output"])) << name;
      EXPECT_TRUE(same_bits(outputs["final_state"], direct["final_state"])) << name;
    }
  }
}

TEST_F(OnCuda, CeilingsAreMeasuredOnce) {
  const Device::Ceilings first = device().ceilings();
  EXPECT_GT(first.copy_tb_per_s, 0.05);
  EXPECT_GT(first.matrix_tflops, first.float32_tflops);
  EXPECT_GT(first.float32_tflops, 1);
  const Device::Ceilings again = device().ceilings();
  EXPECT_EQ(std::memcmp(&first, &again, sizeof(first)), 0);
  std::printf("copy %.3f TB/s, matrix %.1f TFLOP/s, float32 %.1f TFLOP/s\n", first.copy_tb_per_s,
              first.matrix_tflops, first.float32_tflops);
}

double worst_relative(const std::vector<double>& x, const std::vector<double>& reference) {
  double squares = 0;
  double difference = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(reference[i]) && std::isnan(x[i])) continue;  // unread rows of a pool
    squares += reference[i] * reference[i];
    difference += (x[i] - reference[i]) * (x[i] - reference[i]);
  }
  return std::sqrt(difference / std::max(squares, std::numeric_limits<double>::min()));
}

TEST_F(OnCuda, Float64RecurrenceAgreesWithEigen) {
  for (const char* text :
       {"gated_delta:heads=2/6,dim=60x100,seq=70+0+1+129,dtype=f32,gates=mid,h0=normal,norm=1",
        "gated_delta:heads=2/4,dim=128,seq=40+65+7,dtype=bf16,gates=reset,h0=large,slots=padding,"
        "layout=vk,pool_pad=8",
        "gated_delta:heads=1/1,dim=256x64,seq=100,dtype=f16,gate=logits,beta=logit,scale=0.5",
        "gated_delta_layer:heads=1/2,dim=64,seq=70+33,dtype=bf16,gate=logits,beta=logit,h0=normal",
        "gated_delta:heads=1/1,dim=64,seq=50,dtype=f32,ht=0,h0=normal"}) {
    SCOPED_TRACE(text);
    const Case inputs = generate_case(Problem::parse(text));
    const auto reference = reference::evaluate<double>(inputs);
    const auto gates = reference::decode_gates<double>(inputs);
    const bool layer = inputs.problem.operation == gated_delta_layer_operation();
    const Arrays<double> outputs = cuda::evaluate_gated_delta_float64(
        inputs, gates.log_decay, gates.beta,
        layer ? reference["conv_output"] : std::vector<double>(), device());
    ASSERT_EQ(outputs["output"].size(), reference["output"].size());
    ASSERT_EQ(outputs["final_state"].size(), reference["final_state"].size());
    EXPECT_FALSE(!(worst_relative(outputs["output"], reference["output"]) <= 1e-12))
        << worst_relative(outputs["output"], reference["output"]);
    EXPECT_FALSE(!(worst_relative(outputs["final_state"], reference["final_state"]) <= 1e-12))
        << worst_relative(outputs["final_state"], reference["final_state"]);
  }
}

// What it does not honour it refuses, before it looks at arrays or device.
TEST(CudaFloat64, OfDeviceArraysRefusesEveryOtherField) {
  const auto device = open_device("cpu");
  for (const char* field : {"slots=permuted", "state=bf16", "gate=logits", "beta=logit", "steps=2",
                            "decay=channel", "update=additive"}) {
    const Problem problem =
        Problem::parse("gated_delta:heads=1,dim=64,seq=3,h0=normal," + std::string(field));
    const std::string message = message_of(
        [&] { cuda::evaluate_gated_delta_float64_on_device(problem, Arguments{}, *device); },
        ErrorKind::unsupported);
    EXPECT_NE(message.find(field), std::string::npos) << message;
  }
}

// The same of arrays on the device, in the element type they have there.
TEST_F(OnCuda, Float64RecurrenceOfDeviceArraysAgreesWithEigen) {
  for (const char* text :
       {"gated_delta:heads=2/6,dim=60x100,seq=70+0+1+129,dtype=f32,gates=mid,h0=normal,norm=1",
        "gated_delta:heads=2/4,dim=128,seq=40+65+7,dtype=bf16,gates=reset,h0=large,layout=vk,"
        "pool_pad=8",
        "gated_delta:heads=1/1,dim=256x64,seq=100,dtype=f16,scale=0.5"}) {
    SCOPED_TRACE(text);
    const Case inputs = generate_case(Problem::parse(text));
    const Problem& p = inputs.problem;
    const auto reference = reference::evaluate<double>(inputs);
    DeviceCase device_case(inputs, device());
    const std::int64_t state_size = p.key_head_dim * p.value_head_dim;
    const std::int64_t heads = p.num_sequences() * p.num_value_heads;
    std::vector<double> output(reference["output"].size());
    std::vector<double> states(static_cast<std::size_t>(heads * state_size));
    const auto bytes = [](const std::vector<double>& v) {
      return static_cast<std::int64_t>(v.size() * sizeof(double));
    };
    const DeviceBuffer output_buffer = device().allocate(bytes(output));
    const DeviceBuffer state_buffer = device().allocate(bytes(states));
    Arguments arguments = device_case.arguments();
    arguments.set_output("output", output_buffer.data());
    arguments.set("initial_state",
                  {arguments.input("initial_state"), state_buffer.data(), /*token_stride=*/0});
    cuda::evaluate_gated_delta_float64_on_device(p, arguments, device());
    device().download(output.data(), output_buffer.data(), bytes(output));
    device().download(states.data(), state_buffer.data(), bytes(states));
    EXPECT_FALSE(!(worst_relative(output, reference["output"]) <= 1e-12))
        << worst_relative(output, reference["output"]);
    std::vector<double> expected;  // rows as the pool has them, without their padding
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      const auto row = reference["final_state"].begin() + n * p.state_row_stride();
      expected.insert(expected.end(), row, row + p.num_value_heads * state_size);
    }
    EXPECT_FALSE(!(worst_relative(states, expected) <= 1e-12)) << worst_relative(states, expected);
  }
}

// More than 65535 blocks, the limit of a grid's second and third dimension.
TEST_F(OnCuda, ManySequencesGoBeyond65535Blocks) {
  const Problem problem =
      Problem::parse("gated_delta:heads=2/8,dim=64x32,seq=9000x1,dtype=bf16,gates=mid,h0=normal");
  const Case inputs = generate_case(problem);
  const Outputs first =
      execute(find_implementation(gated_delta_operation(), "cuda/naive"), inputs, device());
  const auto gates = reference::decode_gates<double>(inputs);
  const Arrays<double> exact =
      cuda::evaluate_gated_delta_float64(inputs, gates.log_decay, gates.beta, {}, device());
  for (const char* name : {"cuda/naive", "cuda/recurrent", "cuda/recurrent_staged"}) {
    const Outputs outputs =
        execute(find_implementation(gated_delta_operation(), name), inputs, device());
    const std::vector<double> state(outputs["final_state"].begin(), outputs["final_state"].end());
    EXPECT_FALSE(!(worst_relative(state, exact["final_state"]) <= 2e-6)) << name;
    const std::vector<double> output(outputs["output"].begin(), outputs["output"].end());
    EXPECT_FALSE(!(worst_relative(output, exact["output"]) <= 3e-3)) << name;
  }
}

}  // namespace
}  // namespace gdn
