#include "emulator/trace/launch_recorder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "emulator/state/warpgroup.hpp"
#include "emulator/trace/bank_conflicts.hpp"
#include "emulator/trace/instruction_classes.hpp"

namespace stagecraft::emulator::trace {
namespace {

using timing::Engine;
using timing::GateKind;
using timing::Operation;
using timing::Stage;
using timing::Step;
using timing::StepKind;

/// Instructions that a guard skips one after the other, at most: what is further ahead was reached otherwise.
constexpr uint32_t kMostSkipped = 64;

/// Bits of 1 over the least normal number, and of the root of 2^-101: ptxas's code of rcp.rn.f32 and sqrt.rn.f32 calls
/// its function for smaller operands.
constexpr uint32_t kReciprocalOfLeast = 0x7e800000, kLeastRoot = 0x263504f3;
constexpr uint32_t kLeastNormal = 0x00800000, kInfinity = 0x7f800000;

uint32_t rank_of(uint32_t shared_address) { return shared_address >> machine::kSharedRankShift; }

/// Keys of gates. Bit 63 sets apart barriers that are not in memory.
uint64_t mbarrier_key(uint32_t rank, uint32_t offset) { return uint64_t{rank} << 56 | uint64_t{offset} << 32; }
uint64_t rendezvous_key(const machine::Rendezvous& event) {
  const uint64_t place = event.block == nullptr ? 0xff : event.block->rank;
  return uint64_t{1} << 63 | place << 48 | uint64_t{event.number} << 40;
}

/// @param traits  of the instruction that issues it.
Engine engine_of(const machine::AsyncOperation& operation, const machine::InstructionTraits& traits) {
  using machine::AsyncCompletion;
  switch (operation.completion) {
    case AsyncCompletion::bulk_group: return Engine::copy_out;
    case AsyncCompletion::copy_group:
    case AsyncCompletion::copies_arrive: return Engine::thread_copy;
    case AsyncCompletion::tensor_arrive: return Engine::commit;
    case AsyncCompletion::warpgroup: return Engine::product;
    case AsyncCompletion::tensor_pipe: return operation.product.m != 0 ? Engine::product : Engine::tensor_copy;
    case AsyncCompletion::mbarrier: break;
  }
  if (traits.takes_over_clusters) return Engine::cluster_launch;
  // A copy without global memory is one between blocks, or st.async; or a tile outside its tensor, which is filled.
  return operation.global.empty() && operation.bytes != 0 && traits.copies != machine::Copies::tiles
             ? Engine::copy_between
             : Engine::copy_in;
}

/// Adds bytes of one line to the lines from `first_line` on: to the last of them, or as a new one. Returns whether it
/// is new.
bool add_to_line(std::vector<timing::LineRequest>& lines, size_t first_line, uint64_t first, uint64_t last) {
  const timing::LineRequest request =
      timing::request_of(first / timing::kLineBytes, timing::sectors_between(first, last));
  if (lines.size() > first_line && timing::line_of(lines.back()) == timing::line_of(request)) {
    lines.back() |= request;
    return false;
  }
  lines.push_back(request);
  return true;
}

/// How many lanes have the address that most have.
uint32_t most_at_one_word(const uint64_t* addresses, machine::LaneMask lanes) {
  std::array<uint64_t, machine::kWarpSize> sorted;
  uint32_t count = 0, most = 0;
  machine::for_each_lane(lanes, [&](uint32_t lane) { sorted[count++] = addresses[lane]; });
  std::sort(sorted.begin(), sorted.begin() + count);
  for (uint32_t i = 0, same = 0; i < count; ++i) {
    same = i > 0 && sorted[i] == sorted[i - 1] ? same + 1 : 1;
    most = std::max(most, same);
  }
  return most;
}

/// The passes of an atomic operation over the sectors that it changes: for each, how many lanes meet at one word.
uint32_t passes_over_sectors(const uint64_t* addresses, machine::LaneMask lanes) {
  std::array<uint64_t, machine::kWarpSize> sorted;
  uint32_t count = 0, sum = 0;
  machine::for_each_lane(lanes, [&](uint32_t lane) { sorted[count++] = addresses[lane]; });
  std::sort(sorted.begin(), sorted.begin() + count);
  for (uint32_t i = 0, same = 0, most = 0; i < count; ++i) {
    const bool new_sector = i == 0 || sorted[i] / timing::kSectorBytes != sorted[i - 1] / timing::kSectorBytes;
    if (new_sector) sum += std::exchange(most, 0);
    same = i > 0 && sorted[i] == sorted[i - 1] ? same + 1 : 1;
    most = std::max(most, same);
    if (i + 1 == count) sum += most;
  }
  return sum;
}

}  // namespace

size_t LaunchRecorder::index_of(const machine::Fragment& fragment) const {
  return size_t{fragment.block().rank} * warps_per_block_ + fragment.warp->index;
}

void LaunchRecorder::grid_started(const machine::Grid& grid) {
  grid_ = &grid;
  warps_per_block_ = machine::warps_of(grid.request->block.count());
  recording_.begin(grid);
  code_ = &recording_.code();
  for (const timing::Instruction& each : *code_) jumps_.push_back(each.kind == timing::InstructionClass::control);
}

void LaunchRecorder::block_started(const machine::Block& block) {
  ClusterRecord& cluster = clusters_[block.cluster];
  if (cluster.blocks != 0) return;
  const machine::Extent3 first = block.cluster->first_block, grid = grid_->request->grid;
  cluster.number = (uint64_t{first.z} * grid.y + first.y) * grid.x + first.x;
  cluster.blocks = static_cast<uint32_t>(block.cluster->shape.count());
  cluster.wanted = recording_.wants(cluster.number);
  cluster.idle = !cluster.wanted;
  if (cluster.idle) return;
  cluster.shape.blocks = cluster.blocks;
  cluster.warps.resize(size_t{cluster.blocks} * warps_per_block_);
  cluster.tensor_columns.resize(cluster.blocks);
  cluster.shape.warps.resize(cluster.warps.size());
}

void LaunchRecorder::block_finished(const machine::Block& block) {
  ClusterRecord& cluster = cluster_of(block);
  if (++cluster.finished != cluster.blocks) return;
  if (cluster.wanted) {
    for (size_t warp = 0; warp < cluster.warps.size(); ++warp) close_run(cluster, warp);
    cluster.trace.instructions = cluster.instructions;
    if (!cluster.idle) cluster.trace.described = described_of(cluster);
    recording_.add(cluster.number, std::move(cluster.shape), std::move(cluster.trace), cluster.one_of != 1);
  } else {
    recording_.count(cluster.instructions);
  }
  clusters_.erase(block.cluster);
}

bool LaunchRecorder::can_be_thinned(const ClusterRecord& cluster) {
  constexpr size_t kAccessesOfOther = 32;
  return cluster.shape.operations.empty() &&
         cluster.shape.accesses.size() >= cluster.steps - cluster.steps / kAccessesOfOther;
}

void LaunchRecorder::thin(ClusterRecord& cluster) {
  cluster.one_of *= 2;
  std::vector<timing::Access> accesses;
  std::vector<timing::LineRequest> lines;
  uint64_t others = 0;
  for (size_t number = 0; number < cluster.warps.size(); ++number) {
    WarpRecord& warp = cluster.warps[number];
    if (warp.stretches.empty()) {  // all so far
      for (uint64_t i = 0; i * kStretch < warp.accesses; ++i) warp.stretches.push_back({0, i});
      size_t seen = 0;
      std::vector<Step>& steps = cluster.shape.warps[number];
      for (size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].kind != StepKind::access) continue;
        if (++seen % kStretch == 0 && seen / kStretch < warp.stretches.size())
          warp.stretches[seen / kStretch].first_step = i + 1;
      }
    }
    std::vector<Step> kept;
    std::vector<Stretch> stretches;
    const std::vector<Step>& steps = cluster.shape.warps[number];
    size_t stretch = 0;
    bool recorded = true;
    for (size_t i = 0; i < steps.size(); ++i) {
      for (; stretch < warp.stretches.size() && warp.stretches[stretch].first_step <= i; ++stretch) {
        recorded = is_recorded(cluster, warp.stretches[stretch].number);
        if (recorded) stretches.push_back({kept.size(), warp.stretches[stretch].number});
      }
      Step step = steps[i];
      const bool is_access = step.kind == StepKind::access;
      if (!recorded && (is_access || step.kind == StepKind::run || step.kind == StepKind::part)) continue;
      if (is_access) {
        timing::Access access = cluster.shape.accesses[step.value];
        const auto first = cluster.trace.lines.begin() + access.first_line;
        access.first_line = static_cast<uint32_t>(lines.size());
        lines.insert(lines.end(), first, first + access.lines);
        step.value = static_cast<uint32_t>(accesses.size());
        accesses.push_back(access);
      } else if (step.kind != StepKind::run) {
        ++others;
      }
      kept.push_back(step);
    }
    cluster.shape.warps[number] = std::move(kept);
    warp.stretches = std::move(stretches);
    warp.recorded = is_recorded(cluster, warp.accesses / kStretch);
    if (!warp.recorded) warp.run = {};
    warp.poll = {};
  }
  cluster.steps = accesses.size() + others;
  cluster.shape.accesses = std::move(accesses);
  cluster.trace.lines = std::move(lines);
}

