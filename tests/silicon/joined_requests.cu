// When L2 serves several multiprocessors by one read: copies of the same bytes, by where the multiprocessors are and
// how much later the second asks. Counters of Nsight Compute say how often L2 was read: with JOINED_ONCE=1 each launch
// of `meet` comes once, in the order of the lines that are printed. Without it, times say what the paths to L2 carry.
#include <numeric>

#include "async_copy.hpp"

using namespace silicon;

enum class Task : int { nothing, copy, load };

/// What the block on a multiprocessor does. Members of a group copy the same bytes, each `skew` cycles after the one
/// before it; a block that loads L2 copies bytes of its own without a pause, as long as the others are at work.
struct Role {
  Task task = Task::nothing;
  int group = 0, member = 0;
};

struct Plan {
  uint32_t bytes = 2048, ring = 64, steps = 600, stages = 4;  ///< of each copy; of copies in a group's region
  uint32_t period = 1500;                                     ///< cycles from copy to copy; 0: as soon as there is room
  uint32_t skew = 0;
};

struct Note {
  uint64_t copies, cycles, late;
  uint32_t at;
};

constexpr uint32_t kMostStages = 12, kLoadBytes = 16384;
constexpr int kSharedBytes = 200 * 1024;
constexpr size_t kMemory = size_t{32} << 20, kLoadsFrom = size_t{24} << 20;

__global__ void __launch_bounds__(32, 1) meet(const uint8_t* memory, const Role* roles, Plan plan,
                                              volatile uint64_t* start, uint32_t* arrived, Note* notes) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[kMostStages];
  if (threadIdx.x != 0) return;
  const uint32_t place = multiprocessor();
  const Role role = roles[place];
  for (uint32_t i = 0; i < kMostStages; ++i) mbarrier_init(shared_address(words + i), 1);
  fence_barrier_init();
  // All begin at the same step of the global timer.
  if (atomicAdd(arrived, 1) + 1 == gridDim.x) *start = (nanoseconds() + 8192) & ~uint64_t{1023};
  uint64_t begin;
  while ((begin = *start) == 0) __nanosleep(500);
  while (nanoseconds() < begin) {
  }
  const uint64_t base = cycles();
  uint64_t copies = 0, late = 0;
  if (role.task != Task::nothing) {
    const bool loads = role.task == Task::load;
    const uint32_t bytes = loads ? kLoadBytes : plan.bytes, ring = loads ? 4 : plan.ring;
    const uint8_t* const from = memory + (loads ? kLoadsFrom + size_t{place % 128} * 4 * kLoadBytes
                                                : size_t(role.group) * plan.ring * plan.bytes);
    const uint64_t until = base + uint64_t{plan.steps} * plan.period;
    const uint64_t delay = uint64_t(role.member) * plan.skew;
    const uint32_t stages = loads ? 6 : plan.stages;
    uint32_t stage = 0, phase = 0, at = 0;
    while (cycles() < base + delay) {
    }
#pragma unroll 1
    for (; loads ? cycles() < until : copies < plan.steps; ++copies) {
      if (copies >= stages) mbarrier_wait(shared_address(words + stage), phase ^ 1);
      if (!loads && plan.period != 0) {
        const uint64_t due = base + copies * plan.period + delay;
        uint64_t now;
        while ((now = cycles()) < due) {
        }
        late += now - due;
      }
      const uint32_t barrier = shared_address(words + stage);
      mbarrier_expect(barrier, bytes);
      copy_bulk(shared_address(shared) + stage * bytes, from + size_t{at} * bytes, bytes, barrier);
      if (++at == ring) at = 0;
      if (++stage == stages) stage = 0, phase ^= 1;
    }
    for (uint32_t i = 0; i < stages; ++i) {
      mbarrier_wait(shared_address(words + stage), phase ^ 1);
      if (++stage == stages) stage = 0, phase ^= 1;
    }
  }
  notes[place] = {copies, cycles() - base, late, place};
}

__global__ void __launch_bounds__(32, 1) where(uint32_t* places) {
  if (threadIdx.x == 0) places[blockIdx.x] = multiprocessor();
}

