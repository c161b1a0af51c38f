#include "emulator/engines/lane_operand.hpp"

#include <fmt/format.h>

namespace stagecraft::emulator::machine {

std::string spell_shared(uint32_t address) {
  const uint32_t rank = address >> kSharedRankShift, offset = address & kSharedOffsetMask;
  if (rank == 0) return fmt::format("0x{:x}", offset);
  return fmt::format("0x{:x} (offset 0x{:x} of the block of rank {})", address, offset, rank);
}

uint32_t SharedOperand::at(const Fragment& fragment, uint32_t lane, const char* what) const {
  const uint64_t address = value.at(fragment, lane);
  // An object that can only be in shared memory is found by the lower 32 bits, which are the same in a generic and in a
  // shared address: measured on an H200 for mbarriers, and read from the machine code for sm_100a. ThunderKittens
  // passes generic addresses to .shared forms, and shared ones to generic forms, which PTX leaves undefined.
  if (scope == SharedScope::generic && address >> 32 != 0) {
    const Located located = locate(address);
    if (located.where != Located::Where::shared) {
      throw Fault(FaultKind::invalid_address_space,
                  fmt::format("{}: the generic address 0x{:x} is not in shared memory", what, address),
                  {"without a state space the address is generic; convert a 32-bit shared address with cvta.shared, or "
                   "name the space in the instruction"},
                  1u << lane);
    }
  }
  return static_cast<uint32_t>(address);
}

LaneOperand lane_address(Translation& t, const ptx::Operand& operand) {
  ptx::Operand plain = operand;
  if (plain.kind == ptx::OperandKind::address && plain.list.size() > 1) plain.list.resize(1);  // the coordinates
  bool wide = false;
  const RegisterOffset offset = t.address_vector(plain, wide);
  return {offset, static_cast<uint8_t>(wide ? 8 : 4)};
}

SharedOperand shared_operand(Translation& t, const ptx::Operand& operand, SharedScope scope) {
  return {lane_address(t, operand), scope};
}

Fault fault_of_exited(const Cluster& cluster, const Block& block, uint32_t address, const char* what) {
  Fault fault(FaultKind::illegal_address,
              fmt::format("{}: the block of rank {}, whose shared memory {} is, has exited", what, block.rank,
                          spell_shared(address)),
              {"a block must stay until nobody can touch its shared memory any more: end the kernel with a cluster "
               "barrier, or wait for what is under way"});
  if (cluster.running == nullptr && cluster.origin.block == &block) {
    fault.likely_cause =
        "the block issued this itself, and none of its threads waited for the end: is a wait missing, or does the "
        "side that should wait take fewer rounds?";
  }
  return fault;
}

Block& block_with(Cluster& cluster, uint32_t address, uint64_t bytes, uint32_t alignment, const char* what) {
  Block* block = cluster.block_of(address);
  if (block == nullptr) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: {} names no block of the cluster", what, spell_shared(address)),
                {fmt::format("the cluster has {} block(s), of ranks 0 to {}; bits 31 to 24 of a shared address are the "
                             "rank",
                             cluster.blocks.size(), cluster.blocks.empty() ? 0 : cluster.blocks.size() - 1)});
  }
  if (block->exited) throw fault_of_exited(cluster, *block, address, what);
  const uint32_t offset = address & kSharedOffsetMask;
  if (offset < kSharedReservedBytes || bytes > block->shared.size() || offset > block->shared.size() - bytes) {
    std::vector<std::string> details{fmt::format(
        "the block's shared memory is 0x{:x} up to, not including, 0x{:x} ({} bytes)", kSharedReservedBytes,
        block->shared.size(), block->shared.size() - std::min<size_t>(block->shared.size(), kSharedReservedBytes))};
    if (offset < kSharedReservedBytes) details.push_back("is the pointer null or not yet set?");
    const Kernel& kernel = *cluster.grid->kernel;
    if (kernel.declares_dynamic_shared() && offset >= kSharedReservedBytes && cluster.grid->request != nullptr) {
      details.push_back(
          fmt::format("the launch asked for {} bytes of dynamic shared memory: do all stages fit, and is the address "
                      "one of theirs?",
                      cluster.grid->request->dynamic_shared_bytes));
    } else if (!kernel.declares_dynamic_shared()) {
      const std::string gap = kernel.describe_gap(offset);
      details.push_back(gap.empty() ? fmt::format("it begins at {}", kernel.name_of_shared_byte(offset))
                                    : "that is " + gap);
    }
    throw Fault(
        FaultKind::illegal_address,
        fmt::format("{}: {} byte(s) at {} are not in the block's shared memory", what, bytes, spell_shared(address)),
        std::move(details));
  }
  if (address % alignment != 0) {
    throw Fault(FaultKind::misaligned_address,
                fmt::format("{}: {} is not a multiple of {}", what, spell_shared(address), alignment),
                {fmt::format("declare the memory with alignas({}), and check the offset added to it", alignment)});
  }
  return *block;
}

Block& block_in_scope(Block& block, uint32_t address, uint64_t bytes, uint32_t alignment, SharedScope scope,
                      const char* what) {
  const uint32_t rank = address >> kSharedRankShift;
  if (scope != SharedScope::cluster && rank != block.rank) {
    throw Fault(FaultKind::invalid_address_space,
                fmt::format("{}: {} is not in the executing block's shared memory (rank {})", what,
                            spell_shared(address), block.rank),
                {".shared::cta, and a generic address here, mean the executing block's own shared memory; for an "
                 "address from mapa the instruction needs .shared::cluster, where it has that form"});
  }
  return block_with(*block.cluster, address, bytes, alignment, what);
}

}  // namespace stagecraft::emulator::machine
