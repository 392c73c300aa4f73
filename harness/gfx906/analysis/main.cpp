// gfx906_analysis: makes the tables of harness/gfx906/analysis/README.md, and shows the emulator's
// speed. Everything it prints of the card is modelled.
#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "harness/files/whole_file.h"
#include "harness/gfx906/analysis/page.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/code_objects.h"
#include "hip/emulator_device.h"
#include "interface/error.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {
namespace {

constexpr const char* kUsage =
    "usage: gfx906_analysis [--only NAME] print the tables (modelled)\n"
    "       gfx906_analysis --update PAGE  write them into the page\n"
    "       gfx906_analysis --check PAGE   exit 1 where the page says something else\n"
    "       gfx906_analysis --speed        wave instructions per second of the emulator, one "
    "core\n";

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw_bad_input(path + ": cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int print_tables(const std::string& only) {
  bool found = false;
  for (const Block& block : page_blocks()) {
    if (!only.empty() && block.name != only) continue;
    found = true;
    fmt::print("== {} (modelled) ==\n{}\n", block.name, block.text());
  }
  if (!found) throw_bad_input("--only " + only + ": no such table");
  return 0;
}

int update(const std::string& path) {
  std::string page = read_file(path);
  for (const Block& block : page_blocks()) page = with_block(page, block.name, block.text());
  if (const auto failure = write_whole_file(path, page.data(), page.size())) {
    throw_bad_input(path + ": cannot be written: " + failure.message());
  }
  return 0;
}

int check(const std::string& path) {
  const std::string page = read_file(path);
  if (compiler_of(page) != code_object_compiler()) {
    fmt::print("the page is of {}, these code objects are of {}: not compared\n", compiler_of(page),
               code_object_compiler());
    return 1;
  }
  int differing = 0;
  for (const Block& block : page_blocks()) {
    const std::string now = block.text();
    const bool same = block_of(page, block.name) == now;
    fmt::print("{}: {}\n", block.name, same ? "as the page says" : "DIFFERS, now:\n" + now);
    differing += same ? 0 : 1;
  }
  return differing == 0 ? 0 : 1;
}

/// One host thread, without profiling: what verification runs.
int show_speed() {
  for (const char* name : {"hip/fused", "hip/chunkwise", "hip/recurrent", "hip/naive"}) {
    gfx906::LaunchOptions options;
    options.threads = 1;
    const auto device = open_emulator(options);
    const Problem problem =
        Problem::parse("gated_delta:heads=1/2,dim=128,seq=512,dtype=f32,h0=normal");
    DeviceCase on_device(generate_case(problem), *device);
    const auto plan = find_implementation(gated_delta_operation(), name)
                          .plan(problem, on_device.arguments(), *device);
    const std::clock_t start = std::clock();  // CPU time: a busy machine does not show
    plan->run();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const auto instructions = static_cast<double>(emulator_counters(*device).total());
    fmt::print("{:<16} {:6.1f} M wave instructions in {:6.3f} s of one core: {:5.1f} M/s\n", name,
               instructions / 1e6, seconds, instructions / seconds / 1e6);
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const std::size_t count = arguments.size();
  if (count == 0) return print_tables("");
  if (count == 2 && arguments[0] == "--only") return print_tables(arguments[1]);
  if (count == 2 && arguments[0] == "--update") return update(arguments[1]);
  if (count == 2 && arguments[0] == "--check") return check(arguments[1]);
  if (count == 1 && arguments[0] == "--speed") return show_speed();
  const bool help = count == 1 && (arguments[0] == "--help" || arguments[0] == "-h");
  fmt::print(help ? stdout : stderr, "{}", kUsage);
  return help ? 0 : 2;
}

}  // namespace
}  // namespace gdn::hip

int main(int argc, char** argv) {
  try {
    return gdn::hip::run({argv + 1, argv + argc});
  } catch (const gdn::Error& error) {
    fmt::print(stderr, "gfx906_analysis: {}\n", error.what());
    return gdn::exit_code(error.kind());
  }
}
