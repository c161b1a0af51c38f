// Translating the body of one function.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/translation/kernel_translator.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

class FunctionTranslator {
 public:
  FunctionTranslator(KernelTranslator& owner, FunctionFrame& frame)
      : owner_(owner), frame_(frame), traits_(owner.kernel().traits[frame.function]) {}
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
  /// The mask in which `add.cc` and the like leave the carry; one per function.
  RegisterOffset carry_flag();

 private:
  void translate(const ptx::Instruction& instruction);
  /// Ranks the function's Ops, once all are there.
  void set_order();
  /// Takes note of the Ops that ptxas leaves out, because no instruction reads their results.
  void find_unread_loads();
  /// Collects the registers that some instruction of the function writes long after it was issued.
  void find_late_results();
  /// Puts Ops before an instruction that wait for the late results that it names.
  void guard_late_results(const ptx::Instruction& instruction);

  KernelTranslator& owner_;
  FunctionFrame& frame_;
  uint32_t current_ = 0;  // index of the instruction under translation
  RegisterOffset carry_flag_ = kNoRegister;
  std::vector<InstructionTraits>& traits_;                     // by index in the body; the kernel keeps them
  std::unordered_map<ptx::RegisterId, Handler> late_results_;  // with the handlers that wait for them
  std::vector<uint32_t> starts_;                               // first Op of each instruction, and one past the last
  std::vector<std::pair<uint32_t, uint32_t>> patches_;
};

}  // namespace stagecraft::emulator::machine
