// The non-bulk cp.async: each thread copies 4, 8 or 16 bytes from global to shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/engines/copies/bulk_engine.hpp"
#include "emulator/state/announcements.hpp"
#include "emulator/state/cp_async_copies.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

struct SmallCopyDetail : OpDetail {
  SharedOperand destination;
  LaneOperand source;
  uint32_t size = 0;
  LaneOperand source_size;              ///< bytes to read, the rest becomes zeros; absent: all
  RegisterOffset ignore = kNoRegister;  ///< predicate: read nothing
  LaneMask ignore_flip = 0;
};

constexpr const char* kSource = "cp.async: source";
constexpr const char* kDestination = "cp.async: destination";

/// Returns the copies of a warp; null when no warp of its block has copied yet.
CpAsyncCopies* find_copies(Fragment& fragment) {
  std::vector<CpAsyncCopies>& copies = fragment.block().copies;
  return copies.empty() ? nullptr : &copies[fragment.warp->index];
}
CpAsyncCopies& copies_of(Fragment& fragment) {
  Block& block = fragment.block();
  if (block.copies.empty()) block.copies.resize(block.warps.size());
  return block.copies[fragment.warp->index];
}

/// Checks the sources of a copy, and remembers the allocation, because most of its lanes read the same one.
class SourceCheck {
 public:
  SourceCheck(const Grid& grid, uint32_t alignment) : grid_(grid), alignment_(alignment) {}
  void operator()(uint64_t address, uint32_t bytes) {
    if (bytes == 0) return;
    if (latest_ != nullptr && latest_->contains(address, bytes) && address % alignment_ == 0) return;
    check_global(grid_, address, bytes, alignment_, false, kSource);
    latest_ = grid_.memory->find(address, bytes);
  }

 private:
  const Grid& grid_;
  uint32_t alignment_;
  const Allocation* latest_ = nullptr;
};

void announce(Fragment& fragment, const CpAsyncCopies::Copy& copy, Cycle begin, Cycle end) {
  for_each_lane(copy.lanes, [&](uint32_t lane) {
    // Lanes that copy the same bytes to the same place in one instruction do not race, just like those of a store:
    // cooperative_groups::memcpy_async lets lanes that have nothing left to copy repeat another lane's copy.
    for (uint32_t other = 0; other < lane; ++other) {
      if ((copy.lanes >> other & 1) != 0 && copy.destination[other] == copy.destination[lane] &&
          copy.source[other] == copy.source[lane] && copy.bytes[other] == copy.bytes[lane]) {
        return;
      }
    }
    announce_operation({.fragment = &fragment,
                        .lane = lane,
                        .what = "cp.async",
                        .completion = AsyncCompletion::copy_group,
                        .writes = {{copy.destination[lane], copy.size}},
                        .generic_proxy = true,
                        .begin = begin,
                        .end = end,
                        .bytes = copy.bytes[lane],
                        .global = {{copy.source[lane], copy.bytes[lane]}}});
  });
}

/// Ends a warp's oldest copy: moves its bytes, and wakes the fragments that waited for it.
void finish(Block& block, uint32_t warp) {
  CpAsyncCopies& copies = block.copies[warp];
  const CpAsyncCopies::Copy& copy = copies.oldest();
  // The block may have exited, and memory may have been freed; everything else was checked at the issue.
  block_with(*block.cluster, copy.destination[first_lane(copy.lanes)], copy.size, copy.size, kDestination);
  if (copy.generation != DeviceMemory::generation()) {
    SourceCheck check(*block.cluster->grid, copy.size);
    for_each_lane(copy.lanes, [&](uint32_t lane) { check(copy.source[lane], copy.bytes[lane]); });
  }
  for_each_lane(copy.lanes, [&](uint32_t lane) {
    std::byte* const target = bytes_of(block, copy.destination[lane]);
    const std::byte* const source = DeviceMemory::host(copy.source[lane]);
    if (copy.bytes[lane] == 16) {  // a copy of a constant size becomes a move
      std::memcpy(target, source, 16);
      return;
    }
    if (copy.bytes[lane] != 0) std::memcpy(target, source, copy.bytes[lane]);
    std::memset(target + copy.bytes[lane], 0, copy.size - copy.bytes[lane]);
  });
  copies.finish_oldest();
}

