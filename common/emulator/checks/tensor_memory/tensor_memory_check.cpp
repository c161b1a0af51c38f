#include "emulator/checks/tensor_memory/tensor_memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/checks/causes/wait_cause.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Diagnostic;
using machine::kWarpSize;
using machine::TensorRange;

namespace {

std::string spell(const TensorRange& range) {
  constexpr uint32_t kGroup = 16;  // lanes for each bit
  const auto first = static_cast<uint32_t>(std::countr_zero(range.lanes));
  const uint32_t last = 31 - static_cast<uint32_t>(std::countl_zero(range.lanes));
  const std::string columns = range.columns == 1
                                  ? fmt::format("column {}", range.column)
                                  : fmt::format("columns {} to {}", range.column, range.column + range.columns - 1);
  return fmt::format("{} (lanes {} to {}) of tensor memory", columns, first * kGroup, last * kGroup + kGroup - 1);
}

const char* verb_of(const TensorAccess& access) {
  if (access.kind == TensorAccessKind::release) return "frees";
  return access.writes ? "writes" : "reads";
}

std::string describe(const ClusterRecord& cluster, const TensorAccess& access) {
  const machine::Place place = place_of(cluster, access.warp, access.lanes, access.pc);
  const bool asynchronous = access.kind != TensorAccessKind::release;
  return fmt::format("the {} {} block ({},{},{}) warp {} [{}]{} {} them", place.instruction,
                     asynchronous ? "issued by" : "of", place.block_x, place.block_y, place.block_z, place.warp,
                     describe_lanes(access.lanes), line_of(cluster, access.pc), verb_of(access));
}

bool is_block_scaled(const ClusterRecord& cluster, const TensorAccess& access) {
  return cluster.kernel().traits_at(access.pc).scales_blocks;
}

/// What is wrong, without a likely cause.
Diagnostic describe(const ClusterRecord& cluster, const TensorConflict& conflict) {
  const TensorAccess &before = conflict.before, &now = conflict.now;
  Diagnostic finding;
  finding.subject = "tensor memory";
  finding.place = place_of(cluster, now.warp, now.lanes, now.pc);
  if (conflict.flaw <= TensorFlaw::fence_before) {
    finding.between = {std::min(before.warp, now.warp), std::max(before.warp, now.warp)};
  }
  std::string range = spell(conflict.range);
  if (conflict.rank != now.warp / cluster.order().warps_per_block()) range += " of the peer block";
  switch (conflict.flaw) {
    case TensorFlaw::unwritten:
      finding.kind = "uninitialised accumulator";
      finding.message = fmt::format("adds to {}, which nothing has written since they were allocated", range);
      finding.details.emplace_back("what tensor memory holds after tcgen05.alloc is not defined, and not zero");
      break;
    case TensorFlaw::unwritten_load:
      finding.kind = "uninitialised load";
      finding.message = fmt::format("loads {}, which nothing has written since they were allocated", range);
      finding.details.emplace_back("what tensor memory holds after tcgen05.alloc is not defined, and not zero");
      break;
    case TensorFlaw::unwritten_operand:
      finding.kind = "uninitialised operand";
      finding.message = fmt::format("reads {}, which nothing has written since they were allocated", range);
      finding.details.emplace_back("what tensor memory holds after tcgen05.alloc is not defined, and not zero");
      break;
    case TensorFlaw::overlap:
      finding.kind = "overlapping operands";
      finding.message = fmt::format("reads {}, where it also writes its accumulator", range);
      finding.details.emplace_back(
          "each tcgen05.mma of the sum would read what those before it, or itself, have added up");
      break;
    case TensorFlaw::fence_after:
      finding.kind = "missing tcgen05 fence";
      finding.message = fmt::format("{} {} without a tcgen05.fence::after_thread_sync", verb_of(now), range);
      finding.details.push_back(describe(cluster, before));
      finding.details.emplace_back(
          "a barrier has told this thread that this is over; for its tcgen05 instructions that counts only after "
          "the fence");
      finding.tolerated = "CUTLASS's kernels for sm_100 leave this fence out";
      break;
    case TensorFlaw::fence_before:
      finding.kind = "missing tcgen05 fence";
      finding.message = fmt::format(
          "{} {}, and there is no tcgen05.fence::before_thread_sync after what was issued "
          "for them before",
          verb_of(now), range);
      finding.details.push_back(describe(cluster, before));
      finding.details.emplace_back(
          "it has only been issued: a barrier hands its place in the order on to another thread only when the fence "
          "is between the two");
      break;
    default:
      finding.kind = "race";
      finding.message = fmt::format("race: {} {}", verb_of(now), range);
      finding.details.push_back(describe(cluster, before));
      finding.details.emplace_back(conflict.flaw == TensorFlaw::not_ended
                                       ? "nothing tells this thread that it has ended"
                                   : conflict.flaw == TensorFlaw::not_waited ? "nobody has waited for its end"
                                                                             : "nothing orders the two");
  }
  return finding;
}

/// The arrival by which `user` released tensor memory before it used it, as far as a thread that knows `known` has
/// learnt of it; empty: none.
std::string early_arrival(const ClusterRecord& cluster, const TensorAccess& user, const VectorClock& known) {
  const WarpOrder& warp = cluster.order().warp(user.warp);
  uint64_t waited = 0;
  for (const auto& [index, note] : warp.waits) {
    if (note.time <= user.time) waited = std::max(waited, note.arrivals);
  }
  for (auto note = warp.arrivals.rbegin(); note != warp.arrivals.rend(); ++note) {
    if (known.at(user.warp * kWarpSize + machine::first_lane(note->lanes)) < note->time) continue;
    if (note->time >= user.time || note->number <= waited) return {};
    return fmt::format("arrival on {}{}", name_of(cluster, cluster.order().barrier(note->barrier)),
                       line_of(cluster, note->pc));
  }
  return {};
}

ConflictSide side_of(const ClusterRecord& cluster, const TensorAccess& access) {
  ConflictSide side{access.warp, access.lanes, access.time, nullptr, "load"};
  if (access.kind == TensorAccessKind::store) side.what = "store";
  if (access.kind == TensorAccessKind::release) side.what = "tcgen05.dealloc";
  if (access.kind != TensorAccessKind::operation) return side;
  side.operation = &cluster.order().operation(access.number);
  side.what = side.operation->what;
  return side;
}

/// What the waits of the two sides say; empty when nothing stands out.
std::string cause_in_waits(FindingLog& findings, const ClusterRecord& cluster, const TensorConflict& conflict) {
  const bool race = conflict.flaw == TensorFlaw::not_ended || conflict.flaw == TensorFlaw::not_waited ||
                    conflict.flaw == TensorFlaw::unordered;
  if (!race || conflict.now.kind == TensorAccessKind::release) return {};
  const ConflictSide before = side_of(cluster, conflict.before), now = side_of(cluster, conflict.now);
  WaitCause waits(findings, cluster);
  return before.operation != nullptr ? waits.before_end_of(before, now) : waits.before_end_of_threads(before, now);
}

/// Where the arrival of one warp that stores let a product begin before the stores of another; empty: it is not so.
std::string one_speaks_for_several(FindingLog& findings, const ClusterRecord& cluster, const TensorOrder& accesses,
                                   const TensorAccess& store, const TensorAccess& product) {
  return WaitCause(findings, cluster)
      .let_pass_without(side_of(cluster, store), side_of(cluster, product),
                        [&](uint32_t warp) { return accesses.has_stored(warp); });
}

/// That a load or a store is not followed by the tcgen05.wait that it needs.
std::string missing_wait(const TensorAccess& access) {
  return access.kind == TensorAccessKind::load
             ? "tcgen05.wait::ld is missing: the load may still be reading when its instruction has passed; the wait "
               "must come before the arrival that releases the accumulator"
             : "tcgen05.wait::st is missing: the store may still be writing when its instruction has passed; the "
               "wait must come before the barrier that tells others of it";
}

/// What follows a load or a store in the program: the line of its tcgen05.wait, before its thread arrives anywhere, and
/// that of the arrival after the wait. Empty: there is none.
struct Following {
  std::string wait, arrival;
};

Following what_follows(const ClusterRecord& cluster, const TensorAccess& access) {
  const char* const wait = access.kind == TensorAccessKind::load ? "wait::ld" : "wait::st";
  const machine::Kernel& kernel = cluster.kernel();
  Following found;
  if (access.pc >= kernel.places.size() || kernel.places[access.pc].function == nullptr) return found;
  const auto& body = kernel.places[access.pc].function->body;
  const auto traits = kernel.traits.find(kernel.places[access.pc].function);
  for (size_t i = kernel.places[access.pc].instruction + size_t{1}; i < body.size(); ++i) {
    const auto has = [&](const char* modifier) {
      return std::find(body[i].modifiers.begin(), body[i].modifiers.end(), modifier) != body[i].modifiers.end();
    };
    if (has(wait) && found.wait.empty()) found.wait = kernel.describe_line(body[i].source);
    const bool arrives = has("arrive");
    if (arrives && !found.wait.empty()) found.arrival = kernel.describe_line(body[i].source);
    const bool meets = traits != kernel.traits.end() && i < traits->second.size() && traits->second[i].meets_block;
    if (meets || arrives) break;
  }
  return found;
}

std::string cause_of(FindingLog& findings, const ClusterRecord& cluster, const TensorOrder& accesses,
                     const TensorConflict& conflict) {
  const TensorAccess &before = conflict.before, &now = conflict.now;
  switch (conflict.flaw) {
    case TensorFlaw::unwritten:
      return "the first tcgen05.mma of a tile must overwrite its accumulator: enable-input-d (the last operand) is 0 "
             "for it, and 1 for those that follow";
    case TensorFlaw::unwritten_load:
      return "a tcgen05.st or tcgen05.mma that writes these columns must come before: is it forgotten, or for other "
             "columns?";
    case TensorFlaw::unwritten_operand:
      if (conflict.of_metadata) {
        return "the metadata of a sparse A must be written, by tcgen05.cp or tcgen05.st, before the tcgen05.mma.sp is "
               "issued, for all rows of A";
      }
      return is_block_scaled(cluster, now) ? "the scale factors are not there yet: the thread that issues the "
                                             "tcgen05.mma must issue, before it, the "
                                             "tcgen05.cp that brings them, for all rows of A and all columns of B (32 "
                                             "to a column of tensor memory)"
                                           : "an A in tensor memory must be written, by tcgen05.st or tcgen05.cp, "
                                             "before the tcgen05.mma is issued";
    case TensorFlaw::overlap:
      if (conflict.of_metadata) {
        return "the metadata of a sparse A need columns of their own: let them begin after the last column of all "
               "accumulators";
      }
      return is_block_scaled(cluster, now)
                 ? "the scale factors need columns of their own: let them begin after the last column of all "
                   "accumulators"
                 : "an A in tensor memory needs columns of its own, apart from the accumulator's";
    case TensorFlaw::fence_after:
      return "put tcgen05.fence::after_thread_sync between the wait and the first tcgen05 instruction that relies on "
             "it";
    case TensorFlaw::fence_before:
      return "put tcgen05.fence::before_thread_sync between the last tcgen05 instruction and the arrival at the "
             "barrier";
    default: break;
  }
  if (now.kind == TensorAccessKind::release) {
    if (before.kind == TensorAccessKind::operation) {
      const std::string unseen = WaitCause(findings, cluster).phase_that_nobody_saw(side_of(cluster, before));
      if (!unseen.empty()) return unseen;
      const std::string unaware =
          WaitCause(findings, cluster).let_pass_by_unaware(side_of(cluster, before), side_of(cluster, now));
      if (!unaware.empty()) return unaware;
    }
    if (conflict.flaw == TensorFlaw::not_waited && what_follows(cluster, before).wait.empty()) {
      return missing_wait(before);
    }
    const std::string early =
        WaitCause(findings, cluster).passed_between(side_of(cluster, before), side_of(cluster, now));
    if (!early.empty()) return early;
    return "tensor memory is freed before its last use is over: wait for the last commit and for the last loads, and "
           "let all warps meet at a barrier before tcgen05.dealloc";
  }
  if (std::string cause = cause_in_waits(findings, cluster, conflict); !cause.empty()) return cause;
  if (before.kind == TensorAccessKind::operation && now.kind != TensorAccessKind::operation) {
    if (before.known != nullptr) {
      if (const std::string arrival = early_arrival(cluster, now, *before.known); !arrival.empty()) {
        if (!now.writes) {
          return fmt::format("the accumulator is released before this load, by the {}: arrive after tcgen05.wait::ld",
                             arrival);
        }
        const std::string product = side_of(cluster, before).what;
        return fmt::format(
            "the {0} was let begin by the {1}, which speaks only for what was stored before it: arrive after this "
            "store and its tcgen05.wait::st, or, where another arrival follows that, let the thread that issues the "
            "{0} wait for it",
            product, arrival);
      }
    }
    const ConflictSide first = side_of(cluster, before), second = side_of(cluster, now);
    WaitCause waits(findings, cluster);
    if (std::string cause = waits.in_phases(first, second); !cause.empty()) return cause;
    return "the tensor core works on after the instruction is issued: wait for an mbarrier that a tcgen05.commit after "
           "the last tcgen05.mma arrives on" +
           waits.barrier_not_waited_for(first, second);
  }
  if (before.kind == TensorAccessKind::operation) {
    if (before.warp == now.warp && before.pc == now.pc) {
      return fmt::format("{} and {} of one warp issue the same {}: one elected lane must issue it for all of them",
                         describe_lanes(before.lanes), describe_lanes(now.lanes), side_of(cluster, now).what);
    }
    return "two threads issue operations on the same tensor memory: one must hand over to the other by a barrier, with "
           "tcgen05.fence::before_thread_sync before and after_thread_sync after it";
  }
  const bool load = before.kind == TensorAccessKind::load;
  if (before.of_nothing && now.kind == TensorAccessKind::operation) {
    return "the load does not wait for the tensor core: it must wait for an mbarrier that a tcgen05.commit after the "
           "last tcgen05.mma arrives on";
  }
  if (before.warp != now.warp && now.known != nullptr) {
    if (const std::string arrival = early_arrival(cluster, before, *now.known); !arrival.empty()) {
      const Following after = what_follows(cluster, before);
      if (!load && !after.arrival.empty() && !arrival.ends_with(after.arrival)) {
        return fmt::format(
            "the {0} was let begin by the {1}, which speaks only for what was stored before it. This store has its "
            "tcgen05.wait::st at {2}, and an arrival follows at {3}: must the thread that issues the {0} wait for that "
            "one, too?",
            side_of(cluster, now).what, arrival, after.wait, after.arrival);
      }
      return fmt::format("the accumulator is released before the {}, by the {}: arrive after tcgen05.wait::{}",
                         load ? "load" : "store", arrival, load ? "ld" : "st");
    }
  }
  if (conflict.flaw == TensorFlaw::not_waited) {
    const std::string wait = what_follows(cluster, before).wait;
    if (before.warp == now.warp || wait.empty()) return missing_wait(before);
    return fmt::format(
        "the {} has not come to its tcgen05.wait::{} at {} yet, so that nobody knows of its end: does the {} take "
        "the columns of another tile or warp, or not wait for this warp's arrival?",
        load ? "load" : "store", load ? "ld" : "st", wait, side_of(cluster, now).what);
  }
  if (!load && now.kind == TensorAccessKind::operation) {
    const std::string cause = one_speaks_for_several(findings, cluster, accesses, before, now);
    if (!cause.empty()) return cause;
  }
  return load ? "a thread that overwrites the accumulator must wait for a barrier that the loading warps arrive on "
                "after tcgen05.wait::ld"
              : "a barrier must come between the store, with its tcgen05.wait::st, and this";
}

/// Why a store came after the product that adds to what it writes.
std::string cause_of_late_store(FindingLog& findings, const ClusterRecord& cluster, const TensorOrder& accesses,
                                const TensorConflict& conflict) {
  const std::string cause = one_speaks_for_several(findings, cluster, accesses, conflict.now, conflict.before);
  if (!cause.empty()) return cause;
  return fmt::format(
      "if the {} is to add to what is stored here, its thread must wait for a barrier that all storing warps arrive on "
      "after tcgen05.wait::st",
      side_of(cluster, conflict.before).what);
}

}  // namespace

