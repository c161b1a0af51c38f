// Loads, stores, atomics and related instructions in kernels given as PTX.
#include <cmath>

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class MemoryAccessTest : public KernelTest {
 protected:
  explicit MemoryAccessTest(const Architecture& architecture = b200()) : KernelTest(architecture) {}

  /// Runs `body` in one block; it finds the address of `count` elements of `input` in %out.
  template <typename T>
  std::vector<T> run(const std::string& body, std::vector<T> input, uint32_t threads = 1,
                     const std::string& before = {}) {
    const uint64_t address = allocate<T>(input.size());
    std::memcpy(DeviceMemory::host(address), input.data(), input.size() * sizeof(T));
    const LaunchResult result = launch(compile_body(body, before), {1, 1, 1}, {threads, 1, 1}, address);
    EXPECT_FALSE(result.fault) << (result.diagnostics.empty() ? "" : result.diagnostics[0].message);
    return read<T>(address, input.size());
  }

  /// What `body` is stopped for. Something reads the registers that it may have loaded to, so that it has to load.
  Diagnostic fault_of(const std::string& body, uint32_t threads = 1, const std::string& before = {}) {
    out = allocate<uint32_t>(64);
    Kernel& kernel =
        compile_body(body + " xor.b32 %r9, %r1, %r2; xor.b32 %r9, %r4, %r9; xor.b64 %rd9, %rd1, %rd2;", before);
    const LaunchResult result = launch(kernel, {1, 1, 1}, {threads, 1, 1}, out);
    EXPECT_TRUE(result.fault) << "no fault from " << body;
    kind = result.fault.value_or(FaultKind::launch_failure);
    return result.diagnostics.empty() ? Diagnostic{} : result.diagnostics[0];
  }

  std::string refusal_of(const std::string& body, const std::string& before = {}) {
    try {
      compile_body(body, before);
    } catch (const ptx::Error& error) {
      return error.message();
    }
    return "accepted";
  }

  uint64_t out = 0;
  FaultKind kind = FaultKind::launch_failure;
};

bool mentions(const Diagnostic& diagnostic, const std::string& text) {
  if (diagnostic.message.find(text) != std::string::npos) return true;
  for (const std::string& detail : diagnostic.details) {
    if (detail.find(text) != std::string::npos) return true;
  }
  return false;
}

// ---- Loads and stores ----------------------------------------------------------------------------------------------

TEST_F(MemoryAccessTest, ExtendsNarrowLoadsByTheirSign) {
  const auto result = run<uint64_t>(R"(
    ld.global.s8 %r1, [%out]; ld.global.u8 %r2, [%out]; ld.global.s16 %rd3, [%out]; ld.global.u16 %rd4, [%out];
    ld.global.s32 %rd5, [%out]; ld.global.u32 %rd6, [%out]; ld.global.s8 %h1, [%out];
    st.global.u32 [%out+8], %r1; st.global.u32 [%out+12], %r2; st.global.u64 [%out+16], %rd3;
    st.global.u64 [%out+24], %rd4; st.global.u64 [%out+32], %rd5; st.global.u64 [%out+40], %rd6;
    st.global.u16 [%out+48], %h1; st.global.u8 [%out+50], %rd6;)",
                                    {0xffff'ffff'8000'80f0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(result[1], 0x0000'00f0'ffff'fff0u);
  EXPECT_EQ(result[2], 0xffff'ffff'ffff'80f0u);
  EXPECT_EQ(result[3], 0x80f0u);
  EXPECT_EQ(result[4], 0xffff'ffff'8000'80f0u);
  EXPECT_EQ(result[5], 0x8000'80f0u);
  EXPECT_EQ(result[6], 0xf0'fff0u);
}

TEST_F(MemoryAccessTest, MovesVectorsOfUpTo32Bytes) {
  std::vector<uint32_t> input(32);
  for (uint32_t i = 0; i < 32; ++i) input[i] = 100 + i;
  const auto result = run<uint32_t>(R"(
    ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%out];
    st.global.v4.b32 [%out+64], {%r7, %r6, %r5, %r4};
    st.global.v2.u32 [%out+80], {%r0, 9};
    ld.global.v4.b64 {%rd0, %rd1, %rd2, _}, [%out+32];
    st.global.v2.b64 [%out+96], {%rd2, %rd0};)",
                                    input);
  EXPECT_EQ(std::vector<uint32_t>(result.begin() + 16, result.begin() + 22),
            (std::vector<uint32_t>{107, 106, 105, 104, 100, 9}));
  EXPECT_EQ(std::vector<uint32_t>(result.begin() + 24, result.begin() + 28),
            (std::vector<uint32_t>{112, 113, 108, 109}));
}

TEST_F(MemoryAccessTest, Moves32BytesAtAGenericAddressToo) {
  std::vector<uint32_t> input(32);
  for (uint32_t i = 0; i < 32; ++i) input[i] = 100 + i;
  const auto result = run<uint32_t>(R"(
    ld.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%out];
    st.v8.b32 [%out+64], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};
    ld.v4.u64 {%rd0, %rd1, %rd2, %rd3}, [%out+32];
    st.v4.b64 [%out+96], {%rd3, %rd2, %rd1, %rd0};)",
                                    input);
  EXPECT_EQ(std::vector<uint32_t>(result.begin() + 16, result.end()),
            (std::vector<uint32_t>{107, 106, 105, 104, 103, 102, 101, 100, 114, 115, 112, 113, 110, 111, 108, 109}));
}

