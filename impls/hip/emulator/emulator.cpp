#include "hip/emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "hip/emulator/cost_model.h"
#include "interface/error.h"

namespace gdn::gfx906 {
namespace {

/// The fields of the AQL kernel dispatch packet that kernels read (code object version 4).
struct DispatchPacket {
  std::uint16_t header = 0;
  std::uint16_t setup = 3;
  std::uint16_t workgroup_size[3] = {};
  std::uint16_t reserved0 = 0;
  std::uint32_t grid_size[3] = {};
  std::uint32_t private_segment_size = 0;
  std::uint32_t group_segment_size = 0;
  std::uint64_t kernel_object = 0;
  std::uint64_t kernarg_address = 0;
  std::uint64_t reserved2 = 0;
  std::uint64_t completion_signal = 0;
};
static_assert(sizeof(DispatchPacket) == 64);

struct Launch {
  const CodeObject& code;
  const Kernel& kernel;
  Extent grid;
  Extent block;
  std::uint32_t dynamic_lds_bytes;
  const LaunchOptions& options;
  DispatchPacket packet;
  std::vector<std::uint8_t> arguments;
  std::vector<MemoryRange> global;
  std::vector<WorkgroupTrace> traces;
};

/// Registers of a wave at its start, as the kernel descriptor asks (AMDGPU ABI, "Initial Kernel
/// Execution State").
void initialise(Wave& wave, const Launch& launch, std::uint64_t workgroup, int id) {
  clear(wave);
  wave.id = id;
  wave.noise.seed(static_cast<std::uint32_t>(workgroup * 977 + static_cast<std::uint64_t>(id)));
  wave.scratch.assign(std::size_t{kLanes} * launch.kernel.scratch_bytes, 0xff);
  int next = 0;
  const auto push64 = [&](std::uint64_t value) {
    wave.set_scalar64(next, value);
    next += 2;
  };
  const std::uint16_t properties = launch.kernel.properties;
  if ((properties & 1) != 0) {  // private segment buffer: scratch is addressed without it here
    push64(0);
    push64(0);
  }
  if ((properties & 2) != 0) push64(reinterpret_cast<std::uint64_t>(&launch.packet));
  if ((properties & 4) != 0) push64(0);  // queue
  if ((properties & 8) != 0) push64(reinterpret_cast<std::uint64_t>(launch.arguments.data()));
  if ((properties & 16) != 0) push64(0);  // dispatch id
  if ((properties & 32) != 0) push64(0);  // flat scratch init
  if ((properties & 64) != 0) wave.set_scalar(next++, launch.kernel.scratch_bytes);
  const std::uint32_t resource2 = launch.kernel.resource2;
  next = static_cast<int>(resource2 >> 1 & 31);
  const Extent& grid = launch.grid;
  if ((resource2 >> 7 & 1) != 0)
    wave.set_scalar(next++, static_cast<std::uint32_t>(workgroup % grid.x));
  if ((resource2 >> 8 & 1) != 0) {
    wave.set_scalar(next++, static_cast<std::uint32_t>(workgroup / grid.x % grid.y));
  }
  if ((resource2 >> 9 & 1) != 0) {
    wave.set_scalar(next++, static_cast<std::uint32_t>(workgroup / grid.x / grid.y));
  }
  if ((resource2 >> 10 & 1) != 0) wave.set_scalar(next++, 0);  // workgroup info
  if ((resource2 & 1) != 0) wave.set_scalar(next++, 0);        // scratch wave offset
  const Extent& block = launch.block;
  const std::uint64_t threads = block.count();
  const int ids = static_cast<int>(resource2 >> 11 & 3);
  std::uint64_t active = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto thread = static_cast<std::uint32_t>(id * kLanes + lane);
    if (thread < threads) active |= std::uint64_t{1} << lane;
    wave.v[0][lane] = thread % block.x;
    wave.v[1][lane] = thread / block.x % block.y;
    wave.v[2][lane] = thread / block.x / block.y;
  }
  for (int i = 0; i <= ids; ++i) wave.v_defined[i] = kAllLanes;
  wave.set_scalar64(kExec, active);
}

/// One instruction at a time until the wave stops or the budget is spent; -1 = no budget.
template <bool profile>
void run(Context& context, Wave& wave, int budget) {
  static const CardModel card;
  const Instruction* code = context.kernel.code.data();
  const int end = static_cast<int>(context.kernel.code.size());
  while (wave.state == WaveState::running && budget-- != 0) {
    if (wave.pc < 0 || wave.pc >= end) {
      context.report(FaultKind::bad_instruction, wave, code[end - 1], "ran past the end");
    }
    const int index = wave.pc++;
    const Instruction& instruction = code[index];
    ++context.counters.instructions[static_cast<std::size_t>(instruction.unit)];
    if constexpr (!profile) {
      instruction.execute(context, wave, instruction);
    } else {
      Counters& counters = context.counters;
      AccessCost cost{counters.lds_cycles, counters.lds_bytes, counters.memory_path_cycles};
      const std::uint64_t vector_cycles = wave.vector_cycles;
      instruction.execute(context, wave, instruction);
      if (instruction.unit == Unit::cross_lane) {
        counters.lds_cycles += static_cast<std::uint64_t>(card.crossbar_cycles);
      }
      cost = {counters.lds_cycles - cost.lds_cycles, counters.lds_bytes - cost.lds_bytes,
              counters.memory_path_cycles - cost.memory_path_cycles};
      advance_timeline(wave, instruction, cost, card);
      counters.vector_cycles += wave.vector_cycles - vector_cycles;
      ++context.executed[static_cast<std::size_t>(index)];
    }
  }
}

/// Runs the waves of one workgroup, switching where they wait, until all have ended.
class Workgroup {
 public:
  Workgroup(Context& context, std::vector<std::unique_ptr<Wave>>& waves)
      : context_(context),
        waves_(waves),
        random_(static_cast<std::uint32_t>(context.workgroup + 1)) {}

