// Synchronisation: mbarriers, named barriers, clusters, setmaxnreg, nanosleep.
#include "async_copy.hpp"

using namespace silicon;

// ---- One warp, one lane: what each instruction costs
// ------------------------------------------------------------------

struct Init {
  uint32_t barrier;
  __device__ Init(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {}
  __device__ void step(int i) { mbarrier_init(barrier + i % 8 * 8, 1); }
  __device__ uint32_t result() { return barrier; }
};
struct Arrive {
  uint32_t barrier;
  __device__ Arrive(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) { mbarrier_arrive(barrier); }
  __device__ uint32_t result() { return barrier; }
};
/// Every arrival completes a phase, which the next wait then finds complete.
struct ArriveAndWait {
  uint32_t barrier, phase = 0;
  __device__ ArriveAndWait(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) {
    mbarrier_arrive(barrier);
    mbarrier_wait(barrier, phase);
    phase ^= 1;
  }
  __device__ uint32_t result() { return phase; }
};
struct ArriveWithState {
  uint32_t barrier;
  uint64_t state = 0;
  __device__ ArriveWithState(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) {
    // The state decides the next address, so that the arrivals form a chain.
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
    barrier += (static_cast<uint32_t>(state) == 0x12345677);
  }
  __device__ uint32_t result() { return barrier; }
};
struct Expect {
  uint32_t barrier;
  __device__ Expect(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) { mbarrier_expect(barrier, 0); }
  __device__ uint32_t result() { return barrier; }
};
/// The phase with parity 1 of a fresh barrier counts as complete.
template <bool Try>
struct ReadyWait {
  uint32_t barrier, count = 0;
  __device__ ReadyWait(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) {
    // The answer decides the next address, so that one waits for the other.
    const bool done = Try ? mbarrier_try_wait(barrier, 1) : mbarrier_test_wait(barrier, 1);
    barrier = done ? barrier : barrier + 8;
  }
  __device__ uint32_t result() { return barrier; }
};
struct UnreadyTest {
  uint32_t barrier;
  __device__ UnreadyTest(uint32_t, uint8_t* shared) : barrier(shared_address(shared)) {
    if (threadIdx.x == 0) mbarrier_init(barrier, blockDim.x);
    __syncthreads();
  }
  __device__ void step(int) { barrier = mbarrier_test_wait(barrier, 0) ? barrier + 8 : barrier; }
  __device__ uint32_t result() { return barrier; }
};
#define PLAIN(NAME, TEXT)                                          \
  struct NAME {                                                    \
    uint32_t value;                                                \
    __device__ NAME(uint32_t seed, uint8_t*) : value(seed) {}      \
    __device__ void step(int) { asm volatile(TEXT ::: "memory"); } \
    __device__ uint32_t result() { return value; }                 \
  };
PLAIN(FenceProxyShared, "fence.proxy.async.shared::cta;")
PLAIN(FenceProxyAll, "fence.proxy.async;")
PLAIN(FenceCta, "fence.acq_rel.cta;")
PLAIN(SyncThreads, "bar.sync 0;")
PLAIN(Nanosleep20, "nanosleep.u32 20;")
PLAIN(Nanosleep100, "nanosleep.u32 100;")
PLAIN(Nanosleep1000, "nanosleep.u32 1000;")
PLAIN(Nanosleep10000, "nanosleep.u32 10000;")
template <int Threads>
struct NamedBarrier {
  uint32_t value;
  __device__ NamedBarrier(uint32_t seed, uint8_t*) : value(seed) {}
  __device__ void step(int) { asm volatile("bar.sync 3, %0;" ::"n"(Threads) : "memory"); }
  __device__ uint32_t result() { return value; }
};
struct StoreAndProxyFence {
  uint32_t address;
  __device__ StoreAndProxyFence(uint32_t, uint8_t* shared) : address(shared_address(shared) + threadIdx.x * 4) {}
  __device__ void step(int) {
    asm volatile("st.shared.b32 [%0], %0; fence.proxy.async.shared::cta;" ::"r"(address) : "memory");
  }
  __device__ uint32_t result() { return address; }
};
struct ReduceBarrier {
  uint32_t value;
  __device__ ReduceBarrier(uint32_t seed, uint8_t*) : value(seed) {}
  __device__ void step(int) {
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; bar.red.popc.u32 %0, 0, p;}" : "+r"(value)::"memory");
  }
  __device__ uint32_t result() { return value; }
};

