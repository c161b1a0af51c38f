#include "emulator/checks/reporting/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stagecraft::emulator::checks {
namespace {

machine::Diagnostic example() {
  machine::Diagnostic diagnostic;
  diagnostic.kind = "deadlock";
  diagnostic.message = "waits for full[2] to complete phase 1";
  diagnostic.place.kernel = "gemm<128,128,64,4>";
  diagnostic.place.source_file = "gemm.cu";
  diagnostic.place.has_block = true;
  diagnostic.place.block_x = 2;
  diagnostic.place.has_warp = true;
  diagnostic.place.warp = 1;
  diagnostic.place.lanes = 0x8f;
  diagnostic.place.source = "gemm.cu:88";
  diagnostic.details = {"full[2]: phase 0, 0 of 1 arrivals pending\n  16384 of 32768 bytes outstanding"};
  diagnostic.likely_cause = "expect_tx announced 32768 bytes, but the copies bring 16384";
  return diagnostic;
}

TEST(ReportTest, TellsTheWholeStoryAsText) {
  EXPECT_EQ(render_text(example()),
            "stagecraft: deadlock in kernel gemm<128,128,64,4> (gemm.cu)\n"
            "  block (2,0,0) warp 1 [lanes 0-3, 7] at gemm.cu:88: waits for full[2] to complete phase 1\n"
            "    full[2]: phase 0, 0 of 1 arrivals pending\n"
            "      16384 of 32768 bytes outstanding\n"
            "  likely cause: expect_tx announced 32768 bytes, but the copies bring 16384\n");
}

TEST(ReportTest, LeavesOutWhatIsUnknown) {
  machine::Diagnostic diagnostic;
  diagnostic.kind = "tensor memory leak";
  diagnostic.message = "128 columns are left allocated";
  EXPECT_EQ(render_text(diagnostic), "stagecraft: tensor memory leak\n  128 columns are left allocated\n");
  EXPECT_EQ(render_json(diagnostic).dump(),
            R"({"kind":"tensor memory leak","message":"128 columns are left allocated"})");
}

TEST(ReportTest, GivesToolsTheSameAsJson) {
  EXPECT_EQ(render_json(example()).dump(),
            R"({"block":[2,0,0],"details":["full[2]: phase 0, 0 of 1 arrivals pending\n  16384 of 32768 bytes )"
            R"(outstanding"],"file":"gemm.cu","kernel":"gemm<128,128,64,4>","kind":"deadlock","lanes":[0,1,2,3,7],)"
            R"("likely_cause":"expect_tx announced 32768 bytes, but the copies bring 16384",)"
            R"("message":"waits for full[2] to complete phase 1","source":"gemm.cu:88","warp":1})");
}

TEST(ReportTest, SaysWhatTheChipTolerates) {
  machine::Diagnostic diagnostic;
  diagnostic.kind = "missing wait";
  diagnostic.message = "the block ends";
  diagnostic.tolerated = "kernels of a library end so";
  EXPECT_EQ(render_text(diagnostic),
            "stagecraft: missing wait\n  the block ends\n"
            "  not promised by PTX, though the chip seems to tolerate it: kernels of a library end so\n");
  EXPECT_EQ(render_json(diagnostic).dump(),
            R"({"kind":"missing wait","message":"the block ends","tolerated":"kernels of a library end so"})");
}

TEST(ReportTest, ShowsTheCallsThatLeadToTheLine) {
  machine::Diagnostic diagnostic = example();
  diagnostic.details.clear();
  diagnostic.place.calls = {"gemm.cu:104", "gemm.cu:88", "mbarrier.hpp:53"};
  EXPECT_EQ(render_text(diagnostic),
            "stagecraft: deadlock in kernel gemm<128,128,64,4> (gemm.cu)\n"
            "  block (2,0,0) warp 1 [lanes 0-3, 7] at gemm.cu:88: waits for full[2] to complete phase 1\n"
            "    called through gemm.cu:104, gemm.cu:88, mbarrier.hpp:53\n"
            "  likely cause: expect_tx announced 32768 bytes, but the copies bring 16384\n");
  EXPECT_EQ(render_json(diagnostic)["calls"].dump(), R"(["gemm.cu:104","gemm.cu:88","mbarrier.hpp:53"])");
}

TEST(ReportTest, NamesWhatFollowsFromAMistake) {
  machine::Diagnostic diagnostic;
  diagnostic.kind = "race";
  diagnostic.message = "reads tile";
  const auto following = [](const char* kind, const char* source) {
    machine::Diagnostic report;
    report.kind = kind;
    report.place.source = source;
    return report;
  };
  diagnostic.consequences = {following("deadlock", "ring.cu:52 (mbarrier.hpp:53)")};
  EXPECT_EQ(render_text(diagnostic),
            "stagecraft: race\n  reads tile\n  1 more report follows from this one: deadlock at ring.cu:52\n");
  diagnostic.consequences.push_back(following("race", "ring.cu:81"));
  EXPECT_EQ(render_text(diagnostic),
            "stagecraft: race\n  reads tile\n"
            "  2 more reports follow from this one: deadlock at ring.cu:52, race at ring.cu:81\n");
  EXPECT_EQ(render_json(diagnostic)["consequences"][1].dump(), R"({"kind":"race","message":"","source":"ring.cu:81"})");
}

TEST(ReportTest, WritesLaneMasksAsRanges) {
  EXPECT_EQ(describe_lanes(0), "no lanes");
  EXPECT_EQ(describe_lanes(1), "lane 0");
  EXPECT_EQ(describe_lanes(0x80000000u), "lane 31");
  EXPECT_EQ(describe_lanes(0x3), "lanes 0-1");
  EXPECT_EQ(describe_lanes(0xffff0001u), "lanes 0, 16-31");
  EXPECT_EQ(describe_lanes(0xffffffffu), "all lanes");
}

}  // namespace
}  // namespace stagecraft::emulator::checks