/// Clusters of two copy 16 KiB at a time to both blocks, half of it each. All clusters copy the same, or each has bytes
/// of its own.
__global__ void __launch_bounds__(32, 1) __cluster_dims__(2, 1, 1)
    meet_in_clusters(const uint8_t* memory, bool same, uint32_t steps, volatile uint64_t* start, uint32_t* arrived) {
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t words[6];
  constexpr uint32_t kStages = 6, kRing = 16, kHalf = kLoadBytes / 2;
  const uint32_t rank = cluster_rank();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < kStages; ++i) mbarrier_init(shared_address(words + i), 1);
    fence_barrier_init();
    if (atomicAdd(arrived, 1) + 1 == gridDim.x) *start = (nanoseconds() + 8192) & ~uint64_t{1023};
    uint64_t begin;
    while ((begin = *start) == 0) __nanosleep(500);
    while (nanoseconds() < begin) {
    }
  }
  __syncwarp();
  cluster_sync();
  const uint8_t* const from = memory + (same ? 0 : size_t{blockIdx.x / 2} * kRing * kLoadBytes) + rank * kHalf;
  const auto issue = [&](uint32_t i) {
    const uint32_t barrier = shared_address(words + i % kStages);
    mbarrier_expect(barrier, kLoadBytes);
    copy_bulk_multicast(shared_address(shared) + i % kStages * kLoadBytes + rank * kHalf,
                        from + size_t{i % kRing} * kLoadBytes, kHalf, barrier, 3);
  };
  if (threadIdx.x == 0)
    for (uint32_t i = 0; i < kStages; ++i) issue(i);
  for (uint32_t i = 0; i < steps; ++i) {
    if (threadIdx.x == 0) mbarrier_wait(shared_address(words + i % kStages), i / kStages % 2);
    __syncwarp();
    cluster_sync();  // both have the stage
    if (threadIdx.x == 0 && i + kStages < steps) issue(i + kStages);
  }
  cluster_sync();
}

/// Multiprocessors that were seen in one cluster are in one group (GPC).
std::vector<std::vector<int>> find_groups(int count) {
  std::vector<int> root(count);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int i) {
    while (root[i] != i) i = root[i];
    return i;
  };
  check(cudaFuncSetAttribute(where, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "cudaFuncSetAttribute");
  check(cudaFuncSetAttribute(where, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "cudaFuncSetAttribute");
  for (const unsigned size : {2u, 4u, 6u, 8u, 16u}) {
    const unsigned blocks = count / size * size;
    DeviceArray<uint32_t> places(blocks);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = 32;
    config.dynamicSmemBytes = kSharedBytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, where, places.data()), "where");
    finish_kernel("where");
    const auto seen = places.to_host();
    for (unsigned i = 0; i < blocks; ++i)
      root[find(static_cast<int>(seen[i]))] = find(static_cast<int>(seen[i / size * size]));
  }
  std::vector<std::vector<int>> groups;
  std::vector<int> number(count, -1);
  for (int i = 0; i < count; ++i) {
    int& group = number[find(i)];
    if (group < 0) group = static_cast<int>(groups.size()), groups.emplace_back();
    groups[group].push_back(i);
  }
  return groups;
}

struct Chip {
  int count = multiprocessors();
  std::vector<std::vector<int>> groups = find_groups(count);
  DeviceArray<uint8_t> memory{kMemory};
  DeviceArray<Role> roles_there{size_t(count)};
  DeviceArray<uint64_t> start{1};
  DeviceArray<uint32_t> arrived{1};
  DeviceArray<Note> notes{size_t(count)};

