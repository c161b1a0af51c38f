// One executable instruction, and how its handler reaches the registers of a warp.
//
// The registers of a warp are in one block of bytes, each register a vector over the 32 lanes:
//
//     predicate      one uint32_t, bit i for lane i
//     8 and 16 bits  32 x 2 bytes     32 bits  32 x 4     64 bits  32 x 8     128 bits  32 x 16
//
// Constants and special registers are such vectors too, filled in when the warp starts, so that every operand of every
// handler is just an offset. Vectors of 32-bit and wider registers are aligned to 64 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

struct Fragment;
struct Op;

/// Byte offset of an operand's vector in the register file of a warp.
using RegisterOffset = uint32_t;
inline constexpr RegisterOffset kNoRegister = 0xffffffffu;

/// What the execution loop does after a handler.
enum class Outcome : uint32_t {
  next,     ///< go on with the following instruction
  jump,     ///< the handler has set `fragment.pc`, or has changed the set of fragments
  blocked,  ///< `fragment.wait` says for what; when woken, the same instruction is executed again
  yield,    ///< done, but others run before the next instruction (a poll that failed)
};

/// Executes one instruction for the lanes of `mask`: those of the fragment whose guard is true. It is never called with
/// an empty mask, and must not change the registers of any other lane.
using Handler = Outcome (*)(Fragment& fragment, const Op& op, LaneMask mask);

/// What a family of instructions keeps about an Op when the fields of Op do not suffice; the Kernel owns it.
struct OpDetail {
  virtual ~OpDetail() = default;
};

struct Op {
  Handler full = nullptr;    ///< called when the mask is kAllLanes
  Handler masked = nullptr;  ///< called otherwise; the same function where the difference does not matter
  RegisterOffset destination = kNoRegister;
  RegisterOffset a = kNoRegister;
  RegisterOffset b = kNoRegister;
  RegisterOffset c = kNoRegister;
  uint64_t immediate = 0;            ///< its family decides what it means
  const OpDetail* detail = nullptr;  ///< its family decides what it means; `static_cast` to its type
  RegisterOffset guard = kNoRegister;
  LaneMask guard_flip = 0;  ///< xor-ed to the guard's mask: all ones for `@!p`
};

/// The lanes of one register, as elements of type T (uint32_t, float, ...).
template <typename T>
[[gnu::always_inline]] static inline T* lanes_at(std::byte* registers, RegisterOffset offset) {
  return reinterpret_cast<T*>(registers + offset);
}

}  // namespace stagecraft::emulator::machine