void LaunchRecorder::count_access(ClusterRecord& cluster, size_t number) {
  WarpRecord& warp = cluster.warps[number];
  if (warp.accesses++ % kStretch != 0 || cluster.one_of == 1) return;
  close_run(cluster, number);
  const uint64_t stretch = (warp.accesses - 1) / kStretch;
  warp.recorded = is_recorded(cluster, stretch);
  if (warp.recorded) warp.stretches.push_back({cluster.shape.warps[number].size(), stretch});
}

uint64_t LaunchRecorder::described_of(const ClusterRecord& cluster) {
  uint64_t all = 0;
  for (const WarpRecord& warp : cluster.warps) all += warp.accesses;
  if (cluster.one_of == 1 || all == 0) return cluster.instructions;
  return cluster.instructions * cluster.shape.accesses.size() / all;
}

void LaunchRecorder::cut_if_long(ClusterRecord& cluster) {
  const uint64_t recorded = ++cluster.steps + cluster.trace.lines.size() / 4;
  if (recorded >= recording_.most_of_cluster() / kThinnedPart && can_be_thinned(cluster)) cluster.thin_next = true;
  if (recorded < recording_.most_of_cluster()) return;
  cluster.idle = true;
  cluster.trace.described = cluster.instructions;
}

// ---- Steps ---------------------------------------------------------------------------------------------------------