TEST_F(MemoryAccessTest, AddsVectorsAtAGenericAddressToo) {
  const auto result = run<uint32_t>(
      "mov.f32 %f1, 0f40000000; red.add.v2.f32 [%out], {%f1, %f1};\n"
      "atom.add.v4.f32 {%f2, %f3, _, _}, [%out+16], {%f1, %f1, %f1, %f1}; st.v2.f32 [%out+8], {%f3, %f2};",
      {0x3F800000, 0x40000000, 0, 0, 0x3F800000, 0x40000000, 0x3F800000, 0});
  EXPECT_EQ(result, (std::vector<uint32_t>{0x40400000, 0x40800000, 0x40000000, 0x3F800000, 0x40400000, 0x40800000,
                                           0x40400000, 0x40000000}));
}

TEST_F(MemoryAccessTest, TakesEveryCacheAndOrderModifierThatHasNoEffect) {
  const auto result = run<uint32_t>(R"(
    createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;
    ld.global.nc.L1::no_allocate.L2::128B.u32 %r1, [%out];
    ld.global.L2::cache_hint.u32 %r2, [%out], %rd1;
    ld.volatile.global.u32 %r3, [%out]; ld.acquire.gpu.global.u32 %r4, [%out]; ld.relaxed.sys.u32 %r5, [%out];
    ld.mmio.relaxed.sys.global.u32 %r6, [%out]; ld.global.ca.u32 %r7, [%out]; ldu.global.u32 %r8, [%out];
    ld.weak.global.L1::evict_last.L2::evict_first.u32 %r9, [%out];
    st.global.wt.u32 [%out+4], %r1; st.release.gpu.global.u32 [%out+8], %r2; st.volatile.u32 [%out+12], %r3;
    st.relaxed.cluster.global.L1::evict_first.u32 [%out+16], %r4; st.global.L2::cache_hint.u32 [%out+20], %r5, %rd1;
    st.mmio.relaxed.sys.global.u32 [%out+24], %r6; st.global.u32 [%out+28], %r7; st.global.u32 [%out+32], %r8;
    prefetch.global.L2 [%out]; prefetchu.L1 [%out]; applypriority.global.L2::evict_normal [%out], 128;)",
                                    {42, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(result, std::vector<uint32_t>(9, 42));
}

TEST_F(MemoryAccessTest, LoadsAndStores128Bits) {
  const auto result = run<uint64_t>(R"(
    .reg .b128 %q; ld.global.b128 %q, [%out]; st.global.b128 [%out+16], %q;)",
                                    {1, 2, 3, 4});
  EXPECT_EQ(result, (std::vector<uint64_t>{1, 2, 1, 2}));
}

TEST_F(MemoryAccessTest, ReadsParametersByNameAndThroughTheirAddress) {
  Kernel& kernel = compile(R"(.visible .entry k(.param .u64 out, .param .align 16 .b8 record[32], .param .u8 small) {
    .reg .b64 %out, %rd<9>; .reg .b32 %r<9>;
    ld.param.u64 %out, [out];
    ld.param.v2.u32 {%r1, %r2}, [record+8]; st.global.v2.u32 [%out], {%r1, %r2};
    mov.b64 %rd1, record; ld.param.u32 %r3, [%rd1+12]; st.global.u32 [%out+8], %r3;
    cvta.param.u64 %rd2, %rd1; ld.u32 %r4, [%rd2+16]; st.global.u32 [%out+12], %r4;
    ld.param.u8 %r5, [small]; st.global.u32 [%out+16], %r5;
    ret; })");
  const uint64_t address = allocate<uint32_t>(5);
  struct Record {
    uint32_t values[8];
  } record{{0, 1, 2, 3, 4, 5, 6, 7}};
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, address, record, uint8_t{200}).fault);
  EXPECT_EQ(read<uint32_t>(address, 5), (std::vector<uint32_t>{2, 3, 3, 4, 200}));
}

TEST_F(MemoryAccessTest, ReadsConstantsAndGlobalsByName) {
  const auto result = run<uint32_t>(
      R"(ld.const.u32 %r1, [table+4]; mov.u64 %rd1, table; cvta.const.u64 %rd2, %rd1; ld.u32 %r2, [%rd2+8];
         ld.const.u32 %r3, [%rd1]; st.global.u32 [counter], %r1; ld.global.u32 %r4, [counter];
         st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4};)",
      {0, 0, 0, 0}, 32, ".const .u32 table[3] = {7, 8, 9}; .global .u32 counter;");
  EXPECT_EQ(result, (std::vector<uint32_t>{8, 9, 7, 8}));
}

TEST_F(MemoryAccessTest, GivesEachThreadItsOwnLocalMemory) {
  const auto result = run<uint32_t>(R"(
    .local .align 16 .b8 depot[64];
    mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 3;
    st.local.u32 [depot+4], %r2;
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;
    st.u32 [%rd2+8], %r1;
    ld.u32 %r3, [%rd2+4]; ld.local.u32 %r4, [%rd1+8];
    add.u32 %r5, %r3, %r4;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %out, %rd3; st.global.u32 [%rd3], %r5;)",
                                    std::vector<uint32_t>(64), 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], 4 * i);
}

