#include "emulator/trace/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::trace {

using machine::Cycle;
using machine::FragmentState;
using machine::WaitKind;

namespace {

std::string name_of(const machine::Fragment& fragment) {
  const machine::Wait& wait = fragment.wait;
  switch (wait.kind) {
    case WaitKind::mbarrier: return fragment.grid().kernel->name_of_barrier(wait.address & machine::kSharedOffsetMask);
    case WaitKind::named_barrier: return wait.address == 0 ? "the block" : fmt::format("barrier {}", wait.address);
    case WaitKind::warp_sync: return "its other lanes";
    case WaitKind::cluster_barrier: return "the cluster";
    case WaitKind::tensor_memory: return "tensor memory";
    case WaitKind::block_pair: return "the peer block";
    case WaitKind::bulk_group: return "its own copies";
    case WaitKind::registers: return "registers";
    case WaitKind::warpgroup_mma: return "wgmma";
    case WaitKind::grid_dependency: return "the grid before";
    case WaitKind::sleep: return "nanosleep";
    case WaitKind::none: break;
  }
  return {};
}

}  // namespace

std::string WarpRow::label(bool with_block) const {
  std::string text = with_block ? fmt::format("block {} warp {}", block, warp) : fmt::format("warp {}", warp);
  if (copies) text += ", copies";
  if (multiplies) text += ", multiplies";
  if (loads_tensor_memory) text += ", reads tensor memory";
  return text;
}

void Timeline::grid_started(const machine::Grid& grid) {
  kernel_ = grid.kernel;
  cluster_ = nullptr;
  dynamic_shared_bytes_ = grid.request->dynamic_shared_bytes;
  blocks_ = static_cast<uint32_t>(grid.request->region().count());
  warps_per_block_ = machine::warps_of(grid.request->block.count());
  warps_.assign(size_t{blocks_} * warps_per_block_, {});
  waiting_.assign(warps_.size(), false);
  meeting_.assign(warps_.size(), {-1, kNowhere});
  last_to_meet_.clear();
  arrivals_.clear();
  log_ = {};
  copies_.assign(blocks_, {});
  multiplications_.assign(blocks_, {});
}

void Timeline::block_started(const machine::Block& block) {
  const bool first = block.cluster->first_block == machine::Extent3{0, 0, 0};
  if (!first) return;
  cluster_ = block.cluster;
  first_block_ = block.cluster->first_block;
  copies_[block.rank].block = multiplications_[block.rank].block = block.rank;
  for (const machine::Warp& warp : block.warps) {
    WarpRow& row = *row_of(warp);
    row.block = block.rank;
    row.warp = warp.index;
    row.begin = row.end = warp.clock;
  }
}

void Timeline::block_finished(const machine::Block& block) {
  for (const machine::Warp& warp : block.warps) {
    WarpRow* row = row_of(warp);
    if (row == nullptr) continue;
    end_wait(*row, warp.clock);
    row->end = warp.clock;
  }
  // Another cluster may be created at the same address.
  if (block.cluster == cluster_ && block.cluster->live_blocks == 0) cluster_ = nullptr;
}

void Timeline::grid_finished(const machine::Grid& grid) {
  // A cluster that is still there did not end: it hangs, or was stopped.
  for (const auto& cluster : grid.resident) {
    if (cluster.get() != cluster_) continue;
    for (const auto& block : cluster->blocks) {
      for (const machine::Warp& warp : block->warps) {
        WarpRow* row = row_of(warp);
        if (row == nullptr) continue;
        // A warp that has exited is not one that hangs.
        row->end = warp.live == 0 ? warp.clock : std::max(row->end, std::max(warp.clock, cluster->now));
      }
    }
  }
  for (size_t i = 0; i < warps_.size(); ++i) {
    if (!waiting_[i]) continue;
    warps_[i].waits.back().open = true;
    end_wait(warps_[i], warps_[i].end);
  }
  cluster_ = nullptr;
}

WarpRow* Timeline::row_of(const machine::Warp& warp) {
  if (warp.block->cluster != cluster_ || cluster_ == nullptr) return nullptr;
  return &warps_[size_t{warp.block->rank} * warps_per_block_ + warp.index];
}

int32_t Timeline::number_of(const machine::Warp& warp) {
  const WarpRow* row = row_of(warp);
  return row == nullptr ? -1 : static_cast<int32_t>(row - warps_.data());
}

void Timeline::fragment_blocked(const machine::Fragment& fragment) { begin_wait_if_idle(*fragment.warp); }

// The last lanes that ran may exit while others of their warp wait.
void Timeline::fragment_exited(const machine::Fragment& fragment) { begin_wait_if_idle(*fragment.warp); }

void Timeline::begin_wait_if_idle(const machine::Warp& warp) {
  WarpRow* row = row_of(warp);
  if (row == nullptr || row->waits.size() >= kMostSpans) return;
  const size_t index = static_cast<size_t>(row - warps_.data());
  if (waiting_[index]) return;
  // If several wait, one that does not wait for other lanes says what the warp waits for. A lane that waits for its own
  // copies stops the others, too.
  const machine::Fragment* waits = nullptr;
  bool runs = false;
  for (const auto& each : warp.fragments) {
    runs = runs || each->state == FragmentState::ready;
    if (each->state != FragmentState::blocked) continue;
    if (waits == nullptr || waits->wait.kind == WaitKind::warp_sync) waits = each.get();
    if (each->wait.kind != WaitKind::bulk_group) continue;
    waits = each.get();
    runs = false;
    break;
  }
  if (runs) return;
  if (waits == nullptr) return;
  row->waits.push_back(describe_wait(*waits));
  waiting_[index] = true;
}

