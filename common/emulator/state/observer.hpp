// Typed events of a run. The machine announces them; checks and traces observe. A run without observers announces none.
//
// Events are named for what has happened: a subject and a past participle. Observers see the state of the machine, and
// do not change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

struct Block;
struct Cluster;
struct Fragment;
struct Grid;
struct BarrierMisuse;
struct Fault;
struct StoreUnderWay;

/// Where something happened, ready to be printed.
struct Place {
  std::string kernel;       ///< demangled, without parameters
  std::string source_file;  ///< file of the kernel's first line; empty when unknown
  bool has_block = false;
  uint32_t block_x = 0, block_y = 0, block_z = 0;
  bool has_warp = false;
  uint32_t warp = 0;
  LaneMask lanes = 0;
  std::string source;       ///< "gemm.cu:88"; empty when unknown
  std::string instruction;  ///< "st.global.f32"
  /// The calls that were inlined, from the kernel inwards: "gemm.cu:104", "ring.hpp:57", "mbarrier.hpp:53". Empty where
  /// `source` says as much.
  std::vector<std::string> calls{};
};

/// A report about a program, for people and for tools.
struct Diagnostic {
  std::string kind;     ///< "deadlock", "illegal address", "tensor memory leak", ...
  std::string message;  ///< one line: what happened
  Place place;
  std::vector<std::string> details;  ///< what is legal, what was found nearby
  std::string likely_cause;          ///< empty when it is not known
  std::string tolerated{};           ///< what is known to work on the chip in spite of it; mostly empty
  /// What makes a finding the same as another one: its kind and lines. Empty for what stops a kernel.
  std::string identity{};
  /// The variable in shared memory that it is about ("full", without an index), or "tensor memory"; often empty.
  std::string subject{};
  /// The two warps of the cluster that a race or a missing fence is between, the lower number first; one of them twice,
  /// where it did not wait for its own operation. Empty for other reports.
  std::vector<uint32_t> between{};
  std::vector<Diagnostic> consequences{};  ///< what else was found, and follows from this (scheduling/findings.hpp)
};

/// Something found about a kernel that did not stop it.
struct Finding {
  Diagnostic diagnostic;  ///< findings with one identity, in this cluster or others, are reported once
  uint64_t at = 0;        ///< virtual time
  struct Detail {
    uint64_t at;
    std::string text;
  };
  std::vector<Detail> later;  ///< details that were found out after it
};

/// Most findings of one launch that are reported; a user with so many to fix starts with the first.
inline constexpr size_t kMostFindings = 32;

/// What one place of a kernel has written in shared or tensor memory. That nothing has read it is no mistake as such,
/// but may explain wrong numbers.
struct WrittenResult {
  std::string identity;  ///< what makes it the same place in another part of the grid
  std::string what;      ///< "what the cp.async.bulk at ring.cu:41 brings to tile+0x800 in shared memory"
  bool was_read = false;
};

/// What happens to an mbarrier.
enum class BarrierEventKind : uint8_t {
  init,
  reinitialise,  ///< a live barrier at rest is about to be initialised again; `init` follows
  invalidate,
  arrive,
  expect_tx,
  complete_tx,
  phase_complete,
  wait
};

/// What an arrival or a wait of threads orders. Without an ordering and a scope in its instruction: memory, for the
/// block.
struct BarrierSemantics {
  bool relaxed = false;     ///< it orders no memory
  bool of_cluster = false;  ///< its scope is .cluster, not .cta
};

struct BarrierEvent {
  BarrierEventKind kind;
  const Block* block;        ///< the block that holds the barrier
  uint32_t offset;           ///< offset of the barrier in the block's shared memory
  uint64_t phase;            ///< phases completed before the event
  uint32_t amount;           ///< arrivals or bytes
  const Fragment* fragment;  ///< the threads that did it; null for an asynchronous engine
  LaneMask lanes;
  BarrierSemantics semantics{};
  uint64_t operation = 0;  ///< for an asynchronous engine: the number of its AsyncOperation
};

