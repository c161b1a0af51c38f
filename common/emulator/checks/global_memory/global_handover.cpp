// Why the releases and acquires that a program makes do not order two accesses of global memory: from the record, which
// release an acquire has read from, and what that release does not speak for.
#include <fmt/format.h>

#include <utility>

#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "emulator/checks/ordering/wording.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::LaneMask;

/// Those of the lanes whose past access a release does not pass on.
LaneMask GlobalMemoryCheck::not_covered(const ReleaseNote& release, const GlobalRecord& past, LaneMask lanes) const {
  if (past.is(GlobalRecord::kAsync)) return lanes;
  LaneMask open = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    const bool own = release.warp == past.agent && release.lane == lane && past.time <= release.time;
    if (!own && !knows_lanes(*release.released, past.agent, 1u << lane, past.time)) open |= 1u << lane;
  });
  return open;
}

std::string GlobalMemoryCheck::spell_acquire(Present& now, const AcquireNote& acquire, uint32_t warp, uint32_t lane) {
  const std::string line = line_of(now.cluster, acquire.pc);
  if (warp == now.warp && (acquire.lanes >> lane & 1) != 0)
    return fmt::format("this thread's read of the flag{}", line);
  return fmt::format("the read of the flag by {}{}", spell_thread(now.cluster, warp, acquire.lanes), line);
}

std::string GlobalMemoryCheck::spell_releaser(const ReleaseNote& release) const {
  GlobalRecord by;
  by.cluster = release.cluster;
  by.agent = release.warp;
  return history_->spell_agent(by, 1u << release.lane);
}

/// Whether other threads of the block have learnt of a past access, which this one does not know.
std::optional<GlobalMemoryCheck::Handover> GlobalMemoryCheck::known_to_others(Present& now, const GlobalRecord& past,
                                                                              LaneMask past_lanes, uint32_t lane) {
  const uint32_t warps = now.order.warps_per_block(), first = now.warp / warps * warps;
  for (uint32_t i = 0; i < warps; ++i) {
    const uint32_t warp = first + (now.warp - first + i) % warps;
    Present other = now;
    other.warp = warp;
    for (const AcquireNote& note : now.state.warps[warp].acquires) {
      const uint32_t reader = machine::first_lane(note.lanes);
      const auto* const releases = releases_.of(note.address);
      if ((warp == now.warp && (note.lanes >> lane & 1) != 0) || releases == nullptr) continue;
      const bool is_from_there = std::any_of(releases->begin(), releases->end(), [&](const ReleaseNote& release) {
        return release.cluster == past.cluster && release.number < note.number;
      });
      if (!is_from_there || !knows(other, past, past_lanes, 1u << reader)) continue;
      const bool same_warp = warp == now.warp;
      const char* const barrier = same_warp ? "__syncwarp()" : "__syncthreads()";
      return Handover{
          fmt::format("nothing orders the two: {} has read the flag{} and knows of it, and no {} is between that "
                      "and this access, which is by another thread",
                      spell_thread(now.cluster, warp, 1u << reader), line_of(now.cluster, note.pc), barrier),
          fmt::format("a {} after the read of the flag{}, before {} use what it guards", barrier,
                      line_of(now.cluster, note.pc), same_warp ? "the other lanes" : "the other threads")};
    }
  }
  return std::nullopt;
}

