// The operands of the tensor core in shared memory: which threads or copies write them, and in which layout.
#include "emulator/engines/copies/tensor_map.hpp"
#include "fixtures/tensor_core_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class OperandTest : public TensorCoreTest {
 protected:
  /// Each thread writes a word of A; thread 0 multiplies.
  static std::string multiply_written() {
    return start(
               1, 1,
               "mov.u32 %r3, a; mad.lo.u32 %r3, %thread, 4, %r3; st.shared.u32 [%r3], %thread;\nfence.proxy.async;\n") +
           "@!%first bra WAIT;\n" + descriptors() + multiply() + commit(0) + wait(0, 0, "WAIT") + kFree;
  }
  /// All threads write B, which `b` describes and which begins `offset` bytes after `b`; thread 0 multiplies.
  static std::string multiply_written_b(uint64_t b, uint32_t offset) {
    return start(1, 1,
                 fmt::format("mov.u32 %r3, b; mad.lo.u32 %r3, %thread, 16, %r3; st.shared.v4.u32 [%r3+{}], {{%thread, "
                             "%thread, %thread, %thread}};\nfence.proxy.async;\n",
                             offset)) +
           "@!%first bra WAIT;\n" + descriptors(kPlainA, b, offset) + multiply() + commit(0) + wait(0, 0, "WAIT") +
           kFree;
  }
  /// A copy brings A; thread 0 multiplies it, and `after` it refills A. Then all wait for the last copy.
  static std::string multiply_copied(const std::string& after) {
    return start(1, 1) + "@!%first bra WAIT;\n" + kCopy + wait(0, 0, "FULL") + descriptors() + multiply() + commit(1) +
           after + "WAIT:\n" + wait(1, 0, "LAST") + wait(0, 1, "REFILLED") + kFree;
  }
  static inline const std::string kCopy =
      "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4096;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [%out], 4096, [bar];\n";

  /// A tensor copy brings B, 8 rows of 128, 64 or 32 bytes; it is multiplied by what `b` describes.
  std::string multiply_tensor(uint64_t b, uint32_t row_bytes, uint32_t offset = 0) {
    return start(1, 1) + "@!%first bra WAIT;\n" +
           fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n", 8 * row_bytes) +
           fmt::format(
               "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [b+{}], [%out, "
               "{{0, 0}}], [bar];\n",
               offset) +
           wait(0, 0, "FULL") + descriptors(kPlainA, b, offset) + multiply() + commit(1) + wait(1, 0, "WAIT") + kFree;
  }
  /// Puts a map of rows of 16-bit elements, swizzled as the driver's `swizzle` says, where %out points.
  void use_map(int swizzle, uint32_t row_bytes) {
    prepare = [swizzle, row_bytes](uint64_t out) {
      alignas(64) machine::TensorMap map;
      const uint64_t dims[2] = {row_bytes / 2, 8}, strides[1] = {128};
      const uint32_t box[2] = {row_bytes / 2, 8}, steps[2] = {1, 1};
      const auto result = machine::encode_tiled({&map, 1, 2, out + 1024, dims, strides, box, steps, 0, swizzle, 0, 0});
      ASSERT_EQ(result.code, 0) << result.message;
      std::memcpy(machine::DeviceMemory::host(out), &map, sizeof map);
    };
  }
};

TEST_F(OperandTest, NeedAFenceWhenThreadsWriteThem) {
  const std::string body = multiply_written();
  expect_silence(run(body, kTwoWarps));
  const std::string wrong = without(body, "fence.proxy.async;\n");
  expect_one(run(wrong, kTwoWarps), "missing proxy fence",
             {"the tcgen05.mma issued here reads a+0x0", line_of(wrong, "tcgen05.mma"), line_of(wrong, "st.shared.u32"),
              "fence.proxy.async is missing"});
}

TEST_F(OperandTest, NeedAFenceAlsoForCopiesToTensorMemory) {
  const std::string copy = "tcgen05.cp.cta_group::1.128x256b [%r15], %rd1;\n";
  const std::string body = with(multiply_written(), multiply(), copy);
  expect_silence(run(body, kTwoWarps));
  const std::string wrong = without(body, "fence.proxy.async;\n");
  expect_one(
      run(wrong, kTwoWarps), "missing proxy fence",
      {"the tcgen05.cp issued here reads a+0x0", line_of(wrong, "tcgen05.cp."), line_of(wrong, "st.shared.u32")});
}

