#include "emulator/scheduling/part_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "emulator/scheduling/warp_start.hpp"
#include "emulator/state/barrier_misuse.hpp"
#include "emulator/state/choices.hpp"
#include "emulator/state/register_writes.hpp"
#include "emulator/state/waiting.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Virtual cycles that a cluster may run ahead of the others.
constexpr Cycle kClusterSlice = 8192;
/// The same where the schedule is chosen and clusters wait for each other.
constexpr Cycle kShortClusterSlice = 256;
constexpr uint32_t kAlignment = 64;
/// What draws from the seed: where blocks go, how late each starts (by at most so many cycles), and slices.
constexpr uint64_t kOfPlaces = uint64_t{1} << 40, kOfStarts = uint64_t{1} << 41, kOfSlices = uint64_t{1} << 42;
constexpr Cycle kLatestStart = 2048;
/// Turns after which the clock says whether the host's memory could be used up; in one turn, lanes that touch a page
/// with each access take some 25 MB of it.
constexpr uint32_t kTurnsBetweenClocks = 16;

uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/// The local memory of a thread.
uint32_t local_bytes_of(const LaunchRequest& request) {
  const Kernel& kernel = *request.kernel;
  return round_up(kernel.local_bytes + (kernel.has_recursive_locals ? request.stack_bytes : 0), 16);
}

std::byte* allocate_bytes(size_t size) {
  return static_cast<std::byte*>(::operator new (std::max<size_t>(size, 1), std::align_val_t{kAlignment}));
}

void free_bytes(std::byte* bytes) { ::operator delete (bytes, std::align_val_t{kAlignment}); }

std::string_view name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address: return "illegal address";
    case FaultKind::misaligned_address: return "misaligned address";
    case FaultKind::illegal_instruction: return "illegal instruction";
    case FaultKind::invalid_address_space: return "invalid address space";
    case FaultKind::invalid_pc: return "invalid program counter";
    case FaultKind::stack_overflow: return "stack overflow";
    case FaultKind::assertion: return "assertion failed";
    case FaultKind::launch_failure: return "launch failure";
    case FaultKind::deadlock: return "deadlock";
    case FaultKind::host_memory: return "out of host memory";
    case FaultKind::timeout: return "limit";
  }
  return "fault";
}

}  // namespace

PartRun::PartRun(Grid& grid, RunResult& result, std::function<GoOn(Cycle)> goes_on)
    : grid_(grid), result_(result), goes_on_(std::move(goes_on)), random_(grid.request->seed) {
  const LaunchRequest& request = *grid.request;
  warps_per_block_ = warps_of(request.block.count());
  multiprocessor_ = resources_of(*grid.architecture);
  each_block_ = resources_of_block(*grid.kernel, request.block.count(), request.dynamic_shared_bytes);
  grid.region_count = request.grid.count() / request.region().count();
}

PartRun::~PartRun() {
  const auto release = [](Block& block) {
    free_bytes(block.register_files);
    free_bytes(block.local_memory);
  };
  for (const auto& cluster : grid_.resident) {
    for (const auto& block : cluster->blocks) release(*block);
  }
  for (const auto& block : spare_blocks_) release(*block);
}

void PartRun::run() {
  for (Observer* observer : grid_.observers) observer->grid_started(grid_);
  const Choices* const choices = grid_.request->choices;
  try {
    choices != nullptr && choices->decides_next() ? run_as_decided() : run_in_time();
  } catch (const Fault& fault) {
    report(fault, *current_);
  }
  for (Observer* observer : grid_.observers) observer->grid_finished(grid_);
  for (Observer* observer : grid_.observers) {
    for (Finding& finding : observer->findings()) result_.findings.push_back(std::move(finding));
    for (WrittenResult& written : observer->results()) result_.results.push_back(std::move(written));
  }
}

