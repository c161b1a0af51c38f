// How the findings of several parts of a grid are merged.
#include "emulator/scheduling/findings.hpp"

#include <fmt/format.h>
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

}  // namespace
}  // namespace stagecraft::emulator::machine
