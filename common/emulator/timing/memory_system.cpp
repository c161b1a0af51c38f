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
  *oldest = {line, clock_, 0};
  return {*oldest, false};
}

bool CacheLines::use(uint32_t line) { return find(line).second; }

double CacheLines::write(uint32_t line, double bytes) {
  Way& way = find(line).first;
  const double before = way.written;
  way.written = static_cast<float>(std::min<double>(before + bytes, kLineBytes));
  return way.written - before;
}

MemorySystem::MemorySystem(const ChipModel& chip, double megahertz)
    : chip_(chip),
      l2_bytes_(chip.l2_rate * 1e3 / megahertz),
      l2_write_bytes_(chip.l2_write_rate * 1e3 / megahertz),
      dram_bytes_(chip.dram_rate * 1e3 / megahertz),
      l2_lines_(chip.l2_bytes_capacity),
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
  size_t asked = 0, missed = 0;
  for (size_t i = 0; i < count; ++i) {
    if (joins(now, multiprocessor, lines[i])) continue;
    ++asked;
    if (!l2_lines_.use(lines[i])) ++missed;
  }
  const double of_line = bytes / static_cast<double>(count);
  Served served{now, missed != 0};
  l2_moved_ += of_line * static_cast<double>(asked);
  served.at = l2_.serve(now, of_line * static_cast<double>(asked) / l2_bytes_);
  if (missed == 0) return served;
  dram_moved_ += of_line * static_cast<double>(missed);
  served.at = std::max(served.at, dram_.serve(now, of_line * static_cast<double>(missed) / dram_bytes_));
  return served;
}

Served MemorySystem::write(double now, const uint32_t* lines, size_t count, double bytes) {
  if (count == 0) return {now, false};
  // What is written stays in L2 until it is replaced, and then goes to DRAM; here that is at once, but once. Source:
  // tests/silicon/results, plain-kernels-ncu: transpose_naive writes each sector eight times, and DRAM gets 60 MB of
  // its 67 MB.
  const double of_line = bytes / static_cast<double>(count);
  double written = 0;
  for (size_t i = 0; i < count; ++i) written += l2_lines_.write(lines[i], of_line);
  l2_moved_ += bytes;
  dram_moved_ += written;
  dram_.take(now, written / dram_bytes_);
  return {l2_.serve(now, bytes / l2_write_bytes_), false};
}

}  // namespace stagecraft::emulator::timing
