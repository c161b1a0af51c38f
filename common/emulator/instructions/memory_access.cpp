// ld and st: from PTX to AccessDetail.
#include "emulator/instructions/memory_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/host/isa_level.hpp"
#include "emulator/instructions/families.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Space;
using ptx::Type;

const AccessHandlers& handlers() {
  static const AccessHandlers chosen = STAGECRAFT_CALL_ISA(access_handlers);
  return chosen;
}

bool is_signed(Type type) { return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64; }

uint32_t take_vector(ptx::Modifiers& modifiers) {
  if (modifiers.take("v2")) return 2;
  if (modifiers.take("v4")) return 4;
  if (modifiers.take("v8")) return 8;
  return 1;
}

/// The operands of a vector access, or the one of a scalar access.
std::vector<const ptx::Operand*> elements_of(Translation& t, const ptx::Operand& operand, uint32_t count) {
  std::vector<const ptx::Operand*> result;
  if (operand.kind == ptx::OperandKind::vector) {
    for (const ptx::Operand& element : operand.list) result.push_back(&element);
  } else {
    result.push_back(&operand);
  }
  if (result.size() != count) {
    t.illegal(fmt::format("the operand has {} element{}, the instruction moves {}", result.size(),
                          result.size() == 1 ? "" : "s", count));
  }
  return result;
}

Type take_element_type(Translation& t) {
  return t.modifiers.require_type({Type::b8, Type::b16, Type::b32, Type::b64, Type::b128, Type::u8, Type::u16,
                                   Type::u32, Type::u64, Type::s8, Type::s16, Type::s32, Type::s64, Type::f32,
                                   Type::f64});
}

void check_width(Translation& t, const AccessDetail& access, Space space) {
  if (access.bytes <= 16) return;
  const bool can = access.bytes == 32 && access.element_bytes >= 4 &&
                   (space == Space::global || space == Space::none) && t.architecture().major >= 10;
  if (!can) {
    t.illegal(fmt::format(
        "{} bytes in one access; 16 are possible, and 32 (.v8.b32, .v4.b64) in global memory from sm_100 on",
        access.bytes));
  }
}

/// Whether every element has the same register width, so that one shape describes the access.
bool uniform_registers(const std::vector<uint32_t>& register_bytes) {
  return std::all_of(register_bytes.begin(), register_bytes.end(),
                     [&](uint32_t bytes) { return bytes == register_bytes[0]; });
}

std::unique_ptr<AccessDetail> new_access(Translation& t, AccessVerb verb) {
  auto access = std::make_unique<AccessDetail>();
  access->name = ptx::spelling(t.instruction);
  access->verb = verb;
  return access;
}

void set_size(AccessDetail& access, uint32_t element_bytes, uint32_t count) {
  access.element_bytes = element_bytes;
  access.count = count;
  access.bytes = access.alignment = element_bytes * count;
}

/// Sets the registers and moves of all elements. Returns the common width of their registers, 0 when they differ.
uint32_t set_elements(Translation& t, AccessDetail& access, const ptx::Operand& operand, Type type, bool store) {
  std::vector<uint32_t> register_bytes;
  const auto elements = elements_of(t, operand, access.count);
  for (uint32_t i = 0; i < access.count; ++i) {
    const ptx::Operand& element = *elements[i];
    register_bytes.push_back(register_bytes_of(t, element, type));
    access.registers[i] = store ? t.source(element, type) : t.destination(element, type);
    const AccessShape shape{access.element_bytes, register_bytes[i],
                            is_signed(type) && register_bytes[i] > access.element_bytes, 1};
    access.moves[i] = handlers().move(store, shape);
    if (access.moves[i] == nullptr) {
      t.illegal(fmt::format("a register of {} bytes and a type of {}", register_bytes[i], access.element_bytes));
    }
  }
  return uniform_registers(register_bytes) ? register_bytes[0] : 0;
}