void LaunchRecorder::close_run(ClusterRecord& cluster, size_t warp) {
  OpenRun& run = cluster.warps[warp].run;
  if (run.first != kNone)
    cluster.shape.warps[warp].push_back({StepKind::run, false, false, run.last, run.first, run.end});
  run = {};
}

Step& LaunchRecorder::append(ClusterRecord& cluster, const machine::Fragment& fragment, StepKind kind, uint32_t value) {
  const size_t warp = index_of(fragment);
  close_run(cluster, warp);
  ++cluster.warps[warp].others;
  cut_if_long(cluster);
  std::vector<Step>& steps = cluster.shape.warps[warp];
  steps.push_back({kind, false, false, value, fragment.pc});
  return steps.back();
}

void LaunchRecorder::instruction_executed(const machine::ExecutedInstruction& event) {
  const machine::Fragment& fragment = *event.fragment;
  ClusterRecord& cluster = cluster_of(fragment.block());
  if (!event.poll_failed) ++cluster.instructions;
  if (cluster.idle) return;
  const size_t number = index_of(fragment);
  WarpRecord& warp = cluster.warps[number];
  const bool accesses = event.addresses != nullptr && !(*code_)[event.pc].absorbed;
  if (std::exchange(cluster.thin_next, false)) thin(cluster);
  if (accesses) count_access(cluster, number);
  if (!warp.recorded) {
    warp.lanes = fragment.mask;
    warp.parting = kNone;
    return;
  }
  std::vector<Step>& steps = cluster.shape.warps[number];
  warp.thread_copy_pc = kNone;  // all lanes have announced their copies
  const bool same_poll = warp.poll.pc == event.pc && warp.poll.others == warp.others;
  if (event.poll_failed) {
    if (!same_poll) warp.poll = {event.pc, steps.size(), warp.others, warp.run};
    return;
  }
  if (same_poll ||
      (warp.poll.pc == event.pc && warp.others == warp.poll.others + 1 && steps.back().kind == StepKind::wait)) {
    // The loop of failed polls is forgotten; only the wait that ended it stays.
    std::vector<Step> kept;
    if (!same_poll) kept.push_back(steps.back());
    steps.resize(warp.poll.steps);
    warp.run = warp.poll.run;
    if (!kept.empty()) {
      close_run(cluster, number);
      steps.push_back(kept.front());
    }
  }
  if (warp.poll.pc == event.pc) warp.poll = {};
  OpenRun& run = warp.run;
  const bool goes_on = run.first != kNone && run.fragment == fragment.sequence && event.pc > run.last &&
                       event.pc - run.last <= kMostSkipped && !jumps_[run.last];
  if (goes_on) {
    run.last = event.pc;
  } else {
    if (run.fragment == fragment.sequence && run.last != kNone && jumps_[run.last] && event.pc <= run.last) {
      run.end = event.pc == run.first ? timing::RunEnd::turn : timing::RunEnd::back;
    }
    const uint32_t branch = std::exchange(warp.parting, kNone);
    close_run(cluster, number);
    if (branch != kNone) append(cluster, fragment, StepKind::part, 0).pc = branch;
    run = {event.pc, event.pc, fragment.sequence};
  }
  // A branch has parted its lanes by now.
  const machine::LaneMask before = std::exchange(warp.lanes, fragment.mask);
  if (jumps_[event.pc] && fragment.mask != before && (fragment.mask & ~before) == 0) warp.parting = event.pc;
  if (const timing::RunEnd end = function_called(event); end != timing::RunEnd::other) {
    run.end = end;
    close_run(cluster, number);
  }
  if ((*code_)[event.pc].depends) append(cluster, fragment, StepKind::depend, 0);
  if (accesses) record_access(cluster, event);
}

