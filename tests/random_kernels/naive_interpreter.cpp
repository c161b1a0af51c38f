#include "naive_interpreter.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

namespace stagecraft::naive {

namespace {

constexpr uint32_t kWarp = 32;

uint32_t bytes_of(const std::string& type) {
  if (type == "pred") return 1;
  if (type.ends_with("x2")) return 4;
  return static_cast<uint32_t>(std::stoul(type.substr(1))) / 8;
}

bool is_signed(const std::string& type) { return type[0] == 's'; }

// A shared address of another block, as mapa makes it, has the block's rank plus 1 above the offset.
constexpr uint32_t kRankShift = 24;
constexpr uint64_t kOffsetMask = (1u << kRankShift) - 1;

}  // namespace

class Block;

/// Blocks that run at once, and their barrier.
struct Cluster {
  std::vector<Block> blocks;
  uint32_t arrived = 0, threads = 0;
  uint64_t phase = 0;

  void run();
};

/// A block that runs: its threads, its shared memory and what they wait at.
class Block {
 public:
  Block(const Kernel& kernel, Cluster& cluster, uint32_t index, const Shape& shape, Buffers& buffers)
      : kernel_(kernel),
        cluster_(cluster),
        rank_(index % shape.cluster),
        buffers_(buffers),
        shared_(kernel.shared_bytes_),
        threads_(shape.threads) {
    for (uint32_t i = 0; i < shape.threads; ++i) {
      threads_[i].number = i;
      threads_[i].registers.resize(kernel.registers_.size());
      set_special(threads_[i], "%tid.x", i);
      set_special(threads_[i], "%ntid.x", shape.threads);
      set_special(threads_[i], "%ctaid.x", index);
      set_special(threads_[i], "%cluster_ctarank", rank_);
      set_special(threads_[i], "%laneid", i % kWarp);
    }
  }

  /// Runs each thread until it has to wait. Returns whether any went on.
  bool run() {
    bool any_went_on = false;
    for (Thread& thread : threads_) {
      while (!thread.done && step(thread)) any_went_on = true;
    }
    return any_went_on;
  }
  /// A thread that has not ended: the instruction it waits at; null: all have.
  const Instruction* unfinished() const {
    for (const Thread& thread : threads_) {
      if (!thread.done) return &kernel_.code_[thread.pc];
    }
    return nullptr;
  }

 private:
  struct Thread {
    uint32_t number = 0;
    size_t pc = 0;
    bool done = false;
    bool waits = false;  ///< has come to where it now is, and must not come there twice
    bool carry = false;
    uint64_t cluster_phase = 0;  ///< of the cluster's barrier, when it arrived there
    std::vector<uint64_t> registers;
  };
  /// Threads that come together: at a barrier of the block, or lanes at an instruction of their warp.
  struct Meeting {
    std::vector<Thread*> come;
    uint32_t arrived = 0;  ///< those that have only arrived
  };
  struct Mbarrier {
    uint32_t expected = 0, pending = 0;
    int64_t bytes = 0;
    uint64_t phase = 0;
  };

  void set_special(Thread& thread, const char* name, uint64_t value) {
    const auto found = kernel_.registers_.find(name);
    if (found != kernel_.registers_.end()) thread.registers[static_cast<size_t>(found->second)] = value;
  }
  static uint64_t value(const Thread& thread, const Operand& operand) {
    return (operand.kind == Operand::Kind::reg ? thread.registers[operand.value] : operand.value) + operand.offset;
  }
  static void set(Thread& thread, const Operand& operand, uint64_t value) {
    if (operand.kind == Operand::Kind::reg) thread.registers[operand.value] = value;
  }

  /// The block in whose shared memory an address is.
  Block& owner_of(uint64_t address) {
    const uint64_t rank = address >> kRankShift;
    return rank == 0 ? *this : cluster_.blocks.at(rank - 1);
  }
  static uint64_t mapped(uint64_t address, uint64_t rank) { return (address & kOffsetMask) | (rank + 1) << kRankShift; }

