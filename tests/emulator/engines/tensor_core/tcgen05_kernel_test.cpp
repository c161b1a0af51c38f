// tcgen05 in kernels: the tests run PTX, and check results or reports.
#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"
#include "fixtures/tensor_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

using machine::Cycle;
using machine::FaultKind;
using machine::Kernel;
using machine::LaunchResult;

constexpr uint32_t kRows = 128, kColumns = 64, kDepth = 64;  // of the tile that the kernels multiply

// One block: copies A and B in, multiplies them in four steps along K, and stores D by four warps. `after_issue` is
// executed by the issuing thread right after the last mma.
std::string tile_kernel(const std::string& after_issue = {},
                        const std::string& commit = "shared::cluster.b64 [%mbar]") {
  std::string text = R"(
.visible .entry k(.param .u64 k_a, .param .u64 k_b, .param .u64 k_out) {
  .reg .b32 %r<20>, %f<64>, %thread, %warp, %d, %mbar, %full, %idesc, %smem_a, %smem_b;
  .reg .b64 %a, %b, %out, %rd<20>, %da, %db;
  .reg .pred %first, %p<8>;
  .shared .align 1024 .b8 tile_a[16384];
  .shared .align 1024 .b8 tile_b[8192];
  .shared .align 8 .b64 full;
  .shared .align 8 .b64 done;
  .shared .align 4 .b32 address;
  ld.param.u64 %a, [k_a]; ld.param.u64 %b, [k_b]; ld.param.u64 %out, [k_out];
  mov.u32 %thread, %tid.x;
  shr.u32 %warp, %thread, 5;
  mov.u32 %full, full; mov.u32 %mbar, done; mov.u32 %smem_a, tile_a; mov.u32 %smem_b, tile_b;
  setp.eq.u32 %first, %thread, 0;
  setp.ne.u32 %p0, %warp, 0;
  @%p0 bra allocated;
  mov.u32 %r0, address;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 64;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
allocated:
  @!%first bra ready;
  mbarrier.init.shared::cta.b64 [%full], 1;
  mbarrier.init.shared::cta.b64 [%mbar], 1;
  fence.mbarrier_init.release.cluster;
ready:
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %d, [address];
  @!%first bra wait_done;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 24576;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem_a], [%a], 16384, [%full];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem_b], [%b], 8192, [%full];
wait_full:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%full], 0;
  @!%p1 bra wait_full;
  shr.u32 %r1, %smem_a, 4; cvt.u64.u32 %da, %r1; or.b64 %da, %da, )";
  text += fmt::format("{};\n", shared_descriptor(0, 16, 1024, 2));
  text += fmt::format("  shr.u32 %r1, %smem_b, 4; cvt.u64.u32 %db, %r1; or.b64 %db, %db, {};\n",
                      shared_descriptor(0, 16, 1024, 2));
  text +=
      fmt::format("  mov.u32 %idesc, {};\n", Instruction{.m = kRows, .n = kColumns, .a_code = 1, .b_code = 1}.bits());
  for (int step = 0; step < 4; ++step) {
    text += fmt::format(R"(
  setp.ne.u32 %p2, {}, 0;
  tcgen05.mma.cta_group::1.kind::f16 [%d], %da, %db, %idesc, %p2;
  add.u64 %da, %da, 2; add.u64 %db, %db, 2;)",
                        step);
  }
  text += after_issue + "\n  tcgen05.commit.cta_group::1.mbarrier::arrive::one." + commit + ";\n";
  text += R"(
wait_done:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%mbar], 0;
  @!%p1 bra wait_done;
  tcgen05.fence::after_thread_sync;
  shl.b32 %r2, %warp, 21;
  add.u32 %r2, %r2, %d;
)";
  std::string registers;
  for (uint32_t column = 0; column < kColumns; ++column) registers += fmt::format("{}%f{}", column ? ", " : "", column);
  text += "  tcgen05.ld.sync.aligned.32x32b.x64.b32 {" + registers + "}, [%r2];\n";
  text += "  tcgen05.wait::ld.sync.aligned;\n  mul.wide.u32 %rd0, %thread, 256; add.u64 %rd0, %rd0, %out;\n";
  for (uint32_t column = 0; column < kColumns; ++column) {
    text += fmt::format("  st.global.b32 [%rd0+{}], %f{};\n", 4 * column, column);
  }
  text += R"(
  bar.sync 0;
  @%p0 bra end;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;