timing::RunEnd LaunchRecorder::function_called(const machine::ExecutedInstruction& event) const {
  using timing::InstructionClass;
  using timing::RunEnd;
  const InstructionClass kind = (*code_)[event.pc].kind;
  const bool divides = kind == InstructionClass::divide_float, inverts = kind == InstructionClass::reciprocal_float;
  if (!divides && !inverts && kind != InstructionClass::root_float) return RunEnd::other;
  const machine::Op& op = grid_->kernel->code[event.pc];
  const auto magnitude = [&](machine::RegisterOffset offset, uint32_t lane) {
    return machine::lanes_at<uint32_t>(event.fragment->registers, offset)[lane] & 0x7fffffffu;
  };
  const auto is_tiny = [](uint32_t bits) { return bits != 0 && bits < kLeastNormal; };
  bool calls = false, calls_shortly = false;
  machine::for_each_lane(event.lanes, [&](uint32_t lane) {
    const uint32_t result = magnitude(op.destination, lane);
    calls = calls || is_tiny(result);
    calls_shortly = calls_shortly || result == 0 || result >= kInfinity;
    // The operand may be gone, so of a reciprocal and a root the result tells alone.
    if (inverts) calls = calls || (result > kReciprocalOfLeast && result < kInfinity);
    if (kind == InstructionClass::root_float) calls = calls || (result != 0 && result < kLeastRoot);
    if (divides && op.a != op.destination) {
      const uint32_t dividend = magnitude(op.a, lane);
      calls = calls || is_tiny(dividend) || (dividend != 0 && dividend < kInfinity && result == 0);
    }
    if (divides && op.b != op.destination) calls = calls || is_tiny(magnitude(op.b, lane));
  });
  return calls ? RunEnd::function : calls_shortly ? RunEnd::short_function : RunEnd::other;
}

