// What runs: a grid of clusters of blocks of warps, whose diverged lanes are fragments.
//
//     Grid  one launch                      Sm     what resident blocks share: tensor memory
//       Cluster  blocks that start together, with one virtual clock and one queue of coming events
//         Block    shared memory, barriers; on one Sm
//           Warp     a register file
//             Fragment  lanes that execute together: a mask and a program counter
//
// One host thread runs a grid, or a part of one that runs independently (scheduling/grid_parts.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/host/aligned_bytes.hpp"
#include "emulator/state/bulk_copy_groups.hpp"
#include "emulator/state/cp_async_copies.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/event_queue.hpp"
#include "emulator/state/fault.hpp"
#include "emulator/state/kernel.hpp"
#include "emulator/state/lanes.hpp"
#include "emulator/state/mbarrier_table.hpp"
#include "emulator/state/observer.hpp"
#include "emulator/state/register_pool.hpp"
#include "emulator/state/residency.hpp"
#include "emulator/state/tcgen05_pair_calls.hpp"
#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::machine {
class Choices;
struct Warpgroup;
}  // namespace stagecraft::emulator::machine

namespace stagecraft::emulator::machine {

struct Extent3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Extent3&) const = default;
};

struct Block;
struct Cluster;
struct Grid;
struct Warp;

/// Why a fragment sleeps. Reports read `address` and `value` of the wait for details.
enum class WaitKind : uint8_t {
  none,
  mbarrier,       ///< address: shared address of the barrier (with rank); value: parity (or phase) waited for
  named_barrier,  ///< address: barrier number
  warp_sync,      ///< value: the lanes that must come, as a mask
  cluster_barrier,
  tensor_memory,  ///< value: columns asked for
  block_pair,     ///< for a warp of the peer block; value: the Tcgen05PairInstruction that it must reach
  bulk_group,     ///< value: groups that may stay pending
  grid_dependency,
  sleep,          ///< nanosleep; has a time limit
  registers,      ///< setmaxnreg.inc; value: registers per thread asked for
  warpgroup_mma,  ///< address 0: wait_group, value: groups that may stay pending; 1: an access to an accumulator
};

struct Wait {
  WaitKind kind = WaitKind::none;
  uint32_t address = 0;
  uint64_t value = 0;
};

enum class FragmentState : uint8_t { ready, blocked, exited };

/// Successive readings of a clock by a fragment that waits for it in a loop (instructions/clocks.cpp).
struct ClockPoll {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t pc = kNone;
  uint64_t began = 0, last = 0;  ///< times of the first and of the last reading
};

struct CallTarget;

/// A call that has not returned.
struct ReturnPoint {
  uint32_t call_pc = 0;
  const CallTarget* callee = nullptr;
  uint32_t local_frame = 0, local_top = 0;              ///< of the caller
  std::shared_ptr<const std::vector<std::byte>> saved;  ///< the callee's registers before, if the call is recursive
  bool operator==(const ReturnPoint&) const = default;
};

/// Lanes of one warp that execute together. Handlers reach all other state from here.
struct Fragment {
  std::byte* registers = nullptr;  ///< the warp's register file
  Warp* warp = nullptr;
  uint32_t pc = 0;  ///< of the instruction being executed; a handler that returns `jump` sets it
  LaneMask mask = 0;
  FragmentState state = FragmentState::ready;
  Wait wait;
  /// Is set when a sleep in a poll (mbarrier.try_wait) ended at its time limit, before the event that it waits for. The
  /// handler then returns "not yet" instead of sleeping again, and clears it.
  bool timed_out = false;
  bool limited = false;  ///< this sleep has a time limit: it is in the cluster's TimeLimits
  /// The pc of a poll (test_wait, try_wait) that failed, while nothing has been done since that others could see; a
  /// second such poll sleeps without a limit. Every instruction with an effect that others can see sets it to kEffect.
  uint32_t idle_poll_pc = kNoPoll;
  static constexpr uint32_t kEffect = 0xffffffffu, kNoPoll = 0xfffffffeu;
  uint64_t* effects = nullptr;  ///< the grid's count of effects
  ClockPoll clock_poll;
  std::vector<ReturnPoint> return_stack;
  uint32_t local_frame = 0;   ///< offset of the running recursive function's local variables from their static base
  uint32_t local_top = 0;     ///< end of the recursive frames: bytes of the stack that are in use
  bool held_back = false;     ///< has had its turn; the warp's other fragments go first
  bool stands_aside = false;  ///< is held back by Choices, and does not meet the others before they end or wait
  uint32_t turn_used = 0;     ///< instructions of its turn, while there were other fragments
  uint64_t last_run = 0;      ///< `Warp::runs` when it ran last
  uint64_t sequence = 0;      ///< creation order, which breaks ties

