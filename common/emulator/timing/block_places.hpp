// Which multiprocessors the blocks of a cluster go to.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/timing/chip_model.hpp"
#include "emulator/timing/replay_state.hpp"

namespace stagecraft::emulator::timing {

/// Gives clusters their places, as an H200 was seen to (tests/silicon/results, placement): each goes where the fewest
/// blocks are, and among equals
/// * a block without a cluster goes to the next multiprocessor of the group (GPC) that is being filled;
/// * two blocks go to the next pair (TPC), and pairs are of all groups in turn;
/// * more blocks go to pairs of one group, and groups take clusters in turn.
/// The pairs that are outside of all larger clusters come first. A cluster that no group has room for goes to several,
/// where a chip would let it wait: the emulated GPU, which has no groups, ran it together with the others.
class BlockPlaces {
 public:
  /// @param fitting_blocks  at most on a multiprocessor
  BlockPlaces(const ChipModel& chip, std::vector<Multiprocessor>& places, uint32_t fitting_blocks);

  /// The places of a cluster of so many blocks, by rank; none when there is no room. They have a block more.
  std::vector<Multiprocessor*> take(uint32_t blocks);

 private:
  bool has_room(uint32_t multiprocessor) const { return places_[multiprocessor].blocks < fitting_blocks_; }
  uint32_t blocks_of_pair(uint32_t pair) const;
  std::vector<Multiprocessor*> take_in_group(uint32_t blocks);
  /// So many multiprocessors of these pairs with the fewest blocks; none when there is no room.
  std::vector<uint32_t> emptiest(const std::vector<uint32_t>& pairs, uint32_t blocks) const;
  uint32_t most_blocks(const std::vector<uint32_t>& multiprocessors) const;

  const ChipModel& chip_;
  std::vector<Multiprocessor>& places_;
  uint32_t fitting_blocks_;
  std::vector<uint32_t> group_by_group_;  ///< multiprocessors
  std::vector<uint32_t> pairs_in_turn_;
  std::vector<std::vector<uint32_t>> in_clusters_;  ///< by group: its pairs that take clusters of more than two
  size_t next_group_ = 0;                           ///< for a cluster of more than two blocks
};

}  // namespace stagecraft::emulator::timing
