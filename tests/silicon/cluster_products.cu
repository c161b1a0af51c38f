// What it costs a warpgroup of `wgmma` to free a stage: arrivals in the own block and in the other block of a cluster,
// relaxed and with release, and the fences alone, by a lane of the warpgroup or by a warp that multiplies nothing.
#include "async_copy.hpp"

using namespace silicon;

/// How the first lane of two warps of each warpgroup tells that a stage is free.
enum class Frees { kNone, kLocal, kRelaxed, kRelease, kReleaseOwn, kReleaseOther, kFence, kFenceOfOther, kStoreAsync };
constexpr const char* kNames[] = {"none",
                                  "in the own block",
                                  "relaxed, in both blocks",
                                  "with release, in both blocks",
                                  "with release, in the own block",
                                  "with release, in the other block",
                                  "a fence of the cluster and none",
                                  "release by a warp of no products",
                                  "st.async to the other block"};
constexpr int kTile = 49152, kCopyBytes = 16384, kMaxStages = 6;

/// `products` warpgroups multiply what is in the first 48 KiB, four products a turn, and free a stage when all but
/// `InFlight` turns are done. One thread keeps `stages` copies to the rest under way meanwhile; `fences` gets how often
/// the warp that multiplies nothing has arrived, and in how many cycles.
template <Frees What, bool Acquires, int InFlight>
__global__ void __launch_bounds__(384, 1)
    free_stages(const uint8_t* memory, const uint32_t* random, int products, int stages, int turns, Span* spans,
                uint64_t* fences, float* sink) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kMaxStages], freed[2], passed, received;
  __shared__ volatile uint32_t done[2];
  if (threadIdx.x < 2) done[threadIdx.x] = static_cast<int>(threadIdx.x) >= products;
  for (int i = threadIdx.x; i < kTile / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = random[i];
  if (threadIdx.x == 0) {
    for (int i = 0; i < kMaxStages; ++i) mbarrier_init(shared_address(words + i), 1);
    for (int i = 0; i < 2; ++i) mbarrier_init(shared_address(freed + i), 4);
    mbarrier_init(shared_address(&passed), 1);
    mbarrier_init(shared_address(&received), 1);
    mbarrier_expect(shared_address(&received), 1 << 19);
  }
  fence_barrier_init();
  __syncthreads();
  cluster_sync();
  const uint32_t warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0), warp = threadIdx.x / 32 % 4;
  const uint32_t own = cluster_rank(), target = map_to_rank(shared_address(freed), warp == 0 ? own : own ^ 1);
  const uint32_t bytes = map_to_rank(shared_address(&received), own ^ 1);
  if (warpgroup < 2) {
    if (static_cast<int>(warpgroup) < products) {
      float d[128];
#pragma unroll
      for (int i = 0; i < 128; ++i) d[i] = 0;
      const uint64_t a = descriptor(shared_address(shared) + warpgroup * 8192);
      const uint64_t b = descriptor(shared_address(shared) + 16384);
      uint32_t skipped = 0;
      const uint64_t start = cycles();
#pragma unroll 1
      for (int turn = 0; turn < turns; ++turn) {
        if constexpr (Acquires) {  // a phase that is over
          uint32_t done;
          asm volatile(
              "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, "
              "p;}"
              : "=r"(done)
              : "r"(shared_address(&passed))
              : "memory");
          skipped += done == 0;
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 4; ++i) multiply_256(d, a + i * 2, b + i * 2);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(InFlight) : "memory");
        if (lane() == 0 && warp < 2) {
          if constexpr (What == Frees::kLocal) mbarrier_arrive(shared_address(freed));
          if constexpr (What == Frees::kRelaxed)
            asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(target) : "memory");
          if constexpr (What == Frees::kRelease) remote_arrive(target);
          if constexpr (What == Frees::kReleaseOwn) {
            if (warp == 0) remote_arrive(target);
          }
          if constexpr (What == Frees::kReleaseOther) {
            if (warp == 1) remote_arrive(target);
          }
          if constexpr (What == Frees::kFence) asm volatile("fence.acq_rel.cluster;" ::: "memory");
          if constexpr (What == Frees::kStoreAsync) {
            if (warp == 1)
              asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %2, [%1];" ::"r"(
                               map_to_rank(shared_address(shared) + kTile + 4 * warpgroup, own ^ 1)),
                           "r"(bytes), "r"(0)
                           : "memory");
          }
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" : R32(0), R32(32), R32(64), R32(96) : : "memory");
      const uint64_t stop = cycles();
      if (threadIdx.x % 128 == 0) spans[blockIdx.x * 2 + warpgroup] = {start, stop};
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 128; ++i) sum += d[i];
      if (sum == 12345.678f || skipped == 77) *sink = sum;
      __syncwarp();
      if (threadIdx.x % 128 == 0) done[warpgroup] = 1;
    }
  } else if (threadIdx.x == 256) {
    uint32_t index = blockIdx.x;
    const auto issue = [&](int stage) {
      const uint32_t barrier = shared_address(words + stage);
      mbarrier_expect(barrier, kCopyBytes);
      copy_bulk(shared_address(shared) + kTile + stage * kCopyBytes, memory + uint64_t{index & 1023} * kCopyBytes,
                kCopyBytes, barrier);
      index += gridDim.x;
    };
    for (int i = 0; i < stages; ++i) issue(i);
    int stage = 0;
    uint32_t phase = 0;
#pragma unroll 1
    while (done[0] + done[1] != 2) {
      if (stages == 0) continue;
      mbarrier_wait(shared_address(words + stage), phase);
      issue(stage);
      if (++stage == stages) stage = 0, phase ^= 1;
    }
    for (int i = 0; i < stages; ++i) {
      mbarrier_wait(shared_address(words + stage), phase);
      if (++stage == stages) stage = 0, phase ^= 1;
    }
  } else if (What == Frees::kFenceOfOther && threadIdx.x == 288) {
    uint64_t count = 0;
    const uint64_t begin = cycles();
#pragma unroll 1
    while (count < 20 || done[0] + done[1] != 2) {
      remote_arrive(map_to_rank(shared_address(freed), own ^ 1));
      ++count;
    }
    fences[blockIdx.x * 2] = count;
    fences[blockIdx.x * 2 + 1] = cycles() - begin;
  }
  cluster_sync();
}

