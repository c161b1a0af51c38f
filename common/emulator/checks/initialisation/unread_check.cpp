#include "emulator/checks/initialisation/unread_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/checks/ordering/warp_addresses.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::kSharedOffsetMask;
using machine::kSharedRankShift;
using machine::TensorRange;

UnreadCheck::Owner UnreadCheck::source(const ClusterRecord& cluster, Place place, uint32_t pc, uint32_t detail) {
  constexpr size_t kMost = 4096;
  kernel_ = &cluster.kernel();
  // The products of an accumulator come from several instructions, which add to each other's sums.
  const auto [found, is_new] = numbers_.try_emplace({place, place == Place::product ? 0 : pc, detail}, Owner{0});
  if (is_new && sources_.size() < kMost) {
    sources_.push_back({.place = place, .pc = pc, .detail = detail});
    found->second = static_cast<Owner>(sources_.size());
    ++unread(place);
  }
  if (found->second != 0) sources_[found->second - 1].pc = pc;
  return found->second;
}

UnreadCheck::Owner UnreadCheck::source_of_store(const ClusterRecord& cluster, uint32_t pc) {
  if (pc >= of_stores_.size()) of_stores_.resize(pc + 1);
  if (of_stores_[pc] == 0) of_stores_[pc] = source(cluster, Place::store, pc, 0);
  return of_stores_[pc];
}

UnreadCheck::Source& UnreadCheck::root(Owner owner) {
  while (sources_[owner - 1].joined_to != 0) owner = sources_[owner - 1].joined_to;
  return sources_[owner - 1];
}

void UnreadCheck::mark_read(Owner owner) {
  Source& source = root(owner);
  if (!source.was_read) --unread(source.place);
  source.was_read = true;
}

void UnreadCheck::join(Owner one, Owner other) {
  Source &first = root(one), &second = root(other);
  if (&first == &second) return;
  if (!first.was_read || !second.was_read) --unread(first.place);
  first.was_read = first.was_read || second.was_read;
  first.offset = std::min(first.offset, second.offset);
  second.joined_to = static_cast<Owner>(&first - sources_.data() + 1);
}

void UnreadCheck::cluster_started(ClusterRecord& cluster) {
  states_.start(cluster);
  states_[cluster].blocks.resize(cluster.memory.size());
}

void UnreadCheck::read(State& state, uint32_t address, uint32_t bytes) {
  if (unread_shared_ == 0) return;
  const uint32_t rank = address >> kSharedRankShift, offset = address & kSharedOffsetMask;
  if (rank >= state.blocks.size() || bytes == 0) return;
  const std::vector<Owner>& owners = state.blocks[rank].shared;
  const size_t end = std::min<size_t>((offset + bytes - 1) / kGranule + 1, owners.size());
  for (size_t granule = offset / kGranule; granule < end; ++granule) {
    if (owners[granule] != 0) mark_read(owners[granule]);
  }
}

void UnreadCheck::write(State& state, uint32_t address, uint32_t bytes, Owner owner) {
  if (unread_shared_ == 0) return;
  const uint32_t rank = address >> kSharedRankShift, offset = address & kSharedOffsetMask;
  if (rank >= state.blocks.size() || bytes == 0 || owner == 0) return;
  std::vector<Owner>& owners = state.blocks[rank].shared;
  const size_t end = (offset + bytes - 1) / kGranule + 1;
  if (end > owners.size()) owners.resize(std::max(end, 2 * owners.size()));
  Source& now = sources_[owner - 1];
  now.offset = std::min(now.offset, offset);
  for (size_t granule = offset / kGranule; granule < end; ++granule) {
    Owner& before = owners[granule];
    if (before != 0 && before != owner) {
      // What is left of the other's bytes is no longer remembered, and may still be read.
      const bool whole = granule * kGranule >= offset && (granule + 1) * kGranule <= offset + bytes;
      if (!whole) join(before, owner);
      Source& other = sources_[before - 1];
      if (whole && !root(before).was_read && other.overwritten_at == 0) other.overwritten_at = now.pc;
    }
    before = owner;
  }
}

template <typename Visit>
void UnreadCheck::for_each_cell(State& state, uint32_t rank, const TensorRange& range, Visit&& visit) {
  if (rank >= state.blocks.size()) return;
  auto& columns = state.blocks[rank].tensor;
  if (columns.empty()) columns.resize(kColumns);
  const uint32_t end = std::min(range.column + range.columns, kColumns);
  for (uint32_t column = range.column; column < end; ++column) {
    for (uint32_t group = 0; group < kLaneGroups; ++group) {
      if ((range.lanes >> group & 1) != 0) visit(columns[column][group]);
    }
  }
}

void UnreadCheck::read(State& state, uint32_t rank, const TensorRange& range) {
  if (unread_tensor_ == 0) return;
  for_each_cell(state, rank, range, [&](Owner& owner) {
    if (owner != 0) mark_read(owner);
  });
}

