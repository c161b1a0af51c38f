// How this processor rounds, for a while. For files that are compiled once per level of x86-64 (isa_level.hpp): so
// everything is in an unnamed namespace.
#pragma once

#include <cstdint>
#if !defined(__x86_64__)
#include <cfenv>
#endif

namespace stagecraft::emulator::machine {
namespace {

/// Makes arithmetic of this thread round as `mode` says while it lives: 0 to nearest, 1 down, 2 up, 3 towards zero, as
/// in MXCSR. Values that are computed meanwhile must go through memory, as those in the register file do.
class RoundingScope {
 public:
  static constexpr uint64_t kTowardsZero = 3;

#if defined(__x86_64__)
  explicit RoundingScope(uint64_t mode) {
    asm volatile("stmxcsr %0" : "=m"(saved_) : : "memory");
    const uint32_t changed = (saved_ & ~0x6000u) | static_cast<uint32_t>(mode & 3u) << 13;
    asm volatile("ldmxcsr %0" : : "m"(changed) : "memory");
  }
  ~RoundingScope() { asm volatile("ldmxcsr %0" : : "m"(saved_) : "memory"); }

 private:
  uint32_t saved_;
#else
  explicit RoundingScope(uint64_t mode) : saved_(fegetround()) {
    constexpr int kModes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    fesetround(kModes[mode & 3u]);
    asm volatile("" : : : "memory");
  }
  ~RoundingScope() {
    asm volatile("" : : : "memory");
    fesetround(saved_);
  }

 private:
  int saved_;
#endif
 public:
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

}  // namespace
}  // namespace stagecraft::emulator::machine
