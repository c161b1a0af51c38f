#include "emulator/translation/kernel_translator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "emulator/ptx/demangling.hpp"
#include "emulator/ptx/diagnostics.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// PTX ISA, "Kernel Function Parameter Attributes": 32,764 bytes. The one limit serves the parameters of functions too.
constexpr uint64_t kMostParameterBytes = 32764;
/// CUDA programming guide, "Technical Specifications per Compute Capability".
constexpr uint64_t kMostLocalBytes = uint64_t{512} << 10;

/// Where the next variable of `size` bytes goes; `end` becomes the byte after it. Throws when that exceeds `most`.
uint32_t place(const ptx::Variable& variable, uint64_t& end, uint64_t most, std::string_view what) {
  const uint64_t offset = align_up(end, variable.alignment);
  if (offset > most || variable.size > most - offset) {
    throw ptx::SyntaxError(
        fmt::format("`{}` of {} bytes does not fit: {} are at most {} bytes", variable.name, variable.size, what, most),
        variable.position,
        most == kMostParameterBytes ? "smaller parameters, or a pointer to what they hold"
                                    : "smaller variables, or an array in .global memory");
  }
  end = offset + variable.size;
  return static_cast<uint32_t>(offset);
}

}  // namespace

KernelTranslator::KernelTranslator(Kernel& kernel, const ModuleImage& image, const Architecture& architecture,
                                   const InstructionSet& instructions)
    : kernel_(kernel),
      image_(image),
      module_(*image.module()),
      architecture_(architecture),
      instructions_(instructions),
      registers_(kernel) {}

void KernelTranslator::run() {
  graph_ = find_call_graph(module_, *kernel_.entry, instructions_);
  calls_observe_ = find_observing_calls();
  lay_out_parameters();
  lay_out_shared();
  lay_out_frames();
  translate_bodies();
  for (const auto& action : at_end_) action();
  kernel_.register_bytes = registers_.bytes();
}

bool KernelTranslator::find_observing_calls() const {
  return std::any_of(graph_.reached.begin(), graph_.reached.end(), [&](uint32_t index) {
    const ptx::Function& function = module_.functions[index];
    if (&function == kernel_.entry) return false;
    return std::any_of(function.body.begin(), function.body.end(), [&](const ptx::Instruction& instruction) {
      const InstructionTraits traits = instructions_.traits_of(instruction);
      return traits.order != AccessOrder::weak || traits.polls;
    });
  });
}

/// Functions that do not recurse have their local variables at places of their own. The frames of the others begin
/// after these, and move with each call.
void KernelTranslator::lay_out_frames() {
  uint32_t local = 0;
  for (const uint32_t index : graph_.reached) {
    FunctionFrame& frame = frames_[index];
    frame.function = &module_.functions[index];
    frame.recursive = graph_.recursive.contains(index);
    lay_out_frame(frame);
    if (frame.recursive) continue;
    frame.local_base = local;
    local = static_cast<uint32_t>(align_up(local + frame.local_bytes, 16));
    if (local > kMostLocalBytes) {
      throw ptx::SyntaxError(fmt::format("the local variables of `{}` and of what it calls take {} bytes of a thread",
                                         kernel_.entry->name, local),
                             kernel_.entry->position, fmt::format("at most {}", kMostLocalBytes));
    }
  }
  kernel_.local_bytes = local;
  kernel_.entry_local_bytes = frames_.at(graph_.reached.front()).local_bytes;
  for (const uint32_t index : graph_.recursive) {
    FunctionFrame& frame = frames_.at(index);
    frame.local_base = local;
    kernel_.has_recursive_locals = kernel_.has_recursive_locals || frame.local_bytes != 0;
  }
}

void KernelTranslator::translate_bodies() {
  for (const uint32_t index : graph_.reached) {
    FunctionFrame& frame = frames_.at(index);
    frame.entry_pc = static_cast<uint32_t>(kernel_.code.size());
    FunctionTranslator(*this, frame).run();
  }
}

