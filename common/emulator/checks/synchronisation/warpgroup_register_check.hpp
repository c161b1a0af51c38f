// Finds accesses to the registers of wgmma.mma_async that nothing orders: wgmma.fence is missing before it, or
// wgmma.wait_group after it.
//
// PTX ISA, "wgmma.fence": all warps of a warpgroup must execute it before their first wgmma.mma_async, and between an
// access to a register by a thread and a wgmma.mma_async that has it as an accumulator or in A. Consecutive
// wgmma.mma_async of one shape need none between them for their accumulators. "wgmma.wait_group": accumulators and A
// must not be accessed before a wait for a group with the operation.
//
// nvcc chooses the registers of PTX and places moves and constants among the instructions as it likes. So a move is no
// access here: what is known about a register goes with the value to the next one. A constant is none, either: nvcc
// puts it where the register is used, and a register that is set to one counts as untouched. And A may be read at any
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/memory_check.hpp"

namespace stagecraft::emulator::checks {

class WarpgroupRegisterCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override;
  void warpgroup_fenced(ClusterRecord& cluster, const machine::Fragment& fragment) override;
  void warpgroup_issued(ClusterRecord& cluster, const machine::WarpgroupIssue& event) override;
  void warpgroup_waited(ClusterRecord& cluster, const machine::WarpgroupWait& event) override;
  void warpgroup_registers_used(ClusterRecord& cluster, const machine::WarpgroupRegisterUse& event) override;

 private:
  static constexpr uint32_t kNever = 0xffffffffu;

  /// An access to a register, and how many fences the warp had executed then.
  struct Access {
    uint32_t pc = kNever;
    uint64_t fences = 0;
  };
  /// What a warp has done with a register, or with the value that was moved there.
  struct Register {
    Access written, read;    ///< by threads, since an operation wrote it
    Access multiplied;       ///< by the latest operation that has it
    uint64_t operation = 0;  ///< its number in the warp
    bool is_sum = false;     ///< it is an accumulator there, not A
  };
  struct Warp {
    uint64_t fences = 0;
    uint64_t ended = 0;  ///< operations that it has waited for
    std::vector<Register> registers;
  };
  struct State {
    std::vector<Warp> warps;  ///< by number in the cluster; those that have multiplied or accessed such a register
  };

  Warp& warp_of(const ClusterRecord& cluster, const machine::Fragment& fragment);
  bool have_one_shape(const machine::Kernel& kernel, uint32_t one_pc, uint32_t other_pc);
  void report_missing_fence(ClusterRecord& cluster, const machine::Fragment& fragment, uint32_t reg,
                            const Access& before, const char* what, bool sum);
  void report_missing_wait(ClusterRecord& cluster, const machine::WarpgroupRegisterUse& event, uint32_t reg,
                           const Register& state, bool writes);

  PerCluster<State> states_;
  struct {
    uint32_t one = kNever, other = kNever;
    bool alike = false;
  } compared_;  ///< the shapes that were compared last
};

}  // namespace stagecraft::emulator::checks
