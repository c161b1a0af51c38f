// Starts the answer's kernel, and its launch control on its own.
#include <launch_control.hpp>
#include <tile_order.cuh>

#include "launch.cuh"
#include "launches.hpp"

using namespace stagecraft;

namespace {

using Pair = ClusterShape<2, 1>;
constexpr int kResponses = 2;
constexpr uint32_t kTurnThreads = 4 * kWarpSize;

template <typename Tiles>
__global__ void __launch_bounds__(kTurnThreads) take_turns(const __grid_constant__ Tiles tiles, uint32_t rows,
                                                           uint32_t columns, uint32_t* taken, uint32_t* started) {
  using Scheduler = LaunchControlScheduler<Tiles, kResponses>;
  __shared__ typename Scheduler::Storage scheduling;
  Scheduler scheduler{scheduling, tiles};
  if (threadIdx.x == 0) {
    Scheduler::init_barriers(scheduling, /*readers=*/2 + kWarpSize);
    fence_barrier_init();
    if (block_rank() == 0) atomicAdd(started, 1);
  }
  sync_cluster();
  const uint32_t role = warp_index();
  const bool elected = elect_one();
  const auto take = [&] {
    for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
      if (role == 0) turn.permit_request();
      const Work work = turn.work();
      if (work.row < static_cast<int>(rows) && work.column < static_cast<int>(columns)) {
        atomicAdd(&taken[(role * rows + work.row) * columns + work.column], 1);
      }
      if (role == 2) __nanosleep(500 * (1 + blockIdx.x % 4));  // stores take longer, and not equally long
    }
  };
  if (role == 3) {
    if (elected) scheduler.run();
  } else if (role == 2 || elected) {
    take();
  }
}

template <typename Tiles>
void take_all(uint32_t rows, uint32_t columns, uint32_t* taken, uint32_t* started) {
  const Tiles tiles{{.rows = rows, .columns = columns, .k_tiles = 1}};
  using Cluster = typename Tiles::Cluster;
  harness::check(launch_kernel(take_turns<Tiles>,
                               {.grid = LaunchControlScheduler<Tiles, kResponses>::grid(tiles),
                                .block = kTurnThreads,
                                .cluster = {Cluster::rows, Cluster::columns, 1},
                                .dynamic_shared_bytes = 150 * 1024},  // so that a multiprocessor has one block
                               tiles, rows, columns, taken, started),
                 "launch take_turns");
}

template <typename Cluster>
void multiply(Schedule schedule, const Problem& problem, uint32_t clusters) {
  using Tiles = WholeTiles<Cluster>;
  const Tiles tiles{problem.tiles(), {.order = RasterOrder::along_m, .width = 2}};
  if (schedule == Schedule::fixed) {
    launch_gemm<StaticScheduler<Tiles>>(problem, tiles, clusters);
  } else {
    launch_gemm<LaunchControlScheduler<Tiles, kAccumulators + 1>>(problem, tiles, clusters);
  }
}

}  // namespace

TilePosition answer_in_panels(uint32_t number, uint32_t rows, uint32_t columns, uint32_t width) {
  return in_panels(number, rows, columns, width);
}

void launch_take_turns(Grouping grouping, uint32_t rows, uint32_t columns, uint32_t* taken, uint32_t* started) {
  if (grouping == Grouping::blocks) return take_all<WholeTiles<>>(rows, columns, taken, started);
  take_all<WholeTiles<Pair>>(rows, columns, taken, started);
}

void launch_answer(Schedule schedule, Grouping grouping, const __nv_bfloat16* a, const __nv_bfloat16* b, float* c,
                   int m, int n, int k, uint32_t clusters) {
  const Problem problem = make_problem(a, b, c, m, n, k);
  if (grouping == Grouping::blocks) return multiply<OneBlock>(schedule, problem, clusters);
  multiply<Pair>(schedule, problem, clusters);
}
