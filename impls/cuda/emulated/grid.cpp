#include "cuda/emulated/grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/emulated/stack_switch.h"
#include "cuda_runtime.h"
#include "interface/error.h"

namespace gdn::cuda_grid {
namespace {

constexpr unsigned int kMaxThreads = 1024;
// Not a power of two: the tops of all stacks would lie in one set of the processor's caches.
constexpr std::size_t kStackBytes = (std::size_t{256} << 10) + 33 * 64;
constexpr std::size_t kMaxSharedBytes = 232448;  // of a block on sm_90
constexpr std::size_t kSharedAlignment = 1024;
constexpr std::size_t kGuardBytes = 4096;  // behind the dynamic shared memory
constexpr unsigned char kNanByte = 0xff;
constexpr std::uint64_t kStackMark = 0x6764'6e20'7374'6163;
constexpr int kBarriers = 16;

ExecutionOptions g_options;

struct Copy {
  void* shared;
  const void* source;
  bool valid;
};

enum class State : unsigned char { ready, waiting, done };

// A stack with a function of a block on it.
struct Seat {
  unsigned char* stack = nullptr;
  void* place = nullptr;  // where it was left; null: given up, or never begun
  bool is_used = false;   // by this block
};

// Small, since every turn and every block's beginning goes through those of a warp.
struct Fibre {
  Seat seat;
  bool has_begun = false;
  unsigned int meetings = 0;  // parity chooses the warp's slots
};

// What a fibre has begun and not yet waited for.
struct Transfers {
  std::vector<Copy> open_group;
  std::deque<std::vector<Copy>> groups;
  std::vector<std::function<void()>> open_stores;
  std::deque<std::vector<std::function<void()>>> store_groups;
};

// PTX ISA, "Asynchronous Barriers": a phase ends when all arrivals and announced bytes have come.
struct Mbarrier {
  std::uint32_t arrivals = 0;  // per phase
  std::int64_t pending = 0;    // of this phase
  std::int64_t bytes = 0;      // announced and not yet brought
  std::uint32_t phase = 0;
  std::vector<int> waiting;
};

struct Load {
  std::uint32_t mbarrier;
  std::uint32_t bytes;
  std::function<void()> copy;
};

struct Warp {
  WarpSlots slots[2];
  const char* operation = nullptr;
  int arrived = 0;
};

struct Barrier {
  int arrived = 0;
  int wanted = 0;  // 0: all live threads
  std::vector<int> waiting;
};

// The stacks of a block's fibres. They are kept from launch to launch: fresh memory costs each thread page
// faults, which were 5 of the 59 seconds of processor time that half of the suite quick took.
class Stacks {
 public:
  Stacks() {
    const std::lock_guard<std::mutex> lock(mutex());
    if (!kept().empty()) {
      bytes_ = kept().back();
      kept().pop_back();
      return;
    }
    void* const made = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) {
      throw Error(ErrorKind::out_of_memory, "cuda-emulated: no memory for the threads' stacks");
    }
    bytes_ = static_cast<unsigned char*>(made);
  }
  ~Stacks() {
    if (in_doubt_) {
      munmap(bytes_, kMaxThreads * kStackBytes);
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex());
    kept().push_back(bytes_);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  unsigned char* of(int thread) const {
    return bytes_ + static_cast<std::size_t>(thread) * kStackBytes;
  }
  // Some were left with functions on them that never return, and are not used again.
  void set_in_doubt(bool in_doubt) { in_doubt_ = in_doubt; }

 private:
  static std::mutex& mutex() {
    static std::mutex the_mutex;
    return the_mutex;
  }
  static std::vector<unsigned char*>& kept() {
    static auto* const stacks = new std::vector<unsigned char*>;  // outlives every thread
    return *stacks;
  }

  unsigned char* bytes_ = nullptr;
  bool in_doubt_ = false;
};

// One processor's block: its fibres are used again for the next block.
class Block {
 public:
  explicit Block(unsigned int threads)
      : shared_(std::make_unique_for_overwrite<unsigned char[]>(kMaxSharedBytes + kGuardBytes +
                                                                kSharedAlignment)),
        fibres_(threads),
        states_(threads, State::done),
        warps_((threads + 31) / 32) {
    const auto address = reinterpret_cast<std::uintptr_t>(shared_.get());
    aligned_shared_ =
        shared_.get() + (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
    for (std::size_t thread = 0; thread < fibres_.size(); ++thread)
      fibres_[thread].seat.stack = stacks_.of(static_cast<int>(thread));
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run(unsigned int index, std::size_t shared_bytes, const std::function<void()>& body);

  // For the fibres.
  void main_loop();
  const WarpSlots& meet(const char* operation, const void* value, std::size_t bytes,
                        void (*complete)(WarpSlots&));
  void wait_at(int name, int num_threads);
  void mbarrier_init(std::uint32_t address, std::uint32_t arrivals);
  void mbarrier_arrive(std::uint32_t address, std::uint32_t bytes);
  void mbarrier_wait(std::uint32_t address, std::uint32_t parity);
  void add_load(Load load);
  void look_again();
  unsigned char* shared() { return aligned_shared_; }
  Fibre& current() { return fibres_[static_cast<std::size_t>(current_)]; }
  Transfers& transfers() {
    if (transfers_.empty()) transfers_.resize(fibres_.size());
    return transfers_[static_cast<std::size_t>(current_)];
  }

 private:
  Warp& warp_of(int thread) { return warps_[static_cast<std::size_t>(thread / 32)]; }
  State& state_of(int thread) { return states_[static_cast<std::size_t>(thread)]; }
  State state_of(int thread) const { return states_[static_cast<std::size_t>(thread)]; }
  void step(int thread);  // runs a fibre until it waits or ends
  bool run_warp(int warp, bool to_the_end);
  void become(int thread);
  int lane_in_turn(int i, int size) const;
  int next_in_turn() const;
  void yield();
  void end_thread();
  void release_if_complete(int name);
  Mbarrier& mbarrier_at(std::uint32_t address);
  void end_phase_if_complete(Mbarrier& mbarrier);
  void make_load(const Load& load);
  [[noreturn]] void fail(const std::string& what);
  [[noreturn, gnu::noinline, gnu::cold]] void fail_in_another_operation(const char* operation);
  std::string waiting_threads() const;

  std::unique_ptr<unsigned char[]> shared_;  // filled with NaN as far as a block has it
  unsigned char* aligned_shared_ = nullptr;
  Stacks stacks_;
  std::vector<Fibre> fibres_;
  std::vector<Transfers> transfers_;  // of each fibre; none until one has the first
  // Of the fibres: side by side, since every turn reads those of a warp.
  std::vector<State> states_;
  std::vector<Warp> warps_;
  std::array<Barrier, kBarriers> barriers_;
  int awaited_barriers_ = 0;  // at which threads wait
  std::map<std::uint32_t, Mbarrier> mbarriers_;
  std::deque<Load> loads_;    // on their way
  std::vector<int> looking_;  // threads that wait for what another block writes
  const std::function<void()>* body_ = nullptr;
  unsigned int index_ = 0;
  int threads_ = 0;
  int live_ = 0;
  int current_ = 0;
  int first_in_turn_ = 0;  // lane of the warp under way
  std::string fault_;
  std::exception_ptr thrown_;
  bool has_thrown_ = false;
  std::mt19937_64 random_;
  void* scheduler_ = nullptr;  // the place of its stack
};

thread_local Block* t_block = nullptr;

void fibre_main() { t_block->main_loop(); }

void Block::main_loop() {
  for (;;) {
    current().has_begun = true;
    current().seat.is_used = true;
    try {
      (*body_)();
    } catch (...) {
      thrown_ = std::current_exception();
      has_thrown_ = true;
    }
    end_thread();
    // A thread that has not begun may as well run here: of kernels whose threads never wait for each other, one stack
    // serves a warp. The one that has ended takes the seat that the other would have begun on.
    Fibre& ended = current();
    const int next = next_in_turn();
    if (next >= 0 && !fibres_[static_cast<std::size_t>(next)].has_begun) {
      become(next);
      std::swap(ended.seat, current().seat);
    } else {
      yield();
    }
  }
}

// To the lane that the scheduler would take next, without the way there and back, or to it.
void Block::yield() {
  Fibre& fibre = current();
  const int next = next_in_turn();
  if (next >= 0) become(next);
  switch_stack(&fibre.seat.place, next >= 0 ? current().seat.place : scheduler_);
}

// The lane in place i of a warp's turn.
int Block::lane_in_turn(int i, int size) const {
  if (g_options.order == ThreadOrder::reverse) return size - 1 - i;
  return i + first_in_turn_ < size ? i + first_in_turn_ : i + first_in_turn_ - size;
}

// The thread that this turn of the warp comes to next; -1: none.
int Block::next_in_turn() const {
  if (has_thrown_) return -1;
  const int first = current_ & ~31;
  if (g_options.order == ThreadOrder::reverse) {
    for (int thread = current_ - 1; thread >= first; --thread) {
      if (state_of(thread) == State::ready) return thread;
    }
    return -1;
  }
  // Up to the last lane, and, where the turn began in the middle, from lane 0 up to there.
  const int begin = first + first_in_turn_;
  const int end = current_ < begin ? begin : std::min(first + 32, threads_);
  for (int thread = current_ + 1; thread < end; ++thread) {
    if (state_of(thread) == State::ready) return thread;
  }
  if (current_ < begin) return -1;
  for (int thread = first; thread < begin; ++thread) {
    if (state_of(thread) == State::ready) return thread;
  }
  return -1;
}

void Block::become(int thread) {
  current_ = thread;
  threadIdx = {static_cast<unsigned int>(thread), 0, 0};
  running_lane = thread % 32;
}

void Block::step(int thread) {
  become(thread);
  switch_stack(&scheduler_, current().seat.place);
}

void Block::fail(const std::string& what) {
  fault_ = what;
  // This fibre and those that wait are given up; run() renews them.
  switch_stack(&current().seat.place, scheduler_);
  std::abort();
}

void Block::end_thread() {
  state_of(current_) = State::done;
  --live_;
  for (int name = 0; name < kBarriers && awaited_barriers_ > 0; ++name) release_if_complete(name);
}

void Block::release_if_complete(int name) {
  Barrier& barrier = barriers_[static_cast<std::size_t>(name)];
  if (barrier.arrived == 0) return;
  if (barrier.arrived < (barrier.wanted == 0 ? live_ : barrier.wanted)) return;
  for (const int thread : barrier.waiting) {
    state_of(thread) = State::ready;
  }
  barrier.waiting.clear();
  barrier.arrived = 0;
  --awaited_barriers_;
}

void Block::wait_at(int name, int num_threads) {
  if (name < 0 || name >= kBarriers) fail("barrier " + std::to_string(name) + " does not exist");
  Barrier& barrier = barriers_[static_cast<std::size_t>(name)];
  if (barrier.arrived > 0 && barrier.wanted != num_threads) {
    fail("barrier " + std::to_string(name) + " is waited for by " + std::to_string(num_threads) +
         " and by " + std::to_string(barrier.wanted) + " threads");
  }
  barrier.wanted = num_threads;
  if (barrier.arrived++ == 0) ++awaited_barriers_;
  state_of(current_) = State::waiting;
  barrier.waiting.push_back(current_);
  release_if_complete(name);
  // Also the last to arrive gives way: who goes first is the scheduler's choice.
  yield();
}

void Block::fail_in_another_operation(const char* operation) {
  fail(std::string("lanes of warp ") + std::to_string(current_ / 32) + " meet in " +
       warp_of(current_).operation + " and in " + operation);
}

const WarpSlots& Block::meet(const char* operation, const void* value, std::size_t bytes,
                             void (*complete)(WarpSlots&)) {
  const auto thread = static_cast<unsigned int>(current_);
  Warp& warp = warps_[thread / 32];
  WarpSlots& slots = warp.slots[fibres_[thread].meetings++ % 2];
  unsigned char* const given = slots.given[thread % 32];
  if (bytes == 4) {  // of a shuffle: no call
    std::memcpy(given, value, 4);
  } else if (bytes > 0) {
    std::memcpy(given, value, bytes);
  }
  if (warp.arrived == 0) {
    warp.operation = operation;
  } else if (warp.operation != operation && std::strcmp(warp.operation, operation) != 0) {
    fail_in_another_operation(operation);
  }
  ++warp.arrived;
  const int first = current_ & ~31;
  const int size = std::min(32, threads_ - first);
  if (warp.arrived < size) {
    state_of(current_) = State::waiting;
    yield();
  } else {
    if (complete != nullptr) complete(slots);
    warp.arrived = 0;
    std::fill_n(&state_of(first), size, State::ready);
  }
  return slots;
}

Mbarrier& Block::mbarrier_at(std::uint32_t address) {
  const auto found = mbarriers_.find(address);
  if (found == mbarriers_.end()) {
    fail("no mbarrier has been made at shared address " + std::to_string(address));
  }
  return found->second;
}

void Block::end_phase_if_complete(Mbarrier& mbarrier) {
  if (mbarrier.pending > 0 || mbarrier.bytes > 0) return;
  ++mbarrier.phase;
  mbarrier.pending = mbarrier.arrivals;
  for (const int thread : mbarrier.waiting) {
    state_of(thread) = State::ready;
  }
  mbarrier.waiting.clear();
}

void Block::mbarrier_init(std::uint32_t address, std::uint32_t arrivals) {
  Mbarrier made;
  made.arrivals = arrivals;
  made.pending = arrivals;
  mbarriers_[address] = made;
}

void Block::mbarrier_arrive(std::uint32_t address, std::uint32_t bytes) {
  Mbarrier& mbarrier = mbarrier_at(address);
  if (mbarrier.pending == 0) {
    fail("more arrivals at the mbarrier at shared address " + std::to_string(address) +
         " than its " + std::to_string(mbarrier.arrivals));
  }
  mbarrier.bytes += bytes;
  --mbarrier.pending;
  end_phase_if_complete(mbarrier);
}

void Block::mbarrier_wait(std::uint32_t address, std::uint32_t parity) {
  Mbarrier& mbarrier = mbarrier_at(address);
  while (mbarrier.phase % 2 == parity) {
    state_of(current_) = State::waiting;
    mbarrier.waiting.push_back(current_);
    yield();
  }
}

void Block::make_load(const Load& load) {
  load.copy();
  Mbarrier& mbarrier = mbarrier_at(load.mbarrier);
  mbarrier.bytes -= load.bytes;
  end_phase_if_complete(mbarrier);
}

void Block::add_load(Load load) {
  if (g_options.order == ThreadOrder::forward) {
    make_load(load);
  } else {
    loads_.push_back(std::move(load));
  }
}

void Block::look_again() {
  state_of(current_) = State::waiting;
  looking_.push_back(current_);
  yield();
}

// A turn of one warp: each of its ready lanes once, or again and again until none is ready.
bool Block::run_warp(int warp, bool to_the_end) {
  const int first = 32 * warp;
  const int size = std::min(32, threads_ - first);
  bool progress = false;
  for (bool again = true; again;) {
    again = false;
    first_in_turn_ = g_options.order == ThreadOrder::random
                         ? static_cast<int>(random_() % static_cast<unsigned int>(size))
                         : 0;
    for (int i = 0; i < size; ++i) {
      const int lane = lane_in_turn(i, size);
      if (state_of(first + lane) != State::ready) continue;
      step(first + lane);
      if (!fault_.empty() || has_thrown_) return true;
      progress = true;
      again = to_the_end;
    }
  }
  return progress;
}

std::string Block::waiting_threads() const {
  for (int thread = 0; thread < threads_; ++thread) {
    if (state_of(thread) != State::waiting) continue;
    const Warp& warp = warps_[static_cast<std::size_t>(thread / 32)];
    std::string text = "threads wait for ever: thread " + std::to_string(thread);
    for (int name = 0; name < kBarriers; ++name) {
      const Barrier& barrier = barriers_[static_cast<std::size_t>(name)];
      if (std::find(barrier.waiting.begin(), barrier.waiting.end(), thread) !=
          barrier.waiting.end()) {
        const int wanted = barrier.wanted == 0 ? live_ : barrier.wanted;
        return text + " at barrier " + std::to_string(name) + ", where " +
               std::to_string(barrier.arrived) + " of " + std::to_string(wanted) + " have come";
      }
    }
    for (const auto& [address, mbarrier] : mbarriers_) {
      if (std::find(mbarrier.waiting.begin(), mbarrier.waiting.end(), thread) !=
          mbarrier.waiting.end()) {
        return text + " at the mbarrier at shared address " + std::to_string(address) + ", where " +
               std::to_string(mbarrier.pending) + " arrivals and " +
               std::to_string(mbarrier.bytes) + " bytes are missing";
      }
    }
    return text + " in " + (warp.operation != nullptr ? warp.operation : "?") + ", where " +
           std::to_string(warp.arrived) + " lanes of warp " + std::to_string(thread / 32) +
           " have come";
  }
  return "no thread waits";
}

void Block::run(unsigned int index, std::size_t shared_bytes, const std::function<void()>& body) {
  t_block = this;
  index_ = index;
  threads_ = static_cast<int>(fibres_.size());
  live_ = threads_;
  body_ = &body;
  stacks_.set_in_doubt(true);
  fault_.clear();
  thrown_ = nullptr;
  has_thrown_ = false;
  random_.seed(g_options.seed * 0x9e3779b97f4a7c15u + index);
  blockIdx = {index, 0, 0};
  std::memset(shared(), kNanByte, shared_bytes + kGuardBytes);
  for (Barrier& barrier : barriers_) barrier = Barrier{};
  awaited_barriers_ = 0;
  mbarriers_.clear();
  loads_.clear();
  looking_.clear();
  const int num_warps = (threads_ + 31) / 32;
  for (int w = 0; w < num_warps; ++w) {
    Warp& warp = warps_[static_cast<std::size_t>(w)];
    warp.arrived = 0;
    warp.operation = nullptr;
  }
  for (int thread = 0; thread < threads_; ++thread) {
    Fibre& fibre = fibres_[static_cast<std::size_t>(thread)];
    Seat& seat = fibre.seat;
    if (seat.place == nullptr || state_of(thread) != State::done) {
      seat.place = new_stack(seat.stack, kStackBytes, fibre_main);
      std::memcpy(seat.stack, &kStackMark, sizeof kStackMark);
    }
    seat.is_used = false;
    state_of(thread) = State::ready;
    fibre.has_begun = false;
    fibre.meetings = 0;
  }
  for (Transfers& transfers : transfers_) {
    transfers.open_group.clear();
    transfers.groups.clear();
    transfers.open_stores.clear();
    transfers.store_groups.clear();
  }

  std::vector<int> order(static_cast<std::size_t>(num_warps));
  std::iota(order.begin(), order.end(), 0);
  if (g_options.order == ThreadOrder::reverse) std::reverse(order.begin(), order.end());
  while (live_ > 0 && fault_.empty() && !has_thrown_) {
    if (g_options.order == ThreadOrder::random) std::shuffle(order.begin(), order.end(), random_);
    bool progress = false;
    for (const int warp : order) {
      progress |= run_warp(warp, g_options.order != ThreadOrder::random);
      if (!fault_.empty() || has_thrown_) break;
    }
    if (!progress && !loads_.empty()) {
      const Load load = std::move(loads_.front());
      loads_.pop_front();
      make_load(load);
    } else if (!progress && !looking_.empty()) {
      for (const int thread : looking_) state_of(thread) = State::ready;
      looking_.clear();
      std::this_thread::yield();
    } else if (!progress) {
      fault_ = waiting_threads();
    }
  }
  if (has_thrown_) std::rethrow_exception(thrown_);
  for (const Transfers& transfers : transfers_) {
    for (const auto& group : transfers.store_groups) {
      for (const auto& store : group) store();
    }
  }
  const unsigned char* const guard = shared() + shared_bytes;
  const bool guard_holds =
      guard[0] == kNanByte && std::memcmp(guard, guard + 1, kGuardBytes - 1) == 0;
  for (std::size_t i = 0; i < kGuardBytes && !guard_holds && fault_.empty(); ++i) {
    if (guard[i] != kNanByte) {
      fault_ = "byte " + std::to_string(shared_bytes + i) + " of " + std::to_string(shared_bytes) +
               " of the dynamic shared memory is written";
    }
  }
  for (int thread = 0; thread < threads_ && fault_.empty(); ++thread) {
    const Seat& seat = fibres_[static_cast<std::size_t>(thread)].seat;
    if (seat.is_used && std::memcmp(seat.stack, &kStackMark, sizeof kStackMark) != 0) {
      fault_ =
          "a thread of warp " + std::to_string(thread / 32) + " needs more stack than there is";
    }
  }
  stacks_.set_in_doubt(!fault_.empty());
  if (!fault_.empty()) {
    throw Error(ErrorKind::device_failure,
                "cuda-emulated: block " + std::to_string(index_) + ": " + fault_);
  }
}

}  // namespace

void set_execution_options(const ExecutionOptions& options) { g_options = options; }

namespace {

// Set while this thread's launches are captured.
thread_local std::vector<std::function<void()>>* t_captured = nullptr;

void run_grid(unsigned int blocks, unsigned int threads, std::size_t shared_bytes,
              const std::function<void()>& body) {
  if (threads == 0 || threads > kMaxThreads || shared_bytes > kMaxSharedBytes || blocks == 0) {
    throw Error(ErrorKind::device_failure, "cuda-emulated: a launch of " + std::to_string(blocks) +
                                               " blocks of " + std::to_string(threads) +
                                               " threads and " + std::to_string(shared_bytes) +
                                               " bytes of shared memory is not possible");
  }
  std::atomic<unsigned int> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto work = [&] {
    try {
      const auto block = std::make_unique<Block>(threads);
      blockDim = {threads, 1, 1};
      gridDim = {blocks, 1, 1};
      for (unsigned int index = next++; index < blocks; index = next++) {
        block->run(index, shared_bytes, body);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> guard(failure_lock);
      if (failure == nullptr) failure = std::current_exception();
      next = blocks;
    }
  };
  // On threads of their own: a kernel's static shared variables are new in each.
  std::vector<std::thread> workers;
  const unsigned int processors = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned int i = 0; i < std::min(processors, blocks); ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

void enqueue_grid(unsigned int blocks, unsigned int threads, std::size_t shared_bytes,
                  std::function<void()> body) {
  if (t_captured != nullptr) {
    t_captured->push_back([=] { run_grid(blocks, threads, shared_bytes, body); });
  } else {
    run_grid(blocks, threads, shared_bytes, body);
  }
}

namespace {
std::mutex g_most_shared_memory_mutex;
std::map<const void*, std::size_t> g_most_shared_memory;  // by kernel
}  // namespace

void set_most_shared_memory(const void* kernel, std::size_t bytes) {
  const std::lock_guard lock(g_most_shared_memory_mutex);
  g_most_shared_memory[kernel] = bytes;
}

void require_shared_memory(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kOfEveryKernel = 48 * 1024;
  const std::lock_guard lock(g_most_shared_memory_mutex);
  const auto found = g_most_shared_memory.find(kernel);
  const std::size_t most = found == g_most_shared_memory.end() ? kOfEveryKernel : found->second;
  if (bytes <= most) return;
  throw Error(ErrorKind::device_failure, "a kernel was launched with " + std::to_string(bytes) +
                                             " bytes of dynamic shared memory; it was allowed " +
                                             std::to_string(most));
}

std::function<void()> capture_grids(const std::function<void()>& launch) {
  std::vector<std::function<void()>> grids;
  t_captured = &grids;
  try {
    launch();
  } catch (...) {
    t_captured = nullptr;
    throw;
  }
  t_captured = nullptr;
  return [grids = std::move(grids)] {
    for (const auto& grid : grids) grid();
  };
}

unsigned char* dynamic_shared_memory() { return t_block->shared(); }

void barrier(int name, int num_threads) { t_block->wait_at(name, num_threads); }

const WarpSlots& meet(const char* operation, const void* value, std::size_t bytes,
                      void (*complete)(WarpSlots&)) {
  return t_block->meet(operation, value, bytes, complete);
}

void add_copy(void* shared, const void* source, bool valid) {
  t_block->transfers().open_group.push_back({shared, source, valid});
}

void close_copy_group() {
  Transfers& transfers = t_block->transfers();
  transfers.groups.push_back(std::move(transfers.open_group));
  transfers.open_group.clear();
}

void wait_copy_groups(int pending) {
  Transfers& transfers = t_block->transfers();
  while (static_cast<int>(transfers.groups.size()) > pending) {
    for (const Copy& copy : transfers.groups.front()) {
      if (copy.valid) {
        std::memcpy(copy.shared, copy.source, 16);
      } else {
        std::memset(copy.shared, 0, 16);
      }
    }
    transfers.groups.pop_front();
  }
}

void look_again() { t_block->look_again(); }

void mbarrier_init(std::uint32_t address, std::uint32_t arrivals) {
  t_block->mbarrier_init(address, arrivals);
}
void mbarrier_arrive(std::uint32_t address, std::uint32_t bytes) {
  t_block->mbarrier_arrive(address, bytes);
}
void mbarrier_wait(std::uint32_t address, std::uint32_t parity) {
  t_block->mbarrier_wait(address, parity);
}

void add_load(std::uint32_t mbarrier, std::uint32_t bytes, std::function<void()> copy) {
  t_block->add_load({mbarrier, bytes, std::move(copy)});
}

void add_store(std::function<void()> copy) {
  if (g_options.order == ThreadOrder::forward) {
    copy();
  } else {
    t_block->transfers().open_stores.push_back(std::move(copy));
  }
}

void close_store_group() {
  Transfers& transfers = t_block->transfers();
  transfers.store_groups.push_back(std::move(transfers.open_stores));
  transfers.open_stores.clear();
}

void wait_store_groups(int pending) {
  Transfers& transfers = t_block->transfers();
  while (static_cast<int>(transfers.store_groups.size()) > pending) {
    for (const auto& store : transfers.store_groups.front()) store();
    transfers.store_groups.pop_front();
  }
}

}  // namespace gdn::cuda_grid
