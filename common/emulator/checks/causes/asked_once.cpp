#include "emulator/checks/causes/asked_once.hpp"

#include <set>
#include <vector>

#include "emulator/checks/causes/control_flow.hpp"

namespace stagecraft::emulator::checks {

bool is_asked_once(const machine::Kernel& kernel, uint32_t pc) {
  if (!kernel.traits_at(pc).polls) return false;
  const ptx::Function& function = *kernel.places[pc].function;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(&function);
  const uint32_t wait = kernel.places[pc].instruction;
  std::set<uint32_t> seen;
  std::vector<uint32_t> open{wait + 1};
  bool branches = false;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (at == wait) return false;
    if (at >= traits.size() || !seen.insert(at).second) continue;
    if (traits[at].ends_polling) continue;
    const auto next = successors(kernel, function, at);
    if (!next) continue;
    branches = branches || next->size() > 1;
    open.insert(open.end(), next->begin(), next->end());
  }
  return branches;
}

}  // namespace stagecraft::emulator::checks
