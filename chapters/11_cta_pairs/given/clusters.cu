// Launches the kernel for each of the clusters.
#include "clusters.hpp"
#include "gemm.cuh"
#include "launch.cuh"

namespace stagecraft {
namespace {

constexpr int kStages = 4;
constexpr int kAccumulators = 2;

/// Calls `use` with a value of the ClusterShape.
template <typename Use>
auto with_shape(ClusterKind kind, Use use) {
  switch (kind) {
    case ClusterKind::two_down: return use(ClusterShape<2, 1>{});
    case ClusterKind::two_across: return use(ClusterShape<1, 2>{});
    case ClusterKind::square: return use(ClusterShape<2, 2>{});
    case ClusterKind::pair: return use(ClusterShape<2, 1, 2>{});
    case ClusterKind::two_pairs: return use(ClusterShape<2, 2, 2>{});
    case ClusterKind::four_pairs: return use(ClusterShape<4, 2, 2>{});
    default: return use(OneBlock{});
  }
}

}  // namespace

ClusterWork work_of(ClusterKind kind) {
  return with_shape(kind, []<typename Cluster>(Cluster) -> ClusterWork {
    return {.blocks = Cluster::blocks,
            .rows_of_c = Cluster::rows * kTileM,
            .columns_of_c = Cluster::columns * kTileN<Cluster>,
            .loaded = ATile::bytes / Cluster::blocks_sharing_a + BTile<Cluster>::bytes / Cluster::blocks_sharing_b,
            .held = ATile::bytes + BTile<Cluster>::bytes};
  });
}

void launch_by_one_cluster(ClusterKind kind, const Element* a, const Element* b, float* c, int m, int n, int k) {
  with_shape(kind, [&]<typename Cluster>(Cluster) {
    launch(gemm<Cluster, kStages, kAccumulators>, make_problem<Cluster>(a, b, c, m, n, k),
           kStages * (ATile::bytes + BTile<Cluster>::bytes), /*clusters=*/1);
  });
}

}  // namespace stagecraft
