// What an opcode states where it is registered, and what is assumed of one that states nothing.
#include "emulator/translation/instruction_traits.hpp"

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

  static InstructionTraits traits_of(const std::string& instruction) {
    const ptx::Module module = ptx::parse(
        ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() { .reg .b32 %r; .reg .b64 %rd;\n" +
        instruction + "\n}\n");
    return instruction_set().traits_of(module.functions.at(0).body.at(0));
  }
};

TEST_F(InstructionTraitsTest, AnOpcodeThatStatesNothingInteractsWithOtherClusters) {
  InstructionSet set;
  set.add("ret", translate_nothing, kOrdinary);
  set.add("ponder", translate_nothing);
  set.add("settle", translate_nothing, kOrdinary);
  EXPECT_TRUE(translate(set, "ponder;")->clusters_interact);
  EXPECT_FALSE(translate(set, "settle;")->clusters_interact);
  ptx::Instruction ponder;
  ponder.opcode = "ponder";
  EXPECT_EQ(set.traits_of(ponder).reach, Reach::other_clusters);
  EXPECT_EQ(set.traits_of(ponder).proxy, Proxy::async);
}

TEST_F(InstructionTraitsTest, EveryOpcodeStatesItsTraits) {
  const std::vector<const Registration*> registrations = instruction_set().registrations();
  EXPECT_GT(registrations.size(), 100u);
  for (const Registration* registration : registrations)
    EXPECT_TRUE(registration->states_traits()) << registration->name;
}

TEST_F(InstructionTraitsTest, TheLongestNameThatFitsIsTheInstructions) {
  InstructionSet set;
  set.add("st.async", translate_nothing, {.fence = FenceKind::memory});
  set.add("st", translate_nothing, {.fence = FenceKind::other});
  set.add("st.async.release", translate_nothing, {.fence = FenceKind::proxy_async});
  set.add("mul.wide", translate_nothing);
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
  EXPECT_THROW(set.add("st.async", translate_nothing), std::logic_error);
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

}  // namespace
}  // namespace stagecraft::emulator::machine
