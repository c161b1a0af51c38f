// Tests the fences between the proxies: threads write, and asynchronous engines read or overwrite.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

using ProxyTest = RaceTest;

// Each thread writes a word; thread 0 has TMA store them.
const std::string kStore = R"(st.shared.u32 [%own], %thread;
fence.proxy.async.shared::cta;
bar.sync 0;
@!%first bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
)";
const std::string kFence = "fence.proxy.async.shared::cta;\n";

TEST_F(ProxyTest, FindsAMissingFenceBeforeAStoreByTheCopyEngine) {
  expect_silence(run(kStore));
  const std::string body = without(kStore, kFence);
  expect_one(run(body), "missing proxy fence",
             {"the cp.async.bulk issued here reads tile+0x0",
              "cp.async.bulk.global.shared::cta.bulk_group at " + line_of(body, "cp.async.bulk.global"),
              "warp 0 [lane 0] writes it at " + line_of(body, "st.shared"), "fence.proxy.async is missing",
              "after its last write"});
}

TEST_F(ProxyTest, TakesTheFenceOfTheThreadThatIssues) {
  expect_silence(
      run(with(without(kStore, kFence), "@!%first bra DONE;\n", "@!%first bra DONE;\nfence.proxy.async;\n")));
}

TEST_F(ProxyTest, DoesNotTakeAFenceThatComesTooLate) {
  const std::string body = with(without(kStore, kFence), "cp.async.bulk.commit_group;\n",
                                "fence.proxy.async;\ncp.async.bulk.commit_group;\n");
  expect_one(run(body), "missing proxy fence",
             {line_of(body, "cp.async.bulk.global"), "the next fence.proxy.async of this warp at " +
                                                         line_of(body, "fence.proxy") + " comes after the operation"});
}

TEST_F(ProxyTest, DoesNotTakeAFenceThatComesTooEarly) {
  expect_one(run(with(without(kStore, kFence), "st.shared.u32 [%own], %thread;\n",
                      "fence.proxy.async;\nst.shared.u32 [%own], %thread;\n")),
             "missing proxy fence", {"f.cu:2", "f.cu:5"});
}

TEST_F(ProxyTest, DoesNotTakeAFenceOfGlobalMemory) {
  expect_one(run(with(kStore, kFence, "fence.proxy.async.global;\n")), "missing proxy fence",
             {"f.cu:1", "f.cu:5", "the fence.proxy.async.global at f.cu:2 is for global memory only"});
}

TEST_F(ProxyTest, DoesNotTakeOneLanesFenceForThoseOfTheOthers) {
  const std::string elected = "setp.eq.u32 %p1, %lane, 0;\n@%p1 fence.proxy.async;\n";
  expect_one(run(with(kStore, kFence, elected)), "missing proxy fence",
             {"tile+0x4", "the fence.proxy.async at f.cu:3 is executed by lane 0 only", "every thread that writes"});
  // It is right when that lane knows what the others have written.
  expect_silence(run(with(kStore, kFence, "bar.warp.sync 0xffffffff;\n" + elected)));
}

TEST_F(ProxyTest, AsksForAFenceAgainAfterEachWrite) {
  const std::string again =
      "bar.sync 0;\nst.shared.u32 [%own], %lane;\nfence.proxy.async;\nbar.sync 0;\n"
      "@%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 128;\n"
      "@%first cp.async.bulk.commit_group;\n@%first cp.async.bulk.wait_group 0;\n";
  expect_silence(run(kStore + again));
  expect_one(run(kStore + without(again, "fence.proxy.async;\n")), "missing proxy fence", {"f.cu:10", "f.cu:12"});
}

TEST_F(ProxyTest, FindsAMissingFenceBeforeACopyOverwrites) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
st.shared.u32 [%own], %thread;
fence.proxy.async;
bar.sync 0;
@!%first bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 256, [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
@!%p7 bra WAIT;
ld.shared.u32 %r1, [%own];
)";
  expect_silence(run(body));
  expect_one(run(without(body, "fence.proxy.async;\n")), "missing proxy fence",
             {"overwrites tile+0x0", "f.cu:3", "f.cu:7"});
}

TEST_F(ProxyTest, AsksForNoFenceBetweenReadsAndTheNextCopy) {
  // A stage is refilled after its consumers have arrived: the order is enough.
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
@%first mbarrier.init.shared.b64 [bar+8], 32;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
setp.eq.u32 %p1, %warp, 1;
@%p1 bra CONSUME;
@!%first bra END;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 128, [bar];
FREE:
mbarrier.try_wait.parity.shared.b64 %p7, [bar+8], 0;
@!%p7 bra FREE;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 128, [bar];
bra END;
CONSUME:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
@!%p7 bra CONSUME;
ld.shared.u32 %r1, [%own+-128];
mbarrier.arrive.shared.b64 _, [bar+8];
AGAIN:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 1;
@!%p7 bra AGAIN;
ld.shared.u32 %r1, [%own+-128];
END:
)";
  for (uint64_t seed_of_run = 0; seed_of_run < 4; ++seed_of_run) expect_silence(run(body, {}, seed_of_run));
}

TEST_F(ProxyTest, CountsCpAsyncAmongTheThreadsWrites) {
  const std::string body = R"(mov.u64 %rd1, %out;
cp.async.ca.shared.global [%own], [%rd1], 4;
cp.async.wait_all;
fence.proxy.async;
bar.sync 0;
@!%first bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
)";
  expect_silence(run(body));
  expect_one(run(without(body, "fence.proxy.async;\n")), "missing proxy fence",
             {"cp.async issued by", "f.cu:2", "f.cu:6", "after its wait for the copy"});
}

// The engines access a barrier through the generic proxy: its initialisation must come before, and needs no proxy
// fence.
TEST_F(ProxyTest, FindsABarrierWhoseInitialisationIsNotOrderedBeforeACopy) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
bar.sync 0;
setp.ne.u32 %p1, %thread, 32;
@%p1 bra OTHERS;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 256, [bar];
OTHERS:
setp.eq.u32 %p2, %warp, 1;
@%p2 bra END;
WAIT:
@%first mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
@%first bra TEST;
bra END;
TEST:
@!%p7 bra WAIT;
END:
)";
  expect_silence(run(body));
  expect_one(run(without(body, "bar.sync 0;\n")), "barrier misuse",
             {"f.cu:5", "cp.async.bulk", "uses bar[0], and nothing orders its initialisation before that", "f.cu:1",
              "__syncthreads() is missing"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
