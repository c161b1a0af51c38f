// Branches, divergence, calls: lanes must come out with their own results, whichever way they take.
#include <chrono>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

// Stores %r0 at out[thread]; for bodies that compute one word per thread of one block.
const char* const kStore = R"(
  mov.u32 %r19, %tid.x;
  mul.wide.u32 %rd19, %r19, 4;
  add.s64 %rd19, %out, %rd19;
  st.global.u32 [%rd19], %r0;
)";

using ControlFlowTest = KernelTest;

TEST_F(ControlFlowTest, EveryThreadKnowsItsPlace) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r0, %r1, %r2, %r3;
    mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %out, %rd1;
    st.global.u32 [%rd1], %r0;)");
  const uint64_t out = allocate<uint32_t>(1000 * 40, 0xdeadbeefu);
  const LaunchResult result = launch(kernel, {1000, 1, 1}, {40, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<uint32_t>(out, 1000 * 40);
  for (uint32_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i);
  EXPECT_EQ(result.thread_instructions, 1000u * 40 * 9);
}

TEST_F(ControlFlowTest, DivergedLanesMeetAgain) {
  // Even lanes loop lane times, odd lanes take the short way; a vote afterwards counts the lanes that met.
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 1;
    mov.u32 %r0, 0;
    @%p1 bra ODD;
    LOOP: setp.ge.s32 %p2, %r0, %r1; @%p2 bra JOIN;
    add.s32 %r0, %r0, 1; bra LOOP;
    ODD: mov.u32 %r0, 1000;
    JOIN: activemask.b32 %r5; popc.b32 %r5, %r5; mul.lo.u32 %r5, %r5, 65536; add.u32 %r0, %r0, %r5;)") +
                                kStore);
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(values[lane] & 0xffff, lane % 2 ? 1000 : lane) << lane;
    EXPECT_EQ(values[lane] >> 16, 32u) << lane;
  }
}

TEST_F(ControlFlowTest, GuardsLeaveOtherLanesAlone) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 5;
    mov.u32 %r0, 7; @%p1 mov.u32 %r0, 1; @!%p1 add.u32 %r0, %r0, %r1;
    setp.eq.u32 %p2, %r1, 31; @%p2 exit;)") +
                                kStore);
  const uint64_t out = allocate<uint32_t>(32, 99u);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 31; ++lane) EXPECT_EQ(values[lane], lane < 5 ? 1 : 7 + lane);
  EXPECT_EQ(values[31], 99u);
}

TEST_F(ControlFlowTest, IndexedBranchesTakeEachLaneItsWay) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; rem.u32 %r1, %r1, 3;
    ts: .branchtargets A, B, C;
    brx.idx %r1, ts;
    A: mov.u32 %r0, 10; bra END;
    B: mov.u32 %r0, 20; bra END;
    C: mov.u32 %r0, 30;
    END:)") + kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], 10 * (lane % 3 + 1));
}

TEST_F(ControlFlowTest, FunctionsTakeParametersAndReturn) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid;
    { .param .b32 a; .param .align 8 .b8 b[16]; .param .b32 result;
      st.param.b32 [a], %r1; st.param.b32 [b+12], 5;
      call.uni (result), scale, (a, b);
      ld.param.b32 %r0, [result]; })") +
                                    kStore,
                                R"(.func (.param .b32 r) scale(.param .b32 x, .param .align 8 .b8 y[16]) {
      .reg .b32 %r<4>;
      ld.param.b32 %r1, [x]; ld.param.b32 %r2, [y+12];
      mul.lo.s32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; })");
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], 5 * lane);
}