Outcome copy(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const SmallCopyDetail*>(op.detail);
  note_effect(fragment);
  Block* const block = &fragment.block();
  Cluster& cluster = fragment.cluster();
  const LaneMask ignored =
      detail.ignore == kNoRegister ? 0 : *lanes_at<uint32_t>(fragment.registers, detail.ignore) ^ detail.ignore_flip;
  const Cycle latency = fragment.grid().latencies->global_load;
  const Cycle begin = std::max(cluster.now, fragment.warp->clock);
  CpAsyncCopies::Copy& issued = copies_of(fragment).issue(mask, begin + latency);
  issued.size = detail.size;
  issued.generation = DeviceMemory::generation();
  SourceCheck check(fragment.grid(), detail.size);
  issue_lanes(mask, [&](uint32_t lane) {
    const uint32_t destination = detail.destination.at(fragment, lane, kDestination);
    block_in_scope(*block, destination, detail.size, detail.size, detail.destination.scope, kDestination);
    const uint32_t bytes = (ignored >> lane & 1) != 0     ? 0
                           : detail.source_size.present() ? static_cast<uint32_t>(detail.source_size.at(fragment, lane))
                                                          : detail.size;
    if (bytes > detail.size) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("cp.async: the source size {} is more than the copy's {} bytes", bytes, detail.size));
    }
    issued.destination[lane] = destination;
    issued.source[lane] = detail.source.at(fragment, lane);
    issued.bytes[lane] = static_cast<uint8_t>(bytes);
    check(issued.source[lane], bytes);
  });
  if (observes_memory(fragment)) announce(fragment, issued, begin, begin + latency);
  const uint32_t warp = fragment.warp->index;
  cluster.schedule(
      latency, [block, warp] { finish(*block, warp); }, &block->copies[warp]);
  return Outcome::next;
}

void announce_groups(Fragment& fragment, LaneMask lanes, GroupEventKind kind, uint32_t keep) {
  if (!observes_memory(fragment)) return;
  for_each_lane(lanes, [&](uint32_t lane) { announce_group({kind, false, &fragment, lane, keep, false}); });
}

Outcome commit_group(Fragment& fragment, const Op&, LaneMask mask) {
  announce_groups(fragment, mask, GroupEventKind::commit, 0);
  // Without copies there are only empty groups, which are complete and need not be kept.
  if (CpAsyncCopies* copies = find_copies(fragment)) copies->commit(mask);
  return Outcome::next;
}

/// Waits for groups. The immediate has the groups that may stay pending in [31:0]; bit 32 commits first (wait_all).
Outcome wait_group(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto keep = static_cast<uint32_t>(op.immediate);
  const bool all = (op.immediate >> 32 & 1) != 0;
  if (CpAsyncCopies* copies = find_copies(fragment)) {
    if (all) copies->commit(mask);
    const uint64_t awaited = copies->awaited(mask, keep);
    if (!copies->has_ended(awaited)) {
      copies->add_waiting(fragment, awaited);
      sleep(fragment, {WaitKind::bulk_group, 0, keep});
      return Outcome::blocked;
    }
  }
  if (all) announce_groups(fragment, mask, GroupEventKind::commit, 0);
  announce_groups(fragment, mask, GroupEventKind::wait, keep);
  return Outcome::next;
}

}  // namespace

void translate_cp_async(Translation& t) {
  auto detail = std::make_unique<SmallCopyDetail>();
  const std::string_view cache = t.modifiers.require_one_of({"ca", "cg"});
  if (t.modifiers.left().front() == "global") t.illegal("cp.async copies from .global to .shared, in this order");
  t.modifiers.require_one_of({"shared", "shared::cta"});
  t.modifiers.require("global");
  const bool hint = take_cache_hint(t);
  t.modifiers.take_one_of({"L2::64B", "L2::128B", "L2::256B"});  // prefetch sizes, without effect
  const int64_t size = t.integer(t.operand(2), "the size of the copy");
  if (size != 16 && (cache == "cg" || (size != 4 && size != 8))) {
    t.illegal(fmt::format("cp.async.{} of {} bytes; legal are {}", cache, size, cache == "cg" ? "16" : "4, 8 and 16"));
  }
  detail->size = static_cast<uint32_t>(size);
  const size_t extra = t.operand_count() - hint;
  if (extra < 3 || extra > 4) t.illegal("cp.async takes a destination, a source, a size, perhaps a source size");
  detail->destination = shared_operand(t, t.operand(0), SharedScope::block);
  detail->source = lane_address(t, t.operand(1));
  if (extra == 4) {
    const ptx::Operand& last = t.operand(3);
    if (t.register_type(last) == Type::pred) {
      const Translation::Predicate predicate = t.predicate(last);
      detail->ignore = predicate.offset;
      detail->ignore_flip = predicate.flip;
    } else {
      if (last.kind == ptx::OperandKind::integer && last.bits > detail->size) {
        t.illegal(fmt::format("{} bytes to read for a copy of {}", static_cast<int64_t>(last.bits), size));
      }
      detail->source_size = lane_operand(t, last, Type::u32);
    }
  }
  t.emit(copy).detail = t.keep(std::move(detail));
}

void translate_cp_async_commit_group(Translation& t) { t.emit(commit_group); }

void translate_cp_async_wait_group(Translation& t, bool all) {
  const uint32_t keep = all ? 0 : take_pending_groups(t);
  t.emit(wait_group).immediate = keep | uint64_t{all} << 32;
}

}  // namespace stagecraft::emulator::machine
