// Which multiprocessor gets which block: the order of the first blocks of a grid, and when they start, by its size, its
// blocks' threads and their shared memory, and with what ran before.
#include "silicon.hpp"

using namespace silicon;

struct Note {
  uint32_t place;
  uint64_t start;  ///< ns
};

__global__ void note_place(Note* notes, uint64_t nanoseconds_long) {
  if (threadIdx.x != 0) return;
  const uint32_t block = blockIdx.y * gridDim.x + blockIdx.x;
  const uint64_t begin = nanoseconds();
  notes[block] = {multiprocessor(), begin};
  while (nanoseconds() - begin < nanoseconds_long) {
  }
}

constexpr uint64_t kLong = 20000;  ///< ns that a block stays

struct Launch {
  dim3 grid;
  unsigned threads;
  int shared;
  unsigned cluster = 1;
};

/// Launches, and prints where the first 400 blocks went, and how far apart those of the first round started.
void show(const char* after, const Launch& launch, DeviceArray<Note>& notes) {
  check(cudaFuncSetAttribute(note_place, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared), "attribute");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {launch.cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = launch.threads;
  config.dynamicSmemBytes = launch.shared;
  config.attrs = &attribute;
  config.numAttrs = launch.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, note_place, notes.data(), kLong), "note_place");
  finish_kernel("note_place");
  const auto seen = notes.to_host();
  uint64_t first = ~uint64_t{0}, last = 0;  // of the blocks that found a place at once
  for (unsigned i = 0; i < launch.grid.x * launch.grid.y; ++i) first = std::min(first, seen[i].start);
  for (unsigned i = 0; i < launch.grid.x * launch.grid.y; ++i)
    if (seen[i].start < first + kLong) last = std::max(last, seen[i].start);
  std::printf(
      "{\"grid\": [%u, %u], \"threads\": %u, \"shared\": %d, \"cluster\": %u, \"after\": \"%s\", \"starts within ns\": "
      "%llu, \"places\": [",
      launch.grid.x, launch.grid.y, launch.threads, launch.shared, launch.cluster, after,
      static_cast<unsigned long long>(last - first));
  const unsigned blocks = std::min(launch.grid.x * launch.grid.y, 400u);
  for (unsigned i = 0; i < blocks; ++i) std::printf("%s%u", i == 0 ? "" : ", ", seen[i].place);
  std::printf("]}\n");
  std::fflush(stdout);
}

BENCHMARK(orders) {
  DeviceArray<Note> notes(4096);
  constexpr int kLarge = 200 << 10, kHalf = 100 << 10, kThird = 70 << 10;
  const Launch launches[] = {
      {{132}, 32, kLarge},     {{132}, 128, kLarge},     {{132}, 384, kLarge},     {{131}, 32, kLarge},
      {{100}, 128, kLarge},    {{264}, 128, kLarge},     {{1024}, 128, kLarge},    {{16, 64}, 128, kLarge},
      {{1024}, 32, kLarge},    {{1024}, 384, kLarge},    {{132}, 128, kHalf},      {{264}, 128, kHalf},
      {{1024}, 128, kHalf},    {{1024}, 128, kThird},    {{16, 64}, 128, kThird},  {{132}, 128, 0},
      {{1024}, 128, 0},        {{4096}, 1024, 0},        {{4096}, 256, 0},         {{2112}, 64, 0},
      {{132}, 128, kLarge, 2}, {{1024}, 128, kLarge, 2}, {{1024}, 384, kLarge, 4}, {{1024}, 128, kHalf, 2},
  };
  for (const Launch& launch : launches) show("another shape", launch, notes);
  for (int i = 0; i < 3; ++i) show("the same, or others", {{1024}, 128, kLarge}, notes);
  show("the last", {{132}, 32, kLarge}, notes);
  show("the same", {{132}, 32, kLarge}, notes);
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
