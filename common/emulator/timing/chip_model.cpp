#include "emulator/timing/chip_model.hpp"

#include <algorithm>
#include <array>

namespace stagecraft::emulator::timing {
namespace {

constexpr size_t index_of(InstructionClass kind) { return static_cast<size_t>(kind); }

/// What ptxas 13.0 makes of divisions for sm_90a, on the path of ordinary numbers: its instructions, the cycles of each
/// pipe; how long they take and how often they can start was measured (nvidia-h200-2026-11-23-divisions.jsonl),
/// except for reciprocal_double. All but the first and divide_full have a branch to a function for other numbers, which
/// ends straight code: a warp's next division then issues when the one before has ended (`issue, 1 warp`).
template <typename Set>
void set_divisions(const Set& set) {
  const auto several = [&](InstructionClass kind, double slots, double latency, double special, double alu, double fma,
                           double fp64) {
    const bool branches = kind != InstructionClass::divide && kind != InstructionClass::divide_signed &&
                          kind != InstructionClass::divide_full;
    set(kind, {.slots = slots,
               .pipe = Pipe::special,
               .interval = special,
               .latency = latency,
               .stall = branches ? latency - slots : 0,
               .alu = alu,
               .fma = fma,
               .fp64 = fp64});
  };
  several(InstructionClass::divide, 18, 75, 27.9, 8, 16, 0);
  several(InstructionClass::divide_signed, 24, 78, 30.8, 18, 18, 0);
  several(InstructionClass::divide_wide, 72, 305, 152, 28, 94, 0);
  several(InstructionClass::divide_wide_signed, 88, 322, 168, 48, 108, 0);
  several(InstructionClass::divide_float, 8, 57, 17.1, 2, 5, 0);
  several(InstructionClass::divide_full, 8, 23, 8.7, 4, 5, 0);
  several(InstructionClass::reciprocal_float, 9, 77, 20.5, 4, 3, 0);
  several(InstructionClass::root_float, 9, 55, 16.3, 2, 4, 0);
  several(InstructionClass::divide_double, 16, 126, 35.1, 4, 7, 16);
  several(InstructionClass::reciprocal_double, 11, 59, 8, 4, 0, 10);
  several(InstructionClass::root_double, 16, 93, 29.9, 2, 6, 16);
}

/// The functions that are called for other numbers, beyond what the above takes: nvidia-h200-2026-11-24-tiny-divisions,
/// `latency`, and `issue, 4 warps a sub-partition`, each without the two instructions beside the division. Those of
/// zeros: nvidia-h100-2026-11-25-zero-divisions, `latency`. Four warps do not fill the scheduler there, so how many
/// instructions they are comes from counters (unseen-kernels-ncu: fourier executes 40 more for each quotient of zeros),
/// for reciprocals and roots in proportion to their time.
void set_functions(ChipModel& chip) {
  const auto function = [&](InstructionClass kind, double slots, double cycles, double short_slots, double short_one) {
    InstructionCost& cost = chip.costs[index_of(kind)];
    cost.function_slots = slots;
    cost.function = cycles;
    cost.short_slots = short_slots;
    cost.short_function = short_one;
  };
  function(InstructionClass::divide_float, 177, 464, 40, 208);
  function(InstructionClass::reciprocal_float, 142, 160, 21, 83);
  function(InstructionClass::root_float, 42, 139, 11, 39);
}

/// Source of all but what is said otherwise: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, `issue, 4 warps a
/// sub-partition` and `latency`. PTX shows neither how ptxas shares additions between two pipes nor which instructions
/// it saves.
void set_instruction_costs(ChipModel& chip) {
  const auto set = [&](InstructionClass kind, InstructionCost cost) { chip.costs[index_of(kind)] = cost; };
  set(InstructionClass::free, {0, Pipe::issue, 0, 0});
  set(InstructionClass::add, {1, Pipe::issue, 1, 5});
  set(InstructionClass::add_wide, {2, Pipe::issue, 2, 4});
  set(InstructionClass::logic, {1, Pipe::alu, 2, 4});
  set(InstructionClass::multiply, {1, Pipe::fma, 2, 4});
  set(InstructionClass::multiply_wide, {2, Pipe::fma, 4, 8});
  set(InstructionClass::float32, {1, Pipe::fma, 1, 4});
  set(InstructionClass::float64, {1, Pipe::fp64, 2, 8});
  set(InstructionClass::half, {1, Pipe::fma, 1.6, 8});
  set(InstructionClass::special, {1, Pipe::special, 8, 17});
  set(InstructionClass::special_product, {.slots = 2, .pipe = Pipe::special, .interval = 8, .latency = 23, .fma = 1});
  set(InstructionClass::special_scaled,
      {.slots = 4, .pipe = Pipe::special, .interval = 8, .latency = 29, .alu = 2, .fma = 2});
  // nvidia-h200-2026-11-23-divisions.jsonl, `cvt.rni.s32.f32`, `cvt.rn.f32.s32`.
  set(InstructionClass::convert, {1, Pipe::special, 8, 17});
  set(InstructionClass::convert_to_float, {1, Pipe::alu, 2, 4});
  set(InstructionClass::convert_half, {1, Pipe::alu, 2, 4});
  set(InstructionClass::shuffle, {1, Pipe::memory, 4, 24});
  set(InstructionClass::vote, {1, Pipe::alu, 2, 13});
  set(InstructionClass::reduce, {1, Pipe::memory, 8, 44});
  // One unit of a multiprocessor, 62 cycles where all lanes differ: here each sub-partition has a quarter of it.
  set(InstructionClass::match, {1, Pipe::match, 252, 369});
  // `mma.sync m16n8k16 issue`, and nvidia-h200-2026-11-23-divisions, `mma.sync m16n8k8 bf16` and the others.
  set(InstructionClass::warp_matrix, {1, Pipe::matrix, 6, 24});
  set(InstructionClass::warp_matrix_short, {1, Pipe::matrix, 4, 17});
  set(InstructionClass::warp_matrix_quick, {1, Pipe::matrix, 6, 24});
  set(InstructionClass::warp_matrix_quick_short, {1, Pipe::matrix, 4, 17});
  // Not measured alone: a loop of the benchmarks takes about ten cycles a turn with its counter and comparison.
  set(InstructionClass::control, {1, Pipe::issue, 2, 6});
  set(InstructionClass::memory, {1, Pipe::memory, 4, 0});
  // Barriers are not on the way of loads and stores: other-kernels-ncu, `sm__inst_executed_pipe_lsu` of block_scan.
  set(InstructionClass::barrier, {1, Pipe::barrier, 4, 8});
  set(InstructionClass::fence, {1, Pipe::memory, 4, 9});
  set(InstructionClass::fewer_registers, {1, Pipe::issue, 1, 4, 59});  // `setmaxnreg.dec 24, at the same time`
  set(InstructionClass::more_registers, {1, Pipe::issue, 1, 4, 225});  // `setmaxnreg.inc 240, at the same time`
  set(InstructionClass::other, {1, Pipe::issue, 1, 4});
  set_divisions(set);
  set_functions(chip);
}

/// Sources: in tests/silicon/results, nvidia-h200-2026-11-22.jsonl and, where "contention" is said, the file that ends
/// in that; where "memory-load" is said, nvidia-h200-2026-11-23-memory-load.jsonl. GB/s are at the highest clock.
ChipModel make_h200() {
  const machine::Architecture& measured = machine::h200();
  const double gigahertz = measured.clock_khz / 1e6;
  ChipModel chip;
  chip.name = "H200";
  chip.multiprocessors = measured.multiprocessors;
  // joined-requests-counters, `together in clusters` and `multiprocessors 0 and ...`; the halves are those that
  // `correlation of L2 latencies by line` tells apart. Other H200 may lack other multiprocessors.
  chip.groups = {{0, {0, 8, 16, 24, 62, 63, 64, 65}}};
  for (uint32_t i = 1; i < 8; ++i)
    chip.groups.push_back({i == 1 || i == 2 || i == 6 ? 0u : 1u, {i, 8 + i, 16 + i, 24 + i}});
  for (uint32_t i = 1; i < 8; ++i)
    for (const uint32_t first : {31u, 38u, 45u, 52u}) chip.groups[i].pairs.push_back(first + i);
  chip.groups[6].pairs.push_back(60);
  chip.groups[7].pairs.push_back(61);
  chip.lone_pairs = {62, 63, 64, 65};
  // clock: `SM clock, bursts of 2 ms, 20 ms apart, normal data`, without copies and with 4 under way; 0.05 from
  // boxes-and-clocks.
  chip.burst_clock = {{0.0, 1980, 1979},  {0.05, 1914, 1914}, {0.12, 1819, 1813},  {0.33, 1783, 1779},
                      {0.54, 1788, 1779}, {0.79, 1780, 1708}, {0.875, 1764, 1659}, {1.0, 1698, 1599}};
  // clock: the same, `bursts of 2 ms without rest, 150 to 240 ms`; 0.05 from contention.
  chip.sustained_clock = {{0.0, 1980, 1980},  {0.05, 1890, 1899}, {0.12, 1809, 1817},  {0.33, 1788, 1789},
                          {0.54, 1800, 1602}, {0.79, 1688, 1481}, {0.875, 1658, 1435}, {1.0, 1603, 1363}};
  set_instruction_costs(chip);

  // `gap between kernels`: 1664 and 704 ns in stream order, 544 and 416 ns with programmatic dependent launch.
  chip.launch = 3295;
  chip.launch_in_graph = 1394;
  chip.launch_alone = 3210;  // empty-launches-ncu, `nothing` of 1 and of 132 blocks: 1632 ns, less its own time
  chip.overlapping = 1077;
  chip.overlapping_in_graph = 824;
  chip.next_block = 346;
  // nvidia-h100-2026-11-26-blocks, `mean time between starts of blocks of an SM`: 157 cycles on all, 82 where only
  // half get blocks. Those that a grid begins with are not as slow: placement, 1056 of them start within 128 ns.
  chip.block_rate = chip.multiprocessors / 157.;

  // branches: a turn of 2 to 16 FFMA takes a warp alone 28 cycles: 5 from the counter to the comparison, 4 of the
  // comparison, 9 until the branch issues, and 10 until what it goes to does; a turn of 32 FFMA, 9 more than it issues.
  chip.predicate_to_branch = 9;
  chip.branch_back = 9;
  // nvidia-h100-2026-11-25-zero-divisions, `ld.const of the word that it has read`: 37, less 9 of the two others.
  chip.constant_latency = 28;
  chip.special_latency = 16.5;  // `read of clock and xor`: 18.5 from one S2UR to the next, less 2 of the xor
  chip.parting = 15;            // `a lane leaves in each turn`: alone, and less what is issued, of 8 warps a scheduler
  chip.parting_slots = 4;
  chip.taken_branch = 5;  // the 10 above, less a branch's stall count

  chip.shared_latency = 23;
  chip.remote_latency = 190;

  chip.l1_latency = 33;
  chip.l2_latency = 281;
  chip.dram_latency = 659;
  chip.l1_bytes_capacity = 192 << 10;  // `load latency, L1, 192 KiB` is the first that is longer
  // rows-and-pages, `loaded, 201028 bytes apart, 1 SMs of 32 warps, in L2`: 373.5 cycles for 32 loads of 32 lines each.
  chip.l1_lines = 32 * 32 / 373.5;
  // everyday-ncu, `stream<float4, 0, 1>` of 24 to 128 MiB: DRAM gets 27.5 MB less than is written.
  chip.l2_written_most = 27.5e6;
  chip.l2_half_capacity = measured.l2_bytes / 2;  // `load latency, ring of 28 MiB` is the last that one half holds
  chip.l2_far_latency = 361;  // `load latency, ring of 48 MiB`: 510, of which half comes from there, and half from DRAM
  // distances: `load latency, L2, by SM`, the pairs of a group less the mean of all, in the mean of the groups.
  chip.l2_distance = {1.6, 4, 9.2, -3.5, -1, 3.5, -8.5, -6, 2.6};
  // That L2 does not slow down with the multiprocessors is an assumption; it was measured at the highest clock.
  // 14-steps-8192-ncu of chapter 15, one_warpgroup<4> at 4096: 2.91 GB in 321.5 us were 75.6% of `lts__throughput`.
  chip.l2_rate = 11970;
  // joined-requests: `two GPCs`, where the larger one is the limit, 16 multiprocessors with 39.5 bytes a cycle each;
  // and `each alone`, of 16 KiB, where those of 18 get 35.0.
  chip.group_rate = 632 * gigahertz;
  // joined-requests-counters: of pairs in a GPC with a skew of 50, 100 and 150 cycles, 80%, 3% and 0% are joined, also
  // while others load the path (`pairs of two TPCs of a GPC, the others load L2`: nothing is joined from 100 on).
  // Groups of 8 and 16, and all at once, read a quarter of what they ask for.
  chip.join_window = 70;
  // joined-requests: where two of a TPC fill the path, they share nearly all with a skew of 500 cycles and nothing with
  // 1000 (`groups of 2, a TPC`); those of two TPCs share nothing from 200 on (`groups of 2, first of each TPC`).
  chip.join_while_waits = 680;
  chip.join_most = 4;
  chip.l2_write_rate = 4640;  // `store rate, whole chip`
  chip.dram_rate = 4720;      // memory-load: `load latency under load, DRAM, 64 warps`, 512 bytes, rate: 18.07
  // memory-load: `loads from L2 of 4 bytes a lane, lanes 128 bytes apart, 132 SMs`: 46.8 cycles for 32 lines.
  chip.l2_line_rate = chip.multiprocessors * 32 / 46.8 * gigahertz;
  // memory-load: `load latency under load, DRAM`: 75, 147 and 273 cycles more than alone at 55, 76 and 88% of the rate,
  // as where requests for a bank that is busy for 95 cycles wait (S u / (2 - 2u)).
  chip.dram_bank = 48;
  // scattered: `loads of random sectors of 1024 MiB`: 43.5 of the 10^9 lines a second that the banks could begin with
  // are 37.5, so that 64 bytes take 0.86 of what a line does.
  chip.dram_open = 0.72;
  chip.dram_write_cost = 1.1;  // `DRAM write, 4096 MiB, 1056 blocks`: 4281
  // Between what `DRAM copy, 2048 MiB, 1056 blocks` and plain-kernels, `copy by float4 of 64 MiB, rate` say: 3824 and
  // 4092 GB/s, where half of each would give 4490.
  chip.dram_turns = 0.12;
  // nvidia-h200-2026-11-28-rows-and-pages, `4224 rows of 4096, a warp each, 1 loads at once`: 307 cycles more for each
  // load where what was read is written elsewhere. nvidia-h200-2026-11-29-blocks, of 32 MiB that are read: 278 and 350
  // more for each block where 32 MiB are written than where 4 MiB are, which stay in L2.
  chip.beside_stores = 307;
  // nvidia-h200-2026-11-29-fresh-pages-ncu: 2048 pages 2, 4 and 8 MiB apart take 6.1, 9.7 and 17.7 us, and 1024 pages
  // 16 MiB apart 15.3 us: as if a line of the tables had the entries of 16 pages.
  chip.page_walk = 1.3;
  chip.page_entries = 28;
  chip.page_walk_latency = 800;
  chip.load_bytes = 113;  // memory-load: `loads from L2 of 4 bytes a lane, lanes 32 bytes apart, 1 SM`
  // nvidia-h100-2026-11-26-random-accesses, in L2: 512 Ki additions at random take 7.1 us, those with a result 9.4, of
  // which the launch is 1.1.
  chip.atomic_sector_rate = 88;
  chip.atomic_return_rate = 63;
  // nvidia-h200-2026-11-23-boxes-and-clocks: `atom.global.add.u32 rate, one word for all threads` of this and of f32.
  chip.atomic_slices = 64;  // scattered: 4096 words 128 bytes apart, 87 to 92, over what one word gives
  chip.atomic_same_rate = 1.345;
  chip.atomic_same_float_rate = 0.5607;
  chip.shared_float_atomic = 91;       // `atom.shared.add.f32 latency`
  chip.shared_float_atomic_more = 95;  // the same, one word: 3036

  chip.copy_gap = 63;  // `tile of 64 rows, issue gap`: as much as for 1 row, and with 2 or 4 warps a half or a quarter
  chip.copy_start = 7.3;         // `tile of 4 rows of 128 bytes, gap, 16 warps`, `cp.async.bulk of 128 bytes`: 7.8
  chip.copy_latency_l2 = 305;    // `cp.async.bulk of 128 bytes, latency, L2`, `tile of 1 rows`
  chip.copy_latency_dram = 740;  // the same from DRAM
  // distances: `apart after 256 steps` less that after 64, over 192 steps: 25 to 50 cycles from the 10th to the 90th of
  // 100 multiprocessors, whatever they copy; which are ahead differs from launch to launch.
  chip.copy_drift = 25;
  chip.copy_bytes = 107;  // `tile of 256 rows, rate, one SM, L2`
  // boxes-and-clocks: `tile of 256 rows of 16 bytes, no swizzle, rate, one SM`: 257.5 cycles, as with 32 and 64 bytes.
  chip.copy_row = 1;
  chip.store_bytes = 32;
  chip.store_latency = 55;  // `store until wait_group.read`, 128 bytes, less their transfer
  chip.between_latency = 190;
  chip.between_bytes = 20;  // `cp.async.bulk of 65536 bytes to the partner's shared memory`
  chip.thread_copy_latency_l2 = 327;

  chip.poll = 42;             // `mbarrier.try_wait on a complete phase`
  chip.arrival = 59;          // `hand-over by mbarrier, try_wait`: 101, less the poll
  chip.remote_arrival = 104;  // `hand-over by remote mbarrier arrival, relaxed`: 146, less the poll
  chip.release_fence = 304;   // the same with release: 450
  chip.barrier_base = 12;
  chip.barrier_per_warp = 2;
  chip.cluster_barrier = 82;
  chip.cluster_launch = 400;  // Hopper has none

  chip.part_of_warp_product = 4. / 6;  // an m16n8k16 takes 6 cycles of a sub-partition, and as much by wgmma takes 4
  chip.product_latency = 79;           // `wgmma m64n256k16 bf16, A in shared memory, latency`: 207, less 128
  chip.product_latency_pair = 79;
  return chip;
}

/// Sources: SemiAnalysisAI/microbench-blackwell for tcgen05.mma (umma_latency/lat_results_full.csv,
/// umma_throughput/tput_results_full.csv), whether copies and products share a port (cutlass_gemm_mainloop/results.csv:
/// 128 x 128 x 64 from 7 stages on takes 405 cycles, and 512 would be needed at 128 bytes a cycle), the
/// rate of DRAM (compare_mem_throughput/ldgsts_tput.csv) and that of L2, for which no other figure was found
/// (tma2dmcast_throughput/tma2dmcast_sweep_results.csv: where 4 and 8 blocks of different clusters read the same tiles,
/// `lts_sectors_tex_read` over the time is 14.2 TB/s, with DRAM at 68 and 49% of its rate). Everything else is
/// Hopper's, because nothing was found.
ChipModel make_b200() {
  ChipModel chip = make_h200();
  chip.name = "B200";
  chip.multiprocessors = machine::b200().multiprocessors;
  // An assumption: eight groups as equal as can be.
  chip.groups.assign(8, {});
  for (uint32_t pair = 0; pair < chip.multiprocessors / 2; ++pair) {
    chip.groups[pair % 8].half = pair % 8 / 4;
    chip.groups[pair % 8].pairs.push_back(pair);
  }
  chip.lone_pairs.clear();
  // An assumption: about the clock at which NVIDIA's 2.25 PFLOP/s hold, which is 1856 MHz (4096
  // multiply-accumulates a cycle on each multiprocessor). Under load there is one figure, of attention: docs/timing.md.
  chip.burst_clock = chip.sustained_clock = {{0.0, 1850, 1850}, {1.0, 1850, 1850}};
  // An assumption: what else L2 does is as much faster as its reads.
  const double more = 14200. / chip.l2_rate;
  chip.group_rate *= more;
  chip.l2_rate *= more;
  chip.l2_write_rate *= more;
  chip.l2_line_rate *= more;
  chip.atomic_sector_rate *= more;
  chip.atomic_return_rate *= more;
  chip.atomic_slices = static_cast<uint32_t>(chip.atomic_slices * more);
  chip.l2_half_capacity = machine::b200().l2_bytes / 2;  // as on Hopper
  chip.beside_stores = 0;                                // not measured
  // compare_mem_latency/ldgsts_lat_results.csv, cp.async of one warp with 8 bytes a lane from DRAM: a median of 1171
  // cycles, where an H200 takes 765; and at least 376 of four warps, where an H200 takes 327 from L2.
  constexpr double more_of_l2 = 376 - 327, more_of_dram = 1171 - 765;
  chip.l2_latency += more_of_l2;
  chip.l2_far_latency += more_of_l2;
  chip.dram_latency += more_of_dram;
  chip.copy_latency_l2 += more_of_l2;
  chip.copy_latency_dram += more_of_dram;
  chip.thread_copy_latency_l2 += more_of_l2;
  chip.dram_rate = 6690;  // ldgsts_tput.csv, at most
  chip.products_read_through_port = false;
  chip.product_latency = 136;       // 264 cycles for N = 256
  chip.product_latency_pair = 165;  // 298 cycles for M = 256, N = 256
  // Nothing was found about tcgen05.ld: one column of 32 lanes a cycle is 128 bytes, what a warp's register file takes,
  // and the latency is that of a load from shared memory.
  chip.tensor_load_columns = 1;
  chip.tensor_load_latency = 29;
  return chip;
}

/// No such card was measured for this project. Sources: NVIDIA RTX Blackwell GPU Architecture, appendix A ("NVIDIA");
/// mmapeak, as gakaki/mmapeak_5090_5090d and main-horse.github.io/posts/5090-mm-perf print it for an RTX 5090
/// ("mmapeak"); gpu-flops-bench, the most that it reached ("flops-bench"); Chips and Cheese, "Blackwell: Nvidia's
/// Massive GPU", for an RTX PRO 6000, which has the same chip ("Chips and Cheese"). All else is Hopper's: an
/// assumption.
ChipModel make_rtx5090() {
  ChipModel chip = make_h200();
  const machine::Architecture& card = machine::rtx5090();
  chip.name = "RTX 5090";
  chip.multiprocessors = card.multiprocessors;
  // Chips and Cheese: 16 multiprocessors to a GPC. That the 170 are in eleven is NVIDIA's; how they share them is not
  // known.
  constexpr uint32_t kGroups = 11;
  chip.groups.assign(kGroups, {});
  for (uint32_t pair = 0; pair < chip.multiprocessors / 2; ++pair) chip.groups[pair % kGroups].pairs.push_back(pair);
  chip.lone_pairs.clear();
  // Idle tensor cores: flops-bench, 254 TFLOP/s of bf16 are the 512 operations a cycle of 170 multiprocessors at 2.92
  // GHz. With all of them busy on real data, and 400 W: the one figure that was chosen to fit a kernel (learn-cuda,
  // matmul_sm120 v2 at 8192 cubed, 201 TFLOP/s).
  chip.burst_clock = chip.sustained_clock = {{0.0, 2920, 2920}, {1.0, 2600, 2600}};
  const double gigahertz = 2.6, faster = gigahertz / (machine::h200().clock_khz / 1e6);
  // That it takes as many ns to start as an H200, and that what is behind L2 is as far, is assumed.
  for (double* const cycles :
       {&chip.launch, &chip.launch_in_graph, &chip.launch_alone, &chip.overlapping, &chip.overlapping_in_graph}) {
    *cycles *= faster;
  }
  chip.block_rate = chip.multiprocessors / 157.;

  // Cycles of a sub-partition. NVIDIA: 209.5 TFLOP/s of bf16 and of f16 with sums of 32 bits, 419 with sums of 16 bits,
  // 419 and 838 of fp8, 838 of int8, 104.8 of tf32, 1676 of fp4, at 2407 MHz. mmapeak: block-scaled fp8 is as fast as
  // fp8 with sums of 16 bits (737), and 6- and 4-bit floats without scales as fp8 with sums of 32 (370, for any sums).
  const auto matrix = [&](InstructionClass kind, double interval) {
    chip.costs[index_of(kind)] = {1, Pipe::matrix, interval, interval + 3};
  };
  chip.part_of_warp_product = 1;
  matrix(InstructionClass::warp_matrix, 32);
  matrix(InstructionClass::warp_matrix_short, 16);
  matrix(InstructionClass::warp_matrix_quick, 16);
  matrix(InstructionClass::warp_matrix_quick_short, 8);
  chip.costs[index_of(InstructionClass::float64)].interval = 64;  // NVIDIA: two lanes a multiprocessor

  chip.l1_bytes_capacity = 128 << 10;  // NVIDIA
  // Chips and Cheese: L2 answers in 130 ns and gives 8.7 TB/s; one part for all.
  const double l2_more = 130 * gigahertz - chip.l2_latency, behind_l2 = chip.dram_latency - chip.l2_latency;
  chip.l2_latency += l2_more;
  chip.l2_far_latency = chip.l2_latency;
  chip.l2_distance = {0};
  chip.l2_halves = 1;
  chip.l2_half_capacity = card.l2_bytes;
  chip.beside_stores = 0;  // not measured
  const double slower = 8700 / chip.l2_rate;
  chip.l2_rate *= slower;
  chip.l2_write_rate *= slower;
  chip.l2_line_rate *= slower;
  chip.atomic_sector_rate *= slower;
  chip.atomic_return_rate *= slower;
  chip.group_rate = chip.l2_rate / kGroups;
  const double dram_more = l2_more + behind_l2 * (faster - 1);
  chip.dram_latency += dram_more;
  chip.copy_latency_l2 += l2_more;
  chip.copy_latency_dram += dram_more;
  chip.thread_copy_latency_l2 += l2_more;
  // NVIDIA: 1792 GB/s, of which as much can be had as of an H200's 4800.
  chip.dram_rate *= 1792. / 4800;
  chip.dram_bank *= 4800. / 1792;
  return chip;
}

struct ModelledChip {
  const machine::Architecture& chip;
  ChipModel model;
};

const std::array<ModelledChip, 3>& modelled_chips() {
  static const std::array<ModelledChip, 3> chips{
      {{machine::h200(), make_h200()}, {machine::b200(), make_b200()}, {machine::rtx5090(), make_rtx5090()}}};
  return chips;
}

}  // namespace

const ChipModel* find_chip_model(std::string_view name) {
  for (const ModelledChip& each : modelled_chips()) {
    if (name == each.model.name) return &each.model;
  }
  return nullptr;
}

const ChipModel* find_chip_model(const machine::Architecture& architecture) {
  for (const ModelledChip& each : modelled_chips()) {
    if (architecture.target == each.chip.target) return &each.model;
  }
  return nullptr;
}

std::vector<std::string> chip_model_names() {
  std::vector<std::string> names;
  for (const ModelledChip& each : modelled_chips()) names.emplace_back(each.model.name);
  return names;
}

double clock_of(const ClockCurve& curve, double tensor_busy, double l2_busy) {
  const double weight = std::clamp(l2_busy, 0., 1.);
  const auto of_point = [&](const ClockPoint& point) {
    return point.megahertz + weight * (point.megahertz_with_reads - point.megahertz);
  };
  const double busy = std::clamp(tensor_busy, curve.front().tensor_busy, curve.back().tensor_busy);
  for (size_t i = 1; i < curve.size(); ++i) {
    const ClockPoint &left = curve[i - 1], &right = curve[i];
    if (busy > right.tensor_busy) continue;
    const double part = (busy - left.tensor_busy) / (right.tensor_busy - left.tensor_busy);
    return of_point(left) + part * (of_point(right) - of_point(left));
  }
  return of_point(curve.back());
}

}  // namespace stagecraft::emulator::timing
