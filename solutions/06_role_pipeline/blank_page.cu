// Chapter 06, a blank page, filled: the role in the middle is the consumer of one ring and the producer of the next.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

constexpr int kThreads = 3 * kWarpSize;

/// What a warp does.
enum class Role { copy, subtract, add };

/// The calling warp's role: its index. Called by a whole warp.
__device__ Role warp_role() { return static_cast<Role>(warp_index()); }

using Producer = RolePipeline<kStages, /*IsProducer=*/true>;
using Consumer = RolePipeline<kStages, /*IsProducer=*/false>;

/// The barriers of a ring, and what its stages hold.
struct Ring {
  alignas(128) float tile[kStages][kRow];
  uint64_t full[Producer::num_producer_mbars];
  uint64_t empty[Producer::num_consumer_mbars];
};

}  // namespace

/// One block of three warps: see the roles.
__global__ void __launch_bounds__(kThreads) measure_roughness(const float* in, float* roughness, int rows) {
  __shared__ Ring copied;   // rows
  __shared__ Ring changes;  // the differences between neighbours of a row

  if (threadIdx.x == 0) {
    Producer{copied.full, copied.empty}.init_mbars(/*producer_arrive_count=*/1,  // the copying lane, with the bytes
                                                   /*consumer_arrive_count=*/kWarpSize);
    Producer{changes.full, changes.empty}.init_mbars(/*producer_arrive_count=*/kWarpSize,  // every lane that writes
                                                     /*consumer_arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::copy:
      if (elect_one()) {
        Producer out{copied.full, copied.empty};
        for (int row = 0; row < rows; ++row) {
          out.acquire();
          expect_bytes(out.producer_mbar(), sizeof copied.tile[0]);
          copy_bulk(copied.tile[out.index()], in + row * kRow, sizeof copied.tile[0], out.producer_mbar());
          out.step();
        }
      }
      break;

    case Role::subtract: {
      Consumer from{copied.full, copied.empty};
      Producer to{changes.full, changes.empty};
      for (int row = 0; row < rows; ++row) {
        from.wait();
        to.acquire();
        const float* numbers = copied.tile[from.index()];
        for (int i = lane_index(); i < kRow - 1; i += kWarpSize) {
          changes.tile[to.index()][i] = numbers[i + 1] - numbers[i];
        }
        from.release();
        to.commit();
      }
      break;
    }

    case Role::add: {
      Consumer from{changes.full, changes.empty};
      for (int row = 0; row < rows; ++row) {
        from.wait();
        float sum = 0;
        for (int i = lane_index(); i < kRow - 1; i += kWarpSize) sum += fabsf(changes.tile[from.index()][i]);
        from.release();
        for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
          sum += __shfl_xor_sync(0xffffffff, sum, distance);
        }
        if (lane_index() == 0) roughness[row] = sum;
      }
      break;
    }
  }
}

void launch_measure_roughness(const float* in, float* roughness, int rows) {
  measure_roughness<<<1, kThreads>>>(in, roughness, rows);
}