void PartRun::run_in_time() {
  // With choices a cluster's turn may be late, as that of its next warp.
  const bool is_chosen = grid_.request->choices != nullptr;
  const auto turn_of = [](const Cluster& cluster) { return std::max(cluster.now, cluster.next_turn); };
  const uint64_t seed = grid_.request->seed;
  // With launch control a cluster that is far ahead of others would take what they are about to ask for.
  const Cycle slice = !grid_.kernel->clusters_interact    ? kClusterSlice
                      : is_chosen                         ? kShortClusterSlice
                      : seed != 0                         ? kClusterSlice >> draw(seed, kOfSlices) % 6
                      : grid_.kernel->takes_over_clusters ? kShortClusterSlice
                                                          : kClusterSlice;
  const auto has_work = [this] {
    leave_out_what_is_not_needed(grid_);
    return !grid_.resident.empty() || grid_.has_next_cluster();
  };
  while (has_work()) {
    // The cluster that is furthest behind is next; one that could start counts from when its place became free.
    current_ = nullptr;
    for (const auto& cluster : grid_.resident) {
      if (!cluster->stuck && (current_ == nullptr || turn_of(*cluster) < turn_of(*current_))) current_ = cluster.get();
    }
    if (grid_.has_next_cluster()) {
      const std::vector<Sm*> room = find_room();
      if (!room.empty()) {
        Cycle free_at = 0;
        for (const Sm* sm : room) free_at = std::max(free_at, sm->free_at);
        if (current_ == nullptr || free_at <= turn_of(*current_)) {
          grid_.resident.push_back(start_cluster(room, free_at));
          current_ = grid_.resident.back().get();
          // All clusters that have room must start before a kernel asks which have not started, and before the seed
          // decides which of them is first.
          if (grid_.kernel->takes_over_clusters || (seed != 0 && grid_.kernel->clusters_interact)) continue;
        }
      }
    }
    if (current_ == nullptr) {
      // All that is left waits for tensor memory, and the blocks that could free it wait too.
      report_stuck(*grid_.resident.front(), result_.cycles);
      break;
    }
    if (const GoOn answer = goes_on_(current_->now); answer != GoOn::yes) {
      stop(answer, current_->now);
      break;
    }
    const Status status = advance(*current_, turn_of(*current_) + slice);
    result_.cycles = std::max(result_.cycles, current_->now);
    if (status == Status::finished) {
      finish_cluster(*current_);
    } else if (status == Status::repeating) {
      if (nothing_can_end()) {
        report_endless(*current_);
        break;
      }
    } else if (status == Status::stuck) {
      const bool others_may_help = std::any_of(current_->blocks.begin(), current_->blocks.end(), [](const auto& block) {
        return !block->sm->waiting_for_tensor_memory.empty() && block->sm->in_use.blocks > 1;
      });
      if (!others_may_help) {
        report_stuck(*current_, current_->now);
        break;
      }
      current_->stuck = true;
    }
  }
}

void PartRun::stop(GoOn why, Cycle now) {
  result_.ended = why;
  result_.progress.positions = positions_of(grid_);
  if (why == GoOn::no) return;
  Diagnostic report = new_report(why == GoOn::limit ? "limit" : "interrupted", "");
  report.message = why == GoOn::limit ? fmt::format("the kernel is not done after {} cycles of virtual time", now)
                                      : fmt::format("the kernel was interrupted after {} cycles of virtual time", now);
  result_.stop = {FaultKind::timeout, now, std::move(report)};
}

bool PartRun::nothing_can_end() const {
  // Each resident cluster has come back to an earlier state, and nothing has been done since that another could see.
  // Those that have not started wait until one of these ends.
  if (grid_.has_next_cluster() && !find_room().empty()) return false;
  return std::all_of(grid_.resident.begin(), grid_.resident.end(), [&](const auto& cluster) {
    return cluster->stuck || cluster->repeats_since == grid_.effects + 1;
  });
}

std::vector<Sm*> PartRun::find_room() const {
  // Blocks of one cluster go to different multiprocessors if there are enough. Pairs of blocks that share tensor
  // operations go to two neighbours, as on the chip. Between equals the first is taken; the seed decides which that is.
  const uint64_t blocks = shape_of_next_cluster(grid_).count();
  const uint32_t together = grid_.kernel->cta_group == 2 && blocks % 2 == 0 ? 2 : 1;
  const size_t places = grid_.sms.size() / together;
  const size_t shift = grid_.request->seed == 0 ? 0 : draw(grid_.request->seed, kOfPlaces) % places;
  std::vector<Sm*> chosen;
  std::vector<uint32_t> planned(grid_.sms.size(), 0);
  const auto planned_on = [&](const Sm& sm) -> uint32_t& {
    return planned[static_cast<size_t>(&sm - grid_.sms.data())];
  };
  const auto load = [&](const Sm& sm) { return sm.in_use.blocks + planned_on(sm); };
  for (uint64_t rank = 0; rank < blocks; rank += together) {
    Sm* best = nullptr;
    for (size_t i = 0; i < places; ++i) {
      const size_t place = i + shift < places ? i + shift : i + shift - places;
      const size_t first = place * together;
      Sm& sm = grid_.sms[first];
      const auto fits = [&](const Sm& each) {
        return has_room(multiprocessor_, each.in_use, each_block_, planned_on(each) + 1);
      };
      if (!fits(sm) || !fits(grid_.sms[first + together - 1])) continue;
      if (best == nullptr || load(sm) < load(*best) || (load(sm) == load(*best) && sm.free_at < best->free_at)) {
        best = &sm;
      }
    }
    if (best == nullptr) return {};
    for (uint32_t i = 0; i < together; ++i) {
      Sm& sm = best[i];  // the neighbour
      ++planned_on(sm);
      chosen.push_back(&sm);
    }
  }
  return chosen;
}

