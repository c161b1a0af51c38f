// A ring of stages through mbarriers: one warp asks for bulk copies, the others add up what arrives; and bulk copies
// and reductions the other way, out of shared memory.
#include <cuda/ptx>

#include "report.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace stagecraft::conformance;

constexpr int kRow = 256;  // words per stage
constexpr int kConsumerWarps = 3;
constexpr int kThreads = (1 + kConsumerWarps) * kWarpSize;

/// Each consuming thread weights the words it reads by the row's number, so that rows out of order show.
template <int Stages>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const uint32_t* rows, int count, uint32_t* sums, uint32_t* stages) {
  __shared__ alignas(128) uint32_t tile[Stages][kRow];
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,                            // the copying lane
                    /*consumer_arrive_count=*/kConsumerWarps * kWarpSize);  // every lane that has read the row
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) {
      for (int row = 0; row < count; ++row) {
        ring.wait_consumer_if_needed(ring.try_wait_consumer());
        const uint32_t stage = ring.producer_stage();
        expect_bytes(ring.producer_mbar(stage), sizeof tile[0]);
        cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, tile[stage], rows + row * kRow,
                                 sizeof tile[0], ring.producer_mbar(stage));
        if (stages != nullptr) stages[row] = stage;
        ring.producer_step();
      }
    }
  } else {
    const int reader = threadIdx.x - kWarpSize;
    uint32_t sum = 0;
    for (int row = 0; row < count; ++row) {
      ring.wait_producer(/*hint=*/row % 2 == 0 ? 0 : 1000);
      for (int i = reader; i < kRow; i += kConsumerWarps * kWarpSize) sum = sum * 3 + tile[ring.consumer_stage()][i];
      arrive(ring.consumer_mbar(ring.consumer_stage()));
      ring.consumer_step();
    }
    sums[reader] = sum;
  }
}

/// Two roles that only count: the producer may be at most `Stages` ahead, which `most_ahead` checks.
template <int Stages>
__global__ void __launch_bounds__(2 * kWarpSize) throttle(int rounds, int* most_ahead) {
  __shared__ uint64_t barriers[2 * Stages];
  __shared__ int produced, consumed;
  ProducerConsumerPipeline<Stages> ring{barriers};
  if (threadIdx.x == 0) {
    produced = consumed = 0;
    ring.init_mbars(kWarpSize, kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  if (warp_index() == 0) {
    int most = 0;
    for (int round = 0; round < rounds; ++round) {
      ring.producer_signal_and_step();
      if (lane_index() == 0) {
        atomicAdd(&produced, 1);
        most = max(most, round + 1 - atomicAdd(&consumed, 0));
      }
    }
    if (lane_index() == 0) most_ahead[0] = most <= Stages + 1 ? 1 : most;
  } else {
    for (int round = 0; round < rounds; ++round) {
      ring.consumer_signal_and_step();
      __syncwarp();
      if (lane_index() == 0) atomicAdd(&consumed, 1);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    most_ahead[1] = produced;
    most_ahead[2] = consumed;
  }
}

/// Writes rows back with bulk stores, through shared memory, in groups of two.
__global__ void copy_through(const uint32_t* in, uint32_t* out, int count) {
  __shared__ alignas(128) uint32_t tile[2][kRow];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    init_barrier(&barrier, 1);
    fence_barrier_init();
  }
  __syncthreads();
  for (int row = 0; row < count; ++row) {
    uint32_t* stage = tile[row % 2];
    if (threadIdx.x == 0) {
      cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<1>{});  // the stage's last store has been read
      expect_bytes(&barrier, sizeof tile[0]);
      // Two halves on one barrier: the phase ends when both have arrived.
      cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, stage, in + row * kRow,
                               sizeof tile[0] / 2, &barrier);
      cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, stage + kRow / 2,
                               in + row * kRow + kRow / 2, sizeof tile[0] / 2, &barrier);
    }
    wait(&barrier, row & 1);
    for (int i = threadIdx.x; i < kRow; i += blockDim.x) stage[i] = stage[i] * 5 + row;
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + row * kRow, stage,
                               sizeof tile[0]);
      cuda::ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>{});
}

/// Adds a row of shared memory to global memory with TMA.
__global__ void bulk_reduce(const uint32_t* in, uint32_t* sum, uint32_t* largest, uint32_t* bits) {
  __shared__ alignas(128) uint32_t tile[kRow];
  for (int i = threadIdx.x; i < kRow; i += blockDim.x) tile[i] = in[blockIdx.x * kRow + i];
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::ptx::cp_reduce_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, cuda::ptx::op_add, sum, tile,
                                    sizeof tile);
    cuda::ptx::cp_reduce_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, cuda::ptx::op_max, largest, tile,
                                    sizeof tile);
    cuda::ptx::cp_reduce_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, cuda::ptx::op_xor_op, bits, tile,
                                    sizeof tile);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>{});
  }
}

template <int Stages>
void run_ring(Report& report, const DeviceBuffer<uint32_t>& rows, int count) {
  const std::string name = std::to_string(Stages) + " stages, " + std::to_string(count) + " rows";
  DeviceBuffer<uint32_t> sums(kConsumerWarps * kWarpSize, "the sums"), stages(count, "the stages");
  sums.poison();
  stages.poison();
  sum_rows<Stages><<<1, kThreads>>>(rows.data(), count, sums.data(), stages.data());
  finish_kernel("sum_rows");
  report.section("sums, " + name, sums.to_host());
  report.section("stages used, " + name, stages.to_host());

  DeviceBuffer<int> ahead(3, "the counts");
  throttle<Stages><<<1, 2 * kWarpSize>>>(count, ahead.data());
  finish_kernel("throttle");
  report.section("throttled, " + name, ahead.to_host());
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    constexpr int kRows = 37;
    Random random(report.seed());
    std::vector<uint32_t> values;
    for (int i = 0; i < kRows * kRow; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> rows(values, "the rows");
    run_ring<1>(report, rows, kRows);
    run_ring<2>(report, rows, kRows);
    run_ring<3>(report, rows, kRows);
    run_ring<4>(report, rows, 3);
    run_ring<8>(report, rows, kRows);

    DeviceBuffer<uint32_t> out(kRows * kRow, "the copy");
    out.poison();
    copy_through<<<1, 64>>>(rows.data(), out.data(), kRows);
    finish_kernel("copy_through");
    report.section("rows copied through shared memory", out.to_host());

    const std::vector<uint32_t> start(kRow, 3);
    DeviceBuffer<uint32_t> sum(start, "the sum"), largest(start, "the maximum"), bits(start, "the bits");
    bulk_reduce<<<kRows, 64>>>(rows.data(), sum.data(), largest.data(), bits.data());
    finish_kernel("bulk_reduce");
    report.section("bulk reduction, add", sum.to_host());
    report.section("bulk reduction, max", largest.to_host());
    report.section("bulk reduction, xor", bits.to_host());
  });
}