TEST_F(MemoryAccessTest, ReachesSharedMemoryByItsOwnAndByGenericAddresses) {
  dynamic_shared_bytes = 256;
  const auto result =
      run<uint32_t>(R"(
    mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 4; mov.u32 %r3, fixed; add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    mov.u32 %r5, dynamic; add.u32 %r6, %r5, %r2; mul.lo.u32 %r7, %r1, 100; st.shared.u32 [%r6], %r7;
    bar.sync 0;
    cvta.shared.u64 %rd5, %rd5; mov.u64 %rd1, dynamic; cvta.shared.u64 %rd2, %rd1;
    ld.u32 %r8, [%rd2+8]; ld.shared.u32 %r9, [fixed+12]; ld.shared.u32 %r10, [%rd1+4];
    st.global.v4.u32 [%out], {%r8, %r9, %r10, 1};)",
                    {0, 0, 0, 0}, 64, ".shared .align 4 .b8 fixed[256]; .extern .shared .align 16 .b8 dynamic[];");
  EXPECT_EQ(result, (std::vector<uint32_t>{200, 3, 100, 1}));
}

TEST_F(MemoryAccessTest, PassesParametersAndResultsOfCallsPerLane) {
  const auto result = run<uint32_t>(R"(
    mov.u32 %r1, %tid.x;
    { .param .b32 argument; .param .b32 answer; st.param.b32 [argument], %r1;
      call (answer), twice, (argument); ld.param.b32 %r2, [answer]; }
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %out, %rd3; st.global.u32 [%rd3], %r2;)",
                                    std::vector<uint32_t>(32), 32,
                                    R"(.func (.param .b32 answer) twice(.param .b32 argument) {
                                      .reg .b32 %r<3>; ld.param.b32 %r1, [argument]; add.u32 %r2, %r1, %r1;
                                      st.param.b32 [answer], %r2; ret; })");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], 2 * i);
}

TEST_F(MemoryAccessTest, ReachesTheSharedMemoryOfTheOtherBlocksOfItsCluster) {
  cluster = {2, 1, 1};
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 10; st.shared.u32 [cell], %r2;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r3, cell; setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, 0; @%p1 mov.u32 %r4, 1;
    mapa.shared::cluster.u32 %r5, %r3, %r4; ld.shared::cluster.u32 %r6, [%r5];
    getctarank.shared::cluster.u32 %r7, %r5;
    mov.u64 %rd1, cell; cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r4; ld.u32 %r8, [%rd3];
    cvt.u32.u64 %r9, %rd2; mapa.u32 %r9, %r9, %r4; setp.ne.u32 %p2, %r5, %r9; @%p2 mov.u32 %r7, 99;
    mul.wide.u32 %rd4, %r1, 16; add.s64 %rd4, %out, %rd4; st.global.v4.u32 [%rd4], {%r6, %r7, %r8, %r1};
    barrier.cluster.arrive; barrier.cluster.wait;)",
                                ".shared .u32 cell;");
  const uint64_t address = allocate<uint32_t>(8);
  ASSERT_FALSE(launch(kernel, {2, 1, 1}, {1, 1, 1}, address).fault);
  EXPECT_EQ(read<uint32_t>(address, 8), (std::vector<uint32_t>{11, 1, 11, 0, 10, 0, 10, 1}));
}

TEST_F(MemoryAccessTest, TellsTheSpacesOfGenericAddressesApart) {
  const auto result = run<uint32_t>(R"(
    .local .align 4 .b8 mine[4];
    mov.u64 %rd1, cell; cvta.shared.u64 %rd2, %rd1; mov.u64 %rd3, mine; cvta.local.u64 %rd4, %rd3;
    isspacep.shared %p1, %rd2; isspacep.global %p2, %rd2; isspacep.local %p3, %rd4; isspacep.global %p4, %out;
    isspacep.shared::cluster %p5, %rd2; isspacep.const %p6, %out;
    mov.u32 %r1, 0; @%p1 add.u32 %r1, %r1, 1; @%p2 add.u32 %r1, %r1, 2; @%p3 add.u32 %r1, %r1, 4;
    @%p4 add.u32 %r1, %r1, 8; @%p5 add.u32 %r1, %r1, 16; @%p6 add.u32 %r1, %r1, 32;
    st.global.u32 [%out], %r1;
    cvta.to.shared.u64 %rd5, %rd2; add.s64 %rd6, %rd5, 0; st.shared.u32 [%rd6], 5; ld.shared.u32 %r2, [cell];
    st.global.u32 [%out+4], %r2;)",
                                    {0, 0}, 32, ".shared .u32 cell;");
  EXPECT_EQ(result, (std::vector<uint32_t>{1 + 4 + 8 + 16, 5}));
}

// Measured on an H200: the upper half of the register does not count, so a generic address does as well as a shared
// one.
TEST_F(MemoryAccessTest, TakesTheLowerHalfOfA64BitRegisterForASharedAddress) {
  const auto result = run<uint32_t>(R"(
    mov.u32 %r0, %tid.x; mov.u64 %rd1, cells; cvta.shared.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r0, 4;
    add.s64 %rd2, %rd2, %rd3; or.b64 %rd4, %rd2, 0x1234567800000000;
    st.shared.u32 [%rd2], %r0; atom.shared.add.u32 %r1, [%rd4], 100; setp.gt.u32 %p1, %r0, 0;
    @%p1 ld.shared.u32 %r2, [%rd2+-4]; @!%p1 mov.u32 %r2, 7; ld.shared::cluster.u32 %r3, [%rd4];
    add.s64 %rd5, %out, %rd3; st.global.u32 [%rd5], %r2; st.global.u32 [%rd5+128], %r3;)",
                                    std::vector<uint32_t>(64), 32, ".shared .align 4 .b8 cells[128];");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(result[i], i == 0 ? 7 : i + 99) << i;
    EXPECT_EQ(result[32 + i], i + 100) << i;
  }
}