  Chip() { check(cudaFuncSetAttribute(meet, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "attribute"); }

  void run(const std::string& name, const std::vector<Role>& roles, const Plan& plan) {
    static const bool once = std::getenv("JOINED_ONCE") != nullptr;
    roles_there.from_host(roles);
    std::vector<double> rates;
    double asked = 0, load = 0, late = 0, copies = 0;
    int most = -1;
    for (const Role& role : roles)
      if (role.task == Task::copy) most = std::max(most, role.group);
    if (size_t(most + 1) * plan.ring * plan.bytes > kLoadsFrom || plan.stages > kMostStages ||
        size_t{plan.stages} * plan.bytes > kSharedBytes) {
      std::printf("{\"error\": \"plan too large\"}\n");
      return;
    }
    for (int repeat = 0; repeat < (once ? 1 : 6); ++repeat) {
      check(cudaMemset(start.data(), 0, sizeof(uint64_t)), "cudaMemset");
      check(cudaMemset(arrived.data(), 0, sizeof(uint32_t)), "cudaMemset");
      meet<<<count, 32, kSharedBytes>>>(memory.data(), roles_there.data(), plan, start.data(), arrived.data(),
                                        notes.data());
      finish_kernel("meet");
      asked = load = late = copies = 0;
      double cycles = 1;
      for (const Note& note : notes.to_host()) {
        const bool loads = roles[note.at].task == Task::load;
        (loads ? load : asked) += static_cast<double>(note.copies) * (loads ? kLoadBytes : plan.bytes);
        if (!loads) late += static_cast<double>(note.late), copies += static_cast<double>(note.copies);
        if (roles[note.at].task == Task::copy) cycles = std::max(cycles, static_cast<double>(note.cycles));
      }
      if (repeat > 0 || once) rates.push_back((asked + load) / cycles);
    }
    const double different = double(most + 1) * plan.steps * plan.bytes;
    std::sort(rates.begin(), rates.end());
    std::printf(
        "{\"name\": \"%s\", \"bytes\": %u, \"under way\": %u, \"period\": %u, \"skew\": %u, \"asked\": %.0f, "
        "\"different\": %.0f, \"load\": %.0f, \"late\": %.1f, \"bytes per cycle\": %.5g, \"low\": %.5g, \"high\": "
        "%.5g}\n",
        name.c_str(), plan.bytes, plan.stages, plan.period, plan.skew, asked, different, load,
        copies > 0 ? late / copies : 0., rates[rates.size() / 2], rates.front(), rates.back());
    std::fflush(stdout);
  }

  std::vector<Role> nobody() const { return std::vector<Role>(count); }

  /// Groups of `size` among `members`, neighbours in that list.
  void pair_up(std::vector<Role>& roles, const std::vector<int>& members, size_t size, int& group) const {
    for (size_t i = 0; i + size <= members.size(); i += size, ++group)
      for (size_t k = 0; k < size; ++k) roles[members[i + k]] = {Task::copy, group, static_cast<int>(k)};
  }

  /// The first multiprocessor of each pair (TPC) of a group.
  static std::vector<int> firsts(const std::vector<int>& members) {
    std::vector<int> all;
    for (const int each : members)
      if (each % 2 == 0) all.push_back(each);
    return all;
  }

  enum class Where { pair, group, chip };
  static const char* name_of(Where where) {
    return where == Where::pair    ? "pairs in a TPC"
           : where == Where::group ? "pairs of two TPCs of a GPC"
                                   : "pairs of two GPCs";
  }
  /// Pairs all over the chip; with `loaded`, every second TPC of each group loads L2.
  std::vector<Role> pairs(Where where, bool loaded) const {
    auto roles = nobody();
    int group = 0;
    std::vector<int> all;
    for (const auto& members : groups) {
      std::vector<int> here;
      const auto starts = firsts(members);
      for (size_t i = 0; i < starts.size(); ++i) {
        if (loaded && i % 2 == 1) {
          roles[starts[i]].task = roles[starts[i] + 1].task = Task::load;
          continue;
        }
        here.push_back(starts[i]);
        if (where == Where::pair) here.push_back(starts[i] + 1);
      }
      if (where != Where::chip) pair_up(roles, here, 2, group);
      all.push_back(here.empty() ? -1 : here[0]);
    }
    if (where == Where::chip) {
      std::erase(all, -1);
      pair_up(roles, all, 2, group);
    }
    return roles;
  }
};

BENCHMARK(partners) {
  Chip chip;
  for (const auto& members : chip.groups) {
    std::printf("{\"together in clusters\": [");
    for (const int each : members) std::printf("%s%d", each == members[0] ? "" : ", ", each);
    std::printf("]}\n");
  }
  for (int partner = 1; partner < chip.count; partner += partner == 1 ? 1 : 2) {
    auto roles = chip.nobody();
    roles[0] = {Task::copy, 0, 0};
    roles[partner] = {Task::copy, 0, 1};
    chip.run("multiprocessors 0 and " + std::to_string(partner), roles, {.steps = 300});
  }
}

BENCHMARK(skew_alone) {
  Chip chip;
  for (const auto where : {Chip::Where::pair, Chip::Where::group, Chip::Where::chip})
    for (const uint32_t skew : {0, 50, 100, 150, 200, 250, 300, 350, 400, 500, 600, 700, 800, 1000, 1200})
      chip.run(Chip::name_of(where), chip.pairs(where, false), {.steps = 300, .skew = skew});
}

BENCHMARK(skew_under_load) {
  Chip chip;
  for (const auto where : {Chip::Where::pair, Chip::Where::group, Chip::Where::chip})
    for (const uint32_t skew : {0, 100, 200, 300, 400, 500, 600, 800, 1000, 1500, 2000})
      chip.run(std::string(Chip::name_of(where)) + ", the others load L2", chip.pairs(where, true),
               {.steps = 300, .period = 2500, .skew = skew});
}

BENCHMARK(free_groups) {
  Chip chip;
  const auto by_group = [&](size_t size, bool one_of_pair) {
    auto roles = chip.nobody();
    int group = 0;
    for (const auto& members : chip.groups)
      chip.pair_up(roles, one_of_pair ? Chip::firsts(members) : members, size == 0 ? members.size() : size, group);
    return roles;
  };
  const auto all = [&] {
    auto roles = chip.nobody();
    for (int i = 0; i < chip.count; ++i) roles[i] = {Task::copy, 0, i};
    return roles;
  };
  for (const uint32_t skew : {0, 200, 500, 1000, 2500}) {
    for (const auto& [bytes, stages] : {std::pair{16384u, 6u}, std::pair{8192u, 4u}}) {
      // Pairs need room for a ring that takes longer than any skew.
      Plan plan{.bytes = bytes,
                .ring = 16384 / bytes * 11,
                .steps = 16384 / bytes * 400,
                .stages = stages,
                .period = 0,
                .skew = skew};
      if (skew == 0) chip.run("each alone", by_group(1, false), plan);
      plan.ring = 16384 / bytes * 23;
      chip.run("groups of 2, a TPC", by_group(2, false), plan);
      chip.run("groups of 2, first of each TPC", by_group(2, true), plan);
      if (skew > 1000) continue;
      chip.run("groups of 4, two TPCs of a GPC", by_group(4, false), plan);
      chip.run("groups of 8, four TPCs of a GPC", by_group(8, false), plan);
      chip.run("groups of 16, eight TPCs of a GPC", by_group(16, false), plan);
      if (skew < 1000) chip.run("all the same", all(), plan);
    }
  }
}

BENCHMARK(multicast) {
  Chip chip;
  check(cudaFuncSetAttribute(meet_in_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes), "attribute");
  constexpr uint32_t kSteps = 600;
  for (const bool same : {false, true}) {
    check(cudaMemset(chip.start.data(), 0, sizeof(uint64_t)), "cudaMemset");
    check(cudaMemset(chip.arrived.data(), 0, sizeof(uint32_t)), "cudaMemset");
    meet_in_clusters<<<chip.count / 4 * 4 - 12, 32, kSharedBytes>>>(chip.memory.data(), same, kSteps, chip.start.data(),
                                                                    chip.arrived.data());
    finish_kernel("meet_in_clusters");
    std::printf("{\"name\": \"multicast to 2, %s\", \"asked\": %.0f}\n", same ? "all the same" : "each cluster its own",
                (chip.count / 4 * 4 - 12) / 2 * double{kSteps} * kLoadBytes);
  }
}

BENCHMARK(paths) {
  Chip chip;
  const Plan plan{.bytes = 16384, .ring = 7, .steps = 800, .stages = 10, .period = 0};
  const auto with = [&](const char* name, const std::vector<int>& members) {
    auto roles = chip.nobody();
    int group = 0;
    chip.pair_up(roles, members, 1, group);
    chip.run(std::string(name) + ", " + std::to_string(members.size()), roles, plan);
  };
  std::vector<int> every(chip.count), first;
  std::iota(every.begin(), every.end(), 0);
  with("one multiprocessor", {0});
  with("both of a TPC", {0, 1});
  for (const size_t group : {size_t{0}, chip.groups.size() - 1}) {
    const auto& members = chip.groups[group];
    auto starts = Chip::firsts(members);
    with("one GPC", members);
    with("one GPC, first of each TPC", starts);
    for (const size_t count : {2, 3, 4, 6}) {
      if (count > starts.size()) continue;
      with("one GPC, first of some TPCs", {starts.begin(), starts.begin() + count});
      std::vector<int> both;
      for (size_t i = 0; i < count; ++i) both.push_back(starts[i]), both.push_back(starts[i] + 1);
      with("one GPC, both of some TPCs", both);
    }
  }
  std::vector<int> two = chip.groups[0];
  two.insert(two.end(), chip.groups[1].begin(), chip.groups[1].end());
  with("two GPCs", two);
  with("all", every);
  with("first of each TPC", Chip::firsts(every));
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
