// What is probably the reason for a race, as a sentence for the report.
//
// It is derived from what the two sides did at barriers: a wait with a stale parity, an arrival that came too early, an
// arrival by one lane for others, a copy that nobody waited for, a barrier that is not there.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/checks/causes/wait_cause.hpp"
#include "emulator/checks/ordering/ordering_record.hpp"
#include "emulator/checks/race/present_access.hpp"
#include "emulator/checks/reporting/finding_log.hpp"

namespace stagecraft::emulator::checks {

class RaceCause {
 public:
  /// @param findings  where a stale wait that is the reason is reported as well
  /// @param address  shared address where the two accesses meet, with rank
  RaceCause(FindingLog& findings, const ClusterRecord& cluster, uint32_t address)
      : findings_(findings), cluster_(cluster), order_(cluster.order()), waits_(findings, cluster), address_(address) {}

  std::string of(const PastAccess& before, const PresentAccess& now);

 private:
  std::string after_operation(const PastAccess& before, const Operation& first, const PresentAccess& now);
  std::string after_copy(const PastAccess& before, const Operation& first, const PresentAccess& now);
  std::string before_operation(const PastAccess& before, const PresentAccess& now);
  std::string with_copy(const PastAccess& thread, const Operation& copy, bool copy_first, const VectorClock& known);
  std::string between_threads(const PastAccess& before, const PresentAccess& now);
  ConflictSide side_of(const PastAccess& access) const;
  /// For an access by a warp that has waited for a copy's barrier and still came before its bytes; empty when it has
  /// not waited.
  std::string in_bytes(const Operation& copy, uint32_t waiting_warp) const;
  /// For an operation whose thread has waited for an earlier round of the copy's barrier; empty: it did not wait.
  std::string in_rounds(const Operation& copy, const PresentAccess& now) const;
  /// For two copies to the same bytes; empty when their barriers and phases explain nothing.
  std::string between_copies(const Operation& first, const Operation& second) const;
  /// For a copy into what the tensor core reads: how a commit that came before the read let the copy's thread continue;
  /// empty when none did.
  std::string in_commits(const Operation& read, uint32_t waiting_warp) const;
  /// For an operation that reads what a copy brings, where no thread at all had waited for the copy's barrier; empty:
  /// one had, and may have told the thread that issues it.
  std::string read_without_wait(const Operation& copy, const PresentAccess& now) const;
  /// For an access by threads, where the other side waited for the arrival of one warp, which accesses memory by the
  /// same instruction, and the first's own warp does not arrive; empty: it is not so.
  std::string one_speaks_for_several(const PastAccess& before, const PresentAccess& now) const;
  /// For a product and a copy, or a store by threads where that is null, where the operand that is read there begins
  /// outside of what the copies of the phase brought that the product's thread has waited for; empty: it does not, or
  /// nothing is known of them.
  std::string operand_elsewhere(const Operation& product, const Operation* copy) const;
  std::string operand_before_write(const Operation& product, const PresentAccess& now) const;
  /// For two copies of different blocks for one phase of a barrier, where one ends or begins inside the other; empty:
  /// they fill the same bytes.
  std::string in_sizes(const Operation& first, const Operation& second) const;
  /// Why the waits for groups of copies, of the thread that issued this one, do not cover it; empty: it has not waited,
  /// or for all groups before.
  std::string in_groups(const Operation& copy) const;
  /// For a copy of a bulk group and what another thread does with its source.
  std::string told_by_issuer(const Operation& copy, const PresentAccess& now) const;
  /// For a store into another block's shared memory and a copy there, where no barrier of the cluster, nor anything
  /// else, lets the storing thread know of the copy; empty: that is not so.
  std::string in_other_block(const PastAccess& thread, const Operation& copy) const;
  /// For a thread that releases the bytes too early, or for itself alone; empty when nothing shows that.
  /// @param access  the access of that thread
  /// @param known   what the other side had learnt when it took the bytes; null when that is not known any more
  /// @param copy    what it took them for, if that was a copy; else null
  /// @param since   number of arrivals that do not count, because they came before
  std::string in_arrivals(const PastAccess& access, uint32_t other_warp, const VectorClock* known,
                          const Operation* copy, uint64_t since) const;
  /// Whether the warp of the access has arrived at a barrier that the warp of the copy waits for.
  bool releases_to(const PastAccess& thread, const Operation& copy) const;
  /// Whether the last write of the bytes is by the same warp and line as this one, and not after that time.
  bool had_written(const PastAccess& access, Time until) const;
  /// Where the thread released the slot of the copy in an earlier round, and has waited for another since; empty: not.
  std::string in_waits_for_another(const PastAccess& access, const Operation& copy, const ArrivalNote& arrival) const;
  /// Where the first thread has arrived, after its access, at a barrier that the second has never waited for; empty:
  /// not.
  std::string in_arrival_not_waited_for(const PastAccess& before, const PresentAccess& now) const;
  /// Where a third thread waits for that arrival, and may have told the second: why it went on too early; empty: none
  /// waits there.
  std::string through_another(const PastAccess& before, const ArrivalNote& after) const;
  /// Where the thread of an access has arrived after it, in the block of the copy's thread, which has never waited
  /// there; empty: not.
  std::string in_arrival_not_heard(const PastAccess& thread, const Operation& copy) const;
  /// For a copy into what the tensor core reads already, where the thread that made it read has never waited for any
  /// copy; empty where it has.
  std::string read_before_copy(const Operation& read, const PresentAccess& now) const;
  /// "; the wait at ... was ended by the arrival at ...": for bytes that the tensor core still reads, where the
  /// thread that made it read them released them by an arrival of its own; empty where it did not.
  std::string freed_by_threads(const Operation& read, const PresentAccess& now) const;
  /// The stale wait that let an operation be issued too early, of any warp that took part in it; empty: there is none.
  std::string issued_by_stale_wait(const PresentAccess& now);
  /// Where other lanes of the second's warp have come to a barrier, or wait there, and its own did not; empty: not so.
  std::string in_meetings_without_lane(const PastAccess& before, const PresentAccess& now) const;
  /// "; the two met last at barrier 0, warp 0 at ring.cu:41 and warp 1 at ring.cu:60: ...": where warps of one block
  /// came to it by different calls; empty: they did not.
  std::string met_at_two_lines(const ConflictSide& one, const ConflictSide& other) const;
  /// Where the two met last between an earlier write of the same bytes by the second's warp, and the first, a read;
  /// empty: they did not.
  std::string met_before_read_only(const PastAccess& before, const PresentAccess& now) const;
  /// "; warp 0 comes to bar.sync at ring.cu:41 after the write, and ...": for a read by a thread that comes to no
  /// barrier of the block any more; empty: that is not so, or not known.
  std::string barrier_left_out(const PastAccess& before, const PresentAccess& now) const;
  /// Where a load decides whether a thread comes to this instruction or to a barrier, and takes part in a race that was
  /// found: which; empty: there is none.
  std::string decided_by_race(uint32_t pc) const;
  /// The lanes of the warp that made the access and have arrived at the barrier after it.
  machine::LaneMask arrived_since(const PastAccess& access, uint32_t barrier) const;
  /// A barrier of the same array that no copy completes on and that this warp has never waited for; empty: none.
  std::string unused_sibling(const BarrierOrder& barrier, uint32_t waiting_warp) const;
  std::string line(uint32_t pc) const;
  std::string name(const BarrierOrder& barrier) const;

  FindingLog& findings_;
  const ClusterRecord& cluster_;
  const ClusterOrder& order_;
  WaitCause waits_;
  uint32_t address_;
};

}  // namespace stagecraft::emulator::checks
