#include "emulator/translation/function_translator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "emulator/state/device_memory.hpp"
#include "emulator/translation/contraction.hpp"
#include "emulator/translation/demangling.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kVectorAlignment = 64;
/// The numbers of a file are 32 bits wide, and a text of a few bytes must not cost the memory of the host.
constexpr uint64_t kMostRegisterBytes = uint64_t{64} << 20;
constexpr size_t kMostOps = size_t{1} << 22;
/// PTX ISA, "Kernel Function Parameter Attributes": 32,764 bytes. The one limit serves the parameters of functions too.
constexpr uint64_t kMostParameterBytes = 32764;
/// CUDA programming guide, "Technical Specifications per Compute Capability".
constexpr uint64_t kMostLocalBytes = uint64_t{512} << 10;

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return alignment == 0 ? value : (value + alignment - 1) / alignment * alignment;
}

uint32_t bytes_per_lane(ptx::Type type) {
  return type == ptx::Type::pred ? 0 : std::max<uint32_t>(2, ptx::size_of(type));
}

void visit_symbols(const ptx::Operand& operand, const std::function<void(const ptx::Operand&)>& visit) {
  if (operand.kind == ptx::OperandKind::symbol) visit(operand);
  for (const ptx::Operand& inner : operand.list) visit_symbols(inner, visit);
}

void visit_registers(const ptx::Operand& operand, const std::function<void(ptx::RegisterId)>& visit) {
  if (operand.kind == ptx::OperandKind::reg) visit(operand.reg);
  for (const ptx::Operand& inner : operand.list) visit_registers(inner, visit);
}

bool tells_of_other_clusters(const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::special) {
    const ptx::SpecialRegister* known = ptx::find_special_register(operand.name);
    return known != nullptr && known->tells_of_other_clusters;
  }
  return std::any_of(operand.list.begin(), operand.list.end(),
                     [](const ptx::Operand& inner) { return tells_of_other_clusters(inner); });
}

/// Where the next variable of `size` bytes goes; `end` becomes the byte behind it. Throws when that exceeds `most`.
uint32_t place(const ptx::Variable& variable, uint64_t& end, uint64_t most, std::string_view what) {
  const uint64_t offset = align_up(end, variable.alignment);
  if (offset > most || variable.size > most - offset) {
    throw ptx::SyntaxError(
        fmt::format("`{}` of {} bytes does not fit: {} are at most {} bytes", variable.name, variable.size, what, most),
        variable.position, "smaller variables, or an array in .global memory");
  }
  end = offset + variable.size;
  return static_cast<uint32_t>(offset);
}

}  // namespace

RegisterOffset RegisterFile::allocate(uint32_t bytes_per_lane) {
  // Predicates are one word each; giving each a cache line would waste the cache that wide registers need.
  if (bytes_per_lane == 0) {
    const RegisterOffset offset = next_;
    next_ += sizeof(LaneMask);
    return offset;
  }
  return allocate_area(bytes_per_lane * kWarpSize);
}

RegisterOffset RegisterFile::allocate_area(uint32_t bytes) {
  next_ = static_cast<uint32_t>(align_up(next_, kVectorAlignment));
  if (bytes > kMostRegisterBytes - next_) {
    throw ptx::SyntaxError(
        fmt::format("the registers and call parameters of `{}` and of what it calls take more than {} MiB for a warp",
                    kernel_.entry->name, kMostRegisterBytes >> 20),
        kernel_.entry->position, "fewer functions with large parameters");
  }
  const RegisterOffset offset = next_;
  next_ += bytes;
  return offset;
}

RegisterOffset RegisterFile::constant(uint64_t low, uint64_t high, uint32_t bytes_per_lane) {
  if (bytes_per_lane == 0) low = low != 0;
  if (bytes_per_lane == 2) low &= 0xffff;
  if (bytes_per_lane == 4) low &= 0xffffffff;
  const auto [entry, is_new] = constants_.try_emplace({low, high, bytes_per_lane}, 0);
  if (is_new) {
    entry->second = allocate(bytes_per_lane);
    kernel_.constants.push_back({entry->second, static_cast<uint8_t>(bytes_per_lane), low, high});
  }
  return entry->second;
}

