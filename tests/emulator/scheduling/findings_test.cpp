// What is told of the findings of several parts of a grid.
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

std::vector<std::string> messages_of(const std::vector<Diagnostic>& told) {
  std::vector<std::string> messages;
  for (const Diagnostic& diagnostic : told) messages.push_back(diagnostic.message);
  return messages;
}

using Messages = std::vector<std::string>;

TEST(FindingsTest, AreToldInTheOrderOfVirtualTime) {
  EXPECT_EQ(messages_of(tell({{found("c", 30), found("b", 20)}, {found("a", 10), found("d", 40)}}, {})),
            (Messages{"a", "b", "c", "d"}));
}

TEST(FindingsTest, OfOneTimeAreToldInTheOrderOfTheParts) {
  EXPECT_EQ(messages_of(tell({{found("z", 10), found("y", 10)}, {found("a", 10)}}, {})), (Messages{"z", "y", "a"}));
}

TEST(FindingsTest, OfOneIdentityAreToldOnce) {
  EXPECT_EQ(messages_of(tell({{found("a", 20, "late")}, {found("a", 10, "early"), found("b", 15)}}, {})),
            (Messages{"early", "b"}));
}

TEST(FindingsTest, AfterTheGridWasStoppedAreNotToldOfOtherParts) {
  const StoppedAt stopped{1, 100};
  EXPECT_EQ(messages_of(tell({{found("before", 99), found("with", 100), found("after", 101)}}, StoppedAt{7, 100})),
            (Messages{"before", "with"}));
  EXPECT_EQ(messages_of(tell({{}, {found("own", 100), found("own, in another cluster", 120)}}, stopped)),
            (Messages{"own", "own, in another cluster"}));
  EXPECT_EQ(messages_of(tell({{}, {}, {found("before", 99), found("with", 100)}}, stopped)), (Messages{"before"}));
}

TEST(FindingsTest, HaveTheDetailsThatCameToLightBeforeTheGridWasStopped) {
  Finding finding = found("a", 10);
  finding.diagnostic.details = {"first"};
  finding.later = {{20, "second"}, {200, "third"}};
  EXPECT_EQ(tell({{finding}}, {}).front().details, (Messages{"first", "second", "third"}));
  EXPECT_EQ(tell({{finding}, {}}, StoppedAt{1, 100}).front().details, (Messages{"first", "second"}));
}

TEST(FindingsTest, AreNotToldWithoutEnd) {
  std::vector<std::vector<Finding>> parts(3);
  for (uint32_t i = 0; i < 3 * kMostFindings; ++i) parts[i % 3].push_back(found(fmt::format("{}", i), i));
  const std::vector<Diagnostic> told = tell(std::move(parts), {});
  ASSERT_EQ(told.size(), kMostFindings);
  EXPECT_EQ(told.back().message, fmt::format("{}", kMostFindings - 1));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
