// Copies of one dimension: cp.async.bulk, cp.reduce.async.bulk, cp.async and their groups.
#include <numeric>

#include "fixtures/kernel_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

using machine::FaultKind;

std::vector<uint32_t> counting(size_t count, uint32_t from = 1) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

/// Initialises bar[0] for one arrival with `bytes` bytes, and makes it visible.
std::string expect_bytes(uint32_t bytes) {
  return "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.mbarrier_init.release.cluster;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
         std::to_string(bytes) + ";\n";
}
const std::string kWait = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra again;\n";
const std::string kClusterBarrier = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";

/// Stores the first `count` words of tile to out.
std::string show_tile(int count, int first = 0) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    text += "ld.shared.u32 %r50, [tile+" + std::to_string(4 * i) + "];\nst.global.u32 [%rd0+" + std::to_string(4 * i) +
            "], %r50;\n";
  }
  return text;
}

TEST(BulkCopyTest, BringsBytesAndSignalsThem) {
  for (const char* space : {"shared::cta", "shared::cluster"}) {
    KernelRun kernel;
    const uint64_t source = kernel.upload(counting(64));
    expect_success(kernel.run(expect_bytes(256) + "cp.async.bulk." + space +
                                  ".global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [bar];\n" + kWait +
                                  show_tile(64),
                              {source}));
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(kernel.out()[i], i + 1);
  }
}

TEST(BulkCopyTest, BringsNothingBeforeItCompletes) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(4));
  expect_success(kernel.run(expect_bytes(16) +
                                "mov.u32 %r1, 99;\nst.shared.u32 [tile], %r1;\n"
                                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, "
                                "[bar];\nld.shared.u32 %r2, [tile];\nst.global.u32 [%rd0+64], %r2;\n" +
                                kWait + show_tile(1),
                            {source}));
  EXPECT_EQ(kernel.out()[16], 99u);
  EXPECT_EQ(kernel.out()[0], 1u);
}

TEST(BulkCopyTest, ReportsADeadlockWhenTheBytesAreNotThoseExpected) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(64));
  const auto result = kernel.run(
      expect_bytes(256) +
          "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [bar];\n" + kWait,
      {source});
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(*result.fault, FaultKind::deadlock);
}

TEST(BulkCopyTest, TakesBytesOutInGroups) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u32 %r1, 5;
    st.shared.u32 [tile], %r1;
    st.shared.u32 [tile+4], %r1;
    st.shared.u32 [tile+8], %r1;
    st.shared.u32 [tile+12], %r1;
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 16;
    cp.async.bulk.commit_group;
    ld.global.u32 %r2, [%rd0];
    st.global.u32 [%rd0+32], %r2;
    cp.async.bulk.wait_group.read 0;
    mov.u32 %r1, 6;
    st.shared.u32 [tile], %r1;
    ld.global.u32 %r2, [%rd0];
    st.global.u32 [%rd0+36], %r2;
    cp.async.bulk.wait_group 0;
    ld.global.u32 %r2, [%rd0];
    st.global.u32 [%rd0+40], %r2;
  )"));
  EXPECT_EQ(kernel.out()[8], 0u) << "nothing is there at once";
  EXPECT_EQ(kernel.out()[9], 0u) << "read, but not yet written";
  EXPECT_EQ(kernel.out()[10], 5u) << "what was there when it was read";
}

TEST(BulkCopyTest, WaitsForAllButTheYoungestGroups) {
  KernelRun kernel;
  // With one group allowed to be pending, the first must be there; the second comes 1000 cycles later.
  expect_success(kernel.run(R"(
    mov.u32 %r1, 5;
    st.shared.u32 [tile], %r1;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 16;
    cp.async.bulk.commit_group;
    nanosleep.u32 200;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0+1024], [tile], 16384;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 1;
    ld.global.u32 %r2, [%rd0];
    st.global.u32 [%rd0+512], %r2;
    ld.global.u32 %r2, [%rd0+1024];
    st.global.u32 [%rd0+516], %r2;
    cp.async.bulk.wait_group 0;
    ld.global.u32 %r2, [%rd0+1024];
    st.global.u32 [%rd0+520], %r2;
  )"));
  EXPECT_EQ(kernel.out()[128], 5u);
  EXPECT_EQ(kernel.out()[129], 0u);
  EXPECT_EQ(kernel.out()[130], 5u);
}

