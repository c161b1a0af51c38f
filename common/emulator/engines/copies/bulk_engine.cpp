#include "emulator/engines/copies/bulk_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/engines/mbarrier/mbarrier.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

std::vector<BulkTarget> targets_of(Fragment& fragment, uint32_t lane, const TargetOperands& operands, uint64_t bytes,
                                   uint32_t alignment, const char* what) {
  Block& block = fragment.block();
  const std::string &data_name = operands.destination_name, &barrier_name = operands.barrier_name;
  const uint32_t data = operands.destination.at(fragment, lane, data_name.c_str());
  const uint32_t barrier = operands.barrier.at(fragment, lane, barrier_name.c_str());
  const uint32_t barrier_rank = barrier >> kSharedRankShift;
  const auto check = [&](const BulkTarget& target) {
    block_with(*block.cluster, target.data, bytes, alignment, data_name.c_str());
    block_with(*block.cluster, target.barrier, 8, 8, barrier_name.c_str());
    return target;
  };

  if (operands.multicast_mask.present()) {
    const auto mask = static_cast<uint32_t>(operands.multicast_mask.at(fragment, lane) & 0xffff);
    const size_t ranks = block.cluster->blocks.size();
    if (mask == 0 || (ranks < 16 && mask >> ranks != 0)) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("{}: the multicast mask 0x{:x} names {}", what, mask,
                              mask == 0 ? "no block" : "blocks that the cluster does not have"),
                  {fmt::format("bit i stands for the block with %cluster_ctarank == i; this cluster has ranks 0 to {}",
                               ranks - 1)});
    }
    std::vector<BulkTarget> targets;
    for_each_lane(mask, [&](uint32_t rank) {
      // The signal goes to the destination block; with .cta_group::2, to the block of its pair whose rank has the
      // parity of the block that the barrier's address names.
      const uint32_t signalled = operands.cta_group == 2 ? (rank & ~1u) | (barrier_rank & 1u) : rank;
      targets.push_back(check({rank << kSharedRankShift | (data & kSharedOffsetMask),
                               signalled << kSharedRankShift | (barrier & kSharedOffsetMask)}));
    });
    return targets;
  }

  if (operands.destination.scope != SharedScope::cluster) {
    block_in_scope(block, data, bytes, alignment, operands.destination.scope, data_name.c_str());
  }
  const uint32_t data_rank = data >> kSharedRankShift;
  const bool together = barrier_rank == data_rank || (operands.cta_group == 2 && (barrier_rank ^ data_rank) == 1);
  if (!together) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{}: the destination {} and the mbarrier {} are in different blocks", what,
                            spell_shared(data), spell_shared(barrier)),
                {"the barrier must be in the destination's block (with .cta_group::2: there or in its pair's other "
                 "block); map both addresses with mapa"});
  }
  return {check({data, barrier})};
}

Cycle bulk_latency(const Grid& grid, uint64_t bytes) {
  return grid.latencies->bulk_copy + bytes / std::max(1u, grid.latencies->bulk_bytes_per_cycle);
}

namespace {

/// Returns the time from which `Cluster::schedule` counts.
Cycle now_of(const Fragment& fragment) { return std::max(fragment.cluster().now, fragment.warp->clock); }

}  // namespace

void announce_delivery(Fragment& fragment, std::vector<BulkTarget>& targets, uint64_t bytes, const char* what,
                       const DeliveryNotes& notes) {
  if (!observes_memory(fragment)) return;
  const Cycle begin = now_of(fragment);
  uint32_t number = 0;
  for (BulkTarget& target : targets) {
    target.operation = announce_operation({.fragment = &fragment,
                                           .lane = notes.lane,
                                           .what = what,
                                           .updates = notes.updates,
                                           .has_barrier = true,
                                           .barrier = target.barrier,
                                           .reads = notes.source,
                                           .writes = notes.footprint.ranges(target.data),
                                           .generic_proxy = notes.generic_proxy,
                                           .needs_fence_after_reads = notes.needs_fence_after_reads,
                                           .layout = notes.layout,
                                           .begin = begin,
                                           .end = begin + bulk_latency(fragment.grid(), bytes),
                                           .bytes = bytes,
                                           .target = number++,
                                           .tensor_map = notes.tensor_map,
                                           .global = notes.global});
  }
}

