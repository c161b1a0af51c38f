// What an opcode states where it is registered, and what is assumed of one that states nothing.
#include "emulator/state/instruction_traits.hpp"

#include "emulator/machine/instruction_set.hpp"
#include "emulator/translation/kernel_translator.hpp"
#include "emulator/translation/translation.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

Outcome do_nothing(Fragment&, const Op&, LaneMask) { return Outcome::next; }
void translate_nothing(Translation& t) { t.emit(do_nothing); }

class InstructionTraitsTest : public KernelTest {
 protected:
  /// Translates a kernel of these instructions and `ret` with a given set.
  std::unique_ptr<Kernel> translate(const InstructionSet& set, const std::string& body) {
    images.push_back(std::make_unique<ModuleImage>(
        std::make_shared<ptx::Module>(ptx::parse(
            ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .b32 %r;\n" + body + "\n}\n")),
        machine.memory()));
    auto kernel = std::make_unique<Kernel>();
    kernel->entry = &images.back()->module()->functions.at(0);
    KernelTranslator(*kernel, *images.back(), machine.architecture(), set).run();
    return kernel;
  }

  static ptx::Instruction parse(const std::string& instruction) {
    const ptx::Module module = ptx::parse(
        ".version 9.0\n.target sm_100a\n.address_size 64\n"
        ".visible .entry k(.param .b32 p) { .reg .pred %p; .reg .b32 %r; .reg .b64 %rd;\n" +
        instruction + "\n}\n");
    return module.functions.at(0).body.at(0);
  }
  static InstructionTraits traits_of(const std::string& instruction) {
    return instruction_set().traits_of(parse(instruction));
  }
  static InstructionClass class_of(const std::string& instruction) {
    return traits_of(instruction).timing.of(parse(instruction));
  }
};

TEST_F(InstructionTraitsTest, TheDefaultsAreThoseOfAnInstructionThatInteractsWithOtherClusters) {
  InstructionSet set;
  set.add("ret", translate_nothing, kOrdinary, InstructionClass::control);
  set.add("ponder", translate_nothing, InstructionTraits{}, InstructionClass::other);
  set.add("settle", translate_nothing, kOrdinary, InstructionClass::other);
  EXPECT_TRUE(translate(set, "ponder;")->clusters_interact);
  EXPECT_FALSE(translate(set, "settle;")->clusters_interact);
  ptx::Instruction ponder;
  ponder.opcode = "ponder";
  EXPECT_EQ(set.traits_of(ponder).reach, Reach::other_clusters);
  EXPECT_EQ(set.traits_of(ponder).proxy, Proxy::async);
}

TEST_F(InstructionTraitsTest, TheLongestNameThatFitsIsTheInstructions) {
  InstructionSet set;
  set.add("st.async", translate_nothing, {.fence = FenceKind::memory}, InstructionClass::memory);
  set.add("st", translate_nothing, {.fence = FenceKind::other}, InstructionClass::memory);
  set.add("st.async.release", translate_nothing, {.fence = FenceKind::proxy_async}, InstructionClass::memory);
  set.add("mul.wide", translate_nothing, kOrdinary, InstructionClass::multiply_wide);
  ptx::Instruction instruction;
  instruction.opcode = "st";
  instruction.modifiers = {"global", "release"};
  EXPECT_EQ(set.find(instruction)->name, "st");
  instruction.modifiers = {"async", "weak"};
  EXPECT_EQ(set.find(instruction)->name, "st.async");
  instruction.modifiers = {"async", "gpu", "release"};
  EXPECT_EQ(set.find(instruction)->name, "st.async.release");
  instruction.opcode = "mul";
  EXPECT_EQ(set.find(instruction), nullptr);
  EXPECT_THROW(set.add("st.async", translate_nothing, kOrdinary, InstructionClass::memory), std::logic_error);
}

TEST_F(InstructionTraitsTest, FollowTheModifiersWhereTheyDependOnThem) {
  EXPECT_EQ(traits_of("ld.acquire.gpu.global.u32 %r, [%rd];").order, AccessOrder::acquire);
  EXPECT_EQ(traits_of("st.global.u32 [%rd], %r;").order, AccessOrder::weak);
  EXPECT_EQ(traits_of("red.global.add.u32 [%rd], %r;").order, AccessOrder::relaxed);
  EXPECT_EQ(traits_of("atom.acq_rel.gpu.global.add.u32 %r, [%rd], %r;").order, AccessOrder::acquire_release);
  EXPECT_EQ(traits_of("fence.acq_rel.gpu;").fence, FenceKind::memory);
  EXPECT_EQ(traits_of("fence.proxy.async;").fence, FenceKind::proxy_async);
  EXPECT_EQ(traits_of("fence.proxy.async.global;").fence, FenceKind::proxy_async_global);
  EXPECT_EQ(traits_of("fence.proxy.async.shared::cta;").fence, FenceKind::proxy_async_shared);
  EXPECT_EQ(traits_of("fence.proxy.alias;").fence, FenceKind::other);
  EXPECT_EQ(traits_of("griddepcontrol.wait;").fence, FenceKind::grid_dependencies);
  EXPECT_EQ(traits_of("griddepcontrol.launch_dependents;").fence, FenceKind::other);
  EXPECT_EQ(traits_of("fence.acq_rel.cluster;").scope, MemoryScope::cluster);
  EXPECT_EQ(traits_of("membar.gl;").scope, MemoryScope::device);
  EXPECT_EQ(traits_of("ld.volatile.global.u32 %r, [%rd];").scope, MemoryScope::system);
  EXPECT_EQ(traits_of("red.global.add.u32 [%rd], %r;").scope, MemoryScope::device);
  EXPECT_EQ(traits_of("st.release.cta.global.u32 [%rd], %r;").scope, MemoryScope::block);
  EXPECT_EQ(traits_of("fence.mbarrier_init.release.cluster;").fence, FenceKind::mbarrier_init);
  EXPECT_EQ(traits_of("cp.async.commit_group;").proxy, Proxy::generic);
  EXPECT_EQ(traits_of("cp.async.bulk.commit_group;").proxy, Proxy::async);
  EXPECT_TRUE(traits_of("bar.warp.sync 0xffffffff;").orders_lanes);
  EXPECT_FALSE(traits_of("bar.sync 0;").orders_lanes);
  EXPECT_NE(traits_of("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r}, %rd, %rd, 1, 1, 1, 0, 0;").result_guard,
            nullptr);
  EXPECT_EQ(traits_of("wgmma.fence.sync.aligned;").result_guard, nullptr);
  EXPECT_EQ(traits_of("div.rn.f32 %r, %r, %r;").flow, Flow::branches);
  EXPECT_EQ(traits_of("div.full.f32 %r, %r, %r;").flow, Flow::next);
}

TEST_F(InstructionTraitsTest, TheClassFollowsModifiersAndOperandsWhereItDependsOnThem) {
  EXPECT_EQ(class_of("add.s32 %r, %r, %r;"), InstructionClass::add);
  EXPECT_EQ(class_of("add.s64 %rd, %rd, %rd;"), InstructionClass::add_wide);
  EXPECT_EQ(class_of("mul.wide.u32 %rd, %r, %r;"), InstructionClass::multiply_wide);
  EXPECT_EQ(class_of("fma.rn.f32 %r, %r, %r, %r;"), InstructionClass::float32);
  EXPECT_EQ(class_of("min.f64 %rd, %rd, %rd;"), InstructionClass::float64);
  EXPECT_EQ(class_of("div.u32 %r, %r, 8;"), InstructionClass::logic);
  EXPECT_EQ(class_of("div.u32 %r, %r, 10;"), InstructionClass::multiply_wide);
  EXPECT_EQ(class_of("rem.s64 %rd, %rd, %rd;"), InstructionClass::divide_wide_signed);
  EXPECT_EQ(class_of("ex2.approx.f32 %r, %r;"), InstructionClass::special_scaled);
  EXPECT_EQ(class_of("ex2.approx.ftz.f32 %r, %r;"), InstructionClass::special);
  EXPECT_EQ(class_of("rcp.rn.f32 %r, %r;"), InstructionClass::reciprocal_float);
  EXPECT_EQ(class_of("cvt.rn.bf16x2.f32 %r, %r, %r;"), InstructionClass::convert_half);
  EXPECT_EQ(class_of("cvt.rn.f32.s32 %r, %r;"), InstructionClass::convert_to_float);
  EXPECT_EQ(class_of("cvt.rzi.s32.f32 %r, %r;"), InstructionClass::convert);
  EXPECT_EQ(class_of("cvt.s64.s32 %rd, %r;"), InstructionClass::free);
  EXPECT_EQ(class_of("mov.u32 %r, %tid.x;"), InstructionClass::other);
  EXPECT_EQ(class_of("mov.u32 %r, %r;"), InstructionClass::free);
  EXPECT_EQ(class_of("ld.param.u32 %r, [p];"), InstructionClass::other);
  EXPECT_EQ(class_of("ld.global.u32 %r, [%rd];"), InstructionClass::memory);
  EXPECT_EQ(class_of("setmaxnreg.inc.sync.aligned.u32 240;"), InstructionClass::more_registers);
}

/// These were in no table while the model of time had one of its own.
TEST_F(InstructionTraitsTest, EachOpcodeHasAClassEvenIfNobodyMeasuredIt) {
  EXPECT_EQ(class_of("cnot.b32 %r, %r;"), InstructionClass::logic);
  EXPECT_EQ(class_of("testp.finite.f64 %p, %rd;"), InstructionClass::float64);
  EXPECT_EQ(class_of("vadd4.s32.s32.s32 %r, %r, %r, %r;"), InstructionClass::logic);
  EXPECT_EQ(class_of("vmad.s32.s32.s32 %r, %r, %r, %r;"), InstructionClass::multiply);
  EXPECT_EQ(class_of("getctarank.shared::cluster.u32 %r, %r;"), InstructionClass::logic);
  EXPECT_EQ(class_of("movmatrix.sync.aligned.m8n8.trans.b16 %r, %r;"), InstructionClass::other);
  EXPECT_EQ(class_of("prefetch.global.L2 [%rd];"), InstructionClass::memory);
  EXPECT_EQ(class_of("prefetch.tensormap [%rd];"), InstructionClass::other);
  EXPECT_EQ(class_of("discard.global.L2 [%rd], 128;"), InstructionClass::memory);
  EXPECT_EQ(class_of("nanosleep.u32 20;"), InstructionClass::other);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
