// Plans on tensors as their owners hold them (docs/contract.md, section 8): of every implementation, the
// same bits as on dense arrays, whatever the strides and the element types, and nothing written between.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "held/held_plan.h"
#include "held/held_shape.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_verify.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every type of floats, -1 in those of integers

/// How all tensors of a call are held.
struct Holding {
  const char* name;
  bool reversed = false;   ///< the dimensions' order in memory
  std::int64_t gap = 0;    ///< elements after each entry of each dimension
  bool narrower = false;   ///< in the narrowest types that there are
  const char* alone = "";  ///< those alone whose names, or what they are alternatives of, begin so
  bool split = false;      ///< the first dimension in two
  bool shared = false;     ///< one number for all gates, one for all betas, ..: strides of 0
  bool rows =
      false;  ///< those alone that may have rows: tokens in two, each its own distance apart
};
constexpr Holding kHoldings[] = {
    {.name = "with gaps", .gap = 3},
    {.name = "transposed", .reversed = true},
    {.name = "in narrower types", .narrower = true},
    {.name = "betas alone in narrower types", .narrower = true, .alone = "beta"},
    {.name = "gates alone in narrower types", .narrower = true, .alone = "gate"},
    {.name = "biases alone in narrower types", .narrower = true, .alone = "dt_bias"},
    {.name = "in two dimensions, transposed, with gaps, in narrower types",
     .reversed = true,
     .gap = 1,
     .narrower = true,
     .split = true},
    {.name = "as one number where they are gates, in narrower types",
     .narrower = true,
     .shared = true},
    {.name = "in rows", .rows = true},
};

StorageType narrower(StorageType type) {
  switch (type) {
    case StorageType::float32:
      return StorageType::bfloat16;
    case StorageType::bfloat16:
    case StorageType::float16:
      return StorageType::float8_e5m2;
    default:
      return StorageType::int32;
  }
}

StorageType held_type(StorageType own, const Operand& operand, const Holding& holding) {
  const std::string_view alone = holding.alone;
  const bool is_meant = operand.name.starts_with(alone) ||
                        (!alone.empty() && operand.in_file.alternatives.starts_with(alone));
  return holding.narrower && is_meant ? narrower(own) : own;
}

bool is_shared(const Operand& operand) {
  return operand.may_have_form && operand.role == Role::input;
}

/// A tensor in host memory and its copy on a device.
struct Held {
  HeldTensor tensor;
  StorageType type = StorageType::float32;
  std::vector<unsigned char> bytes;
  DeviceBuffer buffer;

  Held(const Operand& operand, const Problem& problem, const Holding& holding) {
    const StorageType own =
        operand.is_index() ? StorageType::int64 : storage_type(operand.dtype(problem));
    type = held_type(own, operand, holding);
    tensor.operand = operand.name;
    tensor.type = type;
    tensor.extents = extents(operand, problem);
    if (holding.split && !operand.is_index() && cut_of(operand, problem) != Cut::pool_rows) {
      const std::int64_t first = tensor.extents.front();
      tensor.extents.front() = first % 2 == 0 ? 2 : 1;
      tensor.extents.insert(tensor.extents.begin() + 1, first / tensor.extents.front());
    }
    if (holding.rows && operand.may_have_rows && tokens_are_fastest(operand, problem) &&
        tensor.extents.back() % 2 == 0) {
      const std::int64_t channels = tensor.extents.front(), length = tensor.extents.back() / 2;
      const auto apart = length + static_cast<std::int64_t>(operand.name.size());
      tensor.extents = {channels, 2, length};
      tensor.strides = {apart, channels * apart, 1};
      bytes.assign(static_cast<std::size_t>(2 * channels * apart * size_of(type)), kPoison);
      return;
    }
    std::vector<std::size_t> order(tensor.extents.size());
    std::iota(order.begin(), order.end(), 0);
    const bool is_list = operand.is_index();  // its entries are equally far apart, of any dimension
    if (!holding.reversed || is_list) std::reverse(order.begin(), order.end());
    tensor.strides.assign(tensor.extents.size(), 1);
    std::int64_t span = 1;
    for (const std::size_t d : order) {
      const bool is_innermost = d == order.front();
      const bool has_gap = is_list ? is_innermost : !is_innermost || order.size() == 1;
      tensor.strides[d] = span + (has_gap ? holding.gap : 0);
      span = tensor.strides[d] * std::max<std::int64_t>(tensor.extents[d], 1);
    }
    if (holding.shared && is_shared(operand)) {
      tensor.strides.assign(tensor.extents.size(), 0);
      span = 1;
    }
    bytes.assign(static_cast<std::size_t>(span * size_of(type)), kPoison);
  }

