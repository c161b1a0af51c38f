// Grids whose clusters do not interact: on one thread or many, the same results and reports.
#include "emulator/scheduling/grid_parts.hpp"

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class GridPartsTest : public KernelTest {
 protected:
  bool interacts(const std::string& instruction) {
    return compile_body(".shared .b64 s; .local .b64 l;\n" + instruction).clusters_interact;
  }

  /// Returns the result of launches on 1, 2 and 7 threads, which must all be the same.
  LaunchResult on_any_number_of_threads(const Kernel& kernel, Extent3 grid, Extent3 block, uint64_t out) {
    threads = 1;
    LaunchResult first = launch(kernel, grid, block, out);
    for (const uint32_t count : {2u, 7u}) {
      threads = count;
      const LaunchResult result = launch(kernel, grid, block, out);
      EXPECT_EQ(result.cycles, first.cycles);
      EXPECT_EQ(result.fault, first.fault);
      EXPECT_EQ(message_of(result), message_of(first));
      if (first.diagnostics.empty() || result.diagnostics.empty()) continue;
      EXPECT_EQ(result.diagnostics[0].place.block_x, first.diagnostics[0].place.block_x);
      EXPECT_EQ(result.diagnostics[0].details, first.diagnostics[0].details);
    }
    return first;
  }
};

TEST_F(GridPartsTest, KeepsAGridWholeWhoseClustersInteract) {
  EXPECT_FALSE(interacts("st.global.u32 [%out], %r0; ld.global.nc.u32 %r0, [%out]; ld.u32 %r0, [%out];"));
  EXPECT_FALSE(
      interacts("atom.shared.add.u32 %r0, [s], 1; red.shared::cta.add.u32 [s], 1; ld.volatile.shared.u32 %r0, [s];"));
  EXPECT_FALSE(interacts("fence.acq_rel.gpu; mov.u32 %r0, %ctaid.x; mov.u32 %r0, %clusterid.x; mov.u32 %r0, %nsmid;"));
  EXPECT_TRUE(interacts("atom.global.add.u32 %r0, [%out], 1;"));
  EXPECT_TRUE(interacts("red.global.add.u32 [%out], 1;"));
  EXPECT_TRUE(interacts("atom.add.u32 %r0, [%out], 1;"));
  EXPECT_TRUE(interacts("ld.volatile.global.u32 %r0, [%out];"));
  EXPECT_TRUE(interacts("ld.relaxed.gpu.global.u32 %r0, [%out];"));
  EXPECT_TRUE(interacts("ld.acquire.gpu.u32 %r0, [%out];"));
  EXPECT_TRUE(interacts("st.release.gpu.global.u32 [%out], %r0;"));
  EXPECT_TRUE(interacts("mov.u32 %r0, %clock;"));
  EXPECT_TRUE(interacts("mov.u64 %rd0, %globaltimer;"));
  EXPECT_TRUE(interacts("mov.u32 %r0, %smid;"));
  EXPECT_TRUE(interacts(
      "cvta.shared.u64 %rd0, s; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [s], 16;"));
}

TEST_F(GridPartsTest, KeepsAGridWholeThatPrints) {
  Kernel& kernel = compile(R"(.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
    .global .align 1 .b8 text[2] = {104, 0};
    .visible .entry k() { .reg .b64 %rd0; .reg .b32 %r0;
      mov.u64 %rd0, text; cvta.global.u64 %rd0, %rd0;
      { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %rd0; st.param.b64 [a], 0;
        call.uni (r), vprintf, (f, a); ld.param.b32 %r0, [r]; }
      ret; })");
  EXPECT_TRUE(kernel.clusters_interact);
}

