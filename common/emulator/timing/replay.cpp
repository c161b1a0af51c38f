#include "emulator/timing/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <utility>

#include "emulator/timing/block_places.hpp"
#include "emulator/timing/code_schedule.hpp"
#include "emulator/timing/engines.hpp"
#include "emulator/timing/machine_schedule.hpp"
#include "emulator/timing/replay_state.hpp"

namespace stagecraft::emulator::timing {
namespace {

/// Cycles by which a warp's accesses may be ahead of shared memory before it waits. Not measured: the queue of a
/// multiprocessor has some tens of requests.
constexpr double kQueueOfPort = 64;

/// Registers that loads which ptxas moves up fill at once, at most. Source: the machine code of an unrolled loop over
/// shared memory (tests/silicon/plain_kernels.cu: sgemm_tiled), where ten loads come before the first use, and of one
/// that fills tiles from global memory (SGEMM_CUDA's tenth kernel), where eight loads of 16 bytes do.
constexpr size_t kSharedAhead = 24, kGlobalAhead = 64;
/// Columns of a multiprocessor's tensor memory. A block that asks for more than are free waits, so as many blocks are
/// at work as have room for theirs.
constexpr uint32_t kTensorColumns = 512;

/// Steps of the warp among which such loads are looked for.
constexpr size_t kStepsAhead = 96;

/// Cycles by which stores may be ahead of L2, or of their way to it, before a warp waits. Not measured: as long as a
/// request is under way anyway.
constexpr double kQueueOfStores = 500;

/// A part of a block that is done without its waits, if there are no accesses.
constexpr double kShortShare = 0.2;

class Replay {
 public:
  Replay(const LaunchTrace& trace, const ChipModel& chip, double megahertz, const L2Contents* before)
      : trace_(trace),
        chip_(chip),
        memory_(chip, megahertz, trace.thinned ? nullptr : before, trace.thinned ? trace.described_part : 1),
        engines_(chip, memory_),
        schedule_(*trace.code, chip),
        machine_(schedule_of_machine_code(trace, schedule_, chip)),
        places_(chip.multiprocessors, Multiprocessor(chip.l1_bytes_capacity)),
        block_places_(chip, places_, fitting_blocks(trace)),
        ends_(size_t{chip.multiprocessors} * kSubPartitions) {
    for (uint32_t i = 0; i < chip.multiprocessors; ++i) places_[i].index = i;
    if (trace.order.alone) {
      launch_ = chip.launch_alone;
    } else if (trace.order.overlaps) {
      launch_ = trace.order.in_graph ? chip.overlapping_in_graph : chip.overlapping;
    } else {
      launch_ = trace.order.in_graph ? chip.launch_in_graph : chip.launch;
    }
    result_.warps.resize(trace.warps_per_block);
  }

  Result run() {
    // What a launch that may overlap does before it waits for the one before, it does meanwhile.
    start_clusters(trace_.order.overlaps ? 0 : launch_, /*at_once=*/true);
    for (;;) {
      if (std::isfinite(ends_.first().at) && (events_.empty() || ends_.is_before(events_.top()))) {
        now_ = ends_.first().at;
        end_parts(ends_.first().part);
        continue;
      }
      if (events_.empty()) break;
      const ReplayEvent event = events_.top();
      events_.pop();
      now_ = event.at;
      switch (event.kind) {
        case EventKind::warp: advance(*warps_[event.index]); break;
        case EventKind::arrival:
          // A store may end after the warps of its cluster.
          if (clusters_[event.index]) arrive(*clusters_[event.index], event.value);
          break;
        case EventKind::copy: ask_for_lines(places_[event.index]); break;
        case EventKind::start_cluster: start_clusters(now_, /*at_once=*/false); break;
      }
    }
    finish();
    return std::move(result_);
  }
  L2Contents take_l2() { return memory_.take_contents(); }

 private:
  void plan(double at, EventKind kind, uint32_t index, uint32_t value = 0) {
    events_.push({std::max(at, now_), ++order_, kind, index, value});
  }

  static std::unique_ptr<MachineSchedule> schedule_of_machine_code(const LaunchTrace& trace, const CodeSchedule& pieces,
                                                                   const ChipModel& chip) {
    if (trace.machine_code == nullptr) return nullptr;
    return std::make_unique<MachineSchedule>(*trace.code, *trace.machine_code, pieces, chip);
  }