TEST_F(OperandTest, NeedNoFenceForTheBarrierThatTheCommitArrivesOn) {
  // tcgen05.commit accesses it in the generic proxy.
  const std::string body = without(multiply_written(), "@%first fence.mbarrier_init.release.cluster;\n");
  expect_silence(run(with(body, "st.shared.u32 [%r3], %thread;\nfence.proxy.async;\n", "\n"), kTwoWarps));
}

TEST_F(OperandTest, MustNotBeRefilledBeforeTheCommitIsObserved) {
  const std::string right = multiply_copied(wait(1, 0, "FREE") + kCopy);
  expect_silence(run(right, kTwoWarps));
  const std::string wrong = multiply_copied(kCopy);
  expect_one(run(wrong, kTwoWarps), "race",
             {"the cp.async.bulk issued here writes a+0x0", "tcgen05.mma issued by", line_of(wrong, "tcgen05.mma"),
              "reads it", "the tensor core may still read its operands", "tcgen05.commit after the tcgen05.mma"});
}

TEST_F(OperandTest, MustNotBeOverwrittenBeforeTheCommitIsObserved) {
  const std::string store = "st.shared.u32 [a+64], %thread;\n" + std::string("fence.proxy.async;\n") + kCopy;
  expect_silence(run(multiply_copied(wait(1, 0, "FREE") + store), kTwoWarps));
  const std::string wrong = multiply_copied(store + "");
  const auto result = run(wrong, kTwoWarps);
  const std::string text = text_of(result);
  EXPECT_NE(text.find("race: writes a+0x40"), std::string::npos) << text;
  EXPECT_NE(text.find(line_of(wrong, "tcgen05.mma")), std::string::npos) << text;
  EXPECT_NE(text.find("the tensor core may still read its operands"), std::string::npos) << text;
}

TEST_F(OperandTest, AreNotFreedByAnArrivalOfTheThreadThatMultiplies) {
  // In place of the commit the thread arrives itself, which says nothing about the tensor core.
  const std::string refill = wait(1, 0, "FREE") + kCopy;
  const std::string wrong =
      with(multiply_copied(refill), commit(1), "mbarrier.arrive.shared.b64 _, [bar+8];\n") + "nanosleep.u32 10000;\n";
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("the tensor core may still read its operands"), std::string::npos) << text;
  EXPECT_NE(text.find("by which a thread says that its tcgen05.mma has been issued, and not that it is over"),
            std::string::npos)
      << text;
}

TEST_F(OperandTest, MustNotBeReadByAThreadThatWaitsForNoCopy) {
  // Thread 32 copies, late; thread 0 has A multiplied at once.
  const std::string copy =
      "setp.eq.u32 %p3, %thread, 32;\n@%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4096;\n"
      "@%p3 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [a], [%out], 4096, [bar];\n";
  const std::string body = start(1, 1) + "@%first bra MULTIPLY;\nsetp.lt.u32 %p3, %thread, 32;\n@%p3 bra WAIT;\n" +
                           "nanosleep.u32 10000;\n" + copy + "bra WAIT;\nMULTIPLY:\n" + descriptors() + multiply() +
                           commit(1) + "WAIT:\n" + wait(1, 0, "LAST") + wait(0, 0, "FILLED") + kFree;
  const std::string text = text_of(run(body, kTwoWarps));
  EXPECT_NE(text.find("the tcgen05.mma at " + line_of(body, "tcgen05.mma") +
                      " was issued before this copy, and block (0,0,0) warp 0 [lane 0] has never waited for bar[0]"),
            std::string::npos)
      << text;
}

TEST_F(OperandTest, MustBeWaitedForOnTheBarrierOfTheirCopyAndNotOnAnother) {
  // Warp 1 arrives on barrier 1, for which the thread waits that copies and multiplies; it says nothing about the copy.
  const auto multiply_after = [](const std::string& before_arrival, const std::string& before_multiplication) {
    return start(1, 2) + "setp.ne.u32 %p3, %thread, 32;\n@%first bra COPY;\n@%p3 bra WAIT;\n" + before_arrival +
           "mbarrier.arrive.shared.b64 _, [bar+8];\nbra WAIT;\nCOPY:\n" + kCopy +
           "mbarrier.arrive.shared.b64 _, [bar+8];\n" + wait(1, 0, "READY") + before_multiplication + descriptors() +
           multiply() + commit(0) + "WAIT:\n" + wait(0, 1, "LAST") + kFree;
  };
  const std::string own = wait(0, 0, "FULL");
  expect_silence(run(multiply_after("", own), kTwoWarps));
  expect_silence(run(multiply_after(own, ""), kTwoWarps));
  const std::string wrong = multiply_after("", "");
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("no thread has waited for bar[0] yet, which says that it has come"), std::string::npos) << text;
  EXPECT_NE(text.find(line_of(wrong, "tcgen05.mma")), std::string::npos) << text;
}