/// Takes the memory order of a load or a store, and refuses what ptxas refuses. Returns whether it is a strong one.
bool take_access_order(Translation& t, bool store, Space space) {
  const auto has = [&](std::string_view modifier) { return t.modifiers.has(modifier); };
  for (const char* order : {store ? "acquire" : "release", "acq_rel", "sc"}) {
    if (has(order)) {
      t.illegal(fmt::format("a {} cannot be .{}; legal are .weak, .volatile, .relaxed and .{}",
                            store ? "store" : "load", order, store ? "release" : "acquire"));
    }
  }
  const bool scoped = has("cta") || has("cluster") || has("gpu") || has("sys");
  const bool ordered = has("relaxed") || has("acquire") || has("release");
  if (has("mmio") && !(ordered && has("sys"))) t.illegal(".mmio needs .relaxed.sys");
  if (ordered && !scoped) t.illegal(".relaxed, .acquire and .release need a scope: .cta, .cluster, .gpu or .sys");
  if (scoped && !ordered) t.illegal("a scope needs a memory order: .relaxed, .acquire or .release");
  if (ordered && space == Space::local) t.illegal("other threads cannot reach .local memory: it has no memory order");
  return take_memory_order(t.modifiers);
}

/// Whether loads, or stores, have the cache operator that is written (PTX ISA, "Cache Operators").
void check_cache_operator(Translation& t, bool store) {
  const bool foreign = store ? t.modifiers.has("ca") || t.modifiers.has("lu") || t.modifiers.has("cv")
                             : t.modifiers.has("wb") || t.modifiers.has("wt");
  if (foreign) {
    t.illegal(store ? "the cache operators of a store are .wb, .cg, .cs and .wt"
                    : "the cache operators of a load are .ca, .cg, .cs, .lu and .cv");
  }
}

void translate_plain(Translation& t, bool store) {
  auto access = new_access(t, store ? AccessVerb::writes : AccessVerb::reads);
  bool cluster_wide = false;
  const Space space = take_space(t.modifiers, cluster_wide);
  const bool strong = take_access_order(t, store, space);
  check_cache_operator(t, store);
  const bool policy = take_cache_modifiers(t.modifiers);
  if (!store && t.modifiers.take("nc") && (strong || space != Space::global)) {
    t.illegal(".nc is for weak loads from .global");
  }
  t.modifiers.take("unified");
  const uint32_t count = take_vector(t.modifiers);
  const Type type = take_element_type(t);
  set_size(*access, size_of(type), count);
  check_width(t, *access, space);

  const ptx::Operand& memory = t.operand(store ? 0 : 1);
  const ptx::Operand& registers = t.operand(store ? 1 : 0);
  if (policy) (void)t.source(2, Type::b64);  // checked, but without effect
  if (store && space == Space::constant) t.illegal("constant memory cannot be written");
  const uint32_t register_bytes = set_elements(t, *access, registers, type, store);
  set_address(t, *access, memory, space, cluster_wide);
  if (store && access->space == AccessSpace::kernel_parameter) t.illegal("the parameters of a kernel are read-only");
  // A strong load is often a poll: other warps must have their turn before it is repeated.
  if (strong && !store) access->outcome = Outcome::yield;
  emit_access(t, std::move(access),
              {size_of(type), register_bytes, !store && is_signed(type) && register_bytes > size_of(type), count});
}

void translate_load(Translation& t) { translate_plain(t, false); }

void translate_store(Translation& t) { translate_plain(t, true); }

void translate_asynchronous_release(Translation& t) {
  take_asynchronous_release(t);
  translate_plain(t, true);
}

InstructionTraits load_traits(const ptx::Instruction& instruction) {
  InstructionTraits traits = access_traits(instruction, AccessOrder::weak, MemoryUse::loads);
  traits.takes_wider_registers = true;
  traits.left_out_unread = traits.order == AccessOrder::weak;
  return traits;
}
InstructionTraits store_traits(const ptx::Instruction& instruction) {
  InstructionTraits traits = access_traits(instruction, AccessOrder::weak, MemoryUse::stores);
  traits.takes_wider_registers = traits.proxy != Proxy::async;
  return traits;
}

bool names_parameters(const ptx::Instruction& instruction) {
  return ptx::has_modifier(instruction, "param") || ptx::has_modifier(instruction, "param::entry") ||
         ptx::has_modifier(instruction, "param::func");
}
InstructionClass class_of_load(const ptx::Instruction& instruction) {
  return names_parameters(instruction) ? InstructionClass::other : InstructionClass::memory;
}
/// A parameter of a call is handed over in a register.
InstructionClass class_of_store(const ptx::Instruction& instruction) {
  return names_parameters(instruction) ? InstructionClass::free : InstructionClass::memory;
}