/// How an access orders others (.sem); `weak` for the plain ones.
enum class AccessOrder : uint8_t { weak, relaxed, acquire, release, acquire_release };
enum class AccessKind : uint8_t { read, write, update };

/// Which threads a strong access or a fence concerns: those of the own block, the own cluster, the device, all.
enum class MemoryScope : uint8_t { block, cluster, device, system };

/// An access of shared memory by an instruction, or a strong one (volatile, relaxed, atomic, ...) of global memory.
/// Weak ones of global memory are announced only where they were asked for (Kernel::announces_global).
struct MemoryAccess {
  const Fragment* fragment;
  uint32_t pc;     ///< the instruction
  LaneMask lanes;  ///< each accesses `bytes` bytes at its address
  AccessKind kind;
  AccessOrder order;
  uint32_t bytes;
  const uint32_t* shared;  ///< shared addresses with rank, by lane; null for an access of global memory
  const uint64_t* global;  ///< global addresses, by lane; null for an access of shared memory
  /// For weak writes of lanes that overlap: what each lane wrote, 32 bytes per lane. Null when none overlap.
  const std::byte* values;
  /// For weak writes by a load or store: what was there before, `bytes` bytes per lane. Null where that is not known.
  const std::byte* before = nullptr;
  MemoryScope scope = MemoryScope::system;  ///< of a strong access
};
/// Most bytes that a lane accesses at once.
inline constexpr uint32_t kAccessBytes = 32;

struct SharedRange {
  uint32_t address = 0;  ///< with rank
  uint32_t bytes = 0;
};

/// How the rows of a tile are swizzled in shared memory: as it was written, or as it is read.
enum class SharedLayout : uint8_t {
  unknown,
  linear,
  swizzle_32,
  swizzle_64,
  swizzle_128,
  swizzle_128_atom_32,
  swizzle_128_atom_32_flip_8,
  swizzle_128_atom_64,
};

/// A matrix in shared memory as a descriptor describes it.
struct MatrixRead {
  const char* name = "";  ///< "A"
  SharedLayout layout = SharedLayout::unknown;
  uint32_t start = 0;        ///< the descriptor's address: an offset in the block's shared memory
  uint32_t base_offset = 0;  ///< the descriptor's, in lines of 128 bytes
  size_t first = 0;          ///< its first range in AsyncOperation::reads; the next matrix begins where its ranges end
};

/// A rectangle of tensor memory.
struct TensorRange {
  uint32_t column = 0, columns = 0;
  uint32_t lanes = 0;  ///< bit i: lanes 16 * i to 16 * i + 15
};

/// A matrix product of the tensor core as it is carried out, by one multiprocessor or by a pair.
struct ProductShape {
  uint32_t m = 0, n = 0, k = 0;  ///< elements, 32 bytes of A along K; all 0: the operation is no product
  bool a_in_shared = false;      ///< else in registers or tensor memory
  bool sparse = false;           ///< A has half of its elements in memory: there are 64 bytes of B along K
  /// Of a sum in registers: the same for instructions that name the same registers.
  uint32_t registers = 0;
};

/// Bytes of global memory.
struct GlobalRange {
  uint64_t address = 0, bytes = 0;
};

/// What shows that an asynchronous operation has ended.
enum class AsyncCompletion : uint8_t {
  mbarrier,       ///< a BarrierEvent (complete_tx) with its number
  bulk_group,     ///< cp.async.bulk.wait_group of its thread
  copy_group,     ///< cp.async.wait_group of its thread, or an arrival for copies
  tensor_pipe,    ///< an arrival for tensor operations of its thread
  copies_arrive,  ///< is itself an arrival: cp.async.mbarrier.arrive, after all earlier cp.async of its thread
  tensor_arrive,  ///< is itself an arrival: tcgen05.commit, after all earlier operations of its thread
  warpgroup,      ///< a WarpgroupWait of a warp of its warpgroup
};