  void run_all() {
    for (;;) {
      bool any = false;
      const std::size_t count = waves_.size();
      for (std::size_t k = 0; k < count; ++k) {
        std::size_t chosen = k;
        if (context_.options.order == WaveOrder::reverse) chosen = count - 1 - k;
        if (context_.options.order == WaveOrder::random) chosen = random_() % count;
        Wave& wave = *waves_[chosen];
        if (wave.state != WaveState::running) continue;
        any = true;
        const int slice = context_.options.preempt_every;
        const int budget =
            slice > 0 ? 1 + static_cast<int>(random_() % static_cast<unsigned>(slice)) : -1;
        if (context_.options.profile) {
          run<true>(context_, wave, budget);
        } else {
          run<false>(context_, wave, budget);
        }
      }
      if (!any && !pass_barrier()) return;
    }
  }
  /// Cycles of the cost model, once all waves have ended.
  std::uint64_t path_cycles() const { return interval_start_; }

 private:
  /// Ends a barrier interval of the cost model: no wave goes on before the slowest wave has come
  /// and the shared units have served all.
  void close_interval() {
    constexpr std::size_t kSimds = 4;
    std::uint64_t simd_cycles[kSimds] = {};
    std::uint64_t latest = 0;
    for (const auto& wave : waves_) {
      latest = std::max(latest, wave->cycle);
      simd_cycles[static_cast<std::size_t>(wave->id) % kSimds] += wave->vector_cycles;
      wave->vector_cycles = 0;
    }
    const Counters& counters = context_.counters;
    const std::uint64_t busiest = std::max({*std::max_element(simd_cycles, simd_cycles + kSimds),
                                            counters.lds_cycles - lds_cycles_before_,
                                            counters.memory_path_cycles - memory_cycles_before_});
    lds_cycles_before_ = counters.lds_cycles;
    memory_cycles_before_ = counters.memory_path_cycles;
    interval_start_ = std::max(latest, interval_start_ + busiest);
    for (const auto& wave : waves_) wave->cycle = interval_start_;
  }

  /// No wave runs: all ended (false), or all are at a barrier and pass it, or they diverged (a
  /// fault).
  bool pass_barrier() {
    Wave* waiting = nullptr;
    std::size_t done = 0;
    bool running = false;
    for (const auto& wave : waves_) {
      if (wave->state == WaveState::done) ++done;
      if (wave->state == WaveState::running) running = true;
      if (wave->state == WaveState::at_barrier) waiting = wave.get();
    }
    if (running) return true;  // random order had not picked it
    close_interval();
    if (waiting == nullptr) return false;
    if (done > 0) {
      const Instruction& barrier = context_.kernel.code[static_cast<std::size_t>(waiting->pc - 1)];
      context_.report(
          FaultKind::divergent_barrier, *waiting, barrier,
          std::to_string(done) + " of " + std::to_string(waves_.size()) + " waves have ended");
    }
    for (const auto& wave : waves_) wave->state = WaveState::running;
    context_.lds.next_interval();
    ++context_.counters.barriers;
    return true;
  }