TEST(BulkCopyTest, AWaitForCopiesStallsTheLanesBesideIt) {
  // As measured on an H200, where the wait is for a scoreboard of the warp. `if (lane == 0) wait; overwrite;` without a
  // __syncwarp() is a race by the rules, and has the result that the program intends.
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u32 %r0, %tid.x;
    mov.u32 %r3, tile;
    mad.lo.u32 %r3, %r0, 16, %r3;
    mov.u32 %r1, 5;
    st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra behind;
    cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 512;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
  behind:
    mov.u32 %r1, 6;
    st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};
    cp.async.bulk.wait_group 0;
  )",
                            {}, {.threads = 32}));
  for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(kernel.out()[i], 5u) << "word " << i;
}

TEST(BulkCopyTest, WritesOnlyTheBytesOfAMask) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u32 %r1, 0x04030201;
    st.shared.u32 [tile], %r1;
    st.shared.u32 [tile+4], %r1;
    st.shared.u32 [tile+8], %r1;
    st.shared.u32 [tile+12], %r1;
    mov.b16 %h1, 0x8003;
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [tile], 16, %h1;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
  )"));
  EXPECT_EQ(kernel.out()[0], 0x0201u);
  EXPECT_EQ(kernel.out()[1], 0u);
  EXPECT_EQ(kernel.out()[3], 0x04000000u);
}

TEST(BulkCopyTest, MulticastsToTheRanksOfAMask) {
  // As measured on an H200: data and signal go to the same offsets of every block of the mask, and only to these.
  for (const uint32_t mask : {0xfu, 0x5u, 0x2u}) {
    KernelRun kernel;
    const uint64_t source = kernel.upload(counting(16));
    expect_success(kernel.run(expect_bytes(64) + kClusterBarrier + R"(
      mov.u32 %r1, %cluster_ctarank;
      mov.u32 %r2, 0xee;
      st.shared.u32 [tile+32], %r2;
      setp.eq.u32 %p2, %r1, 1;
      mov.b16 %h1, )" + std::to_string(mask) +
                                  R"(;
      @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile+32], [%rd1], 64, [bar], %h1;
      nanosleep.u32 10000;
      )" + kClusterBarrier + R"(
      mul.wide.u32 %rd10, %r1, 8;
      add.s64 %rd11, %rd0, %rd10;
      ld.shared.u32 %r3, [tile+32];
      st.global.u32 [%rd11], %r3;
      mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0;
      @%p3 st.global.u32 [%rd11+4], %r2;
    )",
                              {source}, {4, 1, 4}));
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const bool reached = (mask >> rank & 1) != 0;
      EXPECT_EQ(kernel.out()[2 * rank], reached ? 1u : 0xeeu) << "mask " << mask << " rank " << rank;
      EXPECT_EQ(kernel.out()[2 * rank + 1], reached ? 0xeeu : 0u) << "mask " << mask << " rank " << rank;
    }
  }
}

/// Rank 1 fills its tile with 7 and sends 16 bytes of it to rank 0 with `line`. Rank 0, whose tile contained `before`,
/// stores what it has then.
uint32_t sent_to_rank_0(const std::string& instruction, uint32_t before) {
  KernelRun kernel;
  expect_success(kernel.run(expect_bytes(16) + R"(
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p2, %r1, 1;
    mov.u32 %r2, )" + std::to_string(before) +
                                R"(;
    @%p2 mov.u32 %r2, 7;
    st.shared.u32 [tile], %r2;
    st.shared.u32 [tile+4], %r2;
    st.shared.u32 [tile+8], %r2;
    st.shared.u32 [tile+12], %r2;
  )" + kClusterBarrier + R"(
    mov.u32 %r10, tile;
    mov.u32 %r11, bar;
    mov.u32 %r12, 0;
    mapa.shared::cluster.u32 %r13, %r10, %r12;
    mapa.shared::cluster.u32 %r14, %r11, %r12;
    @%p2 )" + instruction + R"( [%r13], [tile], 16, [%r14];
    @%p2 bra end;
  )" + kWait + show_tile(4) + "end:\n" +
                                kClusterBarrier,
                            {}, {2, 1, 2}));
  return kernel.out()[3];
}

