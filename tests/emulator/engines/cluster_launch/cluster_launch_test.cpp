// clusterlaunchcontrol: all work is done once, by blocks that started or by blocks that took it over.
#include <set>

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

using machine::Extent3;
using machine::FaultKind;
using machine::LaunchResult;

class ClusterLaunchTest : public machine::KernelTest {
 protected:
  static constexpr Extent3 kGrid{14, 12, 10};

  /// A kernel whose blocks have one warp. Each block adds 1 to its element of `out`, requests further work, and does
  /// that too. It counts its work in %r9, which `at_the_end` may use.
  static std::string take_over(const std::string& at_the_end, const std::string& request_of_one) {
    return R"(
.visible .entry k(.param .u64 k_out) {
  .reg .b64 %out, %rd<10>; .reg .b32 %r<30>; .reg .pred %p<8>; .reg .b128 %q;
  .shared .align 16 .b8 response[16];
  .shared .align 8 .b64 bar;
  .shared .align 16 .b8 large[60000];
  ld.param.u64 %out, [k_out];
  mov.u32 %r20, large;
  mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared.b64 [bar], 1;
  @%p0 fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
  mov.u32 %r8, 0; mov.u32 %r9, 0;
WORK:
  mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
  mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
  mul.wide.u32 %rd0, %r6, 4; add.u64 %rd0, %rd0, %out;
  @%p0 red.global.add.u32 [%rd0], 1;
  add.u32 %r9, %r9, 1;
  @!%p0 bra WAIT;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
)" + request_of_one +
           R"(
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p1, [bar], %r8;
  @!%p1 bra WAIT;
  xor.b32 %r8, %r8, 1;
  ld.shared.b128 %q, [response];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q;
  @!%p2 bra DONE;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %q;
  mov.u32 %r7, %cluster_ctaid.x; add.u32 %r1, %r1, %r7;
  mov.u32 %r7, %cluster_ctaid.y; add.u32 %r2, %r2, %r7;
  fence.proxy.async.shared::cta;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  bra WORK;
DONE:
)" + at_the_end +
           "\n  ret;\n}\n";
  }
  static inline const std::string kAlone =
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [response], [bar];";
  static inline const std::string kForAll =
      "mov.u32 %r10, %cluster_ctarank; setp.ne.u32 %p3, %r10, 0; @%p3 bra WAIT;\n"
      "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%rd1], [%rd2];";
  static inline const std::string kGenericAddresses =
      "mov.u32 %r11, response; cvt.u64.u32 %rd1, %r11; cvta.shared.u64 %rd1, %rd1;\n"
      "mov.u32 %r11, bar; cvt.u64.u32 %rd2, %r11; cvta.shared.u64 %rd2, %rd2;\n";
  /// Each block that started adds the number of its pieces of work here, after the elements of the grid.
  static inline const std::string kCountStarted =
      "@%p0 red.global.add.u32 [%out+40000], 1;\n  @%p0 red.global.add.u32 [%out+40004], %r9;";

  /// Expects that each block's work was done once. Returns how many blocks started.
  uint32_t run_and_count(const std::string& text, const Extent3& grid) {
    const uint64_t out = allocate<uint32_t>(12000);
    const LaunchResult result = launch(compile(text), grid, {32, 1, 1}, out);
    EXPECT_FALSE(result.fault) << message_of(result);
    const std::vector<uint32_t> found = read<uint32_t>(out, 12000);
    for (uint32_t i = 0; i < grid.count(); ++i) EXPECT_EQ(found[i], 1u) << "block " << i;
    EXPECT_EQ(found[10001], grid.count());
    return found[10000];
  }
};

TEST_F(ClusterLaunchTest, DoesTheWorkOfBlocksThatHaveNotStarted) {
  for (seed = 0; seed < 4; ++seed) {
    const uint32_t started = run_and_count(take_over(kCountStarted, kAlone), kGrid);
    EXPECT_LT(started, kGrid.count() / 2);
    EXPECT_GE(started, machine.architecture().multiprocessors);
  }
}

TEST_F(ClusterLaunchTest, TellsAllBlocksOfACluster) {
  cluster = {2, 2, 1};
  for (seed = 0; seed < 4; ++seed) {
    const uint32_t started = run_and_count(take_over(kCountStarted, kGenericAddresses + kForAll), kGrid);
    EXPECT_LT(started, kGrid.count() / 2);
    EXPECT_EQ(started % 4, 0u);
  }
}

TEST_F(ClusterLaunchTest, FailsWhenAllHaveStarted) {
  EXPECT_EQ(run_and_count(take_over(kCountStarted, kAlone), {3, 2, 1}), 6u);
}

TEST_F(ClusterLaunchTest, GivesEachCoordinateOnItsOwn) {
  std::string text = take_over(kCountStarted, kAlone);
  const std::string all = "get_first_ctaid.v4.b32.b128 {%r1, %r2, %r3, _}, %q;";
  text.replace(
      text.find(all), all.size(),
      "get_first_ctaid::x.b32.b128 %r1, %q;\n clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r2, "
      "%q;\n clusterlaunchcontrol.query_cancel.get_first_ctaid::z.b32.b128 %r3, %q;");
  run_and_count(text, kGrid);
}

