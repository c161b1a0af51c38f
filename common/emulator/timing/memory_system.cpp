#include "emulator/timing/memory_system.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace stagecraft::emulator::timing {

namespace {

/// Pages of 2 MiB, by the number of a line.
constexpr uint32_t kPageLineBits = 14, kPages = 1u << (kLineNumberBits - kPageLineBits);
/// A line of the tables has the entries of 16 pages.
constexpr uint32_t kEntriesBits = 4;

/// The sectors of a line that DRAM moves for these: it moves 64 bytes at a time.
uint32_t pairs_of(uint32_t sectors) {
  const uint32_t halves = (sectors | sectors >> 1) & 0b0101;
  return halves | halves << 1;
}

}  // namespace

CacheLines::CacheLines(double bytes) : sets_(std::max(1u, static_cast<uint32_t>(bytes / kLineBytes / kWays))) {
  ways_.resize(size_t{sets_} * kWays);
}

CacheLines::Way* CacheLines::set_of(uint32_t line) {
  // Rows of a matrix are often a power of two apart: without mixing they would share few sets.
  const uint32_t set = static_cast<uint32_t>((uint64_t{line} * 0x9e3779b1u & 0xffffffffu) * sets_ >> 32);
  return &ways_[size_t{set} * kWays];
}

CacheLines::Way& CacheLines::find(uint32_t line) {
  ++clock_;
  Way* const first = set_of(line);
  Way* oldest = first;
  for (Way* way = first; way != first + kWays; ++way) {
    if (way->used != 0 && way->line == line) {
      way->used = clock_;
      return *way;
    }
    if (way->used < oldest->used) oldest = way;
  }
  if (oldest->written != 0) {
    replaced_.push_back(request_of(oldest->line, oldest->written));
    written_sectors_ -= static_cast<uint32_t>(std::popcount(oldest->written));
  }
  *oldest = {line, clock_, 0, 0, 0};
  return *oldest;
}

CacheLines::Read CacheLines::read(LineRequest request, bool in_pairs) {
  Way& way = find(line_of(request));
  uint32_t missing = sectors_of(request) & ~way.there;
  if (in_pairs) missing = pairs_of(missing) & ~way.there;
  way.there = static_cast<uint8_t>(way.there | missing);
  return {missing, way.arrives};
}

bool CacheLines::write(LineRequest request, bool in_pairs) {
  Way& way = find(line_of(request));
  const bool is_new = way.there == 0;
  const uint32_t sectors = in_pairs ? pairs_of(sectors_of(request)) : sectors_of(request);
  if (way.written == 0) waiting_.push_back(way.line);
  written_sectors_ += static_cast<uint32_t>(std::popcount(sectors & ~way.written));
  way.written = static_cast<uint8_t>(way.written | sectors);
  way.there = static_cast<uint8_t>(way.there | sectors);
  return is_new;
}

std::vector<LineRequest> CacheLines::take_written(uint64_t most) {
  std::vector<LineRequest> all = std::exchange(replaced_, {});
  while (written_sectors_ > most) {
    const uint32_t line = waiting_.front();
    waiting_.pop_front();
    Way* const first = set_of(line);
    Way* const way = std::find_if(first, first + kWays, [&](const Way& each) { return each.line == line; });
    if (way == first + kWays || way->written == 0) continue;
    all.push_back(request_of(way->line, way->written));
    written_sectors_ -= static_cast<uint32_t>(std::popcount(way->written));
    way->written = 0;
  }
  return all;
}

void CacheLines::fill_with_others(uint64_t written) {
  constexpr uint32_t kFirst = 1u << (kLineNumberBits - 1);  // far from where programs have their memory
  for (uint32_t i = 0; i < ways_.size(); ++i) write(request_of(kFirst + i, 0xf));
  take_written(written);
}

void CacheLines::settle() {
  for (Way& way : ways_) way.arrives = 0;
}