// ---- Atomics -------------------------------------------------------------------------------------------------------

TEST_F(MemoryAccessTest, AppliesAtomicsInTheOrderOfTheLanes) {
  const auto result = run<uint32_t>(R"(
    mov.u32 %r1, %tid.x; atom.global.add.u32 %r2, [%out], 2;
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %out, %rd3; st.global.u32 [%rd3+4], %r2;)",
                                    std::vector<uint32_t>(33), 32);
  EXPECT_EQ(result[0], 64u);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[1 + i], 2 * i);
}

TEST_F(MemoryAccessTest, HasEveryIntegerAtomic) {
  const auto result = run<uint32_t>(R"(
    atom.global.inc.u32 %r1, [%out], 5; atom.global.dec.u32 %r2, [%out+4], 7; atom.global.min.s32 %r3, [%out+8], -4;
    atom.global.max.u32 %r4, [%out+12], 9; atom.global.and.b32 %r5, [%out+16], 12; atom.or.b32 %r6, [%out+20], 3;
    red.global.xor.b32 [%out+24], 5; atom.global.exch.b32 %r7, [%out+28], 77;
    atom.acq_rel.gpu.global.cas.b32 %r8, [%out+32], 8, 80; atom.global.cas.b32 %r9, [%out+36], 8, 80;
    red.relaxed.gpu.global.add.u64 [%out+40], 4294967296; st.global.u32 [%out+48], %r9;)",
                                    {5, 0, 3, 8, 10, 4, 6, 1, 8, 9, 1, 1, 0});
  EXPECT_EQ(result, (std::vector<uint32_t>{0, 7, uint32_t(-4), 9, 8, 7, 3, 77, 80, 9, 1, 2, 9}));
}

TEST_F(MemoryAccessTest, AddsFloatsOfEveryWidth) {
  const auto result = run<uint32_t>(
      R"(
    red.global.add.f32 [%out], 0f3F800000;
    mov.b32 %r1, 0x3C003C00; red.global.add.noftz.f16x2 [%out+4], %r1;
    mov.b32 %r2, 0x3F803F80; red.global.add.noftz.bf16x2 [%out+8], %r2;
    mov.f32 %f1, 0f40000000; red.global.add.v2.f32 [%out+16], {%f1, %f1};
    mov.b16 %h1, 0x4000; atom.global.add.noftz.f16 %h2, [%out+12], %h1;
    red.global.max.noftz.v2.f16x2 [%out+24], {%r1, %r1};
    red.global.add.f32 [%out+32], 0f00000001; red.shared.add.f32 [cell], 0f00000001; ld.shared.u32 %r3, [cell];
    st.global.u32 [%out+36], %r3;)",
      {0x40000000, 0x40004000, 0x40004000, 0x3C00, 0x3F800000, 0x40000000, 0x4000'0000, 0x7E00'BC00, 0x00000002, 0}, 1,
      ".shared .u32 cell;");
  EXPECT_EQ(result[0], 0x40400000u);
  EXPECT_EQ(result[1], 0x42004200u);
  EXPECT_EQ(result[2], 0x40404040u);
  EXPECT_EQ(result[3], 0x4200u);
  EXPECT_EQ(result[4], 0x40400000u);
  EXPECT_EQ(result[5], 0x40800000u);
  EXPECT_EQ(result[6], 0x4000'3C00u);
  EXPECT_EQ(result[7], 0x3C00'3C00u);  // the number wins over the NaN, 1 over -1
  EXPECT_EQ(result[8], 0u);            // global memory flushes subnormals
  EXPECT_NE(result[9], 0u);            // shared memory keeps them
}

TEST_F(MemoryAccessTest, ExchangesAndCompares128Bits) {
  const auto result = run<uint64_t>(R"(
    .reg .b128 %q<4>; mov.b64 %rd1, 7; mov.b64 %rd2, 8; mov.b128 %q1, {%rd1, %rd2};
    atom.global.exch.b128 %q2, [%out], %q1; st.global.b128 [%out+16], %q2;
    atom.global.cas.b128 %q3, [%out], %q1, %q2; st.global.b128 [%out+32], %q3;)",
                                    {1, 2, 0, 0, 0, 0});
  EXPECT_EQ(result, (std::vector<uint64_t>{1, 2, 1, 2, 7, 8}));
}

// ---- Matrices, asynchronous stores ---------------------------------------------------------------------------------

/// Fills 512 bytes of shared memory with two-byte elements 0, 1, 2, ... (element e of row r: 8 r + e).
const char* const kFillTile = R"(
  mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 16; mov.u32 %r3, tile; add.u32 %r4, %r3, %r2;
  mul.lo.u32 %r5, %r1, 524296; add.u32 %r6, %r5, 65536; add.u32 %r7, %r6, 131074; add.u32 %r8, %r7, 131074;
  add.u32 %r9, %r8, 131074; st.shared.v4.b32 [%r4], {%r6, %r7, %r8, %r9};
  bar.sync 0; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %out, %rd3;
)";

TEST_F(MemoryAccessTest, SpreadsMatricesOverTheWarpAsTheTensorCoresWantThem) {
  const auto plain = run<uint16_t>(std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
    st.global.v4.b32 [%rd3], {%r10, %r11, %r12, %r13};)",
                                   std::vector<uint16_t>(256), 32, ".shared .align 16 .b8 tile[512];");
  const auto transposed = run<uint16_t>(std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
    st.global.v4.b32 [%rd3], {%r10, %r11, %r12, %r13};)",
                                        std::vector<uint16_t>(256), 32, ".shared .align 16 .b8 tile[512];");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t at = lane * 8 + matrix * 2 + half;
        EXPECT_EQ(plain[at], 8 * (8 * matrix + lane / 4) + 2 * (lane % 4) + half);
        EXPECT_EQ(transposed[at], 8 * (8 * matrix + 2 * (lane % 4) + half) + lane / 4);
      }
    }
  }
}