BENCHMARK(mbarrier_instructions) {
  for (const int lanes : {1, 32}) {
    const std::string how = std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes") + " of one warp";
    report("mbarrier.init, " + how, cycles_per_step<Init>(lanes, 1024), "cycles", "one after the other");
    report("mbarrier.arrive, no state, " + how, cycles_per_step<Arrive>(lanes, 1024), "cycles",
           "one after the other, on one barrier; the lanes together complete a phase");
    report("mbarrier.arrive.expect_tx 0, " + how, cycles_per_step<Expect>(lanes, 1024), "cycles",
           "one after the other, on one barrier; the lanes together complete a phase");
    report("mbarrier.arrive with state, " + how, cycles_per_step<ArriveWithState>(lanes, 1024), "cycles",
           "chain through the state");
    report("mbarrier.try_wait on a complete phase, " + how, cycles_per_step<ReadyWait<true>>(lanes, 1024), "cycles",
           "chain through the answer: the instruction and a select");
    report("mbarrier.test_wait on a complete phase, " + how, cycles_per_step<ReadyWait<false>>(lanes, 1024), "cycles",
           "chain through the answer: the instruction and a select");
    report("mbarrier.test_wait on an open phase, " + how, cycles_per_step<UnreadyTest>(lanes, 1024), "cycles",
           "chain through the answer: the instruction and a select");
  }
  report("mbarrier.arrive that completes, then try_wait loop", cycles_per_step<ArriveAndWait, 8, 24>(1, 1024), "cycles",
         "one lane");
}
BENCHMARK(fences) {
  report("fence.proxy.async.shared::cta", cycles_per_step<FenceProxyShared>(32), "cycles", "nothing to wait for");
  report("fence.proxy.async", cycles_per_step<FenceProxyAll>(32), "cycles", "nothing to wait for");
  report("st.shared and fence.proxy.async.shared::cta", cycles_per_step<StoreAndProxyFence, 8, 24>(32, 4096), "cycles",
         "one warp");
  report("fence.acq_rel.cta", cycles_per_step<FenceCta>(32), "cycles", "nothing to wait for");
}
template <int Warps>
void block_barriers_of() {
  const std::string how = std::to_string(Warps) + (Warps == 1 ? " warp" : " warps");
  report("bar.sync 0, " + how, cycles_per_step<SyncThreads, 8, 24>(Warps * 32), "cycles", "one after the other");
  report("bar.sync id, count, " + how, cycles_per_step<NamedBarrier<Warps * 32>, 8, 24>(Warps * 32), "cycles",
         "one after the other");
  report("bar.red.popc, " + how, cycles_per_step<ReduceBarrier, 8, 24>(Warps * 32), "cycles",
         "chain through the result");
}
BENCHMARK(block_barriers) {
  block_barriers_of<1>();
  block_barriers_of<2>();
  block_barriers_of<4>();
  block_barriers_of<8>();
  block_barriers_of<16>();
  block_barriers_of<32>();
}
BENCHMARK(sleep) {
  report("nanosleep 20", cycles_per_step<Nanosleep20, 8, 24>(32), "cycles", "one warp alone");
  report("nanosleep 100", cycles_per_step<Nanosleep100, 8, 24>(32), "cycles", "one warp alone");
  report("nanosleep 1000", cycles_per_step<Nanosleep1000, 8, 24>(32), "cycles", "one warp alone");
  report("nanosleep 10000", cycles_per_step<Nanosleep10000, 8, 24>(32, 0, 11, 8), "cycles", "one warp alone");
}

// ---- Hand-over between two warps of a block
// ---------------------------------------------------------------------------

enum class Via { kTryWait, kTestWait, kNamedBarrier, kSharedFlag };

/// The turn is handed to the other warp: the `turn`th from 1.
template <Via Way>
__device__ void hand_to(uint32_t barrier, volatile int* flag, int named, int turn) {
  if constexpr (Way == Via::kNamedBarrier) {
    asm volatile("bar.arrive %0, 64;" ::"r"(named) : "memory");
  } else if (lane() == 0) {
    if constexpr (Way == Via::kSharedFlag)
      *flag = turn;
    else
      mbarrier_arrive(barrier);
  }
}
template <Via Way>
__device__ void await(uint32_t barrier, volatile int* flag, int named, int turn) {
  const uint32_t parity = (turn - 1) & 1;
  if constexpr (Way == Via::kTryWait) mbarrier_wait(barrier, parity);
  if constexpr (Way == Via::kTestWait)
    while (!mbarrier_test_wait(barrier, parity)) {
    }
  if constexpr (Way == Via::kNamedBarrier) asm volatile("bar.sync %0, 64;" ::"r"(named) : "memory");
  if constexpr (Way == Via::kSharedFlag)
    while (*flag != turn) {
    }
}

