// Who accessed which part of tensor memory last, and what is missing between two accesses.
//
// Rules (PTX ISA, "tcgen05 memory consistency model"):
//   - tcgen05.mma and cp of one thread are executed in the order of issue; those of several threads are if one thread
//     hands over to the next. They have ended for a thread that observes the arrival of a commit after them.
//   - tcgen05.ld and st of a warp have ended at its next wait::ld or wait::st. All of these are operations of the whole
//     warp: any of its lanes can pass on to others that they have ended.
//   - What a thread learns from others by barriers counts for its tcgen05 instructions once it has executed
//     fence::after_thread_sync. On the side that hands over, wait::ld, wait::st and commit need nothing more; what has
//     only been issued needs fence::before_thread_sync before the barrier.
// A value that a load has put in a register may be used without a wait: such dependencies are respected, and so a store
// whose values were computed from all that a load of its warp has brought comes after it. The wait is there to let
// others know that tensor memory has been read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/happens_before.hpp"

namespace stagecraft::emulator::checks {

enum class TensorAccessKind : uint8_t {
  nothing,
  load,
  store,
  operation,  ///< by the tensor unit: mma, cp
  release,    ///< tcgen05.dealloc
};

struct TensorAccess {
  TensorAccessKind kind = TensorAccessKind::nothing;
  bool writes = false;
  uint32_t warp = 0;
  machine::LaneMask lanes = 0;
  Time time = 0;  ///< time of the warp
  uint32_t pc = 0;
  uint32_t number = 0;      ///< index of the operation; else number among the warp's loads or stores, from 1 on
  SharedClock known;        ///< what its issuer knew
  bool of_nothing = false;  ///< a read of what nobody has written
  /// Of an MMA that has written D: the rows of A, in tensor memory, that nobody had written. Rows do not mix, so that
  /// only the same rows of D are not what they should be. Their lanes are those of A.
  machine::TensorRange missing{};
};

/// What is wrong between two accesses.
enum class TensorFlaw : uint8_t {
  not_waited,         ///< the first is a load or store that its own warp has not waited for
  not_ended,          ///< the first is an operation whose commit was not observed
  unordered,          ///< the first has ended, but the second's threads do not know
  fence_after,        ///< fence::after_thread_sync is missing before the second
  fence_before,       ///< fence::before_thread_sync is missing after the first
  unwritten,          ///< there is no first: the second adds to what nobody has written
  unwritten_load,     ///< there is no first: the second loads what nobody has written, and nothing else
  unwritten_operand,  ///< there is no first: the second is an operation that reads what nobody has written
  overlap,            ///< there is no first: the second is an operation that reads what it writes
};

struct TensorConflict {
  TensorFlaw flaw;
  TensorAccess before, now;
  machine::TensorRange range;  ///< where they meet
  uint32_t rank = 0;           ///< in whose tensor memory
  bool of_metadata = false;    ///< the second has a sparse A, and its metadata are meant
};

/// The tensor memory of a cluster's blocks.
class TensorOrder {
 public:
  TensorOrder(uint32_t blocks, uint32_t warps) : regions_(blocks), warps_(warps) {}

  /// Takes note of an event, which the order has been fed with. Returns what it conflicts with.
  std::vector<TensorConflict> change(const ClusterOrder& order, const machine::TensorEvent& event);
  /// Does the same for an operation of the tensor unit.
  std::vector<TensorConflict> issue(const ClusterOrder& order, const IssuedOperation& operation);
  /// Whether a warp has stored anything.
  bool has_stored(uint32_t warp) const { return warps_[warp].stores != 0; }

 private:
  struct Region {
    machine::TensorRange range;
    TensorAccess write;
    std::vector<TensorAccess> reads;  ///< since then: the latest of each warp or thread
    bool reported = false;            ///< that an operation reads it although nobody has written it
  };
  struct Wait {
    uint32_t count;  ///< loads or stores before it
    Time time;       ///< by which others know of it
  };
  struct WarpState {
    /// What the lanes knew at their last fence::after_thread_sync; null: none.
    std::array<SharedClock, machine::kWarpSize> fenced{};
    std::vector<std::pair<Time, machine::LaneMask>> fences_before;
    uint32_t loads = 0, stores = 0;
    std::vector<Wait> load_waits, store_waits;
  };

  void access(const ClusterOrder& order, uint32_t rank, const machine::TensorRange& range, const TensorAccess& now,
              std::vector<TensorConflict>& conflicts);
  machine::TensorRange missing_rows(uint32_t rank, const machine::TensorRange& a) const;
  void find_missing_rows(uint32_t rank, const machine::TensorRange& loaded, std::vector<TensorConflict>& conflicts);
  bool is_unwritten(uint32_t rank, const std::vector<machine::TensorRange>& ranges) const;
  void operate(const ClusterOrder& order, uint32_t rank, const machine::AsyncOperation& operation, TensorAccess now,
               std::vector<TensorConflict>& conflicts);
  std::optional<TensorFlaw> flaw_between(const ClusterOrder& order, const TensorAccess& before,
                                         const TensorAccess& now) const;
  template <typename Holds>
  std::optional<TensorFlaw> require(const ClusterOrder& order, const TensorAccess& now, TensorFlaw otherwise,
                                    Holds holds) const;
  Time end_of(const TensorAccess& load_or_store) const;

  std::vector<std::vector<Region>> regions_;  ///< by rank; regions of a block do not overlap
  std::vector<WarpState> warps_;
  bool overlap_reported_ = false;  ///< one wrong address makes each operation read what it writes
};

}  // namespace stagecraft::emulator::checks