  /// The bytes at an address.
  std::byte* at(bool shared, uint64_t address, uint64_t bytes) {
    std::byte* begin = shared ? owner_of(address).shared_.data() : nullptr;
    uint64_t offset = address & kOffsetMask, size = shared_.size();
    if (!shared) {
      std::vector<uint32_t>& buffer = address >= kOut ? buffers_.out : buffers_.in;
      begin = reinterpret_cast<std::byte*>(buffer.data());
      offset = address - (address >= kOut ? kOut : kIn);
      size = buffer.size() * 4;
    }
    if (offset > size || bytes > size - offset || address % bytes != 0) throw Error("a wrong address");
    return begin + offset;
  }
  uint64_t load(bool shared, uint64_t address, const std::string& type) {
    uint64_t value = 0;
    const uint32_t bytes = bytes_of(type);
    std::memcpy(&value, at(shared, address, bytes), bytes);
    if (is_signed(type) && bytes < 8 && (value >> (bytes * 8 - 1) & 1) != 0) value |= ~uint64_t{0} << bytes * 8;
    return bytes < 4 ? static_cast<uint32_t>(value) : value;
  }
  void store(bool shared, uint64_t address, const std::string& type, uint64_t value) {
    std::memcpy(at(shared, address, bytes_of(type)), &value, bytes_of(type));
  }
  /// In pieces of a byte, so that no alignment is asked for.
  void copy(bool to_shared, uint64_t to, bool from_shared, uint64_t from, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) *at(to_shared, to + i, 1) = *at(from_shared, from + i, 1);
  }

  /// Runs one instruction of a thread. Returns false if it has to wait.
  bool step(Thread& thread) {
    const Instruction& instruction = kernel_.code_[thread.pc];
    const bool guarded = instruction.guard >= 0;
    if (guarded && (thread.registers[static_cast<size_t>(instruction.guard)] != 0) == instruction.guard_negated) {
      ++thread.pc;
      return true;
    }
    return execute(thread, instruction);
  }