RegisterOffset RegisterFile::special(Special special, uint32_t bytes_per_lane, uint32_t parameter) {
  const auto [entry, is_new] = specials_.try_emplace({special, bytes_per_lane, parameter}, 0);
  if (is_new) {
    entry->second = allocate(bytes_per_lane);
    kernel_.specials.push_back({entry->second, special, static_cast<uint8_t>(bytes_per_lane), parameter});
  }
  return entry->second;
}

KernelTranslator::KernelTranslator(Kernel& kernel, const ModuleImage& image, const Architecture& architecture,
                                   const InstructionSet& instructions)
    : kernel_(kernel),
      image_(image),
      module_(*image.module()),
      architecture_(architecture),
      instructions_(instructions),
      registers_(kernel) {}

void KernelTranslator::run() {
  discover(*kernel_.entry);
  find_recursion();
  lay_out_parameters();
  lay_out_shared();
  uint32_t local = 0;
  for (const uint32_t index : order_) {
    FunctionFrame& frame = frames_.at(index);
    lay_out_frame(frame);
    if (!frame.recursive) {
      frame.local_base = local;
      local = static_cast<uint32_t>(align_up(local + frame.local_bytes, 16));
      if (local > kMostLocalBytes) {
        throw ptx::SyntaxError(fmt::format("the local variables of `{}` and of what it calls take {} bytes of a thread",
                                           kernel_.entry->name, local),
                               kernel_.entry->position, fmt::format("at most {}", kMostLocalBytes));
      }
    }
  }
  recursive_local_base_ = local;
  kernel_.local_bytes = local;
  for (const uint32_t index : order_) {
    FunctionFrame& frame = frames_.at(index);
    frame.entry_pc = static_cast<uint32_t>(kernel_.code.size());
    if (frame.recursive) {
      frame.local_base = recursive_local_base_;
      kernel_.local_bytes = recursive_local_base_ + kRecursiveLocalBytes;
    }
    FunctionTranslator(*this, frame).run();
  }
  for (const auto& action : at_end_) action();
  kernel_.register_bytes = static_cast<uint32_t>(align_up(registers_.bytes(), kVectorAlignment));
}

FunctionFrame& KernelTranslator::frame_of(const ptx::Function& function) {
  return frames_.at(static_cast<uint32_t>(&function - module_.functions.data()));
}

uint32_t KernelTranslator::shared_offset(const ptx::Variable& variable) const { return shared_offsets_.at(&variable); }

void KernelTranslator::discover(const ptx::Function& entry) {
  const auto index_of = [&](const ptx::Function& function) {
    return static_cast<uint32_t>(&function - module_.functions.data());
  };
  std::vector<uint32_t> pending{index_of(entry)};
  std::set<uint32_t> seen{index_of(entry)};
  const auto reach = [&](uint32_t index) {
    const ptx::Function& callee = module_.functions.at(index);
    if (callee.is_declaration) return;  // a built-in, or an error that the call reports
    if (seen.insert(index).second) pending.push_back(index);
  };
  while (!pending.empty()) {
    const uint32_t index = pending.back();
    pending.pop_back();
    const ptx::Function& function = module_.functions[index];
    order_.push_back(index);
    frames_[index].function = &function;
    for (const ptx::Instruction& instruction : function.body) {
      const bool is_call = instructions_.traits_of(instruction).flow == Flow::calls;
      bool direct = false;
      for (size_t i = 0; i < instruction.operands.size(); ++i) {
        visit_symbols(instruction.operands[i], [&](const ptx::Operand& symbol) {
          if (symbol.symbol_kind == ptx::SymbolKind::function) {
            if (is_call && instruction.operands[i].kind == ptx::OperandKind::symbol) {
              reach(symbol.symbol);
              calls_[index].insert(symbol.symbol);
              direct = true;
            } else {
              take_address(symbol.symbol, reach);
            }
          }
          const ptx::Variable* variable = nullptr;
          if (symbol.symbol_kind == ptx::SymbolKind::module_variable) variable = &module_.variables.at(symbol.symbol);
          if (symbol.symbol_kind == ptx::SymbolKind::local_variable) variable = &function.variables.at(symbol.symbol);
          if (variable != nullptr && variable->space == ptx::Space::shared &&
              std::find(shared_variables_.begin(), shared_variables_.end(), variable) == shared_variables_.end()) {
            shared_variables_.push_back(variable);
          }
        });
      }
      if (is_call && !direct) indirect_callers_.insert(index);
    }
    if (pending.empty() && !indirect_callers_.empty()) reach_all_pointees(reach);
  }
  for (const uint32_t caller : indirect_callers_) calls_[caller].insert(address_taken_.begin(), address_taken_.end());
}

