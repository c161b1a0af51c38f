// wgmma.mma_async, fence, commit_group and wait_group: how warps issue operations and wait for them.
#include "emulator/engines/tensor_core/wgmma/wgmma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/engines/lane_operand.hpp"
#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/register_fragments.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/waiting.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

constexpr uint32_t kRegistersOfA = 4;

struct WgmmaDetail : OpDetail {
  WarpgroupShape shape;
  std::vector<RegisterOffset> d;
  std::array<RegisterOffset, kRegistersOfA> a_registers{};
  LaneOperand a, b;  ///< descriptors
  Translation::Predicate accumulate{kNoRegister, 0};
};

/// Returns the lanes that execute an instruction of the whole warp; 0 when the fragment sleeps.
LaneMask gather_issuing_warp(Fragment& fragment, LaneMask mask, const char* what) {
  mask = converge_warp(fragment, mask);
  if (mask == 0 || mask == kAllLanes) return mask;
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("{} is executed by {} of 32 threads of a warp", what, std::popcount(mask)),
              {"all threads of the four warps of a warpgroup must execute it"});
}

uint32_t first_warp_of(const Fragment& fragment) { return fragment.warp->index / kWarpgroupWarps * kWarpgroupWarps; }

/// Returns the fragment's warpgroup; null when it has never issued anything.
Warpgroup* find_warpgroup(const Fragment& fragment) {
  const auto& all = fragment.block().warpgroups;
  const uint32_t index = fragment.warp->index / kWarpgroupWarps;
  return index < all.size() ? all[index].get() : nullptr;
}

Warpgroup& warpgroup_of(const Fragment& fragment) {
  Block& block = fragment.block();
  if (Warpgroup* const found = find_warpgroup(fragment)) return *found;
  if (first_warp_of(fragment) + kWarpgroupWarps > block.warps.size()) {
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("wgmma.mma_async in warp {} of a block of {} warps", fragment.warp->index, block.warps.size()),
        {"a warpgroup is four warps, the first with a number that is a multiple of 4: launch a multiple of 128 "
         "threads"});
  }
  block.warpgroups.resize((block.warps.size() + kWarpgroupWarps - 1) / kWarpgroupWarps);
  auto& place = block.warpgroups[fragment.warp->index / kWarpgroupWarps];
  place = std::make_shared<Warpgroup>();
  return *place;
}

// Whether the next operation adds to the accumulator of this one.
bool goes_on(const WarpgroupMma& operation, const WarpgroupMma& next) {
  if (next.arrived != kWarpgroupWarps || next.shape.d != operation.shape.d || next.shape.n != operation.shape.n) {
    return false;
  }
  for (uint32_t warp = 0; warp < kWarpgroupWarps; ++warp) {
    if (next.d[warp] != operation.d[warp] && *next.d[warp] != *operation.d[warp]) return false;
  }
  return true;
}

void complete_oldest(Block& block, uint32_t first_warp) {
  if (block.exited) return;
  Warpgroup& group = *block.warpgroups[first_warp / kWarpgroupWarps];
  const WarpgroupMma operation = std::move(group.queue.front());
  group.queue.pop_front();
  ++group.executed;
  group.accumulator.execute(operation, block, first_warp);
  if (group.queue.empty() || !goes_on(operation, group.queue.front())) {
    group.accumulator.write_back(operation, block, first_warp);
  }
  for (Fragment* fragment : std::exchange(group.waiting, {})) wake(*fragment);
}