void LaunchRecorder::record_access(ClusterRecord& cluster, const machine::ExecutedInstruction& event) {
  timing::Access access;
  access.store = event.kind == machine::AccessKind::write;
  access.atomic = event.kind == machine::AccessKind::update;
  const machine::Fragment& fragment = *event.fragment;
  const uint32_t joined = (*code_)[event.pc].joined;
  if (access.atomic) {
    access.same = most_at_one_word(event.addresses, event.lanes);
    const timing::Instruction& instruction = (*code_)[event.pc];
    access.floating = instruction.floating;
    // ptxas makes a reduction of an atomic operation whose result nobody reads.
    access.returns = instruction.returns;
  }
  std::array<uint32_t, machine::kWarpSize> shared{}, global{};
  machine::LaneMask shared_lanes = 0, global_lanes = 0;
  sectors_.clear();
  machine::for_each_lane(event.lanes, [&](uint32_t lane) {
    const machine::Located at = machine::locate(event.addresses[lane]);
    if (at.where == machine::Located::Where::shared) {
      // Joined loads begin at the lowest of their addresses.
      shared[lane] = static_cast<uint32_t>(at.address) & ~(joined == 0 ? 0 : joined - 1);
      shared_lanes |= 1u << lane;
      access.remote = access.remote || rank_of(shared[lane]) != fragment.block().rank;
    } else if (at.where == machine::Located::Where::global) {
      global[lane] = static_cast<uint32_t>(at.address);
      global_lanes |= 1u << lane;
      for (uint64_t sector = at.address / timing::kSectorBytes;
           sector <= (at.address + event.bytes - 1) / timing::kSectorBytes; ++sector) {
        const uint64_t first = std::max(at.address, sector * timing::kSectorBytes);
        const uint64_t end = std::min(at.address + event.bytes, (sector + 1) * timing::kSectorBytes);
        sectors_.push_back(
            {sector, static_cast<uint32_t>(((uint64_t{1} << (end - first)) - 1) << first % timing::kSectorBytes)});
      }
    }
  });
  if (shared_lanes != 0) {
    access.shared = true;
    // Rows of ldmatrix have 16 bytes each; other accesses at most that.
    access.passes =
        wavefronts_of(shared.data(), shared_lanes, std::min(std::max(event.bytes, joined), 16u), !access.store);
    // A word that lanes share is served for each of them.
    if (access.atomic && !(*code_)[event.pc].counts) access.passes = std::max(access.passes, access.same);
  } else {
    if (sectors_.empty()) return;  // local memory
    describe_lines(cluster.trace, access);
    access.passes = access.atomic
                        ? passes_over_sectors(event.addresses, event.lanes)
                        : wavefronts_of(global.data(), global_lanes, std::min(event.bytes, 16u), !access.store);
  }
  const auto index = static_cast<uint32_t>(cluster.shape.accesses.size());
  cluster.shape.accesses.push_back(access);
  append(cluster, fragment, StepKind::access, index).pc = event.pc;
}

void LaunchRecorder::describe_lines(timing::ClusterTrace& trace, timing::Access& access) {
  const auto by_number = [](const Sector& a, const Sector& b) { return a.number < b.number; };
  if (!std::is_sorted(sectors_.begin(), sectors_.end(), by_number)) {
    std::sort(sectors_.begin(), sectors_.end(), by_number);
  }
  access.first_line = static_cast<uint32_t>(trace.lines.size());
  bool partial = false;  // some sector of the line so far
  for (size_t i = 0; i < sectors_.size();) {
    const uint64_t sector = sectors_[i].number;
    uint32_t bytes = 0;
    for (; i < sectors_.size() && sectors_[i].number == sector; ++i) bytes |= sectors_[i].bytes;
    ++access.sectors;
    const uint64_t address = sector * timing::kSectorBytes;
    const bool is_new = add_to_line(trace.lines, access.first_line, address, address);
    if (is_new) partial = false;
    if (access.store && bytes != 0xffffffffu && !partial) {
      partial = true;
      ++access.partial_lines;
    }
  }
  access.lines = static_cast<uint32_t>(trace.lines.size()) - access.first_line;
}

// ---- Gates ---------------------------------------------------------------------------------------------------------

uint32_t LaunchRecorder::new_gate(ClusterRecord& cluster, GateKind kind) {
  cluster.shape.gates.push_back({kind, 0});
  return static_cast<uint32_t>(cluster.shape.gates.size()) - 1;
}

uint32_t LaunchRecorder::gate_at(ClusterRecord& cluster, uint64_t key, GateKind kind) {
  const auto found = cluster.gates.find(key);
  if (found != cluster.gates.end()) return found->second;
  return cluster.gates.emplace(key, new_gate(cluster, kind)).first->second;
}

