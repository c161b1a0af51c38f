#include "emulator/instructions/function_calls.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "emulator/instructions/exit_lanes.hpp"
#include "emulator/ptx/demangling.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

/// A vector of the register file and its width per lane; 0 for a predicate.
struct Vector {
  RegisterOffset offset;
  uint32_t bytes_per_lane;
};

/// What a call needs to know about a function, once all functions are translated.
struct CallTarget {
  std::string name;
  uint32_t entry_pc = 0;
  std::vector<CallArea> parameters, returns;
  bool recursive = false;
  RegisterRange registers;
  std::vector<Vector> vectors;  ///< all of `registers`, for a recursive function
  uint32_t stack_bytes = 0;     ///< of each call of a recursive function
  std::string mismatch;         ///< why an indirect call may not reach it; empty when it may
};

namespace {

/// What a call of a function that recurses takes of the thread's stack besides the function's local variables: the
/// least that ptxas 13.0 needs for sm_90a, for the place to return to and two registers.
constexpr uint32_t kCallBytes = 16;

struct CallDetail : OpDetail {
  std::vector<CallArea> arguments, results;  ///< of the caller
  CallTarget target;                         ///< of a direct call
  std::map<uint64_t, CallTarget> targets;    ///< of an indirect one, by address
  BuiltinHandler builtin = nullptr;
};

struct ReturnDetail : OpDetail {
  std::vector<CallArea> returns;
};

CallTarget describe_target(KernelTranslator& kernel, uint32_t function_index) {
  const FunctionFrame& frame = kernel.frame(function_index);
  const ptx::Function& function = *frame.function;
  CallTarget target;
  target.name = ptx::short_function_name(function.name);
  target.entry_pc = frame.entry_pc;
  target.parameters = frame.parameters;
  target.returns = frame.returns;
  // `.reg` returns and parameters are the function's first registers.
  size_t next_register = 0;
  const auto use_registers = [&](const std::vector<ptx::Variable>& variables, std::vector<CallArea>& areas) {
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].space != ptx::Space::reg) continue;
      const uint32_t bytes = std::max<uint32_t>(2, ptx::size_of(variables[i].type));
      areas[i] = {frame.register_offsets.at(next_register++), bytes, bytes};
    }
  };
  use_registers(function.returns, target.returns);
  use_registers(function.parameters, target.parameters);
  target.recursive = frame.recursive;
  target.registers = frame.registers;
  target.stack_bytes = kCallBytes + frame.local_bytes;
  if (frame.recursive) {
    for (size_t i = 0; i < function.registers.size(); ++i) {
      const ptx::Type type = function.registers[i].type;
      target.vectors.push_back(
          {frame.register_offsets[i], type == ptx::Type::pred ? 0 : std::max<uint32_t>(2, ptx::size_of(type))});
    }
    for (const auto* areas : {&frame.parameters, &frame.returns, &frame.variables}) {
      for (const CallArea& area : *areas) {
        if (area.offset != kNoRegister) target.vectors.push_back({area.offset, area.stride});
      }
    }
  }
  return target;
}

void copy_area(std::byte* registers, const CallArea& from, const CallArea& to, LaneMask mask) {
  const uint32_t bytes = std::min(from.size, to.size);
  for_each_lane(mask, [&](uint32_t lane) {
    std::memcpy(registers + to.offset + lane * to.stride, registers + from.offset + lane * from.stride, bytes);
  });
}

void restore(std::byte* registers, const CallTarget& target, const std::vector<std::byte>& saved, LaneMask mask) {
  for (const Vector& vector : target.vectors) {
    const std::byte* old = saved.data() + (vector.offset - target.registers.begin);
    std::byte* now = registers + vector.offset;
    if (vector.bytes_per_lane == 0) {
      LaneMask old_mask, now_mask;
      std::memcpy(&old_mask, old, sizeof old_mask);
      std::memcpy(&now_mask, now, sizeof now_mask);
      now_mask = (now_mask & ~mask) | (old_mask & mask);
      std::memcpy(now, &now_mask, sizeof now_mask);
      continue;
    }
    for_each_lane(mask, [&](uint32_t lane) {
      std::memcpy(now + lane * vector.bytes_per_lane, old + lane * vector.bytes_per_lane, vector.bytes_per_lane);
    });
  }
}

