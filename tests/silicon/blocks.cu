// Blocks that share a multiprocessor: how fast new ones take the places of those that ended, and which of the warps of
// a scheduler comes first, by age and by place.
#include <array>
#include <map>
#include <numeric>

#include "kernel_timing.hpp"

using namespace silicon;

// ---- How fast blocks follow each other
// -----------------------------------------------------------------------------------

struct WarpNote {
  uint64_t start, stop;
  uint32_t multiprocessor, slot;
};

__device__ inline uint32_t warp_slot() {
  uint32_t value;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(value));
  return value;
}

/// Each warp waits for so many loads of L2, one after the other, which leaves the scheduler to the others; with
/// `notes`, it writes when.
__global__ void __launch_bounds__(1024) short_blocks(uint32_t loads, const uint32_t* zeros, WarpNote* notes) {
  const uint64_t start = cycles();
  uint32_t at = lane();
#pragma unroll 1
  for (uint32_t i = 0; i < loads; ++i) at += __ldcg(zeros + at);
  if (notes == nullptr || lane() != 0) return;
  const uint64_t now = cycles_after(at);
  notes[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = {start, now, multiprocessor(), warp_slot()};
}

/// Notes of the blocks that began and ended in the middle half of a multiprocessor's time.
struct Turnover {
  std::vector<double> between_starts, gaps, lives;
  double warps = 0;  ///< on a multiprocessor, on average
};
Turnover turnover_of(const std::vector<WarpNote>& notes, int warps) {
  struct Block {
    uint64_t start, stop;
    uint32_t slot;
  };
  std::map<uint32_t, std::vector<Block>> by_multiprocessor;
  for (size_t first = 0; first < notes.size(); first += warps) {
    Block block{notes[first].start, notes[first].stop, notes[first].slot};
    for (int warp = 1; warp < warps; ++warp) {
      block.start = std::min(block.start, notes[first + warp].start);
      block.stop = std::max(block.stop, notes[first + warp].stop);
      block.slot = std::min(block.slot, notes[first + warp].slot);
    }
    by_multiprocessor[notes[first].multiprocessor].push_back(block);
  }
  Turnover result;
  double lives = 0, time = 0;
  for (auto& [multiprocessor, blocks] : by_multiprocessor) {
    std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.start < b.start; });
    const uint64_t begin = blocks.front().start, end = blocks.back().start;
    const uint64_t from = begin + (end - begin) / 4, to = begin + (end - begin) / 4 * 3;
    time += static_cast<double>(to - from);
    std::map<uint32_t, uint64_t> ended;  // by slot
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = blocks[i];
      lives +=
          static_cast<double>(std::max(std::min(block.stop, to), from) - std::min(std::max(block.start, from), to));
      if (i > 0 && block.start > from && block.start < to) {
        result.lives.push_back(static_cast<double>(block.stop - block.start));
        result.between_starts.push_back(static_cast<double>(block.start - blocks[i - 1].start));
        if (ended.count(block.slot) != 0 && block.start > ended[block.slot])
          result.gaps.push_back(static_cast<double>(block.start - ended[block.slot]));
      }
      ended[block.slot] = block.stop;
    }
  }
  result.warps = time > 0 ? lives * warps / time : 0;
  return result;
}

double mean_of(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.) / static_cast<double>(std::max<size_t>(all.size(), 1));
}

BENCHMARK(block_rate) {
  for (const int threads : {32, 64, 128, 256, 512, 1024})
    for (const uint32_t loads : {0u, 2u, 5u, 15u}) {
      const int blocks = multiprocessors() * 64 * std::max(1, 256 / threads), warps = threads / 32;
      DeviceArray<WarpNote> notes(size_t(blocks) * warps);
      const DeviceArray<uint32_t> zeros(32);
      short_blocks<<<blocks, threads>>>(loads, zeros.data(), notes.data());
      finish_kernel("short_blocks");
      short_blocks<<<blocks, threads>>>(loads, zeros.data(), notes.data());
      finish_kernel("short_blocks");
      const Turnover turnover = turnover_of(notes.to_host(), warps);
      const std::string name = std::to_string(threads) + " threads that wait for " + std::to_string(loads) + " loads";
      report("mean time between starts of blocks of an SM, " + name, {mean_of(turnover.between_starts)}, "cycles",
             "as many blocks at once as fit; each warp writes 24 bytes at its end");
      report("life of a block, " + name, turnover.lives, "cycles", "from its first warp's start to its last one's end");
      report("from a block's end to the next block in its place, " + name, turnover.gaps, "cycles",
             "by the lowest of its %warpid");
      report("warps at work, " + name, {turnover.warps}, "warps", "of an SM, on average");
    }
}