WaitSpan Timeline::describe_wait(const machine::Fragment& fragment) {
  const machine::Warp& warp = *fragment.warp;
  WaitSpan span{{warp.clock, warp.clock, name_of(fragment), fragment.pc}};
  MeetingPlace& meeting = meeting_[static_cast<size_t>(number_of(warp))];
  meeting = {-1, kNowhere};
  if (fragment.wait.kind == WaitKind::named_barrier) {
    meeting = {static_cast<int32_t>(warp.block->rank), fragment.wait.address};
  } else if (fragment.wait.kind == WaitKind::cluster_barrier) {
    meeting = {-1, 0};
  } else if (fragment.wait.kind == WaitKind::mbarrier) {
    const machine::Block* block = cluster_->block_of(fragment.wait.address);
    const uint32_t offset = fragment.wait.address & machine::kSharedOffsetMask;
    if (block == nullptr) return span;
    if (const auto found = block->mbarriers.live.find(offset); found != block->mbarriers.live.end()) {
      span.barrier = log_.number_of(*block, offset);
      span.phase = found->second.phase;
    }
  }
  return span;
}

void Timeline::barrier_changed(const machine::BarrierEvent& event) {
  if (cluster_ == nullptr || event.block->cluster != cluster_) return;
  log_.add(event, event.fragment == nullptr ? -1 : number_of(*event.fragment->warp));
}

void Timeline::threads_met(const machine::Rendezvous& event) {
  if (event.cluster != cluster_ || event.fragment == nullptr || event.kind == machine::RendezvousKind::pass) return;
  const int32_t block = event.block == nullptr ? -1 : static_cast<int32_t>(event.block->rank);
  last_to_meet_[{block, event.number}] = {number_of(*event.fragment->warp), event.fragment->pc};
}

void Timeline::fragment_woken(const machine::Fragment& fragment) {
  if (WarpRow* row = row_of(*fragment.warp)) end_wait(*row, fragment.warp->clock);
}

void Timeline::end_wait(WarpRow& row, Cycle now) {
  const size_t index = static_cast<size_t>(&row - warps_.data());
  if (!waiting_[index]) return;
  waiting_[index] = false;
  WaitSpan& wait = row.waits.back();
  wait.end = std::max(now, wait.begin);
  const auto last = last_to_meet_.find(meeting_[index]);
  if (last != last_to_meet_.end() && !wait.open) std::tie(wait.ended_by, wait.ended_pc) = last->second;
  if (wait.open) return;
  if (row.waits.back().end == row.waits.back().begin) row.waits.pop_back();
}

void Timeline::operation_issued(const machine::AsyncOperation& operation) {
  WarpRow* row = row_of(*operation.fragment->warp);
  if (row == nullptr) return;
  const bool tensor_core = operation.completion == machine::AsyncCompletion::tensor_pipe ||
                           operation.completion == machine::AsyncCompletion::warpgroup;
  const bool arrival = operation.completion == machine::AsyncCompletion::copies_arrive ||
                       operation.completion == machine::AsyncCompletion::tensor_arrive;
  OperationSpan span{{operation.begin, operation.end, operation.what, operation.fragment->pc}};
  span.number = operation.number;
  span.warp = number_of(*operation.fragment->warp);
  span.bytes = operation.bytes;
  if (operation.has_barrier) {
    if (const machine::Block* block = cluster_->block_of(operation.barrier)) {
      span.barrier = log_.number_of(*block, operation.barrier & machine::kSharedOffsetMask);
    }
  }
  if (!operation.writes.empty()) {
    span.target = kernel_->name_of_shared_byte(operation.writes.front().address & machine::kSharedOffsetMask);
  }
  if (arrival) {
    if (arrivals_.size() < kMostSpans) arrivals_.push_back(span);
    return;
  }
  (tensor_core ? row->multiplies : row->copies) = true;
  const auto add = [&](uint32_t block) {
    std::vector<OperationSpan>& spans = (tensor_core ? multiplications_ : copies_)[block].spans;
    if (spans.size() >= kMostSpans) return;
    spans.push_back(span);
  };
  add(row->block);
  if (operation.of_pair) add(row->block ^ 1);  // the units of both blocks work on it
}

void Timeline::tensor_memory_changed(const machine::TensorEvent& event) {
  if (event.kind != machine::TensorEventKind::load) return;
  if (WarpRow* row = row_of(*event.fragment->warp)) row->loads_tensor_memory = true;
}

Cycle Timeline::end() const {
  Cycle end = 0;
  for (const WarpRow& row : warps_) end = std::max(end, row.end);
  for (const auto* rows : {&copies_, &multiplications_}) {
    for (const UnitRow& row : *rows) {
      for (const Span& span : row.spans) end = std::max(end, span.end);
    }
  }
  return end;
}

}  // namespace stagecraft::emulator::trace
