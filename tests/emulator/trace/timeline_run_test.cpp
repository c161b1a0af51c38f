#include "emulator/trace/timeline_run.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "emulator/trace/timeline_page.hpp"
#include "emulator/trace/timeline_trace.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::trace {
namespace {

using nlohmann::json;
using Prepared = Run;  // a test has a function of that name

class TimelineRunTest : public machine::KernelTest {
 protected:
  TimelineRunTest() { machine.announce_memory_events(true); }
  Timeline timeline;

  machine::LaunchResult run(const std::string& body, uint64_t seed = 0) {
    machine::Kernel& kernel =
        compile_body(body, ".file 1 \"f.cu\"\n.shared .align 128 .b8 tile[8192];\n.shared .align 8 .b64 full[4];\n");
    machine::LaunchRequest request;
    request.kernel = &kernel;
    request.block.x = 64;
    request.seed = seed;
    request.parameters.resize(kernel.parameter_bytes);
    const uint64_t out = allocate<uint32_t>(4096);
    std::memcpy(request.parameters.data(), &out, sizeof out);
    return machine.launch(request, {&timeline}, [](std::string_view) {});
  }
  // Warp 0 has 3200 bytes copied for phase 0, and arrives itself for phase 1; warp 1 waits for both.
  static inline const std::string kTwoPhases = R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [full+8], 1;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra WAIT;
    @!%p0 bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [full+8], 3200;
    .loc 1 20 0
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+128], [%out], 3200, [full+8];
    AGAIN:
    mbarrier.try_wait.parity.shared.b64 %p7, [full+8], 0;
    @!%p7 bra AGAIN;
    nanosleep.u32 100;
    .loc 1 21 0
    mbarrier.arrive.shared.b64 _, [full+8];
    bra END;
    WAIT:
    .loc 1 30 0
    mbarrier.try_wait.parity.shared.b64 %p7, [full+8], 0;
    @!%p7 bra WAIT;
    NEXT:
    .loc 1 31 0
    mbarrier.try_wait.parity.shared.b64 %p7, [full+8], 1;
    @!%p7 bra NEXT;
    END:)";

  static const RunWait& wait_at(const Prepared& run, const RunWarp& warp, const std::string& place) {
    const auto found = std::find_if(warp.waits.begin(), warp.waits.end(), [&](const RunWait& wait) {
      return run.places[static_cast<size_t>(wait.place)].at == place;
    });
    EXPECT_NE(found, warp.waits.end()) << place;
    return *found;
  }
};

TEST_F(TimelineRunTest, SaysWhichOperationOrWarpEndedAWait) {
  EXPECT_FALSE(run(kTwoPhases).fault.has_value());
  const Prepared prepared = prepare_run(timeline, "");
  ASSERT_EQ(prepared.warps.size(), 2u);
  const RunWait& copied = wait_at(prepared, prepared.warps[1], "f.cu:30");
  EXPECT_EQ(copied.phase, 0u);
  EXPECT_EQ(copied.ender.what, "cp.async.bulk");
  EXPECT_EQ(copied.ender.warp, 0);
  EXPECT_EQ(prepared.places[static_cast<size_t>(copied.ender.place)].at, "f.cu:20");
  ASSERT_EQ(copied.ender.track, 0);
  const OperationSpan& copy = *prepared.tracks[0].operations[static_cast<size_t>(copied.ender.operation)].span;
  EXPECT_EQ(copy.end, copied.end);
  EXPECT_EQ(copy.bytes, 3200u);
  EXPECT_EQ(copy.target, "tile+0x80");
  const RunWait& arrived = wait_at(prepared, prepared.warps[1], "f.cu:31");
  EXPECT_EQ(arrived.phase, 1u);
  EXPECT_EQ(arrived.ender.what, "");
  EXPECT_EQ(arrived.ender.warp, 0);
  EXPECT_EQ(arrived.ender.track, -1);
  EXPECT_EQ(prepared.places[static_cast<size_t>(arrived.ender.place)].at, "f.cu:21");
}

TEST_F(TimelineRunTest, SaysWhichWarpWasTheLastAtABarrierOfTheBlock) {
  EXPECT_FALSE(run(R"(mov.u32 %r0, %tid.x;
    setp.ge.u32 %p1, %r0, 32;
    @!%p1 bra MEET;
    nanosleep.u32 1000;
    MEET:
    bar.sync 0;)")
                   .fault.has_value());
  const Prepared prepared = prepare_run(timeline, "");
  ASSERT_EQ(prepared.warps[0].waits.size(), 1u);
  EXPECT_EQ(prepared.warps[0].waits[0].what, "the block");
  EXPECT_EQ(prepared.warps[0].waits[0].ender.warp, 1);
}

