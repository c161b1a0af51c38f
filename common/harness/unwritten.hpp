// What a result that is no number says about the kernel.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace stagecraft::harness {

/// The end of a message about a result: ": nothing has been written here" where it is what `DeviceBuffer::poison()`
/// left; another text where the kernel has computed with what is no number; empty where it is a number.
inline const char* spell_unwritten(float result) {
  if (!std::isnan(result)) return "";
  return std::bit_cast<uint32_t>(result) == 0xffffffff
             ? ": nothing has been written here. Does a role lack its warp, or leave its loop too early?"
             : ": this is no number, though all that was given are: the kernel has computed with memory that nobody "
               "wrote";
}

}  // namespace stagecraft::harness