  bool execute(Thread& thread, const Instruction& instruction) {
    const std::string& name = instruction.name;
    const std::vector<Operand>& operands = instruction.operands;
    const auto operand = [&](size_t i) { return value(thread, operands.at(i)); };
    if (name == "bra") {
      thread.pc = instruction.target;
      return true;
    }
    if (name == "ret") {
      thread.done = true;
      return true;
    }
    if (name == "bar" || name == "barrier") return bar(thread, instruction);
    if (is_exchange(instruction)) return meet_lanes(thread, instruction);
    if (name == "mbarrier") return mbarrier(thread, instruction);
    ++thread.pc;
    const bool shared = instruction.has("shared") || instruction.has("shared::cluster");
    if (name == "ld") {
      const size_t count = operands.size() - 1;  // of a vector
      const uint64_t address = operand(count);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t loaded = instruction.has("param")
                                    ? address
                                    : load(shared, address + i * bytes_of(instruction.type()), instruction.type());
        set(thread, operands[i], loaded);
      }
    } else if (name == "st" && instruction.has("async")) {
      store(true, operand(0), instruction.type(), operand(1));
      complete(operand(2), bytes_of(instruction.type()));
    } else if (name == "st") {
      for (size_t i = 1; i < operands.size(); ++i) {
        store(shared, operand(0) + (i - 1) * bytes_of(instruction.type()), instruction.type(), operand(i));
      }
    } else if (name == "atom" || name == "red") {
      const size_t first = name == "atom" ? 1 : 0;
      const uint64_t address = operand(first), before = load(shared, address, instruction.type());
      std::vector<uint64_t> values{before};
      for (size_t i = first + 1; i < operands.size(); ++i) values.push_back(operand(i));
      store(shared, address, instruction.type(), compute(instruction, values));
      if (name == "atom") set(thread, operands[0], before);
    } else if (name == "cp") {
      copy_async(instruction, operand);
    } else if (name == "fence") {
      // Everything is visible at once here.
    } else if (name == "mapa") {
      set(thread, operands[0], mapped(operand(1), operand(2)));
    } else if (name == "mov" && operands.size() == 3) {  // between a register and its halves
      const bool packs = instruction.text.ends_with("}");
      if (packs) set(thread, operands[0], (operand(1) & 0xffff) | operand(2) << 16);
      for (size_t half = 0; half < 2 && !packs; ++half) set(thread, operands[half], operand(2) >> 16 * half & 0xffff);
    } else {
      std::vector<uint64_t> values;
      for (size_t i = 1; i < operands.size(); ++i) values.push_back(operand(i));
      set(thread, operands.at(0), compute_with_carry(thread, instruction, values));
    }
    return true;
  }

  /// add.cc and addc hand the carry from one to the next; all others only compute.
  static uint64_t compute_with_carry(Thread& thread, const Instruction& instruction,
                                     const std::vector<uint64_t>& values) {
    const bool takes = instruction.name == "addc", sets = instruction.has("cc");
    if (!takes && !sets) return compute(instruction, values);
    const uint64_t sum =
        uint64_t{static_cast<uint32_t>(values[0])} + static_cast<uint32_t>(values[1]) + (takes && thread.carry ? 1 : 0);
    if (sets) thread.carry = sum >> 32 != 0;
    return static_cast<uint32_t>(sum);
  }

  template <typename Value>
  void copy_async(const Instruction& instruction, Value&& operand) {
    if (instruction.has("commit_group") || instruction.has("wait_group") || instruction.has("wait_all")) return;
    if (instruction.has("reduce")) return reduce_bulk(instruction, operand(0), operand(1), operand(2));
    const bool to_shared = instruction.suffix[2].starts_with("shared");
    const bool from_shared = instruction.suffix[3].starts_with("shared");
    if (instruction.has("multicast::cluster")) {
      for (uint64_t rank = 0; rank < cluster_.blocks.size(); ++rank) {
        if ((operand(4) >> rank & 1) == 0) continue;
        copy(true, mapped(operand(0), rank), false, operand(1), operand(2));
        complete(mapped(operand(3), rank), operand(2));
      }
      return;
    }
    copy(to_shared, operand(0), from_shared, operand(1), operand(2));
    if (instruction.has("mbarrier::complete_tx::bytes")) complete(operand(3), operand(2));
  }
  /// cp.reduce.async.bulk.global.shared::cta: combines words of shared memory with words of global memory.
  void reduce_bulk(const Instruction& instruction, uint64_t to, uint64_t from, uint64_t bytes) {
    for (const uint64_t end = to + bytes; to != end; to += 4, from += 4) {
      store(false, to, "u32", compute(instruction, {load(false, to, "u32"), load(true, from, "u32")}));
    }
  }

  // ---- where threads wait

  Mbarrier& mbarrier_at(uint64_t address) { return owner_of(address).mbarriers_.at(address & kOffsetMask); }
  /// Bytes have come that an mbarrier counts.
  void complete(uint64_t address, uint64_t bytes) {
    Mbarrier& barrier = mbarrier_at(address);
    barrier.bytes -= static_cast<int64_t>(bytes);
    settle(barrier);
  }
  static void settle(Mbarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.expected;
  }

  bool mbarrier(Thread& thread, const Instruction& instruction) {
    const auto operand = [&](size_t i) { return value(thread, instruction.operands.at(i)); };
    if (instruction.has("init")) {
      const auto count = static_cast<uint32_t>(operand(1));
      mbarriers_[operand(0)] = {count, count, 0, 0};
    } else if (instruction.has("arrive")) {
      Mbarrier& barrier = mbarrier_at(operand(1));
      const bool expects = instruction.has("expect_tx");
      if (expects) barrier.bytes += static_cast<int64_t>(operand(2));
      const uint64_t count = instruction.operands.size() > 2 && !expects ? operand(2) : 1;
      if (barrier.pending < count) throw Error("too many arrivals");
      barrier.pending -= static_cast<uint32_t>(count);
      settle(barrier);
    } else {  // try_wait.parity
      // It may suspend the thread, and here it does so until the answer is yes.
      if ((mbarrier_at(operand(1)).phase & 1) == (operand(2) & 1)) return false;
      set(thread, instruction.operands[0], 1);
    }
    ++thread.pc;
    return true;
  }

  /// bar.sync, bar.arrive, bar.red and bar.warp.sync.
  bool bar(Thread& thread, const Instruction& instruction) {
    if (instruction.has("warp")) return meet_lanes(thread, instruction);
    if (instruction.has("cluster")) return cluster_barrier(thread, instruction);
    const bool reduces = instruction.has("red");
    const size_t id = reduces ? 1 : 0;
    const auto operand = [&](size_t i) { return value(thread, instruction.operands.at(i)); };
    Meeting& meeting = barriers_[operand(id)];
    if (!std::exchange(thread.waits, true)) {
      if (instruction.has("arrive")) {
        ++meeting.arrived;
      } else {
        meeting.come.push_back(&thread);
      }
    }
    // A count is one of whole warps, of which the last of the block may have fewer threads.
    size_t needed = threads_.size();
    if (instruction.operands.size() > id + 1 && !reduces) needed = std::min<size_t>(needed, operand(id + 1));
    const bool all = meeting.come.size() + meeting.arrived == needed;
    if (all) {
      uint32_t count = 0;
      for (const Thread* each : meeting.come) {
        if (reduces) count += value(*each, instruction.operands[2]) != 0 ? 1 : 0;
      }
      const uint64_t result = instruction.has("popc") ? count : instruction.has("and") ? count == needed : count != 0;
      for (Thread* each : std::exchange(meeting.come, {})) {
        if (reduces) set(*each, instruction.operands[0], result);
        each->waits = false;
        ++each->pc;
      }
      meeting.arrived = 0;
    }
    if (!instruction.has("arrive")) return all;
    thread.waits = false;
    ++thread.pc;
    return true;
  }

  bool cluster_barrier(Thread& thread, const Instruction& instruction) {
    if (instruction.has("arrive")) {
      thread.cluster_phase = cluster_.phase;
      if (++cluster_.arrived == cluster_.threads) {
        cluster_.arrived = 0;
        ++cluster_.phase;
      }
    } else if (thread.cluster_phase == cluster_.phase) {
      return false;
    }
    ++thread.pc;
    return true;
  }

  /// Instructions of a warp: the last lane of the mask that comes does it for all.
  bool meet_lanes(Thread& thread, const Instruction& instruction) {
    const auto mask = static_cast<uint32_t>(value(thread, instruction.operands.back()));
    const uint32_t first = thread.number / kWarp * kWarp;
    Meeting& meeting = meetings_[{first, mask, thread.pc}];
    if (!std::exchange(thread.waits, true)) meeting.come.push_back(&thread);
    if (meeting.come.size() != static_cast<size_t>(std::popcount(mask))) return false;
    const std::vector<Thread*> come = std::exchange(meeting.come, {});
    const bool exchanges = instruction.name != "bar";
    std::map<uint32_t, uint64_t> values;  // by lane
    for (const Thread* each : come) {
      if (exchanges) values[each->number % kWarp] = value(*each, instruction.operands[exchanged_operand(instruction)]);
    }
    for (Thread* each : come) {
      if (exchanges) set_exchanged(*each, instruction, values);
      each->waits = false;
      ++each->pc;
    }
    return true;
  }
  static void set_exchanged(Thread& thread, const Instruction& instruction,
                            const std::map<uint32_t, uint64_t>& values) {
    std::vector<uint64_t> operands;
    for (const Operand& operand : instruction.operands) operands.push_back(value(thread, operand));
    const Exchanged got = exchange(instruction, thread.number % kWarp, operands, values);
    set(thread, instruction.operands[0], got.result);
    if (exchanged_operand(instruction) == 2) set(thread, instruction.operands[1], got.holds ? 1 : 0);
  }

  const Kernel& kernel_;
  Cluster& cluster_;
  uint32_t rank_;
  Buffers& buffers_;
  std::vector<std::byte> shared_;
  std::vector<Thread> threads_;
  std::map<uint64_t, Meeting> barriers_;                                ///< by number
  std::map<std::tuple<uint32_t, uint32_t, size_t>, Meeting> meetings_;  ///< by first thread of the warp, mask and pc
  std::map<uint64_t, Mbarrier> mbarriers_;                              ///< by address
};

void Cluster::run() {
  for (bool any_went_on = true; any_went_on;) {
    any_went_on = false;
    for (Block& block : blocks) any_went_on = block.run() || any_went_on;
  }
  for (const Block& block : blocks) {
    if (const Instruction* waits = block.unfinished()) {
      throw Error("the threads wait for each other at " + waits->text);
    }
  }
}

void Kernel::run(const Shape& shape, Buffers& buffers) const {
  for (uint32_t first = 0; first < shape.blocks; first += shape.cluster) {
    Cluster cluster{.blocks = {}, .threads = shape.cluster * shape.threads};
    for (uint32_t rank = 0; rank < shape.cluster; ++rank) {
      cluster.blocks.emplace_back(*this, cluster, first + rank, shape, buffers);
    }
    cluster.run();
  }
}

}  // namespace stagecraft::naive
