#include "emulator/checks/global_memory/global_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/checks/reporting/report.hpp"

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

/// The limit is kept after each piece of a copy or a fill.
constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

/// Logs of reads may take this part of all memory.
constexpr uint64_t kLogShare = 8;

/// At the limit, this part of it is made free, so that looking through the record is worth it.
constexpr uint64_t kFreedShare = 4;

}  // namespace

GlobalHistory::GlobalHistory() : works_(1), clusters_(1), sites_(1), records_(1) {}

uint32_t GlobalHistory::begin(WorkStart start, std::string name, bool is_kernel) {
  end_log();
  current_ = std::move(start);
  has_waited_ = false;
  first_cluster_ = static_cast<uint32_t>(clusters_.size());
  const auto number = static_cast<uint32_t>(works_.size());
  works_.push_back({std::move(name), number, is_kernel, current_.stream, current_.component, current_.time});
  drop_known_logs();
  const bool all_known = std::all_of(ended_logs_.begin(), ended_logs_.end(),
                                     [&](const EndedLog& ended) { return is_before_wait(ended.work); });
  if (!all_known) settle_all_logs();
  return number;
}

const WorkNote* GlobalHistory::find_broken_link(const WorkNote& work) const {
  const WorkTime time = current_.known.missed_by(work.component, work.time);
  const auto found = std::find_if(works_.begin(), works_.end(), [&](const WorkNote& other) {
    return time != 0 && other.component == work.component && other.time == time;
  });
  return found == works_.end() ? nullptr : &*found;
}

uint32_t GlobalHistory::add_cluster(ClusterNote cluster) {
  clusters_.push_back(cluster);
  return static_cast<uint32_t>(clusters_.size()) - 1;
}

uint32_t GlobalHistory::add_record(const GlobalRecord& record) {
  records_.push_back(record);
  return first_record_ + static_cast<uint32_t>(records_.size()) - 1;
}

uint32_t GlobalHistory::add_site(SiteNote site) {
  site.line_number = lines_.try_emplace(site.line, static_cast<uint32_t>(lines_.size())).first->second;
  sites_.push_back(std::move(site));
  return static_cast<uint32_t>(sites_.size()) - 1;
}

bool GlobalHistory::keep_to_limit() {
  if (logged_bytes() > most_bytes_ / kLogShare) settle_all_logs();
  if (bytes() <= most_bytes_) return false;
  ended_logs_.clear();
  ended_bytes_ = 0;
  const uint64_t enough = most_bytes_ - most_bytes_ / kFreedShare;
  while (!records_.empty() && bytes() > enough) {
    const size_t older = (records_.size() + 1) / 2;
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(older));
    first_record_ += static_cast<uint32_t>(older);
    shadow_.forget_before(first_record_);
  }
  if (bytes() > enough) {
    shadow_.forget();
    end_log();
    ended_logs_.clear();
    ended_bytes_ = 0;
    has_forgotten_writes_ = true;
  }
  records_.shrink_to_fit();
  ++times_forgotten_;
  return true;
}

std::optional<machine::Diagnostic> GlobalHistory::accessed_by_work(const machine::DeviceMemory& memory,
                                                                   uint64_t address, uint64_t bytes, bool writes) {
  keep_to_limit();
  GlobalAllocation* const allocation = shadow_.find(memory, address);
  if (allocation == nullptr || bytes == 0) return std::nullopt;
  const uint64_t offset = address - allocation->address;
  bytes = std::min(bytes, allocation->size - offset);
  const uint32_t work = current_work();
  if (work_of_cluster_ != work) {
    work_of_cluster_ = work;
    work_cluster_ = add_cluster({.work = work, .first_block = {}, .shape = {}});
  }
  GlobalRecord mine{.cluster = work_cluster_, .lanes = 1};
  if (writes) mine.flags = GlobalRecord::kWrites;
  GlobalEntry entry{add_record(mine)};
  std::optional<machine::Diagnostic> finding;
  const auto check = [&](GlobalEntry past, uint64_t at) {
    if (past.record() == 0 || finding) return;
    const GlobalRecord& before = record(past.record());
    const WorkNote& other = works_[clusters_[before.cluster].work];
    if (other.number == works_[work].number || is_before(other)) return;
    if (!reported_copies_.insert(fmt::format("{}/{}/{}", works_[work].name, other.name, sites_[before.site].line))
             .second)
      return;
    machine::Diagnostic made;
    made.kind = "race";
    made.message = fmt::format("race: {} {} {} in global memory", works_[work].name, writes ? "writes" : "reads",
                               spell_bytes(*allocation, at, 1));
    made.place.kernel = other.is_kernel ? other.name.substr(other.name.find(' ') + 1) : std::string();
    made.place.source = sites_[before.site].line;
    made.details.push_back(describe(before, past.lanes_of(0, 1, before.lanes)));
    made.details.push_back(fmt::format("nothing orders {} after {}", spell_work(work), spell_work(other.number)));
    made.likely_cause = fmt::format(
        "{} and {} are in streams that do not wait for each other: wait for the first with "
        "cudaStreamSynchronize, or record an event after it and let the second stream wait for that",
        other.name, works_[work].name);
    finding = std::move(made);
  };
  const auto visit = [&](GlobalCell& cell, uint64_t at, uint32_t count, GlobalSector& sector) {
    check(cell.write, at);
    if (!writes) {
      cell.reads[cell.reads[0].record() == 0 ? 0 : 1] = entry;
      return;
    }
    for (const GlobalEntry read : cell.reads) check(read, at);
    cell = {entry, {}};
    sector.written |= count == kSectorBytes ? ~0u : ((1u << count) - 1) << at % kSectorBytes;
  };
  for (uint64_t done = 0; done < bytes; done += kPieceBytes) {
    if (done != 0 && keep_to_limit()) entry = GlobalEntry{add_record(mine)};
    for_each_cell(shadow_, *allocation, offset + done, std::min(kPieceBytes, bytes - done), writes, visit);
  }
  return finding;
}