/// Warps 0 and `partner` take turns; half of a round trip is one hand-over.
template <Via Way>
__global__ void ping_pong(int partner, int rounds, Span* span) {
  __shared__ uint64_t words[2];
  __shared__ volatile int flags[64];
  const int warp = threadIdx.x / 32;
  const uint32_t mine = shared_address(words + (warp != 0)), other = shared_address(words + (warp == 0));
  if (threadIdx.x == 0)
    for (uint64_t& word : words) mbarrier_init(shared_address(&word), 1);
  if (threadIdx.x < 64) flags[threadIdx.x] = 0;
  __syncthreads();
  if (warp != 0 && warp != partner) return;
  const bool first = warp == 0;
  uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    if (i == 1) start = cycles();
    if (first) {
      hand_to<Way>(other, flags, 1, i + 1);
      await<Way>(mine, flags + 32, 2, i + 1);
    } else {
      await<Way>(mine, flags, 1, i + 1);
      hand_to<Way>(other, flags + 32, 2, i + 1);
    }
    __syncwarp();
  }
  if (threadIdx.x == 0) *span = {start, cycles()};
}
template <Via Way>
void hand_over(const std::string& name) {
  DeviceArray<Span> span(1);
  const int rounds = 257;
  for (const int partner : {1, 4}) {
    std::vector<double> samples;
    for (int i = 0; i < 15; ++i) {
      ping_pong<Way><<<1, (partner + 1) * 32>>>(partner, rounds, span.data());
      finish_kernel("ping_pong");
      samples.push_back(span_cycles(span.to_host(), 1) / (rounds - 1) / 2);
    }
    report("hand-over by " + name + (partner == 4 ? ", same sub-partition" : ", other sub-partition"), samples,
           "cycles", "half a round trip between two warps of a block; all lanes wait, one arrives");
  }
}
BENCHMARK(hand_overs) {
  hand_over<Via::kTryWait>("mbarrier, try_wait");
  hand_over<Via::kTestWait>("mbarrier, test_wait in a loop");
  hand_over<Via::kNamedBarrier>("bar.arrive and bar.sync");
  hand_over<Via::kSharedFlag>("a flag in shared memory");
}

/// How long a waiting warp sleeps in one try_wait that is never answered.
__global__ void suspend_time(Span* spans, int attempts) {
  __shared__ uint64_t word;
  mbarrier_init(shared_address(&word), 1);
  for (int i = 0; i < attempts; ++i) {
    const uint64_t start = cycles();
    const bool done = mbarrier_try_wait(shared_address(&word), 0);
    spans[i] = {start, cycles_after(done)};
  }
}
BENCHMARK(time_limit_of_try_wait) {
  DeviceArray<Span> spans(8);
  suspend_time<<<1, 1>>>(spans.data(), 8);
  finish_kernel("suspend_time");
  std::vector<double> samples;
  for (const Span& span : spans.to_host()) samples.push_back(double(span.stop - span.start));
  report("mbarrier.try_wait until it gives up", samples, "cycles", "default time limit, a phase that never completes");
}

// ---- Clusters
// ---------------------------------------------------------------------------------------------------------

