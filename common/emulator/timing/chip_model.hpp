// The constants of the model, each with its source. All times are in cycles of the multiprocessor's clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/chip/architecture.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// Units of a sub-partition, which all its warps share.
enum class Pipe : uint8_t { issue, alu, fma, fp64, special, memory, barrier, matrix, match, count };
inline constexpr size_t kPipes = static_cast<size_t>(Pipe::count);

struct InstructionCost {
  double slots = 1;  ///< cycles of the scheduler
  Pipe pipe = Pipe::issue;
  double interval = 1;                         ///< cycles of the pipe
  double latency = 4;                          ///< until an instruction that needs the result can be issued
  double stall = 0;                            ///< cycles for which the warp issues nothing more
  double alu = 0, fma = 0, fp64 = 0;           ///< cycles of these pipes too, where it is several machine instructions
  double function_slots = 0, function = 0;     ///< machine instructions and cycles more where it calls a function
  double short_slots = 0, short_function = 0;  ///< the same where that returns soon

  double function_instructions(RunEnd end) const {
    return end == RunEnd::function ? function_slots : end == RunEnd::short_function ? short_slots : 0;
  }
  double function_cycles(RunEnd end) const {
    return end == RunEnd::function ? function : end == RunEnd::short_function ? short_function : 0;
  }
};

/// The clock while the tensor cores are busy for a part of the time.
struct ClockPoint {
  double tensor_busy, megahertz, megahertz_with_reads;  ///< the latter while L2 gives all it can
};
using ClockCurve = std::vector<ClockPoint>;  ///< by rising `tensor_busy`

/// A GPC: it has a path to L2 and shares reads of it.
struct MultiprocessorGroup {
  uint32_t half = 0;  ///< of L2 that is near
  /// Its pairs of multiprocessors (TPC): pair n is of 2n and 2n + 1. Their order is that of ChipModel::l2_distance.
  std::vector<uint32_t> pairs;
};

struct ChipModel {
  std::string_view name;  ///< "H200"
  uint32_t multiprocessors = 0;
  std::vector<MultiprocessorGroup> groups;
  std::vector<uint32_t> lone_pairs;  ///< they take no cluster of more than two blocks, and get blocks before others
  ClockCurve burst_clock;            ///< in the first milliseconds of such work, after a rest
  ClockCurve sustained_clock;        ///< when it goes on

  std::array<InstructionCost, static_cast<size_t>(InstructionClass::count)> costs{};

  // Starting.
  double launch = 0;           ///< from the end of the launch before it in a stream to the first instruction
  double launch_in_graph = 0;  ///< the same of the kernels of a graph
  double launch_alone = 0;     ///< what Nsight Compute counts beyond the kernel's own time
  double overlapping = 0;      ///< of a launch that may overlap with the one before: until griddepcontrol.wait passes
  double overlapping_in_graph = 0;
  double next_block = 0;  ///< from a block's end to the start of the next in its place
  double block_rate = 1;  ///< blocks that take the places of others, a cycle, of the whole chip

  // Shared memory.
  double shared_bytes = 128;               ///< a cycle
  double predicate_to_branch = 0;          ///< from a comparison's result to the branch that it guards
  double constant_latency = 0;             ///< of a load from constant memory
  double special_latency = 0;              ///< of a read of a special register
  double parting = 0, parting_slots = 0;   ///< cycles and instructions more of a branch at which lanes part
  double taken_branch = 0;                 ///< cycles that a branch takes beyond its stall count, where it is taken
  double branch_back = 0;                  ///< from a branch's issue to that of the instruction that it goes to
  double shared_latency = 0;               ///< of a load with one pass
  double remote_latency = 0;               ///< of a load from another block of the cluster
  bool products_read_through_port = true;  ///< whether copies wait for the operands that products read