TEST_F(TimelineRunTest, KeepsTheStateOfABarrierAfterEachStep) {
  EXPECT_FALSE(run(kTwoPhases).fault.has_value());
  using Kind = machine::BarrierEventKind;
  std::vector<std::tuple<Kind, uint64_t, uint32_t, int64_t>> states;
  for (const BarrierStep& step : timeline.steps()) {
    if (step.kind != Kind::wait) states.emplace_back(step.kind, step.phase, step.pending, step.bytes);
  }
  const std::vector<std::tuple<Kind, uint64_t, uint32_t, int64_t>> expected{
      {Kind::init, 0, 1, 0},          {Kind::expect_tx, 0, 1, 3200},   {Kind::arrive, 0, 0, 3200},
      {Kind::complete_tx, 0, 0, 0},   {Kind::phase_complete, 1, 1, 0}, {Kind::arrive, 1, 0, 0},
      {Kind::phase_complete, 2, 1, 0}};
  EXPECT_EQ(states, expected);
}

TEST_F(TimelineRunTest, ARunThatHangsHasWaitsThatNothingEnded) {
  EXPECT_TRUE(run(R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [full], 1;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @!%p1 bra END;
    WAIT:
    mbarrier.try_wait.parity.shared.b64 %p7, [full], 0;
    @!%p7 bra WAIT;
    END:)")
                  .fault.has_value());
  const Prepared prepared = prepare_run(timeline, "stagecraft: deadlock");
  ASSERT_FALSE(prepared.warps[1].waits.empty());
  const RunWait& wait = prepared.warps[1].waits.back();
  EXPECT_TRUE(wait.open);
  EXPECT_EQ(wait.end, prepared.warps[1].end);
  EXPECT_EQ(wait.ender.warp, -1);
  EXPECT_LT(prepared.warps[0].end, wait.begin + 1000) << "a warp that has exited does not hang";
  EXPECT_NE(timeline_page(prepared).find("stagecraft: deadlock"), std::string::npos);
}

TEST_F(TimelineRunTest, TheTraceHasSlicesCountersAndAnArrowForEachWait) {
  run(kTwoPhases);
  const json trace = json::parse(trace_events(prepare_run(timeline, "the report")));
  EXPECT_EQ(trace["otherData"]["report"], "the report");
  std::map<std::string, std::vector<json>> by_kind;
  std::set<std::pair<int, int>> named;
  for (const json& event : trace["traceEvents"]) {
    by_kind[event["ph"]].push_back(event);
    if (event["name"] == "thread_name") named.emplace(event["pid"], event["tid"]);
    // What the format asks of each kind (Trace Event Format).
    ASSERT_TRUE(event.contains("pid") && event.contains("tid") && event.contains("name"));
    if (event["ph"] != "M") {
      ASSERT_TRUE(event["ts"].is_number());
    }
    if (event["ph"] == "X") {
      ASSERT_TRUE(event["dur"].is_number());
      ASSERT_TRUE(named.count({event["pid"], event["tid"]})) << event;
    }
  }
  EXPECT_EQ(by_kind["M"][0]["args"]["name"], "block 0 of k");
  ASSERT_EQ(by_kind["s"].size(), by_kind["f"].size());
  std::set<int> starts, ends;
  for (const json& event : by_kind["s"]) starts.insert(event["id"].get<int>());
  for (const json& event : by_kind["f"]) ends.insert(event["id"].get<int>());
  EXPECT_EQ(starts, ends);
  EXPECT_EQ(starts.size(), by_kind["s"].size());
  // An arrow begins and ends in a slice, and does not go back in time.
  const auto is_inside_a_slice = [&](const json& event) {
    return std::any_of(by_kind["X"].begin(), by_kind["X"].end(), [&](const json& slice) {
      const double begin = slice["ts"].get<double>(), at = event["ts"].get<double>();
      return slice["pid"] == event["pid"] && slice["tid"] == event["tid"] && begin <= at &&
             at < begin + slice["dur"].get<double>();
    });
  };
  for (size_t i = 0; i < by_kind["s"].size(); ++i) {
    EXPECT_TRUE(is_inside_a_slice(by_kind["s"][i])) << by_kind["s"][i];
    EXPECT_TRUE(is_inside_a_slice(by_kind["f"][i])) << by_kind["f"][i];
    EXPECT_LE(by_kind["s"][i]["ts"], by_kind["f"][i]["ts"]);
  }
  const auto is_copy = [](const json& event) { return event["name"] == "cp.async.bulk"; };
  const auto copy = std::find_if(by_kind["X"].begin(), by_kind["X"].end(), is_copy);
  ASSERT_NE(copy, by_kind["X"].end());
  EXPECT_EQ((*copy)["args"]["barrier"], "full[1]");
  EXPECT_EQ((*copy)["args"]["source"], "f.cu:20");
  // The arrow to the wait for the copy begins where the copy is.
  const auto from_copy = std::find_if(by_kind["s"].begin(), by_kind["s"].end(),
                                      [&](const json& event) { return event["tid"] == (*copy)["tid"]; });
  ASSERT_NE(from_copy, by_kind["s"].end());
  EXPECT_EQ((*from_copy)["ts"], (*copy)["ts"].get<double>() + (*copy)["dur"].get<double>() - 0.5);
  const json& last = by_kind["C"].back();
  EXPECT_EQ(last["name"], "full[1]");
  EXPECT_EQ(last["args"], (json{{"phase", 2}, {"pending arrivals", 1}, {"pending bytes", 0}}));
}