template <typename Kernel, typename... Arguments>
void launch_cluster(Kernel* kernel, int cluster, int threads, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = cluster;
  config.blockDim = threads;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cluster > 8)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "cudaFuncSetAttribute");
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
  finish_kernel("cluster kernel");
}
template <bool Relaxed>
__global__ void cluster_barrier(int rounds, Span* spans) {
  cluster_sync();
  const uint64_t start = cycles();
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    if constexpr (Relaxed)
      asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    else
      cluster_sync();
  }
  const uint64_t stop = cycles();
  if (threadIdx.x == 0) spans[blockIdx.x] = {start, stop};
}
template <bool Relaxed>
__device__ void arrive_at(uint32_t mapped_barrier) {
  if constexpr (Relaxed)
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapped_barrier) : "memory");
  else
    remote_arrive(mapped_barrier);
}
template <bool Relaxed>
__global__ void remote_ping_pong(int rounds, uint32_t partner, Span* span) {
  __shared__ uint64_t word;
  const uint32_t rank = cluster_rank();
  mbarrier_init(shared_address(&word), 1);
  fence_barrier_init();
  cluster_sync();
  if (rank == 0 || rank == partner) {
    const uint32_t remote = map_to_rank(shared_address(&word), rank == 0 ? partner : 0);
    uint64_t start = cycles();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
      if (i == 1) start = cycles();
      if (rank == 0) arrive_at<Relaxed>(remote);
      mbarrier_wait(shared_address(&word), i & 1);
      if (rank != 0) arrive_at<Relaxed>(remote);
    }
    if (rank == 0) *span = {start, cycles()};
  }
  cluster_sync();
}
/// st.async of 8 bytes, which completes bytes on the partner's barrier.
__global__ void store_async_ping_pong(int rounds, Span* span) {
  __shared__ uint64_t word, data;
  const uint32_t rank = cluster_rank(), barrier = shared_address(&word);
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  mbarrier_expect(barrier, 8);
  cluster_sync();
  const uint32_t remote = map_to_rank(barrier, rank ^ 1), remote_data = map_to_rank(shared_address(&data), rank ^ 1);
  const auto send = [&] {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %2, [%1];" ::"r"(remote_data),
                 "r"(remote), "l"(uint64_t{5})
                 : "memory");
  };
  uint64_t start = cycles();
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    if (i == 1) start = cycles();
    if (rank == 0) send();
    mbarrier_wait(barrier, i & 1);
    if (i + 1 < rounds) mbarrier_expect(barrier, 8);
    if (rank == 1) send();
  }
  if (rank == 0) *span = {start, cycles()};
  cluster_sync();
}
/// A chain of loads from the partner's shared memory, whose words hold their own addresses.
__global__ void remote_loads(int steps, int lanes, Span* span, uint32_t* sink) {
  __shared__ uint32_t words[32];
  const uint32_t rank = cluster_rank();
  uint32_t address = map_to_rank(shared_address(words + lane()), rank == 0 ? 1 : 0);
  const uint32_t own_as_remote = map_to_rank(shared_address(words + lane()), rank);
  words[lane()] = own_as_remote;
  cluster_sync();
  if (rank == 0 && static_cast<int>(lane()) < lanes) {
    const auto follow = [&] { asm volatile("ld.volatile.shared::cluster.b32 %0, [%0];" : "+r"(address)::"memory"); };
    follow();
    const uint64_t start = cycles_after(address);
#pragma unroll 4
    for (int i = 0; i < steps; ++i) follow();
    const uint64_t stop = cycles_after(address);
    if (lane() == 0) *span = {start, stop};
    sink[lane()] = address;
  }
  cluster_sync();
}
/// Every warp of block 0 reads its partner's shared memory, 16 bytes a lane.
__global__ void remote_load_rate(int rounds, Span* spans, uint32_t* sink) {
  __shared__ uint4 words[1024];
  words[threadIdx.x] = {threadIdx.x, 1, 2, 3};
  const uint32_t rank = cluster_rank(), address = map_to_rank(shared_address(words + threadIdx.x), rank ^ 1);
  cluster_sync();
  uint32_t sum = 0;
  const uint64_t start = cycles();
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    uint32_t v[4];
    asm volatile("ld.volatile.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
    sum += v[0] ^ v[1] ^ v[2] ^ v[3];
  }
  const uint64_t stop = cycles_after(sum);
  if (lane() == 0 && rank == 0) spans[threadIdx.x / 32] = {start, stop};
  if (sum == 0x12345678) *sink = sum;
  cluster_sync();
}
BENCHMARK(clusters) {
  DeviceArray<Span> spans(32);
  DeviceArray<uint32_t> sink(32);
  const int rounds = 257;
  const auto repeat = [&](const std::string& name, const char* how, const char* unit, double per, auto launch) {
    std::vector<double> samples;
    for (int i = 0; i < 15; ++i) {
      launch();
      samples.push_back(span_cycles(spans.to_host(), 1) / per);
    }
    report(name, samples, unit, how);
  };
  for (const int size : {1, 2, 4, 8, 16})
    for (const int threads : {32, 256}) {
      const std::string what = std::to_string(size) + " blocks of " + std::to_string(threads / 32) + " warps";
      repeat("cluster barrier, " + what, "barrier.cluster.arrive.aligned and wait, one after the other", "cycles",
             rounds, [&] { launch_cluster(cluster_barrier<false>, size, threads, rounds, spans.data()); });
      repeat("cluster barrier, relaxed, " + what,
             "barrier.cluster.arrive.relaxed.aligned and wait, one after the other", "cycles", rounds,
             [&] { launch_cluster(cluster_barrier<true>, size, threads, rounds, spans.data()); });
    }
  for (const auto& [size, partner] : {std::pair{2, 1u}, std::pair{4, 3u}, std::pair{8, 7u}}) {
    const std::string what = "cluster of " + std::to_string(size);
    const int blocks = size;
    const uint32_t other = partner;
    repeat("hand-over by remote mbarrier arrival, release, " + what,
           "half a round trip between two blocks, one lane each", "cycles", 2. * (rounds - 1),
           [&] { launch_cluster(remote_ping_pong<false>, blocks, 1, rounds, other, spans.data()); });
    repeat("hand-over by remote mbarrier arrival, relaxed, " + what,
           "half a round trip between two blocks, one lane each", "cycles", 2. * (rounds - 1),
           [&] { launch_cluster(remote_ping_pong<true>, blocks, 1, rounds, other, spans.data()); });
  }
  repeat("hand-over by st.async", "half a round trip of 8 bytes", "cycles", 2. * (rounds - 1),
         [&] { launch_cluster(store_async_ping_pong, 2, 1, rounds, spans.data()); });
  for (const int lanes : {1, 32})
    repeat("ld.shared::cluster latency, " + std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes"),
           "chain of 4-byte loads from the partner's shared memory", "cycles", rounds,
           [&] { launch_cluster(remote_loads, 2, 32, rounds, lanes, spans.data(), sink.data()); });
  std::vector<double> samples;
  for (int i = 0; i < 15; ++i) {
    launch_cluster(remote_load_rate, 2, 1024, 64, spans.data(), sink.data());
    samples.push_back(64. * 1024 * 16 / span_cycles(spans.to_host(), 32));
  }
  report("ld.shared::cluster rate", samples, "bytes per cycle and SM",
         "both blocks read the other's, 32 warps, 16 bytes a lane");
}