  /// The blocks of a multiprocessor at once.
  static uint32_t fitting_blocks(const LaunchTrace& trace) {
    uint32_t fitting = trace.blocks_per_multiprocessor;
    for (const ClusterTrace& each : trace.clusters) {
      if (each.shape->tensor_columns == 0) continue;
      fitting = std::min(fitting, std::max(kTensorColumns / each.shape->tensor_columns, 1u));
    }
    return fitting;
  }

  // ---- Clusters ------------------------------------------------------------------------------------------------

  /// Starts those that find a place: at once where a grid begins, and later one block after the other.
  void start_clusters(double at, bool at_once) {
    while (next_cluster_ < trace_.clusters.size()) {
      const ClusterTrace& next = trace_.clusters[next_cluster_];
      std::vector<Multiprocessor*> places = block_places_.take(next.shape->blocks);
      if (places.empty()) return;
      const double start = at_once ? at : std::max(next_block_at_, at);
      if (!at_once) next_block_at_ = start + static_cast<double>(next.shape->blocks) / chip_.block_rate;
      start_cluster(next, std::move(places), start);
      ++next_cluster_;
    }
  }

  void start_cluster(const ClusterTrace& trace, std::vector<Multiprocessor*> places, double at) {
    const ClusterShape& shape = *trace.shape;
    uint32_t id = static_cast<uint32_t>(clusters_.size());
    clusters_.push_back(std::make_unique<RunningCluster>());
    RunningCluster& cluster = *clusters_.back();
    cluster.trace = &trace;
    cluster.id = id;
    cluster.places = std::move(places);
    cluster.live_warps.assign(shape.blocks, trace_.warps_per_block);
    cluster.parts_issued.assign(shape.operations.size(), 0);
    cluster.products_end.assign(shape.blocks, 0);
    cluster.gates.resize(shape.gates.size());
    for (size_t i = 0; i < shape.gates.size(); ++i) cluster.gates[i].left = shape.gates[i].arrivals;
    cluster.warps.resize(shape.warps.size());
    for (size_t i = 0; i < shape.warps.size(); ++i) {
      ReplayedWarp& warp = cluster.warps[i];
      warp.cluster = &cluster;
      warp.id = static_cast<uint32_t>(warps_.size());
      warp.block_rank = static_cast<uint32_t>(i / trace_.warps_per_block);
      warp.number = static_cast<uint32_t>(i % trace_.warps_per_block);
      warp.steps = &shape.warps[i];
      warp.began = warp.since = at;
      warps_.push_back(&warp);
      plan(at, EventKind::warp, warp.id);
    }
  }

  /// Ends the warp, and with its last one the cluster: neither exists afterwards.
  void end_warp(ReplayedWarp& warp) {
    RunningCluster& cluster = *warp.cluster;
    result_.warps[warp.number].all += now_ - warp.began;
    end_ = std::max(end_, now_);
    if (--cluster.live_warps[warp.block_rank] == 0) {
      --cluster.places[warp.block_rank]->blocks;
      plan(now_ + chip_.next_block, EventKind::start_cluster, 0);
    }
    warps_[warp.id] = nullptr;
    const bool is_last =
        std::all_of(cluster.live_warps.begin(), cluster.live_warps.end(), [](uint32_t live) { return live == 0; });
    if (!is_last) return;
    clusters_[cluster.id].reset();
    ++ended_;
    if (ended_ * 4 <= trace_.clusters.size()) quarter_at_ = now_;
    if (ended_ * 4 <= trace_.clusters.size() * 3) three_quarters_at_ = now_;
  }

  // ---- Warps ---------------------------------------------------------------------------------------------------

  void spend(ReplayedWarp& warp, Spent on, double cycles) {
    if (cycles <= 0) return;
    result_.warps[warp.number].cycles[static_cast<size_t>(on)] += cycles;
    if (on != Spent::running) result_.stalls[warp.pc] += cycles;
  }

  /// Goes on at a later time; until then the warp waits for this.
  void pause(ReplayedWarp& warp, double until, Spent reason) {
    spend(warp, reason, until - now_);
    plan(until, EventKind::warp, warp.id);
  }