/// An operation that is issued. It reads and writes at an unknown time between that and its completion.
struct AsyncOperation {
  uint64_t number = 0;  ///< from 1 on, in the grid
  const Fragment* fragment = nullptr;
  uint32_t lane = 0;
  const char* what = "";  ///< "cp.async.bulk"
  AsyncCompletion completion = AsyncCompletion::mbarrier;
  bool updates = false;  ///< the writes are atomic additions and the like
  bool has_barrier = false;
  uint32_t barrier = 0;  ///< shared address of the mbarrier that it completes on, if it does
  std::vector<SharedRange> reads{}, writes{};
  bool generic_proxy = false;                   ///< it accesses shared memory as the threads' loads and stores do
  bool needs_fence_after_reads = false;         ///< also where threads have only read what it overwrites
  SharedLayout layout = SharedLayout::unknown;  ///< layout of what it writes
  std::vector<MatrixRead> matrices{};           ///< what `reads` are, where that is known
  std::vector<TensorRange> tensor_reads{}, tensor_writes{};
  bool of_pair = false;         ///< by two blocks (cta_group::2): in tensor memory it touches the same ranges in both
  bool accumulates = false;     ///< it adds to what `tensor_writes`, or the registers of the sum, hold
  uint64_t begin = 0, end = 0;  ///< virtual time at which it is under way
  ProductShape product{};
  uint64_t bytes = 0;   ///< of a copy: what its barrier counts, or what it stores
  uint32_t target = 0;  ///< of a copy to several blocks: the number of this target; they share one read
  /// Of a copy through a tensor map in memory that kernels may write: the map's address; else 0.
  uint64_t tensor_map = 0;
  /// What a copy reads or writes in global memory; only where instructions or accesses of global memory are observed.
  std::vector<GlobalRange> global{};
};

/// An instruction that lanes of a warp have executed.
struct ExecutedInstruction {
  const Fragment* fragment;
  uint32_t pc;
  LaneMask lanes;             ///< those that executed it; for ldmatrix and stmatrix those whose addresses count
  bool poll_failed;           ///< it asked for the end of a phase that has not come, and will ask again
  const uint64_t* addresses;  ///< generic addresses by lane; null when it is no plain access of memory
  uint32_t bytes;             ///< that each lane accesses
  AccessKind kind;
};

/// What happens to tensor memory other than asynchronous operations.
enum class TensorEventKind : uint8_t {
  allocate,
  deallocate,
  load,          ///< tcgen05.ld; ends before the warp's next wait_load
  store,         ///< tcgen05.st; ends before the warp's next wait_store
  wait_load,     ///< tcgen05.wait::ld
  wait_store,    ///< tcgen05.wait::st
  fence_before,  ///< tcgen05.fence::before_thread_sync
  fence_after,   ///< tcgen05.fence::after_thread_sync
};
struct TensorEvent {
  TensorEventKind kind;
  const Fragment* fragment;
  LaneMask lanes;
  std::vector<TensorRange> ranges{};
  uint32_t address = 0;  ///< for a load or a store: the address that the program gives
};

enum class GroupEventKind : uint8_t { commit, wait };
/// A thread closes a group of its copies, or learns that all but the youngest `keep` groups have read (or, unless
/// `read_only`, also written).
struct GroupEvent {
  GroupEventKind kind;
  bool bulk;  ///< whether it is a group of cp.async.bulk; else of the non-bulk cp.async
  const Fragment* fragment;
  uint32_t lane;
  uint32_t keep = 0;
  bool read_only = false;
};

/// A warp issues its part of a wgmma.mma_async of its warpgroup: the `number`-th of that warp, from 1 on. The last of
/// the four is followed by the AsyncOperation.
struct WarpgroupIssue {
  const Fragment* fragment;
  uint64_t number;
};

/// A warp learns that the first `ended` wgmma.mma_async of its warpgroup have ended.
struct WarpgroupWait {
  const Fragment* fragment;
  uint64_t ended;
};