void UnreadCheck::write(State& state, uint32_t rank, const TensorRange& range, Owner owner) {
  if (owner == 0 || unread_tensor_ == 0) return;
  Source& now = sources_[owner - 1];
  now.columns = range;
  for_each_cell(state, rank, range, [&](Owner& before) {
    if (before != 0 && before != owner) {
      Source& other = sources_[before - 1];
      if (!other.was_read && other.overwritten_at == 0) other.overwritten_at = now.pc;
    }
    before = owner;
  });
}

void UnreadCheck::note(ClusterRecord& cluster, const machine::MemoryAccess& access) {
  State& state = states_[cluster];
  const Owner owner = access.kind == AccessKind::read ? Owner{0} : source_of_store(cluster, access.pc);
  for_each_run(access.shared, access.lanes, access.bytes, [&](uint32_t address, uint32_t bytes) {
    if (access.kind != AccessKind::write) read(state, address, bytes);
    if (access.kind != AccessKind::read) write(state, address, bytes, owner);
  });
}

void UnreadCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const machine::AsyncOperation& operation = issued.event;
  State& state = states_[cluster];
  for (const machine::SharedRange& range : operation.reads) read(state, range.address, range.bytes);
  if (!operation.writes.empty()) {
    const uint32_t slot = operation.has_barrier ? operation.barrier & kSharedOffsetMask : 0;
    const Owner owner = source(cluster, Place::copy, operation.fragment->pc, slot);
    for (const machine::SharedRange& range : operation.writes) {
      if (operation.updates) read(state, range.address, range.bytes);
      write(state, range.address, range.bytes, owner);
    }
  }
  const uint32_t rank = operation.fragment->block().rank;
  operate(cluster, state, rank, operation);
  if (operation.of_pair) operate(cluster, state, rank ^ 1, operation);
}

void UnreadCheck::operate(const ClusterRecord& cluster, State& state, uint32_t rank,
                          const machine::AsyncOperation& operation) {
  for (const TensorRange& range : operation.tensor_reads) read(state, rank, range);
  const Place place = operation.product.m != 0 ? Place::product : Place::tensor;
  for (const TensorRange& range : operation.tensor_writes) {
    if (operation.accumulates && unread_tensor_ != 0) {
      // What threads have stored goes into the sum.
      for_each_cell(state, rank, range, [&](Owner& owner) {
        if (owner != 0 && sources_[owner - 1].place == Place::tensor) mark_read(owner);
      });
    }
    write(state, rank, range, source(cluster, place, operation.fragment->pc, range.column));
  }
}

void UnreadCheck::tensor_memory_changed(ClusterRecord& cluster, const machine::TensorEvent& event) {
  using machine::TensorEventKind;
  State& state = states_[cluster];
  const uint32_t rank = event.fragment->block().rank;
  for (const TensorRange& range : event.ranges) {
    if (event.kind == TensorEventKind::load) read(state, rank, range);
    if (event.kind == TensorEventKind::store) {
      write(state, rank, range, source(cluster, Place::tensor, event.fragment->pc, range.column));
    }
    if (event.kind == TensorEventKind::allocate || event.kind == TensorEventKind::deallocate) {
      for_each_cell(state, rank, range, [](Owner& owner) { owner = 0; });
    }
  }
}

std::string UnreadCheck::describe(const Source& source) const {
  std::string what = kernel_->describe_instruction(source.pc);
  if (const size_t first = what.find('.'); source.place != Place::store && what.find('.', first + 1) != what.npos) {
    what = what.substr(0, source.place == Place::copy ? what.find(".shared") : what.find('.', first + 1));
  }
  const TensorRange& columns = source.columns;
  const std::string where =
      source.place == Place::product || source.place == Place::tensor
          ? fmt::format("columns {} to {} of tensor memory", columns.column, columns.column + columns.columns - 1)
          : fmt::format("{} in shared memory", kernel_->name_of_shared_byte(source.offset));
  return fmt::format("nothing reads what the {}{} {} to {}{}", what, at_line(*kernel_, source.pc),
                     source.place == Place::copy ? "brings" : "writes", where,
                     source.overwritten_at == 0
                         ? std::string()
                         : fmt::format(", overwritten{}", at_line(*kernel_, source.overwritten_at)));
}

void UnreadCheck::add_results(std::vector<machine::WrittenResult>& results) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& each = sources_[i];
    const bool was_read = root(static_cast<Owner>(i + 1)).was_read;
    if (each.joined_to != 0 && !was_read) continue;  // its root stands for it
    const uint32_t instruction = each.place == Place::product ? 0 : each.pc;
    results.push_back({fmt::format("{} {} {}", static_cast<int>(each.place), instruction, each.detail),
                       was_read ? std::string() : describe(each), was_read});
  }
}

}  // namespace stagecraft::emulator::checks