void LaunchRecorder::barrier_changed(const machine::BarrierEvent& event) {
  using machine::BarrierEventKind;
  ClusterRecord& cluster = cluster_of(*event.block);
  if (cluster.idle) return;
  const uint64_t barrier = mbarrier_key(event.block->rank, event.offset);
  if (event.kind == BarrierEventKind::init) {
    // Phases count from zero again.
    std::erase_if(cluster.gates, [&](const auto& each) { return each.first >> 32 == barrier >> 32; });
    return;
  }
  const auto key_of = [&](uint64_t phase) { return barrier | (phase & 0xffffffff); };
  if (event.kind == BarrierEventKind::wait) {
    if (event.phase == 0) return;
    append(cluster, *event.fragment, StepKind::wait, gate_at(cluster, key_of(event.phase - 1), GateKind::mbarrier));
    return;
  }
  if (event.kind != BarrierEventKind::arrive && event.kind != BarrierEventKind::complete_tx) return;
  const uint32_t gate = gate_at(cluster, key_of(event.phase), GateKind::mbarrier);
  if (event.fragment != nullptr) {
    ++cluster.shape.gates[gate].arrivals;
    Step& step = append(cluster, *event.fragment, StepKind::signal, gate);
    step.remote = &event.fragment->block() != event.block;
    step.fence = event.semantics.of_cluster && !event.semantics.relaxed;
    return;
  }
  const auto found = cluster.operations.find(event.operation);
  if (found == cluster.operations.end()) return;
  ++cluster.shape.gates[gate].arrivals;
  cluster.shape.operations[found->second].signals.push_back({gate, Stage::done});
}

void LaunchRecorder::threads_met(const machine::Rendezvous& event) {
  using machine::RendezvousKind;
  const auto found = clusters_.find(event.cluster);
  if (found == clusters_.end() || found->second.idle || event.kind == RendezvousKind::exit) return;
  ClusterRecord& cluster = found->second;
  const uint64_t barrier = rendezvous_key(event);
  uint32_t& generation = cluster.generations[barrier];
  const GateKind kind = event.block == nullptr ? GateKind::cluster_barrier : GateKind::named_barrier;
  switch (event.kind) {
    case RendezvousKind::arrive:
    case RendezvousKind::arrive_relaxed: {
      const uint32_t gate = gate_at(cluster, barrier | generation, kind);
      ++cluster.shape.gates[gate].arrivals;
      append(cluster, *event.fragment, StepKind::signal, gate).fence =
          event.block == nullptr && event.kind == RendezvousKind::arrive;
      break;
    }
    case RendezvousKind::complete: ++generation; break;
    case RendezvousKind::pass:
      if (generation == 0) break;
      append(cluster, *event.fragment, StepKind::wait, gate_at(cluster, barrier | (generation - 1), kind));
      break;
    case RendezvousKind::exit: break;
  }
}

void LaunchRecorder::wait_for(ClusterRecord& cluster, const machine::Fragment& fragment, GateKind kind,
                              const std::vector<uint32_t>& operations, Stage stage) {
  if (operations.empty()) return;
  const uint32_t gate = new_gate(cluster, kind);
  cluster.shape.gates[gate].arrivals = static_cast<uint32_t>(operations.size());
  for (const uint32_t each : operations) cluster.shape.operations[each].signals.push_back({gate, stage});
  append(cluster, fragment, StepKind::wait, gate);
}

// ---- Operations ----------------------------------------------------------------------------------------------------

void LaunchRecorder::describe_memory(ClusterRecord& cluster, const machine::AsyncOperation& operation,
                                     Operation& described) {
  const std::vector<machine::GlobalRange>& ranges = operation.global;
  if (ranges.empty()) return;
  const uint64_t pitch = ranges.size() > 1 ? ranges[1].address - ranges[0].address : 0;
  size_t rows = 1;  // of a plane
  while (rows < ranges.size() && ranges[rows].address == ranges[rows - 1].address + pitch) ++rows;
  const uint64_t plane_pitch = rows < ranges.size() ? ranges[rows].address - ranges[0].address : 0;
  bool regular = ranges.size() % rows == 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    regular = regular && ranges[i].bytes == ranges[0].bytes &&
              ranges[i].address == ranges[0].address + i / rows * plane_pitch + i % rows * pitch;
  }
  if (regular) {
    described.planes = static_cast<uint32_t>(ranges.size() / rows);
    described.rows = static_cast<uint32_t>(rows);
    described.row_bytes = static_cast<uint32_t>(ranges[0].bytes);
    described.plane_pitch = plane_pitch;
    described.pitch = pitch;
    described.address = static_cast<uint32_t>(cluster.trace.addresses.size());
    cluster.trace.addresses.push_back(ranges[0].address);
    return;
  }
  std::map<uint64_t, uint32_t> sectors;  // by line
  for (const machine::GlobalRange& range : ranges) {
    const uint64_t end = range.address + range.bytes;
    for (uint64_t at = range.address; at < end; at = (at / timing::kLineBytes + 1) * timing::kLineBytes) {
      const uint64_t last = std::min(end, (at / timing::kLineBytes + 1) * timing::kLineBytes) - 1;
      sectors[at / timing::kLineBytes] |= timing::sectors_between(at, last);
    }
  }
  described.first_line = static_cast<uint32_t>(cluster.trace.lines.size());
  described.lines = static_cast<uint32_t>(sectors.size());
  for (const auto& [line, bits] : sectors) cluster.trace.lines.push_back(timing::request_of(line, bits));
}

