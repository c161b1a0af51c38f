#include "emulator/timing/block_places.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::timing {

BlockPlaces::BlockPlaces(const ChipModel& chip, std::vector<Multiprocessor>& places, uint32_t fitting_blocks)
    : chip_(chip), places_(places), fitting_blocks_(fitting_blocks) {
  const auto add = [&](uint32_t pair) { group_by_group_.insert(group_by_group_.end(), {2 * pair, 2 * pair + 1}); };
  for (const uint32_t pair : chip.lone_pairs) add(pair);
  for (const MultiprocessorGroup& group : chip.groups) {
    in_clusters_.emplace_back();
    for (const uint32_t pair : group.pairs) {
      if (chip.is_lone(pair)) continue;
      add(pair);
      in_clusters_.back().push_back(pair);
    }
  }

  pairs_in_turn_ = chip.lone_pairs;
  for (uint32_t pair = 0; pair < chip.multiprocessors / 2; ++pair)
    if (!chip.is_lone(pair)) pairs_in_turn_.push_back(pair);
}

uint32_t BlockPlaces::blocks_of_pair(uint32_t pair) const {
  return std::max(places_[2 * pair].blocks, places_[2 * pair + 1].blocks);
}

std::vector<Multiprocessor*> BlockPlaces::take(uint32_t blocks) {
  std::vector<Multiprocessor*> chosen;
  if (blocks == 1) {
    const auto best = std::min_element(group_by_group_.begin(), group_by_group_.end(),
                                       [&](uint32_t a, uint32_t b) { return places_[a].blocks < places_[b].blocks; });
    if (has_room(*best)) chosen = {&places_[*best]};
  } else if (blocks == 2) {
    const auto best = std::min_element(pairs_in_turn_.begin(), pairs_in_turn_.end(),
                                       [&](uint32_t a, uint32_t b) { return blocks_of_pair(a) < blocks_of_pair(b); });
    if (blocks_of_pair(*best) < fitting_blocks_) chosen = {&places_[2 * *best], &places_[2 * *best + 1]};
  } else {
    chosen = take_in_group(blocks);
  }
  for (Multiprocessor* place : chosen) ++place->blocks;
  return chosen;
}

std::vector<Multiprocessor*> BlockPlaces::take_in_group(uint32_t blocks) {
  std::vector<uint32_t> chosen;
  size_t group_taken = 0;
  for (size_t i = 0; i < chip_.groups.size(); ++i) {
    const size_t group = (next_group_ + i) % chip_.groups.size();
    std::vector<uint32_t> free = emptiest(in_clusters_[group], blocks);
    if (free.empty() || (!chosen.empty() && most_blocks(free) >= most_blocks(chosen))) continue;
    chosen = std::move(free);
    group_taken = group;
  }
  if (!chosen.empty()) {
    next_group_ = group_taken + 1;
  } else {
    chosen = emptiest(pairs_in_turn_, blocks);
  }
  std::vector<Multiprocessor*> taken;
  for (const uint32_t each : chosen) taken.push_back(&places_[each]);
  return taken;
}

std::vector<uint32_t> BlockPlaces::emptiest(const std::vector<uint32_t>& pairs, uint32_t blocks) const {
  std::vector<uint32_t> candidates;
  for (const uint32_t pair : pairs) candidates.insert(candidates.end(), {2 * pair, 2 * pair + 1});
  if (candidates.size() < blocks) return {};
  // Pairs stay together: both have as many blocks, except where the number of blocks is odd.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](uint32_t a, uint32_t b) { return blocks_of_pair(a / 2) < blocks_of_pair(b / 2); });
  candidates.resize(blocks);
  if (most_blocks(candidates) >= fitting_blocks_) return {};
  return candidates;
}

uint32_t BlockPlaces::most_blocks(const std::vector<uint32_t>& multiprocessors) const {
  uint32_t most = 0;
  for (const uint32_t each : multiprocessors) most = std::max(most, places_[each].blocks);
  return most;
}

}  // namespace stagecraft::emulator::timing
