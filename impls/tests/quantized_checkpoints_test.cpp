// State checkpoints in int8 with a scale for each value head and key channel (docs/contract.md, section 1.7): the
// conversion on every device, and what every implementation hands out.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Quantized {
  float scale = 0;
  std::vector<int> elements;
};

// A channel by the contract's words.
Quantized by_definition(const std::vector<float>& channel) {
  Quantized result;
  result.elements.assign(channel.size(), 0);
  float largest = 0;
  bool has_nan = false;
  for (const float value : channel) {
    has_nan = has_nan || value != value;
    if (std::fabs(value) > largest) largest = std::fabs(value);
  }
  result.scale = has_nan ? kNaN : largest / 127.0f;
  if (result.scale < std::numeric_limits<float>::min()) result.scale = 0;
  if (!std::isfinite(result.scale) || result.scale == 0) return result;
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const float quotient = channel[i] / result.scale;
    int element = static_cast<int>(std::floor(quotient));
    const float above = quotient - static_cast<float>(element);
    if (above > 0.5f || (above == 0.5f && element % 2 != 0)) ++element;
    result.elements[i] = element;
  }
  return result;
}

bool is_same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// ---- the conversion

class ChannelQuantizations : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_ = open_device(GetParam());
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  // The elements and scales that the device makes of [outer, extent, inner] values, and what was around them.
  void expect_definition(const ChannelLayout& layout, const std::vector<float>& values) {
    SCOPED_TRACE(std::to_string(layout.outer) + " x " + std::to_string(layout.extent) + " x " +
                 std::to_string(layout.inner));
    constexpr std::int64_t kGuard = 64;
    const auto n = static_cast<std::int64_t>(values.size());
    DeviceBuffer from = device_->allocate(n * 4);
    DeviceBuffer elements = device_->allocate(n + kGuard);
    DeviceBuffer scales = device_->allocate((layout.channels() + kGuard) * 4);
    device_->upload(from.data(), values.data(), n * 4);
    device_->fill_async(elements.data(), 0x80, elements.bytes());
    device_->fill_async(scales.data(), 0xff, scales.bytes());
    device_->enqueue_quantization(
        {layout, from.as<float>(), elements.as<std::int8_t>(), scales.as<float>()},
        device_->native_stream());
    device_->synchronize();
    std::vector<std::int8_t> made(static_cast<std::size_t>(elements.bytes()));
    std::vector<float> made_scales(static_cast<std::size_t>(scales.bytes() / 4));
    device_->download(made.data(), elements.data(), elements.bytes());
    device_->download(made_scales.data(), scales.data(), scales.bytes());
    for (std::int64_t outer = 0; outer < layout.outer; ++outer) {
      for (std::int64_t inner = 0; inner < layout.inner; ++inner) {
        std::vector<float> channel;
        const auto at = [&](std::int64_t i) {
          return static_cast<std::size_t>((outer * layout.extent + i) * layout.inner + inner);
        };
        for (std::int64_t i = 0; i < layout.extent; ++i) channel.push_back(values[at(i)]);
        const Quantized expected = by_definition(channel);
        const float scale = made_scales[static_cast<std::size_t>(outer * layout.inner + inner)];
        ASSERT_TRUE(is_same(scale, expected.scale)) << "channel " << outer << ", " << inner << ": "
                                                    << scale << ", expected " << expected.scale;
        for (std::int64_t i = 0; i < layout.extent; ++i) {
          ASSERT_EQ(int{made[at(i)]}, expected.elements[static_cast<std::size_t>(i)])
              << "channel " << outer << ", " << inner << ", value " << channel[i] << " of "
              << scale;
        }
      }
    }
    EXPECT_TRUE(std::all_of(made.begin() + n, made.end(), [](int x) { return x == -128; }));
  }

  std::unique_ptr<Device> device_;
};

