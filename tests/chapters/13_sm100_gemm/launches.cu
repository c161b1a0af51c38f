// Starts the answer's kernel, and its parts on their own.
#include <gemm.cuh>

#include "gemm_launch.cuh"
#include "harness/cuda_error.hpp"
#include "launches.hpp"
#include "stagecraft/tensor_map.hpp"

using namespace stagecraft;

namespace {

// ---- Operations -----------------------------------------------------------------------------------------------------

template <typename Operation>
__global__ void apply(Operation operation, float* rows, int valid) {
  float* const row = rows + threadIdx.x * kValues;
  float values[kValues];
  for (int i = 0; i < kValues; ++i) values[i] = row[i];
  operation(values, RowPlace{.row = static_cast<int>(threadIdx.x), .column = 64, .valid = valid});
  for (int i = 0; i < kValues; ++i) row[i] = values[i];
}

__global__ void find_maximum(const float* rows, int valid, float* maximum) {
  AbsoluteMaximum operation{maximum};
  float values[kValues];
  for (int i = 0; i < kValues; ++i) values[i] = rows[threadIdx.x * kValues + i];
  operation(values, RowPlace{.row = static_cast<int>(threadIdx.x), .column = 64, .valid = valid});
  operation.end_tile();
}

// ---- The writer -----------------------------------------------------------------------------------------------------

/// Four warps fill an accumulator without MMAs, then write it.
template <typename Writer>
__global__ void __launch_bounds__(kEpilogueThreads)
    write_known(const __grid_constant__ typename Writer::Map map, int m, int n, int tiles) {
  using Accumulator = typename Writer::Accumulator;
  using Output = OutputTilePipeline<Accumulator, 2>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& slices = *reinterpret_cast<typename Writer::Storage*>(dynamic_shared_memory);
  __shared__ typename Output::BarrierArray barriers;
  __shared__ uint32_t published;
  const typename Output::Allocation tensor_memory{&published};
  if (threadIdx.x == 0) {
    Output::init_barriers(barriers, /*producer_arrive_count=*/kEpilogueThreads,
                          /*consumer_arrive_count=*/kEpilogueThreads);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();

  Output output{barriers, tensor_memory.address()};
  Writer writer{slices, map};
  Epilogue<> epilogue;
  for (int tile = 0; tile < tiles; ++tile) {
    const int first_row = tile * Accumulator::rows;
    output.wait_epilogue_if_needed(false);
    const Accumulator accumulator = output.accumulator(output.producer_stage());
    const int row = first_row + Accumulator::row_of(warp_index(), lane_index());
    for (int column = 0; column < Accumulator::columns; ++column) {
      store_tmem(accumulator.part_of_warp(warp_index(), column),
                 {__float_as_uint(static_cast<float>(row * 256 + column))});
    }
    wait_for_tmem_stores();
    cuda::ptx::tcgen05_fence_before_thread_sync();
    arrive(output.producer_mbar(output.producer_stage()));
    output.producer_step();
    writer.write(output.acquire_epilogue(), TilePlace{.row = first_row, .row_end = m, .column_end = n}, epilogue);
  }
  writer.drain();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 0) tensor_memory.deallocate();
}

template <int NumBuffers>
void write_known_with(float* d, int m, int n, int tiles) {
  using Writer = TileWriter<TmemTensor<128, 128>, float, /*ColumnsPerResult=*/1, NumBuffers>;
  const auto map = map_of_d<Writer>(d, m, n);
  constexpr int kBytes = sizeof(typename Writer::Storage);
  harness::check(cudaFuncSetAttribute(write_known<Writer>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                 "reserve shared memory for the slices");
  write_known<Writer><<<1, kEpilogueThreads, kBytes>>>(map, m, n, tiles);
  harness::check(cudaGetLastError(), "launch write_known");
}

}  // namespace

void launch_add_per_column(const float* bias, float* values, int valid) {
  apply<<<1, kValueThreads>>>(AddPerColumn<float>{{bias}}, values, valid);
  harness::check(cudaGetLastError(), "launch AddPerColumn");
}

void launch_gated_silu(float* values) {
  apply<<<1, kValueThreads>>>(GatedSilu{}, values, kValues);
  harness::check(cudaGetLastError(), "launch GatedSilu");
}

void launch_absolute_maximum(const float* values, int valid, float* maximum) {
  find_maximum<<<1, kValueThreads>>>(values, valid, maximum);
  harness::check(cudaGetLastError(), "launch AbsoluteMaximum");
}

void launch_write_known(float* d, int m, int n, int tiles, int buffers) {
  return buffers == 1 ? write_known_with<1>(d, m, n, tiles) : write_known_with<2>(d, m, n, tiles);
}

int accumulators_of_answer(int columns) { return accumulators_that_fit(columns); }

void launch_gemm_with_bias(const __nv_bfloat16* a, const __nv_bfloat16* b, float alpha, const float* bias,
                           __nv_bfloat16* d, int m, int n, int k, int blocks) {
  start_gemm<128>(a, b, Epilogue{Multiply{alpha}, AddPerColumn<float>{{bias}}}, d, m, n, k, blocks);
}

void launch_gated_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n, int k,
                       int blocks) {
  start_gemm<256>(a, b, Epilogue{GatedSilu{}}, d, m, n, k, blocks);
}

void launch_quantising_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maximum, float scale,
                            __nv_fp8_e4m3* d, int m, int n, int k, int blocks) {
  start_gemm<64>(a, b, quantising_epilogue(maximum, scale), d, m, n, k, blocks);
}