TEST_F(MemoryAccessTest, StoresMatricesAsTheInverseOfLoadingThem) {
  const auto result = run<uint16_t>(std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
    add.u32 %r14, %r4, 512;
    stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r14], {%r10, %r11, %r12, %r13};
    bar.sync 0;
    ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r14]; st.global.v4.b32 [%rd3], {%r10, %r11, %r12, %r13};)",
                                    std::vector<uint16_t>(256), 32, ".shared .align 16 .b8 tile[1024];");
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(result[i], i);
}

TEST_F(MemoryAccessTest, LoadsMatricesOfBytesTransposed) {
  const auto result = run<uint8_t>(std::string(kFillTile) + R"(
    ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r10, %r11, %r12, %r13}, [%r4];
    st.global.v4.b32 [%rd3], {%r10, %r11, %r12, %r13};)",
                                   std::vector<uint8_t>(512), 32, ".shared .align 16 .b8 tile[512];");
  const auto byte_at = [](uint32_t row, uint32_t column) {
    return static_cast<uint8_t>((8 * row + column / 2) >> (column % 2 * 8));
  };
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t reg = 0; reg < 4; ++reg) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        EXPECT_EQ(result[lane * 16 + reg * 4 + byte],
                  byte_at(16 * (reg / 2) + 4 * (lane % 4) + byte, lane / 4 + 8 * (reg % 2)));
      }
    }
  }
}

// The elements are at the low end of their bytes: what CUTLASS says of the chip (cute/atom/mma_traits_sm120.hpp,
// `fp4_shift_A`), whose kernels shift those of 4 bits to where mma.sync needs them.
TEST_F(MemoryAccessTest, LoadsMatricesOfNarrowElementsIntoBytes) {
  const auto bit_at = [](uint32_t row, uint32_t bit) { return (8 * row + bit / 16) >> bit % 16 & 1; };
  const auto element_at = [&](uint32_t row, uint32_t number, uint32_t bits) {
    uint32_t element = 0;
    for (uint32_t i = 0; i < bits; ++i) element |= bit_at(row, number * bits + i) << i;
    return static_cast<uint8_t>(element);
  };
  for (const uint32_t bits : {4u, 6u}) {
    const std::string format = bits == 4 ? "b8x16.b4x16_p64" : "b8x16.b6x16_p32";
    const auto load = [&](const std::string& shape) {
      return run<uint8_t>(std::string(kFillTile) + "ldmatrix.sync.aligned." + shape + ".shared." + format +
                              " {%r10, %r11, %r12, %r13}, [%r4];\nst.global.v4.b32 [%rd3], {%r10, %r11, %r12, %r13};",
                          std::vector<uint8_t>(512), 32, ".shared .align 16 .b8 tile[512];");
    };
    const auto straight = load("m8n16.x4"), transposed = load("m16n16.x2.trans");
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t reg = 0; reg < 4; ++reg) {
        for (uint32_t byte = 0; byte < 4; ++byte) {
          const uint32_t at = lane * 16 + reg * 4 + byte;
          EXPECT_EQ(straight[at], element_at(8 * reg + lane / 4, 4 * (lane % 4) + byte, bits));
          EXPECT_EQ(transposed[at], element_at(16 * (reg / 2) + 4 * (lane % 4) + byte, lane / 4 + 8 * (reg % 2), bits));
        }
      }
    }
  }
}

TEST_F(MemoryAccessTest, CompletesAnMbarrierWithAnAsynchronousStore) {
  const auto result = run<uint32_t>(R"(
    mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    mov.u32 %r2, cell; mov.u32 %r3, 11; mov.u32 %r4, 12; st.shared.u32 [cell+8], 0;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r2], {%r3, %r4}, [%r1];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2+8], %r3, [%r1];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2+8], %r4, [%r1];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
    ld.shared.v2.u32 {%r5, %r6}, [cell]; ld.shared.u32 %r7, [cell+8];
    st.global.v2.u32 [%out], {%r5, %r6}; st.global.u32 [%out+8], %r7;)",
                                    {0, 0, 0}, 1, ".shared .align 8 .b64 bar; .shared .align 16 .b8 cell[16];");
  EXPECT_EQ(result, (std::vector<uint32_t>{11, 12, 23}));
}

TEST_F(MemoryAccessTest, StoresAndAddsToGlobalMemoryAsynchronouslyWithRelease) {
  const auto result = run<uint32_t>(R"(
    mov.u32 %r3, 11; mov.u64 %rd3, 5000000000;
    st.async.release.global.gpu.b32 [%out], %r3; st.async.mmio.release.sys.global.u64 [%out+8], %rd3;
    red.async.release.gpu.add.u32 [%out+4], %r3; red.async.release.global.gpu.add.u32 [%out+4], %r3;)",
                                    {1, 2, 3, 4});
  EXPECT_EQ(result, (std::vector<uint32_t>{11, 24, 705032704, 1}));
  EXPECT_EQ(refusal_of("st.async.release.cluster.global.b32 [%out], %r1;"),
            "`st.async.release.cluster.global.b32`: the scope of .release is .gpu or .sys");
  EXPECT_EQ(refusal_of("red.async.release.gpu.shared::cluster.add.u32 [%out], %r1;"),
            "`red.async.release.gpu.shared::cluster.add.u32`: .shared::cluster with .release, which is for global "
            "memory and ends with the block");
}

