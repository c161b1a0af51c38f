// How the findings of several parts of a grid are merged.
#include "emulator/scheduling/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace stagecraft::emulator::machine {
namespace {

Finding found(const std::string& identity, Cycle at, const std::string& message = {}) {
  Finding finding;
  finding.diagnostic.identity = identity;
  finding.at = at;
  finding.diagnostic.message = message.empty() ? identity : message;
  return finding;
}

std::vector<std::string> messages_of(const std::vector<Diagnostic>& reported) {
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : reported) messages.push_back(diagnostic.message);
  return messages;
}

using Messages = std::vector<std::string>;

TEST(FindingsTest, AreReportedInTheOrderOfVirtualTime) {
  EXPECT_EQ(messages_of(merge_findings({{found("c", 30), found("b", 20)}, {found("a", 10), found("d", 40)}}, {})),
            (Messages{"a", "b", "c", "d"}));
}

TEST(FindingsTest, OfOneTimeAreReportedInTheOrderOfTheParts) {
  EXPECT_EQ(messages_of(merge_findings({{found("z", 10), found("y", 10)}, {found("a", 10)}}, {})),
            (Messages{"z", "y", "a"}));
}

TEST(FindingsTest, OfOneIdentityAreReportedOnce) {
  EXPECT_EQ(messages_of(merge_findings({{found("a", 20, "late")}, {found("a", 10, "early"), found("b", 15)}}, {})),
            (Messages{"early", "b"}));
}

TEST(FindingsTest, AfterTheGridWasStoppedAreNotReportedFromOtherParts) {
  const StoppedAt stopped{1, 100};
  EXPECT_EQ(
      messages_of(merge_findings({{found("before", 99), found("with", 100), found("after", 101)}}, StoppedAt{7, 100})),
      (Messages{"before", "with"}));
  EXPECT_EQ(messages_of(merge_findings({{}, {found("own", 100), found("own, in another cluster", 120)}}, stopped)),
            (Messages{"own", "own, in another cluster"}));
  EXPECT_EQ(messages_of(merge_findings({{}, {}, {found("before", 99), found("with", 100)}}, stopped)),
            (Messages{"before"}));
}

TEST(FindingsTest, HaveTheDetailsThatCameToLightBeforeTheGridWasStopped) {
  Finding finding = found("a", 10);
  finding.diagnostic.details = {"first"};
  finding.later = {{20, "second"}, {200, "third"}};
  EXPECT_EQ(merge_findings({{finding}}, {}).front().details, (Messages{"first", "second", "third"}));
  EXPECT_EQ(merge_findings({{finding}, {}}, StoppedAt{1, 100}).front().details, (Messages{"first", "second"}));
}

TEST(FindingsTest, AreReportedUpToALimit) {
  std::vector<std::vector<Finding>> parts(3);
  for (uint32_t i = 0; i < 3 * kMostFindings; ++i) parts[i % 3].push_back(found(fmt::format("{}", i), i));
  const std::vector<Diagnostic> reported = merge_findings(std::move(parts), {});
  ASSERT_EQ(reported.size(), kMostFindings);
  EXPECT_EQ(reported.back().message, fmt::format("{}", kMostFindings - 1));
}

TEST(FindingsTest, TakeInWhatFollowsFromThem) {
  Diagnostic race, remark, stop;
  race.details = {"cp.async.bulk issued by block (0,0,0) warp 0 [lane 0] at ring.cu:55 writes it"};
  remark.place.source = "ring.cu:55";
  remark.tolerated = "chips do not mind";
  stop.place.source = "ring.cu:55";
  stop.message = "the block has exited";
  std::vector<Diagnostic> findings{remark, race};
  EXPECT_TRUE(add_consequence(findings, stop));
  EXPECT_EQ(findings[1].details.back(), "this is what stops the kernel: the block has exited");
  EXPECT_TRUE(findings[0].details.empty());
  stop.place.source = "ring.cu:5";
  EXPECT_FALSE(add_consequence(findings, stop));
  stop.place.source.clear();
  EXPECT_FALSE(add_consequence(findings, stop));
}

Diagnostic about(const std::string& kind, const std::string& subject, const std::string& source,
                 const std::string& cause, const std::string& identity = "a finding") {
  Diagnostic report;
  report.kind = kind;
  report.subject = subject;
  report.place.source = source;
  report.likely_cause = cause;
  report.identity = identity;
  return report;
}

/// What is left of some reports, each as its kind and what follows from it.
std::vector<std::string> folded(std::vector<Diagnostic> reports) {
  fold_consequences(reports);
  std::vector<std::string> left;
  for (const Diagnostic& report : reports) {
    std::vector<std::string> following;
    for (const Diagnostic& each : report.consequences) {
      const std::string& source = each.place.source;
      following.push_back(each.kind + (source.empty() ? "" : " at " + source.substr(0, source.find(' '))));
    }
    left.push_back(fmt::format("{} [{}]", report.kind, fmt::join(following, ", ")));
  }
  return left;
}

TEST(ConsequencesTest, OfOneCauseAreNamedInTheFirstReport) {
  EXPECT_EQ(folded({about("race", "", "ring.cu:10", "no barrier"), about("race", "", "ring.cu:20", "no barrier"),
                    about("race", "", "ring.cu:30 (copy.hpp:4)", "no barrier"),
                    about("race", "", "ring.cu:40", "other"), about("race", "", "ring.cu:50", "")}),
            (Messages{"race [race at ring.cu:20, race at ring.cu:30]", "race []", "race []"}));
}

