#include "emulator/translation/register_file.hpp"

#include <fmt/format.h>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kVectorAlignment = 64;
/// The numbers of a file are 32 bits wide, and a text of a few bytes must not cost the memory of the host.
constexpr uint64_t kMostRegisterBytes = uint64_t{64} << 20;

}  // namespace

RegisterOffset RegisterFile::allocate(uint32_t bytes_per_lane) {
  // Predicates are one word each; giving each a cache line would waste the cache that wide registers need.
  if (bytes_per_lane == 0) {
    const RegisterOffset offset = next_;
    next_ += sizeof(LaneMask);
    return offset;
  }
  return allocate_area(bytes_per_lane * kWarpSize);
}

RegisterOffset RegisterFile::allocate_area(uint32_t bytes) {
  next_ = static_cast<uint32_t>(align_up(next_, kVectorAlignment));
  if (bytes > kMostRegisterBytes - next_) {
    throw ptx::SyntaxError(
        fmt::format("the registers and call parameters of `{}` and of what it calls take more than {} MiB for a warp",
                    kernel_.entry->name, kMostRegisterBytes >> 20),
        kernel_.entry->position, "fewer functions with large parameters");
  }
  const RegisterOffset offset = next_;
  next_ += bytes;
  return offset;
}

RegisterOffset RegisterFile::constant(uint64_t low, uint64_t high, uint32_t bytes_per_lane) {
  if (bytes_per_lane == 0) low = low != 0;
  if (bytes_per_lane == 2) low &= 0xffff;
  if (bytes_per_lane == 4) low &= 0xffffffff;
  const auto [entry, is_new] = constants_.try_emplace({low, high, bytes_per_lane}, 0);
  if (is_new) {
    entry->second = allocate(bytes_per_lane);
    kernel_.constants.push_back({entry->second, static_cast<uint8_t>(bytes_per_lane), low, high});
  }
  return entry->second;
}

RegisterOffset RegisterFile::special(Special special, uint32_t bytes_per_lane, uint32_t parameter) {
  const auto [entry, is_new] = specials_.try_emplace({special, bytes_per_lane, parameter}, 0);
  if (is_new) {
    entry->second = allocate(bytes_per_lane);
    kernel_.specials.push_back({entry->second, special, static_cast<uint8_t>(bytes_per_lane), parameter});
  }
  return entry->second;
}

uint32_t RegisterFile::bytes() const { return static_cast<uint32_t>(align_up(next_, kVectorAlignment)); }

}  // namespace stagecraft::emulator::machine
