// The non-bulk cp.async: each thread copies 4, 8 or 16 bytes from global to shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "emulator/machine/observation.hpp"
#include "emulator/units/bulk_engine.hpp"

namespace stagecraft::emulator::units {

using machine::Block;
using machine::Fault;
using machine::FaultKind;
using machine::Fragment;
using machine::LaneMask;
using machine::Op;
using machine::Outcome;
using machine::Translation;
using ptx::Type;

namespace {

struct SmallCopyDetail : machine::OpDetail {
  SharedOperand destination;
  LaneOperand source;
  uint32_t size = 0;
  LaneOperand source_size;                                ///< bytes to read, the rest becomes zeros; absent: all
  machine::RegisterOffset ignore = machine::kNoRegister;  ///< predicate: read nothing
  LaneMask ignore_flip = 0;
};

struct LaneCopy {
  uint32_t destination = 0, bytes = 0;
  uint64_t source = 0;
  ThreadGroups* groups = nullptr;
  std::shared_ptr<CopyGroup> group;
};

Outcome copy(Fragment& fragment, const Op& op, LaneMask mask) {
  static constexpr const char* kSource = "cp.async: source";
  static constexpr const char* kDestination = "cp.async: destination";
  const auto& detail = *static_cast<const SmallCopyDetail*>(op.detail);
  machine::note_effect(fragment);
  Block* block = &fragment.block();
  machine::Cluster& cluster = fragment.cluster();
  const machine::Grid& grid = fragment.grid();
  const LaneMask ignored = detail.ignore == machine::kNoRegister
                               ? 0
                               : *machine::lanes_at<uint32_t>(fragment.registers, detail.ignore) ^ detail.ignore_flip;
  const machine::Cycle latency = grid.latencies->global_load;
  auto copies = std::make_shared<std::vector<LaneCopy>>();
  issue_lanes(mask, [&](uint32_t lane) {
    LaneCopy each;
    each.destination = detail.destination.at(fragment, lane, kDestination);
    block_in_scope(*block, each.destination, detail.size, detail.size, detail.destination.scope, kDestination);
    each.source = detail.source.at(fragment, lane);
    each.bytes = (ignored >> lane & 1) != 0     ? 0
                 : detail.source_size.present() ? static_cast<uint32_t>(detail.source_size.at(fragment, lane))
                                                : detail.size;
    if (each.bytes > detail.size) {
      throw Fault(
          FaultKind::illegal_instruction,
          fmt::format("cp.async: the source size {} is more than the copy's {} bytes", each.bytes, detail.size));
    }
    if (each.bytes != 0) check_global(grid, each.source, each.bytes, detail.size, false, kSource);
    const uint32_t thread = machine::thread_of(fragment, lane);
    each.groups = &block->bulk_groups.copy[thread];
    each.group = each.groups->join();
    block->bulk_groups.copy_end[thread] = std::max(cluster.now, fragment.warp->clock) + latency;
    // Lanes that copy the same bytes to the same place in one instruction do not race, as those of a store do not:
    // cooperative_groups::memcpy_async lets the lanes that have nothing left repeat another's copy.
    const bool repeats = std::any_of(copies->begin(), copies->end(), [&](const LaneCopy& other) {
      return other.destination == each.destination && other.source == each.source && other.bytes == each.bytes;
    });
    if (machine::observes_memory(fragment) && !repeats) {
      machine::announce_operation({.fragment = &fragment,
                                   .lane = lane,
                                   .what = "cp.async",
                                   .completion = machine::AsyncCompletion::copy_group,
                                   .writes = {{each.destination, detail.size}},
                                   .generic_proxy = true,
                                   .begin = block->bulk_groups.copy_end[thread] - latency,
                                   .end = block->bulk_groups.copy_end[thread]});
    }
    copies->push_back(std::move(each));
  });
  cluster.schedule(latency, [block, copies, size = detail.size] {
    for (const LaneCopy& each : *copies) {
      block_with(*block->cluster, each.destination, size, size, kDestination);
      std::byte* target = bytes_of(*block, each.destination);
      if (each.bytes != 0) {
        check_global(*block->cluster->grid, each.source, each.bytes, size, false, kSource);
        std::memcpy(target, machine::DeviceMemory::host(each.source), each.bytes);
      }
      std::memset(target + each.bytes, 0, size - each.bytes);
      --each.group->unread;
      --each.group->unfinished;
      wake_waiting(*each.groups);
    }
  });
  return Outcome::next;
}

}  // namespace

void translate_small_copy(Translation& t) {
  auto detail = std::make_unique<SmallCopyDetail>();
  const std::string_view cache = t.modifiers.require_one_of({"ca", "cg"});
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
      detail->source_size = lane_operand(t, last, Type::u32);
    }
  }
  t.emit(copy).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::units