void drop_lost(Cluster& cluster, std::vector<BulkTarget>& targets, const char* what) {
  const auto is_lost = [&](uint32_t address, const char* part) {
    const Block* block = cluster.block_of(address);
    if (block == nullptr || !block->exited) return false;
    const Fault fault = fault_of_exited(cluster, *block, address, fmt::format("{}{}", what, part).c_str());
    bool goes_on = false;
    for (Observer* observer : cluster.grid->observers) goes_on = observer->copy_lost(cluster, fault) || goes_on;
    if (!goes_on) throw fault;
    return true;
  };
  std::erase_if(targets, [&](const BulkTarget& target) {
    return is_lost(target.data, ": destination") || is_lost(target.barrier, "");
  });
}

void complete_delivery(Cluster& cluster, const std::vector<BulkTarget>& targets, uint64_t bytes, const char* what) {
  for (const BulkTarget& target : targets) {
    complete_transaction(cluster, target.barrier, bytes, what, target.operation);
  }
}

void schedule_store(Fragment& fragment, uint32_t lane, uint64_t bytes, const char* what, bool updates, uint32_t source,
                    const SharedFootprint& footprint, const GlobalFootprint& target,
                    std::function<std::vector<std::byte>()> read,
                    std::function<void(const std::vector<std::byte>&)> write, uint64_t tensor_map) {
  struct Store {
    Block* block;
    const char* what;
    ThreadBulkGroups* groups;  // map nodes stay where they are
    std::shared_ptr<BulkCopyGroup> group;
    std::function<std::vector<std::byte>()> read;
    std::function<void(const std::vector<std::byte>&)> write;
    std::vector<std::byte> data;
    std::list<StoreUnderWay>* under_way;  // null where memory is not observed
    std::list<StoreUnderWay>::iterator entry;
  };
  if (observes_memory(fragment)) {
    const Cycle begin = now_of(fragment);
    announce_operation({.fragment = &fragment,
                        .lane = lane,
                        .what = what,
                        .completion = AsyncCompletion::bulk_group,
                        .updates = updates,
                        .reads = footprint.ranges(source),
                        .begin = begin,
                        .end = begin + bulk_latency(fragment.grid(), bytes),
                        .bytes = bytes,
                        .tensor_map = tensor_map,
                        .global = observes_global(fragment) ? target() : std::vector<GlobalRange>{}});
  }
  Block& block = fragment.block();
  ThreadBulkGroups& groups = block.bulk_groups[thread_of(fragment, lane)];
  auto store = std::make_shared<Store>(
      Store{&block, what, &groups, groups.join(), std::move(read), std::move(write), {}, nullptr, {}});
  if (observes_memory(fragment)) {
    std::vector<GlobalRange> writes = target();
    // Their sizes are the same, or they do not overlap: the last one begins and ends last.
    std::sort(writes.begin(), writes.end(),
              [](const GlobalRange& a, const GlobalRange& b) { return a.address < b.address; });
    store->under_way = &fragment.grid().stores_under_way;
    store->entry = store->under_way->insert(store->under_way->end(), {&block, fragment.warp->index, lane, fragment.pc,
                                                                      what, std::move(writes), store->group});
  }
  const Cycle latency = bulk_latency(fragment.grid(), bytes);
  const auto read_source = [store] {
    // This happens even if the block has exited: the chip goes on reading, otherwise CUTLASS's epilogue for sm_100
    // could not end as it does (store_tail waits only where it needs the memory again). By the rules of PTX the program
    // must wait: the race check says so.
    store->data = store->read();
    --store->group->unread;
    wake_waiting(*store->groups);
  };
  const auto write_target = [store] {
    store->write(store->data);
    if (store->under_way != nullptr) store->under_way->erase(store->entry);
    store->data = {};
    --store->group->unfinished;
    wake_waiting(*store->groups);
  };
  block.cluster->schedule(latency / 2, read_source, store.get());
  block.cluster->schedule(latency, write_target, store.get());
}

void wake_waiting(ThreadBulkGroups& groups) {
  const std::vector<Fragment*> waiting = std::move(groups.waiting);
  groups.waiting.clear();
  for (Fragment* fragment : waiting) wake(*fragment);
}

