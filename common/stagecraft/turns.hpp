// Warpgroups that take turns, by barriers of the block that are numbers and not in memory: while one has the tensor
// core, the others do their arithmetic.
#pragma once

#include <cstdint>

#include "stagecraft/wgmma.hpp"

namespace stagecraft {

/// The turn of one warpgroup among `Warpgroups`: after the last one, the first is next.
///
/// Each has a barrier at which it waits, and at which the one before it arrives: 256 threads, of which only half wait.
/// A program must wait for as many turns as it is passed, or the last barrier is left with arrivals.
/// @tparam FirstBarrier  the first of the barrier numbers that this uses. 0 is that of `__syncthreads()`.
template <int Warpgroups, int FirstBarrier = 1>
class Turns {
  static_assert(Warpgroups >= 1 && FirstBarrier >= 1 && FirstBarrier + Warpgroups <= 16,
                "Turns: a block has 16 barriers, of which number 0 is taken");

 public:
  /// The first turn is that of warpgroup 0, without a wait for anybody. Called by all threads of all of them.
  /// @param warpgroup  of the caller, 0 to Warpgroups - 1.
  __device__ __forceinline__ explicit Turns(int warpgroup)
      : own_(FirstBarrier + warpgroup), next_(warpgroup == Warpgroups - 1 ? FirstBarrier : own_ + 1) {
    if (is_last()) pass();
  }

  /// Whether warpgroup 0 is next.
  __device__ __forceinline__ bool is_last() const { return next_ == FirstBarrier; }

  /// Waits until it is the caller's turn. Called by all threads of the warpgroup.
  __device__ __forceinline__ void wait() const {
    if constexpr (Warpgroups > 1) {
      asm volatile("barrier.cta.sync.aligned %0, %1;" : : "r"(own_), "n"(2 * kWarpgroupSize) : "memory");
    }
  }

  /// It is the turn of the next one. Called by all threads of the warpgroup.
  __device__ __forceinline__ void pass() const {
    if constexpr (Warpgroups > 1) {
      asm volatile("barrier.cta.arrive.aligned %0, %1;" : : "r"(next_), "n"(2 * kWarpgroupSize) : "memory");
    }
  }

 private:
  int own_, next_;
};

}  // namespace stagecraft