struct Run {
  DeviceArray<uint8_t> memory{size_t{1024} * kCopyBytes};
  DeviceArray<uint32_t> random{kTile / 4};
  DeviceArray<Span> spans{264};
  DeviceArray<uint64_t> fences{264};
  DeviceArray<float> sink{1};
  Run() {
    std::vector<uint32_t> words(random.size());
    uint32_t state = 1;
    for (uint32_t& word : words) {
      word = 0;
      for (int byte = 0; byte < 4; ++byte) {
        state = state * 1664525 + 1013904223;
        word |= (state >> 24) << byte * 8;
      }
      word = (word & 0x80ff80ff) | 0x3f003f00;
    }
    random.from_host(words);
  }
  template <Frees What, bool Acquires, int InFlight>
  void measure() {
    const auto kernel = free_stages<What, Acquires, InFlight>;
    constexpr int kShared = kTile + kMaxStages * kCopyBytes, kTurns = 1000;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
    for (const int blocks : {2, 132})
      for (const int products : {0, 1, 2})
        for (const int stages : {0, 4}) {
          if (products == 0 && What != Frees::kFenceOfOther) continue;
          std::vector<double> turns, each;
          for (int repeat = 0; repeat < 6; ++repeat) {
            cudaLaunchConfig_t config{};
            config.gridDim = blocks, config.blockDim = 384, config.dynamicSmemBytes = kShared;
            cudaLaunchAttribute attribute;
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim = {2, 1, 1};
            config.attrs = &attribute, config.numAttrs = 1;
            check(cudaLaunchKernelEx(&config, kernel, static_cast<const uint8_t*>(memory.data()),
                                     static_cast<const uint32_t*>(random.data()), products, stages, kTurns,
                                     spans.data(), fences.data(), sink.data()),
                  "free_stages");
            finish_kernel("free_stages");
            if (repeat == 0) continue;
            const auto found = spans.to_host();
            double sum = 0;
            for (int block = 0; block < blocks; ++block)
              sum += static_cast<double>(found[2 * block].stop - found[2 * block].start) / blocks;
            if (products > 0) turns.push_back(sum / kTurns);
            const auto counts = fences.to_host();
            if (What == Frees::kFenceOfOther) each.push_back(static_cast<double>(counts[1]) / counts[0]);
          }
          const std::string name = std::string("stages freed, arrivals: ") + kNames[static_cast<size_t>(What)] +
                                   (Acquires ? ", waits acquire of the cluster" : "") + ", " +
                                   std::to_string(InFlight) + " groups left, " + std::to_string(products) +
                                   " warpgroups, " + std::to_string(stages) + " copies under way, " +
                                   std::to_string(blocks) + " blocks";
          if (products > 0) report(name, turns, "cycles a turn", "4 wgmma m64n256k16 of each warpgroup a turn");
          if (What == Frees::kFenceOfOther) report(name + ", each", each, "cycles", "of the warp that arrives");
        }
  }
};
#define MEASURE(NAME, WHAT)               \
  BENCHMARK(NAME) {                       \
    Run run;                              \
    run.measure<Frees::WHAT, false, 0>(); \
    run.measure<Frees::WHAT, false, 1>(); \
    run.measure<Frees::WHAT, true, 1>();  \
  }
MEASURE(stages_none, kNone)
MEASURE(stages_local, kLocal)
MEASURE(stages_relaxed, kRelaxed)
MEASURE(stages_release, kRelease)
MEASURE(stages_own, kReleaseOwn)
MEASURE(stages_other, kReleaseOther)
MEASURE(stages_fence, kFence)
MEASURE(stages_apart, kFenceOfOther)
MEASURE(stages_bytes, kStoreAsync)

int main(int argc, char** argv) { return silicon::main(argc, argv); }