  /// Does steps of a warp until it must wait.
  void advance(ReplayedWarp& warp) {
    for (;;) {
      if (warp.block != nullptr) {
        if (!go_on_in_block(warp)) return;
        continue;
      }
      if (warp.parts != nullptr) {
        if (warp.part < warp.parts->size()) {
          if (!start_part(warp)) return;
          continue;
        }
        warp.parts = nullptr;
        if (warp.resumes == ReplayedWarp::kAtStart) ++warp.step;
      }
      if (warp.step == warp.steps->size()) return end_warp(warp);
      const Step& step = (*warp.steps)[warp.step];
      if (step.kind == StepKind::run) {
        begin_run(warp, step);
        continue;
      }
      warp.pc = step.pc;
      if (!do_step(warp, step)) return;
      ++warp.step;
    }
  }

  // ---- Machine code --------------------------------------------------------------------------------------------

  uint32_t instruction_at(uint32_t pc) const { return (*trace_.code)[pc].begin; }
  const MachineBlock* block_of(uint32_t pc) const { return machine_ == nullptr ? nullptr : machine_->block_of(pc); }

  /// Begins a run, or goes on with it where a block ends within it: with the block of its first instruction, or with
  /// what is before the next instruction that has one.
  void begin_run(ReplayedWarp& warp, const Step& step) {
    const uint32_t first = warp.resumes == ReplayedWarp::kAtStart ? step.pc : warp.resumes;
    warp.resumes = ReplayedWarp::kAtStart;
    if (const MachineBlock* const block = block_of(first)) return enter_block(warp, *block, first);
    uint32_t behind = first + 1;
    while (behind <= step.value && block_of(behind) == nullptr) ++behind;
    if (behind <= step.value) warp.resumes = behind;
    warp.parts = &schedule_.parts(first, behind - 1, behind <= step.value ? RunEnd::other : step.end);
    warp.part = 0;
  }

  /// Finds the steps that a warp does in a block: until it leaves it, or has gone through it.
  void enter_block(ReplayedWarp& warp, const MachineBlock& block, uint32_t first) {
    const std::vector<Step>& steps = *warp.steps;
    warp.block = &block;
    warp.block_part = 0;
    warp.part_done = false;
    warp.accesses.clear();
    uint32_t last = first;
    warp.share = 0;
    warp.visits.clear();
    CodePart& functions = warp.functions;
    functions = {};
    size_t i = warp.step;
    for (; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (step.kind == StepKind::access && block_of(step.pc) == &block) {
        warp.accesses.push_back(i);
        continue;
      }
      if (step.kind != StepKind::run) break;
      const uint32_t begin = i == warp.step ? first : step.pc;
      if (block_of(begin) != &block) break;
      if (i != warp.step && begin <= last && !visit_again(warp, begin)) break;
      last = begin;
      note_visit(warp, begin);
      while (last < step.value && block_of(last + 1) == &block) {
        ++last;
        if (schedule_.piece(last) == last) note_visit(warp, last);
      }
      if (last < step.value) {
        warp.resumes = last + 1;
        break;
      }
      const InstructionCost& cost = chip_.costs[static_cast<size_t>((*trace_.code)[last].kind)];
      functions.cycles += cost.function_cycles(step.end);
      functions.pipes[static_cast<size_t>(Pipe::issue)] += cost.function_instructions(step.end);
    }
    warp.step_behind = i;
    // The sum is enough where the warp does only a small part.
    warp.in_short = warp.accesses.empty() && warp.share < kShortShare;
    const size_t next = i < steps.size() && steps[i].kind == StepKind::part ? i + 1 : i;
    warp.jumps = next < steps.size() && warp.resumes == ReplayedWarp::kAtStart && steps[next].kind == StepKind::run &&
                 steps[next].pc != last + 1;
    // Accesses that are elsewhere in the machine code, mostly before a loop.
    std::erase_if(warp.accesses, [&](size_t each) {
      const Step& step = steps[each];
      if (std::binary_search(block.accesses.begin(), block.accesses.end(), instruction_at(step.pc))) return false;
      access_now(warp, step, machine_->scoreboard_of(instruction_at(step.pc)));
      return true;
    });
  }

  /// Counts a piece of PTX code, unless it is what the warp is in already.
  void note_visit(ReplayedWarp& warp, uint32_t pc) {
    const uint32_t piece = schedule_.piece(pc);
    if (std::exchange(warp.piece, piece) == piece && pc != piece) return;
    warp.visits.push_back(piece);
    warp.share += machine_->share_of(pc);
  }
  /// Whether the block has one more copy of a piece.
  bool visit_again(const ReplayedWarp& warp, uint32_t pc) const {
    const auto visits = std::count(warp.visits.begin(), warp.visits.end(), schedule_.piece(pc));
    return visits < machine_->copies_of(pc);
  }

