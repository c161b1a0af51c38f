// The copy engine: latency, issue gap and rate of bulk copies, tiles, stores and multicast.
#include <cudaTypedefs.h>

#include "async_copy.hpp"

using namespace silicon;

constexpr int kMaxStages = 32, kMaxShared = 200 * 1024, kRounds = 9;

CUtensorMap encode(void* memory, uint64_t width, uint64_t height, uint32_t box_width, uint32_t box_height,
                   CUtensorMapSwizzle swizzle) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
  CUtensorMap map;
  const cuuint64_t sizes[] = {width, height}, strides[] = {width * 2};
  const cuuint32_t box[] = {box_width, box_height}, steps[] = {1, 1};
  const CUresult result = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, memory, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue, "cuTensorMapEncodeTiled");
  return map;
}

/// Where copies read from (or write to): plain bytes, or tiles of a matrix that is a power of two of tiles wide.
struct Place {
  uint8_t* memory;
  uint32_t bytes;  // of one copy
  int box_width, box_height, log_tiles_across;
};

template <bool Tiles>
__device__ inline void load(const Place& place, const CUtensorMap* map, uint32_t index, uint32_t to, uint32_t barrier) {
  if constexpr (Tiles)
    copy_tile(to, map, (index & ((1 << place.log_tiles_across) - 1)) * place.box_width,
              (index >> place.log_tiles_across) * place.box_height, barrier);
  else
    copy_bulk(to, place.memory + uint64_t{index} * place.bytes, place.bytes, barrier);
}
template <bool Tiles>
__device__ inline void store(const Place& place, const CUtensorMap* map, uint32_t index, uint32_t from) {
  if constexpr (Tiles)
    store_tile(map, (index & ((1 << place.log_tiles_across) - 1)) * place.box_width,
               (index >> place.log_tiles_across) * place.box_height, from);
  else
    store_bulk(place.memory + uint64_t{index} * place.bytes, from, place.bytes);
}

/// One copy after the other: from before the issue until the wait on the mbarrier returns.
template <bool Tiles>
__global__ void load_latency(const __grid_constant__ CUtensorMap map, Place place, int copies, int first, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t word;
  const uint32_t barrier = shared_address(&word), to = shared_address(shared);
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  for (int i = 0; i < copies; ++i) {
    mbarrier_expect(barrier, place.bytes);
    const uint64_t start = cycles();
    load<Tiles>(place, &map, first + i, to, barrier);
    mbarrier_wait(barrier, i & 1);
    spans[i] = {start, cycles()};
  }
}

/// `count` copies issued in a row, each on its own part of shared memory; the time between two clock readings is the
/// gap.
template <bool Tiles>
__global__ void issue_gap(const __grid_constant__ CUtensorMap map, Place place, int count, int rounds, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t word;
  const uint32_t barrier = shared_address(&word), to = shared_address(shared);
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  for (int round = 0; round < rounds; ++round) {
    mbarrier_expect(barrier, place.bytes * count);
    const uint64_t start = cycles();
    uint32_t target = to;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      load<Tiles>(place, &map, i, target, barrier);
      target = to + (target - to + place.bytes & 131071);  // the targets repeat after 128 KiB
    }
    spans[round] = {start, cycles()};
    mbarrier_wait(barrier, round & 1);
  }
}

/// Each block's thread 0 keeps `stages` copies under way until its `count` copies are done.
template <bool Tiles>
__global__ void load_rate(const __grid_constant__ CUtensorMap map, Place place, int stages, int count, uint32_t region,
                          Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kMaxStages];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < stages; ++i) mbarrier_init(shared_address(words + i), 1);
  fence_barrier_init();
  // Blocks take neighbouring copies; the memory, a power of two of copies, is walked again when it ends.
  uint32_t index = blockIdx.x, stage = 0, phase = 0;
  const auto issue = [&](uint32_t at) {
    const uint32_t barrier = shared_address(words + at);
    mbarrier_expect(barrier, place.bytes);
    load<Tiles>(place, &map, index & (region - 1), shared_address(shared) + at * place.bytes, barrier);
    index += gridDim.x;
  };
  const uint64_t start = cycles();
  for (int i = 0; i < stages; ++i) issue(i);