Outcome enter(Fragment& fragment, const CallDetail& detail, const CallTarget& target, LaneMask mask) {
  // The lanes for which the guard does not hold go on after the call.
  if (mask != fragment.mask) split_off(fragment, fragment.mask & ~mask, fragment.pc + 1);
  ReturnPoint point{fragment.pc, &target, fragment.local_frame, fragment.local_top, nullptr};
  if (target.recursive) {
    const Grid& grid = fragment.grid();
    const uint32_t used = grid.kernel->entry_local_bytes + fragment.local_top, all = grid.request->stack_bytes;
    if (uint64_t{used} + target.stack_bytes > all) {
      throw Fault(FaultKind::stack_overflow,
                  fmt::format("call of `{}` needs {} bytes of the thread's stack: {} of its {} are in use, by {} calls",
                              target.name, target.stack_bytes, used, all, fragment.return_stack.size()),
                  {"does the recursion end? cudaDeviceSetLimit(cudaLimitStackSize, ...) makes the stack larger"});
    }
    point.saved = std::make_shared<const std::vector<std::byte>>(fragment.registers + target.registers.begin,
                                                                 fragment.registers + target.registers.end);
    fragment.local_frame = fragment.local_top;
    fragment.local_top += target.stack_bytes;
  }
  for (size_t i = 0; i < detail.arguments.size(); ++i) {
    copy_area(fragment.registers, detail.arguments[i], target.parameters[i], mask);
  }
  fragment.return_stack.push_back(std::move(point));
  fragment.pc = target.entry_pc;
  return Outcome::jump;
}

Outcome call_direct(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const CallDetail*>(op.detail);
  return enter(fragment, detail, detail.target, mask);
}

Outcome call_builtin(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const CallDetail*>(op.detail);
  detail.builtin(fragment, mask, detail.arguments, detail.results);
  return Outcome::next;
}

Outcome call_indirect(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const CallDetail*>(op.detail);
  const auto* addresses = lanes_at<uint64_t>(fragment.registers, op.a);
  const uint64_t address = addresses[first_lane(mask)];
  LaneMask same = 0;
  for_each_lane(mask, [&](uint32_t lane) { same |= (addresses[lane] == address ? 1u : 0u) << lane; });
  const auto target = detail.targets.find(address);
  if (target == detail.targets.end()) {
    throw Fault(FaultKind::invalid_pc, fmt::format("call through a pointer that is no function: {:#x}", address),
                {"a pointer to a device function must be taken in device code, not in host code"}, same);
  }
  if (!target->second.mismatch.empty()) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("call of `{}` through a pointer to another type of function", target->second.name),
                {target->second.mismatch, "the type of the pointer must be that of the function: look for a cast"},
                same);
  }
  // Lanes that call another function execute the instruction again, on their own.
  if (same != mask) {
    split_off(fragment, mask & ~same, fragment.pc);
    mask = same;
  }
  return enter(fragment, detail, target->second, mask);
}

Outcome return_from(Fragment& fragment, const Op& op, LaneMask mask) {
  if (fragment.return_stack.empty()) {
    exit_lanes(fragment, mask);
    return fragment.state == FragmentState::exited ? Outcome::jump : Outcome::next;
  }
  if (mask != fragment.mask) split_off(fragment, fragment.mask & ~mask, fragment.pc + 1);
  const auto& own = *static_cast<const ReturnDetail*>(op.detail);
  const ReturnPoint point = std::move(fragment.return_stack.back());
  fragment.return_stack.pop_back();
  const Op& call = fragment.grid().kernel->code[point.call_pc];
  const auto& detail = *static_cast<const CallDetail*>(call.detail);
  // The results may go into registers that are about to be restored, so a copy keeps them until then.
  std::vector<std::byte> results;
  for (const CallArea& area : own.returns) {
    results.insert(results.end(), fragment.registers + area.offset,
                   fragment.registers + area.offset + area.stride * kWarpSize);
  }
  if (point.saved != nullptr) restore(fragment.registers, *point.callee, *point.saved, mask);
  size_t position = 0;
  for (size_t i = 0; i < own.returns.size(); ++i) {
    const CallArea& from = own.returns[i];
    if (i < detail.results.size()) {
      const CallArea& to = detail.results[i];
      for_each_lane(mask, [&](uint32_t lane) {
        std::memcpy(fragment.registers + to.offset + lane * to.stride, results.data() + position + lane * from.stride,
                    std::min(from.size, to.size));
      });
    }
    position += from.stride * kWarpSize;
  }
  fragment.local_frame = point.local_frame;
  fragment.local_top = point.local_top;
  fragment.pc = point.call_pc + 1;
  return Outcome::jump;
}