  Block& block() const;
  Cluster& cluster() const;
  Grid& grid() const;
};

struct Warp {
  Block* block = nullptr;
  Grid* grid = nullptr;            ///< of the block's cluster; a copy, because instructions often need it
  uint32_t index = 0;              ///< warp number in its block
  LaneMask live = 0;               ///< lanes that exist and have not exited
  std::byte* registers = nullptr;  ///< kernel.register_bytes bytes, 64-byte aligned
  std::byte* local = nullptr;      ///< 32 x local_stride bytes: lane l's local memory begins at l * local_stride
  uint32_t local_stride = 0;
  std::vector<std::unique_ptr<Fragment>> fragments;  ///< live ones
  uint64_t runs = 0;                                 ///< how often one of them was chosen to run
  Cycle clock = 0;                                   ///< virtual time this warp has reached
  Cycle lag = 0;              ///< its turn comes as if its clock were so much later; set by Choices
  uint32_t choices_made = 0;  ///< how often Choices was asked about it

  /// When its turn comes.
  Cycle turn() const { return clock + lag; }
};

/// One of the 16 barriers of a block that wait for a number of threads (bar.sync, barrier.cta).
struct NamedBarrier {
  uint32_t expected = 0;  ///< threads; 0 while no thread waits
  uint32_t arrived = 0;
  uint64_t generation = 0;
  std::vector<Fragment*> waiting;
  uint32_t reduction = 0;  ///< of bar.red: threads whose predicate held
  uint32_t reduced = 0;    ///< threads that took part in the reduction
};

/// One streaming multiprocessor: what its resident blocks share.
struct Sm {
  uint32_t index = 0;
  Cycle clock_at_start = 0;  ///< %clock when virtual time begins; each multiprocessor has a clock of its own
  BlockResources in_use;
  std::unique_ptr<TensorMemory> tensor_memory;  ///< null where the chip has none
  std::vector<Fragment*> waiting_for_tensor_memory;
  Cycle free_at = 0;
};

struct Block {
  Cluster* cluster = nullptr;
  Sm* sm = nullptr;
  Extent3 index{0, 0, 0};  ///< %ctaid
  uint32_t rank = 0;       ///< %cluster_ctarank
  AlignedBytes shared;     ///< indexed by the offset of a shared address, including the reserved first KiB
  std::vector<Warp> warps;
  std::byte* register_files = nullptr;  ///< one per warp, kernel.register_bytes apart
  std::byte* local_memory = nullptr;
  std::vector<uint64_t> cluster_rounds;  ///< by thread: the round of barrier.cluster it has arrived in, plus 1
  std::array<NamedBarrier, 16> named_barriers;
  MbarrierTable mbarriers;            ///< live barriers of this block's shared memory, by offset
  BulkCopyGroups bulk_groups;         ///< groups of cp.async.bulk, per thread
  std::vector<CpAsyncCopies> copies;  ///< cp.async of each warp; empty before the first
  Tcgen05PairCalls pair_calls;        ///< its warps that wait for a warp of the peer block
  RegisterPool register_pool;         ///< what setmaxnreg moves between its warps
  uint32_t live_warps = 0;
  bool exited = false;
  bool has_seen_no_cluster_left = false;  ///< a clusterlaunchcontrol response said that nothing was cancelled
  std::vector<std::shared_ptr<Warpgroup>> warpgroups;  ///< by warp number / 4; null before its first wgmma

