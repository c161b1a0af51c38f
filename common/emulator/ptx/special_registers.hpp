// The special registers of PTX (PTX ISA, "Special Registers"): which exist, and what each one means.
//
// A new one needs an enumerator of `Special` here, a row of the table in special_registers.cpp, and a case of the one
// function that gives values, `value_of` in scheduling/special_values.cpp (for one that changes while a warp runs: of
// `clock_reading` in instructions/clocks.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::ptx {

/// What a special register holds. Except for clocks it never changes while a warp lives, so that each one that a kernel
/// uses is a vector of the register file, filled in when the warp starts.
enum class Special : uint8_t {
  // Differ between the threads of a block, and are the same in all blocks.
  tid_x,
  tid_y,
  tid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  last_of_thread = lanemask_gt,

  // The same in all threads of a block.
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  nwarpid,
  smid,
  nsmid,
  gridid,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  dynamic_smem_size,
  total_smem_size,
  aggr_smem_size,
  reserved_smem_offset,
  reserved_scratch,
  workspace_high,  ///< the address of a cooperative grid's workspace, or 0
  workspace_low,
  shared_address,  ///< has no name in PTX: the address of a shared variable, rank << 24 | offset
  zero,

  // Change while a warp runs: `mov` reads them.
  clock,
  clock_high,
  clock64,
  globaltimer,
  globaltimer_low,
  globaltimer_high,

  none,  ///< PTX has the register, the emulator does not
};

constexpr bool is_of_thread(Special special) { return special <= Special::last_of_thread; }
constexpr bool is_clock(Special special) { return special >= Special::clock && special < Special::none; }

struct SpecialRegister {
  std::string_view name;  ///< without the percent sign, with the component: "tid.x"
  Special special;
  /// Whether its value says nothing about other clusters: how far they have come, or where they are. The default is the
  /// safe side: the clusters of a grid that reads such a register run on one thread.
  bool own_cluster_only = false;
  uint8_t bits = 32;  ///< its width
};

/// All that the parser accepts.
std::span<const SpecialRegister> special_registers();
/// Null when there is none of this name ("tid.x", "laneid").
const SpecialRegister* find_special_register(std::string_view name);

/// What may follow a name without component.
enum class SpecialForm : uint8_t {
  unknown,  ///< there is no such special register
  scalar,   ///< nothing: `%laneid`
  vector,   ///< a component or nothing: `%tid.x`, `%tid`
};
SpecialForm special_form(std::string_view stem);

/// All names without components, for suggestions.
const std::vector<std::string_view>& special_register_names();

}  // namespace stagecraft::emulator::ptx