/// Blocks by the words that each thread reads and writes, of 4 MiB, which stay in L2, or of 32.
template <int Reads, bool Writes>
__global__ void __launch_bounds__(256) passing(const uint32_t* in, uint32_t* out, uint32_t in_mask, uint32_t out_mask) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  uint32_t sum = 0;
#pragma unroll
  for (int r = 0; r < Reads; ++r) sum += in[(i + r * 2048) & in_mask];
  if (Writes || sum == 12345) out[i & out_mask] = sum;
}
template <int Reads, bool Writes>
void time_passing() {
  const auto in = arrays<uint32_t>(once() ? 1 : 5, 8 * kMi), out = arrays<uint32_t>(once() ? 1 : 5, 8 * kMi);
  for (const bool far_in : {false, true})
    for (const bool far_out : {false, true}) {
      if ((far_in && Reads == 0) || (far_out && !Writes)) continue;
      time("32768 blocks, " + std::to_string(Reads) + " words read from " + (far_in ? "32" : "4") + " MiB, " +
               (Writes ? far_out ? "one written to 32" : "one written to 4" : "none written to 0") + " MiB",
           static_cast<int>(in.size()), [&](cudaStream_t stream, int set) {
             passing<Reads, Writes><<<32768, 256, 0, stream>>>(in[far_in ? set : 0].data(),
                                                               out[far_out ? set : 0].data(),
                                                               (far_in ? 8 : 1) * kMi - 1, (far_out ? 8 : 1) * kMi - 1);
           });
    }
}
BENCHMARK(blocks_that_read_and_write) {
  time_passing<0, false>(), time_passing<0, true>(), time_passing<1, false>(), time_passing<1, true>();
  time_passing<3, false>(), time_passing<3, true>();
}

/// Keeps the multiprocessors that `stays` names until the host says so, and lets the others go.
enum class Stays { kNone, kFirstHalf, kEven };
__global__ void __launch_bounds__(1024) keep(Stays stays, const volatile int* leave, uint32_t* kept) {
  const uint32_t at = multiprocessor();
  if (stays == Stays::kNone) return;
  if (stays == Stays::kFirstHalf && at >= 66) return;
  if (stays == Stays::kEven && at % 2 != 0) return;
  if (threadIdx.x == 0) atomicAdd(kept, 1);
  while (*leave == 0) __nanosleep(1000);
}

/// Whether a multiprocessor gets blocks faster where others get none.
BENCHMARK(block_rate_beside_others) {
  for (const Stays stays : {Stays::kNone, Stays::kFirstHalf, Stays::kEven}) {
    cudaStream_t first, second;
    check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreate");
    int* leave = nullptr;
    check(cudaHostAlloc(reinterpret_cast<void**>(&leave), sizeof(int), cudaHostAllocMapped), "cudaHostAlloc");
    *leave = 0;
    DeviceArray<uint32_t> kept(1);
    const int blocks = multiprocessors() * 64, threads = 128, warps = threads / 32;
    DeviceArray<WarpNote> notes(size_t(blocks) * warps);
    check(cudaFuncSetAttribute(keep, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024), "cudaFuncSetAttribute");
    const DeviceArray<uint32_t> zeros(32);
    short_blocks<<<1, threads>>>(0, zeros.data(), notes.data());  // loads the code
    finish_kernel("short_blocks");
    // A thousand threads and most of the shared memory: a second of them does not fit, but short blocks might.
    keep<<<multiprocessors(), 1024, 200 * 1024, first>>>(stays, leave, kept.data());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    short_blocks<<<blocks, threads, 30 * 1024, second>>>(0, zeros.data(), notes.data());
    check(cudaStreamSynchronize(second), "short_blocks");
    *leave = 1;
    check(cudaStreamSynchronize(first), "keep");
    const auto host = notes.to_host();
    std::map<uint32_t, int> where;
    for (const WarpNote& note : host) ++where[note.multiprocessor];
    const Turnover turnover = turnover_of(host, warps);
    const std::string name = stays == Stays::kNone   ? "on all"
                             : stays == Stays::kEven ? "on the odd ones"
                                                     : "on the last 66";
    report("mean time between starts of blocks of an SM, " + name, {mean_of(turnover.between_starts)}, "cycles",
           std::to_string(where.size()) + " SMs got blocks of 128 threads");
  }
}

// ---- Who comes first
// -----------------------------------------------------------------------------------------------------

constexpr int kMarks = 32, kWarps = 4;

struct Progress {
  uint64_t marks[kMarks + 1];
  uint32_t count, multiprocessor, slot, sink;
};

