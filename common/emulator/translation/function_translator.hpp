// The state of translating one kernel: where everything it names was put.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/state/kernel.hpp"
#include "emulator/state/module_image.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Local memory per thread for the frames of recursive functions.
inline constexpr uint32_t kRecursiveLocalBytes = 16 * 1024;

/// Lays out the register file of a warp: registers, then constants and special registers, each vector once.
class RegisterFile {
 public:
  explicit RegisterFile(Kernel& kernel) : kernel_(kernel) {}
  /// A fresh vector of `bytes_per_lane` per lane; 0 for a predicate.
  RegisterOffset allocate(uint32_t bytes_per_lane);
  /// `bytes` bytes that are not a vector (the area of a call's parameters).
  RegisterOffset allocate_area(uint32_t bytes);
  RegisterOffset constant(uint64_t low, uint64_t high, uint32_t bytes_per_lane);
  RegisterOffset special(Special special, uint32_t bytes_per_lane, uint32_t parameter = 0);
  uint32_t bytes() const { return next_; }

 private:
  Kernel& kernel_;
  uint32_t next_ = 0;
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, RegisterOffset> constants_;
  std::map<std::tuple<Special, uint32_t, uint32_t>, RegisterOffset> specials_;
};

/// Bytes of the register file, begin inclusive.
struct RegisterRange {
  RegisterOffset begin = 0, end = 0;
};

/// A `.param` variable of a function that is called, as bytes in the register file.
struct CallArea {
  RegisterOffset offset = kNoRegister;
  uint32_t stride = 0;  ///< bytes from one lane to the next
  uint32_t size = 0;
};

/// What is known about a function before its body is translated.
struct FunctionFrame {
  const ptx::Function* function = nullptr;
  bool recursive = false;                        ///< can be active twice in one thread
  uint32_t entry_pc = 0;                         ///< set when its body is translated
  RegisterRange registers;                       ///< everything a recursive call must save
  std::vector<RegisterOffset> register_offsets;  ///< by ptx::RegisterId
  std::vector<CallArea> parameters, returns;     ///< of a `.func`
  std::vector<CallArea> variables;               ///< by index of Function::variables; those in `.param` space
  std::vector<uint32_t> local_offsets;           ///< by index of Function::variables; those in `.local` space
  uint32_t local_bytes = 0;                      ///< of its own frame
  uint32_t local_base = 0;                       ///< where its frame begins when it does not recurse
};

class KernelTranslator {
 public:
  KernelTranslator(Kernel& kernel, const ModuleImage& image, const Architecture& architecture,
                   const InstructionSet& instructions);
  /// Translates the entry function and all that it can reach.
  void run();

  Kernel& kernel() { return kernel_; }
  const ptx::Module& module() const { return module_; }
  const ModuleImage& image() const { return image_; }
  const Architecture& architecture() const { return architecture_; }
  RegisterFile& registers() { return registers_; }
  const InstructionSet& instructions() const { return instructions_; }
  FunctionFrame& frame(uint32_t function_index) { return frames_.at(function_index); }
  FunctionFrame& frame_of(const ptx::Function& function);
  /// The functions whose address is taken and that an indirect call may reach; by index in Module::functions.
  const std::set<uint32_t>& address_taken() const { return address_taken_; }
  /// Offset of a shared variable in a block's shared memory window (the reserved first KiB included).
  uint32_t shared_offset(const ptx::Variable& variable) const;
  /// Byte offset of the local memory that recursive frames use.
  uint32_t recursive_local_base() const { return recursive_local_base_; }
  /// Number of the Op at which a function begins; asked for when all bodies are translated.
  void at_end(std::function<void()> action) { at_end_.push_back(std::move(action)); }

 private:
  void discover(const ptx::Function& function);
  void take_address(uint32_t index, const std::function<void(uint32_t)>& reach);
  void reach_all_pointees(const std::function<void(uint32_t)>& reach);
  void find_recursion();
  void lay_out_parameters();
  void lay_out_shared();
  void lay_out_frame(FunctionFrame& frame);

  Kernel& kernel_;
  const ModuleImage& image_;
  const ptx::Module& module_;
  const Architecture& architecture_;
  const InstructionSet& instructions_;
  RegisterFile registers_;
  std::map<uint32_t, FunctionFrame> frames_;  // by index in Module::functions, the entry among them
  std::vector<uint32_t> order_;               // of discovery, the entry first
  std::map<uint32_t, std::set<uint32_t>> calls_;
  std::set<uint32_t> indirect_callers_, address_taken_;
  std::vector<const ptx::Variable*> shared_variables_;
  std::unordered_map<const ptx::Variable*, uint32_t> shared_offsets_;
  uint32_t recursive_local_base_ = 0;
  std::vector<std::function<void()>> at_end_;
};

/// Translates the body of one function.
class FunctionTranslator {
 public:
  FunctionTranslator(KernelTranslator& owner, FunctionFrame& frame) : owner_(owner), frame_(frame) {}
  void run();

  KernelTranslator& kernel_translator() { return owner_; }
  Kernel& kernel() { return owner_.kernel(); }
  const ptx::Function& function() const { return *frame_.function; }
  FunctionFrame& frame() { return frame_; }
  /// Appends an Op that belongs to the instruction under translation.
  Op& append(const Op& op);
  /// Number of the Op that the next `append` makes.
  uint32_t next_pc() { return static_cast<uint32_t>(kernel().code.size()); }
  /// Sets `immediate` of the Op at `pc` to the number of the Op that a label names, once that is known.
  void patch_to_label(uint32_t pc, uint32_t label);
  /// The number of the Op a label names; valid in KernelTranslator::at_end.
  uint32_t pc_of_label(uint32_t label) const { return starts_.at(label); }
  /// The mask in which `add.cc` and its kind leave the carry; one per function.
  RegisterOffset carry_flag();

 private:
  void translate(const ptx::Instruction& instruction);
  /// Collects the registers that some instruction of the function writes long after it was issued.
  void find_late_results();
  /// Puts Ops before an instruction that wait for the late results that it names.
  void guard_late_results(const ptx::Instruction& instruction);

  KernelTranslator& owner_;
  FunctionFrame& frame_;
  uint32_t current_ = 0;  // index of the instruction under translation
  RegisterOffset carry_flag_ = kNoRegister;
  std::vector<InstructionTraits> traits_;                      // by index in the body
  std::unordered_map<ptx::RegisterId, Handler> late_results_;  // with the handlers that wait for them
  std::vector<uint32_t> starts_;                               // first Op of each instruction, and one past the last
  std::vector<std::pair<uint32_t, uint32_t>> patches_;
};

}  // namespace stagecraft::emulator::machine
