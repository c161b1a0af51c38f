// Why the bytes of a phase of an mbarrier do not add up.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "emulator/checks/deadlock/causes.hpp"
#include "emulator/checks/deadlock/other_barriers.hpp"
#include "emulator/checks/deadlock/wording.hpp"
#include "emulator/checks/reporting/place.hpp"

namespace stagecraft::emulator::checks {

using machine::Block;
using machine::Fragment;
using machine::Kernel;
using machine::Mbarrier;

namespace {

/// "expect_tx announced 64 bytes for full[0], and 32 of them never came"
std::string missing_bytes(const Sleepers& sleepers, const Fragment& waiter) {
  const Mbarrier& barrier = *sleepers.barrier_of(waiter);
  return fmt::format("expect_tx announced {} bytes for {}, and {} of them never came", barrier.announced,
                     name_of_barrier(waiter), barrier.transaction);
}

/// " at ring.cu:41": where bytes were announced in a phase; empty: nowhere.
std::string announced_at(const Kernel& kernel, const BarrierHistory& history, uint64_t phase) {
  std::string line;
  history.phases.for_each(phase, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::announcement) line = at_line(kernel, note.pc);
  });
  return line;
}

/// " of block rank 1", where there are several.
std::string of_rank(const machine::Cluster& cluster, const Block& block) {
  return cluster.blocks.size() > 1 ? fmt::format(" of block rank {}", block.rank) : "";
}

/// Where nothing was announced in this phase of a group's barrier: the announcement that came in the phase before, or
/// at another barrier of its array; empty: none did.
std::string announced_elsewhere(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const uint64_t phase = sleepers.barrier_of(first)->phase;
  const auto describe = [&](const std::string& line, const std::string& of) {
    return line.empty() ? line
                        : fmt::format(
                              ". The announcement{} came for {}, and not for phase {} of {}{}: is it in a branch "
                              "that is not taken each time?",
                              line, of, phase, name_of_barrier(first),
                              of_rank(sleepers.cluster(), *sleepers.block_of_barrier(first)));
  };
  if (phase > 0) {
    const std::string line = announced_at(kernel, sleepers.history_of(first), phase - 1);
    if (!line.empty()) return describe(line, fmt::format("phase {}", phase - 1));
  }
  for (const OtherBarrier& sibling : siblings_of(sleepers, group, offset_of(first))) {
    for (uint64_t other = sibling.barrier->phase + 1; other-- > 0 && other + 2 > sibling.barrier->phase;) {
      const std::string line = announced_at(kernel, *sibling.history, other);
      if (!line.empty()) return describe(line, fmt::format("phase {} of {}", other, sibling.name));
    }
  }
  for (const auto& block : sleepers.cluster().blocks) {
    const BarrierHistory* history = sleepers.history_at(block.get(), offset_of(first));
    if (history == nullptr) continue;
    const std::string line = announced_at(kernel, *history, phase);
    if (!line.empty()) return describe(line, fmt::format("the barrier of block rank {}", block->rank));
  }
  return {};
}

}  // namespace

std::string one_block_announces_for_both(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const uint64_t phase = sleepers.barrier_of(first)->phase;
  const Block* own = sleepers.block_of_barrier(first);
  const uint32_t offset = offset_of(first);
  std::string absent;
  for (const auto& block : sleepers.cluster().blocks) {
    const auto barrier = block->mbarriers.live.find(offset);
    const BarrierHistory* history = sleepers.history_at(block.get(), offset);
    if (block.get() == own || barrier == block->mbarriers.live.end() || history == nullptr) continue;
    if (barrier->second.phase != phase || !history->arrivers.empty() || barrier->second.transaction >= 0) continue;
    sleepers.history_of(first).phases.for_each(phase, [&](const PhaseNote& here) {
      if (here.kind != PhaseNote::Kind::bytes || here.block != own || !absent.empty()) return;
      history->phases.for_each(phase, [&](const PhaseNote& there) {
        if (there.kind != here.kind || there.block != here.block || there.pc != here.pc || !absent.empty()) return;
        absent = fmt::format(
            "the copy that block rank {} issued{} brought bytes to block rank {} as well, where nobody has come to "
            "announce any, nor to bring a part: does only block rank {} take the branch in which that is done?",
            own->rank, at_line(*first.grid().kernel, here.pc), block->rank, own->rank);
      });
    });
  }
  return absent.empty() ? absent : missing_bytes(sleepers, first) + ": " + absent;
}

std::string copies_signal_another_barrier(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  for (const auto& block : sleepers.cluster().blocks) {
    for (const auto& [offset, other] : block->mbarriers.live) {
      if (other.transaction >= 0) continue;
      return fmt::format(
          "{}, while {} came to {}{} that no expect_tx announced: do copies signal another barrier than the one that "
          "waits for them?",
          missing_bytes(sleepers, first), -other.transaction, name_of_barrier(*first.grid().kernel, offset),
          of_rank(sleepers.cluster(), *block));
    }
  }
  return {};
}