TEST(BulkCopyTest, SendsToAndReducesInOtherBlocks) {
  EXPECT_EQ(sent_to_rank_0("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", 100), 7u);
  const std::string reduction = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.";
  EXPECT_EQ(sent_to_rank_0(reduction + "add.u32", 100), 107u);
  EXPECT_EQ(sent_to_rank_0(reduction + "min.s32", 4), 4u);
  EXPECT_EQ(sent_to_rank_0(reduction + "max.u32", 4), 7u);
  EXPECT_EQ(sent_to_rank_0(reduction + "inc.u32", 7), 0u);
  EXPECT_EQ(sent_to_rank_0(reduction + "inc.u32", 6), 7u);
  EXPECT_EQ(sent_to_rank_0(reduction + "dec.u32", 0), 7u);
  EXPECT_EQ(sent_to_rank_0(reduction + "dec.u32", 5), 4u);
  EXPECT_EQ(sent_to_rank_0(reduction + "xor.b32", 5), 2u);
}

/// Reduces words of `from` (in pairs for 64 bits) into words of `to`.
template <typename T>
T reduced(const std::string& suffix, T to, T from) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(std::vector<T>(32 / sizeof(T), from));
  for (size_t i = 0; i < 32 / sizeof(T); ++i) kernel.out<T>()[i] = to;
  expect_success(kernel.run(
      expect_bytes(32) + "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 32, [bar];\n" +
          kWait + "cp.reduce.async.bulk.global.shared::cta.bulk_group." + suffix +
          " [%rd0], [tile], 32;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
      {source}));
  EXPECT_EQ(std::memcmp(&kernel.out<T>()[0], &kernel.out<T>()[32 / sizeof(T) - 1], sizeof(T)), 0);
  return kernel.out<T>()[0];
}

TEST(BulkCopyTest, ReducesIntoGlobalMemory) {
  EXPECT_EQ(reduced<uint32_t>("add.u32", 0xffffffff, 3), 2u);
  EXPECT_EQ(reduced<uint64_t>("add.u64", 1ull << 40, 1), (1ull << 40) + 1);
  EXPECT_EQ(reduced<int64_t>("min.s64", 5, -6), -6);
  EXPECT_EQ(reduced<uint64_t>("and.b64", 0xff00, 0x0ff0), 0x0f00u);
  EXPECT_EQ(reduced<float>("add.f32", 1.5f, 2.25f), 3.75f);
  EXPECT_EQ(reduced<float>("add.f32", 0.0f, 1e-40f), 0.0f) << "f32 flushes subnormal numbers";
  EXPECT_EQ(reduced<double>("add.f64", 1.5, 1e-20), 1.5 + 1e-20);
  EXPECT_EQ(reduced<uint16_t>("add.noftz.f16", 0x3c00, 0x3c00), 0x4000) << "1 + 1 = 2";
  EXPECT_EQ(reduced<uint16_t>("add.noftz.f16", 0x0001, 0x0001), 0x0002) << "subnormal numbers are kept";
  EXPECT_EQ(reduced<uint16_t>("add.noftz.f16", 0x7bff, 0x7bff), 0x7c00) << "overflow is infinite";
  EXPECT_EQ(reduced<uint16_t>("add.noftz.f16", 0x3c00, 0x1000), 0x3c00) << "1 + 2^-11 ties to even";
  EXPECT_EQ(reduced<uint16_t>("add.noftz.bf16", 0x3f80, 0x3f80), 0x4000);
  EXPECT_EQ(reduced<uint16_t>("max.bf16", 0xbf80, 0x3f80), 0x3f80);
  EXPECT_EQ(reduced<uint16_t>("min.f16", 0x7e00, 0x3c00), 0x3c00) << "a number wins over NaN";
}