// Describes the operation of the first warp that issues it; the other warps must have the same.
WarpgroupMma describe(const Fragment& fragment, const WgmmaDetail& detail) {
  WarpgroupMma operation;
  operation.shape = detail.shape;
  if (!detail.shape.a_in_registers) {
    operation.a_bits = detail.a.at(fragment, 0);
    operation.a = decode_warpgroup_descriptor(operation.a_bits, "wgmma.mma_async, descriptor of A");
  }
  operation.b_bits = detail.b.at(fragment, 0);
  operation.b = decode_warpgroup_descriptor(operation.b_bits, "wgmma.mma_async, descriptor of B");
  const LaneMask enabled = *lanes_at<LaneMask>(fragment.registers, detail.accumulate.offset);
  operation.accumulate = ((enabled ^ detail.accumulate.flip) & 1) != 0;
  check(operation, fragment.block());
  return operation;
}

void compare(const WarpgroupMma& first, const WarpgroupMma& other, const Fragment& fragment) {
  std::string difference;
  if (other.shape != first.shape) {
    difference = "another instruction";
  } else if (other.a_bits != first.a_bits) {
    difference = fmt::format("descriptor 0x{:016x} of A, not 0x{:016x}", other.a_bits, first.a_bits);
  } else if (other.b_bits != first.b_bits) {
    difference = fmt::format("descriptor 0x{:016x} of B, not 0x{:016x}", other.b_bits, first.b_bits);
  } else if (other.accumulate != first.accumulate) {
    difference = "another scale-d";
  } else {
    return;
  }
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("wgmma.mma_async: warp {} has {} than the other warps of its warpgroup", fragment.warp->index,
                          difference),
              {"the four warps of a warpgroup must execute the same wgmma.mma_async with the same descriptors"});
}

Outcome multiply_asynchronously(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_issuing_warp(fragment, mask, "wgmma.mma_async") == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const WgmmaDetail*>(op.detail);
  note_effect(fragment);
  Warpgroup& group = warpgroup_of(fragment);
  const uint32_t first_warp = first_warp_of(fragment), warp = fragment.warp->index - first_warp;
  const uint64_t number = group.issued[warp] - group.executed;
  WarpgroupMma described = describe(fragment, detail);
  if (number == group.queue.size()) {
    group.queue.push_back(std::move(described));
    if (detail.shape.a_in_registers) group.queue.back().cells.resize(8 * kPanelLanes);
  } else {
    compare(group.queue[number], described, fragment);
  }
  WarpgroupMma& operation = group.queue[number];
  ++group.issued[warp];
  operation.d[warp] = &detail.d;
  if (detail.shape.a_in_registers) {
    for (uint32_t i = 0; i < kRegistersOfA; ++i) {
      const FragmentPlace place = place_in_a(16, 0, i);
      panel_kernels().transpose(lanes_at<uint32_t>(fragment.registers, detail.a_registers[i]), 4, 8, 4,
                                operation.cells.data() + place.column * kPanelLanes + 16 * warp + place.row,
                                kPanelLanes);
    }
  }
  if (observes_memory(fragment)) announce_warpgroup_issue({&fragment, group.issued[warp]});
  if (++operation.arrived < kWarpgroupWarps) return Outcome::next;

  Cluster& cluster = fragment.cluster();
  Block& block = fragment.block();
  const Latencies& latencies = *fragment.grid().latencies;
  const Cycle now = std::max(cluster.now, fragment.warp->clock);  // `schedule` counts from here
  // As for tcgen05.mma, the 32 bytes along K count as 16 elements of 16 bits.
  const Cycle begin = std::max<uint64_t>(now, group.busy_until);
  group.busy_until = begin + uint64_t{kWarpgroupRows} * detail.shape.n * 16 / latencies.mma_macs_per_cycle;
  const Cycle completion = group.busy_until + latencies.mma_setup;
  if (observes_memory(fragment)) {
    OperationFootprint touched = footprint_of(operation, block);
    announce_operation({.fragment = &fragment,
                        .lane = 0,
                        .what = "wgmma.mma_async",
                        .completion = AsyncCompletion::warpgroup,
                        .reads = std::move(touched.reads),
                        .matrices = std::move(touched.matrices),
                        .accumulates = operation.accumulate,
                        .begin = begin,
                        .end = completion,
                        .product = {.m = kWarpgroupRows,
                                    .n = detail.shape.n,
                                    .k = detail.shape.k,
                                    .a_in_shared = !detail.shape.a_in_registers,
                                    .registers = static_cast<uint32_t>(detail.d.front())}});
  }
  cluster.schedule(
      completion - now, [&block, first_warp] { complete_oldest(block, first_warp); }, &group);
  return Outcome::next;
}