std::unique_ptr<Cluster> PartRun::start_cluster(const std::vector<Sm*>& sms, Cycle at) {
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid_;
  const ClusterPlace place = take_next_cluster(grid_);
  cluster->first_block = place.first_block;
  cluster->shape = place.shape;
  cluster->now = at;
  cluster->choices = grid_.request->choices;
  for (uint32_t rank = 0; rank < sms.size(); ++rank) start_block(*cluster, rank, *sms[rank], at);
  if (grid_.request->seed != 0) {
    cluster->next_turn = cluster->blocks[0]->warps[0].turn();
    for (const auto& block : cluster->blocks) cluster->next_turn = std::min(cluster->next_turn, block->warps[0].turn());
  }
  return cluster;
}

std::unique_ptr<Block> PartRun::take_block() {
  if (!spare_blocks_.empty()) {
    auto block = std::move(spare_blocks_.back());
    spare_blocks_.pop_back();
    return block;
  }
  const Kernel& kernel = *grid_.kernel;
  auto block = std::make_unique<Block>();
  const size_t register_bytes = size_t{kernel.register_bytes} * warps_per_block_;
  block->register_files = allocate_bytes(register_bytes);
  std::memset(block->register_files, 0, register_bytes);
  for (uint32_t warp = 0; warp < warps_per_block_; ++warp) {
    fill_constants(kernel, grid_.request->block, warp, block->register_files + size_t{kernel.register_bytes} * warp);
  }
  block->local_memory = allocate_bytes(size_t{local_bytes_of(*grid_.request)} * kWarpSize * warps_per_block_);
  return block;
}

void PartRun::start_block(Cluster& cluster, uint32_t rank, Sm& sm, Cycle at) {
  const Kernel& kernel = *grid_.kernel;
  cluster.blocks.push_back(take_block());
  Block& block = *cluster.blocks.back();
  ++cluster.live_blocks;
  ++result_.progress.blocks_running;
  block.cluster = &cluster;
  block.sm = &sm;
  block.rank = rank;
  const Extent3 inside = position(rank, cluster.shape);
  block.index = {cluster.first_block.x + inside.x, cluster.first_block.y + inside.y, cluster.first_block.z + inside.z};
  // What a program reads before it writes must not look like data: all ones is not a number in any float type.
  block.shared.assign(each_block_.shared_bytes, std::byte{0xff});
  block.named_barriers = {};
  block.mbarriers = {};
  block.bulk_groups.clear();
  block.copies.clear();
  block.pair_calls.clear();
  block.register_pool = {};
  block.warpgroups.clear();
  block.cluster_rounds.assign(size_t{warps_per_block_} * kWarpSize, 0);
  block.exited = false;
  block.has_seen_no_cluster_left = false;
  block.live_warps = warps_per_block_;
  sm.in_use += each_block_;
  if (kernel.uses_tensor_memory && grid_.architecture->has_tensor_memory() && sm.tensor_memory == nullptr) {
    sm.tensor_memory = std::make_unique<TensorMemory>();
  }
  const uint64_t number =
      block.index.x + grid_.request->grid.x * (block.index.y + uint64_t{grid_.request->grid.y} * block.index.z);
  const Cycle start = grid_.request->seed == 0 ? at : at + draw(grid_.request->seed, kOfStarts + number) % kLatestStart;
  const uint32_t local_stride = local_bytes_of(*grid_.request);
  block.warps.resize(warps_per_block_);
  for (uint32_t i = 0; i < warps_per_block_; ++i) {
    Warp& warp = block.warps[i];
    warp.block = &block;
    warp.grid = block.cluster->grid;
    warp.index = i;
    warp.registers = block.register_files + size_t{kernel.register_bytes} * i;
    warp.local = block.local_memory + size_t{local_stride} * kWarpSize * i;
    warp.local_stride = local_stride;
    warp.clock = start;
    start_warp(warp);
    if (cluster.choices != nullptr) cluster.choices->turn_ended(warp);
  }
  for (Observer* observer : grid_.observers) observer->block_started(block);
}