TEST_F(OperandTest, AreNotFreedByACommitThatComesBeforeTheLastMultiplication) {
  const auto two_multiplications = [](const std::string& early_commit) {
    return start(1, 1) + "@!%first bra WAIT;\n" + kCopy + wait(0, 0, "FULL") + descriptors() +
           with(multiply(), "0;", "0; // first\n") + early_commit + multiply(true) + commit(1) + wait(1, 0, "FREE") +
           kCopy + "WAIT:\n" + wait(0, 1, "REFILLED") + kFree;
  };
  expect_silence(run(two_multiplications(""), kTwoWarps));
  const std::string early = with(commit(1), "[%r2];", "[%r2]; // early\n");
  const std::string wrong = two_multiplications(early);
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("for bar[1] was ended by the tcgen05.commit at " + line_of(wrong, "// early")), std::string::npos)
      << text;
  EXPECT_NE(text.find("commit once, after the last tcgen05.mma that reads the slot"), std::string::npos) << text;
}

TEST_F(OperandTest, MustBeReadWithTheSwizzleOfTheirCopy) {
  struct Mode {
    int driver;  // CUtensorMapSwizzle
    uint32_t code, bytes;
  };
  const Mode modes[] = {{3, 2, 128}, {2, 4, 64}, {1, 6, 32}};
  for (const Mode& written : modes) {
    use_map(written.driver, written.bytes);
    for (const Mode& read : modes) {
      const auto result = run(multiply_tensor(swizzled_operand(read.code), written.bytes), kTwoWarps);
      if (read.code == written.code) {
        expect_silence(result);
        continue;
      }
      expect_one(result, "swizzle mismatch",
                 {"the tcgen05.mma issued here reads B at b+0x",
                  fmt::format("with the {}-byte swizzle, as its descriptor says", read.bytes),
                  fmt::format("written with the {}-byte swizzle", written.bytes), "cp.async.bulk.tensor issued by",
                  "f.cu:15", "bits 63:61"});
    }
  }
  use_map(0, 32);
  expect_one(run(multiply_tensor(swizzled_operand(2), 32), kTwoWarps), "swizzle mismatch", {"written with no swizzle"});
  expect_silence(run(multiply_tensor(kPlainB, 32), kTwoWarps));
}

TEST_F(OperandTest, MustBeginWhereTheirSwizzleDoesWhenThreadsWriteThem) {
  expect_silence(run(multiply_written_b(swizzled_operand(2), 1024), kTwoWarps));
  const auto misaligned = run(multiply_written_b(swizzled_operand(2), 384), kTwoWarps);
  expect_one(misaligned, "misaligned tile",
             {"reads B from b+0x180", "every 1024 bytes", "begins 384 bytes after such a point", "alignas(1024)"});
  EXPECT_NE(misaligned.diagnostics.at(0).tolerated, "");  // threads may have taken the pattern from the address
  expect_silence(run(multiply_written_b(swizzled_operand(4), 512), kTwoWarps));
  expect_one(run(multiply_written_b(swizzled_operand(4), 128), kTwoWarps), "misaligned tile", {"every 512 bytes"});
  expect_silence(run(multiply_written_b(swizzled_operand(6), 256), kTwoWarps));
  expect_one(run(multiply_written_b(swizzled_operand(6), 128), kTwoWarps), "misaligned tile", {"every 256 bytes"});
}

