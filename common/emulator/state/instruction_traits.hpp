// What is known about an instruction besides its translation. Each opcode states it where it is registered
// (translation/registration.hpp), so that nothing else knows opcodes by their names (tests/style/check_opcodes.py).
#pragma once

#include <cstdint>

#include "emulator/chip/instruction_class.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/state/op.hpp"

namespace stagecraft::emulator::machine {

/// How far the effects of an instruction go.
enum class Reach : uint8_t {
  /// Other clusters of the grid neither notice it nor change what it does. Plain accesses of global memory count here:
  /// where two clusters access the same bytes with nothing else, and one of them writes, the program has a race and any
  /// result is right (PTX ISA, "Memory Consistency Model").
  own_cluster,
  /// It depends on how far other clusters have come, or concerns them: atomic and strong accesses of memory that they
  /// reach, clocks, taking over clusters. The clusters of a grid that has such an instruction run on one thread.
  other_clusters,
};

/// How an instruction gets to shared memory (PTX ISA, "Async proxy").
enum class Proxy : uint8_t { generic, async };

/// What follows an instruction.
enum class Flow : uint8_t {
  next,      ///< the next instruction
  branches,  ///< the next one, but ptxas makes branches or calls of it, which part the block that it is in
  calls,     ///< the function that it calls, then the next one
  leaves,    ///< an instruction elsewhere, or none
};

/// What an instruction computes, for those who follow values through a function.
enum class Computation : uint8_t {
  other,    ///< what nobody follows
  copy,     ///< of its source: mov
  address,  ///< of the same place, in another state space: cvta
  conversion,
  sum,
  difference,
  product,
  product_sum,  ///< of integers: mad
  left_shift,
  right_shift,
  conjunction,
  disjunction,
  exclusive_disjunction,
  complement,
  extreme,    ///< the less or the greater of two
  predicate,  ///< a comparison: setp
  truth,      ///< a comparison whose result is a number: set
  selection,  ///< one of two, by a predicate: selp
};

/// What an instruction does to memory at an address among its operands.
enum class MemoryUse : uint8_t {
  none,
  loads,
  stores,
  updates,  ///< atomically
};

/// Which copies an instruction starts, commits or waits for.
enum class Copies : uint8_t {
  none,
  of_threads,  ///< cp.async
  bulk,
  tiles,  ///< of tensors, in bulk
};

/// The class of an instruction for the model of the chip's speed: the same for each of an opcode, or found by modifiers
/// and operands. Which machine instructions ptxas makes of it is not known: it may need several or none.
class TimingClass {
 public:
  using Find = InstructionClass (*)(const ptx::Instruction&);
  constexpr TimingClass(InstructionClass same_for_all) : same_for_all_(same_for_all) {}
  constexpr TimingClass(Find find) : find_(find) {}

  InstructionClass of(const ptx::Instruction& instruction) const {
    return find_ != nullptr ? find_(instruction) : same_for_all_;
  }

 private:
  InstructionClass same_for_all_ = InstructionClass::other;
  Find find_ = nullptr;
};

/// The defaults are what must be assumed of an instruction that states nothing: the safe side.
struct InstructionTraits {
  Reach reach = Reach::other_clusters;
  Proxy proxy = Proxy::async;  ///< async: it may access shared memory through that proxy, too
  Flow flow = Flow::next;

  /// How its accesses of memory order others.
  AccessOrder order = AccessOrder::weak;
  MemoryScope scope = MemoryScope::system;  ///< of a strong access or a fence
  /// Whether the accesses that its Op describes (AccessDetail) are announced to observers. False for an instruction
  /// that announces them itself, or whose accesses are none for the program.
  bool announced = true;
  FenceKind fence = FenceKind::other;
  /// Whether lanes that meet in it see what the others did to memory before. That is bar.warp.sync alone: shfl, vote,
  /// elect and the others with .sync only make lanes wait for each other (PTX ISA, "bar.warp.sync"; CUDA C++
  /// Programming Guide, warp shuffle, vote and match functions: they imply no memory barrier).
  bool orders_lanes = false;

  /// Whether its result says how far other threads have come, although it is not a strong access: polls of an mbarrier.
  /// A loop that ends by such a result, or by that of a strong access, lets other lanes overtake it (loop_order.hpp).
  bool polls = false;
  /// Whether threads wait for each other by it, and it is neither a poll nor an access of memory: barriers.
  bool synchronises = false;
  /// Whether it makes a thread sleep for a time that the program chooses.
  bool sleeps = false;

  /// Set for an instruction whose result arrives later, in the registers of its first operand: the handler of an Op
  /// that waits for it. The translator puts one before each instruction that names such a register elsewhere;
  /// `immediate` is the register's offset.
  Handler result_guard = nullptr;

  Computation computes = Computation::other;
  MemoryUse memory = MemoryUse::none;
  MemoryUse tensor_memory = MemoryUse::none;  ///< of a warp, through its registers
  Copies copies = Copies::none;
  /// Its addresses are of shared memory, whether it says so or not: ldmatrix, stmatrix.
  bool only_shared = false;
  /// ptxas leaves it out where nothing reads its result.
  bool left_out_unread = false;
  /// Its registers may be wider than its type (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
  bool takes_wider_registers = false;
  /// Its first operand is no result, although it may be a register.
  bool reads_first = false;
  /// Each lane gets what others have in their registers.
  bool exchanges = false;
  /// A poll that may suspend the thread before it answers.
  bool suspends = false;
  /// Behind a poll it shows that the poll was the last: no loop that asks again has it.
  bool ends_polling = false;
  bool meets_block = false;              ///< a barrier of the threads of a block
  bool announces_and_arrives = false;    ///< arrives at an mbarrier for which it announces bytes first
  bool commits = false;                  ///< has an mbarrier count the end of earlier operations of tcgen05
  bool allocates_tensor_memory = false;  ///< and stores the address in shared memory
  bool scales_blocks = false;            ///< multiplies matrices with scale factors
  bool takes_over_clusters = false;      ///< by clusterlaunchcontrol
  bool sets_register_count = false;      ///< to its first operand

  TimingClass timing = InstructionClass::other;  ///< entered by InstructionSet::add
  /// Of the Ops after the first, where it becomes several, and of how many machine instructions the first one is.
  InstructionClass further_operations = InstructionClass::free;
  uint32_t machine_instructions = 1;
};

/// Whether other threads can notice the instruction, or it depends on how far they have come, where the program has no
/// race.
inline bool is_visible(const InstructionTraits& traits) {
  return traits.synchronises || traits.polls || traits.order != AccessOrder::weak || traits.proxy == Proxy::async ||
         traits.reach == Reach::other_clusters;
}

/// The traits of an instruction that computes in registers, or accesses memory weakly through the generic proxy.
inline constexpr InstructionTraits kOrdinary{.reach = Reach::own_cluster, .proxy = Proxy::generic};
/// The same, for one whose result somebody follows.
constexpr InstructionTraits computing(Computation what) {
  InstructionTraits traits = kOrdinary;
  traits.computes = what;
  return traits;
}

}  // namespace stagecraft::emulator::machine
