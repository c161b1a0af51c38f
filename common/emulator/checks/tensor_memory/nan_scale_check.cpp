#include "emulator/checks/tensor_memory/nan_scale_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/device_memory.hpp"

namespace stagecraft::emulator::checks {

using machine::AsyncOperation;
using machine::NanScales;
using machine::SharedRange;

namespace {

constexpr size_t kWritingsKept = 64;
constexpr size_t kSuspectsKept = 8;
constexpr uint8_t kNanUe8m0 = 0xff;

bool may_be_nan(uint8_t code) { return (code & 0x7f) == 0x7f; }

constexpr const char* kHowBytesGetThere =
    "how does the byte get there: is an exponent put together with others without a mask (& 0xff), or is it that of "
    "an infinite or a NaN maximum?";

const char* name_of_rows(const NanScales& event) { return event.operand == 'A' ? "row" : "column"; }

/// "row 3 of A", "5 columns of B, 0 to 7,".
std::string spell_rows(const NanScales& event) {
  const char* const rows = name_of_rows(event);
  return event.count == 1
             ? fmt::format("{} {} of {}", rows, event.first, event.operand)
             : fmt::format("{} {}s of {}, {} to {},", event.count, rows, event.operand, event.first, event.last);
}

std::string consequence_of(const NanScales& event) {
  return fmt::format(
      "every sum of such a {0} of D is NaN, whatever else is right; {0}s of zeros, as padding, are not counted",
      name_of_rows(event));
}

}  // namespace

void NanScaleCheck::cluster_started(ClusterRecord& cluster) {
  states_.start(cluster);
  const machine::Kernel& kernel = cluster.kernel();
  if (std::exchange(kernel_, &kernel) == &kernel) return;
  scales_blocks_ =
      kernel.has_instruction([](const machine::InstructionTraits& traits) { return traits.scales_blocks; });
}

void NanScaleCheck::add(ClusterRecord& cluster, Writing writing) {
  State& state = states_[cluster];
  state.push_front(std::move(writing));
  if (state.size() > kWritingsKept) state.pop_back();
}

void NanScaleCheck::note_copy(ClusterRecord& cluster, const AsyncOperation& event) {
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  Writing writing{warp / cluster.order().warps_per_block(),
                  event.of_pair,
                  true,
                  event.tensor_writes,
                  warp,
                  1u << event.lane,
                  event.fragment->pc,
                  {}};
  bool has_0x7f = false;  // 1 in ue8m0, and frequent: the first one is enough
  for (const SharedRange& range : event.reads) {
    const uint32_t rank = range.address >> machine::kSharedRankShift;
    const uint32_t offset = range.address & machine::kSharedOffsetMask;
    if (rank >= cluster.memory.size()) continue;
    const std::byte* const bytes = cluster.cluster().blocks[rank]->shared.data() + offset;
    for (uint32_t i = 0; i < range.bytes && writing.suspects.size() < kSuspectsKept; ++i) {
      const auto code = static_cast<uint8_t>(bytes[i]);
      if (!may_be_nan(code) || (code != kNanUe8m0 && std::exchange(has_0x7f, true))) continue;
      uint32_t word = 0;
      if (i / 4 * 4 + 4 <= range.bytes) std::memcpy(&word, bytes + i / 4 * 4, sizeof word);
      Suspect suspect{range.address + i, code, word == 0xffffffff, {}};
      cluster.memory[rank].for_each_write(offset + i, 1,
                                          [&](const PastAccess& write, uint32_t) { suspect.writer = write; });
      const bool known =
          suspect.writer.agent == PastAccess::kNobody ||
          std::any_of(writing.suspects.begin(), writing.suspects.end(), [&](const Suspect& each) {
            return each.code == code && each.all_ones == suspect.all_ones && each.writer.pc() == suspect.writer.pc();
          });
      if (!known) writing.suspects.push_back(suspect);
    }
  }
  add(cluster, std::move(writing));
}

void NanScaleCheck::note_store(ClusterRecord& cluster, const machine::TensorEvent& event) {
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  add(cluster, {warp / cluster.order().warps_per_block(),
                false,
                false,
                event.ranges,
                warp,
                event.lanes,
                event.fragment->pc,
                {}});
}

void NanScaleCheck::report_registers(ClusterRecord& cluster, const NanScales& event) {
  const auto identity = findings_.claim(fmt::format("nan scales of {}", event.operand), event.pc);
  if (!identity) return;
  machine::Diagnostic finding;
  finding.kind = "nan scale factor";
  finding.place = place_of(cluster, event.block->rank * cluster.order().warps_per_block() + event.warp,
                           machine::kAllLanes, event.pc);
  finding.message = fmt::format("the mma.sync here multiplies {} by scale factors that are NaN: 0x{:02x} in {}",
                                spell_rows(event), event.code, event.ue4m3 ? "ue4m3" : "ue8m0");
  finding.details.push_back(consequence_of(event));
  const char side = event.operand == 'A' ? 'a' : 'b';
  finding.details.push_back(
      fmt::format("0x{:02x} is byte {} of lane {}'s word of scale factors, which byte-id-{} and "
                  "thread-id-{} select",
                  event.code, event.column, event.lane, side, side));
  finding.likely_cause =
      event.all_ones
          ? "all bits of the word are 1, as in shared memory that nothing has written: which address has the "
            "lane loaded it from, and does it have the scale factors of this row?"
          : kHowBytesGetThere;
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

void NanScaleCheck::nan_scales_used(ClusterRecord& cluster, const NanScales& event) {
  if (event.in_registers) return report_registers(cluster, event);
  const State& state = states_[cluster];
  const auto writing = std::find_if(state.begin(), state.end(), [&](const Writing& each) {
    return (each.rank == event.rank || (each.of_pair && (each.rank ^ 1) == event.rank)) &&
           std::any_of(each.ranges.begin(), each.ranges.end(), [&](const machine::TensorRange& range) {
             return event.column >= range.column && event.column < range.column + range.columns;
           });
  });
  if (writing == state.end()) return;  // nothing has written them
  const auto suspect = std::find_if(writing->suspects.begin(), writing->suspects.end(), [&](const Suspect& each) {
    return each.all_ones == event.all_ones && (event.ue4m3 || each.code == kNanUe8m0);
  });
  // A copy of shared memory that nothing has written.
  if (writing->is_copy && suspect == writing->suspects.end()) return;
  const auto identity = findings_.claim(fmt::format("nan scales of {}", event.operand), event.pc);
  if (!identity) return;
  const ClusterOrder& order = cluster.order();
  machine::Diagnostic finding;
  finding.kind = "nan scale factor";
  finding.place =
      place_of(cluster, event.block->rank * order.warps_per_block() + event.warp, 1u << event.lane, event.pc);
  const std::string peer = event.rank == event.block->rank ? "" : " in the peer block";
  finding.message =
      fmt::format("the tcgen05.mma issued here multiplies {}{} by scale factors that are NaN: 0x{:02x} in {}",
                  spell_rows(event), peer, event.code, event.ue4m3 ? "ue4m3" : "ue8m0");
  finding.details.push_back(consequence_of(event));
  const machine::Place place = place_of(cluster, writing->warp, writing->lanes, writing->pc);
  finding.details.push_back(fmt::format("{} by {}{} has put them into tensor memory", place.instruction,
                                        spell_thread(cluster, writing->warp, writing->lanes),
                                        line_of(cluster, writing->pc)));
  finding.likely_cause = kHowBytesGetThere;
  if (suspect != writing->suspects.end()) {
    const std::string name = cluster.kernel().name_of_shared_byte(suspect->address & machine::kSharedOffsetMask);
    finding.details.push_back(
        fmt::format("0x{:02x} is at {}: {}", suspect->code, name, describe(cluster, suspect->writer)));
    if (suspect->writer.is_asynchronous()) {
      finding.likely_cause =
          "the copy brings what is in global memory: look at the host, or the kernel, that makes the scale factors: " +
          finding.likely_cause;
    }
  }
  findings_.add(cluster.cluster(), *identity, std::move(finding));
}

}  // namespace stagecraft::emulator::checks
