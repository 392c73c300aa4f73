// A fixed point over the kernel's blocks. The state at a block's beginning is the worst over the
// paths that lead there; a block is walked again whenever it became worse, and once more at the end
// to collect what is missing.
#include "hip/emulator/wait_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <memory>
#include <string_view>

#include "hip/emulator/wave.h"
#include "interface/error.h"

namespace gdn::gfx906 {
namespace {

/// What an instruction is to the walk.
enum class Role : std::uint8_t {
  computes,
  waits,
  branches,  ///< two ways
  jumps,
  ends,
  barrier,
  vector_memory,
  flat,
  lds,       ///< accesses LDS memory
  exchange,  ///< goes through the LDS unit, touches no LDS memory
  scalar_memory,
};

struct Step {
  Role role = Role::computes;
  bool loads = false;     ///< operand 0 is written when the data has arrived
  bool uses_vcc = false;  ///< without an operand that says so
};

/// Where a register can be waiting for its value: one entry for each register, of how many later
/// accesses of the same kind are surely behind it in the queue. While the register's access is
/// outstanding so are these, and so a wait that leaves at most as many has waited for it.
enum class Queue : std::uint8_t {
  vector_memory,
  lds,
  flat_vector,
  flat_lds,
  scalar,
  lds_access,   ///< not of a register: the youngest access to LDS memory
  flat_access,  ///< the same of a flat access, which may be one to LDS
};
enum class Entries : std::uint8_t { vector_registers, scalar_registers, one };
struct QueueForm {
  Queue queue;
  Entries entries;
  bool vector_counter;  ///< vmcnt; otherwise lgkmcnt
  int first;            ///< of its entries in the state
  int count;
};
constexpr std::array<QueueForm, 7> kQueues{{
    {Queue::vector_memory, Entries::vector_registers, true, 0, kVectorRegisters},
    {Queue::lds, Entries::vector_registers, false, kVectorRegisters, kVectorRegisters},
    {Queue::flat_vector, Entries::vector_registers, true, 2 * kVectorRegisters, kVectorRegisters},
    {Queue::flat_lds, Entries::vector_registers, false, 3 * kVectorRegisters, kVectorRegisters},
    {Queue::scalar, Entries::scalar_registers, false, 4 * kVectorRegisters, kScalarRegisters},
    {Queue::lds_access, Entries::one, false, 4 * kVectorRegisters + kScalarRegisters, 1},
    {Queue::flat_access, Entries::one, false, 4 * kVectorRegisters + kScalarRegisters + 1, 1},
}};
constexpr int kEntries = 4 * kVectorRegisters + kScalarRegisters + 2;
const QueueForm& form_of(Queue queue) { return kQueues[static_cast<std::size_t>(queue)]; }

constexpr std::uint8_t kArrived = 0xff;
/// Counters end there, and so does counting: vmcnt(63) waits for nothing, nor does lgkmcnt(15).
constexpr std::uint8_t kMost = 63;
constexpr std::uint8_t kNoLgkmWait = 15;

struct State {
  std::array<std::uint8_t, kEntries> entry;
  State() { entry.fill(kArrived); }
  std::uint8_t& at(Queue queue, int index) {
    return entry[static_cast<std::size_t>(form_of(queue).first + index)];
  }
  /// The worse of two paths; true if that changed anything.
  bool join(const State& other) {
    bool changed = false;
    for (std::size_t i = 0; i < entry.size(); ++i) {
      const std::uint8_t worse = std::min(entry[i], other.entry[i]);
      changed |= worse != entry[i];
      entry[i] = worse;
    }
    return changed;
  }
  /// Another access entered the queue behind those that are in it.
  void age(Queue queue) {
    const QueueForm& form = form_of(queue);
    for (int i = form.first; i < form.first + form.count; ++i) {
      std::uint8_t& behind = entry[static_cast<std::size_t>(i)];
      behind = static_cast<std::uint8_t>(behind + (behind < kMost ? 1 : 0));
    }
  }
  void wait(bool vector_counter, int left) {
    for (const QueueForm& form : kQueues) {
      if (form.vector_counter != vector_counter) continue;
      for (int i = form.first; i < form.first + form.count; ++i) {
        std::uint8_t& behind = entry[static_cast<std::size_t>(i)];
        behind = behind >= left ? kArrived : behind;
      }
    }
  }
};

std::string place(const Kernel& kernel, const Instruction& instruction) {
  char address[16];
  std::snprintf(address, sizeof(address), "%#x", instruction.address);
  return "kernel " + kernel.name + " at " + address + " '" + instruction.text + "'";
}

[[noreturn]] void refuse(const Kernel& kernel, const Instruction& instruction, const char* why) {
  throw_bad_input("gfx906 wait check: " + place(kernel, instruction) + ": " + why);
}

/// The one list of what the walk knows. Whatever computes is known by its operands alone; whatever
/// touches memory or the flow of control is named here or refused.
Step step_of(const Kernel& kernel, const Instruction& in) {
  const std::string_view text = in.text;
  const std::string_view name = text.substr(0, text.find(' '));
  const auto starts = [&](std::string_view prefix) { return name.starts_with(prefix); };
  if (in.execute == nullptr) refuse(kernel, in, "not known to the emulator");
  Step step;
  switch (in.unit) {
    case Unit::scalar:
      if (starts("s_setpc") || starts("s_swappc") || starts("s_call") || starts("s_rfe")) break;
      return step;
    case Unit::vector:
    case Unit::vector_half:
    case Unit::vector_quarter:
      step.uses_vcc = starts("v_div_fmas");
      return step;
    case Unit::branch:
      if (name == "s_nop" || name == "s_sleep" || name == "s_setprio") return step;
      if (name == "s_waitcnt") return {Role::waits, false, false};
      if (name == "s_endpgm") return {Role::ends, false, false};
      if (name == "s_barrier") return {Role::barrier, false, false};
      if (name == "s_branch") return {Role::jumps, false, false};
      if (starts("s_cbranch_vcc")) return {Role::branches, false, true};
      if (starts("s_cbranch_scc") || starts("s_cbranch_exec"))
        return {Role::branches, false, false};
      break;
    case Unit::scalar_memory:
      if (!starts("s_load_dword")) break;
      // Nothing says where these are used.
      if (in.operand[0].index + in.operand[0].count > 102 && in.operand[0].index != kVcc) {
        refuse(kernel, in, "a scalar load into a register that instructions use unnamed");
      }
      return {Role::scalar_memory, true, false};
    case Unit::cross_lane:
      if (starts("ds_bpermute") || starts("ds_permute") || starts("ds_swizzle"))
        return {Role::exchange, true, false};
      break;
    case Unit::lds:
      if (starts("ds_read")) return {Role::lds, true, false};
      if (starts("ds_write")) return {Role::lds, false, false};
      if (starts("ds_add_")) return {Role::lds, in.returns_value, false};
      break;
    case Unit::global:
      step.role = starts("flat_") ? Role::flat : Role::vector_memory;
      if (starts("global_load_") || starts("flat_load_")) return {step.role, true, false};
      if (starts("global_store_") || starts("flat_store_")) return {step.role, false, false};
      if (starts("global_atomic_") || starts("flat_atomic_"))
        return {step.role, in.returns_value, false};
      break;
    case Unit::scratch:
      if (starts("buffer_load_")) return {Role::vector_memory, true, false};
      if (starts("buffer_store_")) return {Role::vector_memory, false, false};
      break;
  }
  refuse(kernel, in, "an instruction that the walk does not know");
}

class Walk {
 public:
  explicit Walk(const Kernel& kernel) : kernel_(kernel), code_(kernel.code) {
    if (code_.empty()) throw_bad_input("gfx906 wait check: kernel " + kernel.name + " is empty");
    begins_.assign(code_.size(), false);
    begins_[0] = true;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (code_[i].target >= 0) begins_[static_cast<std::size_t>(code_[i].target)] = true;
    }
  }