// Executes wgmma.fence. The emulator executes the accesses of a warp in program order, so there is nothing to wait for.
Outcome fence(Fragment& fragment, const Op&, LaneMask mask) {
  if (gather_issuing_warp(fragment, mask, "wgmma.fence") == 0) return Outcome::blocked;
  if (observes_memory(fragment)) announce_warpgroup_fence(fragment);
  return Outcome::next;
}

Outcome commit_group(Fragment& fragment, const Op&, LaneMask mask) {
  if (gather_issuing_warp(fragment, mask, "wgmma.commit_group") == 0) return Outcome::blocked;
  // A warp that never multiplied has only empty groups, which are complete and need not be kept.
  if (Warpgroup* const group = find_warpgroup(fragment)) {
    const uint32_t warp = fragment.warp->index % kWarpgroupWarps;
    group->groups[warp].push_back(group->issued[warp]);
  }
  return Outcome::next;
}

/// Waits for groups. The immediate is how many may stay pending.
Outcome wait_group(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_issuing_warp(fragment, mask, "wgmma.wait_group") == 0) return Outcome::blocked;
  Warpgroup* const group = find_warpgroup(fragment);
  if (group == nullptr) return Outcome::next;
  std::deque<uint64_t>& mine = group->groups[fragment.warp->index % kWarpgroupWarps];
  uint64_t ended = 0;
  while (mine.size() > op.immediate) {
    if (mine.front() > group->executed) {
      group->waiting.push_back(&fragment);
      sleep(fragment, {WaitKind::warpgroup_mma, 0, op.immediate});
      return Outcome::blocked;
    }
    ended = mine.front();
    mine.pop_front();
  }
  if (ended != 0 && observes_memory(fragment)) announce_warpgroup_wait({&fragment, ended});
  return Outcome::next;
}

// ---- Translation ---------------------------------------------------------------------------------------------------

// Takes a shape such as "m64n128k16". Returns N and K.
std::pair<uint32_t, uint32_t> take_wgmma_shape(Translation& t) {
  for (const std::string& modifier : t.instruction.modifiers) {
    if (!modifier.starts_with("m64n")) continue;
    const char* const end = modifier.data() + modifier.size();
    uint32_t n = 0, k = 0;
    const auto after_n = std::from_chars(modifier.data() + 4, end, n);
    if (after_n.ec != std::errc() || after_n.ptr == end || *after_n.ptr != 'k') break;
    const auto after_k = std::from_chars(after_n.ptr + 1, end, k);
    if (after_k.ec != std::errc() || after_k.ptr != end) break;
    t.modifiers.require(modifier);
    return {n, k};
  }
  t.illegal("a shape such as .m64n128k16 is missing");
}

std::optional<ElementFormat> format_of(std::string_view type) {
  if (type == "f16") return ElementFormat::f16;
  if (type == "bf16") return ElementFormat::bf16;
  if (type == "tf32") return ElementFormat::tf32;
  if (type == "e4m3") return ElementFormat::e4m3;
  if (type == "e5m2") return ElementFormat::e5m2;
  if (type == "s8") return ElementFormat::s8;
  if (type == "u8") return ElementFormat::u8;
  return std::nullopt;  // b1
}

bool is_integer(ElementFormat format) { return format == ElementFormat::s8 || format == ElementFormat::u8; }
bool is_float8(ElementFormat format) { return format == ElementFormat::e4m3 || format == ElementFormat::e5m2; }

