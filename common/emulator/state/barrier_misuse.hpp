// The exception that an operation throws when it misuses an mbarrier: what is wrong, without words for it. An observer
// words it (Observer::barrier_misused).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "emulator/state/fault.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::machine {

struct Block;
struct Fragment;

/// The kind that reports give to a wrong use of a barrier.
inline constexpr const char* kBarrierMisuse = "barrier misuse";

enum class BarrierMistake : uint8_t {
  count_out_of_range,        ///< an initialisation or an arrival; `value` is the count
  transaction_out_of_range,  ///< `value` is what the transaction count would become
  pending_out_of_range,      ///< one more pending arrival
  parity_out_of_range,       ///< of a wait; `value` is the parity
  too_many_arrivals,         ///< for the current phase; `value` is how many arrive
  phase_would_end,           ///< an arrival with .noComplete
  already_live,              ///< an initialisation where a barrier is in use
  not_live,                  ///< no barrier is initialised there
  written_over,              ///< `value` has the 64 bits that are there instead of the barrier's word
  still_waited_for,          ///< mbarrier.inval of a barrier that threads sleep on
};

/// To the program it is a launch failure, as on the chip. What it points to is as it was thrown until it is reported.
struct BarrierMisuse : Fault {
  BarrierMistake mistake;
  std::string what;                    ///< the operation: "mbarrier.arrive", "cp.async.bulk"
  const Block* block = nullptr;        ///< null for a count out of range
  uint32_t offset = 0;                 ///< in the block's shared memory
  const Mbarrier* barrier = nullptr;   ///< null where none is live
  const Fragment* fragment = nullptr;  ///< that acts; null for an asynchronous engine, and where no barrier was found
  BarrierPlace here{};                 ///< the same as a place, with the lanes that act
  int64_t value = 0;
  bool is_plain_arrival = false;    ///< mbarrier.arrive, without .expect_tx or .noComplete
  bool by_several_threads = false;  ///< all of whom initialise a barrier, where one must

  BarrierMisuse(BarrierMistake mistake, std::string what, LaneMask lanes)
      : Fault(FaultKind::launch_failure, what + ": an mbarrier is misused", {}, lanes),
        mistake(mistake),
        what(std::move(what)) {
    name = kBarrierMisuse;
  }
};

}  // namespace stagecraft::emulator::machine
