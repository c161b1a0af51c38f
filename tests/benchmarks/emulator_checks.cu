// "All checks" are those of a run without --checks (race), without those of global memory.
// Measures what all checks cost, and what further cores gain, with and without checks.
#include <algorithm>
#include <string>
#include <thread>

#include "barrier_rings.cuh"
#include "emulator_counters.hpp"
#include "gemm.hpp"
#include "global_accesses.cuh"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "kernel_time.hpp"
#include "matrix_product.cuh"
#include "side_by_side.hpp"

using namespace stagecraft;

namespace {

template <typename Launch>
Work multiply(const char* what, Launch launch) {
  constexpr int kSize = 256;
  const std::vector<float> numbers = harness::random_values<float>(kSize * kSize, 1);
  const harness::DeviceBuffer<float> a(numbers, "A"), b(numbers, "B");
  harness::DeviceBuffer<float> c(kSize * kSize, "C");
  return {1, seconds_in_kernels(what, [&] { launch(a.data(), b.data(), c.data(), kSize); })};
}

/// The product of emulator_speed.
Work multiply_naively() {
  return multiply("the naive product", [](const float* a, const float* b, float* c, int size) {
    constexpr int kBlock = 16;
    matrix_product<<<dim3(size / kBlock, size / kBlock), dim3(kBlock, kBlock)>>>(a, b, c, size);
  });
}

Work multiply_in_tiles() {
  return multiply("the tiled product", [](const float* a, const float* b, float* c, int size) {
    constexpr int kTile = 32;
    tiled_matrix_product<kTile><<<dim3(size / kTile, size / kTile), dim3(kTile, kTile)>>>(a, b, c, size);
  });
}

/// As large as the clusters of CUTLASS's tests of its pipelines.
Work turn_barriers() {
  constexpr int kBlocks = 8, kConsumers = 8, kStages = 4, kRounds = 200;
  return {1, seconds_in_kernels("the rings", [] {
            turn_rings<kBlocks, kConsumers, kStages><<<kBlocks, (1 + kConsumers) * 32>>>(kRounds);
          })};
}

/// Work of one kernel that reads a buffer and writes another one, of kSide x kSide elements.
constexpr int kSide = 512;
template <typename Element, typename Launch>
Work pass_over(const char* what, Launch launch) {
  const harness::DeviceBuffer<Element> in(std::vector<Element>(kSide * kSide, Element{1}), "the input");
  harness::DeviceBuffer<Element> out(std::vector<Element>(kSide * kSide), "the output");
  return {1, seconds_in_kernels(what, [&] { launch(in.data(), out.data()); })};
}
constexpr dim3 kTiles{kSide / 32, kSide / 32};

Work transpose() {
  return pass_over<float>("the transposition", [](const float* in, float* out) {
    transpose_naively<<<kTiles, dim3(32, 8)>>>(in, out, kSide);
  });
}

Work apply_stencil() {
  return pass_over<float>("the stencil", [](const float* in, float* out) {
    smooth<<<dim3(kSide / 32, kSide / 8), dim3(32, 8)>>>(in, out, kSide);
  });
}

Work load_from_anywhere() {
  return pass_over<unsigned>("the random loads", [](const unsigned* in, unsigned* out) {
    load_at_random<<<kSide * kSide / 256 / 4, 256>>>(in, out, kSide * kSide);
  });
}

Work copy_all() {
  return pass_over<float>("the copy", [](const float* in, float* out) {
    copy_rows<<<kSide * kSide / 4 / 256, 256>>>(reinterpret_cast<const float4*>(in), reinterpret_cast<float4*>(out));
  });
}

Work scale_all() {
  return pass_over<float>("the scaling",
                          [](const float*, float* out) { scale_in_place<<<kSide * kSide / 256, 256>>>(out, 2.0f); });
}

Work count_all() {
  return pass_over<unsigned>("the histogram", [](const unsigned* in, unsigned* out) {
    count_values<<<kSide * kSide / 256, 256>>>(in, out, 4096u);
  });
}

Work run_gemm() {
  constexpr int kSize = 512;
  using Element = __nv_bfloat16;
  const std::vector<Element> numbers = harness::random_values<Element>(kSize * kSize, 2);
  const harness::DeviceBuffer<Element> a(numbers, "A"), b(numbers, "B");
  harness::DeviceBuffer<Element> c(kSize * kSize, "C");
  return {1, seconds_in_kernels("the GEMM",
                                [&] { launch_gemm<Element>(a.data(), b.data(), c.data(), kSize, kSize, kSize); })};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string cores = std::to_string(std::max(1u, std::thread::hardware_concurrency()));
  emulated("naive product, all cores", "runs", multiply_naively, {.checks = "none", .threads = cores.c_str()});
  emulated("naive product, no checks", "runs", multiply_naively, {.checks = "none"});
  emulated("naive product, all checks", "runs", multiply_naively, {.checks = "race"});
  emulated("naive product, global memory too", "runs", multiply_naively, {.checks = "global"});
  emulated("tiled product, no checks", "runs", multiply_in_tiles, {.checks = "none"});
  emulated("tiled product, all checks", "runs", multiply_in_tiles, {.checks = "race"});
  emulated("barriers only, no checks", "runs", turn_barriers, {.checks = "none"});
  emulated("barriers only, all checks", "runs", turn_barriers, {.checks = "race"});
  emulated("gemm, no checks", "runs", run_gemm, {.checks = "none"});
  emulated("gemm, all checks", "runs", run_gemm, {.checks = "race"});
  emulated("gemm, global memory too", "runs", run_gemm, {.checks = "global"});
  emulated("naive product, all checks, all cores", "runs", multiply_naively,
           {.checks = "race", .threads = cores.c_str()});
  emulated("gemm, all checks, all cores", "runs", run_gemm, {.checks = "race", .threads = cores.c_str()});
  std::vector<Ratio> ratios{
      {"naive product, times as long with all checks", "naive product, no checks", "naive product, all checks"},
      {"naive product, times as long with global memory too", "naive product, no checks",
       "naive product, global memory too"},
      {"naive product, times as fast on " + cores + " cores", "naive product, all cores", "naive product, no checks"},
      {"tiled product, times as long with all checks", "tiled product, no checks", "tiled product, all checks"},
      {"barriers only, times as long with all checks", "barriers only, no checks", "barriers only, all checks"},
      {"gemm of chapter 10, times as long with all checks", "gemm, no checks", "gemm, all checks"},
      {"gemm of chapter 10, times as long with global memory too", "gemm, no checks", "gemm, global memory too"},
      {"naive product with all checks, times as fast on " + cores + " cores", "naive product, all checks, all cores",
       "naive product, all checks"},
      {"gemm with all checks, times as fast on " + cores + " cores", "gemm, all checks, all cores",
       "gemm, all checks"}};
  const std::pair<const char*, Work (*)()> patterns[] = {
      {"naive transposition", transpose}, {"stencil", apply_stencil},      {"random loads", load_from_anywhere},
      {"copy by float4", copy_all},       {"scaling in place", scale_all}, {"histogram", count_all}};
  for (const auto& [name, work] : patterns) {
    const std::string kernel = name, without = kernel + ", no checks", with = kernel + ", global memory too";
    emulated(without, "runs", work, {.checks = "none"});
    emulated(with, "runs", work, {.checks = "global"});
    ratios.push_back({kernel + ", times as long with global memory too", without, with});
  }
  return run_side_by_side(argc, argv, ratios);
}