TEST_F(ControlFlowTest, RecursionKeepsEveryCallersRegistersAndLocals) {
  // fib(lane % 12) with the first partial result parked in local memory.
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; rem.u32 %r1, %r1, 12;
    { .param .b32 a; .param .b32 result; st.param.b32 [a], %r1; call (result), fib, (a); ld.param.b32 %r0, [result]; })") +
                                    kStore,
                                R"(.func (.param .b32 r) fib(.param .b32 n) {
      .local .align 4 .b8 depot[4]; .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p<2>;
      ld.param.b32 %r1, [n]; setp.gt.u32 %p1, %r1, 1; @%p1 bra REST;
      st.param.b32 [r], %r1; ret;
      REST: sub.u32 %r2, %r1, 1; mov.u64 %rd1, depot;
      { .param .b32 a; .param .b32 result; st.param.b32 [a], %r2; call (result), fib, (a); ld.param.b32 %r3, [result]; }
      st.local.u32 [%rd1], %r3;
      sub.u32 %r4, %r1, 2;
      { .param .b32 a; .param .b32 result; st.param.b32 [a], %r4; call (result), fib, (a); ld.param.b32 %r5, [result]; }
      ld.local.u32 %r6, [%rd1];
      add.u32 %r7, %r6, %r5; st.param.b32 [r], %r7; ret; })");
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const uint32_t fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], fibonacci[lane % 12]) << lane;
}

TEST_F(ControlFlowTest, EndlessRecursionIsAStackOverflow) {
  Kernel& kernel = compile_body("call.uni f;", ".func f() { call.uni f; ret; }");
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::stack_overflow);
}

TEST_F(ControlFlowTest, CallsThroughPointersReachEachLanesFunction) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
    mov.u64 %rd1, twice; mov.u64 %rd2, negative; selp.b64 %rd3, %rd1, %rd2, %p1;
    { .param .b32 a; .param .b32 result; st.param.b32 [a], %r1;
      proto: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (result), %rd3, (a), proto; ld.param.b32 %r0, [result]; })") +
                                    kStore,
                                R"(
    .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, %a, %a; st.param.b32 [r], %a; ret; }
    .func (.param .b32 r) negative(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; neg.s32 %a, %a; st.param.b32 [r], %a; ret; })");
  const uint64_t out = allocate<int32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<int32_t>(out, 32);
  for (int32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane % 2 ? -lane : 2 * lane);
}

TEST_F(ControlFlowTest, ACallThroughGarbageIsNamed) {
  Kernel& kernel = compile_body("mov.u64 %rd1, 4096; p: .callprototype _ (); call %rd1, p;");
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::invalid_pc);
  EXPECT_EQ(message_of(result), "call through a pointer that is no function: 0x1000");
}

// A cast of a function pointer; what the chip would do is undefined.
TEST_F(ControlFlowTest, ACallThroughAPrototypeOfAnotherFunctionStopsTheKernel) {
  const auto message = [&](const std::string& function, const std::string& prototype, const std::string& call) {
    Kernel& kernel = compile_body("mov.u64 %rd1, f; { .param .b32 x; st.param.b32 [x], 1;\n p: .callprototype " +
                                      prototype + "; call " + call + ", p; }",
                                  function);
    const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, uint64_t{0});
    return result.fault ? result.diagnostics.at(0).message + ": " + result.diagnostics.at(0).details.at(0) : "";
  };
  const std::string what = "call of `f` through a pointer to another type of function: ";
  EXPECT_EQ(message(".func f(.param .b8 x[4000]) { ret; }", "_ (.param .b32 _)", "%rd1, (x)"),
            what + "its parameter 1 has 4000 bytes, and the prototype's has 4");
  EXPECT_EQ(message(".func f() { ret; }", "_ (.param .b32 _)", "%rd1, (x)"),
            what + "it takes 0 parameters, and the prototype of the call has 1");
  EXPECT_EQ(message(".func f() { ret; }", "(.param .b32 _) _ ()", "(x), %rd1"),
            what + "it returns 0 results, and the prototype of the call has 1");
  EXPECT_EQ(message(".func (.param .b32 r) f() { st.param.b32 [r], 1; ret; }", "_ ()", "%rd1"), "");
}