// ---- setmaxnreg
// -------------------------------------------------------------------------------------------------------

/// Warpgroup 0 releases registers, warpgroups 1 and 2 take them, from 168 at the start. They take at once, or after a
/// sleep of `delay` nanoseconds the releasing one follows.
__global__ void __launch_bounds__(384, 1) set_registers(Span* spans, int delay) {
  __syncthreads();
  if (threadIdx.x < 128) {
    if (delay) __nanosleep(delay);
    const uint64_t start = cycles();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
    const uint64_t stop = cycles();
    if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
  } else {
    const uint64_t start = cycles();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
    const uint64_t stop = cycles();
    if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
  }
}
BENCHMARK(registers) {
  DeviceArray<Span> spans(12);
  for (const int delay : {0, 5000}) {
    std::vector<double> dec, inc, after;
    for (int i = 0; i < 15; ++i) {
      set_registers<<<1, 384>>>(spans.data(), delay);
      finish_kernel("set_registers");
      const auto host = spans.to_host();
      uint64_t last_dec = 0, last_inc = 0;
      for (int warp = 0; warp < 12; ++warp) {
        (warp < 4 ? dec : inc).push_back(double(host[warp].stop - host[warp].start));
        (warp < 4 ? last_dec : last_inc) = std::max(warp < 4 ? last_dec : last_inc, host[warp].stop);
      }
      after.push_back(double(static_cast<int64_t>(last_inc - last_dec)));
    }
    const std::string when = delay == 0 ? "at the same time" : "the other warpgroup releases after 5000 ns";
    report("setmaxnreg.dec 24, " + when, dec, "cycles", "one warpgroup of three");
    report("setmaxnreg.inc 240, " + when, inc, "cycles", "two warpgroups of three; waits until there are enough");
    report("setmaxnreg.inc after the last dec, " + when, after, "cycles",
           "last warp that takes less last warp that releases");
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