#pragma unroll 1
  for (int i = stages; i < count + stages; ++i) {
    mbarrier_wait(shared_address(words + stage), phase);
    if (i < count) issue(stage);
    if (++stage == static_cast<uint32_t>(stages)) stage = 0, phase ^= 1;
  }
  spans[blockIdx.x] = {start, cycles()};
}

/// The first lane of each warp issues `count` copies in a row; until all are there.
template <bool Tiles>
__global__ void burst_of_warps(const __grid_constant__ CUtensorMap map, Place place, int count, uint32_t region,
                               Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kMaxStages];
  const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32, barrier = shared_address(words + warp);
  if (threadIdx.x % 32 == 0) mbarrier_init(barrier, 1);
  fence_barrier_init();
  for (int round = 0; round < kRounds; ++round) {
    __syncthreads();
    const uint64_t start = cycles();
    if (threadIdx.x % 32 == 0) {
      mbarrier_expect(barrier, place.bytes * count);
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        const uint32_t index = i * warps + warp;
        load<Tiles>(place, &map, index & (region - 1), shared_address(shared) + (index & 127) * 1024, barrier);
      }
      mbarrier_wait(barrier, round & 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) spans[round] = {start, cycles()};
  }
}

template <bool Tiles>
__global__ void store_latency(const __grid_constant__ CUtensorMap map, Place place, int copies, Span* read,
                              Span* done) {
  extern __shared__ __align__(1024) uint8_t shared[];
  asm volatile("fence.proxy.async;" ::: "memory");
  for (int i = 0; i < copies; ++i) {
    const uint64_t start = cycles();
    store<Tiles>(place, &map, i, shared_address(shared));
    wait_stores_read<0>();
    const uint64_t middle = cycles();
    wait_stores<0>();
    read[i] = {start, middle};
    done[i] = {start, cycles()};
  }
}

template <bool Tiles>
__global__ void store_rate(const __grid_constant__ CUtensorMap map, Place place, int count, uint32_t region,
                           Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  if (threadIdx.x != 0) return;
  asm volatile("fence.proxy.async;" ::: "memory");
  const uint64_t start = cycles();
  for (int i = 0; i < count; ++i) {
    store<Tiles>(place, &map, (i * gridDim.x + blockIdx.x) & (region - 1),
                 shared_address(shared) + (i & 3) * place.bytes);
    wait_stores_read<3>();
  }
  wait_stores<0>();
  spans[blockIdx.x] = {start, cycles()};
}

/// Pairs of blocks: each block loads half of every stage and the copy engine delivers it to both.
__global__ void __cluster_dims__(2, 1, 1) multicast_rate(const uint8_t* memory, uint32_t bytes, int stages, int count,
                                                         uint32_t region, int multicast, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages];
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0)
    for (int i = 0; i < stages; ++i) {
      mbarrier_init(shared_address(full + i), 1);
      mbarrier_init(shared_address(empty + i), 2);
    }
  fence_barrier_init();
  cluster_sync();
  if (threadIdx.x == 0) {
    const uint64_t start = cycles();
    const uint32_t half = bytes / 2 * rank, pairs = gridDim.x / 2;
    uint32_t index = blockIdx.x / 2, stage = 0, phase = 0;
    const auto issue = [&](uint32_t at) {
      const uint32_t barrier = shared_address(full + at), to = shared_address(shared) + at * bytes;
      mbarrier_expect(barrier, bytes);
      const uint8_t* from = memory + uint64_t{index & (region - 1)} * bytes;
      if (multicast)
        copy_bulk_multicast(to + half, from + half, bytes / 2, barrier, 3);
      else
        copy_bulk(to, from, bytes, barrier);
      index += pairs;
    };
    for (int i = 0; i < stages; ++i) issue(i);
#pragma unroll 1
    for (int i = stages; i < count + stages; ++i) {
      mbarrier_wait(shared_address(full + stage), phase);
      if (i < count) {
        if (multicast) {
          // Both blocks must have the stage before either overwrites it.
          asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                           map_to_rank(shared_address(empty + stage), 0))
                       : "memory");
          asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                           map_to_rank(shared_address(empty + stage), 1))
                       : "memory");
          mbarrier_wait(shared_address(empty + stage), phase);
        }
        issue(stage);
      }
      if (++stage == static_cast<uint32_t>(stages)) stage = 0, phase ^= 1;
    }
    spans[blockIdx.x] = {start, cycles()};
  }
  __syncwarp();
  cluster_sync();
}

