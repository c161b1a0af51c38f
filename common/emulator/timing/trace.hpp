// What a launch did, as the model of the chip replays it: for each warp a list of steps, in the order in which it did
// them, and what the steps refer to. It holds no times.
//
// Whatever a thread can wait for is a *gate*: one phase of an mbarrier, one generation of a named barrier or a cluster
// barrier, a group of copies, a group of matrix products. A gate opens when all its arrivals have come, and how many
// those are is known from the run that was recorded. So the model need not know how each kind of barrier counts, and
// the order of the recorded run is always possible.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/chip/instruction_class.hpp"

namespace stagecraft::emulator::timing {

/// What the caches keep together, and what L2 and DRAM move at least.
inline constexpr uint32_t kLineBytes = 128, kSectorBytes = 32;

/// What is asked for of a line of global memory: its number (the address over kLineBytes, modulo 2^28), and above that
/// a bit for each of its sectors.
using LineRequest = uint32_t;
inline constexpr uint32_t kLineNumberBits = 28;
constexpr LineRequest request_of(uint64_t line, uint32_t sectors) {
  return static_cast<uint32_t>(line & ((1u << kLineNumberBits) - 1)) | sectors << kLineNumberBits;
}
constexpr uint32_t line_of(LineRequest request) { return request & ((1u << kLineNumberBits) - 1); }
constexpr uint32_t sectors_of(LineRequest request) { return request >> kLineNumberBits; }
/// The bits of the sectors from the one of byte `first` of a line to that of byte `last`.
constexpr uint32_t sectors_between(uint64_t first, uint64_t last) {
  const uint64_t low = first % kLineBytes / kSectorBytes, high = last % kLineBytes / kSectorBytes;
  return (2u << high) - (1u << low);
}

using machine::InstructionClass;

/// An instruction of the code: its class, and the registers that order it after others.
struct Instruction {
  InstructionClass kind = InstructionClass::other;
  std::vector<uint32_t> reads, writes;
  uint32_t times = 1;       ///< machine instructions of its class
  bool first = false;       ///< of a piece of straight code, into which branches go at its beginning alone
  bool shared = false;      ///< it is a load or store of shared memory
  bool plain_load = false;  ///< a load that ptxas may move up, over what is neither a store of its memory nor a fence
  uint32_t joined = 0;      ///< a load: bytes of a lane with the neighbours that ptxas joins to it; else 0
  bool floating = false;    ///< an atomic operation on floats
  bool returns = false;     ///< an instruction reads its result
  bool depends = false;     ///< griddepcontrol.wait
  bool counts = false;      ///< an atomic addition of one
  uint32_t begin = 0;       ///< pc of the first operation of its PTX instruction, which may be several
  bool absorbed = false;    ///< a load that ptxas joins to one before it, so that it needs no instruction
};
using Code = std::vector<Instruction>;

/// An instruction of the machine code that ptxas made of the kernel. Six counters, the *scoreboards*, say what is under
/// way: an instruction whose time is not fixed holds one until its result is there, or until it has read its operands,
/// and those that need that wait for the scoreboard.
struct MachineInstruction {
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr uint8_t kScoreboards = 6, kNoScoreboard = 7;
  uint32_t pc = kNone;  ///< the instruction of `Code` that it was made of
  InstructionClass kind = InstructionClass::other;
  uint8_t stall = 1;                                   ///< cycles until the warp's next one can issue
  uint8_t result = kNoScoreboard;                      ///< the scoreboard that it holds until its result is there
  uint8_t operands = kNoScoreboard;                    ///< and until it has read its operands
  uint8_t waits = 0;                                   ///< a bit for each scoreboard that nobody may hold
  bool accesses = false;                               ///< it loads or stores
  bool constant = false;                               ///< it loads from constant memory
  std::array<uint8_t, 2> reads{};                      ///< registers that it reads of each of the two banks
  bool branches = false, calls = false, ends = false;  ///< `ends`: what follows is reached by branches alone
  uint32_t target = kNone;                             ///< of the branch: its number
};
using MachineCode = std::vector<MachineInstruction>;

enum class StepKind : uint8_t {
  run,     ///< the instructions from `pc` up to and including `value`, those that were skipped by a guard too
  signal,  ///< an arrival at gate `value`
  wait,    ///< until gate `value` is open
  issue,   ///< a part of the issue of operation `value`: of a wgmma, each of four warps issues one
  depend,  ///< until the launch before has ended: griddepcontrol.wait
  access,  ///< the loads or stores `value`, that the instruction `pc` makes
  part,    ///< lanes have left the others at the branch `pc`
};

/// What a run of instructions ends with.
enum class RunEnd : uint8_t {
  other,           ///< also a branch that is not taken, or goes forward
  back,            ///< a branch back
  turn,            ///< a branch back to the run's first instruction: the run is a whole turn of a loop
  function,        ///< a division or root whose numbers need the function that ptxas calls for what is not ordinary
  short_function,  ///< the same for zeros, infinities and NaN, for which the function returns soon
};

struct Step {
  StepKind kind = StepKind::run;
  bool remote = false;  ///< signal: the gate is in the shared memory of another block
  bool fence = false;   ///< signal: it releases to the cluster, and so waits for the warp's earlier accesses
  uint32_t value = 0;
  uint32_t pc = 0;
  RunEnd end = RunEnd::other;
  bool operator==(const Step&) const = default;
};

enum class GateKind : uint8_t { mbarrier, named_barrier, cluster_barrier, copies, products, loads };

struct Gate {
  GateKind kind = GateKind::mbarrier;
  uint32_t arrivals = 0;
  bool operator==(const Gate&) const = default;
};

/// When an operation signals a gate.
enum class Stage : uint8_t { done, source_read };

struct Signal {
  uint32_t gate = 0;
  Stage stage = Stage::done;
  bool operator==(const Signal&) const = default;
};

enum class Engine : uint8_t {
  copy_in,         ///< from global memory into the shared memory of blocks
  copy_out,        ///< from shared memory to global memory
  copy_between,    ///< from shared memory to shared memory
  thread_copy,     ///< cp.async of a warp
  product,         ///< wgmma.mma_async, tcgen05.mma
  tensor_copy,     ///< tcgen05.cp
  commit,          ///< an arrival for the products before it
  tensor_load,     ///< tcgen05.ld
  tensor_store,    ///< tcgen05.st
  cluster_launch,  ///< clusterlaunchcontrol.try_cancel
};

/// Something that an engine does beside the warps.
struct Operation {
  Engine engine = Engine::copy_in;
  uint32_t block = 0;             ///< rank of the block that issues it
  uint32_t parts = 1;             ///< warps that issue it together
  uint64_t bytes = 0;             ///< of each target
  std::vector<uint32_t> targets;  ///< ranks of the blocks whose shared memory is written
  // A product.
  bool of_pair = false;
  bool tensor_memory = false;  ///< its sums are there: tcgen05.mma
  bool a_in_shared = false;
  bool sparse = false;  ///< as in machine::ProductShape
  uint32_t m = 0, n = 0, k = 0;
  // A copy: planes of equal rows of global memory, whose first address is in ClusterTrace::addresses; or, where they
  // are not equally far apart, lines in ClusterTrace::lines.
  uint32_t planes = 1, rows = 0, row_bytes = 0;
  uint64_t plane_pitch = 0, pitch = 0;
  uint32_t address = 0;  ///< its index there
  uint32_t first_line = 0, lines = 0;
  std::vector<Signal> signals;
  bool operator==(const Operation&) const = default;
};

/// The loads or stores of one instruction of a warp. An atomic operation on global memory passes over a sector as often
/// as lanes meet at one of its words, where most do, and over one sector after the other.
struct Access {
  bool shared = false;
  bool store = false, atomic = false, remote = false;
  uint32_t passes = 0;                 ///< over banks, of shared memory or L1; atomic: over sectors of global memory
  uint32_t sectors = 0;                ///< global memory: of kSectorBytes
  uint32_t same = 0;                   ///< of an atomic operation: lanes at one word, where most meet
  bool floating = false;               ///< of an atomic operation: on floats
  bool returns = false;                ///< the same: what was there is needed
  uint32_t partial_lines = 0;          ///< of a store: lines with a sector of which only a part is written
  uint32_t first_line = 0, lines = 0;  ///< global memory: in ClusterTrace::lines
  bool operator==(const Access&) const = default;
};

/// What the blocks of a cluster did. Most clusters of a launch do the same, on other addresses, and share this.
struct ClusterShape {
  uint32_t blocks = 1;
  std::vector<std::vector<Step>> warps;  ///< by rank of the block, then by number of the warp
  std::vector<Operation> operations;
  std::vector<Gate> gates;
  std::vector<Access> accesses;
  uint32_t tensor_columns = 0;  ///< of tensor memory that a block has at a time, at most
  bool operator==(const ClusterShape&) const = default;
};

struct ClusterTrace {
  uint64_t number = 0;  ///< position in the order of launch
  std::shared_ptr<const ClusterShape> shape;
  std::vector<uint64_t> addresses;  ///< of the first bytes of copies
  std::vector<LineRequest> lines;
  uint64_t instructions = 0;  ///< that its warps executed
  uint64_t described = 0;     ///< how many of them `shape` describes: the first ones, or all
};

/// How a launch follows the one before it.
struct LaunchOrder {
  bool in_graph = false;
  bool overlaps = false;  ///< it may begin before the other has ended: programmatic stream serialisation
  bool alone = false;     ///< none is before it, as Nsight Compute launches a kernel
};

struct LaunchTrace {
  std::string kernel;
  LaunchOrder order;
  std::shared_ptr<const Code> code;
  std::shared_ptr<const MachineCode> machine_code;  ///< null where there is none with lines of PTX
  uint32_t warps_per_block = 0;
  uint32_t blocks_per_multiprocessor = 1;  ///< that fit

  std::vector<ClusterTrace> clusters;  ///< in the order of launch

  // The first clusters of a large launch are described, and what long ones do first.
  uint64_t blocks = 0;        ///< of the whole launch
  double described_part = 1;  ///< of what the clusters here do
  double extrapolation = 1;   ///< how many times as long the launch takes as what is described
  bool thinned = false;       ///< what is described is a part of each loop, and not the beginning
  bool left_out = false;      ///< blocks that are not described did not run
};

}  // namespace stagecraft::emulator::timing
