#include "emulator/checks/proxies/alignment_check.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/proxies/layouts.hpp"
#include "emulator/checks/reporting/report.hpp"
#include "emulator/state/register_writes.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncOperation;
using machine::Diagnostic;
using machine::MatrixRead;
using machine::SharedLayout;
using machine::SharedRange;

namespace {

/// Whether the first range of a matrix was written by copies with the layout of its descriptor. TMA takes
/// the pattern from the bits of the address, wherever in it a tile begins (PTX ISA, "Swizzling modes": the base offset
/// of a copy follows from its destination), as the tensor core does with base offset 0.
bool is_copied_as_read(const ClusterRecord& cluster, const AsyncOperation& operation, const MatrixRead& matrix) {
  const SharedRange& first = operation.reads[matrix.first];
  bool copied = false;
  cluster.memory[first.address >> machine::kSharedRankShift].for_each_write(
      first.address & machine::kSharedOffsetMask, 1, [&](const PastAccess& write, uint32_t) {
        copied = write.is_asynchronous() && cluster.order().operation(write.operation()).layout == matrix.layout;
      });
  return copied;
}

/// What the address of a copy's bytes in shared memory must be a multiple of.
uint32_t alignment_of(machine::Copies copies) {
  switch (copies) {
    case machine::Copies::bulk: return 16;
    case machine::Copies::tiles: return 128;
    default: return 1;
  }
}

/// Whether a mask of bits may be what rounds a number to a multiple of `alignment`: -128, or 127 for what is
/// subtracted.
bool may_round(const ptx::Operand& mask, uint32_t alignment) {
  if (mask.kind != ptx::OperandKind::integer) return true;
  return mask.bits % alignment == 0 || (mask.bits + 1) % alignment == 0;
}

/// Whether an instruction, of an address or an index, rounds to a multiple of `alignment`, as far as is known.
bool rounds(const machine::InstructionTraits& traits, const ptx::Instruction& instruction, uint32_t alignment) {
  if (traits.computes == machine::Computation::conjunction) return may_round(instruction.operands.back(), alignment);
  return traits.computes == machine::Computation::other && traits.memory != machine::MemoryUse::loads;
}

/// The variable in static shared memory from whose address an operand comes by arithmetic in which nothing rounds to a
/// multiple of `alignment`; null where that is not so, or not clear.
const ptx::Variable* declared_variable(const machine::Kernel& kernel, const ptx::Function& function,
                                       const ptx::Operand& start, uint32_t alignment) {
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(&function);
  const ptx::Variable* found = nullptr;
  std::set<ptx::RegisterId> seen;
  std::vector<const ptx::Operand*> open{&start};
  while (!open.empty()) {
    const ptx::Operand& operand = *open.back();
    open.pop_back();
    for (const ptx::Operand& inner : operand.list) open.push_back(&inner);
    if (operand.kind == ptx::OperandKind::symbol) {
      const bool is_local = operand.symbol_kind == ptx::SymbolKind::local_variable;
      if (!is_local && operand.symbol_kind != ptx::SymbolKind::module_variable) continue;
      const ptx::Variable& named = (is_local ? function.variables : kernel.module->variables)[operand.symbol];
      if (named.space != ptx::Space::shared) continue;
      if (found != nullptr && found != &named) return nullptr;  // one of several
      found = &named;
    }
    if (operand.kind != ptx::OperandKind::reg || !seen.insert(operand.reg).second) continue;
    bool is_rounded = false;
    machine::for_each_write(function, operand.reg, [&](uint32_t i) {
      is_rounded = is_rounded || rounds(traits[i], function.body[i], alignment);
      if (traits[i].memory == machine::MemoryUse::loads) return;  // an index, or a pointer, which names no variable
      const std::vector<ptx::Operand>& operands = function.body[i].operands;
      for (size_t source = 1; source < operands.size(); ++source) open.push_back(&operands[source]);
    });
    if (is_rounded) return nullptr;
  }
  return found != nullptr && found->size != 0 ? found : nullptr;
}

}  // namespace

void AlignmentCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const AsyncOperation& operation = issued.event;
  if (operation.generic_proxy) return;  // threads write and read the bytes in the same way
  check_declaration(cluster, operation);
  for (const MatrixRead& matrix : operation.matrices) {
    const uint32_t period = period_of(matrix.layout);
    if (period == 0 || matrix.base_offset != 0) continue;
    // In the start of a tile that begins where the pattern does, the bits between a line of 128 bytes and the period
    // are zero, wherever in the tile's first line an instruction begins.
    const uint32_t beyond = matrix.start % period / 128 * 128;
    if (beyond == 0 || is_copied_as_read(cluster, operation, matrix)) continue;
    report_misaligned(cluster, operation, matrix, period, beyond);
  }
}

void AlignmentCheck::check_declaration(const ClusterRecord& cluster, const AsyncOperation& copy) {
  const std::vector<SharedRange>& ranges = copy.writes.empty() ? copy.reads : copy.writes;
  const machine::Kernel& kernel = cluster.kernel();
  const uint32_t pc = copy.fragment->pc, alignment = alignment_of(kernel.traits_at(pc).copies);
  if (alignment == 1 || ranges.empty() || !judged_.insert(pc).second) return;
  const ptx::Function& function = *kernel.places[pc].function;
  const std::vector<ptx::Operand>& operands = function.body[kernel.places[pc].instruction].operands;
  const size_t in_shared = copy.writes.empty() ? 1 : 0;  // after the map or the address that it stores to
  if (operands.size() <= in_shared) return;
  // Dynamic shared memory has no size: where it begins, the launch decides, and PTX seldom declares what it needs.
  const ptx::Variable* variable = declared_variable(kernel, function, operands[in_shared], alignment);
  if (variable == nullptr || variable->alignment >= alignment) return;
  const auto identity = findings_.claim("declared alignment", pc, pc);
  if (!identity) return;
  const std::string start = kernel.name_of_shared_byte(ranges[0].address & machine::kSharedOffsetMask);
  Diagnostic finding;
  finding.kind = "misaligned address";
  finding.subject = variable_of(start);
  finding.place = place_of(cluster, copy);
  finding.message = fmt::format(
      "{} {} {}, which must be at a multiple of {}, and the variable is declared for "
      "multiples of {}",
      copy.what, copy.writes.empty() ? "reads" : "writes", start, alignment, variable->alignment);
  finding.details.push_back(
      "here it is at such a multiple only because of the variables beside it, which the next compiler or the next edit "
      "may place otherwise");
  finding.likely_cause = fmt::format("declare {} with alignas({})", finding.subject, alignment);
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void AlignmentCheck::report_misaligned(const ClusterRecord& cluster, const AsyncOperation& operation,
                                       const MatrixRead& matrix, uint32_t period, uint32_t beyond) {
  const auto identity = findings_.claim(matrix.name, operation.fragment->pc, operation.fragment->pc);
  if (!identity) return;
  const machine::Kernel& kernel = cluster.kernel();
  Diagnostic finding;
  finding.kind = "misaligned tile";
  finding.place = place_of(cluster, operation);
  finding.message =
      fmt::format("the {} issued here reads {} from {}, shared address 0x{:x}, with {}", operation.what, matrix.name,
                  kernel.name_of_shared_byte(matrix.start), matrix.start, spell(matrix.layout));
  finding.details.push_back(fmt::format(
      "the pattern of this swizzle repeats every {} bytes, and the tile begins {} bytes after such a point: with base "
      "offset 0 (bits 51:49 of the descriptor) a tile must begin where the pattern does",
      period, beyond));
  finding.likely_cause = fmt::format(
      "the tile is not aligned: declare it alignas({}), and where it is in dynamic shared memory, align the start "
      "of that too",
      period);
  finding.tolerated =
      "a mainloop of CUTLASS for sm_100 has its tile of B so; the result is right here if the threads took the pattern "
      "from the bits of the address";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
