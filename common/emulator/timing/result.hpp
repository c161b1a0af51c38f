// What the model says about a launch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::timing {

/// What a warp's time goes to.
enum class Spent : uint8_t {
  running,  ///< its code alone
  crowded,  ///< other warps of the sub-partition issue, or use the pipe that it needs
  mbarrier,
  barrier,   ///< named barriers and barriers of the cluster
  loads,     ///< from memory or tensor memory
  products,  ///< wgmma that it waits for
  copies,    ///< groups of copies
  port,      ///< shared memory is busy with earlier accesses
  fence,
  grid,  ///< the launch before
  count
};
inline constexpr size_t kSpent = static_cast<size_t>(Spent::count);

/// The warps of one number, in all blocks together.
struct WarpTime {
  std::array<double, kSpent> cycles{};
  double all = 0;
};

struct Result {
  std::string not_modelled;  ///< why there is no time, and the rest means nothing; else empty
  double cycles = 0;         ///< from the launch to its end
  std::string extrapolated;  ///< from what, when not all was replayed: "1056 of 16384 blocks"; else empty
  bool incomplete = false;   ///< the other blocks did not run
  double megahertz = 0;      ///< in a burst of some milliseconds, after a rest
  double sustained_microseconds = 0, sustained_megahertz = 0;  ///< when such launches go on; 0: as in a burst
  double operations = 0;  ///< of the matrix products: two for each multiplication with its addition
  double bytes = 0;       ///< read from and written to global memory by the warps and the copy engines
  // Sums over the chip, in cycles of one multiprocessor, where nothing else is said.
  double tensor_busy = 0, shared_busy = 0, copy_in_busy = 0, copy_out_busy = 0, issue_busy = 0;
  double l2_busy = 0, paths_busy = 0, dram_busy = 0;  ///< cycles of the chip
  double l2_bytes = 0, dram_bytes = 0;
  uint32_t multiprocessors = 0;
  std::vector<WarpTime> warps;        ///< by number in the block
  std::map<uint32_t, double> stalls;  ///< cycles of all warps, by instruction

  double microseconds() const { return megahertz == 0 ? 0 : cycles / megahertz; }
  double tensor_share() const { return cycles == 0 ? 0 : tensor_busy / (cycles * multiprocessors); }
};

}  // namespace stagecraft::emulator::timing