TEST_F(ClusterLaunchTest, RefusesARequestAfterAFailureWasSeen) {
  const LaunchResult result =
      launch(compile(take_over("@%p0 " + kAlone, kAlone)), {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(12000));
  EXPECT_EQ(result.fault, FaultKind::illegal_instruction);
  EXPECT_EQ(message_of(result), "clusterlaunchcontrol.try_cancel after the block has seen a request fail");
}

TEST_F(ClusterLaunchTest, RefusesAddressesElsewhere) {
  cluster = {2, 1, 1};
  std::string remote = kAlone;
  remote.replace(remote.find("[response]"), 10, "[%r11]");
  remote = "mov.u32 %r11, response; mapa.shared::cluster.u32 %r11, %r11, 1;\n" + remote;
  const LaunchResult result = launch(compile(take_over("", remote)), {2, 1, 1}, {32, 1, 1}, allocate<uint32_t>(12000));
  EXPECT_EQ(result.fault, FaultKind::invalid_address_space);
  EXPECT_NE(message_of(result).find("try_cancel: response"), std::string::npos) << message_of(result);
}

TEST_F(ClusterLaunchTest, RefusesToTellABlockThatHasExited) {
  cluster = {2, 1, 1};
  const std::string late =
      "mov.u32 %r10, %cluster_ctarank; setp.ne.u32 %p3, %r10, 0; @%p3 exit;\nnanosleep.u32 1000;\n" +
      kGenericAddresses + kForAll;
  const LaunchResult result = launch(compile(take_over("", late)), {2, 1, 1}, {1, 1, 1}, allocate<uint32_t>(12000));
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  EXPECT_NE(message_of(result).find("the block of rank 1"), std::string::npos) << message_of(result);
}

TEST_F(ClusterLaunchTest, RefusesOtherForms) {
  const auto refusal = [&](const std::string& instruction) -> std::string {
    try {
      compile_body(".reg .b128 %q; clusterlaunchcontrol." + instruction);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_NE(refusal("try_cancel.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];").find("async"), std::string::npos);
  EXPECT_NE(refusal("try_cancel.async.b128 [%r1], [%r2];").find("mbarrier::complete_tx::bytes"), std::string::npos);
  EXPECT_NE(refusal("query_cancel.get_first_ctaid.v4.b32.b128 %r1, %q;").find("{x, y, z, _}"), std::string::npos);
  EXPECT_NE(refusal("query_cancel.get_first_ctaid::w.b32.b128 %r1, %q;").find("get_first_ctaid"), std::string::npos);
  EXPECT_NE(refusal("cancel.b128 [%r1];").find("there are clusterlaunchcontrol.try_cancel and"), std::string::npos);
}

class ClusterLaunchOnHopperTest : public machine::KernelTest {
 protected:
  ClusterLaunchOnHopperTest() : KernelTest(machine::h200()) {}
};

TEST_F(ClusterLaunchOnHopperTest, IsRefused) {
  try {
    compile_body(".reg .b128 %q; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q;");
    FAIL();
  } catch (const ptx::Error& error) {
    EXPECT_NE(std::string(error.what()).find("clusterlaunchcontrol needs sm_100"), std::string::npos) << error.what();
  }
}

/// Runs under the race check: an asynchronous engine writes the response.
class ClusterLaunchRaceTest : public checks::RaceTest {
 protected:
  static inline const std::string kBegin =
      "@%first mbarrier.init.shared.b64 [bar], 1;\n@%first fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
      "@!%first bra WAIT;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [bar];\nWAIT:\n";
  static inline const std::string kWait = "mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0; @!%p7 bra WAIT;\n";
  static inline const std::string kRead = "ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [tile];\n";
};

TEST_F(ClusterLaunchRaceTest, IsSilentWhenTheResponseIsWaitedFor) { expect_silence(run(kBegin + kWait + kRead)); }

TEST_F(ClusterLaunchRaceTest, FindsAResponseThatIsReadTooEarly) {
  const std::string wrong = with(kBegin, "WAIT:\n", "") + kRead + "WAIT:\n" + kWait;
  expect_one(run(wrong), "race", {"clusterlaunchcontrol.try_cancel", line_of(wrong, "ld.shared")});
}

TEST_F(ClusterLaunchRaceTest, ARequestNeedsAFenceAfterTheResponseBeforeItWasRead) {
  // All threads read the first response; then the first one asks again, into the same place.
  const std::string again =
      "AGAIN:\nbar.sync 0;\n@!%first bra LAST;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [bar];\n"
      "LAST:\nmbarrier.try_wait.parity.shared.b64 %p7, [bar], 1; @!%p7 bra LAST;\n";
  const std::string fence = "fence.proxy.async.shared::cta;\n";
  expect_silence(run(kBegin + kWait + kRead + fence + again));
  const std::string wrong = kBegin + kWait + kRead + again;
  expect_one(run(wrong), "missing proxy fence",
             {"overwrites tile+0x0 in shared memory, which a thread has read", line_of(wrong, "ld.shared"),
              "every thread that reads must execute it after its read"});
  expect_one(run(kBegin + kWait + kRead + "@%first " + fence + again), "missing proxy fence",
             {"which a thread has read", "executed by"});
}

}  // namespace
}  // namespace stagecraft::emulator::machine