void PartRun::finish_block(Block& block) {
  Sm& sm = *block.sm;
  block.exited = true;
  --block.cluster->live_blocks;
  ++result_.progress.blocks_done;
  --result_.progress.blocks_running;
  sm.in_use -= each_block_;
  Cycle end = 0;
  for (const Warp& warp : block.warps) end = std::max(end, warp.clock);
  sm.free_at = std::max(sm.free_at, end);
  for (Observer* observer : grid_.observers) observer->block_finished(block);
  if (sm.tensor_memory == nullptr) return;
  sm.tensor_memory->forget(block);
  wake_for_tensor_memory(sm, end);
}

void PartRun::finish_cluster(const Cluster& cluster) {
  for (const auto& block : cluster.blocks) block->warps.clear();
  loops_.erase(&cluster);
  const auto place = std::find_if(grid_.resident.begin(), grid_.resident.end(),
                                  [&](const auto& each) { return each.get() == &cluster; });
  for (auto& block : (*place)->blocks) spare_blocks_.push_back(std::move(block));
  grid_.resident.erase(place);
}

Warp* PartRun::next_warp(Cluster& cluster) {
  // The warp that is furthest behind is next. Between equals the seed decides; seed 0 keeps the order of their numbers.
  Warp* best = nullptr;
  uint64_t best_rank = 0;
  for (const auto& block : cluster.blocks) {
    if (block->exited) continue;
    for (Warp& warp : block->warps) {
      if (!is_ready(warp)) continue;
      if (best != nullptr && warp.turn() > best->turn()) continue;
      const uint64_t rank = grid_.request->seed == 0 ? 0 : random_();
      if (best == nullptr || warp.turn() < best->turn() || rank < best_rank) {
        best = &warp;
        best_rank = rank;
      }
    }
  }
  return best;
}

void PartRun::carry_out(Cluster& cluster, const Event& event) {
  cluster.now = std::max(cluster.now, event.when.time);
  cluster.origin = event.origin;
  ++grid_.effects;
  event.action();
}

PartRun::Status PartRun::advance(Cluster& cluster, Cycle until) {
  EndlessLoopDetector& loops = loops_[&cluster];
  cluster.next_turn = 0;
  for (;;) {
    Warp* warp = next_warp(cluster);
    if (cluster.time_limits.precede(cluster.events)) {
      if (const Cycle time = cluster.time_limits.next_time(); warp == nullptr || time <= warp->turn()) {
        cluster.now = std::max(cluster.now, time);
        end_sleep(cluster.time_limits.next());
        continue;
      }
    } else if (!cluster.events.empty() && (warp == nullptr || cluster.events.next().time <= warp->turn())) {
      carry_out(cluster, cluster.events.take());
      continue;
    }
    if (warp == nullptr) return cluster.live_blocks == 0 ? Status::finished : Status::stuck;
    if (warp->turn() >= until) {
      cluster.now = std::max(cluster.now, warp->clock);
      cluster.next_turn = warp->turn();
      return Status::paused;
    }
    // A warp that was held back has slept, as it were: its clock shows the time of the cluster, like those of the
    // others.
    if (warp->lag != 0) warp->clock = std::max(warp->clock, cluster.now);
    cluster.now = std::max(cluster.now, warp->clock);
    const uint32_t turn =
        grid_.request->seed == 0 ? kWarpTurn : 32 + static_cast<uint32_t>(random_() % (2 * kWarpTurn));
    run_warp(*warp, turn, result_.executed);
    if (cluster.choices != nullptr) cluster.choices->turn_ended(*warp);
    if (++turns_ % kTurnsBetweenClocks == 0 && grid_.memory->host_memory().is_time_to_look()) look_at_host(*warp);
    if (loops.repeats(cluster, *warp, grid_.effects)) {
      cluster.repeats_since = grid_.effects + 1;
      cluster.now = std::max(cluster.now, warp->clock);
      return Status::repeating;
    }
    if (warp->live == 0 && warp->block->live_warps == 0 && !warp->block->exited) finish_block(*warp->block);
  }
}