/// A warp executes an instruction that is not wgmma and has registers in which wgmma works, too: accumulators, A, and
/// what is copied from or to them. Kernel::observed of the instruction says which.
struct WarpgroupRegisterUse {
  const Fragment* fragment;
  uint32_t pc;  ///< the instruction
  LaneMask lanes;
};

/// A warp executes setmaxnreg. Counts are registers per thread.
struct RegisterChange {
  const Fragment* fragment;
  bool increases;   ///< .inc, else .dec
  uint32_t count;   ///< what it asks for
  uint32_t before;  ///< what the warp has; 0 when that is unknown
};

/// Threads meet at a barrier that is not in memory: bar.sync of a block, barrier.cluster.
enum class RendezvousKind : uint8_t {
  arrive,
  arrive_relaxed,
  complete,  ///< all have come; those that wait pass next
  pass,
  exit,  ///< the lanes exit, and come to no barrier any more
};
struct Rendezvous {
  RendezvousKind kind;
  const Cluster* cluster;
  const Block* block;        ///< null for barrier.cluster
  uint32_t number;           ///< number of a block's barrier
  const Fragment* fragment;  ///< null for `complete`
  LaneMask lanes;
  bool of_all = false;  ///< complete: the barrier is one of all threads that had not exited, so it saw the others exit
};

/// Lanes load from global memory what a bulk store is still to write there. Stores that are under way are known in a
/// part of a grid that runs on its own.
struct EarlyRead {
  const Fragment* fragment;
  uint32_t pc;
  LaneMask lanes;
  uint64_t address;            ///< of the first of these lanes
  const StoreUnderWay* store;  ///< the first that is still to write there
};

enum class TensorMapEventKind : uint8_t {
  replace,  ///< tensormap.replace in global memory
  copy,     ///< tensormap.cp_fenceproxy, by the whole warp; it releases the map as well
  acquire,  ///< fence.proxy.tensormap::generic.acquire
  release,  ///< fence.proxy.tensormap::generic.release
};
/// Something concerns a tensor map in global memory.
struct TensorMapEvent {
  TensorMapEventKind kind;
  const Fragment* fragment;
  LaneMask lanes;
  uint64_t address;  ///< of the map; 0 for a release, which is of all
};

/// A tcgen05.mma or an mma.sync multiplies rows of an operand, of which not all elements are zero, by scale factors
/// that are NaN.
struct NanScales {
  const Block* block;  ///< that has issued it
  uint32_t warp;
  uint32_t lane;  ///< that has issued it; in registers, that has the first one
  uint32_t pc;
  char operand;               ///< 'A' or 'B'
  bool ue4m3;                 ///< else ue8m0
  uint8_t code;               ///< of the first one
  uint32_t first, last;       ///< rows of the operand in `rank`; B's are columns of D
  uint32_t count = 0;         ///< of such rows
  uint32_t rank = 0;          ///< the block in whose tensor memory the factors are
  uint32_t column = 0;        ///< of the first one; in registers, its byte
  bool all_ones = false;      ///< so are the words that they are in, as in shared memory that nothing has written
  bool in_registers = false;  ///< mma.sync
};

