#include "harness/gfx906/analysis/implementations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/gfx906/analysis/table.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "hip/emulator_device.h"

namespace gdn::hip {
namespace {

std::string millions(std::uint64_t count) {
  return fmt::format("{:.3g}", static_cast<double>(count) / 1e6);
}
std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}
std::uint64_t vector_instructions(const gfx906::Counters& counters) {
  std::uint64_t sum = 0;
  for (const gfx906::Unit unit :
       {gfx906::Unit::vector, gfx906::Unit::vector_half, gfx906::Unit::vector_quarter}) {
    sum += counters.instructions[static_cast<std::size_t>(unit)];
  }
  return sum;
}
std::uint64_t memory_bytes(const gfx906::Counters& counters) {
  return (counters.memory_lines_read + counters.memory_lines_written) * gfx906::kCacheLineBytes;
}

}  // namespace

double Profile::dispatch_us() const {
  double sum = 0;
  for (const gfx906::ModelledLaunch& launch : launches) sum += launch.time.dispatch_us;
  return sum;
}
double Profile::execution_us() const { return total_us - dispatch_us(); }

Profile profile(const Implementation& implementation, const Problem& problem, int copies) {
  const gfx906::CardModel whole;
  gfx906::CardModel share = whole;
  share.l2_bytes /= copies;
  share.compute_units = std::max(1, whole.compute_units / copies);
  const auto device = open_emulator({}, share);
  DeviceCase on_device(generate_case(problem), *device);
  const auto plan = implementation.plan(problem, on_device.arguments(), *device);
  Profile result;
  result.implementation = implementation.description().name;
  result.token_dtype = problem.token_dtype;
  const double of_share_us = 1000 * device->time_launch({}, [&] { plan->run(); }).time_ms;
  result.launches = modelled_launches(*device);
  double written_back_us = of_share_us;  // what no launch accounts for
  for (gfx906::ModelledLaunch& launch : result.launches) {
    written_back_us -= launch.time.total_us();
    launch.counters = launch.counters.times(static_cast<std::uint64_t>(copies));
    launch.time = gfx906::modelled_time(launch.counters, launch.resident_workgroups, whole);
    result.total_us += launch.time.total_us();
  }
  result.total_us += written_back_us * copies;
  return result;
}

std::string profile_table(const std::vector<Profile>& profiles) {
  MarkdownTable table({"implementation", "tokens", "launches", "wave instructions, 10^6",
                       "of them VALU", "LDS cycles, 10^6 (conflicts)", "MB asked for",
                       "MB from and to memory", "dispatches ms", "execution ms", "modelled ms"});
  for (const Profile& p : profiles) {
    const gfx906::Counters counters = p.counters();
    table.add({p.implementation, short_name(p.token_dtype), fmt::format("{}", p.launches.size()),
               millions(counters.total()), millions(vector_instructions(counters)),
               fmt::format("{} ({})", millions(counters.lds_cycles),
                           millions(counters.lds_conflict_cycles)),
               megabytes(counters.global_bytes_read + counters.global_bytes_written),
               megabytes(memory_bytes(counters)), fmt::format("{:.3f}", p.dispatch_us() / 1000),
               fmt::format("{:.3f}", p.execution_us() / 1000),
               fmt::format("{:.3f}", p.total_us / 1000)});
  }
  return table.text();
}

std::string kernel_table(const Profile& profile) {
  std::map<std::string, std::vector<gfx906::ModelledLaunch>> by_kernel;
  for (const gfx906::ModelledLaunch& launch : profile.launches) {
    by_kernel[launch.kernel].push_back(launch);
  }
  MarkdownTable table({"kernel", "launches", "workgroups of the largest", "a CU holds",
                       "wave instructions, 10^6", "MB asked for", "MB from and to memory",
                       "execution ms", "bound (of the longest)"});
  for (const auto& [kernel, launches] : by_kernel) {
    const gfx906::Counters counters = gfx906::total_counters(launches);
    double execution_us = 0;
    std::uint64_t groups = 0;
    const gfx906::ModelledLaunch* longest = &launches.front();
    for (const gfx906::ModelledLaunch& launch : launches) {
      execution_us += launch.time.execution_us();
      groups = std::max(groups, launch.counters.workgroups);
      if (launch.time.execution_us() > longest->time.execution_us()) longest = &launch;
    }
    table.add({"`" + kernel + "`", fmt::format("{}", launches.size()), fmt::format("{}", groups),
               fmt::format("{}", launches.front().resident_workgroups), millions(counters.total()),
               megabytes(counters.global_bytes_read + counters.global_bytes_written),
               megabytes(memory_bytes(counters)), fmt::format("{:.3f}", execution_us / 1000),
               longest->time.bound()});
  }
  return table.text();
}

}  // namespace gdn::hip