TEST_F(GridPartsTest, GivesEachPartItsShareOfTheChip) {
  Kernel& kernel = compile_body("");
  LaunchRequest request;
  request.kernel = &kernel;
  const auto parts = [&](uint32_t clusters, uint32_t blocks) {
    request.grid = {clusters * blocks, 1, 1};
    request.cluster = {blocks, 1, 1};
    return parts_of(request, machine.architecture());
  };
  EXPECT_EQ(parts(1, 1), 1u);
  EXPECT_EQ(parts(5, 1), 5u);
  EXPECT_EQ(parts(1000, 1), 16u);
  EXPECT_EQ(parts(1000, 2), 16u);
  EXPECT_EQ(parts(1000, 16), 4u);  // 148 multiprocessors: 37 for each
  kernel.clusters_interact = true;
  EXPECT_EQ(parts(1000, 1), 1u);
}

TEST_F(GridPartsTest, RunsEveryClusterOnce) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mad.lo.u32 %r2, %r1, 61, %r0; mul.wide.u32 %rd0, %r2, 4;
    add.s64 %rd0, %rd0, %out; ld.global.u32 %r3, [%rd0]; add.u32 %r3, %r3, %r2; add.u32 %r3, %r3, 1;
    st.global.u32 [%rd0], %r3;)");
  const uint64_t out = allocate<uint32_t>(61 * 7);
  const LaunchResult result = on_any_number_of_threads(kernel, {61, 7, 1}, {1, 1, 1}, out);
  EXPECT_FALSE(result.fault);
  EXPECT_EQ(result.thread_instructions % (61 * 7), 0u);
  const auto sums = read<uint32_t>(out, 61 * 7);
  for (uint32_t i = 0; i < 61 * 7; ++i) ASSERT_EQ(sums[i], 3 * (i + 1)) << i;  // launched three times
}

TEST_F(GridPartsTest, ReportsTheFaultThatComesFirst) {
  // Block i counts to 3000 * (200 - i), then writes to nowhere: 199, the last one to be dealt out, is the first to
  // fail, by more than clusters run ahead of each other.
  Kernel& kernel = compile_body(R"(
    mov.u32 %r0, %ctaid.x; sub.u32 %r1, 200, %r0; mul.lo.u32 %r1, %r1, 3000;
    again: sub.u32 %r1, %r1, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra again;
    cvt.u64.u32 %rd0, %r0; shl.b64 %rd0, %rd0, 2; st.global.u32 [%rd0], %r0;)");
  const LaunchResult result = on_any_number_of_threads(kernel, {200, 1, 1}, {1, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_EQ(result.diagnostics[0].place.block_x, 199u);
}

TEST_F(GridPartsTest, ReportsADeadlockOfOneCluster) {
  Kernel& kernel = compile_body(R"(.shared .b64 full;
    mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 77; @%p0 ret;
    mbarrier.init.shared.b64 [full], 1;
    again: mbarrier.try_wait.parity.shared.b64 %p1, [full], 0; @!%p1 bra again;)");
  const LaunchResult result = on_any_number_of_threads(kernel, {100, 1, 1}, {1, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::deadlock);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_EQ(result.diagnostics[0].place.block_x, 77u);
}

/// The parts share the instructions, and with them the cache of the allocation that an instruction used last.
TEST_F(GridPartsTest, ClustersUseDifferentAllocationsAtOnce) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r0, %ctaid.x; and.b32 %r1, %r0, 15; mul.wide.u32 %rd1, %r1, 8; add.s64 %rd1, %rd1, %out;
    ld.global.u64 %rd2, [%rd1]; shr.u32 %r2, %r0, 4; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd3, %rd2;
    mov.u32 %r3, 500;
    again: ld.global.u32 %r4, [%rd3]; add.u32 %r4, %r4, 1; st.global.u32 [%rd3], %r4;
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra again;)");
  constexpr uint32_t kEach = 20;
  std::vector<uint64_t> arrays(16);
  for (uint64_t& array : arrays) array = allocate<uint32_t>(kEach);
  const uint64_t table = allocate<uint64_t>(16);
  std::memcpy(DeviceMemory::host(table), arrays.data(), sizeof arrays[0] * arrays.size());
  EXPECT_FALSE(on_any_number_of_threads(kernel, {16 * kEach, 1, 1}, {1, 1, 1}, table).fault);
  for (const uint64_t array : arrays) EXPECT_EQ(read<uint32_t>(array, kEach), std::vector<uint32_t>(kEach, 1500));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