  uint32_t shared_base() const { return rank << kSharedRankShift; }
};

struct Cluster {
  Grid* grid = nullptr;
  Extent3 first_block{0, 0, 0};                ///< %ctaid of its block of rank 0
  Extent3 shape;                               ///< %cluster_nctaid
  std::vector<std::unique_ptr<Block>> blocks;  ///< by rank
  Cycle now = 0;                               ///< time of the warp or event that is being executed
  EventQueue events;
  TimeLimits time_limits;
  uint64_t next_sequence = 0;
  Origin origin;  ///< of the event that is being executed; for an instruction there is `running`
  Fragment* running = nullptr;
  uint32_t live_blocks = 0;
  bool stuck = false;  ///< nothing can go on until another cluster frees tensor memory
  /// `Grid::effects` when the cluster was found to repeat itself (endless_loop.hpp), plus 1.
  uint64_t repeats_since = 0;
  uint32_t barrier_arrived = 0;  ///< threads arrived at barrier.cluster in this round
  uint64_t barrier_generation = 0;
  std::vector<Fragment*> waiting_for_barrier;
  Choices* choices = nullptr;                            ///< null for the default schedule
  Cycle next_turn = 0;                                   ///< when it goes on, with the lag of the warp that is next
  std::unordered_map<const void*, Cycle> last_in_order;  ///< with choices: time of the last event of each order

  /// Runs `action` when the cluster's clock reaches now + delay, or when Choices says. It is for asynchronous engines:
  /// `action` may write memory, complete barriers and wake fragments, and may throw Fault.
  /// @param in_order  names a sequence, such as the operations of one pipe, whose actions PTX orders; null: none.
  void schedule(Cycle delay, std::function<void()> action, const void* in_order = nullptr);
  /// Returns the block that the rank bits of a shared address name, or null when the cluster has no such block.
  Block* block_of(uint32_t shared_address) const;
};

/// Which regions of a grid start as preferred clusters, where a launch asks for them. CUDA leaves it to the device:
/// "best effort".
enum class PreferredClusters : uint8_t {
  some,  ///< about half of them, chosen by the seed and the region's number
  all,
  none,
};

/// One launch, as the runtime asks for it.
struct LaunchRequest {
  const Kernel* kernel = nullptr;
  Extent3 grid, block, cluster;
  Extent3 preferred_cluster{0, 0, 0};  ///< a multiple of `cluster`; all zeros: there is none
  PreferredClusters preferred_clusters = PreferredClusters::some;  ///< where they are used
  bool explicit_cluster = false;
  bool cooperative = false;  ///< its blocks may wait for each other, in a workspace of the grid
  uint32_t dynamic_shared_bytes = 0;
  uint32_t stack_bytes = 1024;        ///< of each thread, for its calls of functions that recurse (cudaLimitStackSize)
  std::vector<std::byte> parameters;  ///< kernel->parameter_bytes bytes
  uint64_t seed = 0;
  uint64_t grid_id = 0;        ///< %gridid; 0: the number of the launch
  Choices* choices = nullptr;  ///< asked for another schedule; null: the default one

  /// The largest cluster that may start. The grid is divided into regions of this shape, which start in the order of
  /// their numbers; each is one cluster, or several of the shape `cluster`.
  const Extent3& region() const { return preferred_cluster.count() != 0 ? preferred_cluster : cluster; }
};

/// A number that the seed decides, a different one for each `number`. Seed 0 draws nothing: who asks leaves everything
/// as it is by default then.
uint64_t draw(uint64_t seed, uint64_t number);

