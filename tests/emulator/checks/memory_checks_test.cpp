// How a check is added: a class that derives from MemoryCheck, and a place in the list of MemoryChecks.
#include "emulator/checks/memory_checks.hpp"

#include "emulator/checks/ordering/wording.hpp"
#include "emulator/checks/race/race_check.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

/// Finds reads of shared memory by warps that have not passed any barrier of the block, as an example.
class EarlyReadCheck final : public MemoryCheck {
 public:
  using MemoryCheck::MemoryCheck;

  void cluster_started(ClusterRecord& cluster) override { states_.start(cluster); }
  void threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) override {
    if (event.kind != machine::RendezvousKind::pass) return;
    states_[cluster].passed.insert(cluster.order().warp_number(*event.fragment));
  }
  void memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) override {
    const machine::MemoryAccess& access = recorded.event;
    const uint32_t warp = recorded.warp_number;
    if (recorded.warp == nullptr || access.kind != machine::AccessKind::read) return;
    if (states_[cluster].passed.contains(warp)) return;
    const auto identity = findings_.claim("early read", access.pc);
    if (!identity) return;
    machine::Diagnostic finding;
    finding.kind = "early read";
    finding.place = place_of(cluster, warp, access.lanes, access.pc);
    finding.message = fmt::format("reads at time {} of its warp", recorded.warp->time);
    findings_.add(cluster.cluster(), *identity, std::move(finding));
  }

 private:
  struct State {
    std::set<uint32_t> passed;  ///< warps
  };
  PerCluster<State> states_;
};

template <typename Checks>
class MemoryChecksTest : public RaceTest {
 protected:
  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    std::vector<std::unique_ptr<machine::Observer>> made;
    made.push_back(std::make_unique<Checks>());
    return made;
  }
};

const std::string kReads = R"(ld.shared.u32 %r1, [%own];
bar.sync 0;
ld.shared.u32 %r2, [%own];
)";

using OnlyItself = MemoryChecksTest<MemoryChecks<EarlyReadCheck>>;

TEST_F(OnlyItself, SeesTheEventsAndReportsWhatItFinds) {
  expect_one(run(kReads), "early read", {"block (0,0,0) warp 0", line_of(kReads, "%r1")});
  expect_silence(run("bar.sync 0;\n" + kReads));
}

TEST_F(OnlyItself, SeesWhatTheRecordKnows) {
  // The time of a warp begins at 2 and grows when others can know of an access, here through the __syncwarp.
  const std::string body = R"(st.shared.u32 [%own], %lane;
bar.warp.sync 0xffffffff;
ld.shared.u32 %r1, [%own];
)";
  expect_one(run(body, {.threads = 32}), "early read", {"reads at time 3 of its warp"});
}

TEST_F(OnlyItself, HasAStateForEachClusterThatRuns) {
  // Every block must pass a barrier of its own, also one that runs where another one has ended before.
  const std::string first_block_meets = "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 0;\n@!%p1 bar.sync 0;\n" + kReads;
  const machine::LaunchResult result = run(first_block_meets, {.threads = 32, .blocks = 2});
  expect_one(result, "early read", {"block (1,0,0)"});
}

using WithOthers = MemoryChecksTest<MemoryChecks<EarlyReadCheck, RaceCheck>>;

TEST_F(WithOthers, ReportsBesideThem) {
  const std::string body = R"(st.shared.u32 [tile], %thread;
ld.shared.u32 %r1, [tile];
)";
  const machine::LaunchResult result = run(body);
  ASSERT_GE(result.diagnostics.size(), 2u) << text_of(result);
  const auto has = [&](const std::string& kind) {
    return std::any_of(result.diagnostics.begin(), result.diagnostics.end(),
                       [&](const machine::Diagnostic& each) { return each.kind == kind; });
  };
  EXPECT_TRUE(has("early read"));
  EXPECT_TRUE(has("race"));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