  void access_now(ReplayedWarp& warp, const Step& step, uint8_t scoreboard) {
    const double at = do_access(warp, step, warp.cluster->trace->shape->accesses[step.value]);
    if (scoreboard >= warp.scoreboards.size()) return;
    warp.scoreboards[scoreboard] = std::max(warp.scoreboards[scoreboard], at);
  }

  /// Executes the rest of a block until the warp must wait. Returns whether it has ended.
  bool go_on_in_block(ReplayedWarp& warp) {
    const std::vector<MachinePart>& parts = warp.in_short ? warp.block->sum : warp.block->parts;
    for (; warp.block_part < parts.size(); ++warp.block_part) {
      const MachinePart& part = parts[warp.block_part];
      warp.pc = part.code.pc;
      if (!warp.part_done) {
        double ready = now_;
        for (uint32_t board = 0; board < warp.scoreboards.size(); ++board) {
          if ((part.waits >> board & 1) != 0) ready = std::max(ready, warp.scoreboards[board]);
        }
        if (ready > now_) {
          pause(warp, ready, Spent::loads);
          return false;
        }
        warp.part_done = true;
        CodePart code = part.code;
        if (warp.jumps && warp.block_part + 1 == parts.size()) code.cycles += chip_.taken_branch;
        code.cycles *= warp.share;
        for (double& each : code.pipes) each *= warp.share;
        if (warp.block_part == 0) {
          code.cycles += warp.functions.cycles;
          for (size_t pipe = 0; pipe < kPipes; ++pipe) code.pipes[pipe] += warp.functions.pipes[pipe];
        }
        if (code.cycles > 0) {
          start_code(warp, code);
          return false;
        }
      }
      if (part.access != MachineInstruction::kNone) {
        const std::vector<Step>& steps = *warp.steps;
        auto next = std::find_if(warp.accesses.begin(), warp.accesses.end(),
                                 [&](size_t each) { return instruction_at(steps[each].pc) == part.access; });
        if (next != warp.accesses.end()) {
          if (waits_for_queue(warp, warp.cluster->trace->shape->accesses[steps[*next].value])) return false;
          // A PTX instruction may be several accesses, as of a wmma fragment.
          for (int64_t pc = -1;
               next != warp.accesses.end() && steps[*next].pc > pc && instruction_at(steps[*next].pc) == part.access;) {
            pc = steps[*next].pc;
            access_now(warp, steps[*next], part.result);
            next = warp.accesses.erase(next);
          }
        }
      }
      for (const auto& [board, cycles] : part.held) {
        warp.scoreboards[board] = std::max(warp.scoreboards[board], now_ + cycles);
      }
      warp.part_done = false;
    }
    for (const size_t each : warp.accesses) {
      const Step& step = (*warp.steps)[each];
      access_now(warp, step, machine_->scoreboard_of(instruction_at(step.pc)));
    }
    std::erase_if(warp.loads, [&](const auto& load) { return load.second <= now_; });
    warp.block = nullptr;
    warp.step = warp.step_behind;
    return true;
  }

  void start_code(ReplayedWarp& warp, const CodePart& part) {
    Multiprocessor& place = *warp.cluster->places[warp.block_rank];
    const uint32_t quarter = warp.number % kSubPartitions;
    warp.since = now_;
    warp.alone = part.cycles;
    place.parts[quarter].start(now_, warp.id - warp.number, warp.id, part);
    plan_end(place, quarter);
  }

  // ---- PTX without machine code --------------------------------------------------------------------------------

  /// Starts a piece of code. Returns whether it took no time.
  bool start_part(ReplayedWarp& warp) {
    const CodePart& part = (*warp.parts)[warp.part];
    warp.pc = part.pc;
    double ready = now_;
    for (const uint32_t need : part.needs) {
      for (const auto& [register_id, at] : warp.loads) {
        if (register_id == need) ready = std::max(ready, at);
      }
    }
    if (ready > now_) {
      load_ahead(warp, part.pc);
      pause(warp, ready, Spent::loads);
      return false;
    }
    std::erase_if(warp.loads, [&](const auto& load) { return load.second <= now_; });
    if (part.cycles <= 0) {
      ++warp.part;
      return true;
    }
    start_code(warp, part);
    return false;
  }

