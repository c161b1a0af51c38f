// Host memory whose alignment suits the host's vector instructions.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace stagecraft::emulator::machine {

/// Allocates at the beginning of a cache line of the host: data that a kernel has aligned is then aligned on the host
/// too.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <typename Other>
  LineAllocator(const LineAllocator<Other>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* place, size_t) { ::operator delete(place, kLine); }
  bool operator==(const LineAllocator&) const = default;
};

using AlignedBytes = std::vector<std::byte, LineAllocator<std::byte>>;

}  // namespace stagecraft::emulator::machine
