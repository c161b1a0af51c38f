// Translating a kernel and all functions that it can reach: where everything is that they name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "emulator/state/module_image.hpp"
#include "emulator/translation/call_graph.hpp"
#include "emulator/translation/function_frame.hpp"
#include "emulator/translation/register_file.hpp"

namespace stagecraft::emulator::machine {

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
  /// The functions whose address is taken and that an indirect call may reach; by index in Module::functions.
  const std::set<uint32_t>& address_taken() const { return graph_.address_taken; }
  /// Whether a function other than the entry observes what other threads do: by a strong access, or a poll.
  bool calls_observe() const { return calls_observe_; }
  /// Offset of a shared variable in a block's shared memory window (the reserved first KiB included).
  uint32_t shared_offset(const ptx::Variable& variable) const { return shared_offsets_.at(&variable); }
  /// Runs `action` when all bodies are translated and it is known where each begins.
  void at_end(std::function<void()> action) { at_end_.push_back(std::move(action)); }

 private:
  bool find_observing_calls() const;
  void lay_out_parameters();
  void lay_out_shared();
  void lay_out_frames();
  void lay_out_frame(FunctionFrame& frame);
  void translate_bodies();

  Kernel& kernel_;
  const ModuleImage& image_;
  const ptx::Module& module_;
  const Architecture& architecture_;
  const InstructionSet& instructions_;
  RegisterFile registers_;
  CallGraph graph_;
  bool calls_observe_ = false;
  std::map<uint32_t, FunctionFrame> frames_;  // by index in Module::functions, the entry among them
  std::unordered_map<const ptx::Variable*, uint32_t> shared_offsets_;
  std::vector<std::function<void()>> at_end_;
};

}  // namespace stagecraft::emulator::machine
