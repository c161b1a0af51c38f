// The operations on an mbarrier, by instructions and by the asynchronous engines. Every change of a barrier's state
// goes through here: it is checked, announced to the observers, and wakes the warps that it lets go on. The end of a
// phase is in one place, `settle` in mbarrier.cpp.
//
// Other engines call, from the action of an event:
//
//     complete_transaction(cluster, address, bytes);    // a copy, st.async, ...: all its bytes at once
//     arrive_asynchronously(cluster, address, 1);       // tcgen05.commit, cp.async.mbarrier.arrive
#pragma once

#include <cstdint>

#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::machine {

/// The fragment or engine that acts on a barrier, and its instruction.
struct BarrierActor {
  const char* what = "";         ///< for messages: "mbarrier.arrive"
  Fragment* fragment = nullptr;  ///< null for an asynchronous engine
  LaneMask lanes = 0;
  BarrierSemantics semantics{};
  uint64_t operation = 0;  ///< of an asynchronous engine: the number of the announced operation, 0 for none
};

/// A live barrier of a block.
struct BarrierReference {
  Block* block = nullptr;
  uint32_t offset = 0;
  Mbarrier* barrier = nullptr;
};

/// Returns the live barrier at a shared address. Throws Fault when the address is bad, BarrierMisuse when no barrier is
/// initialised there, or the barrier's eight bytes have been overwritten.
BarrierReference find_barrier(Cluster& cluster, uint32_t address, const char* what);
BarrierReference find_barrier(Block& block, uint32_t offset, const char* what);

/// Executes mbarrier.init. Throws BarrierMisuse for a count outside 1 to 2^20 - 1, and when a barrier is in use
/// there; one that is at rest is initialised again.
void init_barrier(Block& block, uint32_t address, uint64_t count, const BarrierActor& actor);
/// Executes mbarrier.inval. Throws BarrierMisuse when no barrier is live there.
void invalidate_barrier(Block& block, uint32_t address, const BarrierActor& actor);

/// How an arrival counts.
struct Arrival {
  uint64_t count = 1;
  bool drop = false;         ///< the later phases expect `count` fewer
  bool no_complete = false;  ///< must not end the phase
  bool announces = false;    ///< by arrive.expect_tx, after the bytes
};
/// Counts an arrival. Returns the state that the instruction returns: the barrier's word before the arrival. Throws
/// BarrierMisuse when more threads arrive than the phase expects.
uint64_t arrive(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor);
/// Raises the transaction count. This ends the phase if as many bytes came before they were announced.
void expect_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor);
/// Executes arrive.expect_tx: announces the bytes, counts the arrival, and only then lets the phase end.
uint64_t arrive_and_expect(const BarrierReference& reference, uint64_t bytes, const Arrival& arrival,
                           const BarrierActor& actor);
/// Lowers the transaction count, in one step.
void complete_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor);
/// Makes one more arrival pending in the current phase, for cp.async.mbarrier.arrive without .noinc.
void add_pending(const BarrierReference& reference, const BarrierActor& actor);

/// Throws BarrierMisuse unless the parity of a wait is 0 or 1: "the valid values of phaseParity operand are 0 and 1"
/// (PTX ISA, "mbarrier.test_wait, mbarrier.try_wait").
void check_parity(const BarrierReference& reference, uint32_t parity, const BarrierActor& actor);

/// Counts `bytes` that an asynchronous engine has delivered, on the barrier at a shared address (with rank) of the
/// cluster. Throws Fault when there is no such barrier or its block has exited.
void complete_transaction(Cluster& cluster, uint32_t address, uint64_t bytes, const char* what = "asynchronous copy",
                          uint64_t operation = 0);
/// Counts `count` arrivals by an asynchronous engine, in the same way.
void arrive_asynchronously(Cluster& cluster, uint32_t address, uint32_t count = 1,
                           const char* what = "asynchronous arrival", uint64_t operation = 0);

/// Converts the hint of a wait from nanoseconds to cycles of the chip; at least 1.
Cycle cycles_of(uint64_t nanoseconds, const Grid& grid);

}  // namespace stagecraft::emulator::machine
