// A block whose threads have the tensor core multiply, under the race check.
#pragma once

#include "../units/tensor_fixture.hpp"
#include "race_fixture.hpp"

namespace stagecraft::emulator::checks {

/// Adds to `tile` and `bar`: `a` and `b` for operands, 16 KiB each, and `address` for tensor memory's.
class TensorCoreTest : public RaceTest {
 protected:
  TensorCoreTest() {
    variables =
        ".shared .align 1024 .b8 a[16384];\n.shared .align 1024 .b8 b[16384];\n.shared .align 128 .b8 tile[4096];\n"
        ".shared .align 8 .b64 bar[8];\n.shared .align 4 .b32 address;\n";
  }

  /// Without a swizzle: 128 rows of A and 8 columns of B, 32 bytes each, as two planes of 16 bytes.
  static constexpr uint64_t kPlainA = uint64_t{2048 >> 4} << 16 | uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
  static constexpr uint64_t kPlainB = uint64_t{128 >> 4} << 16 | uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
  /// K-major rows of 128 bytes, or 64, 32.
  static uint64_t swizzled_operand(uint32_t code) {
    return units::testing::shared_descriptor(0, 16, 8 * units::testing::span(code), code);
  }

  /// One line that leaves the descriptors in %rd1, %rd2 and the instruction's in %r14.
  static std::string descriptors(uint64_t a = kPlainA, uint64_t b = kPlainB, uint32_t b_offset = 0) {
    const units::testing::Instruction instruction{.m = 128, .n = 8, .a_code = 1, .b_code = 1};
    return fmt::format(
        "mov.u32 %r1, a; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1; or.b64 %rd1, %rd1, {}; mov.u32 %r1, b; "
        "add.u32 %r1, %r1, {}; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd2, %r1; or.b64 %rd2, %rd2, {}; mov.u32 %r14, {};\n",
        a, b_offset, b, instruction.bits());
  }
  /// D = A * B, or D += A * B; D is where %r15 says.
  static std::string multiply(bool add = false) {
    return fmt::format("tcgen05.mma.cta_group::1.kind::f16 [%r15], %rd1, %rd2, %r14, {};\n", add ? 1 : 0);
  }
  static std::string commit(uint32_t barrier) {
    return fmt::format(
        "mov.u32 %r2, bar; add.u32 %r2, %r2, {}; "
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n",
        8 * barrier);
  }
  static std::string wait(uint32_t barrier, uint32_t parity, const std::string& name) {
    return fmt::format("{0}: mbarrier.try_wait.parity.shared.b64 %p7, [bar+{1}], {2}; @!%p7 bra {0};\n", name,
                       8 * barrier, parity);
  }
  /// Barriers 0 and 1 with these counts, 32 columns of tensor memory by warp 0, and their address in %r15.
  static std::string start(uint32_t count_0, uint32_t count_1, const std::string& before_the_barrier = {}) {
    return fmt::format(R"(@%first mbarrier.init.shared.b64 [bar], {};
@%first mbarrier.init.shared.b64 [bar+8], {};
@%first fence.mbarrier_init.release.cluster;
setp.ne.u32 %p0, %warp, 0;
@%p0 bra ALLOCATED;
mov.u32 %r0, address;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
ALLOCATED:
{}tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.u32 %r15, [address];
)",
                       count_0, count_1, before_the_barrier);
  }
  static inline const std::string kFree =
      "bar.sync 0;\n@%p0 bra END;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r15, 32;\nEND:\n";
  static constexpr Shape kTwoWarps{.threads = 64};
};

}  // namespace stagecraft::emulator::checks
