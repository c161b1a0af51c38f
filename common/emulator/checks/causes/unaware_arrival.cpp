// Whether a thread was let pass by others who did not know themselves what they were to tell it.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "emulator/checks/causes/wait_cause.hpp"
#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

/// The signal that is meant for threads which let the wait pass: they have waited for another barrier of its array. If
/// there is none, one for whose array nobody has waited yet.
const WaitCause::Signal& WaitCause::signal_for(const std::vector<Signal>& signals,
                                               const std::vector<uint32_t>& warps) const {
  const auto waited_for_array_of = [&](const Signal& signal, uint32_t warp) {
    const std::string array = variable_of(name(signal.barrier));
    const auto& waits = order_.warp(warp).waits;
    return std::any_of(waits.begin(), waits.end(), [&](const auto& each) {
      return each.second.phases > 0 && variable_of(name(each.first)) == array;
    });
  };
  for (const Signal& signal : signals) {
    if (std::any_of(warps.begin(), warps.end(), [&](uint32_t warp) { return waited_for_array_of(signal, warp); })) {
      return signal;
    }
  }
  const auto all = static_cast<uint32_t>(cluster_.memory.size()) * order_.warps_per_block();
  for (const Signal& signal : signals) {
    bool waited = false;
    for (uint32_t warp = 0; warp < all; ++warp) waited = waited || waited_for_array_of(signal, warp);
    if (!waited) return signal;
  }
  return signals.front();
}

std::string WaitCause::let_pass_by_unaware(const ConflictSide& first, const ConflictSide& second) const {
  const std::vector<Signal> signals = signals_of(first);
  const auto [index, last] = last_wait_of(second);
  if (signals.empty() || last == nullptr || last->phases == 0) return {};
  std::vector<uint32_t> warps;
  uint32_t arrival = 0;
  bool someone_knows = false;
  order_.barrier(index).phases.for_each(last->phases - 1, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait) return;
    if (note.kind != PhaseNote::Kind::arrival || note.block == nullptr) {
      someone_knows = true;  // as far as anybody can say
      return;
    }
    arrival = note.pc;
    warps.push_back(note.block->rank * order_.warps_per_block() + note.warp);
    for (const auto& [waited, wait] : order_.warp(warps.back()).waits) {
      for (const Signal& signal : signals) {
        someone_knows = someone_knows || (signal.barrier == waited && wait.phases > signal.phase);
      }
    }
  });
  if (warps.empty() || someone_knows) return {};
  const Signal& signal = signal_for(signals, warps);
  const std::string signalled = name(signal.barrier);
  std::string elsewhere;
  for (const uint32_t warp : warps) {
    for (const auto& [waited, wait] : order_.warp(warp).waits) {
      if (!elsewhere.empty() || wait.phases == 0 || variable_of(name(waited)) != variable_of(signalled)) continue;
      elsewhere = fmt::format("; {} waited{} for {} last", spell_thread(cluster_, warp, wait.lanes), line(wait.pc),
                              name(waited));
    }
  }
  return fmt::format(
      "the wait{} for {} was let pass by the arrival{}, before which nobody who arrives there had waited for {}, by "
      "which the {} tells that this {} is over{}: does that side take fewer rounds, or arrive too early?",
      line(last->pc), name(index), line(arrival), signalled, spell_signal(signal), first.what, elsewhere);
}

std::string WaitCause::passed_before(const ConflictSide& side, const WaitNote& wait) const {
  for (const auto& [index, note] : order_.warp(side.warp).waits) {
    const bool at_once = note.phases == 0 && note.time <= wait.time && &note != &wait;
    if (!at_once || order_.barrier(index).is_for_copies || (note.lanes & side.lanes) == 0) continue;
    return fmt::format("; or is it a round ahead, because its wait{} for {} before passed at once as well?",
                       line(note.pc), name(index));
  }
  return {};
}

}  // namespace stagecraft::emulator::checks
