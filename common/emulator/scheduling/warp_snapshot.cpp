#include "emulator/scheduling/warp_snapshot.hpp"

#include <cstring>

#include "emulator/state/fragments.hpp"

namespace stagecraft::emulator::machine {

namespace {

size_t register_bytes_of(const Warp& warp) { return warp.block->cluster->grid->kernel->register_bytes; }
size_t local_bytes_of(const Warp& warp) { return size_t{warp.local_stride} * kWarpSize; }

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
  local_.assign(warp.local, warp.local + local_bytes_of(warp));
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
  return std::memcmp(registers_.data(), warp.registers, registers_.size()) == 0 &&
         (local_.empty() || std::memcmp(local_.data(), warp.local, local_.size()) == 0);
}

}  // namespace stagecraft::emulator::machine