void TensorMemoryCheck::cluster_started(ClusterRecord& cluster) {
  const auto blocks = static_cast<uint32_t>(cluster.memory.size());
  states_.start(cluster, blocks, blocks * cluster.order().warps_per_block());
}

void TensorMemoryCheck::tensor_memory_changed(ClusterRecord& cluster, const machine::TensorEvent& event) {
  State& state = states_[cluster];
  check_quarter(cluster, event);
  check_lanes(cluster, event);
  report(cluster, state, state.accesses.change(cluster.order(), event));
}

void TensorMemoryCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& operation) {
  State& state = states_[cluster];
  report(cluster, state, state.accesses.issue(cluster.order(), operation));
  const machine::AsyncOperation& event = operation.event;
  const std::pair thread(cluster.order().warp_number(*event.fragment), event.lane);
  if (!event.tensor_writes.empty()) {
    state.written[thread] = event.tensor_writes.front();
    if (event.product.m != 0) note_accumulator(state, event.tensor_writes.front());
  }
  if (event.completion == machine::AsyncCompletion::tensor_arrive) {
    state.uncommitted.erase(thread);
  } else if (event.completion == machine::AsyncCompletion::tensor_pipe) {
    Uncommitted& uncommitted = state.uncommitted[thread];
    ++uncommitted.operations;
    uncommitted.pc = event.fragment->pc;
  }
}

