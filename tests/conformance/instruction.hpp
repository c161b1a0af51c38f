// The instructions of a battery as the host sees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stagecraft::conformance {

/// Kinds of operand. Each has edge values of its own, which instructions treat specially; see battery.cpp.
enum class Kind { i16, i32, i64, f16, bf16, f32, f64, i16x2, f16x2, bf16x2 };

inline constexpr size_t kSamples = 512;  ///< applications of each instruction

/// An instruction of the battery: result = f(a, b, c), for arrays of kSamples words in device memory.
struct Instruction {
  const char* name;
  Kind result, a, b, c;
  void (*launch)(const void* a, const void* b, const void* c, void* result);
};

/// Adds an instruction to the program; in the order of its text.
bool enlist(const Instruction& instruction);

/// The body of `main`: runs all instructions and prints or compares what they gave.
int run_battery(int argc, char** argv);

}  // namespace stagecraft::conformance
