// Why the phase of an mbarrier does not end at which something has happened before.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"
#include "emulator/checks/reporting/place.hpp"
#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::Fragment;
using machine::Kernel;
using machine::Mbarrier;
using machine::WaitKind;

std::string Sleepers::copy_for_other_blocks(const Fragment& waiter, uint64_t phase, uint64_t missing) const {
  const machine::Block* own = cluster_.block_of(waiter.wait.address);
  const uint32_t offset = waiter.wait.address & machine::kSharedOffsetMask;
  const auto brings = [&](const machine::Block* to, uint32_t pc, const machine::Block* from) {
    const auto found = histories_.find({to, offset});
    bool any = false;
    if (found == histories_.end()) return any;
    found->second.phases.for_each(phase, [&](const PhaseNote& note) {
      any = any || (note.kind == PhaseNote::Kind::bytes && note.pc == pc && note.block == from);
    });
    return any;
  };
  std::string text;
  std::map<std::pair<const machine::Block*, uint32_t>, uint64_t> left_out;  // bytes, by who issued the copy and where
  for (const auto& block : cluster_.blocks) {
    const auto found = histories_.find({block.get(), offset});
    if (block.get() == own || found == histories_.end()) continue;
    found->second.phases.for_each(phase, [&](const PhaseNote& note) {
      if (note.kind != PhaseNote::Kind::bytes || note.block == nullptr) return;
      if (brings(own, note.pc, note.block)) return;
      uint64_t& bytes = left_out[{note.block, note.pc}];
      bytes = std::max(bytes, note.amount);
      if (!text.empty()) return;
      text = fmt::format(
          "the copy that block rank {} issued{} brought its bytes to the barrier of rank {}, and none to that of rank "
          "{}: does its multicast mask, or its target, leave rank {} out?",
          note.block->rank, at_line(*waiter.grid().kernel, note.pc), block->rank, own->rank, own->rank);
    });
  }
  // Where they could not make up for what is missing, they are what other blocks need, and not this one.
  uint64_t bytes = 0;
  for (const auto& [copy, brought] : left_out) bytes += brought;
  return bytes < missing ? std::string() : text;
}

std::string Sleepers::block_without_announcement(const Fragment& waiter, uint64_t phase) const {
  const machine::Block* own = cluster_.block_of(waiter.wait.address);
  const uint32_t offset = waiter.wait.address & machine::kSharedOffsetMask;
  std::string text;
  for (const auto& block : cluster_.blocks) {
    const auto barrier = block->mbarriers.live.find(offset);
    const auto found = histories_.find({block.get(), offset});
    if (block.get() == own || barrier == block->mbarriers.live.end() || found == histories_.end()) continue;
    if (barrier->second.phase != phase || !found->second.arrivers.empty() || barrier->second.transaction >= 0) continue;
    history_of(waiter).phases.for_each(phase, [&](const PhaseNote& here) {
      if (here.kind != PhaseNote::Kind::bytes || here.block != own || !text.empty()) return;
      found->second.phases.for_each(phase, [&](const PhaseNote& there) {
        if (there.kind != here.kind || there.block != here.block || there.pc != here.pc || !text.empty()) return;
        text = fmt::format(
            "the copy that block rank {} issued{} brought bytes to block rank {} as well, where nobody has come to "
            "announce any, nor to bring a part: does only block rank {} take the branch in which that is done?",
            own->rank, at_line(*waiter.grid().kernel, here.pc), block->rank, own->rank);
      });
    });
  }
  return text;
}