/// Whether the instruction says that its memory is one that other clusters do not reach.
bool names_near_memory(const ptx::Instruction& instruction) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(), [](const std::string& modifier) {
    return modifier.starts_with("shared") || modifier.starts_with("param") || modifier.starts_with("const") ||
           modifier == "local";
  });
}

AccessOrder order_of(const ptx::Instruction& instruction, AccessOrder plain) {
  const auto has = [&](std::string_view modifier) { return ptx::has_modifier(instruction, modifier); };
  if (has("acquire")) return AccessOrder::acquire;
  if (has("release")) return AccessOrder::release;
  if (has("acq_rel") || has("sc")) return AccessOrder::acquire_release;
  return has("relaxed") || has("volatile") || has("mmio") ? AccessOrder::relaxed : plain;
}

}  // namespace

ptx::Space take_space(ptx::Modifiers& modifiers, bool& cluster_wide) {
  const auto name = modifiers.take_one_of(
      {"global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry", "param::func"});
  cluster_wide = name == "shared::cluster";
  if (!name) return Space::none;
  if (name == "global") return Space::global;
  if (name == "local") return Space::local;
  if (name == "const") return Space::constant;
  if (name->substr(0, 6) == "shared") return Space::shared;
  return Space::param;
}

bool take_memory_order(ptx::Modifiers& modifiers) {
  const bool mmio = modifiers.take("mmio");
  const auto order = modifiers.take_one_of({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc"});
  modifiers.take_one_of({"cta", "cluster", "gpu", "sys"});
  return mmio || (order && *order != "weak");
}

void take_asynchronous_release(Translation& t) {
  if (t.architecture().major < 10) t.unsupported(".release needs sm_100");
  t.modifiers.take("async");
  if (t.modifiers.has("cta") || t.modifiers.has("cluster")) t.illegal("the scope of .release is .gpu or .sys");
  for (const std::string& modifier : t.instruction.modifiers) {
    if (modifier.starts_with("shared") || modifier.starts_with("mbarrier")) {
      t.illegal(fmt::format(".{} with .release, which is for global memory and ends with the block", modifier));
    }
    if (modifier == "v2" || modifier == "v4") t.illegal("vectors are for the form with an mbarrier");
  }
}

MemoryScope scope_of(const ptx::Instruction& instruction, MemoryScope plain) {
  if (ptx::has_modifier(instruction, "cta")) return MemoryScope::block;
  if (ptx::has_modifier(instruction, "cluster")) return MemoryScope::cluster;
  if (ptx::has_modifier(instruction, "gpu") || ptx::has_modifier(instruction, "gl")) return MemoryScope::device;
  return ptx::has_modifier(instruction, "sys") ? MemoryScope::system : plain;
}

InstructionTraits access_traits(const ptx::Instruction& instruction, AccessOrder plain, MemoryUse use) {
  InstructionTraits traits = kOrdinary;
  traits.memory = use;
  traits.ends_polling = true;
  traits.order = order_of(instruction, plain);
  // An atom or red without a scope has .gpu; ld.volatile and st.volatile count as .relaxed.sys (PTX ISA, "atom", "ld").
  traits.scope = scope_of(instruction, plain == AccessOrder::weak ? MemoryScope::system : MemoryScope::device);
  if (traits.order != AccessOrder::weak && !names_near_memory(instruction)) traits.reach = Reach::other_clusters;
  if (ptx::has_modifier(instruction, "async")) traits.proxy = Proxy::async;
  return traits;
}

bool take_cache_modifiers(ptx::Modifiers& modifiers) {
  modifiers.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  modifiers.take_one_of(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  modifiers.take_one_of({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  modifiers.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
  return modifiers.take("L2::cache_hint");
}

uint32_t register_bytes_of(const Translation& t, const ptx::Operand& operand, ptx::Type type) {
  const Type declared = t.register_type(operand);
  return std::max<uint32_t>(2, size_of(declared == Type::none ? type : declared));
}

void set_address(Translation& t, AccessDetail& access, const ptx::Operand& operand, ptx::Space modifier_space,
                 bool cluster_wide) {
  const MemoryOperand memory = t.address(operand);
  access.base = memory.base;
  access.wide = memory.wide;
  access.offset = memory.offset;
  // ptxas takes a shared address of 32 bits for ldmatrix and stmatrix, also where they name no state space.
  const bool far = (modifier_space == Space::none || modifier_space == Space::global) && !t.traits().only_shared;
  if (far && !memory.wide && operand.list[0].kind == ptx::OperandKind::reg) {
    t.illegal(fmt::format(
        "register {} has 32 bits; {} address has 64", operand.list[0].name,
        modifier_space == Space::none ? "without a state space the address is generic: a generic" : "a global"));
  }
  // An instruction without a state space takes the address for a generic one, which that of these variables is not.
  if (modifier_space == Space::none && memory.space != Space::none && memory.space != Space::global &&
      memory.space != Space::constant) {
    t.illegal(fmt::format("the variable is in .{}, which the instruction must say", ptx::name_of(memory.space)));
  }
  switch (modifier_space) {
    case Space::global:
    case Space::constant: access.space = AccessSpace::global; break;
    case Space::shared: access.space = cluster_wide ? AccessSpace::shared_cluster : AccessSpace::shared; break;
    case Space::local: access.space = AccessSpace::local; break;
    case Space::param:
      access.space = AccessSpace::kernel_parameter;
      if (memory.call_area != kNoRegister) {
        access.space = AccessSpace::call_parameter;
        access.call_area = memory.call_area;
        access.call_stride = memory.call_stride;
        if (memory.base != kNoRegister) t.unsupported("a call's parameter with an index that is not constant");
        if (memory.offset < 0 || access.bytes > memory.call_stride ||
            memory.offset > int64_t{memory.call_stride} - access.bytes) {
          t.illegal(fmt::format("{} bytes from byte {} on of a parameter that has {}", access.bytes, memory.offset,
                                memory.call_stride));
        }
      }
      break;
    default: access.space = AccessSpace::generic; break;
  }
  const bool names_space = memory.space != Space::none && modifier_space != Space::none;
  if (names_space && memory.space != modifier_space) {
    t.illegal(fmt::format("the variable is in .{}, the instruction is for .{}", ptx::name_of(memory.space),
                          ptx::name_of(modifier_space)));
  }
}

void choose_locate(AccessDetail& access) {
  access.locate = handlers().locate(access.space, access.base != kNoRegister, access.wide);
}

void emit_access(Translation& t, std::unique_ptr<AccessDetail> access, const AccessShape& shape) {
  choose_locate(*access);
  const bool store = access->verb != AccessVerb::reads;
  const bool wide_space = access->space == AccessSpace::global || access->space == AccessSpace::generic;
  const bool natural_base = access->space == AccessSpace::kernel_parameter
                                ? access->base == kNoRegister
                                : access->base != kNoRegister && access->wide == wide_space;
  Handler full = nullptr, masked = nullptr;
  if (natural_base && access->outcome == Outcome::next) {
    full = handlers().full(access->space, store, shape);
    masked = handlers().masked(access->space, store, shape);
  }
  const Handler any = handlers().any(store);
  Op& op = t.emit(full != nullptr ? full : any, masked != nullptr ? masked : any);
  op.a = access->base;
  op.immediate = static_cast<uint64_t>(access->offset);
  op.detail = t.keep(std::move(access));
}

void emit_lane_access(Translation& t, const AccessDetail& whole, RegisterOffset addresses, RegisterOffset element,
                      uint32_t register_bytes) {
  auto access = std::make_unique<AccessDetail>();
  access->name = whole.name;
  access->verb = whole.verb;
  access->space = whole.space;
  access->base = addresses;
  access->wide = true;
  set_size(*access, whole.element_bytes, 1);
  access->registers[0] = element;
  const AccessShape shape{whole.element_bytes, register_bytes, false, 1};
  access->moves[0] = handlers().move(whole.verb == AccessVerb::writes, shape);
  emit_access(t, std::move(access), shape);
}

void add_memory_accesses(InstructionSet& set) {
  set.add("ld", translate_load, load_traits, class_of_load);
  set.add("ldu", translate_load, load_traits, InstructionClass::memory);
  set.add("st", translate_store, store_traits, class_of_store);
  set.add("st.async.release", translate_asynchronous_release, store_traits, InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