GlobalMemoryCheck::Handover GlobalMemoryCheck::explain_pair(Present& now, const GlobalRecord& past, LaneMask past_lanes,
                                                            const Pair& pair, uint32_t lane) {
  const ReleaseNote& release = *pair.release;
  const LaneMask open = not_covered(release, past, past_lanes);
  const std::string& line = history_->site(release.site).line;
  const std::string& past_line = history_->site(past.site).line;
  const std::string read =
      fmt::format("nothing orders the two: {} has read what {} released at {}",
                  spell_acquire(now, *pair.acquire, pair.warp, lane), spell_releaser(release), line);
  if (past.is(GlobalRecord::kAsync)) {
    return {fmt::format("{}, and that thread had not waited for the end of the copy", read),
            fmt::format("wait for the copy's mbarrier before the release at {}", line)};
  }
  if (release.warp == past.agent && (open >> release.lane & 1) != 0) {
    if (past.is(GlobalRecord::kBulkStore)) {
      return {fmt::format("{}; but only later did that thread wait until the copy had written", read),
              fmt::format("wait with cp.async.bulk.wait_group 0, without .read, before the release at {}: .read waits "
                          "for the reading of shared memory only",
                          line)};
    }
    if (release.fence_site != 0) {
      const std::string& fence = history_->site(release.fence_site).line;
      return {fmt::format("{}; but its fence at {} comes before that access, and so does not release it", read, fence),
              fmt::format("a __threadfence() between {} and {}", past_line, line)};
    }
    return {fmt::format("{}; but that release comes before the access at {}, and so does not speak for it", read,
                        past_line),
            fmt::format("release (at {}) after the last access that the other block is to come after, at {}", line,
                        past_line)};
  }
  if (release.fence_site != 0 && knows_lanes(*release.known, past.agent, open, past.time)) {
    const std::string& fence = history_->site(release.fence_site).line;
    return {fmt::format("{}; that thread knew of the access by then, but not yet at its last fence, at {}, which is "
                        "what the release speaks for",
                        read, fence),
            fmt::format("a __threadfence() in the thread that executes {}, after the barrier and before that line: the "
                        "fences of other threads do not do it",
                        line)};
  }
  const uint32_t warps = history_->cluster(past.cluster).warps_per_block;
  const bool same_block = release.warp / warps == past.agent / warps;
  // The other warps of the block mostly do the same.
  const char* const barrier = !same_block ? "barrier of the cluster" : warps == 1 ? "__syncwarp()" : "__syncthreads()";
  return {fmt::format("{}; that release speaks for what its thread has done and learnt, and it had not learnt of the "
                      "access at {}",
                      read, past_line),
          fmt::format("a {} between {} and {}, so that the thread which releases knows what the others have done",
                      barrier, past_line, release.fence_site != 0 ? history_->site(release.fence_site).line : line)};
}

/// Whether a strong read has read what a thread of the past access' cluster wrote without releasing anything.
std::optional<GlobalMemoryCheck::Handover> GlobalMemoryCheck::relaxed_writer(Present& now, const GlobalRecord& past,
                                                                             const AcquireNote& acquire, uint32_t warp,
                                                                             uint32_t lane) {
  GlobalAllocation* const allocation = history_->shadow().find_known(acquire.address);
  if (allocation == nullptr) return std::nullopt;
  // Blocks that count do so by one instruction: of others than the last nothing may be left.
  const bool any_block = releases_.of(acquire.address) == nullptr;
  GlobalEntry writer;
  const auto look_at = [&](GlobalEntry entry) {
    if (entry.record() < history_->first_record() || entry.record() == 0) return;
    const GlobalRecord& record = history_->record(entry.record());
    const bool counts = any_block && record.is(GlobalRecord::kObserves);
    if ((record.cluster == past.cluster || counts) && record.is(GlobalRecord::kStrong) &&
        !record.is(GlobalRecord::kBulkStore)) {
      writer = entry;
    }
  };
  for_each_cell(history_->shadow(), *allocation, acquire.address - allocation->address, 1, false,
                [&](GlobalCell& cell, uint64_t at, uint32_t bytes, GlobalSector&) {
                  hidden_.for_each(allocation->address + at, bytes,
                                   [&](GlobalEntry entry, const HiddenWrite&) { look_at(entry); });
                  look_at(cell.write);
                });
  if (writer.record() == 0) return std::nullopt;
  const SiteNote& site = history_->site(history_->record(writer.record()).site);
  return Handover{fmt::format("nothing orders the two: {} has read what is written at {}, but that {} is relaxed, and "
                              "no fence is before it: it releases nothing",
                              spell_acquire(now, acquire, warp, lane), site.line, site.instruction),
                  fmt::format("a __threadfence() before {}, in the same thread and after the last access that it "
                              "announces; or memory_order_release there",
                              site.line)};
}