Cause Sleepers::cause_of_missing_bytes(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const std::string name = name_of(first);
  const std::string announced = fmt::format("expect_tx announced {} bytes for {}, and {} of them never came",
                                            barrier.announced, name, barrier.transaction);
  if (const std::string absent = block_without_announcement(first, barrier.phase); !absent.empty()) {
    return {9, announced + ": " + absent};
  }
  for (const auto& block : cluster_.blocks) {
    for (const auto& [offset, other] : block->mbarriers.live) {
      if (other.transaction >= 0) continue;
      const std::string of_rank = cluster_.blocks.size() > 1 ? fmt::format(" of block rank {}", block->rank) : "";
      return {9, fmt::format("expect_tx announced {} bytes for {}, and {} of them never came, while {} came to {}{} "
                             "that no expect_tx announced: do copies signal another barrier than the one that waits "
                             "for them?",
                             barrier.announced, name, barrier.transaction, -other.transaction,
                             name_of_barrier(*first.grid().kernel, offset), of_rank)};
    }
  }
  // Where the announced bytes came in an earlier phase, the thread that brings the rest may wait elsewhere.
  const int worth = barrier.phase == 0 ? 9 : 4;
  if (const std::string left_out =
          copy_for_other_blocks(first, barrier.phase, static_cast<uint64_t>(barrier.transaction));
      !left_out.empty()) {
    return {worth, announced + ": " + left_out};
  }
  const std::string came = history_of(first).phases.describe_bytes(barrier.phase, *first.grid().kernel);
  if (came.empty() && barrier.transaction == barrier.announced) {
    // The thread that is to ask for the copy may still wait elsewhere, and know more than this wait.
    return {std::min(worth, 7),
            fmt::format("{}: they were announced{}, and no copy has signalled this phase. Is the copy missing, or does "
                        "nothing have to come where it is announced?",
                        announced, announced_at(history_of(first), barrier.phase))};
  }
  const int64_t brought = barrier.announced - barrier.transaction;
  const auto blocks = static_cast<int64_t>(cluster_.blocks.size());
  const bool is_of_all = blocks > 1 && brought * blocks == barrier.announced;
  return {worth,
          fmt::format("{}: do the copies that signal it bring fewer bytes than were announced{}?{}{}", announced,
                      announced_at(history_of(first), barrier.phase),
                      came.empty() ? std::string() : fmt::format(" They brought {}", came),
                      is_of_all
                          ? fmt::format(". The announced bytes are {} times those that came, and there are {} blocks: "
                                        "each barrier counts only what comes to its own block",
                                        blocks, blocks)
                          : std::string())};
}

std::string Sleepers::announced_at(const BarrierHistory& history, uint64_t phase) const {
  std::string line;
  history.phases.for_each(phase, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::announcement) line = at_line(*cluster_.grid->kernel, note.pc);
  });
  return line;
}

std::string Sleepers::cause_of_surplus_bytes(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const std::string name = name_of(first);
  for (const auto& block : cluster_.blocks) {
    for (const auto& [offset, other] : block->mbarriers.live) {
      const auto history = histories_.find({block.get(), offset});
      if (other.transaction <= 0 || other.transaction != other.announced || history == histories_.end()) continue;
      const std::string of_rank = cluster_.blocks.size() > 1 ? fmt::format(" of block rank {}", block->rank) : "";
      return fmt::format(
          "copies brought {} bytes to {} that no expect_tx announced, while {} were announced for {}{}{} and never "
          "came: is that announcement, or the copy, meant for the other barrier?",
          -barrier.transaction, name, other.announced, name_of_barrier(kernel, offset), of_rank,
          announced_at(history->second, other.phase));
    }
  }
  std::string text =
      fmt::format("copies brought {} bytes to {} that no expect_tx announced", -barrier.transaction, name);
  const BarrierHistory& history = history_of(first);
  if (const std::string came = history.phases.describe_bytes(barrier.phase, kernel); !came.empty()) {
    text += fmt::format(": they brought {}", came);
    if (barrier.announced != 0) {
      text += fmt::format(", and {} were announced{}", barrier.announced, announced_at(history, barrier.phase));
    }
  }
  return text;
}

