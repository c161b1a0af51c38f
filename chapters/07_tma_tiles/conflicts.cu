// A warp reads a tile whose rows are 128 bytes, one row in each lane: so with each read it goes down a column. It does
// so in a tile that is stored row by row and in one that is swizzled, in pieces of 4 bytes and of 16.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace stagecraft::harness;

constexpr int kRows = kWarpSize;
constexpr int kColumns = 32;
constexpr int kWays = 4;

/// The cycles since `start`. The warp's reads before it are over, and none after it has begun.
__device__ long long cycles_since(long long start) {
  __syncwarp();
  return clock64() - start;
}

/// Four times the sum of each row, in four ways; cycles[i] is what way i took.
__global__ void __launch_bounds__(kWarpSize) read_columns(const float* matrix, float* sums, long long* cycles) {
  __shared__ PlainTile<float, kRows, kColumns> plain;
  __shared__ Tile<float, kRows, kColumns, Swizzle::bytes_128> swizzled;
  const int row = lane_index();
  for (int r = 0; r < kRows; ++r) {
    plain.at(r, lane_index()) = swizzled.at(r, lane_index()) = matrix[r * kColumns + lane_index()];
  }
  __syncwarp();
  float sum = 0;

  //! [ways]
  long long start = clock64();
  for (int column = 0; column < kColumns; ++column) {
    sum += const_cast<volatile float&>(plain.at(row, column));
  }
  cycles[0] = cycles_since(start);

  start = clock64();
  for (int column = 0; column < kColumns; ++column) {
    sum += const_cast<volatile float&>(swizzled.at(row, column));
  }
  cycles[1] = cycles_since(start);

  start = clock64();
  for (int column = 0; column < kColumns; column += 4) {
    const float4 four = reinterpret_cast<const float4&>(plain.at(row, column));
    sum += four.x + four.y + four.z + four.w;
  }
  cycles[2] = cycles_since(start);

  start = clock64();
  for (int column = 0; column < kColumns; column += 4) {
    const float4 four = reinterpret_cast<const float4&>(swizzled.at(row, column));
    sum += four.x + four.y + four.z + four.w;
  }
  cycles[3] = cycles_since(start);
  //! [ways]
  sums[row] = sum;
}

int main() {
  try {
    const std::vector<float> matrix = random_values<float>(kRows * kColumns, 7);
    const DeviceBuffer<float> there(matrix, "the matrix");
    DeviceBuffer<float> sums(kRows, "the sums");
    DeviceBuffer<long long> cycles(kWays, "the cycles");
    sums.poison();
    const std::string device = current_device().name;
    const bool emulated = device.find("emulated") != std::string::npos;
    const int runs = emulated ? 1 : 2;  // on a chip, the first finds an empty instruction cache
    for (int run = 0; run < runs; ++run) read_columns<<<1, kWarpSize>>>(there.data(), sums.data(), cycles.data());
    finish_kernel("read_columns");

    const std::vector<float> got = sums.to_host();
    for (int row = 0; row < kRows; ++row) {
      double expected = 0;
      for (int column = 0; column < kColumns; ++column) expected += kWays * double{matrix[row * kColumns + column]};
      if (std::abs(got[row] - expected) < 1e-3) continue;
      std::printf("the sum of row %d is %g, and should be %g\n", row, got[row], expected);
      return 1;
    }
    std::printf("four ways, the same sums\n");
    if (emulated) return 0;  // emulated cycles say nothing about speed
    const std::vector<long long> took = cycles.to_host();
    std::printf("cycles on %s\n                 row by row   swizzled\n", device.c_str());
    std::printf("  32 reads of 4     %8lld   %8lld\n   8 reads of 16    %8lld   %8lld\n", took[0], took[1], took[2],
                took[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "conflicts: %s\n", error.what());
    return 1;
  }
}