  Context& context_;
  std::vector<std::unique_ptr<Wave>>& waves_;
  std::mt19937 random_;
  std::uint64_t interval_start_ = 0;
  std::uint64_t lds_cycles_before_ = context_.counters.lds_cycles;
  std::uint64_t memory_cycles_before_ = context_.counters.memory_path_cycles;
};

/// One host thread: takes workgroups until none is left or one has failed.
void work(Launch& launch, std::atomic<std::uint64_t>& next, Context& context) {
  const auto num_waves = static_cast<int>((launch.block.count() + kLanes - 1) / kLanes);
  const std::uint64_t groups = launch.grid.count();
  std::vector<std::unique_ptr<Wave>> waves;
  for (int i = 0; i < num_waves; ++i) waves.push_back(std::make_unique<Wave>());
  for (std::uint64_t taken; (taken = next++) < groups;) {
    context.workgroup = launch.options.order == WaveOrder::reverse ? groups - 1 - taken : taken;
    context.lds.reset(launch.kernel.lds_bytes + launch.dynamic_lds_bytes);
    for (int i = 0; i < num_waves; ++i) {
      initialise(*waves[static_cast<std::size_t>(i)], launch, context.workgroup, i);
    }
    context.lines.clear();
    Workgroup workgroup(context, waves);
    workgroup.run_all();
    if (launch.options.profile) {
      const std::uint64_t path = workgroup.path_cycles();
      context.counters.path_cycles += path;
      launch.traces[context.workgroup] = {path, context.lines};
    }
    ++context.counters.workgroups;
    context.counters.waves += static_cast<std::uint64_t>(num_waves);
  }
}

}  // namespace

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::lds_race:
      return "LDS race";
    case FaultKind::undefined_value:
      return "undefined value used";
    case FaultKind::out_of_bounds:
      return "out-of-bounds access";
    case FaultKind::divergent_barrier:
      return "divergent barrier";
    case FaultKind::bad_instruction:
      return "instruction without meaning";
  }
  return "fault";
}

void Context::report(FaultKind kind, const Wave& wave, const Instruction& instruction,
                     const std::string& detail) {
  ++num_faults;
  const bool ends = kind == FaultKind::out_of_bounds || kind == FaultKind::divergent_barrier ||
                    kind == FaultKind::bad_instruction;
  if (!ends && static_cast<int>(faults.size()) >= options.max_faults) return;
  char address[32];
  std::snprintf(address, sizeof(address), "%#x", instruction.address);
  std::string text = kernel.name + ": " + name_of(kind) + " in workgroup " +
                     std::to_string(workgroup) + ", wave " + std::to_string(wave.id) + ", at " +
                     address + " '" + instruction.text + "': " + detail;
  if (kind == FaultKind::undefined_value && !last_undefined_lds_read.empty()) {
    text += " (" + last_undefined_lds_read + ")";
  }
  if (ends) throw Error(ErrorKind::device_failure, "gfx906-emulator: " + text);
  faults.push_back({kind, text});
}

void find_range(Context& context, const Wave& wave, const Instruction& instruction,
                std::uint64_t address, std::uint64_t size) {
  // The first range that ends after the address; ranges are sorted and disjoint.
  const auto range = std::upper_bound(
      context.global.begin(), context.global.end(), address,
      [](std::uint64_t value, const MemoryRange& candidate) { return value < candidate.last; });
  if (range != context.global.end() && range->holds(address, address + size)) {
    context.last_range = *range;
    return;
  }
  std::string where = "no buffer near";
  if (range != context.global.end() && address + size > range->first) {
    where = "across an end of a buffer of " + std::to_string(range->last - range->first) + " bytes";
  } else if (range != context.global.begin()) {
    const MemoryRange& before = *(range - 1);
    where = std::to_string(address - before.last) + " bytes past a buffer of " +
            std::to_string(before.last - before.first) + " bytes";
  }
  context.report(FaultKind::out_of_bounds, wave, instruction,
                 "global access of " + std::to_string(size) + " bytes, " + where);
}

void Counters::add(const Counters& other) {
  for (std::size_t i = 0; i < instructions.size(); ++i) instructions[i] += other.instructions[i];
  waves += other.waves;
  workgroups += other.workgroups;
  barriers += other.barriers;
  global_loads += other.global_loads;
  global_stores += other.global_stores;
  global_bytes_read += other.global_bytes_read;
  global_bytes_written += other.global_bytes_written;
  lds_bytes += other.lds_bytes;
  global_lines += other.global_lines;
  lds_cycles += other.lds_cycles;
  lds_conflict_cycles += other.lds_conflict_cycles;
  memory_path_cycles += other.memory_path_cycles;
  path_cycles += other.path_cycles;
  l2_hits += other.l2_hits;
  memory_lines_read += other.memory_lines_read;
  memory_lines_written += other.memory_lines_written;
  vector_cycles += other.vector_cycles;
  for (const auto& [name, count] : other.by_mnemonic) by_mnemonic[name] += count;
}