TEST_F(MemoryAccessTest, ClearsSharedMemoryInBulk) {
  const auto result = run<uint32_t>(R"(
    st.shared.v2.u32 [cell], {1, 2}; st.shared.v2.u32 [cell+8], {3, 4};
    mov.u32 %r2, cell; st.bulk.weak.shared::cta [%r2], 8, 0;
    ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [cell]; st.global.v4.u32 [%out], {%r3, %r4, %r5, %r6};)",
                                    {9, 9, 9, 9}, 1, ".shared .align 16 .b8 cell[16];");
  EXPECT_EQ(result, (std::vector<uint32_t>{0, 0, 3, 4}));
  // Without a state space, an address of 32 bits is one of shared memory.
  EXPECT_EQ(run<uint32_t>(R"(
    st.shared.v2.u32 [cell], {1, 2}; st.shared.v2.u32 [cell+8], {3, 4};
    mov.u32 %r2, cell; st.bulk.weak [%r2+8], 8, 0;
    ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [cell]; st.global.v4.u32 [%out], {%r3, %r4, %r5, %r6};)",
                          {9, 9, 9, 9}, 1, ".shared .align 16 .b8 cell[16];"),
            (std::vector<uint32_t>{1, 2, 0, 0}));
  EXPECT_TRUE(mentions(fault_of("mov.u32 %r1, 300000; st.bulk.weak [%r1], 8, 0;"), "shared memory"));
}

TEST_F(MemoryAccessTest, SkipsALoadFromNowhereWhoseResultNobodyReads) {
  for (const char* load :
       {"ld.global.u32 %r1, [%rd1];", "ld.global.v4.u32 {%r1, %r2, _, %r3}, [%out+4];", "ldu.global.u32 %r1, [%rd1];",
        "@%p1 ld.u32 %r1, [%rd1];", "ld.shared.u32 %r1, [cell+300000];", "ld.global.nc.u32 _, [%rd1];",
        "mov.u32 %r5, 2; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];"}) {
    const std::string begin = std::string("mov.u64 %rd1, 0; setp.ne.u64 %p1, %rd1, 1; ") + load;
    const std::string end = " st.global.u32 [%out], 7;";
    EXPECT_EQ(run<uint32_t>(begin + end, {1, 2}, 32, ".shared .b32 cell;"), (std::vector<uint32_t>{7, 2})) << load;
    if (std::string_view(load).find("%r1") == std::string_view::npos) continue;
    fault_of(begin + " mov.b32 %r9, %r1;" + end, 32, ".shared .b32 cell;");
    EXPECT_TRUE(kind == FaultKind::illegal_address || kind == FaultKind::misaligned_address) << load;
  }
}

TEST_F(MemoryAccessTest, ExecutesAnUnreadLoadThatPtxasKeeps) {
  for (const char* load : {"ld.volatile.global.u32 %r1, [%rd1];", "ld.acquire.gpu.global.u32 %r1, [%rd1];",
                           "ld.mmio.relaxed.sys.global.u32 %r1, [%rd1];", "atom.global.add.u32 %r1, [%rd1], 1;"}) {
    const LaunchResult result =
        launch(compile_body(std::string("mov.u64 %rd1, 0; ") + load), {1, 1, 1}, {1, 1, 1}, allocate<uint32_t>(1));
    EXPECT_EQ(result.fault, FaultKind::illegal_address) << load;
  }
  // A value that a function returns in a register is read by its caller.
  Kernel& kernel = compile(R"(.func (.reg .u32 %got) get(.reg .u64 %from) { ld.global.u32 %got, [%from]; ret; }
    .visible .entry k(.param .u64 out) {
    .reg .b64 %out, %rd<3>; .reg .b32 %r<3>;
    ld.param.u64 %out, [out]; mov.u64 %rd1, 0; call (%r1), get, (%rd1); st.global.u32 [%out], %r1; ret; })");
  EXPECT_EQ(launch(kernel, {1, 1, 1}, {1, 1, 1}, allocate<uint32_t>(1)).fault, FaultKind::illegal_address);
}

// ---- What is wrong
// -------------------------------------------------------------------------------------------------

TEST_F(MemoryAccessTest, ReportsAReadPastTheEnd) {
  const Diagnostic fault = fault_of("ld.global.u32 %r1, [%out+260];");
  EXPECT_EQ(kind, FaultKind::illegal_address);
  EXPECT_EQ(fault.message,
            fmt::format("`ld.global.u32` reads 4 bytes at {:#x}: 4 bytes past the end of test (256 bytes "
                        "at {:#x})",
                        out + 260, out));
}

TEST_F(MemoryAccessTest, ReportsAnAccessThatStraddlesTheEnd) {
  const Diagnostic fault = fault_of("st.global.v4.u32 [%out+248], {1, 2, 3, 4};");
  EXPECT_EQ(kind, FaultKind::misaligned_address);
  EXPECT_TRUE(mentions(fault, "which is not a multiple of 16"));
  EXPECT_TRUE(mentions(fault, "a vector access must be aligned to the size of the whole vector"));
}

TEST_F(MemoryAccessTest, ReportsNullPointers) {
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, 0; st.global.u32 [%rd1], 1;"),
                       "`st.global.u32` writes 4 bytes at 0x0: the null pointer"));
  EXPECT_EQ(kind, FaultKind::illegal_address);
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, 0; ld.f64 %rd2, [%rd1+16];"), "16 bytes past the null pointer"));
}

