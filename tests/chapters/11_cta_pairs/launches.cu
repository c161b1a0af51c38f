// Starts the answer's two kernels.
#include <gemm.cuh>
#include <launch.cuh>
#include <pair.cuh>

#include "launches.hpp"

using namespace stagecraft;

namespace {

template <typename Cluster>
void launch_gemm_in(const Element* a, const Element* b, float* c, int m, int n, int k, int clusters,
                    unsigned slow_nanoseconds) {
  constexpr int kStages = 4, kAccumulators = 2;
  Problem<Cluster> problem = make_problem<Cluster>(a, b, c, m, n, k);
  problem.slow_nanoseconds = slow_nanoseconds;
  launch(gemm<Cluster, kStages, kAccumulators>, problem, kStages * (ATile::bytes + BTile<Cluster>::bytes), clusters);
}

}  // namespace

void launch_pair(const Element* a, const Element* b, float* c, int m, int n, int k, int pairs) {
  launch(multiply_by_pair, make_problem<Pair>(a, b, c, m, n, k), /*dynamic_bytes=*/0, pairs);
}

void launch_gemm(Shape shape, const Element* a, const Element* b, float* c, int m, int n, int k, int clusters,
                 unsigned slow_nanoseconds) {
  switch (shape) {
    case Shape::one_block: return launch_gemm_in<OneBlock>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::two_down: return launch_gemm_in<ClusterShape<2, 1>>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::two_across: return launch_gemm_in<ClusterShape<1, 2>>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::square: return launch_gemm_in<ClusterShape<2, 2>>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::pair: return launch_gemm_in<Pair>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::two_pairs: return launch_gemm_in<ClusterShape<2, 2, 2>>(a, b, c, m, n, k, clusters, slow_nanoseconds);
    case Shape::four_pairs: return launch_gemm_in<ClusterShape<4, 2, 2>>(a, b, c, m, n, k, clusters, slow_nanoseconds);
  }
}