void PartRun::look_at_host(const Warp& warp) const {
  HostMemory& host = grid_.memory->host_memory();
  if (host.has_room_now()) return;
  Cluster& cluster = *warp.block->cluster;
  cluster.origin = {warp.block, warp.index, 0, 0};
  if (!warp.fragments.empty()) cluster.origin.pc = warp.fragments.front()->pc;
  if (!warp.fragments.empty()) cluster.origin.lanes = warp.fragments.front()->mask;
  throw Fault(FaultKind::host_memory, "the host has no memory left for what the kernel touches",
              {fmt::format("the {} has {} bytes, of which {} are allocated; they cost memory of the host once "
                           "they are written",
                           grid_.architecture->name, grid_.memory->capacity(), grid_.memory->used()),
               "use less device memory, or a host with more"});
}

namespace {

/// The register with which an instruction addresses memory, if its function never writes it: "%rd4". Else empty.
std::string unwritten_address(const Kernel& kernel, uint32_t pc) {
  if (pc >= kernel.places.size() || kernel.places[pc].function == nullptr) return {};
  const ptx::Function& function = *kernel.places[pc].function;
  if (kernel.places[pc].instruction >= function.body.size()) return {};
  for (const ptx::Operand& operand : function.body[kernel.places[pc].instruction].operands) {
    if (operand.kind != ptx::OperandKind::address || operand.list.empty()) continue;
    const ptx::Operand& base = operand.list[0];
    if (base.kind != ptx::OperandKind::reg) continue;
    bool is_written = false;
    for_each_write(function, base.reg, [&](uint32_t) { is_written = true; });
    if (!is_written) return base.name;
  }
  return {};
}

}  // namespace

Place PartRun::place_of(const Cluster& cluster, const Fault& fault) const {
  Origin origin = cluster.origin;
  if (cluster.running != nullptr) {
    const Fragment& fragment = *cluster.running;
    origin = {&fragment.block(), fragment.warp->index, fragment.pc, fragment.mask};
  }
  Place place;
  place.kernel = grid_.kernel->display_name;
  place.source_file = grid_.kernel->source_file();
  if (origin.block == nullptr) return place;
  place.has_block = place.has_warp = true;
  place.block_x = origin.block->index.x;
  place.block_y = origin.block->index.y;
  place.block_z = origin.block->index.z;
  place.warp = origin.warp;
  place.lanes = fault.lanes != 0 ? fault.lanes : origin.lanes;
  place.source = grid_.kernel->describe_source(origin.pc);
  place.calls = grid_.kernel->describe_calls(origin.pc);
  place.instruction = grid_.kernel->describe_instruction(origin.pc);
  return place;
}

void PartRun::report(const Fault& fault, const Cluster& cluster) {
  Diagnostic report{fault.name.empty() ? std::string(name_of(fault.kind)) : fault.name, fault.message,
                    place_of(cluster, fault), fault.details, fault.likely_cause};
  const uint32_t pc = cluster.running != nullptr ? cluster.running->pc : cluster.origin.pc;
  if (const std::string address = unwritten_address(*grid_.kernel, pc);
      fault.kind == FaultKind::illegal_address && !address.empty()) {
    report.details = {fmt::format(
        "the address is in {}, which no instruction writes: nvcc leaves out a pointer to a variable of another memory "
        "than the instruction's, as one in __shared__ memory that is passed as a global one",
        address)};
    report.likely_cause = "are source and destination swapped?";
  }
  if (const auto* misuse = dynamic_cast<const BarrierMisuse*>(&fault)) {
    for (Observer* observer : grid_.observers) observer->barrier_misused(*misuse, report);
  }
  result_.stop = {fault.kind, cluster.now, std::move(report), cluster.running == nullptr};
}

Diagnostic PartRun::new_report(const char* kind, const char* message) const {
  Diagnostic report;
  report.kind = kind;
  report.message = message;
  report.place.kernel = grid_.kernel->display_name;
  report.place.source_file = grid_.kernel->source_file();
  return report;
}

void PartRun::report_endless(const Cluster& cluster) {
  Diagnostic report = new_report(
      "endless loop", "the same instructions are executed again and again, with the same values in all registers");
  for (Observer* observer : grid_.observers) observer->cluster_repeated(cluster, report);
  result_.stop = {FaultKind::deadlock, cluster.now, std::move(report)};
}

void PartRun::report_stuck(const Cluster& cluster, Cycle at) {
  Diagnostic report = new_report("deadlock", "nothing in a cluster can go on");
  for (Observer* observer : grid_.observers) observer->cluster_stuck(cluster, report);
  result_.stop = {FaultKind::deadlock, at, std::move(report)};
}

}  // namespace stagecraft::emulator::machine
