#include <algorithm>
#include <utility>

#include "emulator/trace/instruction_classes.hpp"
#include "emulator/trace/launch_recorder.hpp"

namespace stagecraft::emulator::trace {
namespace {

/// A hash that differs for most shapes that differ; `==` decides.
uint64_t hash_of(const timing::ClusterShape& shape) {
  uint64_t hash = shape.blocks;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u; };
  for (const auto& steps : shape.warps) {
    mix(steps.size());
    for (const timing::Step& step : steps) {
      mix(uint64_t{step.value} << 32 | step.pc);
    }
  }
  mix(shape.operations.size());
  mix(shape.gates.size());
  mix(shape.accesses.size());
  return hash;
}

}  // namespace

void LaunchRecording::begin(const machine::Grid& grid) {
  const std::lock_guard lock(mutex_);
  if (kernel_ != nullptr) return;
  kernel_ = grid.kernel;
  trace_.kernel = kernel_->display_name;
  trace_.code = std::make_shared<const timing::Code>(describe_code(*kernel_));
  trace_.warps_per_block =
      static_cast<uint32_t>((grid.request->block.count() + machine::kWarpSize - 1) / machine::kWarpSize);
}

void LaunchRecording::add(uint64_t number, timing::ClusterShape shape, timing::ClusterTrace trace) {
  const uint64_t hash = hash_of(shape);
  const std::lock_guard lock(mutex_);
  trace.number = number;
  const auto [first, last] = shapes_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& each) { return *each.second == shape; });
  if (same != last) {
    trace.shape = same->second;
  } else {
    trace.shape = shapes_.emplace(hash, std::make_shared<const timing::ClusterShape>(std::move(shape)))->second;
  }
  trace_.clusters.push_back(std::move(trace));
}

timing::LaunchTrace LaunchRecording::take() {
  std::sort(trace_.clusters.begin(), trace_.clusters.end(),
            [](const timing::ClusterTrace& a, const timing::ClusterTrace& b) { return a.number < b.number; });
  return std::move(trace_);
}

}  // namespace stagecraft::emulator::trace
