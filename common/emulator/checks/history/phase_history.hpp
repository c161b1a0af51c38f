// What happened lately at an mbarrier, phase by phase: who arrived, who brought or announced bytes, and who waited.
//
// Threads count, and so do the operations that arrive on their own: tcgen05.commit, cp.async.mbarrier.arrive, copies.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "emulator/state/grid.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// What some lanes of a warp did at an mbarrier in one phase, at one instruction.
struct PhaseNote {
  enum class Kind : uint8_t {
    arrival,       ///< by threads
    commit,        ///< by an operation that these threads issued
    announcement,  ///< of bytes, by threads (expect_tx)
    bytes,         ///< that a copy brought, which these threads issued
    wait,          ///< that passed, because it saw this phase ended
  };
  Kind kind = Kind::arrival;
  const machine::Block* block = nullptr;  ///< the block of the threads; null where nobody is known
  uint32_t warp = 0;
  machine::LaneMask lanes = 0;
  uint32_t pc = 0;
  uint64_t phase = 0;
  uint64_t amount = 0;       ///< arrivals or bytes
  uint32_t times = 1;        ///< how often the instruction was executed
  machine::Cycle clock = 0;  ///< of the warp, the last time
  bool relaxed = false;
};

/// "the arrival at ring.cu:41", "the tcgen05.commit at ring.cu:50": an arrival in words.
std::string describe_arrival(const PhaseNote& note, const machine::Kernel& kernel);

class PhaseHistory {
 public:
  /// Takes note of an event of this barrier. A wait for the phase before the first is no wait for a phase.
  void add(const machine::BarrierEvent& event);

  /// Calls `visit(note)` for what is remembered of a phase, in the order in which it happened.
  template <typename Visit>
  void for_each(uint64_t phase, Visit&& visit) const {
    for (size_t i = 0; i < notes_.size(); ++i) {
      const PhaseNote& note = notes_[(oldest_ + i) % notes_.size()];
      if (note.phase == phase) visit(note);
    }
  }
  /// Whether something of a kind is remembered of a phase.
  bool has(uint64_t phase, PhaseNote::Kind kind) const;
  /// The last arrival by a warp in a phase to which nobody else contributed; null: it is not so.
  const PhaseNote* sole_arrival(uint64_t phase, const machine::Block& block, uint32_t warp) const;

  /// Names the places that ended a phase, as "the arrival at ring.cu:41 and the tcgen05.commit at ring.cu:50"; empty
  /// when none is remembered, or when they are too many to be said.
  std::string describe_arrivals(uint64_t phase, const machine::Kernel& kernel) const;
  /// Names who brought bytes in a phase: "the copies issued at tiles.cu:161 brought 4096". Empty when nobody did.
  std::string describe_bytes(uint64_t phase, const machine::Kernel& kernel) const;

 private:
  static constexpr size_t kMostNotes = 48;

  std::vector<PhaseNote> notes_;  ///< a ring once it is full
  size_t oldest_ = 0;
};

}  // namespace stagecraft::emulator::checks
