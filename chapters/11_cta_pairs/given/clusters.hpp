// The kernel of this chapter for several clusters, as the host calls it.
#pragma once

#include <cuda_bf16.h>

namespace stagecraft {

/// The clusters that gemm_clusters runs: blocks alone (down, across: sharing B, sharing A), and pairs.
enum class ClusterKind { one_block, two_down, two_across, square, pair, two_pairs, four_pairs };

/// What a cluster does.
struct ClusterWork {
  int blocks, rows_of_c, columns_of_c;  ///< of the cluster, and of the tile of C that it computes at a time
  int loaded;                           ///< bytes that a block copies from global memory for a k-tile
  int held;                             ///< bytes of a k-tile in its shared memory, brought by any block
};

/// What such a cluster does.
ClusterWork work_of(ClusterKind kind);

/// Starts C = A * B transposed by one cluster. Parameters as for `make_problem`.
void launch_by_one_cluster(ClusterKind kind, const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int m, int n,
                           int k);

}  // namespace stagecraft
