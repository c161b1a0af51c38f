// How the host starts the kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "stagecraft/hopper_gemm/kernel.cuh"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// What may be chosen at each launch.
struct TwinLaunchOptions {
  int band = 8;            ///< rows of clusters that are gone through together
  bool persistent = true;  ///< as many blocks as the device has room for at once; else one for each tile
  int blocks = 0;          ///< at most; 0: as many as the device has room for at once
  L2Promotion promotion = L2Promotion::bytes_128;  ///< how much a copy of A or B fetches into L2 at a time
  bool dependent_launch = false;  ///< may start while the kernel before it in the stream ends, whose results it awaits
};

/// The kernel with its arguments, to be started any number of times.
template <typename Config>
class TwinLaunch {
  using T = Twin<Config>;

 public:
  /// Describes the matrices to TMA.
  /// @param a, b, c  16-byte aligned; k a multiple of 8, and n too, unless the threads store C.
  /// @throws TensorMapError for addresses and sizes that TMA cannot take.
  TwinLaunch(const typename Config::Element* a, const typename Config::Element* b, __nv_bfloat16* c, int64_t m,
             int64_t n, int64_t k, const TwinLaunchOptions& options = {})
      : TwinLaunch(Config::swapped ? b : a, Config::swapped ? a : b, c, Config::swapped ? n : m,
                   Config::swapped ? m : n, k, options, AsComputed{}) {}

  /// Starts the kernel. Throws CudaError when that fails.
  void operator()(cudaStream_t stream = nullptr) {
    cudaLaunchConfig_t config = launch_config(blocks_);
    config.stream = stream;
    harness::check(cudaLaunchKernelEx(&config, hopper_twin<Config>, problem_), "launch the kernel");
  }

  /// Blocks that it starts.
  int blocks() const { return blocks_; }

 private:
  struct AsComputed {};