TEST(ConsequencesTest, AreWhatIsAboutTheSameVariableOrTheSameLine) {
  EXPECT_EQ(folded({about("race", "tile", "ring.cu:10", "a"), about("uninitialised load", "tile", "ring.cu:20", "b")}),
            (Messages{"race [uninitialised load at ring.cu:20]"}));
  EXPECT_EQ(folded({about("barrier misuse", "full", "ring.cu:10 (mbarrier.hpp:53)", "a"),
                    about("race", "tile", "ring.cu:20", "the wait at ring.cu:10 (mbarrier.hpp:53) passed at once")}),
            (Messages{"barrier misuse [race at ring.cu:20]"}));
  EXPECT_EQ(folded({about("race", "tile", "ring.cu:10", "a"), about("race", "sums", "ring.cu:20", "see ring.cu:100")}),
            (Messages{"race []", "race []"}));
}

// A warp that does not wait for its own load is no reason why another does not wait for its store.
TEST(ConsequencesTest, AreNotAboutOtherThreads) {
  Diagnostic own = about("race", "tensor memory", "two.cu:18", "wait::ld"),
             other = about("race", "tensor memory", "two.cu:22", "wait::st"),
             back = about("missing tcgen05 fence", "tensor memory", "two.cu:30", "a fence");
  own.between = {0, 0};
  other.between = back.between = {0, 4};
  EXPECT_EQ(folded({own, other, back}), (Messages{"race []", "race [missing tcgen05 fence at two.cu:30]"}));
  other.likely_cause = "the store at two.cu:18 is not waited for";
  EXPECT_EQ(folded({own, other}), (Messages{"race [race at two.cu:22]"}));
}

TEST(ConsequencesTest, AreWhatFollowsFromAConsequence) {
  EXPECT_EQ(folded({about("barrier misuse", "full", "ring.cu:10", "a"),
                    about("race", "tensor memory", "ring.cu:20", "the wait at ring.cu:10 passed at once"),
                    about("missing tcgen05 fence", "tensor memory", "ring.cu:30", "put a fence")}),
            (Messages{"barrier misuse [race at ring.cu:20, missing tcgen05 fence at ring.cu:30]"}));
}

TEST(ConsequencesTest, AreOperationsThatAStoppedKernelLeavesBehind) {
  Diagnostic leak = about("tensor memory leak", "", "", "nobody has waited");
  leak.message = "2 tcgen05 operations were still in flight when the block ended";
  const Diagnostic race = about("race", "tensor memory", "gemm.cu:10", "a");
  EXPECT_EQ(folded({race, leak}), (Messages{"race [tensor memory leak]"}));
  leak.message = "128 columns of tensor memory were still allocated when the block ended";
  EXPECT_EQ(folded({race, leak}), (Messages{"race []", "tensor memory leak []"}));
}

TEST(ConsequencesTest, AreWhatStopsAKernelWhoseThreadsAreOutOfStep) {
  Diagnostic stop = about("deadlock", "", "ring.cu:52", "nobody arrives", "");
  EXPECT_EQ(folded({about("race", "tile", "ring.cu:10", "see the wait at ring.cu:52"), stop}),
            (Messages{"race [deadlock at ring.cu:52]"}));
  EXPECT_EQ(folded({about("race", "", "sum.cu:10", "in global memory"), stop}), (Messages{"race []", "deadlock []"}));
  stop.message = "waits for full[1] to complete phase 0";
  EXPECT_EQ(folded({about("race", "tile", "ring.cu:10", "the wait for full[0] passed at once"), stop}),
            (Messages{"race [deadlock at ring.cu:52]"}));
}

// A race of other memory, about which no barrier is named, is no reason for threads to wait for ever.
TEST(ConsequencesTest, AreNoDeadlockAtABarrierThatTheRaceDoesNotName) {
  Diagnostic stop = about("deadlock", "", "ring.cu:52", "nobody arrives", "");
  stop.message = "waits for full[1] to complete phase 0";
  EXPECT_EQ(folded({about("race", "sums", "ring.cu:10", "a __syncwarp() is missing"), stop}),
            (Messages{"race []", "deadlock []"}));
}

TEST(ConsequencesTest, AreFoundBeforeAStaleParityAndAfterALoadOfWhatNothingHasWritten) {
  Diagnostic stale = about("barrier misuse", "full", "ring.cu:30", "a flip is missing");
  stale.message = "stale parity: waits for phase 0 of full[0]";
  EXPECT_EQ(folded({about("race", "tile", "ring.cu:10", "the wait at ring.cu:30 passed at once"), stale}),
            (Messages{"barrier misuse [race at ring.cu:10]"}));
  const Diagnostic early =
      about("uninitialised read", "tile", "ring.cu:40", "b", "unwritten: ring.cu:40, then ring.cu:40");
  EXPECT_EQ(folded({early, about("race", "tile", "ring.cu:10", "a")}),
            (Messages{"race [uninitialised read at ring.cu:40]"}));
  EXPECT_EQ(folded({early, about("deadlock", "", "ring.cu:9", "b", "")}),
            (Messages{"deadlock [uninitialised read at ring.cu:40]"}));
}

TEST(ConsequencesTest, DoNotFollowFromWhatTheChipTolerates) {
  Diagnostic tolerated = about("missing wait", "tile", "ring.cu:10", "a");
  tolerated.tolerated = "kernels of a library end so";
  EXPECT_EQ(folded({tolerated, about("race", "tile", "ring.cu:10", "see ring.cu:9"),
                    about("deadlock", "", "ring.cu:9", "b", "")}),
            (Messages{"missing wait []", "race [deadlock at ring.cu:9]"}));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