/// The caller's side of one argument or result.
CallArea area_of(Translation& t, const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::symbol && operand.symbol_kind == ptx::SymbolKind::local_variable) {
    const CallArea& area = t.function().frame().variables.at(operand.symbol);
    if (area.offset != kNoRegister) return area;
  }
  if (operand.kind == ptx::OperandKind::symbol && operand.symbol_kind == ptx::SymbolKind::parameter) {
    if (t.function().function().is_entry) {
      t.illegal(
          fmt::format("`{}` is a parameter of the kernel; copy it to a .param variable to pass it on", operand.name));
    }
    return t.function().frame().parameters.at(operand.symbol);
  }
  if (operand.kind == ptx::OperandKind::reg) {
    const ptx::Type type = t.register_type(operand);
    if (type == ptx::Type::pred) t.unsupported("a predicate as an argument or result of a call is not implemented");
    const uint32_t bytes = std::max<uint32_t>(2, ptx::size_of(type));
    return {t.source(operand, type), bytes, bytes};
  }
  if (operand.kind == ptx::OperandKind::sink) return {t.scratch(16), 16, 16};
  if (operand.kind == ptx::OperandKind::integer) return {t.constant(operand.bits, 8), 8, 8};
  t.illegal("an argument of a call must be a .param variable or a register");
}

/// The results and parameters of a function or a prototype, which outlives this.
struct Signature {
  const std::vector<ptx::Variable>& returns;
  const std::vector<ptx::Variable>& parameters;
};

/// The bytes of the caller's side; 0 for what takes any size: `_`, a number.
uint64_t bytes_of(Translation& t, const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::reg) return ptx::size_of(t.register_type(operand));
  if (operand.kind != ptx::OperandKind::symbol) return 0;
  const ptx::Function& caller = t.function().function();
  switch (operand.symbol_kind) {
    case ptx::SymbolKind::local_variable: return caller.variables.at(operand.symbol).size;
    case ptx::SymbolKind::parameter: return caller.parameters.at(operand.symbol).size;
    case ptx::SymbolKind::return_value: return caller.returns.at(operand.symbol).size;
    default: return 0;
  }
}

std::string count_of(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void require_list(Translation& t, const ptx::Operand* given, const std::vector<ptx::Variable>& expected,
                  std::string_view name, std::string_view verb, std::string_view what) {
  const size_t count = given == nullptr ? 0 : given->list.size();
  if (count != expected.size()) {
    t.illegal(fmt::format("the call {} {}, and `{}` has {}", verb, count_of(count, what), name, expected.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bytes = bytes_of(t, given->list[i]), legal = expected[i].size;
    if (bytes == 0 || legal == 0 || bytes == legal) continue;
    t.illegal(fmt::format("{} {} of the call, `{}`, has {} bytes, and that of `{}` has {}", what, i + 1,
                          given->list[i].name, bytes, name, legal));
  }
}

std::string difference(const std::vector<ptx::Variable>& own, const std::vector<ptx::Variable>& called,
                       std::string_view verb, std::string_view what) {
  if (own.size() != called.size()) {
    return fmt::format("it {} {}, and the prototype of the call has {}", verb, count_of(own.size(), what),
                       called.size());
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].size == called[i].size) continue;
    return fmt::format("its {} {} has {} bytes, and the prototype's has {}", what, i + 1, own[i].size, called[i].size);
  }
  return {};
}

/// Refuses a call whose operands are not those of `callee`, as ptxas does: their number is the same, and a variable or
/// register is as large as what it becomes or takes. `results` and `arguments` may be null.
/// @param name  of the function or prototype, for the message.
void require_operands(Translation& t, const ptx::Operand* results, const ptx::Operand* arguments,
                      const Signature& callee, std::string_view name) {
  require_list(t, results, callee.returns, name, "takes", "result");
  require_list(t, arguments, callee.parameters, name, "passes", "argument");
}

/// Why a function cannot be called through a prototype, as the end of a sentence; empty when it can. A function may
/// return what the prototype does not take back.
std::string mismatch_of(const Signature& function, const Signature& prototype) {
  std::string text = difference(function.parameters, prototype.parameters, "takes", "parameter");
  if (text.empty() && !prototype.returns.empty()) {
    text = difference(function.returns, prototype.returns, "returns", "result");
  }
  return text;
}

/// The operand after the arguments of an indirect call: what says which functions may be called.
Signature signature_of(Translation& t, const ptx::Operand* operand) {
  const ptx::Function& caller = t.function().function();
  if (operand != nullptr && operand->symbol_kind == ptx::SymbolKind::prototype) {
    const ptx::Prototype& prototype = caller.prototypes.at(operand->symbol);
    return {prototype.returns, prototype.parameters};
  }
  if (operand != nullptr && operand->symbol_kind == ptx::SymbolKind::call_table) {
    const ptx::CallTable& table = caller.call_tables.at(operand->symbol);
    const ptx::Function& function = t.function().kernel_translator().module().functions.at(table.functions.at(0));
    return {function.returns, function.parameters};
  }
  t.illegal("a call through a register ends with the name of a .callprototype or of .calltargets");
}

std::unique_ptr<ReturnDetail> return_detail(FunctionTranslator& function) {
  auto detail = std::make_unique<ReturnDetail>();
  ReturnDetail* kept = detail.get();
  const ptx::Function& source = function.function();
  if (!source.is_entry && !source.returns.empty()) {
    KernelTranslator& kernel = function.kernel_translator();
    const auto index = static_cast<uint32_t>(&source - kernel.module().functions.data());
    kernel.at_end([kept, &kernel, index] { kept->returns = describe_target(kernel, index).returns; });
  }
  return detail;
}

}  // namespace

