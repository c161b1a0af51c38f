// Two blocks whose tensor cores work together (cta_group::2), under the checks: both blocks are checked.
#include <array>

#include "emulator/trace/timeline.hpp"
#include "fixtures/tensor_core_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class TensorPairTest : public TensorCoreTest {
 protected:
  static constexpr Shape kPair{.threads = 64, .blocks = 2, .cluster_blocks = 2};
  static inline const std::string kMeet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  static inline const std::string kLoad =
      "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%f0, %f1, %f2, %f3}, "
      "[%r3];\ntcgen05.wait::ld.sync.aligned;\n";
  static inline const std::string kAfter = "tcgen05.fence::after_thread_sync;\n";

  static std::string of_pairs(std::string text) {
    for (size_t at; (at = text.find("cta_group::1")) != std::string::npos;) text.replace(at, 12, "cta_group::2");
    return text;
  }
  /// Both blocks take tensor memory and meet. Without a swizzle each has 128 (or 64) rows of A and 8 columns of B.
  static std::string begin(uint32_t m = 256) {
    const machine::testing::Instruction alone{.m = 128, .n = 8, .a_code = 1, .b_code = 1};
    const machine::testing::Instruction pair{.m = m, .n = 16, .a_code = 1, .b_code = 1};
    const std::string text = with(of_pairs(start(1, 1)), "bar.sync 0;\n", kMeet) + descriptors();
    return with(text, fmt::format("%r14, {};", alone.bits()), fmt::format("%r14, {};", pair.bits()));
  }
  /// Lets one thread of the block of this rank continue; all others of both blocks go to WAIT.
  static std::string one_thread_of(uint32_t rank) {
    return fmt::format("setp.ne.u32 %p1, %rank, {}; @%p1 bra WAIT;\n@!%first bra WAIT;\n", rank);
  }
  /// Arrives on barrier 0 of the blocks of the mask.
  static std::string commit_to(uint32_t mask) {
    return fmt::format(
        "mov.u32 %r2, bar; mov.b16 %h0, {}; "
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r2], %h0;\n",
        mask);
  }
  static std::string multiply_together() { return of_pairs(multiply()); }
  static std::string end() { return of_pairs(kFree); }
  static std::string product(uint32_t m = 256, uint32_t rank = 0) {
    return begin(m) + one_thread_of(rank) + multiply_together() + commit_to(3) + "WAIT:\n" + wait(0, 0, "OVER") +
           kAfter + kLoad + end();
  }
};

TEST_F(TensorPairTest, IsSilentWhenBothBlocksWaitForTheCommit) {
  for (const uint32_t m : {128u, 256u}) {
    for (const uint32_t rank : {0u, 1u}) {
      for (uint64_t seed_of_run = 0; seed_of_run < 4; ++seed_of_run) {
        expect_silence(run(product(m, rank), kPair, seed_of_run));
      }
    }
  }
}

TEST_F(TensorPairTest, FindsAPeerThatLoadsBeforeTheCommit) {
  const std::string wrong = begin() + one_thread_of(0) + multiply_together() + commit_to(3) + "WAIT:\n" +
                            "@%p1 bra LOAD;\n" + wait(0, 0, "OVER") + kAfter + "LOAD:\n" + kLoad + wait(0, 0, "LAST") +
                            end();
  expect_one(run(wrong, kPair), "race",
             {"columns 0 to 3 (lanes 0 to 31) of tensor memory", "block (1,0,0)", line_of(wrong, "tcgen05.ld"),
              line_of(wrong, "tcgen05.mma"), "issued by block (0,0,0)"});
}

TEST_F(TensorPairTest, FindsAMultiplicationIntoWhatThePeerStillLoads) {
  const std::string second = with(multiply_together(), "0;", "0; // second\n");
  const std::string wrong = begin() + one_thread_of(0) + multiply_together() + commit_to(3) + wait(0, 0, "FIRST") +
                            second + commit_to(3) + "WAIT:\n" + wait(0, 0, "OVER") + kAfter + "@!%p1 bra LAST;\n" +
                            kLoad + "LAST:\n" + wait(0, 1, "DONE") + end();
  expect_one(run(wrong, kPair), "race",
             {"of tensor memory", line_of(wrong, "// second"), line_of(wrong, "tcgen05.ld")});
}

TEST_F(TensorPairTest, WatchesTheOperandsInBothBlocks) {
  for (const char* const operand : {"a", "b"}) {
    const std::string refill = fmt::format("@%p1 st.shared.u32 [{}+16], %thread;\n", operand);
    const std::string early =
        with(with(product(), "WAIT:\n", "WAIT:\n" + std::string("@!%first bra REST;\n") + refill + "REST:\n"),
             "tcgen05.fence::after_thread_sync;\nshl", "tcgen05.fence::after_thread_sync;\nshl");
    expect_one(run(early, kPair), "race",
               {line_of(early, "st.shared"), line_of(early, "tcgen05.mma"), "block (1,0,0)"});
    const std::string fill = fmt::format("setp.ne.u32 %p3, %rank, 0; @%p3 st.shared.u32 [{}+16], %r0;\n", operand);
    const std::string unfenced =
        with(product(), "tcgen05.fence::before_thread_sync;\n",
             "@!%first bra FILLED;\n" + fill + "FILLED:\ntcgen05.fence::before_thread_sync;\n");
    expect_one(run(unfenced, kPair), "missing proxy fence", {line_of(unfenced, "st.shared"), "block (1,0,0)"});
    expect_silence(run(with(unfenced, "%r0;\n", "%r0;\nfence.proxy.async;\n"), kPair));
  }
}

