// Which forms of instructions each chip has. The answers are those of ptxas 13.0 for sm_90a, sm_100a, sm_120a and
// sm_121a; where STAGECRAFT_PTXAS names one, it is asked again. The narrow kinds of mma.sync are not here:
// mma_sync_test.cpp has them.
#include <cstdlib>
#include <fstream>
#include <span>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// From sm_90 on, so that the lessons 00 to 07 and the rings of the later ones are the same on an RTX 50.
constexpr const char* kSinceHopper[] = {
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
    "{%f1,%f2,%f3,%f4};",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
    "{%f1,%f2,%f3,%f4};",
    "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2};",
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%r1,%r2}, {%r3}, {%r4}, {%r1,%r2};",
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%fd1,%fd2,%fd3,%fd4}, "
    "{%fd1,%fd2,%fd3,%fd4,%fd5,%fd6,%fd7,%fd8}, {%fd1,%fd2,%fd3,%fd4}, {%fd1,%fd2,%fd3,%fd4};",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r1,%r2,%r3,%r4};",
    "elect.sync %r1|%p1, -1;",
    "setmaxnreg.inc.sync.aligned.u32 232;",
    "setmaxnreg.dec.sync.aligned.u32 40;",
    "ld.global.L2::cache_hint.v4.b32 {%r1,%r2,%r3,%r4}, [%rd1], %rd2;",
    "atom.global.add.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1], {%f1,%f2,%f3,%f4};",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r3];",
    "atom.global.cas.b128 %q1, [%rd1], %q2, %q3;",
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;",
    "fence.mbarrier_init.release.cluster;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.wait.aligned;",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r3], 16, [%r2];",
    "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 16, [%r2], "
    "%h1;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1], 16, [%r2], %rd2;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], 16;",
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r1], [%r3], 16, [%r2];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2,%r3}], [%r4];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2,%r3}], [%r4];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1, "
    "{%r2,%r3}], [%r4], %h1;",
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6}], [%r4], {%h1,%h2};",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%rd2], 128;",
    "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0, %r2;",
};

/// From sm_100 on, on an RTX 50 and a DGX Spark, too.
constexpr const char* kSinceBlackwell[] = {
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b4x16_p64 {%r1,%r2}, [%r5];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.b6x16_p32 {%r1,%r2}, [%r5];",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r1}, [%r5];",
    "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32 {%r1,%r2,%r3,%r4}, [%r5];",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r5], {%r1};",
    "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r5], {%r1,%r2,%r3,%r4};",
    "cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;",
    "cvt.rn.satfinite.e3m2x2.f32 %h1, %f1, %f2;",
    "{ .reg .b8 %b; cvt.rn.satfinite.e2m1x2.f32 %b, %f1, %f2; }",
    "{ .reg .b8 %b; cvt.u8.u16 %b, %h1; cvt.rn.f16x2.e2m1x2 %r1, %b; }",
    "cvt.rn.f16x2.e3m2x2 %r1, %h1;",
    "cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;",
    "cvt.rz.ue8m0x2.f32 %h1, %f1, %f2;",
    "cvt.rp.satfinite.ue8m0x2.bf16x2 %h1, %r1;",
    "cvt.rn.bf16x2.ue8m0x2 %r1, %h1;",
    "cvt.rn.satfinite.tf32.f32 %r1, %f1;",
    "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd1;",
    "add.rn.f32.bf16 %f1, %h1, %f2;",
    "fma.rn.f32.f16 %f1, %h1, %h2, %f2;",
    "min.f32 %f1, %f2, %f3, %f4;",
    "max.NaN.f32 %f1, %f2, %f3, %f4;",
    "ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];",
    "ld.global.v4.b64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];",
    "st.global.v8.b32 [%rd1], {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8};",
    "ld.global.L1::no_allocate.L2::evict_first.L2::256B.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];",
    "ld.global.L2::cache_hint.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1], %rd2;",
    "ld.global.L2::evict_last.v4.b64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];",
    "st.async.release.sys.global.b32 [%rd1], %r2;",
    "st.bulk.weak.shared::cta [%rd1], %rd2, 0;",
    "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16, %h1;",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6,%r7}], [%r4];",
    "tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%rd1], 1;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
    "[%r1], [%r2];",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1,%r2,%r3,%r4}, %q1;",
    "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6}], [%r4], {%h1,%h2};",
    "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%rd1], 15;",
};

