// A role's position in a ring of stages: the stage in hand, and the parity to wait for there.
#pragma once

#include <cstdint>

namespace stagecraft {

/// A position in a ring of `NumStages` stages.
template <int NumStages>
class PipelineState {
 public:
  /// @param index  the first stage to use, 0 to NumStages - 1.
  /// @param phase  the parity, 0 or 1, to wait for there.
  __host__ __device__ constexpr explicit PipelineState(uint32_t index = 0, uint32_t phase = 0)
      : index_(index), phase_(phase) {}

  __host__ __device__ constexpr uint32_t index() const { return index_; }
  __host__ __device__ constexpr uint32_t phase() const { return phase_; }

  /// Goes on to the next stage: after the last one follows stage 0 again, in the next phase.
  __host__ __device__ constexpr void step() {
    // TODO 1: advance index_, and flip phase_ when the ring begins again.
  }

 private:
  uint32_t index_;
  uint32_t phase_;
};

}  // namespace stagecraft