void translate_return(Translation& t) {
  t.modifiers.take("uni");
  if (t.operand_count() != 0) t.illegal("it has no operands: results go into the function's `.param` variables");
  const auto* detail = t.keep(return_detail(t.function()));
  t.emit(return_from).detail = detail;
}

std::string explain_undefined(const ptx::Module& module, const std::string& function) {
  // The names are those of cuda_device_runtime_api.h.
  if (function.starts_with("__cudaCDP2") || function == "cudaGraphLaunch") {
    return fmt::format(
        "`{}` is of the device runtime, with which kernels launch kernels and graphs (dynamic parallelism); it is not "
        "implemented: launch from the host, with as many blocks as there can be work, or with a conditional node of a "
        "graph where a kernel decides",
        function);
  }
  return fmt::format("function `{}` is declared but not defined, and the emulator does not provide it{}{}{}",
                     ptx::short_function_name(function),
                     module.left_out.empty() ? "" : "; not linked was: ", module.left_out, ptx::name_in_ptx(function));
}

void translate_call(Translation& t) {
  t.modifiers.take("uni");
  // call (results), function, (arguments), prototype; results, arguments and prototype may be absent.
  size_t next = 0;
  const ptx::Operand* results = nullptr;
  if (t.operand(0).kind == ptx::OperandKind::arguments) results = &t.operand(next++);
  const ptx::Operand& callee = t.operand(next++);
  const ptx::Operand* arguments = nullptr;
  if (next < t.operand_count() && t.operand(next).kind == ptx::OperandKind::arguments) arguments = &t.operand(next++);

  auto detail = std::make_unique<CallDetail>();
  if (results != nullptr) {
    for (const ptx::Operand& operand : results->list) detail->results.push_back(area_of(t, operand));
  }
  if (arguments != nullptr) {
    for (const ptx::Operand& operand : arguments->list) detail->arguments.push_back(area_of(t, operand));
  }
  CallDetail* kept = detail.get();
  KernelTranslator& kernel = t.function().kernel_translator();

  if (callee.kind == ptx::OperandKind::symbol && callee.symbol_kind == ptx::SymbolKind::function) {
    const ptx::Function& function = kernel.module().functions.at(callee.symbol);
    if (function.is_entry) t.illegal(fmt::format("`{}` is a kernel; a .func may be called", callee.name));
    require_operands(t, results, arguments, {function.returns, function.parameters},
                     ptx::short_function_name(function.name));
    if (function.is_declaration) {
      const Builtin* const builtin = find_builtin(function.name);
      if (builtin == nullptr) t.unsupported(explain_undefined(kernel.module(), function.name));
      detail->builtin = builtin->execute;
      if (builtin->reach == Reach::other_clusters) kernel.kernel().clusters_interact = true;
      t.keep(std::move(detail));
      t.emit(call_builtin).detail = kept;
      return;
    }
    kernel.at_end([kept, &kernel, index = callee.symbol] { kept->target = describe_target(kernel, index); });
    t.keep(std::move(detail));
    t.emit(call_direct).detail = kept;
    return;
  }
  const RegisterOffset address = t.source(callee, ptx::Type::b64);
  const ptx::Operand* prototype = next < t.operand_count() ? &t.operand(next) : nullptr;
  const Signature signature = signature_of(t, prototype);
  require_operands(t, results, arguments, signature, prototype->name);
  kernel.at_end([kept, &kernel, signature] {
    for (const uint32_t index : kernel.address_taken()) {
      const ptx::Function& function = kernel.module().functions[index];
      if (function.is_declaration) continue;
      CallTarget& target = kept->targets[kFunctionWindow + 16 * uint64_t{index}] = describe_target(kernel, index);
      target.mismatch = mismatch_of({function.returns, function.parameters}, signature);
    }
  });
  t.keep(std::move(detail));
  Op& op = t.emit(call_indirect);
  op.a = address;
  op.detail = kept;
}

}  // namespace stagecraft::emulator::machine
