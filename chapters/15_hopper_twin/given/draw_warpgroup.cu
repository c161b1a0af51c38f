// This program draws two pictures of chapter 15: which thread of a warpgroup has which sum, as a product on the device
// shows it, and how the registers of a multiprocessor are dealt out.
//   draw_warpgroup sums|registers         prints a picture
//   draw_warpgroup sums|registers FILE    fails when FILE is not the picture
#include <cuda_bf16.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cuda/ptx>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/drawing.hpp"
#include "harness/kernel_run.hpp"
#include "harness/picture.hpp"
#include "problem.cuh"
#include "stagecraft/launch.hpp"
#include "stagecraft/wgmma.hpp"

namespace {

using namespace stagecraft;

// ---- Who has which sum ----------------------------------------------------------------------------------------------

constexpr int kRows = 64, kColumns = 64, kOfThread = kColumns / 2;
using ATile = Tile<__nv_bfloat16, kRows, 64>;
using BTile = Tile<__nv_bfloat16, kColumns, 64>;
using Sums = WarpgroupSums<__nv_bfloat16, kRows, kColumns>;

/// Multiplies matrices whose product has 64 * row + column at each place, and writes down what each thread gets.
__global__ void __launch_bounds__(kWarpgroupSize) write_down_sums(float* sums_of_threads) {
  __shared__ ATile a;
  __shared__ BTile b;
  for (int i = static_cast<int>(threadIdx.x); i < 64 * 64; i += kWarpgroupSize) {
    const int line = i / 64, k = i % 64;
    a.at(line, k) = __int2bfloat16_rn(k == 0 ? line : k == 1 ? 1 : 0);
    b.at(line, k) = __int2bfloat16_rn(k == 0 ? 64 : k == 1 ? line : 0);
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  Sums sums;
  multiply_tiles(sums, a, /*first_row=*/0, b, /*accumulate=*/false);
  sums.wait();
  for (int i = 0; i < kOfThread; ++i) sums_of_threads[threadIdx.x * kOfThread + i] = sums.of[0][i];
}

struct Owner {
  int lane = -1, index = -1;
};
/// Who in its warp has the sum of each row and column.
using Owners = std::array<std::array<Owner, kColumns>, kRows>;

Owners find_owners() {
  const harness::DeviceBuffer<float> buffer(kWarpgroupSize * kOfThread, "the sums");
  harness::check(launch_kernel(write_down_sums, {.grid = 1, .block = kWarpgroupSize}, buffer.data()),
                 "launch write_down_sums");
  harness::finish_kernel("write_down_sums");
  Owners owners;
  const std::vector<float> sums = buffer.to_host();
  for (int thread = 0; thread < kWarpgroupSize; ++thread) {
    for (int i = 0; i < kOfThread; ++i) {
      const int place = static_cast<int>(sums[thread * kOfThread + i]);
      if (place / kColumns / 16 != thread / 32) throw std::logic_error("a warp has rows of another");
      owners.at(place / kColumns).at(place % kColumns) = {thread % 32, i};
    }
  }
  return owners;
}

std::string draw_sums() {
  constexpr int kShown = 16, kWide = 36, kHigh = 17, kLeft = 184, kTop = 62, kBand = 4 * kHigh, kMarked = 5;
  const Owners owners = find_owners();
  harness::Drawing out(
      780, 394,
      "The sums of a warpgroup, 64 rows and N columns: each warp has 16 rows, and in them each lane has two "
      "columns of one row and of the row eight below, again in each eight columns");
  out.words("", 10, 26, "64 rows, N columns");
  for (int warp = 0; warp < 4; ++warp) {
    out.box(warp == 0 ? "free" : "", 10, kTop + warp * kBand, 122, kBand);
    out.words("middle", 71, kTop + warp * kBand + 32, "warp " + std::to_string(warp));
    out.words("quiet middle", 71, kTop + warp * kBand + 50,
              "rows " + std::to_string(16 * warp) + " to " + std::to_string(16 * warp + 15));
  }
  out.line("", "M132 " + std::to_string(kTop) + " H" + std::to_string(kLeft - 24));
  out.line("", "M132 " + std::to_string(kTop + kBand) + " L" + std::to_string(kLeft - 24) + " " +
                   std::to_string(kTop + 16 * kHigh));
  out.words("", kLeft, 26, "the first 16 columns of warp 0's rows: lane : register");
  for (const int column : {0, 8}) {
    out.words("quiet", kLeft + column * kWide, kTop - 8,
              "columns " + std::to_string(column) + " to " + std::to_string(column + 7));
  }
  for (int row = 0; row < 16; ++row) {
    out.words("small end", kLeft - 4, kTop + row * kHigh + 13, std::to_string(row));
    for (int column = 0; column < kShown; ++column) {
      const Owner owner = owners[row][column];
      for (int warp = 1; warp < 4; ++warp) {
        const Owner other = owners[16 * warp + row][column];
        if (other.lane != owner.lane || other.index != owner.index) throw std::logic_error("the warps differ");
      }
      const int x = kLeft + column * kWide, y = kTop + row * kHigh;
      out.box(owner.lane == kMarked ? "filled" : "", x, y, kWide, kHigh);
      out.words("small middle", x + kWide / 2, y + 13, std::to_string(owner.lane) + ":" + std::to_string(owner.index));
    }
  }
  out.words("quiet", kLeft, kTop + 16 * kHigh + 24,
            "Coloured: what lane " + std::to_string(kMarked) + " has. In each eight columns it has four sums, so");
  out.words("quiet", kLeft, kTop + 16 * kHigh + 42, "N / 2 in all. The other warps have the same in their own rows.");
  return out.finish();
}

// ---- The registers of a multiprocessor ------------------------------------------------------------------------------

std::string draw_registers() {
  constexpr int kAll = 65536, kPixels = 100;              // registers of a multiprocessor, and for a pixel
  constexpr int kAtLaunch = kAll / kGemmThreads / 8 * 8;  // of each thread: setmaxnreg counts in eights
  constexpr int kLeft = 150, kTop = 60, kHigh = 36, kPitch = 58;
  harness::Drawing out(
      850, 262,
      "The registers of an SM: three warpgroups begin with 168 for each thread; one goes down to 24, and "
      "then the other two can go up to 240");
  out.words("", 20, 24, "65536 registers of an SM; each box is a warpgroup of 128 threads");
  struct Part {
    std::string style, name;
    int registers;
  };
  const auto draw = [&](int step, const std::string& what, const std::string& detail, const std::vector<Part>& parts) {
    const int y = kTop + step * kPitch;
    out.words("", 20, y + 16, what);
    out.words("quiet", 20, y + 32, detail);
    out.box("", kLeft, y, kAll / kPixels, kHigh);
    int x = kLeft;
    for (const Part& part : parts) {
      const int width = part.registers * kWarpgroupThreads / kPixels;
      out.box(part.style, x, y, width, kHigh);
      if (width > 100) {
        out.words("middle", x + width / 2, y + 16, part.name);
        out.words("quiet middle", x + width / 2, y + 31, std::to_string(part.registers) + " each");
      }
      x += width;
    }
  };
  const Part loads{"tone1", "load", kAtLaunch}, multiplies{"tone0", "multiply", kAtLaunch};
  draw(0, "at the launch", "", {loads, multiplies, multiplies});
  const Part few{"tone1", "load", kLoadRegisters}, released{"free", "released", kAtLaunch - kLoadRegisters};
  draw(1, "load: dec " + std::to_string(kLoadRegisters), "", {few, released, multiplies, multiplies});
  const Part many{"tone0", "multiply", kMultiplyRegisters};
  draw(2, "multiply: inc " + std::to_string(kMultiplyRegisters), "", {few, many, many});
  constexpr int kUsed = (kLoadRegisters + kConsumers * kMultiplyRegisters) * kWarpgroupThreads;
  static_assert(kUsed <= kAtLaunch * kGemmThreads, "a block cannot have more than it was launched with");
  out.words("quiet", kLeft, kTop + 3 * kPitch + 6,
            std::to_string(kLoadRegisters) + " + " + std::to_string(kConsumers) + " x " +
                std::to_string(kMultiplyRegisters) + " = " +
                std::to_string(kLoadRegisters + kConsumers * kMultiplyRegisters) + " = 3 x " +
                std::to_string(kAtLaunch) + ": what one gives up, the others get.");
  out.words("quiet", kLeft, kTop + 3 * kPitch + 24, "Until it has given them up, the two wait in setmaxnreg.inc.");
  return out.finish();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which != "sums" && which != "registers") {
    std::fputs("usage: draw_warpgroup sums|registers [FILE]\n", stderr);
    return 2;
  }
  return harness::print_or_compare(which == "sums" ? draw_sums() : draw_registers(), argc > 2 ? argv[2] : nullptr,
                                   which == "sums" ? "a run gives" : "the kernel asks for", argv[0] + (" " + which));
} catch (const std::exception& error) {
  std::fprintf(stderr, "draw_warpgroup: %s\n", error.what());
  return 1;
}
