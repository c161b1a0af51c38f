// A kernel made ready to run: one array of Ops for the entry function and everything it may call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/ptx/module.hpp"
#include "emulator/ptx/special_registers.hpp"
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

/// A variable in shared memory, so that reports can call what lies there by its name.
struct SharedVariable {
  std::string name;     ///< as in the source, without its function: "barriers"
  uint32_t offset = 0;  ///< in the block's shared memory
  uint32_t size = 0;    ///< 0 for dynamic shared memory
};

/// An Op that announces what it does (announcing_handlers.cpp): the handlers of the unobserved one, and its traits.
struct ObservedOp {
  Handler full = nullptr, masked = nullptr;
  const OpDetail* access = nullptr;  ///< an AccessDetail, or null when it accesses no memory
  uint8_t order = 0;                 ///< AccessOrder
  uint8_t fence = 0;                 ///< FenceKind
  bool synchronises = false;         ///< its lanes meet
};

class Kernel {
 public:
  std::string name;          ///< mangled
  std::string display_name;  ///< demangled, without the parameter list: "gemm<128, 64, 4>"
  std::string own_file;      ///< of the source, as `own_file_of` has it
  std::shared_ptr<const ptx::Module> module;
  const ptx::Function* entry = nullptr;
  std::vector<Op> code;
  std::vector<OpPlace> places;       ///< parallel to `code`
  std::vector<ObservedOp> observed;  ///< parallel to `code`; empty unless memory events are to be announced
  bool has_async_proxy = false;      ///< of an observed one: some instruction accesses shared memory through it
  std::vector<std::unique_ptr<OpDetail>> details;
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  uint32_t register_bytes = 0;       ///< register file of one warp, with constants and specials
  uint32_t static_shared_bytes = 0;  ///< beside the 1 KiB that the system reserves
  uint32_t local_bytes = 0;          ///< per thread, all frames that do not recurse
  std::vector<ParameterLayout> parameters;
  uint32_t parameter_bytes = 0;
  std::vector<SharedVariable> shared_variables;
  bool uses_tensor_memory = false;
  uint32_t cta_group = 0;            ///< that its tcgen05 instructions name: 1, or 2 for pairs of blocks; 0: none does
  bool takes_over_clusters = false;  ///< by clusterlaunchcontrol
  bool clusters_interact = false;    ///< something in it may concern other clusters (Reach::other_clusters)
  uint32_t machine_registers = 0;    ///< per thread as ptxas allocated them; 0 when no machine code was embedded

  /// "gemm.cu:88", the innermost line of the kernel's own file; where the instruction came from another file of the
  /// program by inlining, "gemm.cu:88 (pipeline.hpp:41)". Headers of the toolkit are passed over. Empty when unknown.
  std::string describe_source(uint32_t pc) const;
  /// The instruction as PTX, for reports: opcode with its modifiers.
  std::string describe_instruction(uint32_t pc) const;
  /// The kernel's own file, relative to the working directory where it lies below it; empty when unknown.
  std::string source_file() const;
  /// What lies at an offset of shared memory: "full[2]" for the third 8-byte element, "tile+0x80" with other sizes.
  std::string name_of_shared(uint32_t offset, uint32_t element_bytes) const;
  /// A byte of shared memory: "tile+0x840".
  std::string name_of_shared_byte(uint32_t offset) const;
};

/// Path of the file that a kernel is written in, as the compiler has it; empty when unknown. A kernel that does nothing
/// but call another function is written where that one is: those of CUTLASS are all one line of device_kernel.h.
std::string own_file_of(const ptx::Module& module, const ptx::Function& entry);

}  // namespace stagecraft::emulator::machine
