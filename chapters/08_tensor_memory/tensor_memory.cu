// Chapter 08: tensor memory, and one tile of a matrix product on the tensor core of an SM100.
#include <cuda/ptx>

#include "launches.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

constexpr int kThreads = 4 * kWarpSize;

// ---- 1. Tensor memory: allocate it, use it, deallocate it -----------------------------------------------------------

/// __syncthreads() for tcgen05 instructions as well: it orders those before it, in all threads, before those after it.
__device__ void sync_block() {
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

/// Allocates tensor memory for the block and returns its address to every thread. Called by all threads.
template <int Columns>
__device__ uint32_t allocate(const TmemAllocation<Columns>& memory) {
  // TODO 1: one warp allocates and releases the lock. When is the address there for the others?
  (void)memory;
  return 0;
}

/// Deallocates it. Called by all threads, each after its last use of it.
template <int Columns>
__device__ void deallocate(const TmemAllocation<Columns>& memory) {
  // TODO 2: the warp that has allocated deallocates. When does no warp use it any more?
  (void)memory;
}

/// The address of column `column`, in the first of the 32 lanes that the calling warp can reach.
__device__ uint32_t own_part(uint32_t address, uint32_t column) {
  return address + column;  // TODO 3: in which lane does the warp's part begin?
}

/// Four warps put a row of `in` into each lane of tensor memory, and write to `out` what they find there.
__global__ void __launch_bounds__(kThreads) remember(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t published;
  const TmemAllocation<kWords> memory{&published};
  const uint32_t address = allocate(memory);

  const uint32_t row = blockIdx.x * kLanes + threadIdx.x;
  [[maybe_unused]] uint32_t words[kWords];
  for (int i = 0; i < kWords; ++i) words[i] = in[row * kWords + i];
  uint32_t found[kWords] = {};
  // TODO 3: store the words, and load into `found`. Neither is done when its instruction is.
  (void)address;

  for (int i = 0; i < kWords; ++i) out[row * kWords + i] = found[i];
  deallocate(memory);
}

// ---- 2. One tile on the tensor core ---------------------------------------------------------------------------------

using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_128>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_128>;

/// The word by which the tensor core finds a tile: rows of 128 bytes, swizzled by 128 bytes.
/// @param address  of its first byte, in the window of shared memory.
__device__ uint64_t describe(uint32_t address) {
  (void)address;
  return SharedMemoryDescriptor{
      // TODO 4: three fields: where the tile is, how far from eight rows to the next eight, which swizzle.
      .start_address = 0,
  }
      .encode();
}

/// What one MMA computes: D (128 x 128) = A (128 x 16) times B (128 x 16) transposed (+ D).
constexpr Mma kMma{.kind = MmaKind::f16,
                   .m = kM,
                   .n = kN,
                   .a = ElementFormat::bf16,
                   .b = ElementFormat::bf16,
                   .accumulator = AccumulatorFormat::f32};

/// Asks the tensor core for the product of two tiles. Called by one thread.
/// @param done  a barrier on which the tensor core arrives when the product is in the accumulator.
__device__ void multiply(uint32_t accumulator, const ATile& a, const BTile& b, MbarPtr done) {
  const uint64_t a_descriptor = describe(a.shared_address());
  const uint64_t b_descriptor = describe(b.shared_address());
  // TODO 5: one issue_mma<kMma> for each slice of kMma.k() columns; then let the tensor core arrive.
  (void)accumulator, (void)a_descriptor, (void)b_descriptor, (void)done, (void)kMma;
}

/// Waits for the product and writes it to `d`: each thread the row that its lane of tensor memory holds. Called by four
/// warps.
__device__ void store_product(uint32_t accumulator, float* d, MbarPtr done) {
  // TODO 6: not before the product is there, for tcgen05 instructions too.
  (void)done;
  constexpr int kColumns = 32;
  for (int column = 0; column < kN; column += kColumns) {
    float sums[kColumns] = {};  // TODO 6: the warp's own part, from `column` on: load_tmem_columns.
    (void)accumulator;
    for (int i = 0; i < kColumns; ++i) d[threadIdx.x * kN + column + i] = sums[i];
  }
}

/// One thread asks for the copies and the MMAs; four warps write the product.
__global__ void __launch_bounds__(kThreads)
    multiply_tile(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, float* d) {
  __shared__ ATile a;
  __shared__ BTile b;
  __shared__ uint64_t loaded, done;
  __shared__ uint32_t published;
  const TmemAllocation<kN> memory{&published};

  if (warp_index() == 0 && elect_one()) {
    init_barrier(&loaded, /*arrive_count=*/1);  // this thread, when it announces the bytes
    init_barrier(&done, /*arrive_count=*/1);    // the tensor core
    fence_barrier_init();
  }
  __syncwarp();
  const uint32_t accumulator = allocate(memory);

  if (warp_index() == 0 && elect_one()) {
    expect_bytes(&loaded, ATile::bytes + BTile::bytes);
    copy_tile(a, a_map, /*row=*/0, /*column=*/0, &loaded);
    copy_tile(b, b_map, /*row=*/0, /*column=*/0, &loaded);
    wait(&loaded, /*parity=*/0);
    multiply(accumulator, a, b, &done);
  }
  __syncwarp();
  store_product(accumulator, d, &done);
  deallocate(memory);
}

// ---- 3. An operand that threads write -------------------------------------------------------------------------------

/// As multiply_tile, but the threads write A: they round it to bf16 and store it where the tensor core reads it.
__global__ void __launch_bounds__(kThreads)
    multiply_rounded(const float* a_there, const __grid_constant__ CUtensorMap b_map, float* d) {
  __shared__ ATile a;
  __shared__ BTile b;
  __shared__ uint64_t loaded, done;
  __shared__ uint32_t published;
  const TmemAllocation<kN> memory{&published};

  if (warp_index() == 0 && elect_one()) {
    init_barrier(&loaded, /*arrive_count=*/1);
    init_barrier(&done, /*arrive_count=*/1);
    fence_barrier_init();
    expect_bytes(&loaded, BTile::bytes);
    copy_tile(b, b_map, /*row=*/0, /*column=*/0, &loaded);
  }
  __syncwarp();
  for (int i = threadIdx.x; i < kM * kK; i += kThreads) {
    a.at(i / kK, i % kK) = __float2bfloat16_rn(a_there[i]);
  }
  // TODO 7: the tensor core is about to read what threads have written.
  const uint32_t accumulator = allocate(memory);  // which is a barrier for all threads

  if (warp_index() == 0 && elect_one()) {
    wait(&loaded, /*parity=*/0);
    multiply(accumulator, a, b, &done);
  }
  __syncwarp();
  store_product(accumulator, d, &done);
  deallocate(memory);
}

// ---- What the test calls --------------------------------------------------------------------------------------------

/// For the test of describe().
__global__ void describe_tile_of_a(Described* described) {
  __shared__ ATile a;
  *described = {describe(a.shared_address()), a.shared_address()};
}

void launch_remember(const uint32_t* in, uint32_t* out, int blocks) { remember<<<blocks, kThreads>>>(in, out); }

void launch_describe(Described* described) { describe_tile_of_a<<<1, 1>>>(described); }

void launch_multiply_tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d) {
  multiply_tile<<<1, kThreads>>>(make_tile_map<ATile>(a, kM, kK), make_tile_map<BTile>(b, kN, kK), d);
}

void launch_multiply_rounded(const float* a, const __nv_bfloat16* b, float* d) {
  multiply_rounded<<<1, kThreads>>>(a, make_tile_map<BTile>(b, kN, kK), d);
}
