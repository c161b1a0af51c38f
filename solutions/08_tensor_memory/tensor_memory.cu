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

//! [sync_block]
/// __syncthreads() for tcgen05 instructions as well: it orders those before it, in all threads, before those after it.
__device__ void sync_block() {
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}
//! [sync_block]

//! [allocate]
/// Allocates tensor memory for the block and returns its address to every thread. Called by all threads.
template <int Columns>
__device__ uint32_t allocate(const TmemAllocation<Columns>& memory) {
  if (warp_index() == 0) {
    memory.allocate();  // writes the address to the word in shared memory
    memory.release_lock();
  }
  sync_block();
  return memory.address();
}
//! [allocate]

//! [deallocate]
/// Deallocates it. Called by all threads, each after its last use of it.
template <int Columns>
__device__ void deallocate(const TmemAllocation<Columns>& memory) {
  sync_block();  // all warps have loaded what they need
  if (warp_index() == 0) memory.deallocate();
}
//! [deallocate]

//! [own_part]
/// The address of column `column`, in the first of the 32 lanes that the calling warp can reach.
__device__ uint32_t own_part(uint32_t address, uint32_t column) {
  return address + ((warp_index() % 4 * kWarpSize) << 16) + column;
}
//! [own_part]

/// Four warps put a row of `in` into each lane of tensor memory, and write to `out` what they find there.
__global__ void __launch_bounds__(kThreads) remember(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t published;
  const TmemAllocation<kWords> memory{&published};
  const uint32_t address = allocate(memory);

  const uint32_t row = blockIdx.x * kLanes + threadIdx.x;
  uint32_t words[kWords];
  for (int i = 0; i < kWords; ++i) words[i] = in[row * kWords + i];

  //! [store_and_load]
  uint32_t found[kWords];
  store_tmem(own_part(address, /*column=*/0), words);
  wait_for_tmem_stores();
  load_tmem(found, own_part(address, /*column=*/0));
  wait_for_tmem_loads();
  //! [store_and_load]

  for (int i = 0; i < kWords; ++i) out[row * kWords + i] = found[i];
  deallocate(memory);
}

// ---- 2. One tile on the tensor core ---------------------------------------------------------------------------------

using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_128>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_128>;

//! [describe]
/// The word by which the tensor core finds a tile: rows of 128 bytes, swizzled by 128 bytes.
/// @param address  of its first byte, in the window of shared memory.
__device__ uint64_t describe(uint32_t address) {
  return SharedMemoryDescriptor{
      .start_address = address,
      .stride_byte_offset = 8 * 128,  // from eight rows to the next eight
      .swizzle = Swizzle::bytes_128,
  }
      .encode();
}
//! [describe]

//! [multiply]
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
  for (int slice = 0; slice < kK / kMma.k(); ++slice) {
    const uint32_t bytes = slice * kMma.k() * sizeof(__nv_bfloat16);
    issue_mma<kMma>(accumulator, advance_descriptor(a_descriptor, bytes), advance_descriptor(b_descriptor, bytes),
                    /*accumulate=*/slice > 0);
  }
  commit_mma(done);
}
//! [multiply]

//! [store_product]
/// Waits for the product and writes it to `d`: each thread the row that its lane of tensor memory holds. Called by four
/// warps.
__device__ void store_product(uint32_t accumulator, float* d, MbarPtr done) {
  wait(done, /*parity=*/0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  constexpr int kColumns = 32;
  for (int column = 0; column < kN; column += kColumns) {
    float sums[kColumns];
    load_tmem_columns(sums, own_part(accumulator, column));
    for (int i = 0; i < kColumns; ++i) d[threadIdx.x * kN + column + i] = sums[i];
  }
}
//! [store_product]

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

  //! [written]
  for (int i = threadIdx.x; i < kM * kK; i += kThreads) {
    a.at(i / kK, i % kK) = __float2bfloat16_rn(a_there[i]);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // each thread, for what it has written
  const uint32_t accumulator = allocate(memory);          // which is a barrier for all threads
  //! [written]

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