MemorySystem::MemorySystem(const ChipModel& chip, double megahertz, const L2Contents* before, double part)
    : chip_(chip),
      places_(chip.multiprocessors),
      l2_bytes_(chip.l2_rate * 1e3 / megahertz),
      l2_write_bytes_(chip.l2_write_rate * 1e3 / megahertz),
      path_bytes_(chip.group_rate * 1e3 / megahertz),
      dram_bytes_(chip.dram_rate * 1e3 / megahertz),
      l2_line_cycles_(megahertz * 1e-3 / chip.l2_line_rate),
      bank_cycles_(chip.dram_bank * megahertz * 1e-3),
      atomic_sector_cycles_(megahertz * 1e-3 / chip.atomic_sector_rate),
      atomic_return_cycles_(megahertz * 1e-3 / chip.atomic_return_rate),
      atomic_same_cycles_(megahertz * 1e-3 / chip.atomic_same_rate),
      atomic_same_float_cycles_(megahertz * 1e-3 / chip.atomic_same_float_rate),
      halves_(before != nullptr
                  ? *before
                  : L2Contents{CacheLines(part * chip.l2_half_capacity), CacheLines(part * chip.l2_half_capacity)}),
      page_ready_(before != nullptr ? 0 : kPages),
      entries_read_(kPages >> kEntriesBits),
      walk_cycles_(chip.page_walk * megahertz * 1e-3),
      entries_cycles_(chip.page_entries * megahertz * 1e-3),
      walk_latency_(chip.page_walk_latency),
      written_most_(static_cast<uint64_t>(part * chip.l2_written_most / 2 / kSectorBytes)),
      paths_(chip.groups.size()),
      slices_(chip.atomic_slices),
      banks_(static_cast<size_t>(dram_bytes_ * bank_cycles_ / kLineBytes)),
      requests_(chip.groups.size()) {
  for (uint32_t group = 0; group < chip.groups.size(); ++group) {
    const MultiprocessorGroup& each = chip.groups[group];
    for (size_t rank = 0; rank < each.pairs.size(); ++rank) {
      const double distance = chip.l2_distance[std::min(rank, chip.l2_distance.size() - 1)];
      for (const uint32_t i : {2 * each.pairs[rank], 2 * each.pairs[rank] + 1})
        places_[i] = {group, each.half, distance};
    }
  }
}

L2Contents used_l2(const ChipModel& chip, double written) {
  L2Contents used{CacheLines(chip.l2_half_capacity), CacheLines(chip.l2_half_capacity)};
  const double bytes = std::min(chip.l2_written_most / 2, written * chip.l2_half_capacity);
  for (CacheLines& half : used) half.fill_with_others(static_cast<uint64_t>(bytes / kSectorBytes));
  return used;
}

L2Contents MemorySystem::take_contents() {
  for (CacheLines& half : halves_) half.settle();
  return std::move(halves_);
}

double MemorySystem::translated(double now, std::span<const LineRequest> lines) {
  double all = now;
  if (page_ready_.empty()) return all;
  for (const LineRequest line : lines) {
    double& ready = page_ready_[line_of(line) >> kPageLineBits];
    if (ready == 0) {
      auto read = entries_read_[line_of(line) >> (kPageLineBits + kEntriesBits)];
      const double cycles = walk_cycles_ + (read ? 0 : entries_cycles_);
      read = true;
      ready = walks_.serve(now, cycles) - cycles + walk_latency_;
    }
    all = std::max(all, ready);
  }
  return all;
}

double MemorySystem::paths_busy() const {
  double all = 0;
  for (const Server& path : paths_) all += path.busy();
  return all / static_cast<double>(paths_.size());
}

MemorySystem::Request& MemorySystem::request_at(uint32_t group, LineRequest line) {
  std::vector<Request>& requests = requests_[group];
  if (requests.empty()) requests.resize(kRequests);
  return requests[line * 0x9e3779b1u >> 16];
}

MemorySystem::Found MemorySystem::look_up(uint32_t half, LineRequest line) {
  const bool is_home = home_of(line) == half;
  const CacheLines::Read own = halves_[half].read(line, is_home);
  if (own.missing == 0 || is_home) return {&own.arrives, nullptr, 0, own.missing};
  const CacheLines::Read home = halves_[half ^ 1].read(request_of(line_of(line), own.missing), true);
  return {&own.arrives, &home.arrives, own.missing, home.missing};
}

double MemorySystem::read(double now, uint32_t multiprocessor, std::span<const LineRequest> lines, double dram_latency,
                          bool shared) {
  const auto [group, half, distance] = places_[multiprocessor];
  double cycles = 0, bytes_sent = 0, joined = now;
  asked_.clear();
  for (const LineRequest line : lines) {
    Request& request = request_at(group, line);
    const bool of_pair = request.multiprocessor / 2 == multiprocessor / 2;
    if (shared && request.line == line && request.multiprocessor != multiprocessor && request.more > 0 &&
        now < (of_pair ? request.until_for_pair : request.until)) {
      --request.more;
      joined = std::max(joined, request.arrives);
      continue;
    }
    request = {line, multiprocessor, shared ? chip_.join_most - 1 : 0, 0, now + chip_.join_window, 0};
    bytes_sent += std::popcount(sectors_of(line)) * double{kSectorBytes};
    const Found found = look_up(half, line);
    asked_.push_back({&request, line_of(line), found});
    for (const uint32_t sectors : {sectors_of(line), found.far}) {
      if (sectors == 0) continue;
      const double bytes = std::popcount(sectors) * double{kSectorBytes};
      l2_moved_ += bytes;
      cycles += std::max(bytes / l2_bytes_, l2_line_cycles_);
    }
  }
  double at = now, leaves = now;
  if (cycles != 0) {
    const double path_cycles = bytes_sent / path_bytes_, path = paths_[group].serve(now, path_cycles);
    at = std::max(l2_.serve(now, cycles), path);
    leaves = std::max(l2_.free_at() - cycles, path - path_cycles);
  }
  for (CacheLines& each : halves_) write_back(at, each);
  const double late = translated(now, lines) - now;
  double all = std::max(joined, at + late);
  for (const auto& [request, line, found] : asked_) {
    double arrives = std::max(at + late, *found.own);
    if (found.home != nullptr && found.dram == 0) {
      arrives = std::max(at + late, *found.home) + chip_.l2_far_latency - chip_.l2_latency;
    }
    if (found.dram != 0) {
      const auto sectors = static_cast<uint32_t>(std::popcount(found.dram));
      came_new(false);
      const double filled = writes_.serve(at, sectors * double{kSectorBytes} / l2_write_bytes_);
      arrives = std::max(arrives, std::max(use_bank(at, line, sectors, false), filled) + dram_latency + late +
                                      chip_.beside_stores * 4 * stored_share_ * (1 - stored_share_));
      if (found.home != nullptr) *found.home = arrives;
    }
    *found.own = arrives;
    request->arrives = arrives;
    request->until_for_pair = std::min(leaves, now + chip_.join_while_waits) + chip_.join_window;
    all = std::max(all, arrives);
  }
  return all + distance;
}