end:
  ret;
}
)";
  return text;
}

class Tcgen05KernelTest : public machine::KernelTest {
 protected:
  // Stores codes as in shared memory with a swizzle of 128 bytes, 64 elements in a row.
  uint64_t put(const Matrix& matrix) {
    std::vector<uint16_t> image(size_t{matrix.rows} * kDepth);
    for (uint32_t row = 0; row < matrix.rows; ++row) {
      for (uint32_t k = 0; k < kDepth; ++k) {
        image[place(2, row * 128 + k * 2) / 2] = static_cast<uint16_t>(matrix.code(row, k));
      }
    }
    const uint64_t address = allocate<uint16_t>(image.size());
    std::memcpy(machine::DeviceMemory::host(address), image.data(), image.size() * sizeof(uint16_t));
    return address;
  }

  std::mt19937 random{13};
  Matrix a{ElementFormat::bf16, kRows, kDepth, random};
  Matrix b{ElementFormat::bf16, kColumns, kDepth, random};
  uint64_t out = allocate<float>(kRows * kColumns, NAN);

  LaunchResult run(const std::string& text) {
    return launch(compile(text), {1, 1, 1}, {kRows, 1, 1}, put(a), put(b), out);
  }
  // Expects that `out` is A * B.
  void expect_product() {
    const std::vector<float> found = read<float>(out, kRows * kColumns);
    uint32_t wrong = 0;
    for (uint32_t m = 0; m < kRows; ++m) {
      for (uint32_t n = 0; n < kColumns; ++n) {
        double sum = 0, magnitude = 0;
        for (uint32_t k = 0; k < kDepth; ++k) {
          sum += a.value(m, k) * b.value(n, k);
          magnitude += std::abs(a.value(m, k) * b.value(n, k));
        }
        const bool good = std::abs(found[m * kColumns + n] - sum) <= magnitude * kDepth * 0x1p-24;
        if (!good && ++wrong < 5) ADD_FAILURE() << m << ", " << n << ": " << found[m * kColumns + n] << ", not " << sum;
      }
    }
    EXPECT_EQ(wrong, 0u);
  }
};

std::string all_of(const LaunchResult& result) {
  std::string text;
  for (const machine::Diagnostic& diagnostic : result.diagnostics) {
    text += diagnostic.kind + ": " + diagnostic.message + "\n";
    for (const std::string& line : diagnostic.details) text += "  " + line + "\n";
  }
  return text;
}

#define EXPECT_REPORT(result, part) EXPECT_NE(all_of(result).find(part), std::string::npos) << all_of(result)

TEST_F(Tcgen05KernelTest, MultipliesATile) {
  const LaunchResult result = run(tile_kernel());
  EXPECT_FALSE(result.fault) << all_of(result);
  expect_product();
}

TEST_F(Tcgen05KernelTest, TakesTheZeroColumnMaskThatMasksNothing) {
  const auto kernel = [](const std::string& mask) {
    std::string text = tile_kernel();
    const std::string dense = "mma.cta_group::1.kind::f16 [%d], %da, %db, %idesc, %p2;";
    for (size_t at = 0; (at = text.find(dense, at)) != std::string::npos;) {
      text.replace(at, dense.size(), "mma.ws.cta_group::1.kind::f16 [%d], %da, %db, %idesc, %p2, " + mask + ";");
    }
    return text;
  };
  const LaunchResult result = run(kernel("0"));
  EXPECT_FALSE(result.fault) << all_of(result);
  expect_product();
  // The spans have no effect without the bit that enables the mask.
  EXPECT_FALSE(run(kernel("0x3040000000001")).fault);
  const LaunchResult masked = run(kernel("0x3048000000001"));
  EXPECT_EQ(masked.fault, FaultKind::illegal_instruction);
  EXPECT_REPORT(masked, "the zero-column mask descriptor is 0x3048000000001");
}

