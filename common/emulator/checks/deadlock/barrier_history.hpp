// What has happened to the mbarriers of a grid, as far as it shows which arrival is missing when nothing continues.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "emulator/checks/history/phase_history.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// Whether what is noted of a warp, such as an arrival or a wait, is of the one that a fragment belongs to.
template <typename Note>
bool is_of_warp(const Note& note, const machine::Fragment& fragment) {
  return note.block == &fragment.block() && note.warp == fragment.warp->index;
}

/// The history of one mbarrier since its initialisation.
struct BarrierHistory {
  /// The time of an arrival by an operation, which may have been issued long before.
  static constexpr machine::Cycle kByOperation = std::numeric_limits<machine::Cycle>::max();
  /// A warp that has arrived, or issued an operation that did.
  struct Arriver {
    const machine::Block* block = nullptr;
    uint32_t warp = 0;
    machine::LaneMask lanes = 0;
    uint64_t phase = 0;        ///< the phase that it arrived in last
    machine::Cycle clock = 0;  ///< when it did; or kByOperation

    /// Whether some of its threads are in a fragment.
    bool is_in(const machine::Fragment& fragment) const {
      return is_of_warp(*this, fragment) && (lanes & fragment.mask) != 0;
    }
  };
  std::vector<Arriver> arrivers;
  bool arrived_by_operation = false;  ///< tcgen05.commit or its kind has arrived
  PhaseHistory phases;
  /// A warp that has waited.
  struct Waiter {
    const machine::Block* block = nullptr;
    uint32_t warp = 0;
    uint64_t phases = 0;       ///< how many had ended when its last wait passed
    machine::Cycle clock = 0;  ///< of the warp, at that time
    /// The first phases that it did not see: a wait passed when so many had ended, though it had seen fewer before.
    uint64_t skipped_from = 0, skipped_to = 0;
    uint32_t pc = 0;  ///< of its last wait
  };
  std::vector<Waiter> waiters;
  /// An initialisation: where, and for how many arrivals. More than one where nothing came between them.
  struct Initialisation {
    uint32_t pc = 0;
    uint64_t count = 0;
  };
  std::vector<Initialisation> initialisations;
  std::vector<uint32_t> arrival_pcs;  ///< the instructions that have ever arrived, also before it was initialised again
  uint32_t next_arriver = 0, next_waiter = 0;  ///< the elements that are expected to be looked for next
  bool was_waited_for = false;                 ///< a wait has passed
  bool was_used = false;                       ///< something has happened since the initialisation
  bool passed_before_first = false;  ///< a thread has waited for the phase before the first, as a producer does
  /// The instruction that arrived last. Its lanes arrive one after the other when they end a phase.
  const machine::Warp* warp = nullptr;
  machine::Cycle clock = 0;
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
  uint64_t first_phase = 0;
  /// Lanes of one instruction that were more than a phase waits for; none: that did not happen.
  machine::LaneMask overrun_lanes = 0;
  uint32_t overrun_pc = 0;
  uint64_t overrun_phases = 0;  ///< phases that they ended

  /// Whether this is another event of that instruction.
  bool is_same_instruction(const machine::Fragment& fragment) const {
    return warp == fragment.warp && clock == fragment.warp->clock && pc == fragment.pc;
  }
};

/// The histories of all mbarriers, by block and offset in its shared memory.
using BarrierHistories = std::map<std::pair<const machine::Block*, uint32_t>, BarrierHistory>;

/// Forgets the mbarriers of a block that starts: it may be at the address of an earlier one.
void forget(BarrierHistories& histories, const machine::Block& block);

/// Takes note of an event.
void record(BarrierHistories& histories, const machine::BarrierEvent& event);

}  // namespace stagecraft::emulator::checks