void KernelTranslator::take_address(uint32_t index, const std::function<void(uint32_t)>& reach) {
  address_taken_.insert(index);
  reach(index);
}

/// An indirect call may reach whatever a pointer can hold: what initialised data points to (tables of functions,
/// virtual functions), and what any function of the module takes the address of, which another kernel may have stored.
void KernelTranslator::reach_all_pointees(const std::function<void(uint32_t)>& reach) {
  const auto index_of = [&](const ptx::Function& function) {
    return static_cast<uint32_t>(&function - module_.functions.data());
  };
  for (const ptx::Variable& variable : module_.variables) {
    for (const ptx::Relocation& relocation : variable.relocations) {
      const ptx::Function* target = module_.find_function(relocation.symbol);
      if (target != nullptr) take_address(index_of(*target), reach);
    }
  }
  for (const ptx::Function& function : module_.functions) {
    for (const ptx::Instruction& instruction : function.body) {
      for (const ptx::Operand& operand : instruction.operands) {
        visit_symbols(operand, [&](const ptx::Operand& symbol) {
          if (symbol.symbol_kind != ptx::SymbolKind::function) return;
          const bool is_callee = &symbol == &operand && instructions_.traits_of(instruction).flow == Flow::calls;
          if (!is_callee) take_address(symbol.symbol, reach);
        });
      }
    }
  }
}