TEST_F(Tcgen05KernelTest, CommitsToAGenericAddressAndToSeveralBlocks) {
  const LaunchResult generic =
      run(tile_kernel("\n  cvt.u64.u32 %rd1, %mbar; cvta.shared.u64 %rd1, %rd1;", "b64 [%rd1]"));
  EXPECT_FALSE(generic.fault) << all_of(generic);
  expect_product();
  const LaunchResult multicast = run(
      tile_kernel("\n  .reg .b16 %mask; mov.u16 %mask, 1;", "shared::cluster.multicast::cluster.b64 [%mbar], %mask"));
  EXPECT_FALSE(multicast.fault) << all_of(multicast);
  expect_product();
  const LaunchResult nobody = run(
      tile_kernel("\n  .reg .b16 %mask; mov.u16 %mask, 2;", "shared::cluster.multicast::cluster.b64 [%mbar], %mask"));
  EXPECT_EQ(nobody.fault, FaultKind::illegal_address);
  EXPECT_REPORT(nobody, "tcgen05.commit: 0x1");
}

TEST_F(Tcgen05KernelTest, ReadsSharedMemoryWhenTheMultiplicationIsExecuted) {
  // The first 16 rows of A are overwritten before the commit, which is too early: the result must be wrong.
  std::string overwrite = "\n  mov.u32 %r3, 0;";
  for (int i = 0; i < 16 * 128; i += 16) {
    overwrite += fmt::format("\n  st.shared.v4.b32 [%smem_a+{}], {{%r3, %r3, %r3, %r3}};", i);
  }
  const LaunchResult result = run(tile_kernel(overwrite));
  EXPECT_FALSE(result.fault) << all_of(result);
  const std::vector<float> found = read<float>(out, kRows * kColumns);
  EXPECT_EQ(found[15 * kColumns + 3], 0.0f);
  EXPECT_NE(found[16 * kColumns + 3], 0.0f);
}

// The tile kernel without the wait for the commit, and without anything between that and the deallocation.
std::string impatient_kernel(const std::string& at_the_end) {
  std::string text = tile_kernel();
  const std::string wait = "wait_done:\n", end = "  bar.sync 0;\n  @%p0 bra end;", last = "end:\n";
  text.replace(text.find(wait), wait.size(), wait + "  bra freed;\n");
  text.replace(text.find(end), end.size(), "freed:\n" + end);
  return text.replace(text.find(last), last.size(), last + at_the_end);
}

TEST_F(Tcgen05KernelTest, ReportsTensorMemoryThatIsFreedUnderAMultiplication) {
  const LaunchResult result = run(impatient_kernel("  nanosleep.u32 100000;\n"));
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  EXPECT_REPORT(result, "64 columns from address 0x0 (lane 0, column 0): column 0 is not allocated");
  EXPECT_REPORT(result, "it was when the operation was issued: wait for its commit before tcgen05.dealloc");
}

TEST_F(Tcgen05KernelTest, ReportsOperationsInFlightWhenTheBlockEnds) {
  const LaunchResult result = run(impatient_kernel(""));
  EXPECT_TRUE(result.fault);
  EXPECT_REPORT(result, "4 tcgen05 operations were still in flight when the block ended");
}

TEST_F(Tcgen05KernelTest, ReportsALaneThatNoWarpMayBeginIn) {
  std::string text = tile_kernel();
  text.replace(text.find("shl.b32 %r2, %warp, 21"), 22, "shl.b32 %r2, %warp, 20");
  const LaunchResult result = run(text);
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  EXPECT_REPORT(result, "is in lane 16, where no access of this shape may begin");
}

// DeepGEMM's epilogues do this.
TEST_F(Tcgen05KernelTest, TakesEachWarpToItsOwnQuarterFromTheFirstOnesAddress) {
  std::string text = tile_kernel();
  text.replace(text.find("shl.b32 %r2, %warp, 21"), 22, "mov.b32 %r2, 0       ");
  const LaunchResult result = run(text);
  EXPECT_FALSE(result.fault) << all_of(result);
  expect_product();
}

TEST_F(Tcgen05KernelTest, ReportsAWrongDescriptor) {
  const LaunchResult result =
      run(tile_kernel("\n  or.b64 %da, %da, 9007199254740992;\n"
                      "  tcgen05.mma.cta_group::1.kind::f16 [%d], %da, %db, %idesc, 1;"));
  EXPECT_EQ(result.fault, FaultKind::illegal_instruction);
  EXPECT_REPORT(result, "bits 60:53 (reserved) is 1");
}

