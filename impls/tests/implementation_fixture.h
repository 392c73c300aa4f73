// Tests parametrised over every registered implementation of an operation: what is tested of one is
// tested of all, on every backend that has a device here.
#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "interface/case.h"
#include "interface/implementation.h"

namespace gdn {

std::vector<const Implementation*> implementations_of(Operation operation);

/// On a device of the implementation's backend; HIP implementations on the gfx906 emulator where
/// there is no card. Skips, with the reason, where there is neither or the device cannot run it.
class ImplementationTest : public testing::TestWithParam<const Implementation*> {
 protected:
  void SetUp() override;

  const Implementation& implementation() const { return *GetParam(); }
  Device& device() const { return *device_; }
  /// On an emulator, where a token costs a thousand times what it does elsewhere: the one reason
  /// for a test to take a smaller problem than on other devices.
  bool emulated() const;

  /// Runs the problem's generated case and expects every output within the limits the reference
  /// library sets for it, nothing touched that must not be, and zeros for padding sequences. A
  /// problem that is not supported must come with a reason, and only counts towards `skipped`. Long
  /// sequences are cut where the device is emulated.
  void expect_agrees(const Problem& problem);
  virtual void expect_agrees(const Case& inputs);
  /// The same of outputs already made.
  void expect_outputs_agree(const Case& inputs, const Outputs& outputs);
  /// As expect_agrees for each Problem string; skips the test if none of them is supported.
  void expect_all_agree(const std::vector<std::string>& problems);

 private:
  Device* device_ = nullptr;  ///< opened once per backend and process
};

/// What GoogleTest prints of a parameter: the implementation's name.
void PrintTo(const Implementation* implementation, std::ostream* out);

/// "cpu_chunkwise": a test name from an implementation's.
std::string test_name(const testing::TestParamInfo<const Implementation*>& info);

/// "gated_delta_cpu_chunkwise", for suites of every operation's implementations.
std::string operation_and_name(const testing::TestParamInfo<const Implementation*>& info);

/// Tokens [begin, end) of sequence `sequence` of a case.
struct Piece {
  std::int64_t sequence = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A case whose sequences are these pieces of `from`, each with a copy of its sequence's rows of
/// every pool, in identity slots. `from` must have slots=identity and its tokens outermost.
Case case_of_pieces(const Case& from, const std::vector<Piece>& pieces);

/// Whether both hold the same bits (NaN included).
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// Values [begin, end) of one token-major array of `per_token` values a token.
std::vector<float> token_range(const std::vector<float>& values, std::int64_t per_token,
                               std::int64_t begin, std::int64_t end);

}  // namespace gdn

/// One instance of the suite per implementation of the operation, named after it. A backend left
/// out of the build has none.
#define GDN_INSTANTIATE_FOR(Suite, operation)           \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite); \
  INSTANTIATE_TEST_SUITE_P(All, Suite, testing::ValuesIn(implementations_of(operation)), test_name)

/// One instance of the suite per implementation there is, named after its operation and it.
#define GDN_INSTANTIATE_FOR_ALL(Suite) \
  INSTANTIATE_TEST_SUITE_P(All, Suite, testing::ValuesIn(all_implementations()), operation_and_name)