  std::vector<MissingWait> run() {
    // States at the beginnings of blocks, until no path makes one worse.
    entered_.resize(code_.size());
    enter(0, State());
    while (!pending_.empty()) {
      const int block = pending_.front();
      pending_.pop_front();
      Block& at = entered_[static_cast<std::size_t>(block)];
      at.queued = false;
      walk_block(block, *at.state, nullptr);
    }
    // Once more, to tell.
    std::vector<MissingWait> findings;
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (entered_[i].state) walk_block(static_cast<int>(i), *entered_[i].state, &findings);
    }
    return findings;
  }

 private:
  struct Block {
    std::unique_ptr<State> state;  ///< null: no path comes here
    bool queued = false;
  };

  void enter(int index, const State& state) {
    Block& block = entered_[static_cast<std::size_t>(index)];
    bool changed = false;
    if (block.state) {
      changed = block.state->join(state);
    } else {
      block.state = std::make_unique<State>(state);
      changed = true;
    }
    if (!changed || block.queued) return;
    block.queued = true;
    pending_.push_back(index);
  }

  /// From the beginning of a block to where it ends. Without `findings` its successors are entered.
  void walk_block(int index, State state, std::vector<MissingWait>* findings) {
    for (;; ++index) {
      const Instruction& in = code_[static_cast<std::size_t>(index)];
      const Step step = step_of(kernel_, in);
      execute(state, in, step, index, findings);
      if (step.role == Role::ends) return;
      if (step.role == Role::branches || step.role == Role::jumps) {
        if (in.target < 0) refuse(kernel_, in, "a branch without a target");
        if (findings == nullptr) enter(in.target, state);
        if (step.role == Role::jumps) return;
      }
      if (static_cast<std::size_t>(index) + 1 == code_.size()) {
        refuse(kernel_, in, "the kernel goes on past its end");
      }
      if (begins_[static_cast<std::size_t>(index) + 1]) {
        if (findings == nullptr) enter(index + 1, state);
        return;
      }
    }
  }