  /// What the warp waits for, ptxas would have asked for earlier, with the loads after it: does those of the same
  /// straight code that can be done before `pc`.
  void load_ahead(ReplayedWarp& warp, uint32_t pc) {
    const uint32_t piece = schedule_.piece(pc);
    const std::vector<Step>& steps = *warp.steps;
    uint32_t last = pc;
    for (size_t i = warp.step + 1; i < std::min(steps.size(), warp.step + kStepsAhead); ++i) {
      const Step& step = steps[i];
      if (step.kind != StepKind::run && step.kind != StepKind::access) return;
      if (step.pc < last || schedule_.piece(step.pc) != piece) return;
      last = step.pc;
      if (step.kind == StepKind::run) continue;
      const Instruction& load = (*trace_.code)[step.pc];
      if (schedule_.earliest(step.pc) > pc) continue;
      if (warp.loads.size() + load.writes.size() > (load.shared ? kSharedAhead : kGlobalAhead)) return;
      const bool address_is_there = std::none_of(load.reads.begin(), load.reads.end(), [&](uint32_t read) {
        return std::any_of(warp.loads.begin(), warp.loads.end(), [&](const auto& each) { return each.first == read; });
      });
      if (!address_is_there || std::find(warp.ahead.begin(), warp.ahead.end(), i) != warp.ahead.end()) continue;
      do_access(warp, step, warp.cluster->trace->shape->accesses[step.value]);
      warp.ahead.push_back(i);
    }
  }

  void plan_end(const Multiprocessor& place, uint32_t quarter) {
    NextEnds::End end;
    if (const double at = place.parts[quarter].next_end(); at >= 0) end.at = std::max(at, now_), end.order = ++order_;
    end.part = place.index * kSubPartitions + quarter;
    ends_.plan(end);
  }

  void end_parts(uint32_t number) {
    Multiprocessor& place = places_[number / kSubPartitions];
    const uint32_t quarter = number % kSubPartitions;
    ended_pieces_.clear();
    place.parts[quarter].finished(now_, ended_pieces_);
    plan_end(place, quarter);
    for (const uint32_t id : ended_pieces_) {
      ReplayedWarp& warp = *warps_[id];
      spend(warp, Spent::running, warp.alone);
      spend(warp, Spent::crowded, now_ - warp.since - warp.alone);
      if (warp.block == nullptr) ++warp.part;
      advance(warp);
    }
  }

  /// Returns whether the warp goes on at once.
  bool do_step(ReplayedWarp& warp, const Step& step) {
    RunningCluster& cluster = *warp.cluster;
    const ClusterShape& shape = *cluster.trace->shape;
    switch (step.kind) {
      case StepKind::run: break;
      case StepKind::signal: {
        if (step.fence && !warp.fenced) {
          warp.fenced = true;
          begin_fence(warp);
          return false;
        }
        warp.fenced = false;
        const bool is_mbarrier = shape.gates[step.value].kind == GateKind::mbarrier;
        const double after = !is_mbarrier ? 0 : step.remote ? chip_.remote_arrival : chip_.arrival;
        plan(now_ + after, EventKind::arrival, cluster.id, step.value);
        break;
      }
      case StepKind::part: {
        if (machine_ != nullptr && !machine_->branches_at(step.pc)) break;
        CodePart code;
        code.pc = step.pc;
        code.cycles = chip_.parting;
        code.pipes[static_cast<size_t>(Pipe::issue)] = chip_.parting_slots;
        ++warp.step;
        start_code(warp, code);
        return false;
      }
      case StepKind::wait: {
        OpenGate& gate = cluster.gates[step.value];
        if (gate.left != 0) {
          warp.since = now_;
          gate.waiting.push_back(warp.id);
          return false;
        }
        if (const double passes = passes_at(shape.gates[step.value], gate); passes > now_) {
          ++warp.step;
          pause(warp, passes, reason_of(shape.gates[step.value].kind));
          return false;
        }
        break;
      }
      case StepKind::issue: {
        const Operation& operation = shape.operations[step.value];
        if (operation.engine == Engine::copy_in || operation.engine == Engine::copy_out) {
          if (warp.next_copy > now_) {
            pause(warp, warp.next_copy, Spent::running);
            return false;
          }
          warp.next_copy = now_ + chip_.copy_gap;
        }
        if (++cluster.parts_issued[step.value] < operation.parts) break;
        if (operation.engine == Engine::copy_in) {
          Multiprocessor& place = *cluster.places[operation.block];
          place.copies.push_back(engines_.begin_copy(now_, cluster, operation));
          if (place.copies.size() == 1) plan(place.copies.front().start, EventKind::copy, place.index);
          break;
        }
        const OperationTimes times = engines_.start(now_, cluster, operation, warp.number);
        for (const Signal& signal : operation.signals) {
          plan(signal.stage == Stage::done ? times.done : times.source_read, EventKind::arrival, cluster.id,
               signal.gate);
        }
        break;
      }
      case StepKind::depend:
        if (!trace_.order.overlaps || now_ >= launch_) break;
        ++warp.step;
        pause(warp, launch_, Spent::grid);
        return false;
      case StepKind::access: return access(warp, step, shape.accesses[step.value]);
    }
    return true;
  }