namespace {

Outcome commit_group(Fragment& fragment, const Op&, LaneMask mask) {
  BulkCopyGroups& groups = fragment.block().bulk_groups;
  for_each_lane(mask, [&](uint32_t lane) {
    if (observes_memory(fragment)) {
      announce_group({GroupEventKind::commit, true, &fragment, lane});
    }
    const auto found = groups.find(thread_of(fragment, lane));
    // A thread that never copied has only empty groups, which are complete and need not be kept.
    if (found != groups.end()) found->second.commit();
  });
  return Outcome::next;
}

/// Waits for groups. The immediate has the groups that may stay pending in [31:0]; bit 32 waits only for the reads.
Outcome wait_group(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto keep = static_cast<uint32_t>(op.immediate);
  const bool read_only = (op.immediate >> 32 & 1) != 0;
  BulkCopyGroups& groups = fragment.block().bulk_groups;
  const LaneMask lanes = mask;
  for (; mask != 0; mask &= mask - 1) {
    const auto found = groups.find(thread_of(fragment, first_lane(mask)));
    if (found == groups.end()) continue;
    ThreadBulkGroups& mine = found->second;
    if (mine.reached(keep, read_only)) {
      mine.forget_finished();
      continue;
    }
    // Lanes wait one at a time: when this one's copies are done, the instruction is executed again for the others.
    mine.waiting.push_back(&fragment);
    sleep(fragment, {WaitKind::bulk_group, 0, keep});
    return Outcome::blocked;
  }
  if (observes_memory(fragment)) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const auto found = groups.find(thread_of(fragment, lane));
      if (read_only && found != groups.end()) found->second.note_read(keep);
      announce_group({GroupEventKind::wait, true, &fragment, lane, keep, read_only});
    });
  }
  return Outcome::next;
}

}  // namespace

uint32_t take_pending_groups(Translation& t) {
  const int64_t keep = t.integer(t.operand(0), "the number of groups that may stay pending");
  if (keep < 0 || keep > 0x7fff'ffff) t.illegal(fmt::format("{} groups cannot stay pending", keep));
  return static_cast<uint32_t>(keep);
}

void translate_commit_group(Translation& t) { t.emit(commit_group); }

void translate_wait_group(Translation& t) {
  const bool read_only = t.modifiers.take("read");
  const uint32_t keep = take_pending_groups(t);
  t.emit(wait_group).immediate = keep | uint64_t{read_only} << 32;
}

std::string_view take_space(Translation& t) {
  return t.modifiers.require_one_of({"shared::cta", "shared::cluster", "global", "shared"});
}

SharedScope scope_of(std::string_view space) {
  return space == "shared::cluster" ? SharedScope::cluster : SharedScope::block;
}

bool take_cache_hint(Translation& t) { return t.modifiers.take("L2::cache_hint"); }

void require_sm_100(Translation& t, std::string_view what) {
  if (t.architecture().major < 10) t.unsupported(fmt::format("{} needs sm_100", what));
}

void require_sm_100a(Translation& t, std::string_view what, std::string_view instead) {
  require_sm_100(t, what);
  if (t.architecture().is_desktop_blackwell()) t.not_on_this_chip(fmt::format("{} needs an sm_100a", what), instead);
}

void check_global(const Grid& grid, uint64_t address, uint64_t bytes, uint32_t alignment, bool write,
                  const char* what) {
  const Located located = locate(address);
  if (located.where != Located::Where::global) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: 0x{:x} is a generic address of {} memory, not a global one", what, address,
                            located.where == Located::Where::shared ? "shared" : "local"));
  }
  if (address % alignment != 0) {
    throw Fault(
        FaultKind::misaligned_address, fmt::format("{}: 0x{:x} is not a multiple of {}", what, address, alignment),
        {fmt::format("bulk copies move aligned pieces of {} bytes: check the index added to the pointer", alignment)});
  }
  if (bytes == 0) return;
  const Allocation* allocation = grid.memory->find(address, bytes);
  if (allocation == nullptr) {
    std::vector<std::string> details{grid.memory->describe(address)};
    if (address == 0) {
      details = {"the pointer is null"};
    } else if (const Allocation* start = grid.memory->find(address)) {
      details = {fmt::format("the range ends {} bytes past the end of {} ({} bytes at 0x{:x})",
                             address + bytes - (start->address + start->size), start->label, start->size,
                             start->address)};
    }
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: {} bytes at 0x{:x} are not in allocated memory", what, bytes, address),
                std::move(details));
  }
  if (write && !allocation->writable_by_kernels) {
    throw Fault(FaultKind::illegal_address,
                fmt::format("{}: {} bytes at 0x{:x} are in memory that kernels may not write ({})", what, bytes,
                            address, allocation->label));
  }
}

}  // namespace stagecraft::emulator::machine
