#include "emulator/state/tensor_units.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

std::string TensorUnits::name_in_pair(const TensorUnit& unit) {
  const Block& block = *unit.block;
  return fmt::format("that is of block ({},{},{}), the {} one of its pair: with cta_group::2 it must hold in both",
                     block.index.x, block.index.y, block.index.z, block.rank % 2 == 0 ? "even" : "odd");
}

std::optional<TensorMemory::Allocation> TensorUnits::allocate(uint32_t columns) const {
  check_each([&](const TensorUnit& unit) { unit.memory->check_request(*unit.block, columns); });
  TensorMemory::Allocation range{0, columns};
  for (; range.column + columns <= kTensorColumns; range.column += TensorMemory::kUnitColumns) {
    if (!std::all_of(begin(), end(), [&](const TensorUnit& unit) { return unit.memory->is_free(range); })) continue;
    for (const TensorUnit& unit : *this) unit.memory->take(*unit.block, range);
    return range;
  }
  return std::nullopt;
}

Block* peer_of(const Block& block) {
  const uint32_t rank = block.rank ^ 1;
  return rank < block.cluster->blocks.size() ? block.cluster->blocks[rank].get() : nullptr;
}

Block& require_peer(const Block& block, const char* what) {
  Block* const peer = peer_of(block);
  if (peer != nullptr) return *peer;
  const size_t blocks = block.cluster->blocks.size();
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("{} with cta_group::2: the block, of rank {} in a cluster of {}, has no peer", what,
                          block.rank, blocks),
              {"a pair is two blocks of a cluster whose ranks differ in the last bit only",
               "legal: clusters of an even number of blocks, as __cluster_dims__ or the launch attribute "
               "cudaLaunchAttributeClusterDimension make them"});
}

TensorUnits tensor_units_of(const Fragment& fragment, bool pair, const char* what) {
  const Block& block = fragment.block();
  TensorMemory& memory = *block.sm->tensor_memory;
  if (!pair) return {block, memory};
  const Block& peer = require_peer(block, what);
  if (peer.exited) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{} with cta_group::2: the peer, block ({},{},{}), has exited", what, peer.index.x,
                            peer.index.y, peer.index.z),
                {"its shared memory and its tensor memory take part: it must stay until it has observed the last "
                 "commit, which .multicast::cluster tells both blocks of"});
  }
  const TensorUnit own{&block, &memory}, other{&peer, peer.sm->tensor_memory.get()};
  return block.rank % 2 == 0 ? TensorUnits(own, other) : TensorUnits(other, own);
}

}  // namespace stagecraft::emulator::machine