/// Where a cluster is in its grid.
struct ClusterPlace {
  Extent3 first_block;  ///< %ctaid of its block of rank 0
  Extent3 shape;
};

/// What is the same in all parts of a grid.
struct GridConstants {
  const LaunchRequest* request = nullptr;
  const Kernel* kernel = nullptr;
  const Architecture* architecture = nullptr;
  const Latencies* latencies = nullptr;
  DeviceMemory* memory = nullptr;
  uint64_t parameters_address = 0;  ///< generic address of the parameter buffer (read-only device memory)
  uint64_t workspace_address = 0;   ///< of a cooperative launch: the counters of grid.sync() (cooperative_groups.h)
  uint64_t id = 0;                  ///< %gridid
  std::function<void(std::string_view)> print{};  ///< device printf
};

struct Grid : GridConstants {
  std::vector<Observer*> observers;
  std::vector<Observer*> memory_observers;       ///< those that observe memory events
  std::vector<Observer*> instruction_observers;  ///< those that observe each instruction
  uint64_t operations = 0;                       ///< asynchronous operations announced to them
  std::list<StoreUnderWay> stores_under_way;     ///< in the order of issue, while memory is observed
  std::vector<Sm> sms;
  std::vector<std::unique_ptr<Cluster>> resident;
  uint64_t effects = 0;      ///< actions that others can see; does not grow while all only wait and compute
  uint64_t next_region = 0;  ///< number of the next region of which nothing has started, in launch order
  uint64_t region_step = 1;  ///< from one region to the next: more than 1 in a part of a grid (grid_parts.hpp)
  uint64_t region_count = 0;
  std::deque<Extent3> left_of_region;   ///< first blocks of the regular clusters left of a region that was divided
  std::function<bool(uint64_t)> needs;  ///< see Division; empty: all clusters run

  /// Whether a cluster is still to start.
  bool has_next_cluster() const { return !left_of_region.empty() || next_region < region_count; }
};

/// Returns the position of item `number` in a grid of this size, x fastest.
Extent3 position(uint64_t number, const Extent3& size);
/// Returns the shape of the next cluster to start. There must be one.
Extent3 shape_of_next_cluster(const Grid& grid);
/// Removes all clusters that are still to start if the next of them need not run.
void leave_out_what_is_not_needed(Grid& grid);
/// Removes the next cluster from those that are still to start: the caller starts it. There must be one.
ClusterPlace take_next_cluster(Grid& grid);
/// Removes a cluster of this shape, the grid's regular or preferred one, from those that are still to start: the caller
/// cancels its launch.
/// @return %ctaid of its block of rank 0; nullopt when there is none of the shape.
std::optional<Extent3> take_cluster_of_shape(Grid& grid, const Extent3& shape);
/// Returns the virtual time of what is executed in the cluster now.
Cycle time_of(const Cluster& cluster);

inline Block& Fragment::block() const { return *warp->block; }
inline Cluster& Fragment::cluster() const { return *warp->block->cluster; }
inline Grid& Fragment::grid() const { return *warp->grid; }
/// Returns the number of a lane's thread in its block.
inline uint32_t thread_of(const Fragment& fragment, uint32_t lane) { return fragment.warp->index * kWarpSize + lane; }

/// The state space of a generic address, and the address there.
struct Located {
  enum class Where : uint8_t { global, shared, local } where;
  uint64_t address;  ///< global: unchanged; shared: the 32-bit shared address; local: the offset
};
inline Located locate(uint64_t generic) {
  if (generic - kSharedWindow < kWindowBytes) return {Located::Where::shared, generic - kSharedWindow};
  if (generic - kLocalWindow < kWindowBytes) return {Located::Where::local, generic - kLocalWindow};
  return {Located::Where::global, generic};
}

}  // namespace stagecraft::emulator::machine
