#include "emulator/trace/timeline.hpp"

#include "emulator/trace/timeline_drawing.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::trace {
namespace {

class TimelineTest : public machine::KernelTest {
 protected:
  TimelineTest() { machine.announce_memory_events(true); }
  Timeline timeline;

  machine::LaunchResult run(const std::string& body, uint32_t blocks = 1) {
    machine::Kernel& kernel =
        compile_body(body, ".file 1 \"f.cu\"\n.shared .align 128 .b8 tile[8192];\n.shared .align 8 .b64 full[4];\n");
    machine::LaunchRequest request;
    request.kernel = &kernel;
    request.grid.x = blocks;
    request.block.x = 64;
    request.parameters.resize(kernel.parameter_bytes);
    const uint64_t out = allocate<uint32_t>(4096);
    std::memcpy(request.parameters.data(), &out, sizeof out);
    return machine.launch(request, {&timeline}, [](std::string_view) {});
  }
  // Warp 0 copies 3200 bytes, which takes 700 + 100 cycles; warp 1 waits for them.
  static inline const std::string kCopy = R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [full+8], 1;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra WAIT;
    @!%p0 bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [full+8], 3200;
    .loc 1 20 0
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 3200, [full+8];
    bra END;
    WAIT:
    .loc 1 30 0
    mbarrier.try_wait.parity.shared.b64 %p7, [full+8], 0;
    @!%p7 bra WAIT;
    END:)";
};

TEST_F(TimelineTest, NotesCopiesAndWhoWaitsForThem) {
  EXPECT_FALSE(run(kCopy).fault.has_value());
  ASSERT_EQ(timeline.warps().size(), 2u);
  const WarpRow &copies = timeline.warps()[0], &waits = timeline.warps()[1];
  EXPECT_TRUE(copies.copies);
  EXPECT_EQ(copies.label(false), "warp 0, copies");
  EXPECT_EQ(waits.label(true), "block 0 warp 1");
  ASSERT_EQ(timeline.copies().size(), 1u);
  ASSERT_EQ(timeline.copies()[0].spans.size(), 1u);
  const Span& copy = timeline.copies()[0].spans[0];
  EXPECT_EQ(copy.what, "cp.async.bulk");
  EXPECT_EQ(copy.end - copy.begin, 800u);
  ASSERT_FALSE(waits.waits.empty());
  const Span& wait = waits.waits.back();
  EXPECT_EQ(wait.what, "full[1]");
  EXPECT_EQ(wait.end, copy.end);
  EXPECT_GE(waits.end, wait.end);
  EXPECT_LT(copies.end, 100u);
  EXPECT_TRUE(timeline.multiplications()[0].spans.empty());
}

TEST_F(TimelineTest, DrawsARowForEach) {
  run(kCopy);
  const std::string text = draw_text(timeline, 80);
  EXPECT_NE(text.find("timeline of kernel k, its first block"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  warp 0, copies    #"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  warp 1            #........................................\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  copies under way  1111111111111111111111111111111111111111"), std::string::npos) << text;
  EXPECT_EQ(text.find("tensor core"), std::string::npos) << text;
  EXPECT_NE(text.find("for full at f.cu:30"), std::string::npos) << text;
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at) EXPECT_NE(text[at - 1], ' ') << text;
}

TEST_F(TimelineTest, DrawsAnImageThatSaysWhatItsPiecesAre) {
  run(kCopy);
  const std::string svg = draw_svg(timeline);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("class=\"copy\""), std::string::npos);
  EXPECT_NE(svg.find("waits for full[1]"), std::string::npos);
  EXPECT_NE(svg.find("f.cu:20</title>"), std::string::npos);
}

TEST_F(TimelineTest, SeesAWaitWhoseOtherLanesExitMeanwhile) {
  run(R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @!%p0 bra END;
    mbarrier.init.shared.b64 [full], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 3200;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 3200, [full];
    .loc 1 40 0
    mbarrier.try_wait.parity.shared.b64 %p7, [full], 0;
    END:)");
  ASSERT_EQ(timeline.warps()[0].waits.size(), 1u);
  const Span& wait = timeline.warps()[0].waits[0];
  EXPECT_LT(wait.begin, 50u);
  EXPECT_EQ(wait.end, timeline.copies()[0].spans[0].end);
}

// The other lanes of the warp could run, but do not: a wait for a thread's own copies is one of its warp.
TEST_F(TimelineTest, SeesAWaitOfOneLaneForItsOwnCopies) {
  run(R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @!%p0 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 3200;
    cp.async.bulk.commit_group;
    .loc 1 40 0
    cp.async.bulk.wait_group 0;
    END:
    bar.warp.sync 0xffffffff;)");
  ASSERT_FALSE(timeline.warps()[0].waits.empty());
  EXPECT_EQ(timeline.warps()[0].waits.front().what, "its own copies");
  EXPECT_EQ(timeline.warps()[0].waits.back().end, timeline.copies()[0].spans[0].end);
}

TEST_F(TimelineTest, TheLabelsOfAnImageHaveRoom) {
  run(R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 3200;
    @%p0 cp.async.bulk.commit_group;
    bar.warp.sync 0xffffffff;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra END;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [full], 32;
    ld.shared.b32 %r1, [full];
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    END:)");
  const std::string label = "warp 0, copies, reads tensor memory", svg = draw_svg(timeline);
  const size_t end = svg.find(">" + label + "<");
  ASSERT_NE(end, std::string::npos) << svg;
  const size_t begin = svg.rfind("x=\"", end) + 3;
  EXPECT_GT(std::stoul(svg.substr(begin)), label.size() * 7) << "the label begins left of the picture";
}

TEST_F(TimelineTest, KeepsToTheFirstCluster) {
  EXPECT_FALSE(run(kCopy, 300).fault.has_value());
  EXPECT_EQ(timeline.warps().size(), 2u);
  EXPECT_EQ(timeline.copies()[0].spans.size(), 1u);
}

TEST_F(TimelineTest, ShowsHowFarAKernelCameThatHangs) {
  const auto result = run("mbarrier.try_wait.parity.shared.b64 %p7, [full], 0;\nbar.sync 1, 96;");
  EXPECT_TRUE(result.fault.has_value());
  EXPECT_FALSE(draw_text(timeline).empty());
}

}  // namespace
}  // namespace stagecraft::emulator::trace