void KernelTranslator::find_recursion() {
  // A function recurses if it can reach itself; call graphs are small, so each is walked from each function.
  for (auto& [index, frame] : frames_) {
    std::set<uint32_t> reached;
    std::vector<uint32_t> pending{index};
    while (!pending.empty() && !frame.recursive) {
      const uint32_t current = pending.back();
      pending.pop_back();
      for (const uint32_t callee : calls_[current]) {
        if (callee == index) frame.recursive = true;
        if (reached.insert(callee).second) pending.push_back(callee);
      }
    }
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
  for (const ptx::Variable* variable : shared_variables_) {
    if (variable->size == 0) continue;
    shared_offsets_[variable] =
        kSharedReservedBytes + place(*variable, offset, most, "the shared variables of a block");
  }
  // Dynamic shared memory follows what is static; all its names mean the same bytes, which are aligned for each of
  // them.
  const ptx::Variable* dynamic = nullptr;
  for (const ptx::Variable* variable : shared_variables_) {
    if (variable->size != 0) continue;
    if (dynamic == nullptr || variable->alignment > dynamic->alignment) dynamic = variable;
  }
  if (dynamic != nullptr) place(*dynamic, offset, most, "the shared variables of a block");
  for (const ptx::Variable* variable : shared_variables_) {
    if (variable->size == 0) shared_offsets_[variable] = static_cast<uint32_t>(kSharedReservedBytes + offset);
  }
  kernel_.static_shared_bytes = static_cast<uint32_t>(offset);
  for (const ptx::Variable* variable : shared_variables_) {
    kernel_.shared_variables.push_back(
        {source_name(variable->name), shared_offsets_[variable], static_cast<uint32_t>(variable->size)});
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

void FunctionTranslator::find_late_results() {
  for (uint32_t i = 0; i < traits_.size(); ++i) {
    const ptx::Instruction& instruction = function().body[i];
    if (traits_[i].result_guard == nullptr || instruction.operands.empty()) continue;
    visit_registers(instruction.operands.front(),
                    [&](ptx::RegisterId reg) { late_results_[reg] = traits_[i].result_guard; });
  }
}

void FunctionTranslator::guard_late_results(const ptx::Instruction& instruction) {
  std::set<ptx::RegisterId> named;
  // The engine itself keeps operations in order that have the same registers as their results.
  for (size_t i = traits_[current_].result_guard != nullptr ? 1 : 0; i < instruction.operands.size(); ++i) {
    visit_registers(instruction.operands[i], [&](ptx::RegisterId reg) {
      if (late_results_.contains(reg)) named.insert(reg);
    });
  }
  for (const ptx::RegisterId reg : named) {
    Op op;
    op.full = op.masked = late_results_.at(reg);
    op.immediate = frame_.register_offsets.at(reg);
    append(op);
  }
}

void FunctionTranslator::translate(const ptx::Instruction& instruction) {
  const Registration* known = owner_.instructions().find(instruction);
  if (known == nullptr) {
    const std::vector<std::string> similar = owner_.instructions().similar(instruction.opcode);
    throw ptx::UnsupportedInstruction(
        fmt::format("`{}`: instruction `{}` is not implemented", ptx::spelling(instruction), instruction.opcode),
        instruction.position, fmt::format("{}", fmt::join(similar, ", ")));
  }
  Translation translation(*this, instruction);
  known->translator(translation);
}

void FunctionTranslator::run() {
  const ptx::Function& function = *frame_.function;
  traits_ = owner_.instructions().traits_of(function);
  const Contractions contractions = find_contractions(function, traits_);
  find_late_results();
  for (current_ = 0; current_ < function.body.size(); ++current_) {
    const ptx::Instruction& instruction = function.body[current_];
    starts_.push_back(next_pc());
    if (traits_[current_].reach == Reach::other_clusters ||
        std::any_of(instruction.operands.begin(), instruction.operands.end(), tells_of_other_clusters)) {
      kernel().clusters_interact = true;
    }
    if (!late_results_.empty()) guard_late_results(instruction);
    if (contractions.products.contains(current_)) continue;
    const auto contracted = contractions.operations.find(current_);
    if (contracted == contractions.operations.end()) {
      translate(instruction);
    } else {
      for (const ptx::Instruction& operation : contracted->second) translate(operation);
    }
  }
  starts_.push_back(next_pc());
  ptx::Instruction end;  // a body may end without one
  end.opcode = "ret";
  translate(end);
  for (const auto& [pc, label] : patches_) kernel().code[pc].immediate = starts_.at(label);
}

Op& FunctionTranslator::append(const Op& op) {
  if (kernel().code.size() >= kMostOps) {
    throw ptx::SyntaxError(
        fmt::format("`{}` and what it calls become more than {} operations", kernel().entry->name, kMostOps),
        kernel().entry->position, "a smaller kernel, or fewer brx.idx with long tables");
  }
  OpPlace place{&function(), current_, 0};
  if (current_ < function().body.size()) place.source = function().body[current_].source;
  kernel().code.push_back(op);
  kernel().places.push_back(place);
  return kernel().code.back();
}

void FunctionTranslator::patch_to_label(uint32_t pc, uint32_t label) { patches_.emplace_back(pc, label); }

RegisterOffset FunctionTranslator::carry_flag() {
  if (carry_flag_ == kNoRegister) carry_flag_ = owner_.registers().allocate(0);
  return carry_flag_;
}

}  // namespace stagecraft::emulator::machine
