// Epilogues without a tensor core: four warps fill accumulators in tensor memory with given sums, four others write
// them to C, and a ninth loads what an epilogue adds. The results are then exactly those of the epilogue.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "stagecraft/epilogue.hpp"
#include "stagecraft/epilogue_input.hpp"
#include "stagecraft/epilogue_operations.hpp"
#include "stagecraft/output_stages.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/row_writer.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tile_writer.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft::tests {

inline constexpr int kFillThreads = 4 * kWarpSize;
inline constexpr int kEpilogueThreads = kEpilogueWarps * kWarpSize;
inline constexpr int kLoadWarp = 8;
inline constexpr int kEpilogueTestThreads = (kLoadWarp + 1) * kWarpSize;

/// A batch of matrices of sums, and the tiles in which a kernel goes through them.
struct Sums {
  const float* values;
  int rows, columns, batches;

  __device__ float at(int batch, int row, int column) const {
    if (row >= rows || column >= columns) return __uint_as_float(0x7fc00000);  // what an epilogue must not use
    return values[(int64_t{batch} * rows + row) * columns + column];
  }
};

/// The tiles of a block: every gridDim.x-th, from blockIdx.x on.
template <typename Accumulator>
class Tiles {
 public:
  static constexpr int kRows = WarpPart<Accumulator>::block_rows, kColumns = Accumulator::columns;

  __device__ explicit Tiles(const Sums& sums)
      : sums_(sums),
        down_((sums.rows + kRows - 1) / kRows),
        across_((sums.columns + kColumns - 1) / kColumns),
        number_(static_cast<int>(blockIdx.x)) {}
  __device__ bool exist() const { return number_ < down_ * across_ * sums_.batches; }
  __device__ void next() { number_ += static_cast<int>(gridDim.x); }
  __device__ TilePlace place() const {
    return {.row = number_ % down_ * kRows,
            .column = number_ / down_ % across_ * kColumns,
            .batch = number_ / down_ / across_,
            .row_end = sums_.rows,
            .column_end = sums_.columns};
  }

 private:
  const Sums& sums_;
  int down_, across_, number_;
};

/// Two accumulators in tensor memory that threads fill in place of MMAs; otherwise as an OutputTilePipeline.
template <typename AccumulatorType>
class FilledAccumulators {
 public:
  using Accumulator = AccumulatorType;
  static constexpr int kStages = 2;
  using BarrierArray = uint64_t[2 * kStages];
  static constexpr int kColumns = static_cast<int>(std::bit_ceil(
      static_cast<unsigned>(kStages * Accumulator::tmem_columns < 32 ? 32 : kStages * Accumulator::tmem_columns)));
  using Allocation = TmemAllocation<kColumns>;  // of the block alone, also where the accumulator is a pair's

  __device__ FilledAccumulators(BarrierArray& barriers, uint32_t address) : ring_(barriers), address_(address) {}

  __device__ static void init_barriers(MbarPtr barriers) {
    ProducerConsumerPipeline<kStages>{barriers}.init_mbars(kFillThreads, kEpilogueThreads);
  }

  __device__ uint32_t consumer_stage() const { return ring_.consumer_stage(); }
  __device__ MbarPtr consumer_mbar(uint32_t stage) const { return ring_.consumer_mbar(stage); }
  __device__ void consumer_step() { ring_.consumer_step(); }
  __device__ Accumulator accumulator(uint32_t stage) const {
    return Accumulator(tmem_offset(address_, 0, stage * Accumulator::tmem_columns));
  }
  __device__ void signal_mma(uint32_t stage) const {
    cuda::ptx::tcgen05_fence_before_thread_sync();
    arrive(consumer_mbar(stage));
  }
  __device__ __forceinline__ EpilogueStage<FilledAccumulators> acquire_epilogue() {
    ring_.wait_producer();
    cuda::ptx::tcgen05_fence_after_thread_sync();
    return {*this, SourceLine::here()};
  }