TEST_F(ControlFlowTest, TrapStopsTheKernelAndNamesTheWarp) {
  Kernel& kernel = compile_body("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 37; @%p1 trap;");
  const LaunchResult result = launch(kernel, {3, 1, 1}, {64, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::launch_failure);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_EQ(result.diagnostics[0].place.warp, 1u);
  EXPECT_EQ(result.diagnostics[0].place.lanes, 1u << 5);
}

TEST_F(ControlFlowTest, UnknownInstructionsAreRefusedByNameAndLine) {
  try {
    compile_body("\nfrobnicate.b32 %r1, %r2;");
    FAIL();
  } catch (const ptx::Error& error) {
    EXPECT_NE(std::string(error.what()).find("`frobnicate`"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("line"), std::string::npos) << error.what();
  }
}

TEST_F(ControlFlowTest, UnknownModifiersAreRefusedByName) {
  try {
    compile_body("bar.sync.sideways 0;");
    FAIL();
  } catch (const ptx::Error& error) {
    EXPECT_NE(std::string(error.what()).find("sideways"), std::string::npos) << error.what();
  }
}

TEST_F(ControlFlowTest, LaunchesFromKernelsAreRefusedWithWhatToDo) {
  for (const char* function : {"__cudaCDP2LaunchDeviceV2", "cudaGraphLaunch"}) {
    try {
      compile_body(fmt::format("call.uni {}, ();", function), fmt::format(".extern .func {} ();\n", function));
      ADD_FAILURE() << function;
    } catch (const ptx::Error& error) {
      EXPECT_NE(std::string(error.what()).find("launch from the host"), std::string::npos) << error.what();
    }
  }
}

TEST_F(ControlFlowTest, ALaneThatSpinsDoesNotStarveTheOneItWaitsFor) {
  // Lane 0 polls a flag that lane 1 sets after the branch; both are lanes of one warp.
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %laneid; setp.ne.u32 %p1, %r1, 0; @%p1 bra SET;
    SPIN: ld.volatile.global.u32 %r2, [%out]; setp.eq.u32 %p2, %r2, 0; @%p2 bra SPIN;
    bra END;
    SET: setp.eq.u32 %p3, %r1, 1; @%p3 st.volatile.global.u32 [%out], 1;
    END:)");
  const uint64_t out = allocate<uint32_t>(1, 0u);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
}

TEST_F(ControlFlowTest, BlocksThatWaitForEachOtherThroughGlobalMemoryAdvanceTogether) {
  // Block 0 waits until the last block, resident at the same time, has counted.
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra COUNT;
    SPIN: ld.volatile.global.u32 %r2, [%out]; setp.lt.u32 %p2, %r2, 99; @%p2 bra SPIN;
    bra END;
    COUNT: atom.global.add.u32 %r3, [%out], 1;
    END:)");
  const uint64_t out = allocate<uint32_t>(1, 0u);
  const LaunchResult result = launch(kernel, {100, 1, 1}, {1, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  EXPECT_EQ(read<uint32_t>(out, 1)[0], 99u);
}

TEST_F(ControlFlowTest, AChainOfManyCallsIsNoRecursion) {
  // Each of 20,000 functions adds 1 to what the next one returns.
  constexpr uint32_t kFunctions = 20000;
  std::string text = ".func (.reg .b32 %v) f0() { mov.u32 %v, 1; ret; }\n";
  for (uint32_t i = 1; i < kFunctions; ++i) {
    text += fmt::format(
        ".func (.reg .b32 %v) f{}() {{ .reg .b32 %w; call.uni (%w), f{}, (); add.u32 %v, %w, 1; ret; }}\n", i, i - 1);
  }
  text += fmt::format(R"(.visible .entry k(.param .u64 k_out) {{ .reg .b64 %out; .reg .b32 %w;
    ld.param.u64 %out, [k_out]; call.uni (%w), f{}, (); st.global.u32 [%out], %w; ret; }})",
                      kFunctions - 1);
  const uint64_t out = allocate<uint32_t>(1);
  const auto begin = std::chrono::steady_clock::now();
  const LaunchResult result = launch(compile(text), {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_FALSE(result.fault) << message_of(result);
  EXPECT_EQ(read<uint32_t>(out, 1)[0], kFunctions);
  // It takes well under a second; with the square of the depth it takes minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
