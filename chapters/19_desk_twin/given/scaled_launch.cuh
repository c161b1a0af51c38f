// How the host starts the block-scaled kernel.
#pragma once

#include <gemm_launch.cuh>
#include <scaled.cuh>

namespace stagecraft {

/// An operand in device memory, 16-byte aligned.
struct ScaledOperand {
  const void* elements;       ///< row-major; of 4 bits, two in a byte, the lower one first
  const void* scale_factors;  ///< in atoms, as ScaleFactorTile: rows padded to 128, blocks to 4, by numbers
};

/// Starts the kernel, as `start_gemm`.
/// @param k  a multiple of 16 bytes. @param n  a multiple of 8.
/// Throws CudaError and TensorMapError.
template <typename Config, typename Scheduler, typename Operations>
void start_scaled_gemm(const ScaledOperand& a, const ScaledOperand& b, const Operations& epilogue, __nv_bfloat16* d,
                       int m, int n, int k, uint32_t blocks, uint32_t width = 4, cudaStream_t stream = nullptr) {
  using Element = typename Config::Element;
  using Scale = typename Config::Type::Scale;
  const auto padded = [](int size, int to) { return (size + to - 1) / to * to; };
  const int k_blocks = padded((k + Config::Type::block - 1) / Config::Type::block, 4);
  const auto unscaled = make_problem<Config>(static_cast<const Element*>(a.elements),
                                             static_cast<const Element*>(b.elements), epilogue, d, m, n, k, width);
  const ScaledProblem<Config, Operations> problem{
      unscaled,
      make_tile_map<typename Config::SfaTile>(static_cast<const Scale*>(a.scale_factors), padded(m, 128), k_blocks),
      make_tile_map<typename Config::SfbTile>(static_cast<const Scale*>(b.scale_factors), padded(n, 128), k_blocks)};
  harness::check(launch_kernel(scaled_gemm<Config, Scheduler, Operations>,
                               {.grid = Scheduler::grid(problem.tiles, blocks),
                                .block = kGemmThreads<Config, Scheduler>,
                                .dynamic_shared_bytes = sizeof(typename Config::Payload::Storage),
                                .stream = stream},
                               problem),
                 "launch the kernel");
}

}  // namespace stagecraft