  /// A fence of the cluster ends when the copies have landed that its multiprocessor has under way where it begins.
  /// Source: tests/silicon/results, cluster-products: with four copies of 16 KiB under way it takes as long as they do.
  void begin_fence(ReplayedWarp& warp) {
    Multiprocessor& place = *warp.cluster->places[warp.block_rank];
    warp.since = now_;
    if (place.copies.empty()) {
      end_fence(warp, place);
    } else {
      place.copies.back().fences.push_back(warp.id);
    }
  }

  void end_fence(ReplayedWarp& warp, const Multiprocessor& place) {
    const double at = std::max(warp.since + chip_.release_fence, place.copies_land);
    spend(warp, Spent::fence, at - warp.since);
    plan(at, EventKind::warp, warp.id);
  }

  /// Asks for the next lines of the engine's first copy.
  void ask_for_lines(Multiprocessor& place) {
    CopyUnderWay& copy = place.copies.front();
    double next = engines_.ask_for_lines(now_, place, copy);
    if (copy.asked == copy.lines.size()) {
      for (const Signal& signal : copy.operation->signals)
        plan(copy.arrives, EventKind::arrival, copy.cluster, signal.gate);
      place.copies_land = std::max(place.copies_land, copy.arrives);
      for (const uint32_t id : copy.fences) end_fence(*warps_[id], place);
      place.copies.pop_front();
      if (place.copies.empty()) return;
      next = std::max(next, place.copies.front().start);
    }
    plan(next, EventKind::copy, place.index);
  }

  bool access(ReplayedWarp& warp, const Step& step, const Access& access) {
    if (const auto done = std::find(warp.ahead.begin(), warp.ahead.end(), warp.step); done != warp.ahead.end()) {
      warp.ahead.erase(done);
      return true;
    }
    if (waits_for_queue(warp, access)) return false;
    do_access(warp, step, access);
    return true;
  }

  /// Whether a warp has to wait before it can ask for an access; it then does.
  bool waits_for_queue(ReplayedWarp& warp, const Access& access) {
    const Multiprocessor& place = *warp.cluster->places[warp.block_rank];
    double free_at = place.port.free_at() - kQueueOfPort;
    if (access.store && !access.shared) {
      free_at = std::max({free_at, place.copy_out.free_at() - kQueueOfStores, memory_.l2_free_at() - kQueueOfStores});
    }
    if (free_at > now_ && !warp.queued) {
      warp.queued = true;
      pause(warp, free_at, Spent::port);
      return true;
    }
    warp.queued = false;
    return false;
  }

  /// Returns when its result is there.
  double do_access(ReplayedWarp& warp, const Step& step, const Access& access) {
    Multiprocessor& place = *warp.cluster->places[warp.block_rank];
    const double at = engines_.access(now_, place, *warp.cluster->trace, access);
    if (!access.store || access.atomic) {
      for (const uint32_t written : (*trace_.code)[step.pc].writes) warp.loads.emplace_back(written, at);
    }
    // A launch ends when what it has asked of memory is done, and nobody may wait for that.
    if ((access.store || access.atomic) && !access.shared) stored_ = std::max(stored_, at);
    return at;
  }

  // ---- Gates ---------------------------------------------------------------------------------------------------