void TensorMemoryCheck::note_accumulator(State& state, const TensorRange& range) {
  constexpr size_t kMost = 16;
  const auto is_same = [&](const TensorRange& each) {
    return each.column == range.column && each.columns == range.columns;
  };
  std::vector<TensorRange>& known = state.accumulators;
  if (known.size() < kMost && std::none_of(known.begin(), known.end(), is_same)) known.push_back(range);
}

/// Two accumulators that overlap in part, and both have the columns of a race; empty: there are none.
std::string TensorMemoryCheck::overlapping_accumulators(const State& state, const TensorRange& at) {
  const auto end = [](const TensorRange& range) { return range.column + range.columns; };
  for (const TensorRange& one : state.accumulators) {
    for (const TensorRange& other : state.accumulators) {
      const bool in_part = one.column < other.column && other.column < end(one) && end(one) < end(other);
      if (!in_part || (one.lanes & other.lanes) == 0) continue;
      if (at.column >= end(other) || end(at) <= one.column) continue;
      return fmt::format(
          "two accumulators overlap: {}, and {}. Each needs columns of its own: as many as N, for sums of 32 bits",
          spell(one), spell(other));
    }
  }
  return {};
}

/// A warp may access its own quarter of the lanes. On the chip, the quarter follows from the warp whatever the address
/// says; PTX does not promise that.
void TensorMemoryCheck::check_quarter(const ClusterRecord& cluster, const machine::TensorEvent& event) {
  using machine::TensorEventKind;
  if (event.kind != TensorEventKind::load && event.kind != TensorEventKind::store) return;
  const uint32_t lane = event.address >> 16, warp = event.fragment->warp->index, first = warp % 4 * kWarpSize;
  if (lane / kWarpSize * kWarpSize == first) return;
  const uint32_t pc = event.fragment->pc;
  const auto identity = findings_.claim("quarter", pc, pc);
  if (!identity) return;
  const char* what = event.kind == TensorEventKind::load ? "tcgen05.ld" : "tcgen05.st";
  Diagnostic finding;
  finding.kind = "illegal address";
  finding.place = place_of(cluster, cluster.order().warp_number(*event.fragment), event.lanes, pc);
  finding.message =
      fmt::format("{}: address 0x{:x} is in lane {}, which warp {} may not access", what, event.address, lane, warp);
  finding.details.push_back(fmt::format("warp {} may access lanes {} to {} (its number modulo 4 gives the quarter)",
                                        warp, first, first + kWarpSize - 1));
  finding.likely_cause = "add (warp % 4) * 32 << 16 to the allocation's address";
  finding.tolerated = "the epilogues of DeepGEMM give all warps the first quarter's address";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

/// These instructions are .sync.aligned: "all threads in the warp must execute the same" one (PTX ISA, "tcgen05.ld").
/// Lanes that go on wait for each other, so that some are missing shows only where they have exited.
void TensorMemoryCheck::check_lanes(const ClusterRecord& cluster, const machine::TensorEvent& event) {
  using machine::TensorEventKind;
  // A wait follows the access that it is for.
  if (event.ranges.empty() || event.kind == TensorEventKind::wait_load || event.kind == TensorEventKind::wait_store) {
    return;
  }
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  const machine::LaneMask missing = cluster.order().warp(warp).existing & ~event.lanes;
  if (missing == 0) return;
  const uint32_t pc = event.fragment->pc;
  const auto identity = findings_.claim("lanes", pc, pc);
  if (!identity) return;
  const std::string what = cluster.kernel().describe_instruction(pc);
  Diagnostic finding;
  finding.kind = "missing lanes";
  finding.place = place_of(cluster, warp, event.lanes, pc);
  finding.message = fmt::format("{} is executed by {} of its warp only", what, describe_lanes(event.lanes));
  finding.details.push_back(
      fmt::format("it is .sync.aligned: all lanes of the warp must execute it together, and {} "
                  "have exited",
                  describe_lanes(missing)));
  finding.likely_cause =
      "it is in a branch that only some lanes take, such as one of elect_one(): let the whole "
      "warp come to it";
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void TensorMemoryCheck::report(const ClusterRecord& cluster, State& state,
                               const std::vector<TensorConflict>& conflicts) {
  for (const TensorConflict& conflict : conflicts) {
    const TensorAccess &before = conflict.before, &now = conflict.now;
    // The lanes may be those of several warps.
    const auto is_same_accumulator = [&](const TensorRange& range) {
      return range.column < conflict.range.column + conflict.range.columns &&
             conflict.range.column < range.column + range.columns;
    };
    const bool nobody = before.kind == TensorAccessKind::nothing;
    const bool race = conflict.flaw == TensorFlaw::not_waited || conflict.flaw == TensorFlaw::not_ended ||
                      conflict.flaw == TensorFlaw::unordered;
    // What races with another access races with the release as well.
    if (now.kind == TensorAccessKind::release && state.racing.contains(before.pc)) continue;
    if (race) {
      state.racing.insert({before.pc, now.pc});
      findings_.note_race(before.pc, now.pc);
    }
    // A fence that is missing before an instruction is missing once, however many others it would follow.
    const uint32_t first = nobody || conflict.flaw == TensorFlaw::fence_after ? now.pc : before.pc;
    const std::string kind = race ? "tensor race" : fmt::format("tensor {}", static_cast<int>(conflict.flaw));
    const auto identity = race ? findings_.claim_pair(kind, first, now.pc) : findings_.claim(kind, first, now.pc);
    if (!identity) continue;
    Diagnostic finding = describe(cluster, conflict);
    finding.likely_cause = cause_of(findings_, cluster, state.accesses, conflict);
    if (race && now.kind != TensorAccessKind::release) {
      const std::string overlap = overlapping_accumulators(state, conflict.range);
      if (!overlap.empty()) finding.likely_cause = overlap;
    }
    const auto written = state.written.find({now.warp, machine::first_lane(now.lanes)});
    if (conflict.flaw == TensorFlaw::unwritten && written != state.written.end() &&
        written->second.column != conflict.range.column && written->second.columns == conflict.range.columns) {
      finding.likely_cause = fmt::format(
          "this thread's {} before was for {}: does it take another accumulator where it should go on with that one, "
          "as a scope that is one loop too deep does? Otherwise {}",
          side_of(cluster, now).what, spell(written->second), finding.likely_cause);
    }
    const bool is_of_product = std::any_of(state.accumulators.begin(), state.accumulators.end(), is_same_accumulator);
    if (conflict.flaw == TensorFlaw::unwritten_load && !state.accumulators.empty() && !is_of_product) {
      finding.likely_cause = fmt::format(
          "no tcgen05.mma writes these columns: {} {}. Is the load's column that of an accumulator, and has that as "
          "many columns (N) as are loaded?",
          state.accumulators.size() == 1 ? "the accumulator is" : "the first accumulator is",
          spell(state.accumulators.front()));
    }
    if (conflict.flaw == TensorFlaw::unwritten_load) {
      findings_.add_suspicion(cluster.cluster(), now.pc, *identity, std::move(finding));
      continue;
    }
    if (conflict.flaw == TensorFlaw::unwritten &&
        std::any_of(state.store_races.begin(), state.store_races.end(), is_same_accumulator)) {
      continue;
    }
    // A store that nothing orders was to write what a product has added to.
    if (race && (before.kind == TensorAccessKind::store || now.kind == TensorAccessKind::store)) {
      state.store_races.push_back(conflict.range);
      std::erase_if(state.unwritten, [&](const auto& each) {
        if (!is_same_accumulator(each.second)) return false;
        findings_.withdraw(each.first);
        if (now.kind == TensorAccessKind::store) {
          finding.details.emplace_back("it adds to what is stored here, and came first this time");
          finding.likely_cause = cause_of_late_store(findings_, cluster, state.accesses, conflict);
        }
        return true;
      });
    }
    const size_t number = findings_.add(cluster.cluster(), *identity, std::move(finding));
    if (conflict.flaw == TensorFlaw::unwritten) state.unwritten.emplace_back(number, conflict.range);
  }
}

/// In a cluster that hangs, these are operations whose end nobody will ever learn of.
void TensorMemoryCheck::cluster_stuck(ClusterRecord& cluster) {
  for (const auto& [thread, uncommitted] : states_[cluster].uncommitted) {
    const auto identity = findings_.claim("uncommitted", uncommitted.pc, uncommitted.pc);
    if (!identity) continue;
    Diagnostic finding;
    finding.kind = "missing commit";
    finding.place = place_of(cluster, thread.first, 1u << thread.second, uncommitted.pc);
    finding.message = fmt::format("no tcgen05.commit follows the last {} operation{} of this thread",
                                  uncommitted.operations, uncommitted.operations == 1 ? "" : "s");
    finding.details.emplace_back("without it no mbarrier learns that the tensor core has done with them");
    finding.likely_cause =
        "tcgen05.commit is missing after the last tcgen05.mma, or another thread executes it: a commit covers what its "
        "own thread has issued";
    findings_.add(cluster.cluster(), *identity, std::move(finding));
  }
}

}  // namespace stagecraft::emulator::checks
