// The register layouts of mma.sync and wgmma in CUTLASS's notation: a source for tests that is independent of the PTX
// ISA's rules, from which the emulator computes them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stagecraft::emulator::machine::testing {

/// Modes of (size, stride), the fastest first, of a thread's number and of the number of an element in it. The index
/// is row + rows * column. Source: CUTLASS, cute/atom/mma_traits_sm{70,80,90,90_gmma}.hpp.
struct FragmentLayout {
  using Modes = std::vector<std::pair<uint32_t, uint32_t>>;
  Modes threads, values;

  static uint32_t walk(const Modes& modes, uint32_t number) {
    uint32_t index = 0;
    for (const auto& [size, stride] : modes) {
      index += number % size * stride;
      number /= size;
    }
    return index;
  }
  uint32_t index(uint32_t thread, uint32_t value) const { return walk(threads, thread) + walk(values, value); }
  uint32_t value_count() const {
    uint32_t count = 1;
    for (const auto& mode : values) count *= mode.first;
    return count;
  }
};

}  // namespace stagecraft::emulator::machine::testing
