// A role's position in a ring of stages: the stage in hand, and the number of rounds through the ring, modulo two.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace stagecraft {

/// A position in a ring of `NumStages` stages.
///
/// Each role keeps its own, in registers: nothing here is shared, and all threads of a role step together. No method
/// waits for anything or orders memory. Source: chapters/02_ring_of_stages.
template <int NumStages>
class PipelineState {
  static_assert(NumStages >= 1, "a ring needs at least one stage");

 public:
  /// @param index  the first stage to use, 0 to NumStages - 1.
  /// @param phase  the parity to wait for there: 0 for "until the producer has filled it", 1 for "until it is free",
  ///               which holds at once for a fresh barrier.
  __host__ __device__ constexpr explicit PipelineState(uint32_t index = 0, uint32_t phase = 0)
      : index_(index), phase_(phase) {}

  /// The stage in hand, 0 to NumStages - 1.
  __host__ __device__ constexpr uint32_t index() const { return index_; }

  /// The parity, 0 or 1, to wait for at that stage's barriers.
  __host__ __device__ constexpr uint32_t phase() const { return phase_; }

  /// Goes on to the next stage. All barriers of a round are in the same phase, so the parity turns only at the wrap.
  __host__ __device__ constexpr void step() {
    ++index_;
    if (index_ == NumStages) {
      index_ = 0;
      phase_ ^= 1;
    }
  }

 private:
  uint32_t index_;
  uint32_t phase_;
};

}  // namespace stagecraft