/// Whether a release covers the past access, from which nobody that this thread knows has acquired.
std::optional<GlobalMemoryCheck::Handover> GlobalMemoryCheck::not_acquired(Present& now, const GlobalRecord& past,
                                                                           LaneMask past_lanes, uint32_t lane) {
  const ReleaseNote* found = nullptr;
  uint64_t address = 0;
  releases_.for_each([&](uint64_t at, const ReleaseNote& release) {
    if (release.cluster != past.cluster || not_covered(release, past, past_lanes) != 0) return;
    if (found != nullptr && found->number < release.number) return;
    found = &release;
    address = at;
  });
  if (found == nullptr) return std::nullopt;
  const std::string& line = history_->site(found->site).line;
  const GlobalAllocation* const allocation = history_->shadow().find_known(address);
  const std::string place = allocation == nullptr
                                ? std::string("a location")
                                : fmt::format("byte {} of {}", address - allocation->address, allocation->label);
  const AcquireNote* earlier = nullptr;
  uint32_t reader = 0;
  for_each_acquire(now, lane, [&](const AcquireNote& note, uint32_t warp) {
    if (note.address != address || note.number > found->number) return;
    earlier = &note;
    reader = warp;
  });
  const std::string release =
      fmt::format("nothing orders the two: {} has released it at {}, with {}", spell_releaser(*found), line, place);
  if (earlier != nullptr) {
    return Handover{fmt::format("{}, but {} came before that", release, spell_acquire(now, *earlier, reader, lane)),
                    fmt::format("wait until {} has changed before this access", place)};
  }
  return Handover{
      fmt::format("{}, and this thread has not read that location before this access", release),
      fmt::format("read {} with acquire, or read it and execute __threadfence(), before this access: in this "
                  "thread, or in one that meets it at a barrier in between",
                  place)};
}

std::optional<GlobalMemoryCheck::Handover> GlobalMemoryCheck::explain_handover(Present& now, const GlobalRecord& past,
                                                                               LaneMask past_lanes, uint32_t lane) {
  if (auto others = known_to_others(now, past, past_lanes, lane)) return others;
  const uint32_t warps = history_->cluster(past.cluster).warps_per_block;
  Pair best;
  // The release by the same thread says most, then one by the same block; of several the latest acquire.
  const auto rank_of = [&](const Pair& pair) {
    const ReleaseNote& release = *pair.release;
    const bool same_thread = release.warp == past.agent && (past_lanes >> release.lane & 1) != 0;
    const uint64_t near = same_thread ? 2 : release.warp / warps == past.agent / warps ? 1 : 0;
    return std::pair{near, pair.acquire->number};
  };
  std::optional<Handover> relaxed;
  for_each_acquire(now, lane, [&](const AcquireNote& note, uint32_t warp) {
    const std::vector<ReleaseNote>* const releases = releases_.of(note.address);
    bool is_from_there = false;
    if (releases != nullptr) {
      for (const ReleaseNote& release : *releases) {
        if (release.cluster != past.cluster || release.number > note.number) continue;
        is_from_there = true;
        if (not_covered(release, past, past_lanes) == 0) continue;
        const Pair pair{&note, &release, warp};
        if (best.release == nullptr || rank_of(best) < rank_of(pair)) best = pair;
      }
    }
    if (!is_from_there && !relaxed) relaxed = relaxed_writer(now, past, note, warp, lane);
  });
  if (best.release != nullptr) return explain_pair(now, past, past_lanes, best, lane);
  if (relaxed) return relaxed;
  return not_acquired(now, past, past_lanes, lane);
}

}  // namespace stagecraft::emulator::checks