std::string Sleepers::phase_of_half_the_arrivals(const Fragment& waiter, const Mbarrier& barrier,
                                                 uint64_t phase) const {
  const PhaseHistory& phases = history_of(waiter).phases;
  const auto arrivals = [&](uint64_t of) {
    std::vector<PhaseNote> notes;
    phases.for_each(of, [&](const PhaseNote& note) {
      if (note.kind == PhaseNote::Kind::arrival) notes.push_back(note);
    });
    return notes;
  };
  const std::vector<PhaseNote> some = arrivals(phase), others = arrivals(phase + 1);
  if (some.empty() || others.empty()) return {};
  for (const PhaseNote& one : some) {
    for (const PhaseNote& other : others) {
      if (one.pc != other.pc) return {};
      if (one.block == other.block && one.warp == other.warp && (one.lanes & other.lanes) != 0) return {};
    }
  }
  const auto who = [](const std::vector<PhaseNote>& notes) {
    const PhaseNote& note = notes.front();
    return fmt::format("block rank {} warp {} [{}]", note.block == nullptr ? 0 : note.block->rank, note.warp,
                       describe_lanes(note.lanes));
  };
  const Kernel& kernel = *waiter.grid().kernel;
  return fmt::format(
      "{} is initialised{} for {} arrival{} per phase, and more come in one round{}: {} ended phase {}, and {}, which "
      "had not arrived in it, the next. Initialise it for all of them",
      name_of(waiter), at_line(kernel, barrier.initialised.pc), barrier.expected, barrier.expected == 1 ? "" : "s",
      at_line(kernel, some.front().pc), who(some), phase, who(others));
}

std::string Sleepers::phases_missed(const Fragment& waiter, const Mbarrier& barrier) const {
  const BarrierHistory& history = history_of(waiter);
  const auto own = std::find_if(history.waiters.begin(), history.waiters.end(), [&](const auto& each) {
    return each.block == &waiter.block() && each.warp == waiter.warp->index;
  });
  const uint64_t seen = own == history.waiters.end() ? 0 : own->phases;
  const Kernel& kernel = *waiter.grid().kernel;
  const std::string name = name_of(waiter);
  if (own != history.waiters.end() && own->skipped_to != 0) {
    return fmt::format(
        "when a wait of warp {} for {} passed, {} of its phases had ended, {} more than at the wait before: nothing "
        "makes the side that arrives there wait until each phase has been seen, so it runs ahead, or a wait is missing",
        waiter.warp->index, name, own->skipped_to, own->skipped_to - own->skipped_from);
  }
  if (barrier.phase < seen + 2) return {};
  const std::string one = history.phases.describe_arrivals(seen, kernel);
  const std::string other = history.phases.describe_arrivals(seen + 1, kernel);
  if (one.empty() || other.empty()) return {};
  if (const std::string few = phase_of_half_the_arrivals(waiter, barrier, seen); !few.empty()) return few;
  if (one == other) {
    return fmt::format(
        "phases {} and {} of {} ended with no wait of warp {} in between, both by {}: nothing makes the side that "
        "arrives there wait until the phase before has been seen, so it runs ahead",
        seen, seen + 1, name, waiter.warp->index, one);
  }
  return fmt::format(
      "phases {} and {} of {} ended with no wait of warp {} in between, the one by {}, the other by {}: are these two "
      "arrivals for one round, or is a wait between them missing?",
      seen, seen + 1, name, waiter.warp->index, one, other);
}

std::string Sleepers::arrivals_of_itself(const Group& group) const {
  const Fragment& first = *group.first;
  const BarrierHistory& history = history_of(first);
  const std::vector<BarrierHistory::Arriver>& arrivers = history.arrivers;
  const bool own = arrivers.size() == 1 && arrivers.front().block == &first.block() &&
                   arrivers.front().warp == first.warp->index && (arrivers.front().lanes & ~first.mask) == 0;
  const auto waits_elsewhere = [&](const BarrierHistory::Waiter& waiter) {
    return waiter.block != &first.block() || waiter.warp != first.warp->index;
  };
  // The others that wait there are those for whom it arrives.
  if (!own || history.arrived_by_operation ||
      std::none_of(history.waiters.begin(), history.waiters.end(), waits_elsewhere)) {
    return {};
  }
  return fmt::format(
      "warp {} waits for {}, at which only itself has ever arrived, for others that wait there: is it to wait for "
      "another barrier?",
      first.warp->index, name_of(first));
}