  /// Between the tensor and a dense array of floats, or of indices.
  template <typename Value>
  StridedCopy copy(Value* dense, StorageType dense_type, const Operand& operand,
                   const Problem& problem, bool to_tensor) {
    auto own = dense_strides(tensor.extents);
    if (cut_of(operand, problem) == Cut::pool_rows) own.front() = row_stride(operand, problem);
    StridedCopy copy;
    copy.rank = static_cast<int>(tensor.extents.size());
    copy.from = to_tensor ? static_cast<const void*>(dense) : bytes.data();
    copy.to = to_tensor ? static_cast<void*>(bytes.data()) : static_cast<void*>(dense);
    copy.from_type = to_tensor ? dense_type : type;
    copy.to_type = to_tensor ? type : dense_type;
    for (std::size_t d = 0; d < tensor.extents.size(); ++d) {
      copy.extents[d] = tensor.extents[d];
      copy.from_strides[d] = to_tensor ? own[d] : tensor.strides[d];
      copy.to_strides[d] = to_tensor ? tensor.strides[d] : own[d];
    }
    return copy;
  }
};

/// As the tensor's type rounds it.
float rounded(float value, StorageType type) {
  float result = 0;
  std::uint64_t narrow = 0;
  StridedCopy copy;
  copy.rank = 1;
  copy.extents[0] = 1;
  copy.from = &value;
  copy.to = &narrow;
  copy.to_type = type;
  copy_on_host(copy);
  copy.from = &narrow;
  copy.from_type = type;
  copy.to = &result;
  copy.to_type = StorageType::float32;
  copy_on_host(copy);
  return result;
}

