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

/// A copy fills a stage, which warp 1 reads and frees by `read_and_free`, and another copy fills it again.
std::string refill(const std::string& read_and_free, const std::string& before_refill = "") {
  return R"(@%first mbarrier.init.shared.b64 [bar], 1;
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
)" + before_refill +
         R"(mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 128, [bar];
bra END;
CONSUME:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
@!%p7 bra CONSUME;
)" + read_and_free +
         R"(AGAIN:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 1;
@!%p7 bra AGAIN;
ld.shared.u32 %r1, [tile];
END:
)";
}

const std::string kReadStage = "ld.shared.u32 %r5, [%own+-128];\n";
const std::string kUseRead = "add.u32 %r6, %r5, 1;\n";
const std::string kFreeStage = "mbarrier.arrive.shared.b64 _, [bar+8];\n";

TEST_F(ProxyTest, AsksForNoFenceBetweenReadsThatWereUsedAndTheNextCopy) {
  // A stage is refilled after its consumers have arrived: the order is enough. So it is for a load that ptxas leaves
  // out, and for others that something has waited for.
  for (uint64_t seed_of_run = 0; seed_of_run < 4; ++seed_of_run) {
    expect_silence(run(refill(kReadStage + kUseRead + kFreeStage), {}, seed_of_run));
  }
  expect_silence(run(refill(kReadStage + kFreeStage)));
  expect_silence(run(refill(kReadStage + "mov.u32 %r7, %r5;\nadd.u32 %r6, %r7, 1;\n" + kFreeStage + kUseRead)));
  expect_silence(run(refill(kReadStage + "bar.sync 1, 32;\n" + kFreeStage + kUseRead)));
  expect_silence(run(refill(kReadStage + "fence.acq_rel.cta;\n" + kFreeStage + kUseRead)));
  expect_silence(run(refill(kReadStage + "setp.eq.u32 %p2, %lane, 0;\n@%p2 bra SKIP;\n" + kUseRead + "SKIP:\n" +
                            kFreeStage + kUseRead)));
}

TEST_F(ProxyTest, FindsAnArrivalThatCanOvertakeALoad) {
  const auto expect_overtaken = [&](const std::string& read_and_free) {
    const std::string body = refill(read_and_free);
    expect_one(run(body), "missing proxy fence",
               {"overwrites tile+0x", "may not have read yet", "reads it at " + line_of(body, "[%own+-128]"),
                "arrives at " + line_of(body, "[bar+8];\nadd"), "fence.proxy.async between its load and the arrival",
                "is no remedy"});
  };
  const std::string use_later = "add.u32 %r6, %r7, %r5;\n";
  expect_overtaken(kReadStage + kFreeStage + kUseRead);
  // Neither a copy of the register nor a meeting of the warp waits for the load.
  expect_overtaken(kReadStage + "mov.u32 %r7, %r5;\n" + kFreeStage + use_later);
  expect_overtaken(kReadStage + "bar.warp.sync 0xffffffff;\n" + kFreeStage + use_later);
  // Matrices are loaded as words are. Here the rows are one lane's, and the stage has eight.
  expect_overtaken(
      "and.b32 %r4, %lane, 7;\nshl.b32 %r4, %r4, 4;\nmov.u32 %r3, tile;\nadd.u32 %r4, %r4, %r3;\n"
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4]; // [%own+-128]\n" +
      kFreeStage + kUseRead);
  // A fence helps where it is executed after the load, by the reader or by who knows of the arrival.
  expect_silence(run(refill(kReadStage + "fence.proxy.async;\n" + kFreeStage + kUseRead)));
  expect_silence(run(refill(kReadStage + kFreeStage + kUseRead, "fence.proxy.async;\n")));
  expect_overtaken("fence.proxy.async;\n" + kReadStage + kFreeStage + kUseRead);
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
