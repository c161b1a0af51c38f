#include "emulator/exploration/coverage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "emulator/exploration/exploration.hpp"

namespace stagecraft::emulator::exploration {

using machine::Special;

namespace {

bool has_strong_accesses(const machine::Kernel& kernel) {
  return kernel.has_instruction([](const machine::InstructionTraits& traits) {
    return traits.memory != machine::MemoryUse::none && traits.order != machine::AccessOrder::weak;
  });
}

bool fits_at_once(const ExploredLaunch& launch) {
  const machine::LaunchRequest& request = launch.request;
  const uint64_t blocks = launch.machine.residency(*request.kernel, request.block, request.dynamic_shared_bytes).blocks;
  return request.grid.count() <= blocks * launch.machine.architecture().multiprocessors;
}

}  // namespace

void Coverage::add(const ExploredLaunch& launch) {
  const machine::Kernel& kernel = *launch.request.kernel;
  for (const machine::SpecialSlot& slot : kernel.specials) {
    if (slot.special == Special::smid) registers_.insert("%smid");
    if (slot.special == Special::gridid) registers_.insert("%gridid");
  }
  if (kernel.reads_clock) registers_.insert("clocks");
  if (has_strong_accesses(kernel)) parts_.insert("when a strong access of memory becomes visible: at once");
  if (!launch.checks_global) parts_.insert("weak accesses of global memory and what is in fresh memory (--checks all)");
  if (launch.overlaps) parts_.insert("what the launch before still does: it has ended");
  if (kernel.clusters_interact && !fits_at_once(launch)) {
    parts_.insert("the order in which clusters start that do not all fit: that of their numbers");
  }
}

void Coverage::add(const ExploredLaunch& launch, const CopyOutcome& outcome) {
  if (outcome.parts_lanes && !launch.lanes) parts_.insert("whether lanes meet again behind a branch: they do");
  if (outcome.tries_once) parts_.insert("the answer of a try_wait that is not repeated: it waits for the phase");
}

std::set<std::string> Coverage::all() const {
  std::set<std::string> all = parts_;
  if (!registers_.empty()) {
    all.insert(fmt::format("the values of {}: another --seed has others", fmt::join(registers_, ", ")));
  }
  return all;
}

std::string Coverage::text() const {
  return is_complete() ? std::string() : fmt::format("\n  not varied: {}", fmt::join(all(), "; "));
}

nlohmann::json Coverage::json() const { return all(); }

}  // namespace stagecraft::emulator::exploration
