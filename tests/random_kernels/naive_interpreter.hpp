// A second interpreter of PTX, to compare the emulated GPU with: it runs one thread at a time, one instruction at a
// time, straight from the text.
//
// It is written for clearness, from the PTX ISA, and shares nothing with the emulated GPU. It knows the instructions
// that random_kernel.hpp makes, in one spelling each. Clusters run one after the other; the threads of a cluster take
// turns, each until it has to wait. A copy is over when it is issued.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::naive {

/// The text has something that the interpreter does not know, or the kernel does what it must not.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Operand {
  enum class Kind { value, reg, none } kind = Kind::none;
  uint64_t value = 0;   ///< a constant, the address of a variable, or the number of a register
  uint64_t offset = 0;  ///< that is added
};

/// One instruction: `@!%p1 setp.lt.and.u32 %p0, %r1, 7, %p2`.
struct Instruction {
  int guard = -1;  ///< number of the register; -1: always executed
  bool guard_negated = false;
  std::string name;                 ///< "setp"
  std::vector<std::string> suffix;  ///< "lt", "and", "u32"
  std::vector<Operand> operands;    ///< brackets, braces and bars only separate them
  size_t target = 0;                ///< of a branch
  std::string text;

  bool has(std::string_view part) const {
    for (const std::string& each : suffix)
      if (each == part) return true;
    return false;
  }
  const std::string& type() const { return suffix.back(); }
};

inline constexpr uint64_t kIn = 0x100000000, kOut = 0x200000000;  ///< where the buffers begin

/// What the kernel's parameters point at: the first to `in`, the second to `out`, in words.
struct Buffers {
  std::vector<uint32_t> in, out;
};

struct Shape {
  uint32_t blocks = 1, threads = 1;  ///< in all, and of each block
  uint32_t cluster = 1;              ///< blocks of a cluster
};

class Kernel {
 public:
  /// @param text  a module with one entry, of two 64-bit parameters
  explicit Kernel(const std::string& text);
  /// Runs a grid. Throws Error, also if its threads wait for each other forever.
  void run(const Shape& shape, Buffers& buffers) const;

 private:
  friend class Block;
  int register_number(const std::string& name);
  Operand operand_of(std::string text);
  void add_instruction(const std::string& line, std::vector<std::string>& targets);

  std::vector<Instruction> code_;
  std::map<std::string, int> registers_;
  std::map<std::string, uint64_t> shared_;  ///< the variables, by name
  uint64_t shared_bytes_ = 0;
};

/// Results of the instructions that look at nothing but their operands (naive_arithmetic.cpp). Throws Error for one
/// that it does not know.
/// @param values  of the operands after the result
uint64_t compute(const Instruction& instruction, const std::vector<uint64_t>& values);
/// The same for f16 and bf16 (naive_small_floats.cpp). Returns false for other types.
bool compute_small(const Instruction& instruction, const std::vector<uint64_t>& values, uint64_t& result);
/// The bits of the f32 with the value of an f16 or a bf16.
uint32_t widened(const std::string& type, uint64_t bits);

/// What a lane gets from an instruction in which lanes exchange values: its result and, where there is one, its
/// predicate (naive_exchange.cpp).
struct Exchanged {
  uint64_t result = 0;
  bool holds = false;
};
bool is_exchange(const Instruction& instruction);
/// The number of the operand that the lanes exchange.
size_t exchanged_operand(const Instruction& instruction);
/// @param operands  values of the lane's own operands
/// @param values    what the lanes bring, by lane
Exchanged exchange(const Instruction& instruction, uint32_t lane, const std::vector<uint64_t>& operands,
                   const std::map<uint32_t, uint64_t>& values);

}  // namespace stagecraft::naive
