#include "emulator/machine/instruction_set.hpp"

#include "emulator/engines/cluster_launch/cluster_launch.hpp"
#include "emulator/engines/copies/bulk_operations.hpp"
#include "emulator/engines/copies/store_async.hpp"
#include "emulator/engines/mbarrier/mbarrier_instructions.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05.hpp"
#include "emulator/engines/tensor_core/warp_mma/mma_sync.hpp"
#include "emulator/engines/tensor_core/wgmma/wgmma.hpp"
#include "emulator/instructions/alu/arithmetic.hpp"
#include "emulator/instructions/families.hpp"

namespace stagecraft::emulator::machine {
namespace {

//! [families]
InstructionSet all_instructions() {
  InstructionSet set;
  add_control_flow(set);          // bra, brx, call, ret, exit, trap, brkpt, pmevent
  add_warp_operations(set);       // shfl, vote, match, redux, elect, activemask
  add_block_barriers(set);        // bar, barrier (of a block, a cluster, a warp)
  add_fences(set);                // fence, membar
  add_warp_control(set);          // nanosleep, griddepcontrol, setmaxnreg
  add_moves(set);                 // mov, special registers among them
  add_address_conversions(set);   // cvta, isspacep, mapa, getctarank
  add_arithmetic(set);            // integer, float, half, comparisons, conversions, bits
  add_memory_accesses(set);       // ld, ldu, st
  add_atomics(set);               // atom, red
  add_matrix_transfers(set);      // ldmatrix, stmatrix, movmatrix
  add_cache_operations(set);      // prefetch, prefetchu, applypriority, discard, createpolicy
  add_texture_instructions(set);  // tex, suld, sust
  add_mbarrier_operations(set);   // mbarrier.*
  add_bulk_copies(set);           // cp.async, cp.async.bulk*, cp.reduce.async.bulk*, tensormap
  add_asynchronous_stores(set);   // st.async, red.async, st.bulk
  add_mma_sync(set);              // mma.sync
  add_wmma(set);                  // wmma
  add_wgmma(set);                 // wgmma.*
  add_tcgen05_operations(set);    // tcgen05.*
  add_cluster_launch(set);        // clusterlaunchcontrol
  return set;
}
//! [families]

}  // namespace

const InstructionSet& instruction_set() {
  static const InstructionSet set = all_instructions();
  return set;
}

}  // namespace stagecraft::emulator::machine