  /// When a warp that waits for an open gate goes on, at the earliest.
  double passes_at(const Gate& gate, const OpenGate& state) const {
    switch (gate.kind) {
      case GateKind::mbarrier: return std::max(now_, state.open_at) + chip_.poll;
      case GateKind::named_barrier: return state.open_at + chip_.barrier_base + chip_.barrier_per_warp * gate.arrivals;
      case GateKind::cluster_barrier: return state.open_at + chip_.cluster_barrier;
      case GateKind::copies:
      case GateKind::products:
      case GateKind::loads: break;
    }
    return state.open_at;
  }

  static Spent reason_of(GateKind kind) {
    switch (kind) {
      case GateKind::mbarrier: return Spent::mbarrier;
      case GateKind::named_barrier:
      case GateKind::cluster_barrier: return Spent::barrier;
      case GateKind::copies: return Spent::copies;
      case GateKind::products: return Spent::products;
      case GateKind::loads: break;
    }
    return Spent::loads;
  }

  void arrive(RunningCluster& cluster, uint32_t number) {
    OpenGate& gate = cluster.gates[number];
    if (gate.left == 0 || --gate.left != 0) return;
    gate.open_at = now_;
    const Gate& described = cluster.trace->shape->gates[number];
    const double passes = passes_at(described, gate);
    for (const uint32_t id : std::exchange(gate.waiting, {})) {
      ReplayedWarp& warp = *warps_[id];
      spend(warp, reason_of(described.kind), passes - warp.since);
      ++warp.step;
      plan(passes, EventKind::warp, id);
    }
  }

  // ---- The end -------------------------------------------------------------------------------------------------

  /// Why the replay ended before the launch; empty when it did not.
  std::string why_not_modelled() const {
    const auto unfinished = std::count_if(warps_.begin(), warps_.end(), [](const auto* warp) { return warp; });
    if (unfinished != 0) {
      return fmt::format("{} of {} warps wait in the replay for arrivals that were not recorded", unfinished,
                         warps_.size());
    }
    if (next_cluster_ < trace_.clusters.size()) {
      return fmt::format("{} of {} clusters of {} blocks found no place on the model of the {}",
                         trace_.clusters.size() - next_cluster_, trace_.clusters.size(),
                         trace_.clusters[next_cluster_].shape->blocks, chip_.name);
    }
    return {};
  }

  void finish() {
    result_.not_modelled = why_not_modelled();
    result_.cycles = std::max(end_, stored_);
    result_.multiprocessors = chip_.multiprocessors;
    for (const Multiprocessor& place : places_) {
      result_.tensor_busy += place.tensor.busy();
      result_.shared_busy += place.port.busy();
      result_.copy_in_busy += place.copy_in.busy();
      result_.copy_out_busy += place.copy_out.busy();
      for (const SubPartition& part : place.parts) {
        result_.issue_busy += part.issued() / kSubPartitions;
        result_.tensor_busy += part.products() * chip_.part_of_warp_product / kSubPartitions;
      }
    }
    result_.l2_busy = std::max(memory_.l2_busy(), memory_.writes_busy());
    result_.paths_busy = memory_.paths_busy();
    result_.dram_busy = memory_.dram_busy();
    result_.l2_bytes = memory_.l2_bytes_moved();
    result_.dram_bytes = memory_.dram_bytes_moved();
    result_.operations = engines_.operations();
    result_.bytes = engines_.bytes();
    extrapolate();
  }

  /// The rest of the launch goes on as what was replayed.
  void extrapolate() {
    result_.incomplete = trace_.left_out;
    const double times = trace_.extrapolation;
    if (times == 1) return;
    size_t blocks = 0;
    for (const ClusterTrace& cluster : trace_.clusters) blocks += cluster.shape->blocks;
    result_.extrapolated = fmt::format("{} of {} blocks", blocks, trace_.blocks);
    if (trace_.described_part < 1) {
      result_.extrapolated +=
          fmt::format(", {}{:.2g}% of what each does", trace_.thinned ? "" : "the first ", 100 * trace_.described_part);
    }
    if (trace_.described_part < 1 || trace_.clusters.size() < 4) {
      result_.cycles = launch_ + (result_.cycles - launch_) * times;
    } else {
      // The beginning and the end of the launch come once; the middle goes on.
      result_.cycles += (times - 1) * 2 * (three_quarters_at_ - quarter_at_);
    }
    for (double* const each :
         {&result_.tensor_busy, &result_.shared_busy, &result_.copy_in_busy, &result_.copy_out_busy,
          &result_.issue_busy, &result_.l2_busy, &result_.paths_busy, &result_.dram_busy, &result_.l2_bytes,
          &result_.dram_bytes, &result_.operations, &result_.bytes}) {
      *each *= times;
    }
  }

