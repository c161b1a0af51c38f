// Tests tensor maps in global memory that a kernel changes and uses: fences between the two, and copies under way.
#include "emulator/engines/copies/tensor_map.hpp"

#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

/// Two maps of 8 rows of 256 bytes are at %out and 128 bytes behind.
class ChangedTensorMapTest : public RaceTest {
 protected:
  ChangedTensorMapTest() {
    prepare = [](uint64_t out) {
      alignas(64) machine::TensorMap map;
      const uint64_t dims[2] = {64, 8}, strides[1] = {256};
      const uint32_t box[2] = {64, 8}, steps[2] = {1, 1};
      const auto result = machine::encode_tiled({&map, 1, 2, out + 1024, dims, strides, box, steps, 0, 0, 0, 0});
      ASSERT_EQ(result.code, 0) << result.message;
      for (const uint64_t at : {out, out + 128}) std::memcpy(machine::DeviceMemory::host(at), &map, sizeof map);
    };
  }

  static std::string change() { return "@%first tensormap.replace.tile.global_dim.global.b1024.b32 [%out], 1, 8;\n"; }
  static std::string load(uint32_t barrier) {
    return fmt::format(
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar+{0}], 1024;\n"
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile+{1}], [%out, {{0, 0}}], "
        "[bar+{0}];\n",
        8 * barrier, 1024 * barrier);
  }
  static std::string wait(uint32_t barrier, const std::string& name) {
    return fmt::format("{0}: mbarrier.try_wait.parity.shared.b64 %p7, [bar+{1}], 0; @!%p7 bra {0};\n", name,
                       8 * barrier);
  }
  static inline const std::string kInit =
      "@%first mbarrier.init.shared.b64 [bar], 1; @%first mbarrier.init.shared.b64 [bar+8], 1;\nbar.sync 0;\n";
  static inline const std::string kRelease = "@%first fence.proxy.tensormap::generic.release.gpu;\n";
  static inline const std::string kAcquire = "fence.proxy.tensormap::generic.acquire.gpu [%out], 128;\n";
  /// Thread 0 changes the first map; a thread of the other warp uses it.
  static inline const std::string kUse = kInit + change() + kRelease + "bar.sync 0; // changed\n" +
                                         "setp.ne.u32 %p1, %thread, 32;\n@%p1 bra WAIT;\n" + kAcquire + load(0) +
                                         wait(0, "WAIT");
};

TEST_F(ChangedTensorMapTest, NeedAnAcquireInTheBlockThatUsesWhatTheKernelHasChanged) {
  expect_silence(run(kUse));
  expect_silence(run(without(without(kUse, change() + kRelease), kAcquire)));  // as the host has made it
  const std::string none = without(kUse, kAcquire);
  expect_one(run(none), "missing proxy fence",
             {"uses the tensor map at", "+0x0, which this kernel has changed",
              "no fence.proxy.tensormap::generic.acquire of it in between", line_of(none, "cp.async.bulk.tensor"),
              "block (0,0,0) warp 0 [lane 0] changes it at " + line_of(none, "tensormap.replace")});
  const std::string other = with(kUse, "acquire.gpu [%out]", "acquire.gpu [%out+128]");
  expect_one(
      run(other), "missing proxy fence",
      {"warp 1 [lane 0] acquires the 128 bytes at", "+0x80 at " + line_of(other, "acquire.gpu"), "+0x0 as well"});
}

TEST_F(ChangedTensorMapTest, MayBeAcquiredByAnotherThreadOfTheBlock) {
  const std::string by_other =
      with(without(kUse, kAcquire), "// changed\n", "// changed\n@%first " + kAcquire + "bar.sync 0;\n");
  expect_silence(run(by_other));
  expect_one(run(with(by_other, "128;\nbar.sync 0;\n", "128;\n")), "missing proxy fence", {"put a barrier between"});
}

TEST_F(ChangedTensorMapTest, MustBeAcquiredAfterTheChange) {
  const std::string early =
      with(without(kUse, kAcquire), "bar.sync 0; // changed\n",
           "setp.ge.u32 %p2, %thread, 32;\n@%p2 nanosleep.u32 1000;\n@%p2 " + kAcquire + "bar.sync 0;\n");
  expect_one(run(early), "missing proxy fence", {"acquires this map", "nothing orders that after the change"});
}

TEST_F(ChangedTensorMapTest, NeedARelease) {
  expect_one(run(without(kUse, kRelease)), "missing proxy fence",
             {"no fence.proxy.tensormap::generic.release after the change", "tensormap.cp_fenceproxy releases"});
}

TEST_F(ChangedTensorMapTest, MayBeChangedWhenCopiesHaveEnded) {
  const std::string alone = kInit + "@!%first bra END;\n" + load(0) + "// between\n" + change() + kRelease + kAcquire +
                            load(1) + wait(0, "ONE") + wait(1, "TWO") + "END:\n";
  const auto with_wait = [&](const std::string& what) { return with(alone, "// between\n", what); };
  expect_silence(run(with_wait(wait(0, "EARLY"))));
  // As CUTLASS's grouped kernels wait.
  expect_silence(run(with_wait("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n")));
  const std::string wrong = with_wait("");
  const machine::LaunchResult result = run(wrong);
  expect_one(result, "race",
             {"race: changes the tensor map at", "which a cp.async.bulk.tensor may still read",
              line_of(wrong, "tensormap.replace"), "nothing tells this thread that the copy has ended",
              "wait for the copy at its mbarrier"});
  EXPECT_EQ(result.diagnostics.at(0).tolerated, "");
  expect_one(run(with_wait("cp.async.bulk.wait_group.read 0;\n")), "race", {"may still read"});
}

TEST_F(ChangedTensorMapTest, MayBeChangedByAnotherWarpThatHasWaited) {
  const std::string two = kInit + "setp.eq.u32 %p1, %thread, 32;\n@!%p1 bra MET;\n" + load(0) + "MET:\nbar.sync 0;\n" +
                          change() + wait(0, "LAST");
  const machine::LaunchResult issued = run(two);
  expect_one(issued, "race", {"may still read"});
  EXPECT_NE(issued.diagnostics.at(0).tolerated, "");  // it knows that the copy was issued
  expect_silence(run(with(two, "MET:\nbar.sync 0;\n", "MET:\nbar.sync 0;\n" + wait(0, "FIRST"))));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
