#include "emulator/scheduling/warp_snapshot.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

size_t register_bytes_of(const Warp& warp) { return warp.block->cluster->grid->kernel->register_bytes; }

/// Bytes of each lane's local memory that are in use. The rest of a large stack would be slow to compare.
size_t local_bytes_of(const Warp& warp) {
  size_t recursive = 0;
  for (const auto& fragment : warp.fragments) recursive = std::max<size_t>(recursive, fragment->local_top);
  const size_t used = warp.block->cluster->grid->kernel->local_bytes + recursive;
  return std::min<size_t>(used, warp.local_stride);
}

}  // namespace

WarpSnapshot::FragmentRecord WarpSnapshot::record_of(const Fragment& fragment) {
  return {fragment.pc,
          fragment.mask,
          fragment.state,
          fragment.timed_out,
          fragment.idle_poll_pc,
          fragment.local_frame,
          fragment.return_stack.size()};
}

void WarpSnapshot::take(const Warp& warp) {
  runs_ = warp.runs;
  fragments_.clear();
  for (const auto& fragment : warp.fragments) fragments_.push_back(record_of(*fragment));
  registers_.assign(warp.registers, warp.registers + register_bytes_of(warp));
  local_.clear();
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const std::byte* const own = warp.local + size_t{lane} * warp.local_stride;
    local_.insert(local_.end(), own, own + local_bytes_of(warp));
  }
}

bool WarpSnapshot::has_places_of(const Warp& warp) const {
  if (warp.fragments.size() != fragments_.size()) return false;
  for (size_t i = 0; i < fragments_.size(); ++i) {
    if (!(record_of(*warp.fragments[i]) == fragments_[i])) return false;
  }
  return true;
}

bool WarpSnapshot::matches(const Warp& warp) const {
  if (!has_places_of(warp)) return false;
  for (const auto& fragment : warp.fragments) {
    if (continues_alone(*fragment) && fragment->last_run <= runs_) return false;
  }
  const size_t bytes = local_bytes_of(warp);
  if (local_.size() != bytes * kWarpSize || std::memcmp(registers_.data(), warp.registers, registers_.size()) != 0) {
    return false;
  }
  for (uint32_t lane = 0; bytes != 0 && lane < kWarpSize; ++lane) {
    if (std::memcmp(&local_[lane * bytes], warp.local + size_t{lane} * warp.local_stride, bytes) != 0) return false;
  }
  return true;
}

}  // namespace stagecraft::emulator::machine
