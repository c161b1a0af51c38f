// Which multiprocessor gets which block: the order of the first blocks of a grid, by its size, its blocks' threads and
// their shared memory, and with what ran before.
#include "silicon.hpp"

using namespace silicon;

__global__ void note_place(uint32_t* places, uint64_t nanoseconds_long) {
  if (threadIdx.x != 0) return;
  const uint32_t block = blockIdx.y * gridDim.x + blockIdx.x;
  places[block] = multiprocessor();
  const uint64_t begin = nanoseconds();
  while (nanoseconds() - begin < nanoseconds_long) {
  }
}

struct Launch {
  dim3 grid;
  unsigned threads;
  int shared;
  unsigned cluster = 1;
};

void show(const char* after, const Launch& launch, DeviceArray<uint32_t>& places) {
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
  check(cudaLaunchKernelEx(&config, note_place, places.data(), uint64_t{20000}), "note_place");
  finish_kernel("note_place");
  const auto seen = places.to_host();
  std::printf("{\"grid\": [%u, %u], \"threads\": %u, \"shared\": %d, \"cluster\": %u, \"after\": \"%s\", \"places\": [",
              launch.grid.x, launch.grid.y, launch.threads, launch.shared, launch.cluster, after);
  const unsigned blocks = std::min(launch.grid.x * launch.grid.y, 400u);
  for (unsigned i = 0; i < blocks; ++i) std::printf("%s%u", i == 0 ? "" : ", ", seen[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}

BENCHMARK(orders) {
  DeviceArray<uint32_t> places(4096);
  constexpr int kLarge = 200 << 10, kHalf = 100 << 10, kThird = 70 << 10;
  const Launch launches[] = {
      {{132}, 32, kLarge},      {{132}, 128, kLarge},     {{132}, 384, kLarge},    {{131}, 32, kLarge},
      {{100}, 128, kLarge},     {{264}, 128, kLarge},     {{1024}, 128, kLarge},   {{16, 64}, 128, kLarge},
      {{1024}, 32, kLarge},     {{1024}, 384, kLarge},    {{132}, 128, kHalf},     {{264}, 128, kHalf},
      {{1024}, 128, kHalf},     {{1024}, 128, kThird},    {{16, 64}, 128, kThird}, {{132}, 128, 0},
      {{1024}, 128, 0},         {{4096}, 1024, 0},        {{4096}, 256, 0},        {{132}, 128, kLarge, 2},
      {{1024}, 128, kLarge, 2}, {{1024}, 384, kLarge, 4}, {{1024}, 128, kHalf, 2},
  };
  for (const Launch& launch : launches) show("another shape", launch, places);
  for (int i = 0; i < 3; ++i) show("the same, or others", {{1024}, 128, kLarge}, places);
  show("the last", {{132}, 32, kLarge}, places);
  show("the same", {{132}, 32, kLarge}, places);
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
