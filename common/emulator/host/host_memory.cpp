#include "emulator/host/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace stagecraft::emulator::machine {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
/// Pieces that are looked at on their own; smaller ones together when they are as much.
constexpr uint64_t kLargePiece = 16ull << 20;
/// Bytes that the pages of a process can grow in a second: a page of 4 KiB takes about half a microsecond and thread.
constexpr uint64_t kBytesPerSecond = 16ull << 30;
constexpr int64_t kShortestLook = 2'000'000, kLongestLook = 1'000'000'000;  // nanoseconds

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

uint64_t page_bytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// The number that follows `key` in a file of lines "key number"; the first number where the key is empty.
uint64_t number_in(const std::string& file, std::string_view key) {
  std::ifstream lines(file);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first;
    uint64_t number = 0;
    if (key.empty()) return words >> number ? number : kUnknown;
    if (words >> first >> number && first == key) return number;
  }
  return kUnknown;
}

uint64_t known(uint64_t number) { return number == kUnknown ? 0 : number; }
uint64_t difference(uint64_t a, uint64_t b) { return a - std::min(a, b); }

/// What is left for the host itself, so that neither it nor the emulated GPU must be ended for want of memory.
uint64_t reserve_of(uint64_t total) { return std::clamp<uint64_t>(total / 32, 64ull << 20, 1ull << 30); }

}  // namespace

HostMemory::HostMemory(std::string root) : root_(std::move(root)) { find_groups(); }

void HostMemory::find_groups() {
  std::ifstream lines(root_ + "/proc/self/cgroup");
  std::string line;
  while (std::getline(lines, line)) {  // "0::/path", or "4:memory:/path" in the first version
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_second_version = controllers.empty();
    if (!is_second_version && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string mount = root_ + (is_second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const std::string limit = is_second_version ? "/memory.max" : "/memory.limit_in_bytes";
    // A container may see its own group at the mount, or at the path that the host has for it.
    for (std::string path = line.substr(second + 1);;) {
      if (path == "/") path.clear();
      // What has no limit says "max", or a number near 2^63.
      if (number_in(mount + path + limit, "") < kUnknown / 4) groups_.push_back({mount + path, is_second_version});
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
}

uint64_t HostMemory::left_in(const Group& group, uint64_t swap_free) const {
  const bool second = group.is_second_version;
  const uint64_t limit = number_in(group.folder + (second ? "/memory.max" : "/memory.limit_in_bytes"), "");
  const uint64_t used = number_in(group.folder + (second ? "/memory.current" : "/memory.usage_in_bytes"), "");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  // Pages of files count as used, but are given up when memory is short.
  const std::string details = group.folder + "/memory.stat";
  const uint64_t files = known(number_in(details, second ? "inactive_file" : "total_inactive_file")) +
                         known(number_in(details, second ? "active_file" : "total_active_file"));
  uint64_t swap = 0;
  if (second) {
    const uint64_t most = number_in(group.folder + "/memory.swap.max", "");  // unknown: "max"
    swap = std::min(swap_free, difference(most, known(number_in(group.folder + "/memory.swap.current", ""))));
  }
  return difference(limit + swap, difference(used, files) + reserve_of(limit));
}

uint64_t HostMemory::room() const {
  const std::string details = root_ + "/proc/meminfo";
  constexpr uint64_t kKib = 1024;
  const uint64_t available = number_in(details, "MemAvailable:"), total = number_in(details, "MemTotal:");
  const uint64_t swap = known(number_in(details, "SwapFree:")) * kKib;
  uint64_t room = kUnknown;
  if (available != kUnknown && total != kUnknown) room = difference(available * kKib + swap, reserve_of(total * kKib));
  for (const Group& group : groups_) room = std::min(room, left_in(group, swap));
  if (limit_ != 0) {
    std::ifstream numbers(root_ + "/proc/self/statm");
    uint64_t size = 0, resident = 0;
    if (numbers >> size >> resident) room = std::min(room, difference(limit_, resident * page_bytes()));
  }
  return room;
}

bool HostMemory::must_look(uint64_t bytes) {
  if (bytes < kLargePiece) {
    untested_ += bytes;
    if (untested_ < kLargePiece) return false;
  }
  untested_ = 0;
  return true;
}

bool HostMemory::is_time_to_look() const { return now() >= next_look_.load(std::memory_order_relaxed); }

bool HostMemory::has_room_now() {
  const uint64_t left = room();
  // By half of the time in which it could be used up.
  const double seconds = static_cast<double>(left) / kBytesPerSecond / 2;
  const auto wait = std::clamp(static_cast<int64_t>(std::min(seconds, 1.0) * 1e9), kShortestLook, kLongestLook);
  next_look_.store(now() + wait, std::memory_order_relaxed);
  return left != 0;
}

uint64_t absent_bytes(const void* pointer, uint64_t bytes) {
  if (bytes == 0) return 0;
  const auto begin = reinterpret_cast<uint64_t>(pointer) / page_bytes() * page_bytes();
  const uint64_t end = reinterpret_cast<uint64_t>(pointer) + bytes;
  std::vector<unsigned char> pages(std::min<uint64_t>((end - begin) / page_bytes() + 1, 1 << 16));
  uint64_t absent = 0;
  for (uint64_t at = begin; at < end; at += pages.size() * page_bytes()) {
    const uint64_t step = std::min<uint64_t>(end - at, pages.size() * page_bytes());
    if (mincore(reinterpret_cast<void*>(at), step, pages.data()) != 0) continue;  // no memory at all
    const auto count = static_cast<int64_t>((step + page_bytes() - 1) / page_bytes());
    absent += page_bytes() * static_cast<uint64_t>(std::count_if(pages.begin(), pages.begin() + count,
                                                                 [](unsigned char page) { return (page & 1) == 0; }));
  }
  return absent;
}

}  // namespace stagecraft::emulator::machine