enum class FenceKind : uint8_t {
  memory,              ///< fence.acq_rel and its kind, membar; ObservedOp::scope is its scope
  mbarrier_init,       ///< fence.mbarrier_init
  proxy_async,         ///< fence.proxy.async, which concerns shared and global memory
  proxy_async_shared,  ///< fence.proxy.async.shared::cta and its kind
  proxy_async_global,  ///< fence.proxy.async.global
  grid_dependencies,   ///< griddepcontrol.wait: the grids before this one have ended, and what they wrote is visible
  other,
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void grid_started(const Grid&) {}
  virtual void grid_finished(const Grid&) {}
  virtual void block_started(const Block&) {}
  virtual void block_finished(const Block&) {}
  virtual void fragment_blocked(const Fragment&) {}
  virtual void fragment_woken(const Fragment&) {}
  /// All lanes of the fragment have exited; others of its warp may continue.
  virtual void fragment_exited(const Fragment&) {}
  virtual void barrier_changed(const BarrierEvent&) {}
  /// `lanes` of the fragment execute a .sync operation whose member mask, `members`, leaves them out, and the chip
  /// carries on.
  virtual void lanes_left_out(const Fragment&, [[maybe_unused]] LaneMask lanes, [[maybe_unused]] LaneMask members) {}
  /// `readers` of the fragment take a value, in a shfl.sync that names or computes its source for each lane (idx,
  /// bfly), from `absent` lanes, which do not take part.
  virtual void absent_lanes_read(const Fragment&, [[maybe_unused]] LaneMask readers, [[maybe_unused]] LaneMask absent) {
  }
  virtual void registers_changed(const RegisterChange&) {}
  /// A copy arrives for a block that has exited. Returns whether the observer reports it and the kernel is to go on
  /// without the copy; otherwise the fault stops the kernel. The cluster's `origin` says what issued the copy.
  virtual bool copy_lost(const Cluster&, const Fault&) { return false; }

  /// Whether the observer wants memory events, the hooks from here to the next comment. A kernel that is to announce
  /// them must have been translated for that (Machine::translate); a kernel that is not to pays nothing for them.
  virtual bool wants_memory_events() const { return false; }
  virtual void memory_accessed(const MemoryAccess&) {}
  /// Lanes of a warp have met in bar.warp.sync, which orders their accesses to memory.
  virtual void warp_synchronised(const Fragment&, LaneMask) {}
  /// Lanes of a warp exchange what is in their registers (shfl.sync, vote, match, redux): each waits until all others
  /// have come with their operands. `fragment` is at the instruction.
  virtual void lanes_exchanged(const Fragment&, LaneMask) {}
  virtual void store_read_early(const EarlyRead&) {}
  virtual void fence_executed(const Fragment&, LaneMask, FenceKind) {}
  virtual void threads_met(const Rendezvous&) {}
  virtual void operation_issued(const AsyncOperation&) {}
  virtual void group_changed(const GroupEvent&) {}
  virtual void tensor_map_changed(const TensorMapEvent&) {}
  virtual void tensor_memory_changed(const TensorEvent&) {}
  virtual void nan_scales_used(const NanScales&) {}
  virtual void warpgroup_issued(const WarpgroupIssue&) {}
  virtual void warpgroup_waited(const WarpgroupWait&) {}
  /// A warp has executed wgmma.fence.
  virtual void warpgroup_fenced(const Fragment&) {}
  virtual void warpgroup_registers_used(const WarpgroupRegisterUse&) {}

  /// Whether the observer wants `instruction_executed`. As for memory events, the kernel must have been translated for
  /// it (Machine::announce_instructions).
  virtual bool wants_instructions() const { return false; }
  /// Follows what the instruction itself announces. An instruction that made its lanes sleep is not executed yet.
  virtual void instruction_executed(const ExecutedInstruction&) {}

  /// Nothing in the cluster can continue, and nothing outside it will change that. This is about to be reported: the
  /// observer may add to the report what it knows about it.
  virtual void cluster_stuck(const Cluster&, Diagnostic&) {}
  /// The same where all that still runs in the cluster is loops that cannot end.
  virtual void cluster_repeated(const Cluster&, Diagnostic&) {}
  /// An operation has misused an mbarrier, which stops the kernel and is about to be reported: the observer words it.
  virtual void barrier_misused(const BarrierMisuse&, Diagnostic&) {}
  /// Returns what the observer has found wrong. It is asked once, when the grid has ended.
  virtual std::vector<Finding> findings() { return {}; }
  /// Returns what the grid has written, as far as the observer knows. It is asked once, when the grid has ended.
  virtual std::vector<WrittenResult> results() { return {}; }
};

}  // namespace stagecraft::emulator::machine
