// A kernel made ready to run: one array of Ops for the entry function and everything it may call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/chip/machine_code.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/special_registers.hpp"
#include "emulator/state/barrier_names.hpp"
#include "emulator/state/instruction_traits.hpp"
#include "emulator/state/op.hpp"

namespace stagecraft::emulator::machine {

using ptx::Special;

/// A vector to fill when a warp starts.
struct SpecialSlot {
  RegisterOffset offset;
  Special special;
  uint8_t element_bytes;   ///< 4 or 8 per lane; a predicate slot has 0
  uint32_t parameter = 0;  ///< of Special::shared_address: the offset of the variable
};

/// A vector that is the same in every lane and every warp.
struct ConstantSlot {
  RegisterOffset offset;
  uint8_t element_bytes;  ///< 2, 4, 8, 16; a predicate slot has 0 and is all ones or none
  uint64_t low = 0, high = 0;
};

/// Where an Op came from.
struct OpPlace {
  const ptx::Function* function = nullptr;
  uint32_t instruction = 0;  ///< index in function->body
  ptx::SourceId source = 0;
};

/// A parameter of an entry function, in the parameter buffer of a launch.
struct ParameterLayout {
  uint32_t offset = 0;
  uint32_t size = 0;
};

/// A variable in shared memory, so that reports can name what is there.
struct SharedVariable {
  std::string name;     ///< as in the source, without its function: "barriers"
  uint32_t offset = 0;  ///< in the block's shared memory
  uint32_t size = 0;    ///< 0 for dynamic shared memory
};

/// What an observed instruction does to the registers in which wgmma works: accumulators, A, and what moves copy from
/// or to them. They are numbered through the kernel.
struct WarpgroupRegisters {
  static constexpr uint32_t kConstant = 0xffffffffu;
  /// What a move does: from where to where. A constant comes from `kConstant`.
  struct Copy {
    uint32_t to, from;
  };
  Handler full = nullptr, masked = nullptr;  ///< of the instruction itself, without this announcement
  bool multiplies = false;                   ///< wgmma.mma_async: `writes` are D, `reads` are A
  std::vector<uint32_t> reads, writes;
  std::vector<Copy> copies;
};

/// An Op that announces what it does (announcing_handlers.cpp): the handlers of the unobserved one, and its traits.
struct ObservedOp {
  Handler full = nullptr, masked = nullptr;
  const OpDetail* access = nullptr;               ///< an AccessDetail, or null when it accesses no memory
  uint8_t order = 0;                              ///< AccessOrder
  uint8_t fence = 0;                              ///< FenceKind
  uint8_t scope = 0;                              ///< MemoryScope of a strong access or a fence
  bool synchronises = false;                      ///< its lanes wait for each other
  const WarpgroupRegisters* registers = nullptr;  ///< null when it has none
};

/// An Op that announces each execution (traced_instructions.cpp): the handlers of the one that does not.
struct TracedOp {
  Handler full = nullptr, masked = nullptr;
  const OpDetail* access = nullptr;  ///< an AccessDetail, or null when it accesses no memory
};

/// The handlers of a load that ptxas leaves out (unread_loads.cpp), without the one that lets it fail.
struct UnreadLoad {
  Handler full = nullptr, masked = nullptr;
};

/// What a jump back to an Op repeats (translation/loop_order.hpp).
enum class LoopHead : uint8_t {
  none,
  computes,  ///< a loop that does not wait for other threads, as far as is known
  polls,     ///< one that may wait for what other threads do
};

/// Where an Op is in the order in which the lanes of a warp go through the code (translation/loop_order.hpp).
struct OrderedPlace {
  uint32_t rank = 0;     ///< lanes at lower ranks run first
  uint32_t run_end = 0;  ///< first Op after this one whose rank is not the next
  LoopHead head = LoopHead::none;
  /// Others can notice this Op, or the one before it, or it depends on how far they have come: with Choices, another
  /// warp may have its turn before it.
  bool visible = false;
};

class Kernel {
 public:
  std::string name;          ///< mangled
  std::string display_name;  ///< demangled, without the parameter list: "gemm<128, 64, 4>"
  std::string own_file;      ///< the source file that `own_file_of` returns
  std::shared_ptr<const ptx::Module> module;
  const ptx::Function* entry = nullptr;
  std::vector<Op> code;
  std::vector<OpPlace> places;  ///< parallel to `code`
  /// Of the instructions of each function that it may execute, parallel to its body.
  std::unordered_map<const ptx::Function*, std::vector<InstructionTraits>> traits;
  std::vector<OrderedPlace> order;   ///< parallel to `code`
  std::vector<ObservedOp> observed;  ///< parallel to `code`; empty unless memory events are to be announced
  std::vector<TracedOp> traced;      ///< parallel to `code`; empty unless instructions are to be announced
  /// For an observed instruction in which lanes exchange registers (shfl.sync and its kind): the loads from shared
  /// memory that its operands were computed from. By pc; the loads in rising order.
  std::unordered_map<uint32_t, std::vector<uint32_t>> exchanged_loads;
  /// For a store to tensor memory: the loads from there of which all results are among what its values were computed
  /// from, so that they have ended when it is executed. By pc.
  std::unordered_map<uint32_t, std::vector<uint32_t>> ended_loads;
  /// For an observed store to shared memory of one constant: which. By pc.
  std::unordered_map<uint32_t, uint64_t> stored_constants;
  /// For the observed instructions that have registers in which wgmma works. By pc; `observed` points here.
  std::unordered_map<uint32_t, WarpgroupRegisters> warpgroup_registers;
  std::vector<std::string> warpgroup_register_names;      ///< as in the PTX: "%f12"; by their numbers
  std::unordered_map<uint32_t, UnreadLoad> unread_loads;  ///< Ops of loads whose results nothing reads; by pc
  bool announces_global = false;                          ///< weak accesses of global memory are announced, too
  bool has_async_proxy = false;  ///< some observed instruction accesses shared memory through the async proxy
  std::vector<std::unique_ptr<OpDetail>> details;
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  uint32_t register_bytes = 0;        ///< register file of one warp, with constants and specials
  uint32_t static_shared_bytes = 0;   ///< without the 1 KiB that the system reserves
  uint32_t local_bytes = 0;           ///< per thread, all frames that do not recurse
  bool has_recursive_locals = false;  ///< functions that recurse have local variables, in the thread's stack
  uint32_t entry_local_bytes = 0;     ///< of the entry's own frame, which is in the stack too where functions recurse
  std::vector<ParameterLayout> parameters;
  uint32_t parameter_bytes = 0;
  std::vector<SharedVariable> shared_variables;
  mutable BarrierNames barrier_names;  ///< those of members, as far as blocks have initialised them
  bool uses_tensor_memory = false;
  uint32_t cta_group = 0;             ///< of its tcgen05 instructions: 1, or 2 for pairs of blocks; 0 if none names one
  bool takes_over_clusters = false;   ///< by clusterlaunchcontrol
  bool lets_next_grid_start = false;  ///< by griddepcontrol.launch_dependents
  bool reads_clock = false;
  bool clusters_interact = false;  ///< something in it may concern other clusters (Reach::other_clusters)
  uint32_t machine_registers = 0;  ///< per thread as ptxas allocated them; 0 when no machine code was embedded
  MachineCode machine_code;        ///< empty unless the model of the chip's speed asks for it, and there is one

