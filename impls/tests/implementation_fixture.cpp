#include "tests/implementation_fixture.h"

#include <cstring>
#include <map>
#include <memory>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
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

std::string operation_and_name(const testing::TestParamInfo<const Implementation*>& tested) {
  return to_string(tested.param->description().operation) + "_" + test_name(tested);
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

bool ImplementationTest::emulated() const { return device().info().emulated; }

void ImplementationTest::expect_agrees(const Case& inputs) {
  SCOPED_TRACE(implementation().description().name + " on " + inputs.problem.to_string());
  expect_outputs_agree(inputs, execute(implementation(), inputs, device()));
}

void ImplementationTest::expect_outputs_agree(const Case& inputs, const Outputs& outputs) {
  const auto reference = reference::evaluate<double>(inputs);
  const reference::ErrorReport report = reference::compare(inputs, reference, outputs);
  EXPECT_EQ(reference::violation(report, report.limits), "");
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
  if (p.slots != SlotMap::identity) throw_bad_input("case_of_pieces: expected slots=identity");
  Case made;
  made.problem = p;
  made.problem.sequences.lengths.clear();
  for (const Piece& piece : pieces) {
    made.problem.sequences.lengths.push_back(piece.end - piece.begin);
  }
  made.sequence_offsets = made.problem.sequences.offsets();
  for (const auto& [name, values] : from.arrays) {
    const Operand& operand = p.operation->at(name);
    if (tokens_are_fastest(operand, p)) {
      throw_bad_input("case_of_pieces: expected the tokens of " + name + " outermost");
    }
    std::vector<float>& array = made[name];
    const Cut cut = cut_of(operand, p);
    if (cut == Cut::whole) array = values;
    for (const Piece& piece : pieces) {
      if (cut == Cut::tokens) {
        const std::int64_t first = from.first_token(piece.sequence);
        const std::int64_t per_token = elements_per_token(operand, p);
        append_range(array, values, (first + piece.begin) * per_token,
                     (first + piece.end) * per_token);
      } else if (cut == Cut::pool_rows) {
        const std::int64_t stride = row_stride(operand, p);
        append_range(array, values, piece.sequence * stride, (piece.sequence + 1) * stride);
      }
    }
  }
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
