// Chapter 02: a ring of stages. The producer fills them in turn, the consumer empties them in turn, and neither waits
// for the other unless it must.
#include <pipeline_state.hpp>  // yours, in the same folder

#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kThreads = 2 * kWarpSize;

/// What a warp does.
enum class Role { produce, consume };

/// The calling warp's role: warp 0 fills stages, warp 1 consumes them. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == 0 ? Role::produce : Role::consume; }

/// Keeps the calling warp busy for so many clock cycles.
__device__ void spend(int cycles) {
  const long long end = clock64() + cycles;
  while (clock64() < end) {
  }
}

/// A warp copies the rows of `in` into a ring of shared-memory stages, a warp adds them up.
template <int Stages>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const uint32_t* in, int rows, uint32_t* sums, uint32_t* left, int work, RowTimes* times) {
  __shared__ alignas(128) uint32_t tile[Stages][kRow];
  __shared__ uint64_t full[Stages];   // full[s] ends a phase when a row has arrived in stage s
  __shared__ uint64_t empty[Stages];  // empty[s] ends a phase when the row in stage s has been consumed

  //! [init]
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Stages; ++stage) {
      init_barrier(&full[stage], /*arrive_count=*/1);           // the copying lane, which also announces the bytes
      init_barrier(&empty[stage], /*arrive_count=*/kWarpSize);  // every lane that has read the row
    }
    fence_barrier_init();
  }
  __syncthreads();
  //! [init]

  switch (warp_role()) {
    case Role::produce:
      //! [producer]
      if (elect_one()) {
        PipelineState<Stages> state{/*index=*/0, /*phase=*/1};
        for (int row = 0; row < rows; ++row) {
          wait(&empty[state.index()], state.phase());
          if (times != nullptr) times[row].asked = clock64();
          expect_bytes(&full[state.index()], kRowBytes);
          copy_bulk(tile[state.index()], in + row * kRow, kRowBytes, &full[state.index()]);
          state.step();
        }
        //! [producer]
        //! [drain]
        for (int stage = 0; stage < Stages; ++stage) {
          wait(&empty[state.index()], state.phase());
          state.step();
        }
        //! [drain]
        // From here on, no other thread reads the ring or writes into it: it is the producer's alone, which wipes it.
        for (int i = 0; left != nullptr && i < Stages * kRow; ++i) {
          tile[0][i] = 0;
          left[i] = tile[0][i];
        }
      }
      break;

    case Role::consume:
      //! [consumer]
      PipelineState<Stages> state{/*index=*/0, /*phase=*/0};
      for (int row = 0; row < rows; ++row) {
        wait(&full[state.index()], state.phase());
        if (times != nullptr && elect_one()) times[row].taken = clock64();
        spend(work);
        uint32_t mine = 0;
        for (int i = lane_index(); i < kRow; i += kWarpSize) mine += tile[state.index()][i];
        const uint32_t all = __reduce_add_sync(0xffffffff, mine);
        if (elect_one()) sums[row] = all;
        if (times != nullptr && elect_one()) times[row].freed = clock64();
        arrive(&empty[state.index()]);  // not before the last read above
        state.step();
      }
      //! [consumer]
      break;
  }
}

/// One thread walks around a ring.
template <int Stages>
__global__ void walk(uint32_t first_phase, int steps, uint32_t* indices, uint32_t* phases) {
  PipelineState<Stages> state{/*index=*/0, first_phase};
  for (int step = 0; step < steps; ++step) {
    indices[step] = state.index();
    phases[step] = state.phase();
    state.step();
  }
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_walk(int stages, uint32_t first_phase, int steps, uint32_t* indices, uint32_t* phases) {
  const auto kernel = stages == 1 ? walk<1> : stages == 2 ? walk<2> : stages == 3 ? walk<3> : walk<4>;
  kernel<<<1, 1>>>(first_phase, steps, indices, phases);
}

void launch_sum_rows(int stages, const uint32_t* in, int rows, uint32_t* sums, uint32_t* left, int work,
                     RowTimes* times) {
  const auto kernel = stages == 1 ? sum_rows<1> : stages == 2 ? sum_rows<2> : stages == 3 ? sum_rows<3> : sum_rows<4>;
  kernel<<<1, kThreads>>>(in, rows, sums, left, work, times);
}