bool is_same_number(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

class HeldTensors : public ImplementationTest {
 protected:
  void SetUp() override {
    ImplementationTest::SetUp();
    if (!IsSkipped() && device().info().has_own_memory && device().info().runs == "hip") {
      GTEST_SKIP() << "HIP cards do not convert tensors";
    }
  }
  std::vector<Problem> problems() const {
    std::vector<Problem> result = {Problem::parse(implementation().description().examples.at(0))};
    Problem in_slots = result.front();
    if (in_slots.operation->has_field("slots")) {
      in_slots.slots = SlotMap::padding;
      if (implementation().supports(in_slots)) result.push_back(in_slots);
    }
    if (in_slots.operation->has_field(
            "output_slots")) {  // a fork, rows of one's own, none, no tokens
      in_slots.slots = SlotMap::permuted;
      in_slots.output_slots = OutputSlots::other;
      in_slots.sequences.lengths = {9, 3, 4, 0, 5, 2};
      if (implementation().supports(in_slots)) result.push_back(in_slots);
    }
    Problem checkpoints = result.front();
    if (checkpoints.operation->has_field("checkpoints")) {  // indices of two dimensions
      checkpoints.checkpoints = 3;
      if (implementation().supports(checkpoints)) result.push_back(checkpoints);
    }
    Problem logits = result.front();
    if (logits.operation->has_field("logits") && logits.token_dtype != DType::float32) {
      logits.set_gate_encoding(GateEncoding::logits);
      logits.beta_encoding = BetaEncoding::logit;
      logits.logit_type = LogitType::token;
      if (implementation().supports(logits)) result.push_back(logits);
    }
    Problem by_time = result.front();
    if (by_time.operation->has_field("conv_layout")) {
      by_time.conv_layout = ConvLayout::time;
      if (implementation().supports(by_time)) result.push_back(by_time);
    }
    if (result.front().operation->has_field("residual")) {
      for (const char* layout : {"channels", "time"}) {
        result.push_back(
            Problem::parse("causal_conv1d:channels=36,seq=20+4,dtype=bf16,residual=tensor,"
                           "conv_layout=" +
                           std::string(layout)));
        if (!implementation().supports(result.back())) result.pop_back();
      }
    }
    Problem of_model = result.front();
    if (of_model.operation->has_field("gate")) {
      of_model.gate_encoding = GateEncoding::logits;
      of_model.beta_encoding = BetaEncoding::logit;
      if (implementation().supports(of_model)) result.push_back(of_model);
    }
    return result;
  }

  /// The case with values that the narrower types hold.
  Case narrowed(const Problem& problem, const Holding& holding) const {
    Case c = generate_case(problem);
    if (!holding.narrower) return c;
    for (const Operand& operand : problem.operation->operands) {
      if (!is_present(operand, problem) || operand.is_index() || operand.role == Role::output)
        continue;
      const StorageType type = held_type(storage_type(operand.dtype(problem)), operand, holding);
      std::vector<float>& values = c[operand.name];
      if (holding.shared && is_shared(operand)) std::fill(values.begin(), values.end(), values[0]);
      for (float& value : values) value = rounded(value, type);
    }
    return c;
  }

  void expect_the_same(const Problem& problem, const Holding& holding) {
    const Case c = narrowed(problem, holding);
    const Outputs expected = execute(implementation(), c, device());
    std::vector<Held> all;
    for (const Operand& operand : problem.operation->operands) {
      if (!is_handed_over(operand, problem)) continue;
      Held held(operand, problem, holding);
      if (operand.is_index()) {
        auto values = c.indices(operand);
        copy_on_host(held.copy(values.data(), StorageType::int64, operand, problem, true));
      } else if (operand.role != Role::output) {
        auto values = c[operand.name];
        copy_on_host(held.copy(values.data(), StorageType::float32, operand, problem, true));
      }
      all.push_back(std::move(held));
    }
    for (Held& held : all) {
      const Operand& operand = problem.operation->at(held.tensor.operand);
      const auto bytes = static_cast<std::int64_t>(held.bytes.size());
      held.buffer = device().allocate(bytes);
      device().upload(held.buffer.data(), held.bytes.data(), bytes);
      if (operand.role != Role::output) held.tensor.read = held.buffer.data();
      if (operand.role != Role::input) held.tensor.written = held.buffer.data();
    }
    std::vector<HeldTensor> tensors;
    for (const Held& held : all) tensors.push_back(held.tensor);
    const auto plan = plan_on_held(implementation(), problem, tensors, device());
    EXPECT_EQ(plan->info().conversions.find("_index: "), std::string::npos)
        << "indices are taken as they lie: " << plan->info().conversions;
    if (holding.rows && implementation().description().tokens_in_rows) {
      EXPECT_EQ(plan->info().conversions, "");
    }
    plan->run();
    for (Held& held : all) {
      const Operand& operand = problem.operation->at(held.tensor.operand);
      const std::vector<unsigned char> before = held.bytes;
      device().download(held.bytes.data(), held.buffer.data(),
                        static_cast<std::int64_t>(held.bytes.size()));
      if (operand.role == Role::input || !is_written(operand, problem)) {
        EXPECT_EQ(held.bytes, before) << held.tensor.operand << " is an input";
        continue;
      }
      expect_values(held, operand, problem, expected[operand.output_name()], before);
    }
  }

  /// The output's values, and poison where it has none.
  static void expect_values(Held& held, const Operand& operand, const Problem& problem,
                            const std::vector<float>& expected,
                            const std::vector<unsigned char>& before) {
    std::vector<float> values(expected.size());
    copy_on_host(held.copy(values.data(), StorageType::float32, operand, problem, false));
    const std::int64_t row = row_stride(operand, problem), used = row_elements(operand, problem);
    const bool is_pool = cut_of(operand, problem) == Cut::pool_rows;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (is_pool && static_cast<std::int64_t>(i) % row >= used) continue;
      const float wanted = rounded(expected[i], held.type);
      const bool is_same = is_same_number(values[i], wanted) ||
                           (values[i] != values[i] && wanted != wanted);  // rows nobody writes
      if (!is_same && wrong++ == 0) {
        ADD_FAILURE() << operand.output_name() << "[" << i << "]: " << values[i] << ", expected "
                      << wanted;
      }
    }
    EXPECT_EQ(wrong, 0u) << "of " << values.size() << " values of " << operand.output_name();
    // Poison over the tensor's places: what is left that is not poison was written between them.
    std::vector<unsigned char> between = held.bytes, were = before;
    const auto wipe = [&](std::vector<unsigned char>& bytes) {
      std::swap(held.bytes, bytes);
      std::vector<float> nan(expected.size(), std::numeric_limits<float>::quiet_NaN());
      copy_on_host(held.copy(nan.data(), StorageType::float32, operand, problem, true));
      std::swap(held.bytes, bytes);
    };
    wipe(between);
    wipe(were);
    EXPECT_EQ(between, were) << operand.name << ": written beside its elements";
  }
};

