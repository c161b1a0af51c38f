// Finds products that the tensor core adds to a sum a second time, because the copies of this round did not bring their
// operands: those of an earlier round are still there.
//
// That bytes are old is no mistake: weights, or Q in attention, stay for many rounds, also in the slots of a ring and
// on the barrier of what streams past them; of rows that no result needs, nothing is copied. So the rule is about a
// whole product. It is reported where all of this is so:
//   - A and B are both in shared memory, copies that complete on mbarriers have written all of both, and a product of
//     the very same operands was issued after those copies: this one adds nothing new to anything;
//   - of one of their barriers, the issuing thread knows that a later phase has ended than theirs, and what was
//     released to that barrier since says that the first product is over: the slot was handed back, and again to the
//     consumer, in between;
//   - that later phase brought bytes, elsewhere, as to a group of tiles that is not full; or it brought none, though
//     the two before it did, as where a producer ends one round early;
//   - it is one of a sum with other products. Problems that share a round may have sums of their own, and that of one
//     which is not there is never stored.
// One old operand beside a new one is never reported: from what happens, a resident operand and a forgotten copy are
// the same.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class StaleOperandCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override { states_.start(cluster); }
  void operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) override;

 private:
  /// A product of bytes that were multiplied before.
  struct Repeat {
    uint32_t operation = 0, before = 0;  ///< indices of the two
    uint32_t barrier = 0;                ///< index
    Time phase = 0, latest = 0;          ///< in which the bytes came, and the one that has ended since
    bool brought = false;                ///< the latest brought other bytes
    uint32_t a = 0, b = 0;               ///< where the operands begin: offsets
  };
  /// An accumulator since it was overwritten last.
  struct Sum {
    bool has_others = false;       ///< it has products that are no repeats
    std::optional<Repeat> repeat;  ///< the first one; it is reported once there are others
  };
  struct State {
    std::unordered_map<uint64_t, uint32_t> products;  ///< the last one of some operands, by these
    std::unordered_map<uint64_t, Sum> sums;           ///< by accumulator
  };

  static std::optional<Repeat> find_repeat(const ClusterRecord& cluster, const IssuedOperation& issued,
                                           uint32_t before);
  void report(const ClusterRecord& cluster, const Repeat& repeat);

  PerCluster<State> states_;
};

}  // namespace stagecraft::emulator::checks