void GlobalHistory::written(const machine::DeviceMemory& memory, uint64_t address, uint64_t bytes) {
  GlobalAllocation* const allocation = shadow_.find(memory, address);
  if (allocation == nullptr) return;
  settle_all_logs();  // the cells will not tell when this was
  const uint64_t offset = address - allocation->address;
  bytes = std::min(bytes, allocation->size - offset);
  for (uint64_t done = 0; done < bytes; done += kPieceBytes) {
    if (done != 0) keep_to_limit();
    for_each_cell(shadow_, *allocation, offset + done, std::min(kPieceBytes, bytes - done), true,
                  [](GlobalCell& cell, uint64_t at, uint32_t count, GlobalSector& sector) {
                    cell = {};
                    sector.written |= count == kSectorBytes ? ~0u : ((1u << count) - 1) << at % kSectorBytes;
                  });
  }
}

std::string GlobalHistory::spell_agent(const GlobalRecord& record, LaneMask lanes) const {
  const ClusterNote& cluster = clusters_[record.cluster];
  const WorkNote& work = works_[cluster.work];
  if (!work.is_kernel) return work.name;
  const bool is_issued = record.is(GlobalRecord::kAsync);
  const uint32_t warp = is_issued ? record.issuer : record.agent;
  const uint32_t rank = warp / cluster.warps_per_block;
  const machine::Extent3& shape = cluster.shape;
  const machine::Extent3 block{cluster.first_block.x + rank % shape.x, cluster.first_block.y + rank / shape.x % shape.y,
                               cluster.first_block.z + rank / (shape.x * shape.y)};
  return fmt::format("block ({},{},{}) warp {} [{}]", block.x, block.y, block.z, warp % cluster.warps_per_block,
                     describe_lanes(lanes));
}

std::string GlobalHistory::describe(const GlobalRecord& record, LaneMask lanes) const {
  const uint32_t number = clusters_[record.cluster].work;
  const WorkNote& work = works_[number];
  const char* const verb = record.is(GlobalRecord::kWrites) ? "writes" : "reads";
  if (!work.is_kernel) return fmt::format("{} {} it", spell_work(number), verb);
  const SiteNote& site = sites_[record.site];
  const std::string of_work = number == current_work() ? std::string() : " in " + spell_work(number);
  const bool is_operation = record.is(GlobalRecord::kAsync) || record.is(GlobalRecord::kBulkStore);
  const std::string agent = spell_agent(record, lanes);
  if (is_operation)
    return fmt::format("the {} issued by {} at {} {} it{}", site.instruction, agent, site.line, verb, of_work);
  return fmt::format("{} {} it at {}{}", agent, verb, site.line, of_work);
}

std::string GlobalHistory::spell_bytes(const GlobalAllocation& allocation, uint64_t offset, uint64_t bytes) {
  if (bytes == 1) return fmt::format("byte {} of {}", offset, allocation.label);
  return fmt::format("bytes {} to {} of {}", offset, offset + bytes - 1, allocation.label);
}

std::string GlobalHistory::spell_work(uint32_t number) const {
  const WorkNote& work = works_[number];
  return fmt::format("{} (work {}, in {})", work.name, work.number, work.stream);
}

}  // namespace stagecraft::emulator::checks