TEST_P(HeldTensors, GiveTheBitsOfDenseOnesAndNothingElseIsTouched) {
  std::size_t nth_problem = 0;
  for (const Problem& problem : problems()) {
    // Emulated, a tensor's copies take longer than the kernels. Of problems that differ in their pools' rows alone every
    // third holding is taken, of each another third.
    const bool is_of_pools = problem.slots != SlotMap::identity || problem.checkpoints > 0;
    std::size_t nth_holding = nth_problem++;
    for (Holding holding : kHoldings) {
      if (emulated() && is_of_pools && nth_holding++ % 3 != 0) continue;
      // Kernels of HIP take their sums in another order where tokens are no multiples of 16 bytes apart.
      if (implementation().description().backend == "hip" && holding.gap > 0) holding.gap = 8;
      SCOPED_TRACE(problem.to_string() + ", held " + holding.name);
      expect_the_same(problem, holding);
    }
  }
}

GDN_INSTANTIATE_FOR_ALL(HeldTensors);

// ---- what is taken as it is, and what is refused

struct HostTensors {
  explicit HostTensors(const std::string& text, std::string name = "cpu/recurrent")
      : implementation(std::move(name)), inputs(generate_case(Problem::parse(text))) {
    for (const Operand& operand : inputs.problem.operation->operands) {
      if (!is_handed_over(operand, inputs.problem)) continue;
      HeldTensor tensor;
      tensor.operand = operand.name;
      if (operand.is_index()) {
        tensor.read = inputs.indices(operand).data();
      } else {
        auto& values = inputs.arrays[operand.name];
        values.resize(static_cast<std::size_t>(element_count(operand, inputs.problem)) + 4096);
        if (operand.role != Role::output) tensor.read = values.data();
        if (operand.role != Role::input) tensor.written = values.data();
      }
      tensors.push_back(tensor);
    }
  }
  HeldTensor& operator[](const std::string& operand) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const HeldTensor& tensor) { return tensor.operand == operand; });
  }
  std::unique_ptr<Plan> plan(Conversions conversions = Conversions::allowed) {
    const Problem& problem = inputs.problem;
    return plan_on_held(find_implementation(problem.operation, implementation),
                        fitted_to(tensors, problem), tensors, *device, conversions);
  }
  std::string refusal(Conversions conversions = Conversions::allowed) {
    try {
      plan(conversions);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string implementation;
  Case inputs;
  std::vector<HeldTensor> tensors;
  std::unique_ptr<Device> device = open_device("cpu");
};

const char* const kProblem =
    "gated_delta:heads=1/2,dim=8x4,seq=3+2,dtype=f32,h0=normal,slots=permuted";

TEST(HeldTensorsTakenAsTheyAre, DenseOnesTokensFartherApartAndRowsFartherApart) {
  HostTensors held(kProblem);
  EXPECT_EQ(held.plan(Conversions::refused)->info().conversions, "");
  held["q"].strides = {20, 8, 1};
  held["beta"].strides = {7, 1};
  held["v"].extents = {1, 5, 2, 4};
  held["v"].strides = {999, 11, 4, 1};
  held["initial_state"].strides = {80, 32, 4, 1};
  EXPECT_EQ(held.plan(Conversions::refused)->info().conversions, "");
  EXPECT_EQ(held.plan()->info().conversion_bytes, 0);
}

TEST(HeldTensorsTakenAsTheyAre, WhatIsConvertedIsNamedAndCounted) {
  HostTensors held(kProblem);
  std::vector<std::int32_t> slots(held.inputs.slot_index.begin(), held.inputs.slot_index.end());
  held["slot_index"].read = slots.data();
  held["slot_index"].type = StorageType::int32;
  held["q"].strides = {8, 1, 1};  // of one head: its stride says nothing
  held["k"].strides = {9, 8, 1};
  held["v"].strides = {1, 20, 5};
  const auto plan = held.plan();
  EXPECT_EQ(plan->info().conversions, "v: strides [1, 20, 5]");
  EXPECT_EQ(plan->info().conversion_bytes, 5 * 2 * 4 * 4);
  EXPECT_EQ(held.refusal(Conversions::refused),
            "cpu/recurrent: would convert v: strides [1, 20, 5]; expected a dense f32 array");
}

TEST(HeldTensorsTakenAsTheyAre, IndicesOfEitherTypeAndGatesInAnyForm) {
  HostTensors held(kProblem);
  std::vector<std::int32_t> offsets;
  for (const std::int64_t offset : held.inputs.sequence_offsets) {
    offsets.insert(offsets.end(), {static_cast<std::int32_t>(offset), -7, -7});
  }
  held["sequence_offsets"].read = offsets.data();
  held["sequence_offsets"].type = StorageType::int32;
  held["sequence_offsets"].strides = {3};
  held["beta"].type = StorageType::bfloat16;
  held["beta"].strides = {1, 40};
  held["log_decay"].type = StorageType::float16;
  held["log_decay"].strides = {0, 0};
  EXPECT_EQ(held.plan(Conversions::refused)->info().conversions, "");
  held["log_decay"].type = StorageType::float8_e5m2;
  EXPECT_EQ(held.plan()->info().conversions, "log_decay: f8_e5m2");
}

// [B, channels, L], as causal-conv1d has it, seen as [channels, B, L]; and [B, L, channels] seen so.
TEST(HeldTensorsTakenAsTheyAre, TokensThatLieInRowsOfAConvolution) {
  HostTensors held("causal_conv1d:channels=6,seq=2x4,dtype=f32,conv_layout=time", "cpu/direct");
  for (const char* const operand : {"qkv", "conv_output"}) {
    held[operand].extents = {6, 2, 4};
    held[operand].strides = {4, 24, 1};
  }
  EXPECT_EQ(held.plan(Conversions::refused)->info().conversions, "");
  held["qkv"].strides = {1, 24, 6};
  EXPECT_EQ(held.plan(Conversions::refused)->info().conversions, "");
  held["qkv"].type = StorageType::bfloat16;
  EXPECT_EQ(held.plan()->info().conversions, "qkv: bf16");
}

// A sequence without tokens writes no row, so that of a pool that is only written comes back as it was.
TEST(HeldTensorsTakenAsTheyAre, RowsThatACallLeavesAreLeftWhereItIsNotRead) {
  HostTensors held("gated_delta:heads=1/2,dim=8x4,seq=3+0+2,dtype=f32");
  HeldTensor& state = held["initial_state"];
  auto* const values = static_cast<float*>(state.written);
  std::fill(values, values + 3 * 64, 7.0f);
  state.read = nullptr;
  state.strides = {64, 32, 1, 8};  // [Dv, Dk] in memory
  const auto plan = held.plan();
  EXPECT_NE(plan->info().conversions, "");
  plan->run();
  EXPECT_EQ(std::count(values, values + 64, 7.0f), 0) << "the first sequence has tokens";
  EXPECT_EQ(std::count(values + 64, values + 128, 7.0f), 64) << "the second one has none";
  EXPECT_EQ(std::count(values + 128, values + 192, 7.0f), 0) << "the third one has tokens";
}

TEST(HeldTensorsTakenAsTheyAre, PoolsHaveTheRowsTheyHave) {
  HostTensors held(kProblem);
  held["initial_state"].extents = {7, 2, 8, 4};
  EXPECT_EQ(fitted_to(held.tensors, held.inputs.problem).num_pool_rows(), 7);
}

TEST(HeldTensorsRefused, WhatWouldLoseBits) {
  HostTensors held("gated_delta:heads=1/2,dim=8x4,seq=3+2,dtype=bf16,state=bf16,h0=normal");
  held["v"].type = StorageType::float32;
  EXPECT_EQ(
      held.refusal(),
      "v: f32 would lose bits, the problem has bf16 there; expected bf16 or a type whose values "
      "it holds");
  held["v"].type = StorageType::float16;
  EXPECT_NE(held.refusal(), "");
  held["v"].type = {};
  held["initial_state"].type = StorageType::float32;
  EXPECT_NE(held.refusal(), "");
  held["initial_state"].type = {};
  held["output"].type = StorageType::float32;
  EXPECT_EQ(held.refusal(), "") << "an output of tokens is rounded, whatever holds it";
  held["sequence_offsets"].type = StorageType::float32;
  EXPECT_EQ(held.refusal(), "sequence_offsets: f32, expected int64");
}

TEST(HeldTensorsRefused, PointersThatAreNotAligned) {
  HostTensors held(kProblem);
  held["beta"].read = static_cast<const char*>(held["beta"].read) + 2;
  EXPECT_EQ(held.refusal(), "beta: pointer is not aligned to its element of 4 bytes");
}

}  // namespace
}  // namespace gdn