TEST_F(MemoryAccessTest, ReportsMisalignedAccesses) {
  const Diagnostic fault = fault_of("ld.global.f64 %rd1, [%out+4];");
  EXPECT_EQ(kind, FaultKind::misaligned_address);
  EXPECT_EQ(fault.message,
            fmt::format("`ld.global.f64` reads 8 bytes at {:#x}, which is not a multiple of 8", out + 4));
  fault_of("ld.shared.u32 %r1, [cell+2];", 1, ".shared .align 8 .b8 cell[16];");
  EXPECT_EQ(kind, FaultKind::misaligned_address);
  fault_of(".local .align 8 .b8 mine[16]; ld.local.u32 %r1, [mine+1];");
  EXPECT_EQ(kind, FaultKind::misaligned_address);
}

TEST_F(MemoryAccessTest, NamesTheLanesAtFault) {
  const Diagnostic fault = fault_of(R"(
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 16; add.s64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r1;)",
                                    32);
  EXPECT_EQ(fault.place.lanes, 0xffff'0000u);
  EXPECT_TRUE(mentions(fault, "lanes 16-31 are at fault; this is the address of lane 16"));
}

TEST_F(MemoryAccessTest, ReportsWritesToWhatKernelsMayOnlyRead) {
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, table; st.u32 [%rd1], 1;", 1, ".const .u32 table[3];"),
                       "which kernels may only read: 0 bytes into variable `table`"));
  EXPECT_EQ(kind, FaultKind::illegal_address);
  EXPECT_TRUE(mentions(fault_of("mov.b64 %rd1, k_out; cvta.param.u64 %rd2, %rd1; st.u32 [%rd2], 1;"),
                       "which kernels may only read: 0 bytes into kernel parameters"));
}

TEST_F(MemoryAccessTest, ReportsSharedAddressesOutsideOfTheBlock) {
  dynamic_shared_bytes = 64;
  const Diagnostic fault = fault_of("mov.u32 %r1, cell; st.shared.u32 [%r1+96], 1;", 1, ".shared .b8 cell[32];");
  EXPECT_EQ(kind, FaultKind::illegal_address);
  EXPECT_TRUE(mentions(fault, "outside of the block's shared memory")) << fault.message;
  EXPECT_TRUE(mentions(fault,
                       "the block has 96 bytes of shared memory (32 static, 64 dynamic), at offsets 0x400 up to "
                       "0x460"));
}

TEST_F(MemoryAccessTest, ReportsDynamicSharedMemoryThatWasNotAskedFor) {
  EXPECT_TRUE(mentions(fault_of("st.shared.u32 [dynamic], 1;", 1, ".extern .shared .align 16 .b8 dynamic[];"),
                       "the launch asked for no dynamic shared memory"));
}

TEST_F(MemoryAccessTest, ReportsNullPointersToSharedMemory) {
  const Diagnostic fault = fault_of("mov.u32 %r1, 0; ld.shared.u32 %r2, [%r1];");
  EXPECT_TRUE(mentions(fault, "in the 1024 bytes that the system reserves"));
  EXPECT_TRUE(mentions(fault, "this looks like a null pointer to shared memory"));
}

TEST_F(MemoryAccessTest, ReportsAnotherBlocksSharedAddress) {
  EXPECT_TRUE(mentions(fault_of("mov.u32 %r1, 0x2000400; ld.shared.u32 %r2, [%r1];", 1, ".shared .b8 cell[32];"),
                       "belongs to the block of rank 2; this block has rank 0"));
  EXPECT_TRUE(mentions(fault_of("mov.u32 %r1, 0x2000400; ld.shared::cluster.u32 %r2, [%r1];", 1),
                       "in the block of rank 2; the cluster has 1 block"));
}

TEST_F(MemoryAccessTest, ReportsTheAddressOfABlockThatTheClusterDoesNotHaveWhereItIsUsed) {
  const std::string address = "mov.u32 %r1, cell; mov.u32 %r2, 3; mapa.shared::cluster.u32 %r3, %r1, %r2;";
  EXPECT_TRUE(mentions(fault_of(address + "ld.shared::cluster.u32 %r4, [%r3];", 1, ".shared .b8 cell[32];"),
                       "in the block of rank 3; the cluster has 1 block"));
  EXPECT_TRUE(mentions(fault_of("mov.u32 %r1, cell; mov.u32 %r2, 256; mapa.shared::cluster.u32 %r3, %r1, %r2; "
                                "ld.shared::cluster.u32 %r4, [%r3];",
                                1, ".shared .b8 cell[32];"),
                       "in the block of rank 255; the cluster has 1 block"));
  EXPECT_FALSE(launch(compile_body(address, ".shared .b8 cell[32];"), {1, 1, 1}, {1, 1, 1}, uint64_t{0}).fault);
}

TEST_F(MemoryAccessTest, ReportsTheSharedMemoryOfABlockThatHasExited) {
  cluster = {2, 1, 1};
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;
    mov.u32 %r5, 0; LOOP: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 20000; @%p2 bra LOOP;
    mov.u32 %r2, cell; mapa.shared::cluster.u32 %r3, %r2, 0; ld.shared::cluster.u32 %r4, [%r3];
    mov.u32 %r5, %r4;
    DONE: ret;)",
                                ".shared .u32 cell;");
  const LaunchResult result = launch(kernel, {2, 1, 1}, {1, 1, 1}, allocate<uint32_t>(1));
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  EXPECT_NE(message_of(result).find("in the block of rank 0, which has exited"), std::string::npos)
      << message_of(result);
}

