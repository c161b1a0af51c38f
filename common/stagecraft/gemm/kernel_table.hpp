// The GEMM kernels that are compiled into the library, and how the host starts one of them.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <span>

#include "stagecraft/gemm/config.hpp"
#include "stagecraft/gemm/error.hpp"
#include "stagecraft/gemm/grouped_tiles.hpp"
#include "stagecraft/gemm/plan.hpp"
#include "stagecraft/tile_work.hpp"

namespace stagecraft {

/// What a launch is given: a checked problem of which every stride is filled in, and the plan's decisions.
struct GemmLaunch {
  GemmProblem problem{};          ///< what to compute
  GemmArguments arguments{};      ///< where everything is
  uint32_t clusters = 1;          ///< that are launched, unless launch control launches one for each unit
  RasterOptions raster{};         ///< in which order
  uint32_t splits = 1;            ///< pieces of each tile along K
  bool stream_k = false;          ///< even shares for all clusters instead
  GroupRows groups{};             ///< where the problem has groups
  bool has_d_map = true;          ///< TMA can store D
  bool swaps = false;             ///< A is the caller's B
  bool dependent = false;         ///< the kernel may start before the one ahead of it has ended
  void* workspace = nullptr;      ///< in device memory, of workspace_bytes() of the kernel
  cudaStream_t stream = nullptr;  ///< where the kernel is started
};

/// Whether C is read, where it is asked for: unless beta is known to be 0.
inline bool reads_c(const GemmArguments& arguments) { return arguments.beta != 0 || arguments.device_beta != nullptr; }

/// A compiled kernel.
struct GemmKernel {
  GemmConfig config;                                      ///< what it was compiled for
  int stages;                                             ///< of its ring of operands
  uint32_t shared_bytes;                                  ///< of each block, at most
  std::optional<GemmError> (*launch)(const GemmLaunch&);  ///< starts it
  size_t (*workspace_bytes)(const GemmLaunch&);           ///< that such a launch needs
  cudaError_t (*find_clusters)(uint32_t&);                ///< how many the current device runs at the same time
};

/// All compiled kernels.
std::span<const GemmKernel* const> shipped_gemms();

}  // namespace stagecraft