std::string copy_leaves_a_block_out(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const uint64_t phase = barrier.phase;
  const Block* own = sleepers.block_of_barrier(first);
  const uint32_t offset = offset_of(first);
  const auto comes_here = [&](uint32_t pc, const Block* from) {
    bool any = false;
    sleepers.history_of(first).phases.for_each(phase, [&](const PhaseNote& note) {
      any = any || (note.kind == PhaseNote::Kind::bytes && note.pc == pc && note.block == from);
    });
    return any;
  };
  std::string text;
  std::map<std::pair<const Block*, uint32_t>, uint64_t> left_out;  // bytes, by who issued the copy and where
  for (const auto& block : sleepers.cluster().blocks) {
    const BarrierHistory* history = sleepers.history_at(block.get(), offset);
    if (block.get() == own || history == nullptr) continue;
    history->phases.for_each(phase, [&](const PhaseNote& note) {
      if (note.kind != PhaseNote::Kind::bytes || note.block == nullptr || comes_here(note.pc, note.block)) return;
      uint64_t& bytes = left_out[{note.block, note.pc}];
      bytes = std::max(bytes, note.amount);
      if (!text.empty()) return;
      text = fmt::format(
          "{}: the copy that block rank {} issued{} brought its bytes to the barrier of rank {}, and none to that of "
          "rank {}: does its multicast mask, or its target, leave rank {} out?",
          missing_bytes(sleepers, first), note.block->rank, at_line(*first.grid().kernel, note.pc), block->rank,
          own->rank, own->rank);
    });
  }
  // Where they could not make up for what is missing, they are what other blocks need, and not this one.
  uint64_t bytes = 0;
  for (const auto& [copy, brought] : left_out) bytes += brought;
  return bytes < static_cast<uint64_t>(barrier.transaction) ? std::string() : text;
}

std::string copy_never_comes(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const BarrierHistory& history = sleepers.history_of(first);
  if (barrier.transaction != barrier.announced || !history.phases.describe_bytes(barrier.phase, kernel).empty()) {
    return {};
  }
  return fmt::format(
      "{}: they were announced{}, and no copy has signalled this phase. Is the copy missing, or does nothing have to "
      "come where it is announced?",
      missing_bytes(sleepers, first), announced_at(kernel, history, barrier.phase));
}

std::string copies_bring_too_few(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  const BarrierHistory& history = sleepers.history_of(first);
  const std::string came = history.phases.describe_bytes(barrier.phase, kernel);
  const int64_t brought = barrier.announced - barrier.transaction;
  const auto blocks = static_cast<int64_t>(sleepers.cluster().blocks.size());
  const bool is_of_all = blocks > 1 && brought * blocks == barrier.announced;
  return fmt::format(
      "{}: do the copies that signal it bring fewer bytes than were announced{}?{}{}", missing_bytes(sleepers, first),
      announced_at(kernel, history, barrier.phase), came.empty() ? std::string() : fmt::format(" What came: {}", came),
      is_of_all ? fmt::format(". The announced bytes are {} times those that came, and there are {} blocks: "
                              "each barrier counts only what comes to its own block",
                              blocks, blocks)
                : std::string());
}

std::string bytes_announced_at_another_barrier(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  for (const auto& block : sleepers.cluster().blocks) {
    for (const auto& [offset, other] : block->mbarriers.live) {
      const BarrierHistory* history = sleepers.history_at(block.get(), offset);
      if (other.transaction <= 0 || other.transaction != other.announced || history == nullptr) continue;
      return fmt::format(
          "copies brought {} bytes to {} that no expect_tx announced, while {} were announced for {}{}{} and never "
          "came: is that announcement, or the copy, meant for the other barrier?",
          -sleepers.barrier_of(first)->transaction, name_of_barrier(first), other.announced,
          name_of_barrier(kernel, offset), of_rank(sleepers.cluster(), *block),
          announced_at(kernel, *history, other.phase));
    }
  }
  return {};
}

std::string copies_bring_too_many(const Sleepers& sleepers, const Group& group) {
  const Fragment& first = *group.first;
  const Kernel& kernel = *first.grid().kernel;
  const Mbarrier& barrier = *sleepers.barrier_of(first);
  std::string text = fmt::format("copies brought {} bytes to {} that no expect_tx announced", -barrier.transaction,
                                 name_of_barrier(first));
  const BarrierHistory& history = sleepers.history_of(first);
  if (const std::string came = history.phases.describe_bytes(barrier.phase, kernel); !came.empty()) {
    text += fmt::format(": they brought {}", came);
    if (barrier.announced != 0) {
      text += fmt::format(", and {} were announced{}", barrier.announced, announced_at(kernel, history, barrier.phase));
    }
  }
  return barrier.announced == 0 ? text + announced_elsewhere(sleepers, group) : text;
}

}  // namespace stagecraft::emulator::checks