TEST_F(TensorPairTest, NamesThePeerThatDoesNotAllocate) {
  const std::string wrong =
      with(product(), "@%p0 bra ALLOCATED;\n", "@%p0 bra ALLOCATED;\nsetp.ne.u32 %p2, %rank, 0; @%p2 bra ALLOCATED;\n");
  expect_one_fault(run(wrong, kPair), "deadlock",
                   {"waits for a warp of its peer, block (1,0,0), to come to tcgen05.alloc as well (cta_group::2)",
                    "block (0,0,0) warp 0", line_of(wrong, "tcgen05.alloc"), "block (1,0,0)", "barrier.cluster",
                    "Does only one of the two execute it"});
  const std::string ended =
      with(product(), "@%p0 bra ALLOCATED;\n", "setp.ne.u32 %p2, %rank, 0; @%p2 bra END;\n@%p0 bra ALLOCATED;\n");
  expect_one_fault(run(ended, kPair), "deadlock", {"block (1,0,0) has ended without it", "to come to tcgen05.alloc"});
}

TEST_F(TensorPairTest, NamesThePeerThatDoesNotFree) {
  const std::string wrong =
      with(product(), "tcgen05.dealloc", "setp.ne.u32 %p2, %rank, 1; @%p2 bra END;\ntcgen05.dealloc");
  const std::string text = text_of(run(wrong, kPair));
  EXPECT_NE(text.find("waits for a warp of its peer, block (0,0,0), to come to tcgen05.dealloc"), std::string::npos)
      << text;
  EXPECT_NE(text.find("block (0,0,0) has ended without it"), std::string::npos) << text;
  EXPECT_NE(text.find("32 columns of tensor memory (columns 0 to 31) were still allocated"), std::string::npos) << text;
}

TEST_F(TensorPairTest, RefusesDifferentRequests) {
  const std::string columns = with(product(), "[%r0], 32;", "[%r0], %r7;");
  expect_one_fault(run("mov.u32 %r7, 32; shl.b32 %r7, %r7, %rank;\n" + columns, kPair), "illegal instruction",
                   {"columns, while the peer, block", "must give the same number of columns"});
  const std::string address = with(product(), "aligned.b32 %r15, 32;", "aligned.b32 %r7, 32;");
  expect_one_fault(run("shl.b32 %r7, %rank, 5;\n" + address, kPair), "illegal instruction",
                   {"tcgen05.dealloc with cta_group::2 at address 0x", "must give the same address"});
}

TEST_F(TensorPairTest, RefusesABlockWithoutAPeer) {
  expect_one_fault(run(product(), {.threads = 64}), "illegal instruction",
                   {"tcgen05.alloc with cta_group::2: the block, of rank 0 in a cluster of 1, has no peer",
                    "legal: clusters of an even number of blocks"});
}

TEST_F(TensorPairTest, RefusesAPeerThatHasExited) {
  const std::string early = "setp.ne.u32 %p2, %rank, 0; @%p2 exit;\nnanosleep.u32 1000; mov.u32 %r15, 0;\n" +
                            of_pairs(descriptors()) + "@%first " + multiply_together();
  expect_one_fault(run(early, kPair), "illegal instruction",
                   {"tcgen05.mma with cta_group::2: the peer, block (1,0,0), has exited"});
}

TEST_F(TensorPairTest, ReportsAPeerThatEndsUnderAMultiplication) {
  const std::string early = with(product(), "WAIT:\n", "WAIT:\n@%p1 exit;\n");
  const std::string text = text_of(run(early, kPair));
  EXPECT_NE(text.find("1 tcgen05 operations were still in flight when the block ended"), std::string::npos) << text;
  EXPECT_NE(text.find("block (1,0,0)"), std::string::npos) << text;
}

TEST_F(TensorPairTest, ShowsTheWorkOfBothInTheTimeline) {
  trace::Timeline timeline;
  machine::Kernel& kernel = compile_body(
      ".reg .b32 %thread, %lane, %warp, %rank; .reg .pred %first;\nmov.u32 %thread, %tid.x; and.b32 %lane, %thread, "
      "31; "
      "shr.u32 %warp, %thread, 5; mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %first, %thread, 0;\n" +
          product(),
      variables);
  machine::LaunchRequest request;
  request.kernel = &kernel;
  request.grid.x = request.cluster.x = 2;
  request.block.x = 64;
  request.parameters.resize(kernel.parameter_bytes);
  EXPECT_FALSE(machine.launch(request, {&timeline}, [](std::string_view) {}).fault);
  ASSERT_EQ(timeline.multiplications().size(), 2u);
  for (const trace::UnitRow& row : timeline.multiplications()) {
    ASSERT_EQ(row.spans.size(), 1u);
    EXPECT_EQ(row.spans[0].what, "tcgen05.mma");
  }
}

}  // namespace
}  // namespace stagecraft::emulator::checks
