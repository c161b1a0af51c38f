// What can be done to an mbarrier, by instructions and by the asynchronous engines. Every change of a barrier's state
// goes through here: checked, announced to the observers, and followed by the wake of whom it lets go on.
//
// For other units, from the action of an event:
//
//     complete_transaction(cluster, address, bytes);    // a copy, st.async, ...: all its bytes at once
//     arrive_asynchronously(cluster, address, 1);       // tcgen05.commit, cp.async.mbarrier.arrive
#pragma once

#include <cstdint>

#include "emulator/state/grid.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::machine {

/// What reports call a fault that is the use of a barrier.
inline constexpr const char* kBarrierMisuse = "barrier misuse";

/// Who acts on a barrier, and with which instruction.
struct BarrierActor {
  const char* what = "";         ///< for messages: "mbarrier.arrive"
  Fragment* fragment = nullptr;  ///< null for an asynchronous engine
  LaneMask lanes = 0;
  bool relaxed = false;    ///< orders no memory
  uint64_t operation = 0;  ///< of an asynchronous engine: the number it was announced with, 0 for none
};

/// A live barrier of a block.
struct BarrierReference {
  Block* block = nullptr;
  uint32_t offset = 0;
  Mbarrier* barrier = nullptr;
};

/// The live barrier at a shared address. Throws Fault when the address is bad, nothing is initialised there, or the
/// barrier's eight bytes have been written over.
BarrierReference find_barrier(Cluster& cluster, uint32_t address, const char* what);
BarrierReference find_barrier(Block& block, uint32_t offset, const char* what);

/// mbarrier.init and mbarrier.inval. Throw Fault for a count outside 1 to 2^20 - 1, a live barrier, none.
void init_barrier(Block& block, uint32_t address, uint64_t count, const BarrierActor& actor);
void invalidate_barrier(Block& block, uint32_t address, const BarrierActor& actor);

/// How an arrival counts.
struct Arrival {
  uint64_t count = 1;
  bool drop = false;         ///< the later phases expect `count` fewer
  bool no_complete = false;  ///< must not end the phase
};
/// Returns the state that the instruction gives: the barrier's word before the arrival. Throws Fault when more arrive
/// than the phase expects.
uint64_t arrive(const BarrierReference& reference, const Arrival& arrival, const BarrierActor& actor);
/// Raises the transaction count. May end the phase, if as many bytes came unannounced.
void expect_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor);
/// arrive.expect_tx: the bytes are announced first, then the arrival is counted, and only then the phase may end.
uint64_t arrive_and_expect(const BarrierReference& reference, uint64_t bytes, const Arrival& arrival,
                           const BarrierActor& actor);
/// Lowers the transaction count, in one step.
void complete_transaction(const BarrierReference& reference, uint64_t bytes, const BarrierActor& actor);
/// cp.async.mbarrier.arrive without .noinc: one more arrival is pending in the current phase.
void add_pending(const BarrierReference& reference, const BarrierActor& actor);

/// What a wait by parity may ask for. Throws Fault for anything but 0 and 1: "the valid values of phaseParity operand
/// are 0 and 1" (PTX ISA, "mbarrier.test_wait, mbarrier.try_wait").
void check_parity(const BarrierReference& reference, uint32_t parity, const BarrierActor& actor);

/// For asynchronous engines: `bytes` have been delivered to the barrier at a shared address (with rank) of the cluster.
/// Throws Fault when there is no such barrier or its block has exited.
void complete_transaction(Cluster& cluster, uint32_t address, uint64_t bytes, const char* what = "asynchronous copy",
                          uint64_t operation = 0);
/// For asynchronous engines: `count` arrivals.
void arrive_asynchronously(Cluster& cluster, uint32_t address, uint32_t count = 1,
                           const char* what = "asynchronous arrival", uint64_t operation = 0);

/// The time that a wait's hint in nanoseconds means in cycles of the chip; at least 1.
Cycle cycles_of(uint64_t nanoseconds, const Grid& grid);

}  // namespace stagecraft::emulator::machine