/// One multicast copy at a time by block 0: until its own wait returns, and until block 1's does (its own clock).
__global__ void __cluster_dims__(2, 1, 1)
    multicast_latency(const uint8_t* memory, uint32_t bytes, int copies, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t word;
  const uint32_t barrier = shared_address(&word);
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  cluster_sync();
  for (int i = 0; i < copies; ++i) {
    mbarrier_expect(barrier, bytes);
    cluster_sync();
    const uint64_t start = cycles();
    if (cluster_rank() == 0)
      copy_bulk_multicast(shared_address(shared), memory + static_cast<uint64_t>(i) * bytes, bytes, barrier, 3);
    mbarrier_wait(barrier, i & 1);
    spans[blockIdx.x * copies + i] = {start, cycles()};
  }
  cluster_sync();
}

/// A copy from this block's shared memory to its partner's; the partner waits and copies back.
__global__ void __cluster_dims__(2, 1, 1) shared_to_shared(uint32_t bytes, int rounds, Span* spans) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t word;
  const uint32_t barrier = shared_address(&word), rank = cluster_rank();
  mbarrier_init(barrier, 1);
  fence_barrier_init();
  cluster_sync();
  const uint32_t remote = map_to_rank(shared_address(shared) + 65536, rank ^ 1),
                 remote_barrier = map_to_rank(barrier, rank ^ 1);
  uint64_t start = cycles();
  const auto send = [&] {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(remote),
        "r"(shared_address(shared)), "r"(bytes), "r"(remote_barrier)
        : "memory");
  };
  for (int i = 0; i < rounds; ++i) {
    mbarrier_expect(barrier, bytes);
    if (i == 0) {
      cluster_sync();
      start = cycles();
    }
    if (rank == 0) send();
    mbarrier_wait(barrier, i & 1);
    if (rank == 1) send();
  }
  if (rank == 0) spans[0] = {start, cycles()};
  cluster_sync();
}

// ---- Host
// -------------------------------------------------------------------------------------------------------------

int log2_of(uint64_t value) {
  int log = 0;
  while (uint64_t{1} << (log + 1) <= value) ++log;
  return log;
}

template <bool Tiles>
struct Source {
  DeviceArray<uint8_t> memory;
  Place place;
  CUtensorMap map{};
  uint32_t copies;  // that the memory holds, a power of two
};
/// Plain bytes.
Source<false> bytes_of(size_t size, uint32_t bytes) {
  Source<false> source{DeviceArray<uint8_t>(size), {}, {}, 1u << log2_of(size / bytes)};
  source.place = {source.memory.data(), bytes, 0, 0, 0};
  return source;
}
/// A matrix of bf16, `width` wide, in tiles.
Source<true> tiles_of(size_t size, int width, int box_width, int box_height, CUtensorMapSwizzle swizzle) {
  const auto bytes = static_cast<uint32_t>(box_width * box_height * 2);
  Source<true> source{DeviceArray<uint8_t>(size), {}, {}, 1u << log2_of(size / bytes)};
  source.place = {source.memory.data(), bytes, box_width, box_height, log2_of(width / box_width)};
  source.map = encode(source.memory.data(), width, size / 2 / width, box_width, box_height, swizzle);
  return source;
}