TEST_F(OperandTest, MustBeDeclaredWithTheAlignmentThatTheirCopyNeeds) {
  const std::string body = start(1, 1) + "@!%first bra WAIT;\n" + kCopy + wait(0, 0, "WAIT") + kFree;
  expect_silence(run(body, kTwoWarps));
  variables = with(variables, ".align 1024 .b8 a", ".align 8 .b8 a");  // it is at the same address
  const auto by_luck = run(body, kTwoWarps);
  expect_one(by_luck, "misaligned address",
             {"cp.async.bulk writes a+0x0, which must be at a multiple of 16, and the variable is declared for "
              "multiples of 8",
              "only because of the variables beside it", "declare a with alignas(16)", line_of(body, "cp.async.bulk")});
  // An address that is rounded up is right wherever the variable is.
  const std::string rounded = "mov.u32 %r3, a; add.u32 %r3, %r3, 15; and.b32 %r3, %r3, -16;\n";
  expect_silence(run(with(with(body, kCopy, rounded + kCopy), "[a], [%out]", "[%r3], [%out]"), kTwoWarps));
  const std::string offset = "mov.u32 %r3, a; and.b32 %r4, %thread, 3; mad.lo.u32 %r3, %r4, 16, %r3;\n";
  expect_one(run(with(with(body, kCopy, offset + kCopy), "[a], [%out]", "[%r3], [%out]"), kTwoWarps),
             "misaligned address", {"declare a with alignas(16)"});
}

TEST_F(OperandTest, AskForTheSlotWhereAWriterWaitsForAnother) {
  const std::string body = start(1, 1) + "@!%first bra WAIT;\n" + wait(0, 1, "ONE") + wait(1, 1, "OTHER") +
                           descriptors() + multiply() + commit(0) + "st.shared.u32 [a], %thread;\n" +
                           wait(0, 0, "WAIT") + kFree;
  expect_one(run(body, kTwoWarps), "race",
             {"the last wait before the write, at " + line_of(body, "OTHER:") +
                  ", was for bar[1], and the tcgen05.mma has ended when phase 0 of bar[0] has",
              "does the write name another slot than the one that was waited for?"});
  // A wait for another ring may come between.
  variables += ".shared .align 8 .b64 full[1];\n";
  const std::string other = with(wait(0, 1, "FULL"), "[bar+0]", "[full]");
  const std::string between =
      with(with(body, "@!%first bra WAIT;", "@%first mbarrier.init.shared.b64 [full], 1;\n@!%first bra WAIT;"),
           "st.shared.u32 [a], %thread", other + "st.shared.u32 [a], %thread");
  expect_one(run(between, kTwoWarps), "race",
             {"the last wait for bar before the write, at " + line_of(between, "OTHER:") +
              ", was for bar[1], and the tcgen05.mma has ended when phase 0 of bar[0] has"});
}

TEST_F(OperandTest, MayTakeThePlaceOfTheAllocatedAddress) {
  // PTX calls the store of tcgen05.alloc a weak one, so a copy that comes later needs a fence as after any store of a
  // thread. Triton's kernels have none.
  variables = with(variables, ".align 4 .b32 address;", ".align 128 .b32 address[32];");
  const std::string copy =
      "bar.sync 0;\n@!%first bra WAIT;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [address], [%out], 16, [bar];\nWAIT:\n" +
      wait(0, 0, "FULL") + kFree;
  const auto result = run(start(1, 1) + copy, kTwoWarps);
  expect_one(result, "missing proxy fence", {"overwrites address", "f.cu:7", "f.cu:16", "the store of tcgen05.alloc"});
  EXPECT_NE(result.diagnostics.at(0).tolerated.find("Triton"), std::string::npos);
  expect_silence(run(start(1, 1) + "fence.proxy.async;\n" + copy, kTwoWarps));
  // The store of a thread counts.
  const auto stored = run(start(1, 1) + "@%first st.shared.u32 [address], %r15;\n" + copy, kTwoWarps);
  ASSERT_GE(stored.diagnostics.size(), 1u);
  EXPECT_EQ(stored.diagnostics.back().kind, "missing proxy fence") << text_of(stored);
  EXPECT_EQ(stored.diagnostics.back().tolerated, "");
}

TEST_F(OperandTest, MayBeginAnywhereInTheSwizzleOfTheirCopy) {
  // The copy takes the pattern from the address, as the tensor core does.
  use_map(3, 128);
  expect_silence(run(multiply_tensor(swizzled_operand(2), 128, 384), kTwoWarps));
  use_map(2, 64);
  expect_silence(run(multiply_tensor(swizzled_operand(4), 64, 128), kTwoWarps));
  use_map(1, 32);
  expect_silence(run(multiply_tensor(swizzled_operand(6), 32, 128), kTwoWarps));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