/// On sm_100a alone, although PTX names a family of chips for most.
constexpr const char* kDataCentreBlackwell[] = {
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];",
    "tcgen05.fence::before_thread_sync;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%rd1];",
    "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;",
    "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1,%f2,%f3,%f4}, %r2;",
    "cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1,%f2,%f3,%f4}, %r2;",
    "redux.sync.min.f32 %f1, %f2, -1;",
    "redux.sync.max.abs.NaN.f32 %f1, %f2, -1;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::1 [%r1], [%rd1, "
    "{%r2,%r3}], [%r4];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%r1], [%rd1, "
    "{%r2,%r3}], [%r4];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6,%r7}], [%r4];",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r2,%r3,%r5,%r6,%r7}], [%r1];",
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6}], [%r4], {%h1,%h2};",
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col::w::128.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6}], [%r4], {%h1,%h2};",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%rd1, {%r2,%r3,%r5,%r6,%r7}];",
    "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes [%r1], [%rd1, "
    "{%r2,%r3,%r5,%r6}], [%r4], {%h1,%h2};",
    "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w [%rd1, {%r2,%r3,%r5,%r6}], {%h1,%h2};",
    "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w::128 [%rd1, {%r2,%r3,%r5,%r6}], {%h1,%h2};",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::1 [%r1], [%rd1, "
    "{%r2,%r3}], [%r4];",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.multicast::cluster "
    "[%r1], [%rd1, {%r2,%r3,%r5,%r6,%r7}], [%r4], %h1;",
};

/// On sm_90a alone.
constexpr const char* kHopper[] = {
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;",
};

constexpr const char* kDeclared = "{ .reg .f64 %fd<10>; .reg .b128 %q<5>; .reg .b64 %rd<20>; .reg .b32 %r<20>; ";

class FormsOfChipsTest : public ::testing::TestWithParam<const char*> {
 protected:
  /// Why the chip refuses the form; empty where it accepts it. `target` is that of the emulated chip.
  std::string refusal(const char* form) const {
    class OnChip : public KernelTest {
     public:
      explicit OnChip(const Architecture& chip) : KernelTest(chip) {}
      void TestBody() override {}
      void translate(const char* text) { compile_body(std::string(kDeclared) + text + " }"); }
    };
    try {
      OnChip(chip()).translate(form);
    } catch (const ptx::Error& error) {
      return error.what();
    }
    return {};
  }

  const Architecture& chip() const { return *find_architecture(GetParam()); }

  /// What ptxas says about the form; empty where it accepts it.
  std::string refusal_by_ptxas(const std::string& ptxas, const char* form) const {
    const std::string source = ::testing::TempDir() + "/form_of_" + chip().target + ".ptx", said = source + ".txt";
    std::ofstream(source) << ".version 9.0\n.target " << chip().target << "\n.address_size 64\n.entry k() {\n"
                          << " .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .pred %p<9>;\n"
                          << kDeclared << form << " }\n ret; }\n";
    const std::string command =
        fmt::format("{} -arch={} -O0 -o /dev/null {} > {} 2>&1", ptxas, chip().target, source, said);
    if (std::system(command.c_str()) == 0) return {};
    std::ifstream answer(said);
    return {std::istreambuf_iterator<char>(answer), {}};
  }

  void check(std::span<const char* const> forms, bool has_them) const {
    const char* const ptxas = std::getenv("STAGECRAFT_PTXAS");
    for (const char* form : forms) {
      const std::string refused = refusal(form);
      EXPECT_EQ(refused.empty(), has_them) << form << ": " << refused;
      if (!has_them && chip().is_desktop_blackwell()) {
        EXPECT_NE(refused.find(fmt::format("({}) is {}: ", chip().name, chip().target)), std::string::npos) << refused;
      }
      if (ptxas == nullptr) continue;
      const std::string said = refusal_by_ptxas(ptxas, form);
      EXPECT_EQ(said.empty(), has_them) << form << ": " << said;
    }
  }
};

TEST_P(FormsOfChipsTest, AreThoseThatPtxasAssembles) {
  check(kSinceHopper, true);
  if (chip().major >= 10) check(kSinceBlackwell, true);
  check(kDataCentreBlackwell, chip().has_tensor_memory());
  check(kHopper, chip().major == 9);
}

INSTANTIATE_TEST_SUITE_P(Chips, FormsOfChipsTest, ::testing::Values("h200", "b200", "rtx5090", "spark"));

}  // namespace
}  // namespace stagecraft::emulator::machine