TEST_F(MemoryAccessTest, ReportsAddressesOfTheWrongSpace) {
  const std::string cell = ".shared .u32 cell;";
  EXPECT_TRUE(
      mentions(fault_of("mov.u64 %rd1, cell; cvta.shared.u64 %rd2, %rd1; ld.global.u32 %r1, [%rd2];", 1, cell),
               "this is a shared-memory address: read it with ld.shared or a generic load, not as global memory"));
  EXPECT_EQ(kind, FaultKind::illegal_address);
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, 0x7fff12345678; ld.shared.u32 %r1, [%rd1];"),
                       "these are the lower 32 bits of 0x7fff12345678, all that counts with .shared"));
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, cell; ld.u32 %r1, [%rd1];", 1, cell),
                       "this may be a 32-bit shared-memory address"));
  EXPECT_TRUE(mentions(fault_of("mov.u64 %rd1, 0x7fff12345678; ld.global.u32 %r1, [%rd1];"),
                       "this looks like a pointer of the host"));
  EXPECT_TRUE(mentions(fault_of(".local .b32 mine; mov.u64 %rd1, mine; cvta.local.u64 %rd2, %rd1; atom.add.u32 %r1, "
                                "[%rd2], 1;"),
                       "`atom.add.u32` is given an address of local memory"));
  EXPECT_EQ(kind, FaultKind::invalid_address_space);
}

TEST_F(MemoryAccessTest, ReportsLocalAndParameterAccessesOutOfBounds) {
  EXPECT_TRUE(mentions(fault_of(".local .align 4 .b8 mine[16]; mov.u64 %rd1, mine; ld.local.u32 %r1, [%rd1+1048576];"),
                       "at offset 0x100000 of local memory; a thread of this kernel has 16 bytes"));
  EXPECT_TRUE(mentions(fault_of("mov.b64 %rd1, k_out; ld.param.u64 %rd2, [%rd1+8];"),
                       "at offset 0x8 of the kernel's parameters; there are 8 bytes"));
}

TEST_F(MemoryAccessTest, ReportsBulkStoresOutsideOfSharedMemory) {
  EXPECT_TRUE(mentions(fault_of("st.bulk.weak [%out], 8, 0;"), "is given an address that is not in shared memory"));
  EXPECT_EQ(kind, FaultKind::invalid_address_space);
  EXPECT_TRUE(
      mentions(fault_of("mov.u32 %r1, cell; st.bulk.weak.shared::cta [%r1], 12, 0;", 1, ".shared .b64 cell[4];"),
               "with a size of 12 bytes; it must be a multiple of 8"));
}

TEST_F(MemoryAccessTest, ReportsUseAfterFree) {
  Kernel& kernel = compile_body("st.global.u32 [%out], 1;");
  const uint64_t address = machine.memory().allocate(64, AllocationKind::device).value();
  machine.memory().release(address);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {1, 1, 1}, address);
  EXPECT_EQ(result.fault, FaultKind::illegal_address);
  EXPECT_NE(message_of(result).find("which has been freed"), std::string::npos) << message_of(result);
}

TEST_F(MemoryAccessTest, RefusesWhatPtxDoesNotHave) {
  EXPECT_NE(refusal_of("ld.global.v8.b16 {%h0,%h1,%h2,%h3,%h4,%h5,%h6,%h7}, [%out];"), "");
  EXPECT_EQ(
      refusal_of("ld.shared.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%r9];"),
      "`ld.shared.v8.b32`: 32 bytes in one access; 16 are possible, and 32 (.v8.b32, .v4.b64) in global memory from "
      "sm_100 on");
  EXPECT_EQ(refusal_of("ld.global.u32 %r1, [cell];", ".shared .u32 cell;"),
            "`ld.global.u32`: the variable is in .shared, the instruction is for .global");
  EXPECT_EQ(refusal_of("st.param.u64 [k_out], %rd1;"), "`st.param.u64`: the parameters of a kernel are read-only");
  EXPECT_EQ(refusal_of("ld.global.v2.u32 {%r1, %r2, %r3}, [%out];"),
            "`ld.global.v2.u32`: the operand has 3 elements, the instruction moves 2");
  EXPECT_EQ(refusal_of("atom.global.min.f32 %f1, [%out], %f2;"),
            "`atom.global.min.f32`: there is no atomic `min` for .f32");
  EXPECT_EQ(refusal_of("red.global.add.f16x2 [%out], %r1;"),
            "`red.global.add.f16x2`: additions of 16-bit floats need .noftz");
  EXPECT_EQ(refusal_of("multimem.red.relaxed.gpu.global.add.u32 [%out], %r1;"),
            "`multimem.red.relaxed.gpu.global.add.u32`: multimem addresses need several GPUs; one is emulated");
  EXPECT_NE(refusal_of("ld.global.sideways.u32 %r1, [%out];").find("sideways"), std::string::npos);
}

class HopperMemoryAccessTest : public MemoryAccessTest {
 protected:
  HopperMemoryAccessTest() : MemoryAccessTest(h200()) {}
};

TEST_F(HopperMemoryAccessTest, RefusesWhatCameWithBlackwell) {
  EXPECT_NE(refusal_of("ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%out];"), "accepted");
  EXPECT_NE(refusal_of("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%r2];"), "accepted");
  EXPECT_NE(refusal_of("st.bulk.weak.shared::cta [%r2], 8, 0;"), "accepted");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