TEST(BulkCopyTest, StopsWhatTheChipWouldNotDo) {
  const auto fault_of = [](const std::string& body, FaultKind kind, const std::string& words) {
    KernelRun kernel;
    const uint64_t source = kernel.allocate(4096, "source");
    expect_fault(kernel.run(expect_bytes(256) + body + kWait, {source}), kind, words);
  };
  const std::string load = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes ";
  fault_of("mov.u32 %r1, 20;\n" + load + "[tile], [%rd1], %r1, [bar];\n", FaultKind::illegal_instruction,
           "size 20 is not a multiple of 16");
  fault_of(load + "[tile+8], [%rd1], 16, [bar];\n", FaultKind::misaligned_address, "not a multiple of 16");
  fault_of(load + "[tile], [%rd1+4], 16, [bar];\n", FaultKind::misaligned_address, "not a multiple of 16");
  fault_of("mov.u64 %rd9, 0;\n" + load + "[tile], [%rd9], 16, [bar];\n", FaultKind::illegal_address,
           "the pointer is null");
  fault_of(load + "[tile], [%rd9], 16, [bar];\n", FaultKind::illegal_address,
           "the address is in %rd9, which no instruction writes");
  fault_of(load + "[tile], [%rd1+4080], 32, [bar];\n", FaultKind::illegal_address, "16 bytes past the end of source");
  fault_of(load + "[tile+32752], [%rd1], 128, [bar];\n", FaultKind::illegal_address,
           "not in the block's shared memory");
  fault_of(load + "[tile], [%rd1], 16, [bar+8];\n", FaultKind::launch_failure, "no mbarrier is initialised");
  fault_of("mov.u64 %rd9, tile;\ncvta.shared.u64 %rd9, %rd9;\n" + load + "[tile], [%rd9], 16, [bar];\n",
           FaultKind::illegal_address, "generic address of shared memory");
  fault_of(
      "mov.b16 %h1, 2;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[tile], [%rd1], 16, [bar], %h1;\n",
      FaultKind::illegal_instruction, "multicast mask 0x2 names blocks that the cluster does not have");
  fault_of("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [tile], [tile+64], 16, [bar];\n",
           FaultKind::illegal_instruction, "in the same block");
}

TEST(BulkCopyTest, FinishesTheStoresOfABlockThatHasEnded) {
  KernelRun kernel;
  expect_success(
      kernel.run("mov.u32 %r1, 77; st.shared.u32 [tile+4], %r1; fence.proxy.async.shared::cta;\n"
                 "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 16;\ncp.async.bulk.commit_group;\n"));
  EXPECT_EQ(kernel.out()[1], 77u);
}

TEST(BulkCopyTest, StopsALoadIntoABlockThatHasEnded) {
  KernelRun kernel;
  const uint64_t source = kernel.allocate(4096);
  expect_fault(
      kernel.run(expect_bytes(16) + "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 16, "
                                    "[bar];\n",
                 {source}),
      FaultKind::illegal_address, "has exited");
}

TEST(BulkCopyTest, RefusesFormsThatPtxDoesNotHave) {
  KernelRun kernel;
  const auto refuses = [&](const std::string& line) { EXPECT_THROW(kernel.run(line), ptx::Error) << line; };
  refuses(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd0], 16, [bar], "
      "%h1;");
  refuses("cp.async.bulk.shared::cta.global.bulk_group [tile], [%rd0], 16;");
  refuses("cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%rd0], [tile], 16, [bar];");
  refuses("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.bf16 [%rd0], [tile], 16;");
  refuses("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd0], [tile], 16;");
  refuses("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd0], [tile], 16;");
  refuses(
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32 [tile], [tile], 16, "
      "[bar];");
  refuses("cp.async.bulk.wait_group %r1;");
  refuses("cp.async.bulk.prefetch.L2.shared::cta [tile], 16;");
}

TEST(SmallCopyTest, CopiesAndFillsWithZeros) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(16));
  expect_success(kernel.run(R"(
    mov.u32 %r1, 4;
    setp.eq.u32 %p2, %r1, 4;
    cp.async.cg.shared.global [tile], [%rd1], 16;
    cp.async.ca.shared.global.L2::128B [tile+16], [%rd1], 8, %r1;
    cp.async.ca.shared::cta.global [tile+24], [%rd1], 4, %p2;
    cp.async.commit_group;
    cp.async.wait_group 0;
  )" + show_tile(7),
                            {source}));
  const uint32_t expected[7] = {1, 2, 3, 4, 1, 0, 0};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(kernel.out()[i], expected[i]) << i;
}