// A channel of each kind: what its values are times, and what one of them is instead.
std::vector<float> channels_of_every_kind(const ChannelLayout& layout) {
  const std::vector<float> sizes = {1,      0,     1e-30f, 0x1p-119f, 0x1.fcp-120f,
                                    1e-44f, 3e38f, 12.7f,  127,       1e-38f};
  const std::vector<float> odd = {0, kNaN, kInfinity, -kInfinity};
  std::vector<float> values(static_cast<std::size_t>(layout.elements()));
  for (std::int64_t channel = 0; channel < layout.channels(); ++channel) {
    const float size = sizes[static_cast<std::size_t>(channel) % sizes.size()];
    for (std::int64_t i = 0; i < layout.extent; ++i) {
      // Eighths of steps: halves among them, which round to the even neighbour. Their largest is 127 in most.
      const auto step = static_cast<float>((i * 37 + channel * 5) % 2033 - 1016) / 8;
      values[static_cast<std::size_t>(layout.place(channel, i))] =
          i == layout.extent / 2 ? -size : step / 127.0f * size;
    }
    if (channel % 7 == 6) {
      const float value = odd[static_cast<std::size_t>(channel / 7) % odd.size()];
      values[static_cast<std::size_t>(layout.place(channel, layout.extent - 1))] = value;
    }
  }
  return values;
}

TEST_P(ChannelQuantizations, AreTheirDefinitionBitForBit) {
  for (const ChannelLayout& layout :
       {ChannelLayout{77, 128, 1}, ChannelLayout{9, 1, 1}, ChannelLayout{13, 71, 1},
        ChannelLayout{3, 128, 128}, ChannelLayout{2, 5, 70}, ChannelLayout{4, 40, 24},
        ChannelLayout{1, 300, 33}}) {
    expect_definition(layout, channels_of_every_kind(layout));
  }
}

TEST_P(ChannelQuantizations, OfNothingDoNothing) {
  device_->enqueue_quantization({{0, 128, 1}, nullptr, nullptr, nullptr}, device_->native_stream());
  device_->enqueue_quantization({{0, 128, 64}, nullptr, nullptr, nullptr},
                                device_->native_stream());
  device_->synchronize();
}