uint32_t LaunchRecorder::product_of(ClusterRecord& cluster, const machine::Fragment& fragment, uint64_t number) {
  const uint64_t key =
      uint64_t{fragment.block().rank} << 56 | uint64_t{fragment.warp->index / machine::kWarpgroupWarps} << 48 | number;
  const auto [found, is_new] = cluster.products.emplace(key, static_cast<uint32_t>(cluster.shape.operations.size()));
  if (is_new) {
    Operation& described = cluster.shape.operations.emplace_back();
    described.engine = Engine::product;
    described.block = fragment.block().rank;
    described.parts = 4;
  }
  return found->second;
}

void LaunchRecorder::warpgroup_issued(const machine::WarpgroupIssue& event) {
  ClusterRecord& cluster = cluster_of(event.fragment->block());
  if (cluster.idle) return;
  cluster.latest = product_of(cluster, *event.fragment, event.number);
  append(cluster, *event.fragment, StepKind::issue, cluster.latest);
}

void LaunchRecorder::warpgroup_waited(const machine::WarpgroupWait& event) {
  if (event.ended == 0) return;
  ClusterRecord& cluster = cluster_of(event.fragment->block());
  if (cluster.idle) return;
  const uint32_t operation = product_of(cluster, *event.fragment, event.ended);
  const auto [gate, is_new] = cluster.product_gates.emplace(operation, 0);
  if (is_new) {
    gate->second = new_gate(cluster, GateKind::products);
    cluster.shape.gates[gate->second].arrivals = 1;
    cluster.shape.operations[operation].signals.push_back({gate->second, Stage::done});
  }
  append(cluster, *event.fragment, StepKind::wait, gate->second);
}

void LaunchRecorder::operation_issued(const machine::AsyncOperation& operation) {
  const machine::Fragment& fragment = *operation.fragment;
  ClusterRecord& cluster = cluster_of(fragment.block());
  if (cluster.idle) return;
  const auto remember = [&](uint32_t index) {
    cluster.operations[operation.number] = index;
    cluster.latest = index;
  };
  if (operation.completion == machine::AsyncCompletion::warpgroup) {
    // The last of the four warps has just issued it.
    Operation& described = cluster.shape.operations[cluster.latest];
    described.m = operation.product.m;
    described.n = operation.product.n;
    described.k = operation.product.k;
    described.a_in_shared = operation.product.a_in_shared;
    return remember(cluster.latest);
  }
  if (operation.target != 0) {  // of the same copy
    cluster.shape.operations[cluster.latest].targets.push_back(rank_of(operation.barrier));
    return remember(cluster.latest);
  }
  const Engine engine = engine_of(operation, fragment.grid().kernel->traits_at(fragment.pc));
  WarpRecord& warp = cluster.warps[index_of(fragment)];
  if (engine == Engine::thread_copy && operation.bytes != 0 && warp.thread_copy_pc == fragment.pc &&
      cluster.latest != kNone && cluster.shape.operations[cluster.latest].engine == Engine::thread_copy) {
    // Another lane of the same instruction.
    Operation& described = cluster.shape.operations[cluster.latest];
    described.bytes += operation.bytes;
    const machine::GlobalRange& range = operation.global[0];
    const uint64_t last = range.address + std::max<uint64_t>(range.bytes, 1) - 1;
    if (add_to_line(cluster.trace.lines, described.first_line, range.address, last)) ++described.lines;
    return remember(cluster.latest);
  }
  const auto index = static_cast<uint32_t>(cluster.shape.operations.size());
  Operation& described = cluster.shape.operations.emplace_back();
  described.engine = engine;
  described.block = fragment.block().rank;
  described.bytes = operation.bytes;
  described.of_pair = operation.of_pair;
  described.tensor_memory = operation.completion == machine::AsyncCompletion::tensor_pipe;
  described.m = operation.product.m;
  described.n = operation.product.n;
  described.k = operation.product.k;
  described.a_in_shared = operation.product.a_in_shared;
  described.sparse = operation.product.sparse;
  if (engine == Engine::copy_in || engine == Engine::copy_between || engine == Engine::cluster_launch) {
    described.targets.push_back(rank_of(operation.barrier));
  }
  if (engine == Engine::tensor_copy) {
    for (const machine::SharedRange& range : operation.reads) described.bytes += range.bytes;
  }
  if (engine == Engine::thread_copy) {
    described.targets.push_back(fragment.block().rank);
    warp.thread_copy_pc = fragment.pc;
    described.first_line = static_cast<uint32_t>(cluster.trace.lines.size());
    if (!operation.global.empty()) {
      const machine::GlobalRange& range = operation.global[0];
      const uint64_t last = range.address + std::max<uint64_t>(range.bytes, 1) - 1;
      described.lines = 1;
      add_to_line(cluster.trace.lines, described.first_line, range.address, last);
    }
  } else {
    describe_memory(cluster, operation, described);
  }
  if (operation.completion == machine::AsyncCompletion::bulk_group) {
    warp.groups[{true, operation.lane}].open.push_back(index);
  } else if (operation.completion == machine::AsyncCompletion::copy_group) {
    warp.groups[{false, operation.lane}].open.push_back(index);
  }
  remember(index);
  append(cluster, fragment, StepKind::issue, index);
}