void KernelTranslator::lay_out_parameters() {
  uint64_t offset = 0;
  for (const ptx::Variable& parameter : kernel_.entry->parameters) {
    const uint32_t begin = place(parameter, offset, kMostParameterBytes, "the parameters of a kernel");
    kernel_.parameters.push_back({begin, static_cast<uint32_t>(parameter.size)});
  }
  kernel_.parameter_bytes = static_cast<uint32_t>(offset);
}

void KernelTranslator::lay_out_shared() {
  uint64_t offset = 0;
  const uint64_t most = architecture_.shared_per_block_optin;
  for (const ptx::Variable* variable : graph_.shared_variables) {
    if (variable->size == 0) continue;
    shared_offsets_[variable] =
        kSharedReservedBytes + place(*variable, offset, most, "the shared variables of a block");
  }
  // Dynamic shared memory follows what is static; all its names mean the same bytes, which are aligned for each of
  // them.
  const ptx::Variable* dynamic = nullptr;
  for (const ptx::Variable* variable : graph_.shared_variables) {
    if (variable->size != 0) continue;
    if (dynamic == nullptr || variable->alignment > dynamic->alignment) dynamic = variable;
  }
  if (dynamic != nullptr) place(*dynamic, offset, most, "the shared variables of a block");
  for (const ptx::Variable* variable : graph_.shared_variables) {
    if (variable->size == 0) shared_offsets_[variable] = static_cast<uint32_t>(kSharedReservedBytes + offset);
  }
  kernel_.static_shared_bytes = static_cast<uint32_t>(offset);
  for (const ptx::Variable* variable : graph_.shared_variables) {
    kernel_.shared_variables.push_back(
        {ptx::source_name(variable->name), shared_offsets_[variable], static_cast<uint32_t>(variable->size)});
  }
}

void KernelTranslator::lay_out_frame(FunctionFrame& frame) {
  const ptx::Function& function = *frame.function;
  frame.registers.begin = registers_.allocate_area(0);
  // Predicates first: they are small and would otherwise force padding between the vectors.
  frame.register_offsets.resize(function.registers.size());
  for (size_t i = 0; i < function.registers.size(); ++i) {
    if (function.registers[i].type == ptx::Type::pred) frame.register_offsets[i] = registers_.allocate(0);
  }
  for (size_t i = 0; i < function.registers.size(); ++i) {
    const ptx::Type type = function.registers[i].type;
    if (type != ptx::Type::pred) frame.register_offsets[i] = registers_.allocate(bytes_per_lane(type));
  }
  const auto area_of = [&](const ptx::Variable& variable) {
    uint64_t size = 0;
    place(variable, size, kMostParameterBytes, "the bytes of a parameter");
    CallArea area;
    area.size = static_cast<uint32_t>(size);
    area.stride = static_cast<uint32_t>(align_up(std::max<uint64_t>(variable.size, 1), 16));
    area.offset = registers_.allocate_area(area.stride * kWarpSize);
    return area;
  };
  for (const auto* variables : {&function.returns, &function.parameters}) {
    for (const ptx::Variable& variable : *variables) {
      if (variable.type != ptx::Type::pred) continue;
      throw ptx::UnsupportedInstruction(
          fmt::format("`{}` hands a predicate over in a call, which is not implemented", variable.name),
          variable.position);
    }
  }
  if (!function.is_entry) {
    for (const ptx::Variable& parameter : function.parameters) {
      frame.parameters.push_back(parameter.space == ptx::Space::reg ? CallArea{} : area_of(parameter));
    }
    for (const ptx::Variable& result : function.returns) {
      frame.returns.push_back(result.space == ptx::Space::reg ? CallArea{} : area_of(result));
    }
  }
  uint64_t local = 0;
  for (const ptx::Variable& variable : function.variables) {
    frame.variables.push_back(variable.space == ptx::Space::param ? area_of(variable) : CallArea{});
    if (variable.space == ptx::Space::local) {
      frame.local_offsets.push_back(place(variable, local, kMostLocalBytes, "the local variables of a thread"));
    } else {
      frame.local_offsets.push_back(0);
    }
  }
  frame.local_bytes = static_cast<uint32_t>(align_up(local, 16));
  frame.registers.end = registers_.allocate_area(0);
}

}  // namespace stagecraft::emulator::machine