INSTANTIATE_TEST_SUITE_P(Devices, ChannelQuantizations,
                         testing::Values("cpu", "cuda-emulated", "gfx906-emulator", "cuda", "hip"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- what implementations hand out

class QuantizedCheckpoints : public ImplementationTest {
 protected:
  // Runs the case with float32 checkpoints and with int8 ones: these are those, by the definition.
  void expect_definition(const Case& in_float32) {
    SCOPED_TRACE(in_float32.problem.to_string());
    Case in_int8 = in_float32;
    in_int8.problem.checkpoint_dtype = DType::int8;
    const Outputs values = execute(implementation(), in_float32, device());
    const Outputs outputs = execute(implementation(), in_int8, device());
    const Problem& p = in_float32.problem;
    const std::vector<float>& states = values["checkpoint_states"];
    const std::vector<float>& elements = outputs["checkpoint_states"];
    const std::vector<float>& scales = outputs["checkpoint_scales"];
    const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
    ASSERT_EQ(elements.size(), states.size());
    ASSERT_EQ(static_cast<std::int64_t>(scales.size()) * Dv,
              static_cast<std::int64_t>(states.size()));
    const auto place = [&](std::int64_t head, std::int64_t i, std::int64_t j) {
      const std::int64_t in_head = p.state_layout == StateLayout::kv ? i * Dv + j : j * Dk + i;
      return static_cast<std::size_t>(head * Dk * Dv + in_head);
    };
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(scales.size()); ++row) {
      const std::int64_t head = row / Dk, i = row % Dk;
      std::vector<float> channel;
      for (std::int64_t j = 0; j < Dv; ++j) channel.push_back(states[place(head, i, j)]);
      const Quantized expected = by_definition(channel);
      ASSERT_TRUE(is_same(scales[static_cast<std::size_t>(row)], expected.scale))
          << "head " << head << ", key channel " << i;
      for (std::int64_t j = 0; j < Dv; ++j) {
        ASSERT_EQ(elements[place(head, i, j)],
                  static_cast<float>(expected.elements[static_cast<std::size_t>(j)]))
            << "head " << head << ", key channel " << i << ", value " << j;
      }
    }
    for (const char* name : {"output", "final_state"})
      EXPECT_TRUE(same_bits(outputs[name], values[name])) << name;
  }
  // Skips where no problem is supported.
  void expect_definition_of(const std::string& base, const std::vector<std::string>& options) {
    bool is_supported = false;
    for (const std::string& more : options) {
      const Problem problem = Problem::parse(base + ",checkpoint_dtype=f32" + more);
      Problem in_int8 = problem;
      in_int8.checkpoint_dtype = DType::int8;
      ASSERT_EQ(static_cast<bool>(implementation().supports(problem)),
                static_cast<bool>(implementation().supports(in_int8)))
          << problem.to_string();
      if (!implementation().supports(problem)) continue;
      is_supported = true;
      expect_definition(generate_case(problem));
    }
    if (!is_supported) GTEST_SKIP();
  }
};

class GatedDeltaInt8Checkpoints : public QuantizedCheckpoints {};
class LayerInt8Checkpoints : public QuantizedCheckpoints {};

TEST_P(GatedDeltaInt8Checkpoints, AreItsFloat32OnesByTheDefinition) {
  expect_definition_of("gated_delta:heads=1/2,gates=mid,seq=70+0+3",
                       {",dim=128,dtype=bf16,h0=normal,checkpoints=3",
                        ",dim=128,dtype=bf16,h0=normal,checkpoints=3,layout=vk,slots=padding",
                        ",dim=64x72,dtype=f32,checkpoints=2,state=bf16,slots=padding",
                        ",dim=24x40,dtype=f16,h0=normal,checkpoints=2,layout=vk,slots=permuted",
                        ",dim=128,dtype=bf16,h0=normal,checkpoints=2,decay=channel"});
}

// A count of any offset, zeros between them, and one at the end.
TEST_P(GatedDeltaInt8Checkpoints, AreThoseAfterAnyCountOfTokens) {
  Case inputs = generate_case(
      Problem::parse("gated_delta:heads=1/"
                     "2,dim=128,seq=80,dtype=bf16,gates=mid,checkpoints=5,checkpoint_dtype=f32"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  inputs.other_indices["checkpoint_tokens"] = {5, 64, 0, 71, 80};
  expect_definition(inputs);
  inputs.problem.checkpoint_dtype = DType::int8;
  const Outputs outputs = execute(implementation(), inputs, device());
  const auto of_count = static_cast<std::ptrdiff_t>(2 * 128);
  for (int j = 0; j < 5; ++j) {
    const auto begin = outputs["checkpoint_scales"].begin() + j * of_count;
    const bool all_zero = std::all_of(begin, begin + of_count, [](float x) { return x == 0; });
    EXPECT_EQ(all_zero, j == 2) << "checkpoint " << j;
  }
}

TEST_P(GatedDeltaInt8Checkpoints, AgreeWithTheReference) {
  std::vector<std::string> problems;
  for (const char* more :
       {",dim=128,dtype=bf16,h0=normal,checkpoints=1", ",dim=128,dtype=f32,checkpoints=4,layout=vk",
        ",dim=128,dtype=bf16,h0=normal,slots=padding,checkpoints=3,layout=vk,state=bf16",
        ",dim=64,dtype=f32,h0=normal,checkpoints=12",
        ",dim=128,dtype=f16,gates=reset,checkpoints=3",
        ",dim=64x72,dtype=bf16,steps=2,checkpoints=2",
        ",dim=128,dtype=bf16,h0=normal,norm=1,checkpoints=3,decay=channel"}) {
    std::string problem =
        "gated_delta:heads=1/2,seq=40+65+1+0+3,checkpoint_dtype=i8" + std::string(more);
    if (problem.find("gates") == std::string::npos) problem += ",gates=mid";
    problems.push_back(problem);
  }
  expect_all_agree(problems);
}

TEST_P(LayerInt8Checkpoints, AreItsFloat32OnesByTheDefinition) {
  expect_definition_of("gated_delta_layer:heads=1/2,gates=mid,seq=70+0+3,h0=normal",
                       {",dim=128,dtype=bf16,checkpoints=3",
                        ",dim=128,dtype=bf16,checkpoints=2,layout=vk,slots=padding,gated_norm=1",
                        ",dim=64,dtype=f32,checkpoints=2,window=none"});
}

TEST_P(LayerInt8Checkpoints, AgreeWithTheReference) {
  expect_all_agree(
      {"gated_delta_layer:heads=1/2,dim=128,seq=70+0+1+9,gates=mid,h0=normal,dtype="
       "bf16,checkpoints=3,checkpoint_dtype=i8",
       "gated_delta_layer:heads=1/2,dim=64,seq=40+3,gates=mid,dtype=f32,checkpoints=2,"
       "checkpoint_dtype=i8,layout=vk,slots=padding"});
}

GDN_INSTANTIATE_FOR(GatedDeltaInt8Checkpoints, gated_delta_operation());
GDN_INSTANTIATE_FOR(LayerInt8Checkpoints, gated_delta_layer_operation());

}  // namespace
}  // namespace gdn