  void execute(State& state, const Instruction& in, const Step& step, int index,
               std::vector<MissingWait>* findings) {
    for (int k = 0; k < in.num_operands; ++k) {
      const Operand& operand = in.operand[static_cast<std::size_t>(k)];
      const bool vector = operand.kind == Operand::Kind::vector;
      if (!vector && operand.kind != Operand::Kind::scalar) continue;
      for (int r = operand.index; r < operand.index + operand.count; ++r) {
        use(state, in, vector, r, k == 0 && step.loads ? step.role : Role::computes, index,
            findings);
      }
    }
    if (step.uses_vcc) {
      use(state, in, false, kVcc, Role::computes, index, findings);
      use(state, in, false, kVcc + 1, Role::computes, index, findings);
    }
    switch (step.role) {
      case Role::waits:
        if (in.wait_vm < kMost) state.wait(true, in.wait_vm);
        if (in.wait_lgkm < kNoLgkmWait) state.wait(false, in.wait_lgkm);
        break;
      case Role::barrier:
        settle(state, Queue::lds_access, 0, in, "LDS", index, findings);
        settle(state, Queue::flat_access, 0, in, "LDS", index, findings);
        break;
      case Role::vector_memory:
        state.age(Queue::vector_memory);
        if (step.loads) load(state, Queue::vector_memory, in.operand[0]);
        break;
      case Role::flat:
        // It may be done before what was issued earlier: no other access can count on it.
        state.at(Queue::flat_access, 0) = 0;
        if (step.loads) load(state, Queue::flat_vector, in.operand[0]);
        if (step.loads) load(state, Queue::flat_lds, in.operand[0]);
        break;
      case Role::lds:
      case Role::exchange:
        state.age(Queue::lds);
        state.age(Queue::lds_access);
        if (step.role == Role::lds) state.at(Queue::lds_access, 0) = 0;
        if (step.loads) load(state, Queue::lds, in.operand[0]);
        break;
      case Role::scalar_memory:
        load(state, Queue::scalar, in.operand[0]);
        break;
      default:
        break;
    }
  }

  static void load(State& state, Queue queue, const Operand& destination) {
    for (int r = destination.index; r < destination.index + destination.count; ++r) {
      state.at(queue, r) = 0;
    }
  }

  /// `loaded_by`: the role of the load that the register is the destination of, if it is one.
  void use(State& state, const Instruction& in, bool vector, int r, Role loaded_by, int index,
           std::vector<MissingWait>* findings) {
    const std::string name = findings == nullptr ? "" : (vector ? "v" : "s") + std::to_string(r);
    const Entries entries = vector ? Entries::vector_registers : Entries::scalar_registers;
    for (const QueueForm& form : kQueues) {
      if (form.entries != entries) continue;
      const bool in_order =
          (form.queue == Queue::vector_memory && loaded_by == Role::vector_memory) ||
          (form.queue == Queue::lds && (loaded_by == Role::lds || loaded_by == Role::exchange));
      if (!in_order) settle(state, form.queue, r, in, name, index, findings);
    }
  }

  /// The entry has to have arrived here; afterwards it has.
  void settle(State& state, Queue queue, int entry, const Instruction& in, const std::string& what,
              int index, std::vector<MissingWait>* findings) {
    std::uint8_t& behind = state.at(queue, entry);
    if (behind == kArrived) return;
    if (findings != nullptr) {
      MissingWait missing;
      missing.index = index;
      missing.address = in.address;
      missing.subject = what;
      const int left =
          form_of(queue).vector_counter ? int{behind} : std::min(int{behind}, kNoLgkmWait - 1);
      missing.needed = (form_of(queue).vector_counter ? "vmcnt(" : "lgkmcnt(") +
                       std::to_string(std::min(left, kMost - 1)) + ")";
      missing.text = place(kernel_, in) + ": " + what + " may be outstanding, expected s_waitcnt " +
                     missing.needed + " before";
      findings->push_back(std::move(missing));
    }
    behind = kArrived;
  }

  const Kernel& kernel_;
  const std::vector<Instruction>& code_;
  std::vector<bool> begins_;  ///< a block, at this instruction
  std::vector<Block> entered_;
  std::deque<int> pending_;
};

}  // namespace

std::vector<MissingWait> missing_waits(const Kernel& kernel) { return Walk(kernel).run(); }

}  // namespace gdn::gfx906