double MemorySystem::update(double now, std::span<const LineRequest> lines, const Access& access, double dram_latency) {
  double cycles = 0;
  for (const LineRequest line : lines) {
    const auto sectors = static_cast<double>(std::popcount(sectors_of(line)));
    l2_moved_ += sectors * kSectorBytes;
    cycles += sectors * (access.returns ? atomic_return_cycles_ : atomic_sector_cycles_);
  }
  const double at = std::max(l2_.serve(now, cycles), translated(now, lines));
  // Floats take longer only where lanes meet.
  const double pass = access.floating && access.same > 1 ? atomic_same_float_cycles_ : atomic_same_cycles_;
  double all = at;
  for (const LineRequest line : lines) {
    CacheLines& home = halves_[home_of(line)];
    const CacheLines::Read read = home.read(line, true);
    if (read.missing != 0) {
      const auto missing = static_cast<uint32_t>(std::popcount(read.missing));
      read.arrives = std::max(read.arrives, use_bank(at, line_of(line), missing, false) + dram_latency);
    }
    home.write(line, true);
    write_back(at, home);
    Server& slice = slices_[(uint64_t{line_of(line) / 2 * 0x9e3779b1u} * slices_.size()) >> 32];
    const double passes = access.passes / static_cast<double>(lines.size());
    all = std::max(all, slice.serve(std::max(at, read.arrives), passes * pass));
  }
  return all;
}

/// DRAM is many banks, and a line keeps its bank busy much longer than its bytes take: so those that come while it is
/// busy wait, and the more there are, the more wait, before the rate of all banks together is reached. Which bank a
/// line is in is not known; here it is as if at random.
double MemorySystem::use_bank(double now, uint32_t line, uint32_t sectors, bool write) {
  // What was moved lately decides how often DRAM turns from reads to writes.
  write_share_ += kLately * ((write ? 1 : 0) - write_share_);
  const double turns = 1 + chip_.dram_turns * 4 * write_share_ * (1 - write_share_);
  uint64_t mixed = (uint64_t{line} + 1) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 31) * 0xbf58476d1ce4e5b9u;
  Bank& bank = banks_[(mixed >> 32) * banks_.size() >> 32];
  const double begins = std::max(now, bank.free_at), bytes = sectors * double{kSectorBytes};
  const double part = (bank.open == line ? 0 : chip_.dram_open) + (1 - chip_.dram_open) * bytes / kLineBytes;
  bank = {begins + bank_cycles_ * turns * (write ? chip_.dram_write_cost : 1) * part, line};
  dram_moved_ += bytes;
  return begins;
}

void MemorySystem::write_back(double now, CacheLines& half) {
  if (!half.has_written(written_most_)) return;
  for (const LineRequest line : half.take_written(written_most_))
    use_bank(now, line_of(line), static_cast<uint32_t>(std::popcount(pairs_of(sectors_of(line)))), true);
}

double MemorySystem::write(double now, std::span<const LineRequest> lines, size_t partial_lines) {
  if (lines.empty()) return now;
  double sectors = static_cast<double>(partial_lines);  // for the masks
  for (const LineRequest line : lines) {
    CacheLines& home = halves_[home_of(line)];
    if (home.write(line)) came_new(true);
    write_back(now, home);
    sectors += std::popcount(sectors_of(line));
  }
  l2_moved_ += (sectors - static_cast<double>(partial_lines)) * kSectorBytes;
  return std::max(writes_.serve(now, sectors * kSectorBytes / l2_write_bytes_), translated(now, lines));
}

}  // namespace stagecraft::emulator::timing
