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
  return static_cast<uint32_t>(std::stoul(type.substr(1))) / 8;
}

bool is_signed(const std::string& type) { return type[0] == 's'; }

}  // namespace

/// A block that runs: its threads, its shared memory and what they wait at.
class Block {
 public:
  Block(const Kernel& kernel, uint32_t index, uint32_t threads, Buffers& buffers)
      : kernel_(kernel), buffers_(buffers), shared_(kernel.shared_bytes_), threads_(threads) {
    for (uint32_t i = 0; i < threads; ++i) {
      threads_[i].number = i;
      threads_[i].registers.resize(kernel.registers_.size());
      set_special(threads_[i], "%tid.x", i);
      set_special(threads_[i], "%ntid.x", threads);
      set_special(threads_[i], "%ctaid.x", index);
      set_special(threads_[i], "%laneid", i % kWarp);
    }
  }

  void run() {
    for (bool all_done = false; !all_done;) {
      all_done = true;
      bool any_went_on = false;
      for (Thread& thread : threads_) {
        while (!thread.done && step(thread)) any_went_on = true;
        all_done = all_done && thread.done;
      }
      if (!all_done && !any_went_on) throw Error("the threads wait for each other at " + place_of_first());
    }
  }

 private:
  struct Thread {
    uint32_t number = 0;
    size_t pc = 0;
    bool done = false;
    bool waits = false;  ///< has come to where it now is, and must not come there twice
    bool carry = false;
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
  std::string place_of_first() const {
    for (const Thread& thread : threads_) {
      if (!thread.done) return kernel_.code_[thread.pc].text;
    }
    return {};
  }
  static uint64_t value(const Thread& thread, const Operand& operand) {
    return (operand.kind == Operand::Kind::reg ? thread.registers[operand.value] : operand.value) + operand.offset;
  }
  static void set(Thread& thread, const Operand& operand, uint64_t value) {
    if (operand.kind == Operand::Kind::reg) thread.registers[operand.value] = value;
  }

  /// The bytes at an address.
  std::byte* at(bool shared, uint64_t address, uint64_t bytes) {
    std::byte* begin = shared_.data();
    uint64_t offset = address, size = shared_.size();
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
    if (name == "shfl" || name == "vote" || name == "match" || name == "redux") return exchange(thread, instruction);
    if (name == "mbarrier") return mbarrier(thread, instruction);
    ++thread.pc;
    const bool shared = instruction.has("shared");
    if (name == "ld") {
      const size_t count = operands.size() - 1;  // of a vector
      const uint64_t address = operand(count);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t loaded = instruction.has("param")
                                    ? address
                                    : load(shared, address + i * bytes_of(instruction.type()), instruction.type());
        set(thread, operands[i], loaded);
      }
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
    const bool to_shared = instruction.suffix[2].starts_with("shared");
    copy(to_shared, operand(0), !to_shared, operand(1), operand(2));
    if (instruction.has("mbarrier::complete_tx::bytes")) {
      Mbarrier& barrier = mbarriers_.at(operand(3));
      barrier.bytes -= static_cast<int64_t>(operand(2));
      settle(barrier);
    }
  }

  // ---- where threads wait

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
      Mbarrier& barrier = mbarriers_.at(operand(1));
      if (instruction.has("expect_tx")) barrier.bytes += static_cast<int64_t>(operand(2));
      if (barrier.pending == 0) throw Error("too many arrivals");
      --barrier.pending;
      settle(barrier);
    } else {  // try_wait.parity
      // It may suspend the thread, and here it does so until the answer is yes.
      if ((mbarriers_.at(operand(1)).phase & 1) == (operand(2) & 1)) return false;
      set(thread, instruction.operands[0], 1);
    }
    ++thread.pc;
    return true;
  }

  /// bar.sync, bar.arrive, bar.red and bar.warp.sync.
  bool bar(Thread& thread, const Instruction& instruction) {
    if (instruction.has("warp")) return exchange(thread, instruction);
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

  /// Instructions of a warp: the last lane of the mask that comes does it for all.
  bool exchange(Thread& thread, const Instruction& instruction) {
    const auto mask = static_cast<uint32_t>(value(thread, instruction.operands.back()));
    const uint32_t first = thread.number / kWarp * kWarp;
    Meeting& meeting = meetings_[{first, mask, thread.pc}];
    if (!std::exchange(thread.waits, true)) meeting.come.push_back(&thread);
    if (meeting.come.size() != static_cast<size_t>(std::popcount(mask))) return false;
    const std::vector<Thread*> come = std::exchange(meeting.come, {});
    std::map<uint32_t, uint64_t> values;  // by lane
    for (const Thread* each : come) {
      if (instruction.name != "bar")
        values[each->number % kWarp] = value(*each, instruction.operands[source_of(instruction)]);
    }
    for (Thread* each : come) {
      if (instruction.name != "bar") result_of_exchange(*each, instruction, values);
      each->waits = false;
      ++each->pc;
    }
    return true;
  }
  static size_t source_of(const Instruction& instruction) { return instruction.name == "shfl" ? 2 : 1; }

  static void result_of_exchange(Thread& thread, const Instruction& instruction,
                                 const std::map<uint32_t, uint64_t>& values) {
    const uint32_t lane = thread.number % kWarp;
    const auto operand = [&](size_t i) { return value(thread, instruction.operands.at(i)); };
    if (instruction.name == "shfl") {  // shfl.sync.idx.b32 %d|%p, %a, %b, %c, mask
      const uint32_t b = operand(3) & 31, clamp = operand(4) & 31, segment = operand(4) >> 8 & 31;
      const uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
      uint32_t from = instruction.has("up")     ? lane - b
                      : instruction.has("down") ? lane + b
                      : instruction.has("bfly") ? lane ^ b
                                                : least | (b & ~segment);
      const bool inside =
          instruction.has("up") ? static_cast<int32_t>(from) >= static_cast<int32_t>(most) : from <= most;
      if (!inside) from = lane;
      set(thread, instruction.operands[0], values.at(from));
      set(thread, instruction.operands[1], inside ? 1 : 0);
      return;
    }
    uint32_t truths = 0, alike = 0;
    for (const auto& [each, value] : values) {
      truths |= (value != 0 ? 1u : 0u) << each;
      alike |= (value == values.at(lane) ? 1u : 0u) << each;
    }
    uint64_t result = 0;
    if (instruction.name == "vote") {
      const bool all = std::popcount(truths) == static_cast<int>(values.size());
      result = instruction.has("ballot") ? truths
               : instruction.has("all")  ? all
               : instruction.has("any")  ? truths != 0
                                         : all || truths == 0;
    } else if (instruction.name == "match") {
      result = alike;
    } else {  // redux: from the first lane on
      for (auto each = values.begin(); each != values.end(); ++each) {
        result = each == values.begin() ? each->second : compute(instruction, {result, each->second});
      }
    }
    set(thread, instruction.operands[0], result);
  }

  const Kernel& kernel_;
  Buffers& buffers_;
  std::vector<std::byte> shared_;
  std::vector<Thread> threads_;
  std::map<uint64_t, Meeting> barriers_;                                ///< by number
  std::map<std::tuple<uint32_t, uint32_t, size_t>, Meeting> meetings_;  ///< by first thread of the warp, mask and pc
  std::map<uint64_t, Mbarrier> mbarriers_;                              ///< by address
};

void Kernel::run(uint32_t blocks, uint32_t threads, Buffers& buffers) const {
  for (uint32_t index = 0; index < blocks; ++index) Block(*this, index, threads, buffers).run();
}

}  // namespace stagecraft::naive
