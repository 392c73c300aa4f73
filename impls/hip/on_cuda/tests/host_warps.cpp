#include "hip/on_cuda/tests/host_warps.h"

#include <ucontext.h>

#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace gdn::host_warps {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr int kWarp = 32;
constexpr int kWarpBarriers = 1000;  // ids from here on are the warps' own

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  bool waiting = false;
  bool done = false;
};

struct Block {
  std::vector<Fiber> fibers;
  std::map<int, std::vector<int>> barriers;  ///< who waits at each
  std::vector<double> exchanged;
  const std::function<void()>* body = nullptr;
  ucontext_t scheduler;
  int current = 0;
};
Block* block = nullptr;

void fiber_main() {
  (*block->body)();
  block->fibers[static_cast<std::size_t>(block->current)].done = true;
}

}  // namespace

int thread_index() { return block->current; }

void wait_at(int id, int threads) {
  std::vector<int>& waiting = block->barriers[id];
  waiting.push_back(block->current);
  if (static_cast<int>(waiting.size()) == threads) {
    for (const int thread : waiting)
      block->fibers[static_cast<std::size_t>(thread)].waiting = false;
    waiting.clear();
  } else {
    block->fibers[static_cast<std::size_t>(block->current)].waiting = true;
  }
  // Switches in either case: the last to come does not go on first.
  swapcontext(&block->fibers[static_cast<std::size_t>(block->current)].context, &block->scheduler);
}

double exchange_in_warp(double value, int lane) {
  const int thread = block->current, warp = thread / kWarp;
  block->exchanged[static_cast<std::size_t>(thread)] = value;
  wait_at(kWarpBarriers + warp, kWarp);
  const double taken = block->exchanged[static_cast<std::size_t>(warp * kWarp + lane)];
  wait_at(kWarpBarriers + warp, kWarp);
  return taken;
}

void run_block(int threads, unsigned seed, const std::function<void()>& body) {
  Block state;
  block = &state;
  state.fibers = std::vector<Fiber>(static_cast<std::size_t>(threads));
  state.exchanged.resize(static_cast<std::size_t>(threads));
  state.body = &body;
  for (Fiber& fiber : state.fibers) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = &state.scheduler;
    makecontext(&fiber.context, fiber_main, 0);
  }
  std::mt19937 random(seed);
  for (;;) {
    std::vector<int> ready;
    bool all_done = true;
    for (int i = 0; i < threads; ++i) {
      const Fiber& fiber = state.fibers[static_cast<std::size_t>(i)];
      if (!fiber.done && !fiber.waiting) ready.push_back(i);
      all_done = all_done && fiber.done;
    }
    if (all_done) break;
    if (ready.empty()) throw std::runtime_error("host_warps: every fiber waits");
    state.current = ready[random() % ready.size()];
    swapcontext(&state.scheduler, &state.fibers[static_cast<std::size_t>(state.current)].context);
  }
  block = nullptr;
}

}  // namespace gdn::host_warps