Counters Counters::times(std::uint64_t copies) const {
  Counters sum;
  for (std::uint64_t i = 0; i < copies; ++i) sum.add(*this);
  return sum;
}

void clear(Wave& wave) {
  std::memset(wave.v, 0xff, sizeof(wave.v));  // a quiet NaN
  std::memset(wave.v_defined, 0, sizeof(wave.v_defined));
  std::memset(wave.s, 0xff, sizeof(wave.s));
  std::memset(wave.s_defined, 0, sizeof(wave.s_defined));
  wave.scc = wave.scc_defined = false;
  wave.state = WaveState::running;
  wave.id = wave.pc = 0;
  wave.cycle = wave.vector_cycles = wave.lds_free = wave.memory_free = 0;
  wave.vector_memory_done.clear();
  wave.lds_done.clear();
  wave.set_scalar64(kExec, kAllLanes);
}

void execute_wave(Context& context, Wave& wave) { run<false>(context, wave, -1); }

LaunchResult launch(const CodeObject& code, const std::string& kernel_name, Extent grid,
                    Extent block, std::string_view arguments, std::uint32_t dynamic_lds_bytes,
                    const std::vector<MemoryRange>& global, const LaunchOptions& options) {
  const Kernel& kernel = code.find(kernel_name);
  if (block.count() == 0 || block.count() > 1024) {
    throw_bad_input("launch of " + kernel_name + ": " + std::to_string(block.count()) +
                    " threads; expected 1..1024");
  }
  if (kernel.lds_bytes + dynamic_lds_bytes > 65536) {
    throw_bad_input("launch of " + kernel_name + ": " +
                    std::to_string(kernel.lds_bytes + dynamic_lds_bytes) +
                    " bytes of LDS; a gfx906 workgroup has 65536");
  }
  Launch state{code, kernel, grid, block, dynamic_lds_bytes, options, {}, {}, global, {}};
  if (options.profile) state.traces.resize(grid.count());
  state.arguments.assign(std::max<std::size_t>(kernel.kernarg_bytes, arguments.size()) + 64, 0);
  std::memcpy(state.arguments.data(), arguments.data(), arguments.size());
  const std::uint32_t blocks[3] = {block.x, block.y, block.z}, grids[3] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; ++i) {
    state.packet.workgroup_size[i] = static_cast<std::uint16_t>(blocks[i]);
    state.packet.grid_size[i] = blocks[i] * grids[i];
  }
  state.packet.group_segment_size = kernel.lds_bytes + dynamic_lds_bytes;
  const auto add_range = [&](const void* data, std::uint64_t bytes) {
    const auto first = reinterpret_cast<std::uint64_t>(data);
    state.global.push_back({first, first + bytes});
  };
  add_range(state.arguments.data(), state.arguments.size());
  add_range(&state.packet, sizeof(state.packet));
  add_range(code.image(), code.image_bytes());
  std::sort(state.global.begin(), state.global.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.first < b.first; });

  const std::uint64_t groups = grid.count();
  std::uint64_t threads = options.threads > 0 ? static_cast<std::uint64_t>(options.threads)
                                              : std::max(1u, std::thread::hardware_concurrency());
  threads = std::max<std::uint64_t>(1, std::min(threads, groups));
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::exception_ptr> failures(threads);
  std::atomic<std::uint64_t> next{0};
  for (std::uint64_t i = 0; i < threads; ++i) {
    contexts.push_back(
        std::make_unique<Context>(Context{kernel,
                                          state.global,
                                          options,
                                          reinterpret_cast<std::uint64_t>(code.image()),
                                          {},
                                          {},
                                          std::vector<std::uint64_t>(kernel.code.size()),
                                          {},
                                          0,
                                          0,
                                          {},
                                          {}}));
  }
  const auto worker = [&](std::uint64_t i) {
    try {
      work(state, next, *contexts[i]);
    } catch (...) {
      failures[i] = std::current_exception();
      next = groups;
    }
  };
  std::vector<std::thread> pool;
  for (std::uint64_t i = 1; i < threads; ++i) pool.emplace_back(worker, i);
  worker(0);
  for (std::thread& thread : pool) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  LaunchResult result;
  result.workgroups = std::move(state.traces);
  for (const auto& context : contexts) {
    for (std::size_t i = 0; i < context->executed.size(); ++i) {
      if (context->executed[i] == 0) continue;
      const std::string& text = kernel.code[i].text;
      context->counters.by_mnemonic[text.substr(0, text.find(' '))] += context->executed[i];
    }
    result.counters.add(context->counters);
    result.num_faults += context->num_faults;
    for (const Fault& fault : context->faults) result.faults.push_back(fault);
  }
  return result;
}

}  // namespace gdn::gfx906