TEST_F(Tcgen05KernelTest, ReportsTensorMemoryLeftAllocated) {
  std::string text = tile_kernel();
  text.erase(text.find("  tcgen05.dealloc"),
             std::string("  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;").size());
  const LaunchResult result = run(text);
  EXPECT_EQ(result.fault, FaultKind::launch_failure);
  EXPECT_REPORT(result, "64 columns of tensor memory (columns 0 to 63) were still allocated when the block ended");
}

// Each warp of a block allocates all of tensor memory, writes to it, reads it back, and frees it.
const std::string kAllocateInTurn = R"(
.visible .entry k(.param .u64 k_out) {
  .reg .b32 %r<20>; .reg .b64 %out, %rd<4>;
  .shared .align 4 .b8 address[16];
  ld.param.u64 %out, [k_out];
  mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; shl.b32 %r2, %r1, 2;
  mov.u32 %r3, address; add.u32 %r3, %r3, %r2;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 512;
  bar.warp.sync 0xffffffff;
  ld.shared.u32 %r4, [%r3];
  shl.b32 %r5, %r1, 21; add.u32 %r5, %r5, %r4;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5+17], {%r0};
  tcgen05.wait::st.sync.aligned;
  nanosleep.u32 100;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5+17];
  tcgen05.wait::ld.sync.aligned;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 512;
  mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ntid.x; mad.lo.u32 %r7, %r7, %r8, %r0;
  mul.wide.u32 %rd0, %r7, 4; add.u64 %rd0, %rd0, %out;
  st.global.u32 [%rd0], %r6;
  ret;
}
)";

TEST_F(Tcgen05KernelTest, AllocatesInTurnWhenMemoryIsShort) {
  const uint32_t blocks = 2 * machine.architecture().multiprocessors + 3;
  const uint64_t words = allocate<uint32_t>(blocks * 128, 0xffffffff);
  const LaunchResult result = launch(compile(kAllocateInTurn), {blocks, 1, 1}, {128, 1, 1}, words);
  EXPECT_FALSE(result.fault) << all_of(result);
  const std::vector<uint32_t> found = read<uint32_t>(words, blocks * 128);
  for (uint32_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i % 128) << i;
}

TEST_F(Tcgen05KernelTest, WaitsForTensorMemoryInVirtualTime) {
  // Each block holds all of tensor memory for 3 times as many cycles as it counts to.
  constexpr uint32_t kCount = 20'000;
  std::string text = kAllocateInTurn;
  text.insert(text.find("  nanosleep"),
              fmt::format("mov.u32 %r9, {}; .reg .pred %p; again: sub.u32 %r9, %r9, 1; setp.ne.u32 %p, %r9, 0;\n"
                          "@%p bra again;\n",
                          kCount));
  const uint32_t chip = machine.architecture().multiprocessors;
  const uint64_t words = allocate<uint32_t>(3 * chip * 32);
  const auto cycles = [&](uint32_t blocks) {
    const LaunchResult result = launch(compile(text), {blocks, 1, 1}, {32, 1, 1}, words);
    EXPECT_FALSE(result.fault) << all_of(result);
    return result.cycles;
  };
  const Cycle alone = cycles(chip);
  EXPECT_GT(alone, 3 * kCount);
  EXPECT_GE(cycles(3 * chip), 3 * 3 * kCount);
}

class Tcgen05PairKernelTest : public Tcgen05KernelTest {
 protected:
  Tcgen05PairKernelTest() { cluster = {2, 1, 1}; }
  const uint32_t blocks = 2 * (2 * machine.architecture().multiprocessors + 3);
  const uint64_t words = allocate<uint32_t>(blocks * 128, 0xffffffff);
  /// kAllocateInTurn for pairs; each thread stores %r6, which is its number unless `before_the_store` changes it.
  std::string in_turn(const std::string& before_the_store = {}) {
    std::string text = kAllocateInTurn;
    for (size_t at; (at = text.find("cta_group::1")) != std::string::npos;) text.replace(at, 12, "cta_group::2");
    return text.insert(text.find("  st.global"), before_the_store);
  }
};

TEST_F(Tcgen05PairKernelTest, AllocatesInTurnWhenMemoryIsShort) {
  for (seed = 0; seed < 3; ++seed) {
    const LaunchResult result = launch(compile(in_turn()), {blocks, 1, 1}, {128, 1, 1}, words);
    EXPECT_FALSE(result.fault) << all_of(result);
    const std::vector<uint32_t> found = read<uint32_t>(words, blocks * 128);
    for (uint32_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i % 128) << i;
  }
}

