#include <algorithm>
#include <cmath>
#include <utility>

#include "emulator/trace/instruction_classes.hpp"
#include "emulator/trace/launch_recorder.hpp"
#include "emulator/trace/machine_code.hpp"

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
  blocks_ = grid.request->grid.count();
  kernel_ = grid.kernel;
  trace_.kernel = kernel_->display_name;
  trace_.code = std::make_shared<const timing::Code>(describe_code(*kernel_));
  if (!kernel_->machine_code.empty()) {
    trace_.machine_code = std::make_shared<const timing::MachineCode>(describe_machine_code(*kernel_));
  }
  trace_.warps_per_block = machine::warps_of(grid.request->block.count());
  if (resident_ == 0) return;
  const uint64_t cluster = std::max<uint64_t>(grid.request->cluster.count(), 1);
  most_of_cluster_ = std::min(most_of_cluster_, kMost * cluster / std::min(resident_, std::max<uint64_t>(blocks_, 1)));
}

bool LaunchRecording::wants(uint64_t number) const {
  // A few clusters more than kRounds are not worth a guess. Where one was cut, the first round is enough.
  if (resident_ == 0 || number < resident_) return true;
  if (cut_.load(std::memory_order_relaxed)) return false;
  return blocks_ <= (kRounds + 2) * resident_ || number < rounds() * resident_;
}

bool LaunchRecording::needs(uint64_t number) {
  if (wants(number)) return true;
  left_out_ = true;
  return false;
}

void LaunchRecording::count(uint64_t instructions) {
  const std::lock_guard lock(mutex_);
  ++clusters_;
  instructions_ += instructions;
}

void LaunchRecording::add(uint64_t number, timing::ClusterShape shape, timing::ClusterTrace trace, bool thinned) {
  const uint64_t hash = hash_of(shape);
  const std::lock_guard lock(mutex_);
  trace.number = number;
  ++clusters_;
  instructions_ += trace.instructions;
  if (trace.described != trace.instructions) cut_ = true;
  thinned_ = thinned_ || thinned;
  if (number < resident_) {
    uint64_t recorded = trace.lines.size() / 4;
    for (const auto& steps : shape.warps) recorded += steps.size();
    first_round_ += recorded;
  }
  const auto [first, last] = shapes_.equal_range(hash);
  const auto same = std::find_if(first, last, [&](const auto& each) { return *each.second == shape; });
  if (same != last) {
    trace.shape = same->second;
  } else {
    trace.shape = shapes_.emplace(hash, std::make_shared<const timing::ClusterShape>(std::move(shape)))->second;
  }
  trace_.clusters.push_back(std::move(trace));
}

/// What is replayed does not depend on which parts of the grid ran at the same time: the first round where a cluster of
/// it was cut, else as many as rounds() says now that all of the first are known.
void LaunchRecording::choose_extrapolation() {
  trace_.blocks = blocks_;
  const auto is_cut = [](const timing::ClusterTrace& each) { return each.described != each.instructions; };
  const bool cut = std::any_of(trace_.clusters.begin(), trace_.clusters.end(), is_cut);
  uint64_t wanted = blocks_;
  if (resident_ != 0 && blocks_ > (kRounds + 2) * resident_) wanted = rounds() * resident_;
  if (cut) wanted = resident_;
  std::erase_if(trace_.clusters, [&](const auto& each) { return each.number >= wanted; });
  double described = 0, instructions = 0, blocks = 0;
  for (const timing::ClusterTrace& each : trace_.clusters) {
    described += static_cast<double>(each.described);
    instructions += static_cast<double>(each.instructions);
    blocks += each.shape->blocks;
  }
  trace_.left_out = left_out_;
  const double all =
      trace_.left_out ? instructions / blocks * static_cast<double>(blocks_) : static_cast<double>(instructions_);
  if (described == 0 || described == all) return;
  trace_.described_part = described / instructions;
  trace_.thinned = thinned_;
  const double rounds = all / instructions;
  // After a cut nothing is known of how rounds overlap: each begins when the one before has ended.
  trace_.extrapolation = cut ? std::ceil(rounds - 1e-9) / trace_.described_part : rounds;
}

timing::LaunchTrace LaunchRecording::take() {
  std::sort(trace_.clusters.begin(), trace_.clusters.end(),
            [](const timing::ClusterTrace& a, const timing::ClusterTrace& b) { return a.number < b.number; });
  choose_extrapolation();
  return std::move(trace_);
}

}  // namespace stagecraft::emulator::trace