  /// Registers that a multiprocessor allocates for a block of so many warps: for each warp, in units of 256. 0 when
  /// ptxas's count is unknown.
  uint32_t machine_registers_of(uint32_t warps) const {
    constexpr uint32_t kUnit = 256;
    return (machine_registers * kWarpSize + kUnit - 1) / kUnit * kUnit * warps;
  }
  /// Registers per thread that a block starts with, as setmaxnreg counts them. 0 when that is unknown, or when
  /// setmaxnreg has no effect.
  uint32_t launch_registers() const;
  /// Returns "gemm.cu:88", the innermost line of the kernel's own file, or "gemm.cu:88 (pipeline.hpp:41)" where the
  /// instruction was inlined from another file of the program. Skips headers of the toolkit. Empty when unknown.
  std::string describe_source(uint32_t pc) const;
  /// The same for a line that is not, or not yet, that of an Op.
  std::string describe_line(ptx::SourceId source) const;
  /// Returns the lines that `describe_source` chooses from, outermost first: "gemm.cu:104", "ring.hpp:57",
  /// "mbarrier.hpp:53"; of calls within a library's file, the innermost. Empty where `describe_source` names all.
  std::vector<std::string> describe_calls(uint32_t pc) const;
  /// Whether it has an instruction whose traits `is` accepts.
  template <typename Is>
  bool has_instruction(Is is) const {
    return std::any_of(traits.begin(), traits.end(), [&](const auto& of_function) {
      return std::any_of(of_function.second.begin(), of_function.second.end(), is);
    });
  }
  /// Returns those of the instruction; kOrdinary where it is the end of a body.
  const InstructionTraits& traits_at(uint32_t pc) const;
  /// Returns the opcode of the instruction with its modifiers, for reports.
  std::string describe_instruction(uint32_t pc) const;
  /// Returns the kernel's own file, relative to the working directory if it is below it; empty when unknown.
  std::string source_file() const;
  /// Names what is at an offset of shared memory: "full[2]" for the third 8-byte element, "tile+0x80" with other sizes.
  std::string name_of_shared(uint32_t offset, uint32_t element_bytes) const;
  /// Names an mbarrier there, as the source does where that is certain (barrier_names.hpp): "storage.empty[2]".
  std::string name_of_barrier(uint32_t offset) const;
  /// Names a byte of shared memory: "tile+0x840".
  std::string name_of_shared_byte(uint32_t offset) const;
  /// Where bytes of the static shared memory belong to no variable, says what is beside them: "4 bytes past the end
  /// of table, which has 128 bytes at 0x408 up to 0x488". Empty where they belong to one, or none is before them.
  std::string describe_gap(uint32_t offset) const;
  /// Whether it has a variable in dynamic shared memory (extern __shared__).
  bool declares_dynamic_shared() const;
};

/// Returns the path of the file that a kernel is written in, in the compiler's spelling; empty when unknown. A kernel
/// that does nothing but call another function counts as written where that function is: all kernels of CUTLASS are one
/// line of device_kernel.h.
std::string own_file_of(const ptx::Module& module, const ptx::Function& entry);

}  // namespace stagecraft::emulator::machine