  /// The same for the product as the kernel computes it: swapped already.
  TwinLaunch(const typename Config::Element* a, const typename Config::Element* b, __nv_bfloat16* c, int64_t m,
             int64_t n, int64_t k, const TwinLaunchOptions& options, AsComputed)
      : problem_{.a = operand_map<typename T::ASlice>(a, m, k, T::ASlice::rows, options.promotion),
                 .a_edge = operand_map<typename T::ASlice>(
                     a, m, k, TwinProblem<Config>::rows_at_edge(m, T::ASlice::rows), options.promotion),
                 .b = operand_map<typename T::BSlice>(b, n, k, T::BSlice::rows, options.promotion),
                 .b_edge = operand_map<typename T::BSlice>(
                     b, n, k, TwinProblem<Config>::rows_at_edge(n, T::BSlice::rows), options.promotion),
                 .c_map = !Config::by_copy_engine ? TileMap<typename T::Slab>{}
                          : Config::swapped       ? make_tile_map<typename T::Slab>(c, n, m)
                                                  : make_tile_map<typename T::Slab>(c, m, n),
                 .c = c,
                 .m = static_cast<int>(m),
                 .n = static_cast<int>(n),
                 .k = static_cast<int>(k),
                 .band = options.band,
                 .whole_tiles = 0,
                 .pieces = 1,
                 .halved_tiles = 0,
                 .idle = 0,
                 .partial = nullptr,
                 .delivered = nullptr},
        dependent_launch_(options.dependent_launch) {
    harness::check(cudaFuncSetAttribute(hopper_twin<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        sizeof(typename T::Shared)),
                   "reserve shared memory for the tiles");
    int clusters = 0;
    cudaLaunchConfig_t config = launch_config(T::kBlocks);
    harness::check(cudaOccupancyMaxActiveClusters(&clusters, hopper_twin<Config>, &config),
                   "ask how many clusters the device has room for");
    if (options.blocks > 0) clusters = std::min(clusters, options.blocks / T::kBlocks);
    const int tiles = problem_.cluster_rows() * problem_.cluster_columns();
    if (!options.persistent || T::kSplits) clusters = tiles;
    problem_.whole_tiles = tiles;
    const int last_round = tiles % clusters;
    if constexpr (T::kHalves) {
      // Those at the edge that no whole cluster has work for, and the last round's, if that saves half a round.
      const int odd = TwinProblem<Config>::ceil_div(problem_.m, Config::tile_m) *
                          TwinProblem<Config>::ceil_div(problem_.n, Config::tile_n) -
                      T::kBlocks * tiles;
      const auto half_rounds = [clusters](int whole, int halved) {
        const int idle = (clusters - whole % clusters) % clusters;
        return 2 * TwinProblem<Config>::ceil_div(whole, clusters) +
               TwinProblem<Config>::ceil_div(std::max(0, halved - 2 * idle), clusters);
      };
      problem_.halved_tiles = odd;
      if (half_rounds(tiles - last_round, odd + T::kBlocks * last_round) < half_rounds(tiles, odd)) {
        problem_.whole_tiles = tiles - last_round;
        problem_.halved_tiles += T::kBlocks * last_round;
      }
      if (problem_.halved_tiles > 0) {
        const int used = std::min(clusters, problem_.whole_tiles + problem_.halved_tiles);
        problem_.idle = (used - problem_.whole_tiles % used) % used;
        blocks_ = used * T::kBlocks;
        return;
      }
    }
    const int pieces = last_round == 0 ? 1 : std::min({clusters / last_round, kMostPieces, problem_.k_groups() / 4});
    if (Config::last_round == LastRound::cut && pieces > 1) {
      problem_.whole_tiles = tiles - last_round;
      problem_.pieces = pieces;
      const int used = problem_.whole_tiles > 0 ? clusters : last_round * problem_.pieces;
      blocks_ = used * T::kBlocks;
      const size_t partial = sizeof(float) * Config::tile_m * Config::tile_n * blocks_;
      const size_t delivered = sizeof(uint32_t) * T::kWarps * blocks_;
      workspace_ = std::make_shared<harness::DeviceBuffer<unsigned char>>(partial + delivered, "partial sums");
      problem_.partial = reinterpret_cast<float4*>(workspace_->data());
      problem_.delivered = reinterpret_cast<uint32_t*>(workspace_->data() + partial);
      harness::check(cudaMemset(problem_.delivered, 0, delivered), "clear the deliveries");
      return;
    }
    // No more clusters than it takes to have as few rounds: those that would stay idle at the end leave their power to
    // the others.
    const int rounds = TwinProblem<Config>::ceil_div(tiles, clusters);
    blocks_ = TwinProblem<Config>::ceil_div(tiles, rounds) * T::kBlocks;
  }

  /// The map by which copies bring `rows` rows of slices.
  template <typename Slice>
  static TileMap<Slice> operand_map(const typename Config::Element* address, int64_t size, int64_t k, int rows,
                                    L2Promotion promotion) {
    return {make_tensor_map(address,
                            {{.extent = static_cast<uint64_t>(k), .box = Slice::columns},
                             {.extent = static_cast<uint64_t>(size),
                              .stride = static_cast<uint64_t>(k) * sizeof(typename Config::Element),
                              .box = static_cast<uint32_t>(rows)}},
                            Slice::swizzle, OutOfBounds::zero, promotion)};
  }

  cudaLaunchConfig_t launch_config(int blocks) {
    attributes_[0].id = cudaLaunchAttributeClusterDimension;
    attributes_[0].val.clusterDim = {T::kBlocks, 1, 1};
    attributes_[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(T::kThreads);
    config.dynamicSmemBytes = sizeof(typename T::Shared);
    config.attrs = attributes_;
    config.numAttrs = dependent_launch_ ? 2 : 1;
    return config;
  }

  static constexpr int kMostPieces = 4;  // more would wait longer for each other than they save

  TwinProblem<Config> problem_;
  std::shared_ptr<harness::DeviceBuffer<unsigned char>> workspace_;  // copies of this launch must not run at once
  cudaLaunchAttribute attributes_[2];
  bool dependent_launch_;
  int blocks_ = 0;
};

}  // namespace stagecraft