  const LaunchTrace& trace_;
  const ChipModel& chip_;
  MemorySystem memory_;
  Engines engines_;
  CodeSchedule schedule_;
  std::unique_ptr<MachineSchedule> machine_;  ///< null where there is no machine code
  std::vector<Multiprocessor> places_;
  BlockPlaces block_places_;
  std::vector<std::unique_ptr<RunningCluster>> clusters_;  ///< null when they have ended, as are their warps
  std::vector<ReplayedWarp*> warps_;
  double next_block_at_ = 0;  ///< not before
  size_t next_cluster_ = 0, ended_ = 0;
  double quarter_at_ = 0, three_quarters_at_ = 0;  ///< when so many clusters had ended
  ReplayEvents events_;
  NextEnds ends_;
  std::vector<uint32_t> ended_pieces_;  ///< their warps, of the latest end
  uint64_t order_ = 0;
  double launch_ = 0;  ///< when the launch before has ended, and this one may use what it has written
  double now_ = 0, end_ = 0;
  double stored_ = 0;  ///< when the last store has reached L2
  Result result_;
};

/// The clock on a curve under the load that a replay has found.
double clock_under(const Result& result, const ClockCurve& curve) {
  return clock_of(curve, result.tensor_share(), result.paths_busy / std::max(result.cycles, 1.));
}

/// A launch on one clock.
struct Replayed {
  Result result;
  L2Contents l2;
};

/// Replays at the clock that a curve has under the launch's own load. How much of the chip is busy decides its clock,
/// and the clock how many cycles L2 and DRAM take: once more where the first guess was wrong.
Replayed replay_at(const LaunchTrace& trace, const ChipModel& chip, const ClockCurve& curve, double guess,
                   const std::optional<L2Contents>& before) {
  constexpr double kNearEnough = 0.01;
  const auto replayed = [&](double megahertz) {
    Replay replay(trace, chip, megahertz, before ? &*before : nullptr);
    Replayed done{replay.run(), replay.take_l2()};
    done.result.megahertz = clock_under(done.result, curve);
    return done;
  };
  Replayed first = replayed(guess);
  const double better = first.result.megahertz;
  if (!first.result.not_modelled.empty() || std::abs(better / guess - 1) <= kNearEnough) return first;
  return replayed(better);
}

}  // namespace

Result replay(const LaunchTrace& trace, const ChipModel& chip, std::optional<L2Contents>& l2) {
  Replayed burst = replay_at(trace, chip, chip.burst_clock, clock_of(chip.burst_clock, 0, 0), l2);
  Result& result = burst.result;
  constexpr double kWorthSaying = 0.02, kBurst = 12'000;  // us, the longest burst that was measured
  const double sustained = clock_under(result, chip.sustained_clock);
  const bool differs = std::abs(sustained / result.megahertz - 1) > kWorthSaying;
  if (result.not_modelled.empty() && differs) {
    Result goes_on = replay_at(trace, chip, chip.sustained_clock, sustained, l2).result;
    if (result.microseconds() > kBurst) {
      result = std::move(goes_on);
    } else {
      result.sustained_microseconds = goes_on.microseconds();
      result.sustained_megahertz = goes_on.megahertz;
    }
  }
  l2 = std::move(burst.l2);
  if (trace.thinned) l2.reset();
  return std::move(result);
}

L2Contents used_l2(const LaunchTrace& trace, const ChipModel& chip) {
  double read = 0, written = 0;
  for (const ClusterTrace& cluster : trace.clusters) {
    for (const Access& access : cluster.shape->accesses) {
      if (!access.shared) (access.store || access.atomic ? written : read) += access.sectors * double{kSectorBytes};
    }
    for (const Operation& operation : cluster.shape->operations) {
      if (operation.engine == Engine::copy_out) written += static_cast<double>(operation.bytes);
      if (operation.engine == Engine::copy_in) read += static_cast<double>(operation.bytes);
    }
  }
  // Half of what is read is in both halves.
  return used_l2(chip, written / std::max(written + 1.5 * read, 1.));
}

Result replay(const LaunchTrace& trace, const ChipModel& chip) {
  std::optional<L2Contents> none;
  return replay(trace, chip, none);
}

}  // namespace stagecraft::emulator::timing
