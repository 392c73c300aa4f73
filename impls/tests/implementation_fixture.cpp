#include "implementation_fixture.h"

#include <cstring>
#include <map>
#include <memory>

#include "harness/execute.h"
#include "harness/inputs.h"
#include "interface/error.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn {
namespace {

struct OpenedDevice {
  std::unique_ptr<Device> device;
  std::string why_not;
};

const OpenedDevice& opened_device(const std::string& backend) {
  static std::map<std::string, OpenedDevice> devices;
  const auto found = devices.find(backend);
  if (found != devices.end()) return found->second;
  OpenedDevice& opened = devices[backend];
  std::vector<std::string> names = {backend};
  if (backend == "hip") names.push_back("gfx906-emulator");  // the same machine code, on the host
  if (backend == "cuda") names.push_back("cuda-emulated");   // the same sources
  for (const std::string& name : names) {
    try {
      opened.device = open_device(name);
      return opened;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::device_unavailable) throw;
      opened.why_not += (opened.why_not.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  return opened;
}

/// Longer sequences cut to at most 128 or 384 tokens, at the same place in a chunk of 32: the
/// gfx906 emulator executes machine code, at a fraction of the speed of kernels compiled for the
/// CPU.
Problem shortened(Problem problem, const DeviceInfo& device) {
  const std::int64_t longest = device.backend == "gfx906-emulator" ? 128 : 384;
  for (std::int64_t& length : problem.sequences.lengths) {
    if (length > longest) length = longest - 32 + length % 32;
  }
  return problem;
}

void append_range(std::vector<float>& to, const std::vector<float>& from, std::int64_t begin,
                  std::int64_t end) {
  to.insert(to.end(), from.begin() + begin, from.begin() + end);
}

}  // namespace

std::vector<const Implementation*> implementations_of(Operation operation) {
  std::vector<const Implementation*> found;
  for (const Implementation* implementation : all_implementations()) {
    if (implementation->description().operation == operation) found.push_back(implementation);
  }
  return found;
}

std::string test_name(const testing::TestParamInfo<const Implementation*>& info) {
  std::string name = info.param->description().name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

void PrintTo(const Implementation* implementation, std::ostream* out) {
  *out << implementation->description().name;
}

void ImplementationTest::SetUp() {
  const OpenedDevice& opened = opened_device(implementation().description().backend);
  if (opened.device == nullptr) GTEST_SKIP() << opened.why_not;
  const Support support = runs_on(implementation(), opened.device->info());
  if (!support) GTEST_SKIP() << support.reason;
  device_ = opened.device.get();
}

bool ImplementationTest::emulated() const { return device().info().modelled_time; }

void ImplementationTest::expect_agrees(const Case& inputs) {
  SCOPED_TRACE(implementation().description().name + " on " + inputs.problem.to_string());
  expect_outputs_agree(inputs, execute(implementation(), inputs, device()));
}

void ImplementationTest::expect_outputs_agree(const Case& inputs, const Outputs& outputs) {
  const auto reference = reference::evaluate<double>(inputs);
  const reference::ErrorReport report = reference::compare(inputs, reference, outputs);
  EXPECT_EQ(reference::first_violation(report, report.limits), "");
  EXPECT_EQ(report.non_finite, 0);
  EXPECT_EQ(report.untouched_changed, 0);
  EXPECT_EQ(report.padding_nonzero, 0);
}

void ImplementationTest::expect_agrees(const Problem& problem) {
  expect_agrees(generate_case(emulated() ? shortened(problem, device().info()) : problem));
}

void ImplementationTest::expect_all_agree(const std::vector<std::string>& problems) {
  int supported = 0;
  std::string reason;
  for (const std::string& text : problems) {
    const Problem problem = Problem::parse(text);
    const Support support = implementation().supports(problem);
    if (support) {
      ++supported;
      expect_agrees(problem);
    } else {
      EXPECT_NE(support.reason, "") << text;
      reason = support.reason;
    }
  }
  if (supported == 0) GTEST_SKIP() << "none of the problems is supported: " << reason;
}

Case case_of_pieces(const Case& from, const std::vector<Piece>& pieces) {
  const Problem& p = from.problem;
  if (p.slots != SlotMap::identity || p.conv_layout != ConvLayout::channels) {
    throw_bad_input("case_of_pieces: expected slots=identity and conv_layout=channels");
  }
  Case made = from;
  made.problem.sequences.lengths.clear();
  for (auto* values : {&made.query, &made.key, &made.value, &made.gate.values, &made.beta.values,
                       &made.state_pool, &made.qkv, &made.conv_state}) {
    values->clear();
  }
  const std::int64_t state_row = p.state_row_stride();
  const std::int64_t window_row = p.conv_channels() * (p.conv_width - 1);
  for (const Piece& piece : pieces) {
    made.problem.sequences.lengths.push_back(piece.end - piece.begin);
    const std::int64_t first = from.sequence_offsets[static_cast<std::size_t>(piece.sequence)];
    const std::int64_t begin = first + piece.begin, end = first + piece.end;
    const auto append_tokens = [&](std::vector<float>& to, const std::vector<float>& source,
                                   std::int64_t per_token) {
      if (!source.empty()) append_range(to, source, begin * per_token, end * per_token);
    };
    append_tokens(made.query, from.query, p.num_key_heads * p.key_head_dim);
    append_tokens(made.key, from.key, p.keys_per_token());
    append_tokens(made.value, from.value, p.values_per_token());
    append_tokens(made.gate.values, from.gate.values, p.gates_per_token());
    append_tokens(made.beta.values, from.beta.values, p.betas_per_token());
    append_tokens(made.qkv, from.qkv, p.conv_channels());
    if (!from.state_pool.empty()) {
      append_range(made.state_pool, from.state_pool, piece.sequence * state_row,
                   (piece.sequence + 1) * state_row);
    }
    if (!from.conv_state.empty()) {
      append_range(made.conv_state, from.conv_state, piece.sequence * window_row,
                   (piece.sequence + 1) * window_row);
    }
  }
  made.sequence_offsets = made.problem.sequences.offsets();
  validate(made);
  return made;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<float> token_range(const std::vector<float>& values, std::int64_t per_token,
                               std::int64_t begin, std::int64_t end) {
  std::vector<float> range;
  append_range(range, values, begin * per_token, end * per_token);
  return range;
}

}  // namespace gdn
