// Measures what the emulated engines do in a second, and what the host's processor does on one core.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <cstring>
#include <vector>

#include "emulated_work.hpp"

namespace {

constexpr int kSize = 1024;
std::vector<float> a(kSize*kSize, 0.5f), b(kSize*kSize, 0.25f), c(kSize*kSize);
std::vector<char> matrix(kMatrixBytes, 1), ring(kRingBytes);

void multiply_by_openblas() {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0,
              c.data(), kSize);
  benchmark::DoNotOptimize(c.data());
}

/// As the tiles go: from all of a matrix into a small ring.
void copy_by_memcpy() {
  for (int at = 0; at < kPasses * kMatrixBytes; at += kTileBytes) {
    std::memcpy(ring.data() + at % kRingBytes, matrix.data() + at % kMatrixBytes, kTileBytes);
    benchmark::ClobberMemory();
  }
}

}  // namespace

int main(int argc, char** argv) {
  openblas_set_num_threads(1);
  native("sgemm of OpenBLAS", "flops", 2.0 * kSize * kSize * kSize, multiply_by_openblas);
  emulated("tcgen05.mma bf16", "flops", multiply_by_tcgen05, {});
  emulated("wgmma bf16", "flops", multiply_by_wgmma, {.device = "h200"});
  native("memcpy", "bytes", double{kPasses} * kMatrixBytes, copy_by_memcpy);
  emulated("tiles by cp.async.bulk.tensor", "bytes", copy_tiles, {});
  return run_side_by_side(argc, argv,
                          {{"tcgen05.mma, of the rate of sgemm", "tcgen05.mma bf16", "sgemm of OpenBLAS"},
                           {"wgmma, of the rate of sgemm", "wgmma bf16", "sgemm of OpenBLAS"},
                           {"tiles, of the rate of memcpy", "tiles by cp.async.bulk.tensor", "memcpy"}});
}