void LaunchRecorder::group_changed(const machine::GroupEvent& event) {
  ClusterRecord& cluster = cluster_of(event.fragment->block());
  if (cluster.idle) return;
  Groups& groups = cluster.warps[index_of(*event.fragment)].groups[{event.bulk, event.lane}];
  if (event.kind == machine::GroupEventKind::commit) {
    groups.closed.push_back(std::exchange(groups.open, {}));
    return;
  }
  std::vector<uint32_t> awaited;
  const size_t ending = groups.closed.size() - std::min<size_t>(groups.closed.size(), event.keep);
  for (size_t i = 0; i < ending; ++i) {
    awaited.insert(awaited.end(), groups.closed[i].begin(), groups.closed[i].end());
  }
  wait_for(cluster, *event.fragment, GateKind::copies, awaited, event.read_only ? Stage::source_read : Stage::done);
  // What has been read may still have to be waited for until it is written; nearly nobody does both.
  groups.closed.erase(groups.closed.begin(), groups.closed.begin() + static_cast<std::ptrdiff_t>(ending));
}

void LaunchRecorder::tensor_memory_changed(const machine::TensorEvent& event) {
  using machine::TensorEventKind;
  ClusterRecord& cluster = cluster_of(event.fragment->block());
  if (cluster.idle) return;
  WarpRecord& warp = cluster.warps[index_of(*event.fragment)];
  switch (event.kind) {
    case TensorEventKind::load:
    case TensorEventKind::store: {
      const bool load = event.kind == TensorEventKind::load;
      const auto index = static_cast<uint32_t>(cluster.shape.operations.size());
      Operation& described = cluster.shape.operations.emplace_back();
      described.engine = load ? Engine::tensor_load : Engine::tensor_store;
      described.block = event.fragment->block().rank;
      for (const machine::TensorRange& range : event.ranges) {
        described.bytes += uint64_t{range.columns} * static_cast<uint32_t>(std::popcount(range.lanes)) * 16 * 4;
      }
      (load ? warp.tensor_loads : warp.tensor_stores).push_back(index);
      append(cluster, *event.fragment, StepKind::issue, index);
      break;
    }
    case TensorEventKind::allocate:
    case TensorEventKind::deallocate: {
      uint32_t& held = cluster.tensor_columns[event.fragment->block().rank];
      for (const machine::TensorRange& range : event.ranges) {
        held = event.kind == TensorEventKind::allocate ? held + range.columns : held - std::min(held, range.columns);
      }
      cluster.shape.tensor_columns = std::max(cluster.shape.tensor_columns, held);
      break;
    }
    case TensorEventKind::wait_load:
      wait_for(cluster, *event.fragment, GateKind::loads, std::exchange(warp.tensor_loads, {}), Stage::done);
      break;
    case TensorEventKind::wait_store:
      wait_for(cluster, *event.fragment, GateKind::loads, std::exchange(warp.tensor_stores, {}), Stage::done);
      break;
    default: break;
  }
}

}  // namespace stagecraft::emulator::trace