WarpgroupShape take_types(Translation& t) {
  WarpgroupShape shape;
  const auto [n, k] = take_wgmma_shape(t);
  shape.n = n;
  const std::string_view d = t.modifiers.require_one_of({"f16", "f32", "s32"});
  const auto take_type = [&] {
    return t.modifiers.require_one_of({"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1"});
  };
  const std::string_view a = take_type(), b = take_type();
  shape.d = d == "f16" ? AccumulatorFormat::f16 : d == "f32" ? AccumulatorFormat::f32 : AccumulatorFormat::s32;
  shape.single_bits = a == "b1" && b == "b1";
  bool fits = false;
  bool integer = shape.single_bits;
  if (shape.single_bits) {
    shape.a = shape.b = ElementFormat::u8;  // not decoded; 32 bytes along K
    shape.k = 256;
    fits = d == "s32";
    t.modifiers.require("and");
    t.modifiers.require("popc");
  } else if (a != "b1" && b != "b1") {
    shape.a = *format_of(a);
    shape.b = *format_of(b);
    integer = is_integer(shape.a);
    const bool alike = shape.a == shape.b || (is_float8(shape.a) && is_float8(shape.b)) ||
                       (is_integer(shape.a) && is_integer(shape.b));
    const bool may_be_f16 = shape.a == ElementFormat::f16 || is_float8(shape.a);
    fits = alike && (integer ? d == "s32" : d == "f32" || (d == "f16" && may_be_f16));
    shape.k = 256 / bits_of(shape.a);
    if (integer) shape.saturate = t.modifiers.take("satfinite");
  }
  if (!fits) t.illegal(fmt::format("no wgmma multiplies .{} by .{} into .{}", a, b, d));
  if (k != shape.k) t.illegal(fmt::format("K is {}; for .{} it is {}", k, a, shape.k));
  const bool legal_n = n >= 8 && n <= 256 && n % 8 == 0 && (!integer || n <= 24 || n % 16 == 0);
  if (!legal_n) {
    t.illegal(fmt::format("N is {}; legal: {}", n,
                          integer ? "8, 16, 24, 32, and from 48 to 256 in steps of 16" : "8 to 256 in steps of 8"));
  }
  return shape;
}

// Takes an immediate that is 1 or -1. Returns whether it is -1.
bool takes_negative(Translation& t, size_t index, const char* what) {
  const int64_t value = t.integer(t.operand(index), what);
  if (value != 1 && value != -1) t.illegal(fmt::format("{} is {}; legal: 1, -1", what, value));
  return value == -1;
}

bool takes_bit(Translation& t, size_t index, const char* what) {
  const int64_t value = t.integer(t.operand(index), what);
  if (value != 0 && value != 1) t.illegal(fmt::format("{} is {}; legal: 0, 1", what, value));
  return value == 1;
}

