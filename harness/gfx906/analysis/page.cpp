#include "harness/gfx906/analysis/page.h"

#include "harness/gfx906/analysis/calibration.h"
#include "harness/gfx906/analysis/experiments.h"
#include "harness/gfx906/analysis/implementations.h"
#include "harness/gfx906/analysis/unfused.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

// The source's dimensions are 16 key heads and 32 value heads of 128, 1024 tokens in 16 chunks: 16
// parts of one key head each.
constexpr const char* kPart = "gated_delta:heads=1/2,dim=128,seq=1024,h0=normal,dtype=";
constexpr int kParts = 16, kHeads = 32;
constexpr int kSystems = 120;  // two for each CU

Problem part(const std::string& dtype) { return Problem::parse(kPart + dtype); }

const Profile& chain() {
  static const Profile result = profile(unfused_chain(), part("f32"), kParts);
  return result;
}

std::string implementations_table() {
  std::vector<Profile> all{chain()};
  for (const char* dtype : {"f32", "f16"}) {
    for (const char* name : {"hip/chunkwise", "hip/fused", "hip/recurrent"}) {
      all.push_back(
          profile(find_implementation(gated_delta_operation(), name), part(dtype), kParts));
    }
  }
  return profile_table(all);
}

std::string marker(const std::string& name) { return "<!-- table " + name + " -->\n"; }

/// Where the block's text lies in the page.
std::pair<std::size_t, std::size_t> range_of(const std::string& page, const std::string& name) {
  const std::size_t begin = page.find(marker(name));
  const std::size_t end = page.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    throw_bad_input("page: no block '" + name + "'");
  }
  return {begin + marker(name).size(), end};
}

}  // namespace

const std::vector<Block>& page_blocks() {
  static const std::vector<Block> blocks = {
      {"calibration", [] { return calibration_table(calibrate()); }},
      {"implementations", implementations_table},
      {"chain", [] { return kernel_table(chain()); }},
      {"solve", [] { return solve_table(run_solves(kSystems)); }},
      {"state", [] { return state_table(run_state_placements(kHeads, 2)); }},
  };
  return blocks;
}

std::string with_block(const std::string& page, const std::string& name, const std::string& text) {
  const auto [begin, end] = range_of(page, name);
  return page.substr(0, begin) + text + page.substr(end);
}

std::string block_of(const std::string& page, const std::string& name) {
  const auto [begin, end] = range_of(page, name);
  return page.substr(begin, end - begin);
}

std::string compiler_of(const std::string& page) {
  const std::string before = "Compiled by ";
  const std::size_t at = page.find(before);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + before.size();
  return page.substr(begin, page.find_first_of(";\n", begin) - begin);
}

}  // namespace gdn::hip