/// Independent sums of products, which one warp alone could issue in nearly each cycle, with or without loads of their
/// operands from shared memory; a mark after each 512. Blocks have work of several lengths, where `mixed`.
template <bool kLoads>
__global__ void __launch_bounds__(512) contend(Progress* notes, bool mixed) {
  extern __shared__ __align__(16) float4 shared[];
  Progress& note = notes[(blockIdx.x * blockDim.x + threadIdx.x) / 32];
  const int count = kMarks / 2 + (mixed ? static_cast<int>(blockIdx.x * 7 % 5) * (kMarks / 8) : 0);
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  if (lane() == 0) note.marks[0] = cycles();
#pragma unroll 1
  for (int mark = 1; mark <= count; ++mark) {
    if constexpr (kLoads) {
#pragma unroll 1
      for (int i = 0; i < 16; ++i) {
        const float4 x = shared[i], y = shared[i + 16];
        const float of_x[] = {x.x, x.y, x.z, x.w}, of_y[] = {y.x, y.y, y.z, y.w};
        for (int k = 0; k < 32; ++k) sums[k % 8] += of_x[k % 4] * of_y[k / 8];
      }
    } else {
#pragma unroll 4
      for (int i = 0; i < 64; ++i)
        for (float& sum : sums) sum = sum * sum + 0.5f;
    }
    const uint64_t now = cycles();
    if (lane() == 0) note.marks[mark] = now;
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  if (lane() == 0) note.count = count, note.multiprocessor = multiprocessor(), note.slot = warp_slot();
  if (all == 0.12345f) note.sink = 1;
}

double progress_at(const Progress& note, double time) {
  for (uint32_t i = 1; i <= note.count; ++i)
    if (time < static_cast<double>(note.marks[i]))
      return i - 1 +
             (time - static_cast<double>(note.marks[i - 1])) / static_cast<double>(note.marks[i] - note.marks[i - 1]);
  return note.count;
}

/// Reports which of two warps has done more while they shared a scheduler.
template <bool kLoads>
void compare_warps(const char* work) {
  const auto begin = [](const Progress* note) { return static_cast<double>(note->marks[0]); };
  const auto end = [](const Progress* note) { return static_cast<double>(note->marks[note->count]); };
  check(cudaFuncSetAttribute(contend<kLoads>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024),
        "cudaFuncSetAttribute");
  for (const int at_once : {2, 4}) {
    const int blocks = multiprocessors() * at_once * 6, shared = 220 * 1024 / at_once - 1024;
    DeviceArray<Progress> device(size_t(blocks) * kWarps);
    contend<kLoads><<<blocks, 32 * kWarps, shared>>>(device.data(), true);
    finish_kernel("contend");
    const auto notes = device.to_host();
    std::map<std::pair<uint32_t, uint32_t>, std::vector<const Progress*>> of_scheduler;
    for (const Progress& note : notes) of_scheduler[{note.multiprocessor, note.slot % 4}].push_back(&note);
    // By whether the older one has the higher slot: the part of their work that the older one did.
    std::array<std::vector<double>, 2> parts;
    for (const auto& [scheduler, warps] : of_scheduler)
      for (const Progress* a : warps)
        for (const Progress* b : warps) {
          if (begin(a) + 200 >= begin(b)) continue;  // `a` is older
          const double from = begin(b), to = std::min(end(a), end(b));
          if (to - from < 2000) continue;
          const double of_a = progress_at(*a, to) - progress_at(*a, from), of_b = progress_at(*b, to);
          parts[a->slot > b->slot ? 1 : 0].push_back(of_a / (of_a + of_b));
        }
    for (const int higher : {0, 1})
      report("part of the older warp, " + std::string(work) + ", " + std::to_string(at_once) +
                 " warps a scheduler, the older one has the " + (higher != 0 ? "higher" : "lower") + " %warpid",
             parts[higher], "of the work of two", "while both are there; sums of products, 512 to a mark");
  }
  for (const int at_once : {2, 3, 4}) {
    const int blocks = multiprocessors(), warps = kWarps * at_once;
    DeviceArray<Progress> device(size_t(blocks) * warps);
    contend<kLoads><<<blocks, 32 * warps, 200 * 1024>>>(device.data(), false);
    finish_kernel("contend");
    const auto notes = device.to_host();
    std::vector<std::vector<double>> done(at_once);
    for (int block = 0; block < blocks; ++block)
      for (int quarter = 0; quarter < 4; ++quarter) {
        const auto warp = [&](int i) -> const Progress& { return notes[block * warps + i * 4 + quarter]; };
        double first_end = end(&warp(0));
        for (int i = 1; i < at_once; ++i) first_end = std::min(first_end, end(&warp(i)));
        for (int i = 0; i < at_once; ++i) done[i].push_back(progress_at(warp(i), first_end) / warp(i).count);
      }
    for (int i = 0; i < at_once; ++i)
      report("done when the first has ended, " + std::string(work) + ", warp " + std::to_string(i) + " of " +
                 std::to_string(at_once) + " of a scheduler in one block",
             done[i], "of its work", "sums of products, 512 to a mark");
  }
}
BENCHMARK(who_comes_first) { compare_warps<false>("sums"); }
BENCHMARK(who_comes_first_with_loads) { compare_warps<true>("loads and sums"); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