TEST(SmallCopyTest, BringsItsBytesOnlyLater) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(16));
  expect_success(kernel.run(R"(
    mov.u32 %r1, 99;
    st.shared.u32 [tile], %r1;
    cp.async.ca.shared.global [tile], [%rd1], 4;
    ld.shared.u32 %r2, [tile];
    st.global.u32 [%rd0+64], %r2;
    cp.async.wait_all;
  )" + show_tile(1),
                            {source}));
  EXPECT_EQ(kernel.out()[16], 99u);
  EXPECT_EQ(kernel.out()[0], 1u);
}

/// Runs a thread that copies `source[i]` to `tile[i]` as its group i, six times. Returns which elements of `tile` it
/// sees after the wait, as bits.
uint32_t arrived_after(const std::string& wait, const std::string& before_last = {}) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(16));
  std::string body = "mov.u32 %r1, 0;\n";
  for (int i = 0; i < 6; ++i) {
    const std::string place = std::to_string(4 * i);
    body += "st.shared.u32 [tile+" + place + "], %r1;\n";
  }
  for (int i = 0; i < 6; ++i) {
    const std::string place = std::to_string(4 * i);
    if (i == 5) body += before_last;
    body += "cp.async.ca.shared.global [tile+" + place + "], [%rd1+" + place + "], 4;\ncp.async.commit_group;\n";
    for (int pause = 0; pause < 50; ++pause) body += "add.u32 %r2, %r2, 1;\n";  // so that they end one by one
  }
  expect_success(kernel.run(body + wait + show_tile(6) + "cp.async.wait_all;\n", {source}));
  uint32_t arrived = 0;
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(kernel.out()[i] == 0 || kernel.out()[i] == static_cast<uint32_t>(i + 1)) << i;
    arrived |= kernel.out()[i] == 0 ? 0 : 1u << i;
  }
  return arrived;
}

TEST(SmallCopyTest, WaitsForAllButTheYoungestGroups) {
  EXPECT_EQ(arrived_after(""), 0u);
  EXPECT_EQ(arrived_after("cp.async.wait_group 6;\n"), 0u);
  EXPECT_EQ(arrived_after("cp.async.wait_group 5;\n"), 0b000001u);
  EXPECT_EQ(arrived_after("cp.async.wait_group 2;\n"), 0b001111u);
  EXPECT_EQ(arrived_after("cp.async.wait_group 0;\n"), 0b111111u);
  EXPECT_EQ(arrived_after("cp.async.wait_all;\n"), 0b111111u);
  // Empty groups count among the youngest.
  EXPECT_EQ(arrived_after("cp.async.commit_group;\ncp.async.wait_group 2;\n"), 0b011111u);
  EXPECT_EQ(arrived_after("cp.async.wait_group 2;\n", "cp.async.commit_group;\n"), 0b011111u);
}

TEST(SmallCopyTest, KeepsTheGroupsOfEachLane) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(counting(64));
  // Lane 0 makes one more group than the others, after them, and need not wait for it.
  expect_success(kernel.run(R"(
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd5, %r2;
    add.u64 %rd6, %rd1, %rd5; mov.u32 %r4, 0; st.shared.u32 [%r3], %r4; st.shared.u32 [tile+128], %r4;
    cp.async.ca.shared.global [%r3], [%rd6], 4; cp.async.commit_group;
    add.u32 %r9, %r9, 1; add.u32 %r9, %r9, 1; add.u32 %r9, %r9, 1; add.u32 %r9, %r9, 1; add.u32 %r9, %r9, 1;
    setp.eq.u32 %p1, %r1, 0;
    @!%p1 bra others;
    cp.async.ca.shared.global [tile+128], [%rd1+128], 4; cp.async.commit_group;
    cp.async.wait_group 1; ld.shared.u32 %r5, [%r3]; ld.shared.u32 %r6, [tile+128];
    bra done;
    others: cp.async.wait_group 0; ld.shared.u32 %r5, [%r3]; mov.u32 %r6, 0;
    done: add.u64 %rd7, %rd0, %rd5; st.global.u32 [%rd7], %r5; st.global.u32 [%rd7+256], %r6;
    cp.async.wait_all;
  )",
                            {source}, {.threads = 32}));
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(kernel.out()[i], i + 1) << i;
  EXPECT_EQ(kernel.out()[64], 0u);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