template <typename Kernel>
void allow_shared(Kernel* kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMaxShared), "cudaFuncSetAttribute");
}

std::vector<double> durations(const std::vector<Span>& spans, size_t first = 0) {
  std::vector<double> samples;
  for (size_t i = first; i < spans.size(); ++i) samples.push_back(static_cast<double>(spans[i].stop - spans[i].start));
  return samples;
}

template <bool Tiles>
void report_latency(const std::string& name, Source<Tiles>& source) {
  const int copies = static_cast<int>(std::min<uint64_t>(64, source.copies));
  DeviceArray<Span> spans(copies);
  DeviceArray<uint8_t> flush(size_t{256} << 20);
  allow_shared(load_latency<Tiles>);
  for (const bool warm : {false, true}) {
    std::vector<double> samples;
    for (int i = 0; i < 5; ++i) {
      if (!warm) check(cudaMemset(flush.data(), i, flush.size()), "cudaMemset");
      load_latency<Tiles><<<1, 1, kMaxShared>>>(source.map, source.place, copies, 0, spans.data());
      finish_kernel("load_latency");
      if (i > 0)
        for (double value : durations(spans.to_host(), 2)) samples.push_back(value);
    }
    report(name + (warm ? " latency, L2" : " latency, DRAM"), samples, "cycles",
           "one thread, from the issue until try_wait succeeds");
  }
}