  /// Called by four warps.
  __device__ void fill(const Sums& sums, const TilePlace& tile) {
    ring_.wait_consumer();
    cuda::ptx::tcgen05_fence_after_thread_sync();
    const Accumulator to = accumulator(ring_.producer_stage());
    const uint32_t warp = warp_index();
    const int row = Accumulator::row_of(warp, lane_index());
    for (int column = 0; column < Accumulator::tmem_columns; column += 8) {
      uint32_t words[8];
      for (int i = 0; i < 8; ++i) {
        const int of_matrix = tile.column + Accumulator::column_of(warp, column + i);
        words[i] = row < 0 ? 0x7fc00000 : __float_as_uint(sums.at(tile.batch, tile.row + row, of_matrix));
      }
      store_tmem(to.part_of_warp(warp, column), words);
    }
    wait_for_tmem_stores();
    cuda::ptx::tcgen05_fence_before_thread_sync();
    arrive(ring_.producer_mbar(ring_.producer_stage()));
    ring_.producer_step();
  }

 private:
  ProducerConsumerPipeline<kStages> ring_;
  uint32_t address_;
};

/// What all threads of a block do: fill, write, load.
/// @param write  called by each warp of the epilogue, with the accumulators; goes through all tiles.
/// @param load   called by one thread of the ninth warp.
template <typename Accumulator, typename Write, typename Load>
__device__ __forceinline__ void run_epilogue(const Sums& sums, Write write, Load load) {
  using Accumulators = FilledAccumulators<Accumulator>;
  __shared__ typename Accumulators::BarrierArray barriers;
  __shared__ uint32_t published;
  const typename Accumulators::Allocation tensor_memory{&published};
  if (threadIdx.x == 0) {
    Accumulators::init_barriers(barriers);
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

  Accumulators accumulators{barriers, tensor_memory.address()};
  if (warp_index() == kLoadWarp) {
    if (elect_one()) load();
  } else if (warp_index() >= kEpilogueWarps) {
    write(accumulators);
  } else {
    for (Tiles<Accumulator> tiles{sums}; tiles.exist(); tiles.next()) accumulators.fill(sums, tiles.place());
  }
  __syncwarp();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == 0) tensor_memory.deallocate();
}

/// Writes all tiles of a block.
template <typename Accumulators, typename Writer, typename Operations>
__device__ __forceinline__ void write_tiles(Accumulators& accumulators, const Sums& sums, Writer& writer,
                                            Operations& epilogue) {
  for (Tiles<typename Accumulators::Accumulator> tiles{sums}; tiles.exist(); tiles.next()) {
    writer.write(accumulators.acquire_epilogue(), tiles.place(), epilogue);
  }
}

/// The whole kernel where the epilogue needs no shared memory of its own.
template <typename Writer, typename Operations>
__global__ void __launch_bounds__(kEpilogueTestThreads)
    write_by_copies(const __grid_constant__ typename Writer::Map map, Sums sums, Operations epilogue) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& storage = *reinterpret_cast<typename Writer::Storage*>(dynamic_shared_memory);
  run_epilogue<typename Writer::Accumulator>(
      sums,
      [&](auto& accumulators) {
        Writer writer{storage, map};
        write_tiles(accumulators, sums, writer, epilogue);
        writer.drain();
      },
      [] {});
}

/// The same, row by row.
template <typename Writer, typename Element, typename Operations>
__global__ void __launch_bounds__(kEpilogueTestThreads)
    write_by_rows(Element* c, int64_t row_stride, int64_t batch_stride, Sums sums, Operations epilogue) {
  run_epilogue<typename Writer::Accumulator>(
      sums,
      [&](auto& accumulators) {
        Writer writer{c, row_stride, batch_stride};
        write_tiles(accumulators, sums, writer, epilogue);
      },
      [] {});
}

// ---- On the host ----------------------------------------------------------------------------------------------------

/// A batch of matrices on the host, with gaps between rows and between matrices where asked for.
template <typename Element>
struct Matrices {
  int rows, columns, batches;
  int64_t row_bytes, batch_bytes;
  std::vector<unsigned char> bytes;  ///< poisoned

  Matrices(int rows, int columns, int batches, int gap_bytes = 0)
      : rows(rows),
        columns(columns),
        batches(batches),
        row_bytes((int64_t{columns} * element_bits<Element> / 8 + 15) / 16 * 16 + gap_bytes),
        batch_bytes(rows * row_bytes + gap_bytes),
        bytes(batches * batch_bytes, 0xff) {}

