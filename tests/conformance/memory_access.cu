// Loads and stores of every width, vectors, sign extension, address spaces and their conversion, copies by cp.async,
// and what the special registers say.
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 64;

__global__ void widths(const uint8_t* in, uint8_t* out) {
  const int i = threadIdx.x;
  __shared__ alignas(16) uint8_t shared[kThreads * 64];
  uint8_t* mine = shared + i * 64;
  const uint8_t* from = in + i * 64;
  *reinterpret_cast<int8_t*>(mine) = *reinterpret_cast<const int8_t*>(from + 7);
  *reinterpret_cast<int*>(mine + 4) = *reinterpret_cast<const int8_t*>(from + 3);
  *reinterpret_cast<int64_t*>(mine + 8) = *reinterpret_cast<const int16_t*>(from + 10);
  *reinterpret_cast<uint4*>(mine + 16) = *reinterpret_cast<const uint4*>(from + 32);
  *reinterpret_cast<uint2*>(mine + 32) = *reinterpret_cast<const uint2*>(from + 8);
  *reinterpret_cast<double2*>(mine + 48) = *reinterpret_cast<const double2*>(from + 16);
  *reinterpret_cast<ushort4*>(mine + 40) = *reinterpret_cast<const ushort4*>(from + 56);
  mine[1] = from[60];
  *reinterpret_cast<uint16_t*>(mine + 2) = *reinterpret_cast<const volatile uint16_t*>(from + 2);
  __syncthreads();
  const uint8_t* other = shared + (i * 5 + 3) % kThreads * 64;
  for (int b = 0; b < 64; b += 16)
    *reinterpret_cast<uint4*>(out + i * 64 + b) = *reinterpret_cast<const uint4*>(other + b);
  out[i * 64 + 13] = *const_cast<const volatile uint8_t*>(other + 1);
}

/// Loads with cache hints, which change nothing, and stores likewise.
__global__ void cache_hints(const uint32_t* in, uint32_t* out) {
  const int i = threadIdx.x;
  uint32_t sum = __ldg(in + i);
  sum = sum * 3 + __ldcg(in + (i + 1) % kThreads);
  sum = sum * 3 + __ldca(in + (i + 2) % kThreads);
  sum = sum * 3 + __ldcs(in + (i + 3) % kThreads);
  sum = sum * 3 + __ldlu(in + (i + 4) % kThreads);
  sum = sum * 3 + __ldcv(in + (i + 5) % kThreads);
  const uint4 four = __ldg(reinterpret_cast<const uint4*>(in) + i % (kThreads / 4));
  sum += four.x ^ four.w;
  uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(in + (i + 6) % kThreads) : "memory");
  sum = sum * 3 + word;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(in + (i + 7) % kThreads) : "memory");
  sum = sum * 3 + word;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(in + (i + 8) % kThreads));
  sum = sum * 3 + word;
  __stcg(out + i * 4, sum);
  __stcs(out + i * 4 + 1, sum + 1);
  __stwt(out + i * 4 + 2, sum + 2);
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(out + i * 4 + 3), "r"(sum + 3) : "memory");
}

__constant__ uint32_t kConstant[4] = {7, 8, 9, 10};
__device__ uint32_t global_word;

/// Generic pointers reach whatever space they point to.
__global__ void address_spaces(uint32_t* out) {
  __shared__ uint32_t shared[kThreads];
  uint32_t local[2] = {threadIdx.x, threadIdx.x * 3};
  shared[threadIdx.x] = threadIdx.x * 11;
  const void* pointers[] = {&shared[threadIdx.x], &local[threadIdx.x % 2], &global_word, &kConstant[threadIdx.x % 4]};
  __syncthreads();
  const uint32_t* pointer = static_cast<const uint32_t*>(pointers[threadIdx.x % 4 == 2 ? 0 : threadIdx.x % 4]);
  uint32_t answer =
      __isShared(pointer) | __isLocal(pointer) << 1 | __isGlobal(pointer) << 2 | __isConstant(pointer) << 3;
  out[threadIdx.x * 2] = answer;
  out[threadIdx.x * 2 + 1] = *pointer;
}