BENCHMARK(bulk_latency) {
  for (const uint32_t bytes : {16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}) {
    auto source = bytes_of(size_t{64} * bytes, bytes);
    report_latency("cp.async.bulk of " + std::to_string(bytes) + " bytes,", source);
  }
}
BENCHMARK(tile_latency) {
  for (const int rows : {1, 8, 16, 32, 64, 128, 256}) {
    auto source = tiles_of(16 << 20, 4096, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_latency("tile of " + std::to_string(rows) + " rows of 128 bytes,", source);
  }
  auto narrow = tiles_of(16 << 20, 4096, 32, 64, CU_TENSOR_MAP_SWIZZLE_64B);
  auto plain = tiles_of(16 << 20, 4096, 64, 64, CU_TENSOR_MAP_SWIZZLE_NONE);
  auto wide = tiles_of(16 << 20, 4096, 256, 16, CU_TENSOR_MAP_SWIZZLE_NONE);
  report_latency("tile of 64 rows of 64 bytes,", narrow);
  report_latency("tile of 64 rows of 128 bytes, no swizzle,", plain);
  report_latency("tile of 16 rows of 512 bytes, no swizzle,", wide);
}

template <bool Tiles>
void report_gap(const std::string& name, Source<Tiles>& source) {
  DeviceArray<Span> spans(33);
  allow_shared(issue_gap<Tiles>);
  const auto time = [&](int count) {
    issue_gap<Tiles><<<1, 1, kMaxShared>>>(source.map, source.place, count, 33, spans.data());
    finish_kernel("issue_gap");
    return durations(spans.to_host());
  };
  for (const auto& [few, many] : {std::pair{2, 4}, std::pair{4, 8}, std::pair{8, 16}, std::pair{16, 32}}) {
    const auto a = time(few), b = time(many);
    std::vector<double> samples;
    for (size_t i = 2; i < a.size(); ++i) samples.push_back((b[i] - a[i]) / (many - few));
    report(name + " issue gap, copies " + std::to_string(few + 1) + " to " + std::to_string(many), samples,
           "cycles per copy", "one thread issues one after the other, from L2");
  }
}
BENCHMARK(issue_gaps) {
  for (const uint32_t bytes : {16, 128, 1024, 4096, 16384}) {
    auto source = bytes_of(size_t{64} * bytes, bytes);
    report_gap("cp.async.bulk of " + std::to_string(bytes) + " bytes,", source);
  }
  for (const int rows : {8, 64, 128}) {
    auto source = tiles_of(16 << 20, 4096, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_gap("tile of " + std::to_string(rows) + " rows of 128 bytes,", source);
  }
}

enum class Reach { kOneSm, kChip };

template <bool Tiles>
void report_load_rate(const std::string& name, Source<Tiles>& source, Reach reach, uint64_t total, const char* where) {
  const int blocks = reach == Reach::kOneSm ? 1 : multiprocessors();
  const int stages = std::min<int>(kMaxStages, 196608 / source.place.bytes);
  const int count = static_cast<int>(std::max<uint64_t>(stages, total / source.place.bytes / blocks));
  DeviceArray<Span> spans(blocks);
  allow_shared(load_rate<Tiles>);
  const auto times = event_milliseconds(
      [&] {
        load_rate<Tiles>
            <<<blocks, 32, kMaxShared>>>(source.map, source.place, stages, count, source.copies, spans.data());
      },
      7);
  const double moved = double(count) * source.place.bytes;
  std::vector<double> rates;
  if (reach == Reach::kChip) {
    for (double ms : times) rates.push_back(moved * blocks / ms * 1e-6);
    report(name + " rate, whole chip, " + where, rates, "GB/s",
           std::to_string(stages) + " copies under way on each of " + std::to_string(blocks) + " SMs");
  } else {
    for (int i = 0; i < 7; ++i) {
      load_rate<Tiles><<<1, 32, kMaxShared>>>(source.map, source.place, stages, count, source.copies, spans.data());
      finish_kernel("load_rate");
      rates.push_back(moved / durations(spans.to_host())[0]);
    }
    report(name + " rate, one SM, " + where, rates, "bytes per cycle", std::to_string(stages) + " copies under way");
  }
}
BENCHMARK(bulk_rate) {
  for (const uint32_t bytes : {128, 512, 1024, 2048, 4096, 8192, 16384, 32768}) {
    const std::string name = "cp.async.bulk of " + std::to_string(bytes) + " bytes,";
    auto near = bytes_of(16 << 20, bytes), far = bytes_of(size_t{2} << 30, bytes);
    report_load_rate(name, near, Reach::kOneSm, 8 << 20, "L2");
    report_load_rate(name, near, Reach::kChip, size_t{1} << 30, "L2");
    if (bytes >= 1024) report_load_rate(name, far, Reach::kChip, size_t{2} << 30, "DRAM");
  }
}
BENCHMARK(tile_rate) {
  for (const int rows : {8, 32, 64, 128, 256}) {
    const std::string name = "tile of " + std::to_string(rows) + " rows of 128 bytes,";
    auto near = tiles_of(16 << 20, 2048, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    auto far = tiles_of(size_t{2} << 30, 32768, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_load_rate(name, near, Reach::kOneSm, 8 << 20, "L2");
    report_load_rate(name, near, Reach::kChip, size_t{1} << 30, "L2");
    report_load_rate(name, far, Reach::kChip, size_t{2} << 30, "DRAM");
  }
  auto plain = tiles_of(16 << 20, 2048, 64, 64, CU_TENSOR_MAP_SWIZZLE_NONE);
  auto narrow = tiles_of(16 << 20, 2048, 32, 64, CU_TENSOR_MAP_SWIZZLE_64B);
  report_load_rate("tile of 64 rows of 128 bytes, no swizzle,", plain, Reach::kOneSm, 8 << 20, "L2");
  report_load_rate("tile of 64 rows of 64 bytes,", narrow, Reach::kOneSm, 8 << 20, "L2");
}

/// How many bytes an SM's copy engine has under way at most: its rate times the latency, where it waits for DRAM.
BENCHMARK(far_rate_of_one) {
  for (const uint32_t bytes : {8192, 16384, 32768, 65536}) {
    auto far = bytes_of(size_t{2} << 30, bytes);
    report_load_rate("cp.async.bulk of " + std::to_string(bytes) + " bytes,", far, Reach::kOneSm, 64 << 20, "DRAM");
  }
  for (const int rows : {64, 128, 256}) {
    auto far = tiles_of(size_t{2} << 30, 32768, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_load_rate("tile of " + std::to_string(rows) + " rows of 128 bytes,", far, Reach::kOneSm, 64 << 20, "DRAM");
  }
}

/// Whether small copies cost the thread that issues them, or the engine: several warps issue them.
template <bool Tiles>
void report_warps(const std::string& name, Source<Tiles>& source) {
  DeviceArray<Span> spans(kRounds);
  allow_shared(burst_of_warps<Tiles>);
  for (const int warps : {1, 2, 4, 8, 16}) {
    const auto time = [&](int count) {
      burst_of_warps<Tiles>
          <<<1, 32 * warps, kMaxShared>>>(source.map, source.place, count, source.copies, spans.data());
      finish_kernel("burst_of_warps");
      return durations(spans.to_host());
    };
    constexpr int kFew = 32, kMany = 96;
    const auto few = time(kFew), many = time(kMany);
    std::vector<double> gaps;
    for (size_t i = 1; i < few.size(); ++i) gaps.push_back((many[i] - few[i]) / (warps * (kMany - kFew)));
    report(name + " gap, " + std::to_string(warps) + " warps", gaps, "cycles per copy",
           "a thread of each warp issues one after the other, from L2; copies 33 to 96");
  }
}
BENCHMARK(gaps_of_warps) {
  for (const uint32_t bytes : {16, 128, 512, 1024}) {
    auto source = bytes_of(1 << 20, bytes);
    report_warps("cp.async.bulk of " + std::to_string(bytes) + " bytes,", source);
  }
  for (const int rows : {1, 4, 8}) {
    auto source = tiles_of(1 << 20, 512, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_warps("tile of " + std::to_string(rows) + " rows of 128 bytes,", source);
  }
}

/// Boxes of rows that are shorter than 128 bytes, as operands without a swizzle have them.
BENCHMARK(narrow_tiles) {
  for (const int width : {8, 16, 32, 64}) {
    for (const int rows : {64, 256}) {
      const std::string name =
          "tile of " + std::to_string(rows) + " rows of " + std::to_string(width * 2) + " bytes, no swizzle,";
      auto source = tiles_of(16 << 20, 2048, width, rows, CU_TENSOR_MAP_SWIZZLE_NONE);
      report_latency(name, source);
      report_load_rate(name, source, Reach::kOneSm, 4 << 20, "L2");
      report_load_rate(name, source, Reach::kChip, size_t{256} << 20, "L2");
    }
  }
}

template <bool Tiles>
void report_stores(const std::string& name, Source<Tiles>& source) {
  const int copies = static_cast<int>(std::min<uint64_t>(64, source.copies)), sms = multiprocessors();
  DeviceArray<Span> read(copies), done(copies), spans(sms);
  allow_shared(store_latency<Tiles>);
  allow_shared(store_rate<Tiles>);
  std::vector<double> until_read, until_done;
  for (int i = 0; i < 4; ++i) {
    store_latency<Tiles><<<1, 1, kMaxShared>>>(source.map, source.place, copies, read.data(), done.data());
    finish_kernel("store_latency");
    if (i == 0) continue;
    for (double value : durations(read.to_host(), 2)) until_read.push_back(value);
    for (double value : durations(done.to_host(), 2)) until_done.push_back(value);
  }
  report(name + " store until wait_group.read", until_read, "cycles", "one thread, one store at a time");
  report(name + " store until wait_group", until_done, "cycles", "one thread, one store at a time");
  const int count = static_cast<int>((8 << 20) / source.place.bytes);
  std::vector<double> one, all;
  for (int i = 0; i < 7; ++i) {
    store_rate<Tiles><<<1, 32, kMaxShared>>>(source.map, source.place, count, source.copies, spans.data());
    finish_kernel("store_rate");
    one.push_back(double(count) * source.place.bytes / durations(spans.to_host())[0]);
  }
  report(name + " store rate, one SM", one, "bytes per cycle", "up to 4 stores under way, into 16 MiB");
  for (double ms : event_milliseconds(
           [&] {
             store_rate<Tiles><<<sms, 32, kMaxShared>>>(source.map, source.place, count, source.copies, spans.data());
           },
           7))
    all.push_back(double(count) * source.place.bytes * sms / ms * 1e-6);
  report(name + " store rate, whole chip", all, "GB/s", "up to 4 stores under way on each SM, into 16 MiB");
}
BENCHMARK(stores) {
  for (const uint32_t bytes : {128, 1024, 4096, 16384, 32768}) {
    auto source = bytes_of(16 << 20, bytes);
    report_stores("cp.async.bulk of " + std::to_string(bytes) + " bytes,", source);
  }
  for (const int rows : {8, 64, 128}) {
    auto source = tiles_of(16 << 20, 2048, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B);
    report_stores("tile of " + std::to_string(rows) + " rows of 128 bytes,", source);
  }
}

BENCHMARK(multicast) {
  const int sms = multiprocessors();
  for (const uint32_t bytes : {1024, 4096, 16384, 32768}) {
    DeviceArray<uint8_t> memory(16 << 20);
    DeviceArray<Span> spans(2 * 64), rate_spans(sms);
    allow_shared(multicast_latency);
    allow_shared(multicast_rate);
    std::vector<double> own, partner;
    for (int i = 0; i < 5; ++i) {
      multicast_latency<<<2, 1, kMaxShared>>>(memory.data(), bytes, 64, spans.data());
      finish_kernel("multicast_latency");
      const auto values = durations(spans.to_host());
      if (i > 0)
        for (int j = 2; j < 64; ++j) own.push_back(values[j]), partner.push_back(values[64 + j]);
    }
    const std::string name = "multicast of " + std::to_string(bytes) + " bytes to 2 blocks";
    report(name + ", latency in the issuing block", own, "cycles", "after a cluster barrier, from L2");
    report(name + ", latency in the other block", partner, "cycles", "from the same cluster barrier; its own clock");
    for (const bool multicast : {false, true}) {
      const int stages = std::min<int>(16, 196608 / bytes), count = static_cast<int>((16 << 20) / bytes);
      std::vector<double> one, all;
      for (int i = 0; i < 7; ++i) {
        multicast_rate<<<2, 32, kMaxShared>>>(memory.data(), bytes, stages, count, (16 << 20) / bytes, multicast,
                                              rate_spans.data());
        finish_kernel("multicast_rate");
        one.push_back(double(count) * bytes / durations(rate_spans.to_host())[0]);
      }
      for (double ms : event_milliseconds(
               [&] {
                 multicast_rate<<<sms / 2 * 2, 32, kMaxShared>>>(memory.data(), bytes, stages, count,
                                                                 (16 << 20) / bytes, multicast, rate_spans.data());
               },
               7))
        all.push_back(double(count) * bytes * (sms / 2 * 2) / ms * 1e-6);
      const std::string which = multicast ? ", halves by multicast" : ", each block its own copy";
      const std::string rate_name = "pair of blocks, the same " + std::to_string(bytes) + " bytes" + which;
      report(rate_name + ", one pair", one, "bytes per cycle and SM",
             "bytes that arrive; with multicast both blocks wait for both");
      report(rate_name + ", whole chip", all, "GB/s", "bytes that arrive; 16 MiB of source, in L2");
    }
  }
}
BENCHMARK(cluster_copies) {
  DeviceArray<Span> spans(1);
  allow_shared(shared_to_shared);
  for (const uint32_t bytes : {16, 128, 1024, 4096, 16384, 65536}) {
    std::vector<double> samples;
    for (int i = 0; i < 9; ++i) {
      shared_to_shared<<<2, 1, kMaxShared>>>(bytes, 64, spans.data());
      finish_kernel("shared_to_shared");
      samples.push_back(durations(spans.to_host())[0] / 128);
    }
    report("cp.async.bulk of " + std::to_string(bytes) + " bytes to the partner's shared memory", samples, "cycles",
           "half a round trip, the partner waits and copies back");
  }
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