  // Global memory.
  double l1_latency = 0, l2_latency = 0, dram_latency = 0;
  double l2_far_latency = 0;        ///< of what the other half of L2 has
  std::vector<double> l2_distance;  ///< cycles more for the first, second, ... pair of a group; the last for the rest
  double l1_bytes_capacity = 0, l2_half_capacity = 0;
  uint32_t l2_halves = 2;      ///< or 1, where L2 is equally far from all
  double l1_lines = 1;         ///< a cycle, of a load or store whose lanes are in different banks
  double l2_written_most = 0;  ///< bytes that were written and wait in L2; more go to DRAM, the oldest first
  double l2_rate = 0, l2_write_rate = 0, dram_rate = 0;  ///< GB/s of the whole chip, at any clock
  double group_rate = 0;                                 ///< GB/s that L2 gives to a group
  double join_window = 0;                                ///< cycles for which others of a group can join a request
  double join_while_waits = 0;   ///< cycles more, at most, for the other of its pair, while it waits for the path
  uint32_t join_most = 1;        ///< multiprocessors that share one
  double l2_line_rate = 0;       ///< 10^9 lines a second, however little of each is read
  double dram_bank = 0;          ///< ns for which a line keeps its bank of DRAM busy
  double dram_open = 0;          ///< the part of it that goes by before the first byte moves
  double dram_write_cost = 1;    ///< of a byte that is written, relative to one that is read
  double dram_turns = 0;         ///< by how much DRAM takes longer where it reads and writes as much
  double beside_stores = 0;      ///< cycles by which DRAM answers later where as many lines are stored as read
  double page_walk = 0;          ///< ns of the whole chip for the first access to a page
  double page_entries = 0;       ///< the same for the first access to one of 16 pages
  double page_walk_latency = 0;  ///< cycles by which that access is late
  double load_bytes = 0;         ///< a cycle, that one multiprocessor gets from L2
  /// 10^9 a second: sectors with atomic operations, of the whole chip; passes over a sector, of a slice.
  uint32_t atomic_slices = 1;
  double atomic_sector_rate = 0, atomic_return_rate = 0;  ///< without and with a result
  double atomic_same_rate = 0, atomic_same_float_rate = 0;
  double shared_float_atomic = 0;       ///< latency of a loop of compare and swap, which ptxas makes of it
  double shared_float_atomic_more = 0;  ///< for each lane that meets another at its word

  // The copy engine of a multiprocessor.
  double copy_gap = 0;         ///< cycles between two copies that a warp issues
  double copy_start = 0;       ///< cycles for which the engine is busy with any copy, however small
  double copy_latency_l2 = 0;  ///< of a small copy, until its gate is open
  double copy_latency_dram = 0;
  double copy_drift = 0;   ///< by which those of a block take longer or less long, at most: so equal blocks drift apart
  double copy_bytes = 0;   ///< a cycle, into shared memory
  double copy_row = 0;     ///< cycles for a line of which a tile has a row, however short
  double store_bytes = 0;  ///< a cycle, out of shared memory
  double store_latency = 0;                       ///< until the source of a small copy is read
  double between_latency = 0, between_bytes = 0;  ///< from shared memory to another block's
  double thread_copy_latency_l2 = 0;              ///< of cp.async

  // Barriers.
  double poll = 0;            ///< from the opening of an mbarrier's gate to the waiter's next instruction
  double arrival = 0;         ///< from an arrival to the opening of the gate
  double remote_arrival = 0;  ///< the same, in another block of the cluster
  double release_fence = 0;   ///< what a release to the cluster takes before it arrives, with no copy under way
  double barrier_base = 0, barrier_per_warp = 0;  ///< bar.sync
  double cluster_barrier = 0;
  double cluster_launch = 0;  ///< try_cancel, until its answer is there

  // The tensor core.
  double part_of_warp_product = 1;  ///< of its time for mma.sync, for which it is busy as with other products
  double product_latency = 0;       ///< in addition to the cycles of the first product, until its gate is open
  double product_latency_pair = 0;
  double tensor_load_columns = 1, tensor_load_latency = 0;  ///< tcgen05.ld: columns of 32 lanes a cycle

  bool is_lone(uint32_t pair) const {
    return std::find(lone_pairs.begin(), lone_pairs.end(), pair) != lone_pairs.end();
  }
};

/// The model of a chip, of one of `chip_model_names()`; null for another name.
const ChipModel* find_chip_model(std::string_view name);
/// That of an emulated chip; null where nothing was measured or published to make one from.
const ChipModel* find_chip_model(const machine::Architecture& architecture);
/// `"H200"` and the others.
std::vector<std::string> chip_model_names();

/// The clock in MHz under this load: parts of the time that the tensor cores and L2 are busy.
double clock_of(const ClockCurve& curve, double tensor_busy, double l2_busy);

}  // namespace stagecraft::emulator::timing