/// Sixteen, eight and four bytes at a time, some of them cut short and filled with zeros.
__global__ void async_copies(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t shared[kThreads * 8];
  uint32_t* mine = shared + threadIdx.x * 8;
  const uint32_t* from = in + threadIdx.x * 8 % (kThreads - 8) / 4 * 4;
  const uint32_t to = __cvta_generic_to_shared(mine);
  for (int i = 0; i < 8; ++i) mine[i] = 0xdddddddd;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to + 16), "l"(from + 4), "r"(threadIdx.x % 9)
               : "memory");
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to + 28), "l"(from + 7) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  uint32_t sum = mine[0] + mine[3];
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int i = 0; i < 8; ++i) out[threadIdx.x * 9 + i] = shared[(threadIdx.x + 1) % kThreads * 8 + i];
  out[threadIdx.x * 9 + 8] = sum;
}

#define SPECIAL(NAME)                                      \
  [&] {                                                    \
    uint32_t value;                                        \
    asm volatile("mov.u32 %0, %%" NAME ";" : "=r"(value)); \
    return value;                                          \
  }()

__global__ void special_registers(uint32_t* out) {
  const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  uint32_t hash = 1;
  for (const uint32_t value : {SPECIAL("tid.x"),
                               SPECIAL("tid.y"),
                               SPECIAL("tid.z"),
                               SPECIAL("ntid.x"),
                               SPECIAL("ntid.y"),
                               SPECIAL("ntid.z"),
                               SPECIAL("ctaid.x"),
                               SPECIAL("ctaid.y"),
                               SPECIAL("ctaid.z"),
                               SPECIAL("nctaid.x"),
                               SPECIAL("nctaid.y"),
                               SPECIAL("nctaid.z"),
                               SPECIAL("laneid"),
                               SPECIAL("lanemask_eq"),
                               SPECIAL("lanemask_lt"),
                               SPECIAL("lanemask_le"),
                               SPECIAL("lanemask_gt"),
                               SPECIAL("lanemask_ge"),
                               SPECIAL("clusterid.x"),
                               SPECIAL("nclusterid.x"),
                               SPECIAL("cluster_ctaid.x"),
                               SPECIAL("cluster_nctaid.x"),
                               SPECIAL("cluster_ctarank"),
                               SPECIAL("cluster_nctarank"),
                               SPECIAL("dynamic_smem_size")}) {
    hash = hash * 31 + value;
  }
  out[block * threads + thread] = hash;
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    Random random(report.seed());
    std::vector<uint32_t> values;
    for (int i = 0; i < kThreads * 16; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> in(values, "the input");
    DeviceBuffer<uint32_t> out(kThreads * 16, "the output");
    const auto show = [&](const std::string& name, int words) {
      finish_kernel(name);
      std::vector<uint32_t> all = out.to_host();
      all.resize(words);
      report.section(name, all);
      out.poison();
    };
    out.poison();
    widths<<<1, kThreads>>>(reinterpret_cast<const uint8_t*>(in.data()), reinterpret_cast<uint8_t*>(out.data()));
    show("widths", kThreads * 16);
    cache_hints<<<1, kThreads>>>(in.data(), out.data());
    show("cache hints", kThreads * 4);
    address_spaces<<<1, kThreads>>>(out.data());
    show("address spaces", kThreads * 2);
    async_copies<<<1, kThreads>>>(in.data(), out.data());
    show("cp.async", kThreads * 9);
    special_registers<<<dim3(3, 2, 2), dim3(5, 3, 2), 64>>>(out.data());
    show("special registers, 3x2x2 blocks of 5x3x2", 12 * 30);
    special_registers<<<2, 33>>>(out.data());
    show("special registers, 2 blocks of 33", 66);
  });
}