  size_t offset(int batch, int row, int column) const {
    return batch * batch_bytes + row * row_bytes + int64_t{column} * element_bits<Element> / 8;
  }
  Element get(int batch, int row, int column) const {
    Element element;
    std::memcpy(&element, bytes.data() + offset(batch, row, column), sizeof element);
    return element;
  }
  void set(int batch, int row, int column, Element element) {
    std::memcpy(bytes.data() + offset(batch, row, column), &element, sizeof element);
  }
  /// Calls `visit(batch, row, column)` for each element.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int batch = 0; batch < batches; ++batch) {
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) visit(batch, row, column);
      }
    }
  }
};

/// Random sums of both signs and many magnitudes, up to 2^`exponent`.
inline Matrices<float> random_sums(int rows, int columns, int batches, uint64_t seed, float exponent = 10) {
  Matrices<float> sums(rows, columns, batches);
  sums.row_bytes = columns * 4;
  sums.batch_bytes = rows * sums.row_bytes;
  harness::Random random(seed);
  sums.for_each([&](int batch, int row, int column) {
    const float magnitude = std::exp2(exponent * random.uniform());
    sums.set(batch, row, column, random.uniform() * magnitude);
  });
  return sums;
}

/// The tensor map of matrices on the device, for tiles of type `T`.
template <typename T, typename Element>
BatchedTileMap<T> map_of(const harness::DeviceBuffer<unsigned char>& device, const Matrices<Element>& matrices) {
  return make_batched_tile_map<T>(reinterpret_cast<const Element*>(device.data()), matrices.rows, matrices.columns,
                                  matrices.row_bytes, matrices.batches, matrices.batch_bytes);
}

inline bool can_run() { return harness::current_device().major == 10; }

template <typename Kernel, typename... Arguments>
void launch_epilogue(Kernel kernel, int blocks, size_t shared_bytes, const Arguments&... arguments) {
  harness::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
      "ask for the kernel's shared memory");
  kernel<<<blocks, kEpilogueTestThreads, shared_bytes>>>(arguments...);
  harness::check(cudaGetLastError(), "launch the kernel");
  harness::check(cudaDeviceSynchronize(), "run the kernel");
}

/// What a kernel writes to poisoned matrices of `Element` through a TileWriter with these operations.
template <typename Writer, typename Element, typename Operations>
Matrices<Element> written(const Matrices<float>& sums, const Operations& epilogue, int blocks = 2) {
  const harness::DeviceBuffer<unsigned char> device_sums(sums.bytes, "the sums");
  Matrices<Element> c(sums.rows, sums.columns / Operations::columns_per_result, sums.batches, /*gap_bytes=*/32);
  harness::DeviceBuffer<unsigned char> device_c(c.bytes, "C");
  const auto map = map_of<typename Writer::SliceTile>(device_c, c);
  launch_epilogue(write_by_copies<Writer, Operations>, blocks, sizeof(typename Writer::Storage), map,
                  Sums{reinterpret_cast<const float*>(device_sums.data()), sums.rows, sums.columns, sums.batches},
                  epilogue);
  c.bytes = device_c.to_host();
  return c;
}

/// Expects the elements of C, and untouched gaps between them.
/// @param is_right  called with (batch, row, column, element).
template <typename Element, typename IsRight>
void expect_elements(const Matrices<Element>& c, IsRight is_right) {
  Matrices<Element> gaps = c;
  int wrong = 0;
  c.for_each([&](int batch, int row, int column) {
    if (!is_right(batch, row, column, c.get(batch, row, column)) && ++wrong <= 5) {
      ADD_FAILURE() << "matrix " << batch << ", row " << row << ", column " << column << ": "
                    << static_cast<float>(c.get(batch, row, column));
    }
    std::memset(gaps.bytes.data() + gaps.offset(batch, row, column), 0xff, sizeof(Element));
  });
  EXPECT_EQ(wrong, 0);
  for (size_t i = 0; i < gaps.bytes.size(); ++i)
    ASSERT_EQ(gaps.bytes[i], 0xff) << "byte " << i << ", which is not of C";
}

}  // namespace stagecraft::tests
