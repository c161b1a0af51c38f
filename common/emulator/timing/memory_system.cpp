#include "emulator/timing/memory_system.hpp"

#include <algorithm>

namespace stagecraft::emulator::timing {

CacheLines::CacheLines(double bytes) : sets_(std::max(1u, static_cast<uint32_t>(bytes / kLineBytes / kWays))) {
  ways_.resize(size_t{sets_} * kWays);
}

std::pair<CacheLines::Way&, bool> CacheLines::find(uint32_t line) {
  ++clock_;
  // Rows of a matrix are often a power of two apart: without mixing they would share few sets.
  const uint32_t set = static_cast<uint32_t>((uint64_t{line} * 0x9e3779b1u & 0xffffffffu) * sets_ >> 32);
  Way* const first = &ways_[size_t{set} * kWays];
  Way* oldest = first;
  for (Way* way = first; way != first + kWays; ++way) {
    if (way->used != 0 && way->line == line) {
      way->used = clock_;
      return {*way, true};
    }
    if (way->used < oldest->used) oldest = way;
  }
  *oldest = {line, clock_, 0, 0};
  return {*oldest, false};
}

bool CacheLines::use(uint32_t line) { return find(line).second; }

double CacheLines::read(uint32_t line, double bytes) {
  Way& way = find(line).first;
  const double before = way.there;
  way.there = static_cast<float>(std::min<double>(before + bytes, kLineBytes));
  return way.there - before;
}

double CacheLines::write(uint32_t line, double bytes) {
  Way& way = find(line).first;
  const double before = way.written;
  way.written = static_cast<float>(std::min<double>(before + bytes, kLineBytes));
  way.there = std::max(way.there, way.written);
  return way.written - before;
}

MemorySystem::MemorySystem(const ChipModel& chip, double megahertz)
    : chip_(chip),
      l2_bytes_(chip.l2_rate * 1e3 / megahertz),
      l2_write_bytes_(chip.l2_write_rate * 1e3 / megahertz),
      dram_bytes_(chip.dram_rate * 1e3 / megahertz),
      l2_line_cycles_(megahertz * 1e-3 / chip.l2_line_rate),
      bank_cycles_(chip.dram_bank * megahertz * 1e-3),
      l2_lines_(chip.l2_bytes_capacity),
      banks_(static_cast<size_t>(dram_bytes_ * bank_cycles_ / kLineBytes)),
      requests_(chip.multiprocessors / 2 + 1) {}

bool MemorySystem::joins(double now, uint32_t multiprocessor, uint32_t line) {
  std::vector<Request>& requests = requests_[multiprocessor / 2];
  if (requests.empty()) requests.resize(kRequests);
  Request& request = requests[line * 0x9e3779b1u >> 20];
  if (request.line == line && request.multiprocessor != multiprocessor && request.multiprocessor != ~0u &&
      now < request.until) {
    request.multiprocessor = ~0u;
    return true;
  }
  request = {line, multiprocessor, std::max(now, l2_.free_at()) + chip_.l2_latency};
  return false;
}

Served MemorySystem::read(double now, uint32_t multiprocessor, const uint32_t* lines, size_t count, double bytes) {
  if (count == 0) return {now, false};
  const double of_line = bytes / static_cast<double>(count);
  Served served{now, false};
  size_t asked = 0;
  for (size_t i = 0; i < count; ++i) {
    if (joins(now, multiprocessor, lines[i])) continue;
    ++asked;
    const double missing = l2_lines_.read(lines[i], of_line);
    if (missing <= 0) continue;
    served.missed = true;
    served.at = std::max(served.at, use_bank(now, lines[i], missing, false));
  }
  l2_moved_ += of_line * static_cast<double>(asked);
  served.at =
      std::max(served.at, l2_.serve(now, static_cast<double>(asked) * std::max(of_line / l2_bytes_, l2_line_cycles_)));
  return served;
}

/// DRAM is many banks, and a line keeps its bank busy much longer than its bytes take: so those that come while it is
/// busy wait, and the more there are, the more wait, before the rate of all banks together is reached. Which bank a
/// line is in is not known; here it is as if at random.
double MemorySystem::use_bank(double now, uint32_t line, double bytes, bool write) {
  // What was moved lately decides how often DRAM turns from reads to writes.
  constexpr double kLately = 1 / 4096.;
  write_share_ += kLately * ((write ? 1 : 0) - write_share_);
  const double turns = 1 + chip_.dram_turns * 4 * write_share_ * (1 - write_share_);
  uint64_t mixed = (uint64_t{line} + 1) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9u;
  double& free_at = banks_[(mixed >> 32) * banks_.size() >> 32];
  const double begins = std::max(now, free_at);
  free_at = begins + bank_cycles_ * turns * (write ? chip_.dram_write_cost : 1) * bytes / kLineBytes;
  dram_moved_ += bytes;
  return begins;
}

Served MemorySystem::write(double now, const uint32_t* lines, size_t count, double bytes, size_t partial_lines) {
  if (count == 0) return {now, false};
  // What is written stays in L2 until it is replaced, and then goes to DRAM; here that is at once, but once. Source:
  // tests/silicon/results, plain-kernels-ncu: transpose_naive writes each sector eight times, and DRAM gets 60 MB of
  // its 67 MB.
  const double of_line = bytes / static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) {
    if (const double written = l2_lines_.write(lines[i], of_line); written > 0) use_bank(now, lines[i], written, true);
  }
  l2_moved_ += bytes;
  const double masks = static_cast<double>(partial_lines) * kSectorBytes;
  return {l2_.serve(now, (bytes + masks) / l2_write_bytes_), false};
}

}  // namespace stagecraft::emulator::timing
