#include "emulator/timing/engines.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "emulator/timing/code_schedule.hpp"

namespace stagecraft::emulator::timing {
namespace {

Operation product(uint32_t m, uint32_t n, bool tensor_memory, bool pair, bool a_in_shared) {
  Operation operation;
  operation.engine = Engine::product;
  operation.m = m;
  operation.n = n;
  operation.k = 16;
  operation.tensor_memory = tensor_memory;
  operation.of_pair = pair;
  operation.a_in_shared = a_in_shared;
  return operation;
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, "wgmma ... rate, 1 warpgroup".
TEST(ProductCyclesTest, AreThoseOfWgmmaOnTheH200) {
  const auto cycles = [](uint32_t n, bool a_in_shared) {
    return cycles_of_product(product(64, n, false, false, a_in_shared)).tensor;
  };
  EXPECT_NEAR(cycles(256, true), 128.06, 0.1);
  EXPECT_NEAR(cycles(64, true), 32, 0.1);
  EXPECT_NEAR(cycles(32, true), 24.06, 0.1);
  EXPECT_NEAR(cycles(8, true), 18.06, 0.1);
  EXPECT_NEAR(cycles(256, false), 128, 0.1);
  EXPECT_NEAR(cycles(32, false), 16, 0.1);
  EXPECT_NEAR(cycles(8, false), 13, 0.1);
}

// Published: SemiAnalysisAI/microbench-blackwell, umma_throughput/tput_results_full.csv, the longest runs of BF16, SS.
TEST(ProductCyclesTest, AreThoseOfTcgen05OnAB200) {
  const auto cycles = [](uint32_t m, uint32_t n, bool pair) {
    return cycles_of_product(product(m, n, true, pair, true)).tensor;
  };
  EXPECT_NEAR(cycles(128, 256, false), 128.6, 0.02 * 128.6);
  EXPECT_NEAR(cycles(128, 128, false), 64.6, 0.02 * 64.6);
  EXPECT_NEAR(cycles(128, 64, false), 48.6, 0.02 * 48.6);
  EXPECT_NEAR(cycles(256, 256, true), 128.7, 0.02 * 128.7);
  EXPECT_NEAR(cycles(256, 128, true), 64.8, 0.02 * 64.8);
  EXPECT_NEAR(cycles(128, 256, true), 64.7, 0.02 * 64.7);
  EXPECT_NEAR(cycles(128, 64, true), 25.7, 0.1 * 25.7);
}

// Nobody has published cycles of sparse products: twice the K in the cycles of a dense one, as NVIDIA's peaks say, if
// shared memory supplies twice the bytes of B.
TEST(ProductCyclesTest, OfASparseAAreThoseOfTheSameBytesOfADenseOne) {
  const auto cycles = [](uint32_t m, uint32_t n, bool pair, bool sparse) {
    Operation operation = product(m, n, true, pair, true);
    operation.sparse = sparse;
    return cycles_of_product(operation).tensor;
  };
  EXPECT_EQ(cycles(256, 256, true, true), cycles(256, 256, true, false));
  EXPECT_EQ(cycles(128, 256, false, true), 32 + 128);  // limited by 64 bytes of each column of B
  EXPECT_EQ(cycles(128, 256, true, true), 128);        // 64 rows in half of the lanes
}

constexpr uint32_t kAllSectors = 15;
constexpr double kFromDram = 378;  // in addition to the latency of L2

LineRequest whole(uint64_t line) { return request_of(line, kAllSectors); }

TEST(LineRequestTest, NamesTheSectorsThatBytesAreIn) {
  EXPECT_EQ(sectors_between(0, 127), kAllSectors);
  EXPECT_EQ(sectors_between(128 + 40, 128 + 47), 2u);
  EXPECT_EQ(sectors_between(60, 70), 6u);
  EXPECT_EQ(line_of(request_of(7, 2)), 7u);
  EXPECT_EQ(sectors_of(request_of(7, 2)), 2u);
}

TEST(CacheLinesTest, KeepWhatWasUsedLast) {
  CacheLines lines(64 * kLineBytes);
  EXPECT_EQ(lines.read(whole(7)).missing, kAllSectors);
  EXPECT_EQ(lines.read(whole(7)).missing, 0u);
  for (uint32_t line = 1000; line < 2000; ++line) lines.read(whole(line));
  EXPECT_EQ(lines.read(whole(7)).missing, kAllSectors);
}

TEST(CacheLinesTest, FetchSectors) {
  CacheLines lines(64 * kLineBytes);
  EXPECT_EQ(lines.read(request_of(7, 3)).missing, 3u);
  EXPECT_EQ(lines.read(request_of(7, 6)).missing, 4u);
}

TEST(CacheLinesTest, DramGivesSectorsInPairs) {
  CacheLines lines(64 * kLineBytes);
  EXPECT_EQ(lines.read(request_of(7, 0b0001), true).missing, 0b0011u);
  EXPECT_EQ(lines.read(request_of(7, 0b0010), true).missing, 0u);
  EXPECT_EQ(lines.read(request_of(7, 0b0110), true).missing, 0b1100u);
}

TEST(CacheLinesTest, KeepWhatIsWrittenUntilItIsTooMuchOrReplaced) {
  CacheLines lines(64 * kLineBytes);
  lines.write(request_of(7, 1));
  lines.write(request_of(7, 1));
  lines.write(request_of(8, 0b0100), true);
  EXPECT_FALSE(lines.has_written(3));
  EXPECT_TRUE(lines.has_written(2));
  EXPECT_EQ(lines.take_written(2), std::vector{request_of(7, 1)});  // the oldest
  EXPECT_EQ(lines.read(request_of(7, 1)).missing, 0u);              // it is still there
  for (uint32_t line = 1000; line < 2000; ++line) lines.read(whole(line));
  EXPECT_EQ(lines.take_written(2), std::vector{request_of(8, 0b1100)});
  EXPECT_FALSE(lines.has_written(0));
}

/// An empty L2 of a launch that comes after others, so that pages are translated.
L2Contents known_pages(const ChipModel& chip) {
  return {CacheLines(chip.l2_half_capacity), CacheLines(chip.l2_half_capacity)};
}

// As a naive transposition does it: each sector is written in eight parts, which L2 gathers.
TEST(MemorySystemTest, WhatIsWrittenAgainGoesToDramOnce) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  std::vector<LineRequest> lines(32);
  for (uint32_t part = 0; part < 32; ++part) {
    for (uint32_t i = 0; i < 32; ++i) lines[i] = request_of(i * 128, 1u << part / 8);
    memory.write(part * 100, lines);
  }
  EXPECT_EQ(memory.l2_bytes_moved(), 32 * 32 * 32);
  EXPECT_EQ(memory.dram_bytes_moved(), 0);
  // Much more is written: what L2 does not keep goes to DRAM.
  const auto more = static_cast<uint32_t>(chip.l2_written_most / kLineBytes) + 10'000;
  for (uint32_t line = 1 << 20; line < (1 << 20) + more; ++line) memory.write(10'000, std::vector{whole(line)});
  EXPECT_NEAR(memory.dram_bytes_moved(), (32 + 10'000) * 128, 1000 * 128);
  EXPECT_EQ(memory.dram_busy(), memory.dram_bytes_moved() / (chip.dram_rate * 1e3 / 1980));
}

// Measured on an H200: nvidia-h200-2026-11-28-everyday-ncu.txt, `stream` of 24 MiB: 6.9 us, 7.9 us and, as a copy,
// 12.7 us, of which some 2 are the launch.
TEST(MemorySystemTest, WhatComesFromDramAndWhatIsWrittenShareAWay) {
  const ChipModel& chip = *find_chip_model("H200");
  constexpr uint32_t kLines = 24 << 13;
  const auto time_of = [&](bool reads, bool writes) {
    const L2Contents empty = known_pages(chip);
    MemorySystem memory(chip, 1980, &empty);
    double end = 0;
    for (uint32_t line = 0; line < kLines; ++line) {
      if (reads) end = std::max(end, memory.read(0, line % 132, std::vector{whole(line)}, 0));
      if (writes) end = std::max(end, memory.write(0, std::vector{whole(line + (1 << 20))}));
    }
    return end;
  };
  EXPECT_NEAR(time_of(true, true) / (time_of(true, false) + time_of(false, true)), 1, 0.2);
}

// fresh-pages-ncu: words of pages that no launch has asked for, 2 MiB apart and, after those, 32 MiB.
TEST(MemorySystemTest, TheFirstAccessToAPageIsLate) {
  const ChipModel& chip = *find_chip_model("H200");
  constexpr uint32_t kPage = (2 << 20) / kLineBytes;
  MemorySystem fresh(chip, 1980);
  const double first = fresh.read(0, 2, std::vector{whole(0)}, kFromDram);
  const double again = fresh.read(1e5, 2, std::vector{whole(4)}, kFromDram) - 1e5;
  EXPECT_NEAR(first - again, chip.page_walk_latency, 20);
  double last = 0;
  for (uint32_t page = 1; page <= 500; ++page)
    last = fresh.read(2e5, 2, std::vector{whole(page * kPage)}, kFromDram) - 2e5;
  EXPECT_NEAR(last - first, (500 * chip.page_walk + 500. / 16 * chip.page_entries) * 1.98, 500);
  for (uint32_t page = 1; page <= 100; ++page)
    last = fresh.read(3e5, 2, std::vector{whole((512 + 16 * page) * kPage)}, kFromDram) - 3e5;
  EXPECT_NEAR(last - first, 100 * (chip.page_walk + chip.page_entries) * 1.98, 500);
  MemorySystem known(chip, 1980);
  const L2Contents left = known.take_contents();
  MemorySystem later(chip, 1980, &left);
  EXPECT_NEAR(later.read(0, 2, std::vector{whole(0)}, kFromDram), again, 20);
}

// rows-and-pages, `1 loads at once`, and blocks: reads of DRAM beside stores of lines that are new to L2, and of one
// that is not.
TEST(MemorySystemTest, DramAnswersLaterBesideStoresOfNewLines) {
  const ChipModel& chip = *find_chip_model("H200");
  const auto time_beside = [&](uint32_t lines_stored) {
    const L2Contents empty = known_pages(chip);
    MemorySystem memory(chip, 1980, &empty);
    constexpr uint32_t kLines = 50'000, kApart = 100;  // cycles: nothing else waits
    double last = 0;
    for (uint32_t i = 0; i < kLines; ++i) {
      memory.write(i * kApart, std::vector{whole(kLines + i % lines_stored)});
      last = memory.read(i * kApart, 2, std::vector{whole(i)}, kFromDram) - i * kApart;
    }
    return last;
  };
  EXPECT_NEAR(time_beside(50'000) - time_beside(1), chip.beside_stores, 20);
}

TEST(MemorySystemTest, AUsedL2HasWrittenLinesOfOthers) {
  const ChipModel& chip = *find_chip_model("H200");
  const L2Contents used = used_l2(chip, 1);
  MemorySystem memory(chip, 1980, &used);
  constexpr uint32_t kLines = 100'000;
  for (uint32_t line = 0; line < kLines; ++line) memory.write(0, std::vector{whole(line)});
  EXPECT_NEAR(memory.dram_bytes_moved(), kLines * 128., 0.1 * kLines * 128);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-23-memory-load.jsonl, "stores into L2".
TEST(MemorySystemTest, APartOfASectorTakesAsLongAsASectorMore) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem all(chip, 1980), part(chip, 1980);
  all.write(0, std::vector{request_of(5, 3)});
  part.write(0, std::vector{request_of(5, 1)}, 1);
  EXPECT_EQ(all.writes_busy(), part.writes_busy());
  EXPECT_EQ(part.l2_bytes_moved(), 32);
}

TEST(MemorySystemTest, ALineTakesItsTimeHoweverLittleIsRead) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  std::vector<LineRequest> lines(1000);
  for (uint32_t i = 0; i < lines.size(); ++i) lines[i] = request_of(i, 1);
  memory.read(0, 0, lines, kFromDram);
  // Half of them belong to the other half of L2, which is asked, too.
  EXPECT_NEAR(memory.l2_busy(), 1500 / (132 * 32 / 46.8), 0.5);
}

TEST(MemorySystemTest, WhatIsOnItsWayFromDramIsWaitedForByOthers) {
  MemorySystem memory(*find_chip_model("H200"), 1980);
  const std::vector<LineRequest> line{whole(5)};
  const double first = memory.read(0, 0, line, kFromDram);
  EXPECT_GT(first, kFromDram);
  // By another pair, which is further from L2.
  EXPECT_NEAR(memory.read(100, 20, line, kFromDram), first, 15);
  EXPECT_LT(memory.read(5000, 20, line, kFromDram), 5010);
  EXPECT_EQ(memory.dram_bytes_moved(), 128);
}

// Measured there, too: at 76% of its rate DRAM takes 147 cycles longer than when idle, and at 55% 75.
TEST(MemorySystemTest, DramTakesLongerTheMoreItIsAskedFor) {
  const ChipModel& chip = *find_chip_model("H200");
  const auto mean_wait = [&](double use) {
    const L2Contents empty = known_pages(chip);
    MemorySystem memory(chip, 1980, &empty);
    const double apart = kLineBytes / (chip.dram_rate * 1e3 / 1980) / use;
    double waited = 0;
    for (uint32_t i = 0; i < 100'000; ++i)
      waited += memory.read(i * apart, i % chip.multiprocessors, std::vector{whole(i)}, 0) - i * apart;
    return waited / 100'000;
  };
  EXPECT_NEAR(mean_wait(0.55), 75, 35);
  EXPECT_NEAR(mean_wait(0.76), 147, 35);
  EXPECT_LT(mean_wait(0.1), 20);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-23-joined-requests-counters.jsonl.
TEST(MemorySystemTest, AGroupSharesARequestThatIsOnItsWay) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  const std::vector<LineRequest> line{whole(6)};
  memory.read(0, 0, line, kFromDram);
  memory.read(10, 1, line, kFromDram);   // the same TPC
  memory.read(20, 16, line, kFromDram);  // another TPC of the GPC
  memory.read(30, 17, line, kFromDram);
  EXPECT_EQ(memory.l2_bytes_moved(), 128);
  memory.read(40, 32, line, kFromDram);  // a fifth
  EXPECT_EQ(memory.l2_bytes_moved(), 256);
  memory.read(50, 2, line, kFromDram);  // another GPC
  EXPECT_EQ(memory.l2_bytes_moved(), 384);
  memory.read(5000, 3, line, kFromDram);  // too late
  EXPECT_EQ(memory.l2_bytes_moved(), 512);
  EXPECT_EQ(memory.dram_bytes_moved(), 128);
}

// "multicast to 2, all the same" of these counters.
TEST(MemorySystemTest, ARequestOfAMulticastCopyIsNotShared) {
  MemorySystem memory(*find_chip_model("H200"), 1980);
  const std::vector<LineRequest> line{whole(6)};
  uint32_t multiprocessor = 0;
  for (const bool shared : {false, false, true, false}) memory.read(0, multiprocessor++ * 16, line, kFromDram, shared);
  EXPECT_EQ(memory.l2_bytes_moved(), 4 * 128);
}

TEST(MemorySystemTest, ARequestCanBeJoinedForLongerWhereItWaits) {
  const ChipModel& chip = *find_chip_model("H200");
  const auto joins = [&](uint32_t lines_before, double skew) {
    MemorySystem memory(chip, 1980);
    std::vector<LineRequest> before(lines_before);
    for (uint32_t i = 0; i < lines_before; ++i) before[i] = whole(1000 + i);
    if (lines_before > 0) memory.read(0, 0, before, kFromDram);
    const std::vector<LineRequest> line{whole(6)};
    memory.read(0, 0, line, kFromDram);
    const double moved = memory.l2_bytes_moved();
    memory.read(skew, 1, line, kFromDram);
    return memory.l2_bytes_moved() == moved;
  };
  EXPECT_TRUE(joins(0, 50));
  EXPECT_FALSE(joins(0, 100));
  EXPECT_TRUE(joins(50'000, 500));
  EXPECT_FALSE(joins(50'000, 1000));
}

// Measured there, too: 16 multiprocessors of a GPC get 39.5 bytes a cycle each.
TEST(MemorySystemTest, AGroupGetsWhatItsPathGives) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  std::vector<LineRequest> lines(5000);
  for (uint32_t i = 0; i < lines.size(); ++i) lines[i] = whole(i);
  for (const uint32_t multiprocessor : {0, 2}) {
    const double begin = 1e6 * (multiprocessor + 1);
    memory.read(begin, multiprocessor, lines, 0);  // the other half of L2 and DRAM are asked, too
    const double again = begin + 5e5;
    EXPECT_NEAR(5000 * 128 / (memory.read(again, multiprocessor, lines, 0) - again), 632, 1);
  }
  EXPECT_NEAR(memory.paths_busy(), 4 * 5000 * 128 / 632. / 8, 2);
}

Access atomics(uint32_t passes, uint32_t same, bool floating = false) {
  Access access;
  access.atomic = true;
  access.passes = passes;
  access.same = same;
  access.floating = floating;
  return access;
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-23-scattered.jsonl, "1 words" and, at random, "64
// words" next to each other: 1.36 and 3.44 10^9 a second.
TEST(MemorySystemTest, AtomicOperationsOnOnePairOfLinesQueue) {
  const ChipModel& chip = *find_chip_model("H200");
  const auto rate = [&](const std::vector<LineRequest>& lines, const Access& access) {
    const L2Contents empty = known_pages(chip);
    MemorySystem memory(chip, 1980, &empty);
    double end = 0;
    for (int warp = 0; warp < 1000; ++warp) end = memory.update(0, lines, access, 0);
    return 32'000 / end * 1.98;  // 10^9 lanes a second
  };
  EXPECT_NEAR(rate({request_of(5, 1)}, atomics(32, 32)), 1.36, 0.03);
  // Four lanes to each of eight sectors meet at one word by 1.4 in the mean.
  EXPECT_NEAR(rate({whole(6), whole(7)}, atomics(11, 2)), 3.44, 0.5);
  EXPECT_NEAR(rate({whole(6)}, atomics(4, 1)), 12.25, 2);  // a word for each lane: "32 words", in turn
  EXPECT_NEAR(rate({request_of(5, 1)}, atomics(32, 32, true)), 0.57, 0.02);
  EXPECT_EQ(rate({whole(6)}, atomics(4, 1, true)), rate({whole(6)}, atomics(4, 1)));
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, "load latency, ring of ...".
TEST(MemorySystemTest, TheOtherHalfOfL2IsFurtherThanTheOwn) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  std::vector<double> first, second;
  const auto read_all = [&](double begin, uint32_t multiprocessor, std::vector<double>* took) {
    for (uint32_t line = 0; line < 64; ++line) {
      const double now = begin + line * 1e3;
      const double at = memory.read(now, multiprocessor, std::vector{whole(line)}, kFromDram);
      if (took != nullptr) took->push_back(at - now);
    }
  };
  read_all(0, 0, nullptr);
  read_all(1e6, 8, &first);
  read_all(2e6, 8, &second);
  // A line of the first half takes 80 cycles more for the other, and is then in both.
  EXPECT_EQ(memory.dram_bytes_moved(), 64 * 128);
  EXPECT_NEAR(*std::max_element(first.begin(), first.end()), chip.l2_far_latency - chip.l2_latency, 5);
  EXPECT_LT(*std::min_element(first.begin(), first.end()), 5);
  EXPECT_LT(*std::max_element(second.begin(), second.end()), 5);
}

// As random keys of a hash table: 64 bytes come from DRAM and go back for each, and a bank is busy nearly as long as
// with a whole line.
TEST(MemorySystemTest, AtomicOperationsOnWordsInDramMove64BytesTwice) {
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory(chip, 1980);
  for (uint32_t line = 0; line < 64; ++line)
    memory.update(0, std::vector{request_of(line, 0b0001)}, Access{.atomic = true, .passes = 1}, kFromDram);
  EXPECT_EQ(memory.dram_bytes_moved(), 64 * 64);
  // They go back once other lines have replaced them.
  for (uint32_t line = 1 << 20; line < (1 << 20) + (1 << 20); ++line)
    memory.read(1e5, 0, std::vector{request_of(line, 1)}, kFromDram);
  EXPECT_EQ(memory.dram_bytes_moved(), 64 * 128 + 64. * (1 << 20));
}

TEST(MemorySystemTest, AResultOfAnAtomicOperationTakesTime) {
  const ChipModel& chip = *find_chip_model("H200");
  const auto time_of = [&](bool returns) {
    MemorySystem memory(chip, 1980);
    double at = 0;
    for (const double begin : {0., 1e6}) {  // the second time, all is in L2
      for (uint32_t line = 0; line < 4096; ++line) {
        const Access access{.atomic = true, .passes = 1, .returns = returns};
        at = std::max(at, memory.update(begin, std::vector{request_of(line, 0b1111)}, access, 0));
      }
    }
    return at - 1e6;
  };
  // Measured on an H100: 9.4 against 7.1 us for 512 Ki words, of which the launch is 1.1.
  EXPECT_NEAR(time_of(true) / time_of(false), 8.3 / 6, 0.05);
}

TEST(MemorySystemTest, ALaunchFindsWhatTheOneBeforeHasLeft) {
  const ChipModel& chip = *find_chip_model("H200");
  const std::vector<LineRequest> line{whole(5)};
  MemorySystem before(chip, 1980);
  before.read(1e6, 0, line, kFromDram);
  const L2Contents left = before.take_contents();
  MemorySystem after(chip, 1980, &left);
  EXPECT_LT(after.read(0, 0, line, kFromDram), 5);
  EXPECT_EQ(after.dram_bytes_moved(), 0);
}

TEST(CodeScheduleTest, FollowsDependencesAndThePipes) {
  const ChipModel& chip = *find_chip_model("H200");
  // Four independent fp32 operations, then four that depend on each other: 4 cycles each.
  Code code;
  for (uint32_t i = 0; i < 4; ++i) code.push_back({InstructionClass::float32, {100 + i}, {i}});
  for (uint32_t i = 0; i < 4; ++i) code.push_back({InstructionClass::float32, {10 + i}, {11 + i}});
  for (uint32_t i = 0; i < 4; ++i) code.push_back({InstructionClass::logic, {100 + i}, {20 + i}});
  code[4].first = code[8].first = true;
  CodeSchedule schedule(code, chip);
  EXPECT_NEAR(schedule.parts(0, 3).front().cycles, 4, 0.01);
  EXPECT_NEAR(schedule.parts(4, 7).front().cycles, 13, 0.01);
  EXPECT_NEAR(schedule.parts(8, 11).front().cycles, 8, 1.01);  // the pipe takes one in two cycles
}

TEST(CodeScheduleTest, ChainsOfStraightCodeInterleave) {
  const auto chains = [](uint32_t count, bool apart) {
    Code code;
    for (uint32_t chain = 0; chain < count; ++chain) {
      for (uint32_t i = 0; i < 8; ++i) code.push_back({InstructionClass::float32, {10 * chain}, {10 * chain}});
      code[8 * chain].first = apart;
    }
    CodeSchedule schedule(code, *find_chip_model("H200"));
    double cycles = 0;
    for (uint32_t chain = 0; chain < count; ++chain) {  // runs that end at loads, say
      for (const CodePart& part : schedule.parts(8 * chain, 8 * chain + 7)) cycles += part.cycles;
    }
    return cycles;
  };
  EXPECT_NEAR(chains(1, false), 32, 4);
  EXPECT_NEAR(chains(4, true), 4 * chains(1, false), 0.01);
  EXPECT_LT(chains(4, false), 0.7 * chains(4, true));
  EXPECT_GT(chains(8, false), 1.5 * chains(4, false));  // ptxas does not look far
}

// Measured on an H200: nvidia-h200-2026-11-23-divisions.jsonl, `div.rn.f32 issue, 1 warp` and `div.full.f32 ...`.
TEST(CodeScheduleTest, ADivisionWithABranchEndsBeforeTheNextBegins) {
  const auto cycles_each = [](InstructionClass kind) {
    Code code;
    for (uint32_t i = 0; i < 8; ++i) code.push_back({kind, {10 + i}, {10 + i}});
    CodeSchedule schedule(code, *find_chip_model("H200"));
    return schedule.parts(0, 7).front().cycles / 8;
  };
  EXPECT_NEAR(cycles_each(InstructionClass::divide_float), 57.25, 1);
  EXPECT_NEAR(cycles_each(InstructionClass::divide_full), 10, 1.5);
}

// Measured on an H200: nvidia-h200-2026-11-24-tiny-divisions.jsonl, `div.rn.f32 of a tiny number latency`, less the
// sum.
TEST(CodeScheduleTest, ADivisionOfATinyNumberCallsAFunction) {
  const Code code{{InstructionClass::divide_float, {1}, {2}}};
  CodeSchedule schedule(code, *find_chip_model("H200"));
  EXPECT_NEAR(schedule.parts(0, 0).front().cycles, 57.25, 1);
  EXPECT_NEAR(schedule.parts(0, 0, RunEnd::function).front().cycles, 520.8, 1);
}

// What ptxas makes of div.u32 is 18 instructions. Measured on an H200: nvidia-h200-2026-11-23-divisions.jsonl,
// `div.u32`.
TEST(CodeScheduleTest, ADivisionIsSomeTensOfInstructions) {
  const Code code{{InstructionClass::divide, {1}, {2}}, {InstructionClass::add, {2}, {3}}};
  CodeSchedule schedule(code, *find_chip_model("H200"));
  const CodePart part = schedule.parts(0, 0).front();
  EXPECT_EQ(part.pipes[static_cast<size_t>(Pipe::issue)], 18);
  EXPECT_EQ(part.pipes[static_cast<size_t>(Pipe::special)], 27.9);
  EXPECT_EQ(part.pipes[static_cast<size_t>(Pipe::fma)], 16);
  EXPECT_GT(schedule.parts(0, 1).front().cycles, 75);  // the sum waits for the quotient
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, "mma.sync m16n8k16 latency".
TEST(CodeScheduleTest, ProductsOfAWarpOnOneSumWaitForEachOther) {
  const Code code(5, {InstructionClass::warp_matrix, {1}, {1}});
  CodeSchedule schedule(code, *find_chip_model("H200"));
  EXPECT_NEAR(schedule.parts(0, 4).front().cycles, 5 * 24, 0.01);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, "setmaxnreg".
TEST(CodeScheduleTest, AChangeOfRegistersStopsItsWarp) {
  const Code code{{InstructionClass::fewer_registers, {}, {}}, {InstructionClass::more_registers, {}, {}}};
  CodeSchedule schedule(code, *find_chip_model("H200"));
  EXPECT_NEAR(schedule.parts(0, 0).front().cycles, 60, 0.01);
  EXPECT_NEAR(schedule.parts(1, 1).front().cycles, 226, 0.01);
}

TEST(CodeScheduleTest, EndsAPartWhereALoadedValueIsNeeded) {
  const Code code{{InstructionClass::memory, {1}, {2}},
                  {InstructionClass::float32, {5}, {6}},
                  {InstructionClass::float32, {2}, {7}}};
  CodeSchedule schedule(code, *find_chip_model("H200"));
  const auto& parts = schedule.parts(0, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(parts[0].needs.empty());
  EXPECT_EQ(parts[0].pc, 0u);
  EXPECT_EQ(parts[1].pc, 2u);
  EXPECT_EQ(parts[1].needs, std::vector<uint32_t>{2});
}

TEST(CodeScheduleTest, LoadsMoveUpToWhatTheyNeed) {
  Code code(8);
  for (Instruction& each : code) each.kind = InstructionClass::add;
  code[0].first = true;
  const auto load = [&](uint32_t pc, uint32_t from) {
    code[pc] = {.kind = InstructionClass::memory, .reads = {from}, .writes = {100 + pc}};
    code[pc].shared = code[pc].plain_load = true;
  };
  load(1, 1);
  code[2].writes = {7};  // an address
  load(3, 7);
  code[4] = {.kind = InstructionClass::memory, .reads = {1}, .writes = {}, .shared = true};  // a store
  load(5, 1);
  code[6].first = true;
  load(7, 101);
  const CodeSchedule schedule(code, *find_chip_model("H200"));
  EXPECT_EQ(schedule.earliest(1), 0u);
  EXPECT_EQ(schedule.earliest(3), 0u);  // with what computes its address
  EXPECT_EQ(schedule.earliest(5), 5u);  // not over the store
  EXPECT_EQ(schedule.earliest(7), 6u);  // not into the code before
  EXPECT_EQ(schedule.piece(5), 0u);
  EXPECT_EQ(schedule.piece(7), 6u);
}

TEST(ChipClockTest, FallsWithTheWorkOfTheTensorCores) {
  const ChipModel& chip = *find_chip_model("H200");
  const ClockCurve& curve = chip.sustained_clock;
  EXPECT_EQ(clock_of(curve, 0, 0), 1980);
  EXPECT_EQ(clock_of(curve, 1, 0), 1603);  // as recorded
  EXPECT_EQ(clock_of(curve, 1, 1), 1363);
  EXPECT_LT(clock_of(curve, 0.9, 0), clock_of(curve, 0.8, 0));
  EXPECT_GT(clock_of(chip.burst_clock, 1, 1), clock_of(curve, 1, 1));
  EXPECT_EQ(find_chip_model("B300"), nullptr);
}

TEST(ChipModelTest, EachEmulatedChipHasItsOwnModelOrNone) {
  EXPECT_EQ(find_chip_model(machine::h200()), find_chip_model("H200"));
  EXPECT_EQ(find_chip_model(machine::b200()), find_chip_model("B200"));
  EXPECT_EQ(find_chip_model(machine::rtx5090()), find_chip_model("RTX 5090"));
  EXPECT_EQ(find_chip_model(machine::spark()), nullptr);
}

TEST(ChipModelTest, AnRtx5090HasTheRatesOfProductsThatAreListedForIt) {
  const ChipModel& chip = *find_chip_model("RTX 5090");
  const auto teraflops = [&](InstructionClass kind, double depth) {
    const double cycles = chip.costs[static_cast<size_t>(kind)].interval / 4;  // four sub-partitions
    return 2 * 16 * 8 * depth / cycles * chip.multiprocessors * 2.407e-3;
  };
  EXPECT_NEAR(teraflops(InstructionClass::warp_matrix, 16), 209.5, 0.5);       // bf16
  EXPECT_NEAR(teraflops(InstructionClass::warp_matrix_short, 8), 209.5, 0.5);  // bf16, m16n8k8
  EXPECT_NEAR(teraflops(InstructionClass::warp_matrix_quick, 16), 419, 1);     // f16, sums of f16
  EXPECT_NEAR(teraflops(InstructionClass::warp_matrix, 32), 419, 1);           // fp8
  EXPECT_NEAR(teraflops(InstructionClass::warp_matrix_quick, 64), 1676, 3);    // fp4 with scales
}

}  // namespace
}  // namespace stagecraft::emulator::timing