Cause Sleepers::cause_after_phases(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const std::string name = name_of(first);
  const BarrierHistory& history = history_of(first);
  if (const std::string missed = phases_missed(first, barrier); !missed.empty()) return {6, missed};
  if (std::string own_side = arrival_where_its_side_waits(group); !own_side.empty()) return {9, std::move(own_side)};
  if (barrier.phase == 1 && !history.was_waited_for) {
    const std::string by = history.phases.describe_arrivals(0, *first.grid().kernel);
    return {6, fmt::format(
                   "{} completed phase 0{} before anybody waited for it, and the first wait is for phase 1. A consumer "
                   "begins with parity 0, that of the first phase; one that begins with parity 1, or does not wait at "
                   "all, releases its slot before it is filled",
                   name, by.empty() ? by : fmt::format(", by {},", by))};
  }
  if (const std::string unseen = phase_that_nobody_saw(group); !unseen.empty()) {
    return {6,
            fmt::format("nobody has arrived at {} since its phase {}, and {}: does the side that waits for it and then "
                        "arrives at {} take fewer rounds?",
                        name, barrier.phase - 1, unseen, name)};
  }
  if (std::string own = arrivals_of_itself(group); !own.empty()) return {7, std::move(own)};
  if (std::string needless = nothing_given_since(group); !needless.empty()) return {6, std::move(needless)};
  std::string text = fmt::format("{} completed phase {} and nobody has arrived since", name, barrier.phase - 1);
  const auto at_rendezvous = std::find_if(group.needs.begin(), group.needs.end(), [&](size_t index) {
    const WaitKind kind = groups_[index].first->wait.kind;
    return kind == WaitKind::named_barrier || kind == WaitKind::cluster_barrier;
  });
  if (at_rendezvous != group.needs.end()) {
    const Group& other = groups_[*at_rendezvous];
    text += fmt::format(": {}, which did before, {} by now. Did it end one round early, or", describe_warps(other),
                        describe_wait(*other.first));
  } else {
    text += group.needs.empty() ? ", and those who did before have ended: did they end one round early, or"
                                : ": did the other side end one round early, or";
  }
  return {5, text + " does the waiter ask for the parity of a phase that is still to come?"};
}

Cause Sleepers::cause_at_mbarrier(const Group& group, const Mbarrier& barrier) const {
  const Fragment& first = *group.first;
  const std::string name = name_of(first);
  const BarrierHistory& history = history_of(first);
  const Kernel& kernel = *first.grid().kernel;
  if (history.initialisations.size() > 1) {
    const auto& one = history.initialisations.front();
    const auto& other = history.initialisations.back();
    if (one.pc != other.pc && one.count != other.count) {
      return {9, fmt::format("{} is initialised{} for {} arrival{}, and then{} for {}: do two barriers share one "
                             "address?",
                             name, at_line(kernel, one.pc), one.count, one.count == 1 ? "" : "s",
                             at_line(kernel, other.pc), other.count)};
    }
  }
  if (barrier.pending == 0 && barrier.transaction > 0) return cause_of_missing_bytes(group, barrier);
  if (barrier.transaction < 0) return {9, cause_of_surplus_bytes(group, barrier)};
  if (history.overrun_lanes != 0) {
    return {9, fmt::format(
                   "{} lanes arrived at {} in one instruction{}, which ended {} of its phases at once, because each "
                   "takes {} arrival{}: initialise it for all that arrive in a phase, or let one elected lane "
                   "arrive",
                   std::popcount(history.overrun_lanes), name, at_line(kernel, history.overrun_pc),
                   history.overrun_phases, barrier.expected, barrier.expected == 1 ? "" : "s")};
  }
  if (barrier.pending > 0 && barrier.pending < barrier.expected) return cause_of_missing_arrivals(group, barrier);
  return barrier.phase > 0 ? cause_after_phases(group, barrier) : cause_without_arrival(group, name);
}

}  // namespace stagecraft::emulator::checks
