#include "emulator/checks/tensor_memory/leak_check.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "emulator/checks/reporting/place.hpp"
#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::checks {

namespace {

constexpr const char* kKind = "tensor memory leak";

}  // namespace

void LeakCheck::grid_started(const machine::Grid& grid) { findings_.start(*grid.kernel); }

void LeakCheck::block_finished(const machine::Block& block) {
  const machine::TensorMemory* memory = block.sm->tensor_memory.get();
  if (memory == nullptr) return;
  const std::vector<std::string> leaks = memory->leaks(block);
  if (leaks.empty()) return;
  auto identity = findings_.claim_kind(kKind);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = kKind;
  finding.message = leaks.front();
  finding.place = place_of(block);
  finding.details.assign(leaks.begin() + 1, leaks.end());
  finding.likely_cause =
      memory->has_allocation(block)
          ? "tcgen05.dealloc is missing on the way out of the kernel"
          : "nobody has waited for the barrier that the last tcgen05.commit arrives on, or there is no "
            "such commit";
  machine::Cycle end = 0;
  for (const machine::Warp& warp : block.warps) end = std::max(end, warp.clock);
  findings_.add(end, std::move(*identity), std::move(finding));
}

}  // namespace stagecraft::emulator::checks