TEST_F(Tcgen05PairKernelTest, RunsOnNeighbouringMultiprocessors) {
  // The odd blocks take longer, so that places become free on every other multiprocessor first.
  const std::string text =
      in_turn("mov.u32 %r9, %cluster_ctarank; mul.lo.u32 %r9, %r9, 100000; nanosleep.u32 %r9; mov.u32 %r6, %smid;\n");
  const LaunchResult result = launch(compile(text), {blocks, 1, 1}, {128, 1, 1}, words);
  EXPECT_FALSE(result.fault) << all_of(result);
  const std::vector<uint32_t> found = read<uint32_t>(words, blocks * 128);
  for (uint32_t i = 0; i < found.size(); i += 256) {
    ASSERT_EQ(found[i] % 2, 0u) << i;
    ASSERT_EQ(found[i + 128], found[i] + 1) << i;
  }
}

TEST_F(Tcgen05KernelTest, ReportsADeadlockOverTensorMemory) {
  std::string text = kAllocateInTurn;
  const std::string allocation = "  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 512;\n";
  text.insert(text.find(allocation), allocation);
  const LaunchResult result = launch(compile(text), {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(32));
  EXPECT_EQ(result.fault, FaultKind::deadlock) << all_of(result);
  EXPECT_REPORT(result, "tensor memory");
}

// ---- Refused when a kernel is translated ---------------------------------------------------------------------------

class Tcgen05TranslationTest : public machine::KernelTest {
 protected:
  std::string refusal(const std::string& instruction) {
    try {
      compile_body("tcgen05." + instruction);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return {};
  }
};

#define EXPECT_REFUSED(instruction, part)                                                 \
  do {                                                                                    \
    const std::string found_refusal = refusal(instruction);                               \
    EXPECT_NE(found_refusal.find(part), std::string::npos) << "found: " << found_refusal; \
  } while (false)

TEST_F(Tcgen05TranslationTest, AcceptsTheFormsThatPtxasAccepts) {
  for (const char* instruction : {
           "mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3,%r4,%r5,%r6}, %p1, 3;",
           "mma.cta_group::1.kind::tf32 [%r1], %rd1, %rd2, %r2, !%p1, 15;",
           "mma.kind::f16.cta_group::1.collector::a::fill [%r1], [%r7], %rd2, %r2, 1;",
           "mma.cta_group::1.kind::i8.collector::a::lastuse [%r1+16], %rd1, %rd2, %r2, 0;",
           "mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r2, %p1, 3;",
           "mma.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd1, %rd2, %r2, [%r8], [%r9], %p1;",
           "mma.cta_group::1.kind::mxf4.block_scale.block32 [%r1], %rd1, %rd2, %r2, [%r8], [%r9], %p1;",
           "mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r1], [%r7], %rd2, %r2, [%r8], [%r9], !%p1;",
           "mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r8], %r2, {%r3,%r4,%r5,%r6}, %p1, 3;",
           "mma.sp.cta_group::1.kind::i8.collector::a::use [%r1], [%r7], %rd2, [%r8], %r2, %p1;",
           "mma.sp.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd1, %rd2, [%r8], %r2, [%r8], [%r9], %p1;",
           "mma.ws.sp.cta_group::1.kind::tf32.collector::b1::fill [%r1], [%r7], %rd2, [%r8], %r2, %p1, %rd3;",
           "mma.ws.cta_group::1.kind::f16.collector::b0::fill [%r1], %rd1, %rd2, %r2, %p1;",
           "mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, %rd3;",
           "ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2], 1;",
           "ld.32x32b.x2.sync.aligned.b32 {%r1, %r3}, [%r2+64];",
           "st.sync.aligned.16x256b.x1.unpack::16b.b32 [%r2], {%r1, %r2, %r3, %r4};",
           "st.sync.aligned.16x32bx2.x2.unpack::16b.b32 [%r2], 4, {%r1, %r1};",
           "cp.cta_group::1.128x256b.b8x16.b6x16_p32 [%r1], %rd1;",
           "cp.cta_group::1.64x128b.warpx2::02_13 [%r1], %rd1;",
           "cp.cta_group::1.32x128b.warpx4.b8x16.b4x16_p64 [%r1], %rd1;",
           "commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];",
           "alloc.cta_group::1.sync.aligned.b32 [%rd1], 32;",
           "wait::st.sync.aligned;",
           "mma.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3,%r4,%r5,%r6,%r3,%r4,%r5,%r6}, %p1, 3;",
           "mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [%r1], [%r7], %rd2, %r2, [%r8], [%r9], !%p1;",
           "mma.sp.cta_group::2.kind::mxf4nvf4.block_scale.block16 [%r1], %rd1, %rd2, [%r8], %r2, [%r8], [%r9], 1;",
           "cp.cta_group::2.32x128b.warpx4 [%r1], %rd1;",
           "commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%rd1], %h1;",
           "alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], %r2;",
           "dealloc.cta_group::2.sync.aligned.b32 %r1, 512;",
           "relinquish_alloc_permit.cta_group::2.sync.aligned;",
       }) {
    EXPECT_EQ(refusal(instruction), "") << instruction;
  }
}

TEST_F(Tcgen05TranslationTest, NamesWhatIsNotImplemented) {
  EXPECT_REFUSED("mma.sp.cta_group::1.kind::f16.ashift [%r1], [%r7], %rd2, [%r8], %r2, %p1;", "ashift is not");
  EXPECT_REFUSED("mma.cta_group::1.kind::f16.ashift [%r1], [%r7], %rd2, %r2, %p1;", "ashift is not implemented");
  EXPECT_REFUSED("shift.cta_group::1.down [%r1];", "tcgen05.shift is not implemented");
  EXPECT_REFUSED("melt.cta_group::1 [%r1];", "no such tcgen05 instruction");
}

TEST_F(Tcgen05TranslationTest, RefusesWhatPtxasRefuses) {
  EXPECT_REFUSED("ld.sync.aligned.16x128b.x128.b32 {%r1}, [%r2];", "whose largest is .x64");
  EXPECT_REFUSED("ld.sync.aligned.32x32b.x4.b32 {%r1, %r2}, [%r2];", "moves 4 registers, in braces; here are 2");
  EXPECT_REFUSED("ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2];", "needs an immediate");
  EXPECT_REFUSED("ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2], 4;", "only .16x32bx2 has an immediate");
  EXPECT_REFUSED("wait::ld;", "sync");
  EXPECT_REFUSED("cp.cta_group::1.64x128b [%r1], %rd1;", "warpx2::02_13");
  EXPECT_REFUSED("mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 16;", "scale-input-d is 16; legal: 0 to 15");
  EXPECT_REFUSED("mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p1, 1;", "scale-input-d");
  EXPECT_REFUSED("mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r1,%r2}, %p1;", "with cta_group::1 it has 4");
  EXPECT_REFUSED("mma.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, {%r1,%r2,%r3,%r4}, %p1;",
                 "with cta_group::2 it has 8");
  EXPECT_REFUSED("mma.ws.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;", "the .ws form has no cta_group::2");
  EXPECT_REFUSED(
      "relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.alloc.cta_group::2.sync.aligned.b32 [%rd1], 32;",
      "cta_group::2 in a kernel that has cta_group::1 before");
  EXPECT_REFUSED("mma.cta_group::1.kind::mxf4nvf4.block_scale [%r1], %rd1, %rd2, %r2, [%r8], [%r9], %p1;",
                 "needs .scale_vec");
  EXPECT_REFUSED("mma.cta_group::1.kind::mxf8f6f4 [%r1], %rd1, %rd2, %r2, [%r8], [%r9], %p1;", "block_scale");
  EXPECT_REFUSED("mma.cta_group::1.kind::f64 [%r1], %rd1, %rd2, %r2, %p1;", "kind::f16");
}

class Tcgen05OnHopperTest : public machine::KernelTest {
 protected:
  Tcgen05OnHopperTest() : KernelTest(machine::h200()) {}
};

TEST_F(Tcgen05OnHopperTest, IsRefused) {
  try {
    compile_body("tcgen05.wait::ld.sync.aligned;");
    FAIL();
  } catch (const ptx::Error& error) {
    EXPECT_NE(std::string(error.what()).find("need an sm_100a device"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
