// Operands and modifiers that ptxas 13.0 refuses, each beside the neighbour that it accepts. Both verdicts are its own:
// every line was given to `ptxas -arch sm_100a`.
#include <span>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

struct Pair {
  const char* refused;
  const char* sentence;  ///< part of what is said about it
  const char* accepted;
};

class RefusedByPtxasTest : public KernelTest {
 protected:
  void check(std::span<const Pair> pairs) {
    for (const Pair& pair : pairs) {
      try {
        compile_body(pair.refused, ".shared .b64 tile[8];");
        ADD_FAILURE() << pair.refused << " is accepted";
      } catch (const ptx::Error& error) {
        EXPECT_NE(std::string(error.what()).find(pair.sentence), std::string::npos) << error.what();
      }
      EXPECT_NO_THROW(compile_body(pair.accepted, ".shared .b64 tile[8];")) << pair.accepted;
    }
  }
};

TEST_F(RefusedByPtxasTest, RegistersWiderThanTheTypeExceptInLoadsStoresAndConversions) {
  const Pair pairs[] = {
      {"mov.b32 %rd1, %rd2;", "register %rd2 has 64 bits; this operand has 32", "mov.b64 %rd1, %rd2;"},
      {"mov.u16 %h1, %r1;", "register %r1 has 32 bits; this operand has 16", "cvt.u16.u32 %h1, %r1;"},
      {"mov.u32 %rd1, 5;", "register %rd1 has 64 bits", "cvt.u32.u32 %rd1, 5;"},
      {"mov.u8 %h1, %h2;", "u8", "mov.u16 %h1, %h2;"},
      {"shfl.sync.idx.b32 %r1, %r2, %rd1, 31, -1;", "%rd1 has 64", "shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1;"},
      {"atom.global.add.u32 %rd1, [%out], %r1;", "%rd1 has 64", "ld.global.u32 %rd1, [%out];"},
      {"mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %rd1;", "%rd1 has 64",
       "mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1;"},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%out], 16, [%r2], "
       "%r3;",
       "%r3 has 32 bits; this operand has 16",
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%out], 16, [%r2], "
       "%h1;"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, IntegersForFloatingPointAndConversely) {
  const Pair pairs[] = {
      {"add.s32 %f1, %r1, %r2;", "register %f1 is of type .f32; this operand is of type .s32", "add.s32 %r1, %r2, 5;"},
      {"ld.global.u32 %f1, [%out];", "untyped bits (.b32)", "ld.global.b32 %f1, [%out];"},
      {"mov.u32 %r1, %f1;", "register %f1 is of type .f32", "mov.b32 %r1, %f1;"},
      {"add.f32 %f1, %f2, 1;", "1 is an integer; a constant of type .f32 is written 1.0", "add.f32 %f1, %f2, 1.0;"},
      {"st.global.f32 [%out], 0;", "0 is an integer", "st.global.f32 [%out], 0f00000000;"},
      {"st.global.u32 [%out], 1.0;", "floating-point constant", "st.global.u32 [%out], 1;"},
      {"mov.b32 %r1, 1.0;", "floating-point constant of 64 bits", "mov.b32 %r1, 0f3F800000;"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, SpecialRegistersElsewhereThanInMovAndOfAnotherWidth) {
  const Pair pairs[] = {
      {"add.u32 %r1, %tid.x, 1;", "special registers are read by mov: copy %tid.x", "mov.u32 %r1, %tid.x;"},
      {"mov.u64 %rd1, %tid.x;", "%tid.x is an integer of 32 bits", "cvt.u64.u32 %rd1, %tid.x;"},
      {"mov.u32 %r1, %globaltimer;", "%globaltimer has 64 bits", "mov.u32 %r1, %globaltimer_lo;"},
      {"mov.f32 %f1, %laneid;", "%laneid is an integer", "mov.b32 %r1, %laneid;"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, AddressesOf32BitsInGlobalAndGenericMemory) {
  const Pair pairs[] = {
      {"ld.global.f32 %f1, [%r1];", "%r1 has 32 bits; a global address has 64", "ld.shared.f32 %f1, [%r1];"},
      {"atom.add.u32 %r2, [%r1], 1;", "without a state space the address is generic",
       "atom.shared.add.u32 %r2, [%r1], 1;"},
      {"mbarrier.init.b64 [%r1], 1;", "without a state space the address is generic",
       "mbarrier.init.shared::cta.b64 [%r1], 1;"},
      {"mbarrier.try_wait.parity.b64 %p1, [%r1], 0;", "without a state space",
       "ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%r1];"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, MemoryOrdersAndCacheOperatorsThatAnInstructionDoesNotHave) {
  const Pair pairs[] = {
      {"ld.acquire.global.u32 %r1, [%out];", "need a scope", "ld.acquire.gpu.global.u32 %r1, [%out];"},
      {"ld.gpu.global.u32 %r1, [%out];", "a scope needs a memory order", "ld.relaxed.gpu.global.u32 %r1, [%out];"},
      {"ld.release.gpu.global.u32 %r1, [%out];", "a load cannot be .release", "ld.volatile.global.u32 %r1, [%out];"},
      {"st.acquire.gpu.global.u32 [%out], %r1;", "a store cannot be .acquire",
       "st.release.gpu.global.u32 [%out], %r1;"},
      {"ld.mmio.relaxed.gpu.global.u32 %r1, [%out];", ".relaxed.sys", "ld.mmio.relaxed.sys.global.u32 %r1, [%out];"},
      {"ld.acquire.gpu.local.u32 %r1, [%r2];", "cannot reach .local", "ld.local.u32 %r1, [%r2];"},
      {"red.acquire.gpu.global.add.u32 [%out], 1;", "a red cannot be .acquire",
       "red.release.gpu.global.add.u32 [%out], 1;"},
      {"atom.volatile.global.add.u32 %r1, [%out], 1;", "an atom cannot be .volatile",
       "atom.acquire.gpu.global.add.u32 %r1, [%out], 1;"},
      {"ld.shared.nc.f32 %f1, [tile];", ".nc is for weak loads from .global", "ld.global.nc.f32 %f1, [%out];"},
      {"ld.global.wb.u32 %r1, [%out];", "the cache operators of a load", "st.global.wb.u32 [%out], %r1;"},
      {"st.global.ca.u32 [%out], %r1;", "the cache operators of a store", "ld.global.ca.u32 %r1, [%out];"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, FormsThatDoNotExist) {
  const Pair pairs[] = {
      {"shfl.down.b32 %r1, %r2, 1, 31;", "without .sync it does not exist", "shfl.sync.down.b32 %r1, %r2, 1, 31, -1;"},
      {"match.any.sync.b32 %r1|%p1, %r2, -1;", "gives no predicate", "match.all.sync.b32 %r1|%p1, %r2, -1;"},
      {"bar.arrive 1;", "needs the number of threads", "bar.arrive 1, 64;"},
      {"fence.proxy.async.shared;", "shared", "fence.proxy.async.shared::cta;"},
      {"prefetch.shared.L1 [%r1];", ".global and .local memory", "prefetch.global.L1 [%out];"},
      {"cp.async.cg.global.shared [%out], [%r1], 16;", "in this order", "cp.async.cg.shared.global [%r1], [%out], 16;"},
      {"tcgen05.dealloc.cta_group::1.sync.aligned.b32 [%r1], 32;", "without brackets",
       "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;"},
      {"cvt.rn.f32.f16 %f1, %h1;", "has no rounding modifier", "cvt.rn.f16.f32 %h1, %f1;"},
  };
  check(pairs);
}

TEST_F(RefusedByPtxasTest, ConstantsOutOfRange) {
  const Pair pairs[] = {
      {"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "legal are 32, 64, 128, 256 and 512",
       "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;"},
      {"cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 24;", "a multiple of 16",
       "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 32;"},
      {"cp.async.bulk.prefetch.L2.global [%out], 24;", "a multiple of 16",
       "cp.async.bulk.prefetch.L2.global [%out], 16;"},
      {"cp.async.ca.shared.global [%r1], [%out], 16, 32;", "32 bytes to read for a copy of 16",
       "cp.async.ca.shared.global [%r1], [%out], 16, 8;"},
      {"mbarrier.arrive.shared.b64 %rd1, [%r1], 0;", "at least one", "mbarrier.arrive.shared.b64 %rd1, [%r1], 1;"},
      {"bfe.u32 %r1, %r2, 300, 4;", "the position of the field is 300", "bfe.u32 %r1, %r2, 255, 4;"},
      {"bfi.b32 %r1, %r2, %r3, 3, 400;", "the length of the field is 400", "bfi.b32 %r1, %r2, %r3, 3, 4;"},
  };
  check(pairs);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