void translate_multiply(Translation& t) {
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  auto detail = std::make_unique<WgmmaDetail>();
  if (t.modifiers.has("sp")) t.unsupported("wgmma.mma_async.sp (sparse A) is not implemented; the dense form is");
  WarpgroupShape& shape = detail->shape;
  shape = take_types(t);

  // d, a-descriptor or a-registers, b-descriptor, scale-d {, scale-a, scale-b {, transpose-a} {, transpose-b}}
  const ptx::Operand& d = t.operand(0);
  const uint32_t count = shape.n / (shape.d == AccumulatorFormat::f16 ? 4 : 2);
  if (d.kind != ptx::OperandKind::vector || d.list.size() != count) {
    t.illegal(fmt::format("D has {} registers, and needs {}", d.list.size(), count));
  }
  for (const ptx::Operand& element : d.list) detail->d.push_back(t.destination(element, Type::b32));
  const ptx::Operand& a = t.operand(1);
  shape.a_in_registers = a.kind == ptx::OperandKind::vector;
  if (!shape.a_in_registers) {
    detail->a = lane_operand(t, a, Type::b64);
  } else {
    if (a.list.size() != kRegistersOfA) t.illegal(fmt::format("A has {} registers, and needs 4", a.list.size()));
    for (uint32_t i = 0; i < kRegistersOfA; ++i) detail->a_registers[i] = t.source(a.list[i], Type::b32);
  }
  detail->b = lane_operand(t, t.operand(2), Type::b64);
  detail->accumulate = t.predicate(t.operand(3));
  size_t next = 4;
  if (shape.d != AccumulatorFormat::s32) {
    shape.negate_a = takes_negative(t, next++, "imm-scale-a");
    shape.negate_b = takes_negative(t, next++, "imm-scale-b");
    if (shape.a == ElementFormat::f16 || shape.a == ElementFormat::bf16) {
      if (!shape.a_in_registers) shape.a_mn_major = takes_bit(t, next++, "imm-trans-a");
      shape.b_mn_major = takes_bit(t, next++, "imm-trans-b");
    }
  }
  if (t.operand_count() > next) {
    t.illegal(fmt::format("{} operands are given, {} are legal for these types", t.operand_count(), next));
  }
  t.emit(multiply_asynchronously).detail = t.keep(std::move(detail));
}

void translate_wgmma(Translation& t) {
  if (t.architecture().major != 9) {
    t.not_on_this_chip("wgmma needs an sm_90a",
                       "multiply with mma.sync, whose operands ldmatrix brings into registers (chapter 19)");
  }
  if (t.modifiers.take("mma_async")) return translate_multiply(t);
  if (t.modifiers.has("mma_async.sp")) t.unsupported("wgmma.mma_async.sp (sparse A) is not implemented");
  const std::string_view name = t.modifiers.require_one_of({"fence", "commit_group", "wait_group"});
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  if (name == "fence") {
    t.emit(fence);
  } else if (name == "commit_group") {
    t.emit(commit_group);
  } else {
    const int64_t keep = t.integer(t.operand(0), "the number of groups that may stay pending");
    if (keep < 0 || keep > 0x7fff'ffff) t.illegal(fmt::format("{} groups cannot stay pending", keep));
    t.emit(wait_group).immediate = static_cast<uint64_t>(keep);
  }
}

/// The guard of accumulators: waits until no operation under way has the one at `immediate`.
///
/// PTX forbids such an access, yet nvcc itself moves accumulators from one register to another between two wgmma, and
/// ptxas then waits as this does.
Outcome wait_for_accumulator(Fragment& fragment, const Op& op, LaneMask) {
  Warpgroup* const group = find_warpgroup(fragment);
  if (group == nullptr || group->queue.empty()) return Outcome::next;
  const uint32_t warp = fragment.warp->index % kWarpgroupWarps;
  const auto wanted = static_cast<RegisterOffset>(op.immediate);
  const bool in_flight = std::any_of(group->queue.begin(), group->queue.end(), [&](const WarpgroupMma& operation) {
    const std::vector<RegisterOffset>* const d = operation.d[warp];
    return d != nullptr && std::find(d->begin(), d->end(), wanted) != d->end();
  });
  if (!in_flight) return Outcome::next;
  group->waiting.push_back(&fragment);
  sleep(fragment, {WaitKind::warpgroup_mma, 1, 0});
  return Outcome::blocked;
}

}  // namespace

void add_wgmma(InstructionSet& set) {
  InstructionTraits orders{.reach = Reach::own_cluster, .proxy = Proxy::async};
  orders.ends_polling = true;
  InstructionTraits multiplies = orders;
  multiplies.result_guard = wait_for_accumulator;
  set.add("wgmma", translate_wgmma, orders, InstructionClass::barrier);
  set.add("wgmma.mma_async", translate_wgmma, multiplies, InstructionClass::barrier);
}

}  // namespace stagecraft::emulator::machine