TEST_F(TimelineRunTest, OneSeedHasOneTraceAndOnePage) {
  run(kTwoPhases, 7);
  const Prepared first = prepare_run(timeline, "");
  const std::string trace = trace_events(first), page = timeline_page(first);
  run(kTwoPhases, 7);
  const Prepared second = prepare_run(timeline, "");
  EXPECT_EQ(trace_events(second), trace);
  EXPECT_EQ(timeline_page(second), page);
}

TEST_F(TimelineRunTest, ThePageNeedsNoOtherFileAndCannotBeClosedByItsData) {
  run(kTwoPhases);
  const std::string page = timeline_page(prepare_run(timeline, "a report with </script> and @STYLE@ in it \xe9"));
  EXPECT_EQ(page.find("@RUN@"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_EQ(page.find("with </script> and"), std::string::npos);
  EXPECT_NE(page.find("with \\u003c/script> and @STYLE@ in it \xef\xbf\xbd"), std::string::npos);
  EXPECT_NE(trace_events(prepare_run(timeline, "\xe9 in it")).find("\xef\xbf\xbd in it"), std::string::npos);
}

TEST_F(TimelineRunTest, SaysWhatTheSharedMemoryOfABlockIsDividedInto) {
  run(kTwoPhases);
  const json shared = json::parse(run_data(prepare_run(timeline, "")))["shared"];
  EXPECT_EQ(shared["reserved"], 1024);
  EXPECT_EQ(shared["static"], 128 + 8192);
  EXPECT_EQ(shared["dynamic"], 0);
  const json full{{"name", "full"}, {"offset", 1024}, {"bytes", 4 * 8}};
  const json tile{{"name", "tile"}, {"offset", 1024 + 128}, {"bytes", 8192}};
  EXPECT_EQ(shared["variables"], json::array({full, tile}));
}

TEST(RoleTest, IsTheCaseAroundALine) {
  const std::vector<std::string> lines{
      "__global__ void kernel() {",              // 1
      "  prepare();",                            //
      "  switch (warp_role()) {",                //
      "    case Role::copy:",                    //
      "      if (elect_one()) {",                // 5
      "        wait(empty);",                    //
      "      }",                                 //
      "      break;",                            //
      "    case Role::find_smallest: {",         //
      "      wait(full);",                       // 10
      "      switch (kind) {",                   //
      "        case Kind::odd: arrive(empty);",  //
      "      }",                                 //
      "      break;",                            //
      "    }",                                   // 15
      "    case Role::add: sum_rows(); break;",  //
      "  }",                                     //
      "  finish();",                             //
      "}",                                       //
  };
  EXPECT_EQ(role_at(lines, 2), "");
  EXPECT_EQ(role_at(lines, 6), "copy");
  EXPECT_EQ(role_at(lines, 10), "find_smallest");
  EXPECT_EQ(role_at(lines, 12), "find_smallest");
  EXPECT_EQ(role_at(lines, 16), "add");
  EXPECT_EQ(role_at(lines, 18), "");
  EXPECT_EQ(role_at(lines, 0), "");
  EXPECT_EQ(role_at(lines, 99), "");
}

}  // namespace
}  // namespace stagecraft::emulator::trace
