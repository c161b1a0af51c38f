// What the blocks of a cluster do together, with all the barriers that it needs.
#include <fmt/format.h>

#include "generator.hpp"

namespace stagecraft::random_kernels {

std::string Generator::cluster_barrier() {
  const char* const aligned = one_of({"", ".aligned"});
  return fmt::format("barrier.cluster.arrive{0}{1};\nbarrier.cluster.wait{2}{1};\n", one_of({"", ".release"}), aligned,
                     one_of({"", ".acquire"}));
}

std::string Generator::in_another_block() {
  return fmt::format("add.u32 %t1, %rank, {};\nrem.u32 %t1, %t1, {};\nmapa.shared::cluster.u32 %t0, %t0, %t1;\n",
                     1 + below(kernel_.cluster - 1), kernel_.cluster);
}

std::string Generator::permuted_tile() {
  return fmt::format(
      "add.u32 %t0, %thread, {};\nrem.u32 %t0, %t0, {};\nshl.b32 %t0, %t0, 4;\nmov.u32 %t1, tile;\n"
      "add.u32 %t0, %t0, %t1;\n",
      below(kernel_.threads), kernel_.threads);
}

Statement Generator::split_cluster_barrier() {
  Statement made{.before = fmt::format("barrier.cluster.arrive{};\n", one_of({"", ".relaxed"})),
                 .after = "barrier.cluster.wait;\n"};
  made.first = several(3, [&] { return alone(); });
  return made;
}

Statement Generator::read_remotely() {
  std::string text = fmt::format("st.shared.u32 [%tile], {};\n", word()) + cluster_barrier();
  text += tile_of_another() + in_another_block();
  text += fmt::format("ld.shared::cluster.u32 {}, [%t0];\n", word()) + cluster_barrier();
  return {.before = text};
}

Statement Generator::write_remotely() {
  std::string text = cluster_barrier() + permuted_tile() + in_another_block();
  text += fmt::format("st.shared::cluster.u32 [%t0], {};\n", word()) + cluster_barrier();
  return {.before = text + fmt::format("ld.shared.u32 {}, [%tile];\n", word())};
}

Statement Generator::arrive_remotely() {
  std::string text = cluster_barrier() + permuted_tile() + in_another_block();
  text += fmt::format("st.shared::cluster.u32 [%t0], {};\n", word());
  // %t1 still is the rank of the other block.
  text += "mov.u32 %t0, bars;\nmapa.shared::cluster.u32 %t0, %t0, %t1;\n";
  text += "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%t0+32];\n";
  text += wait_at("bars+32", "%phase4", ".cluster") + "xor.b32 %phase4, %phase4, 1;\n";
  return {.before = text + fmt::format("ld.shared.u32 {}, [%tile];\n", word())};
}

Statement Generator::store_asynchronously() {
  const uint32_t id = number();
  std::string text = cluster_barrier();
  text +=
      fmt::format("setp.ne.u32 %q{0}, %thread, 0;\n@!%q{0} mbarrier.arrive.expect_tx.shared.b64 _, [bars+40], {1};\n",
                  id, kernel_.threads * 4);
  text += permuted_tile() + in_another_block();
  text += fmt::format("mov.u32 %c{0}, bars;\nmapa.shared::cluster.u32 %c{0}, %c{0}, %t1;\n", id);
  text += fmt::format("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%t0], {}, [%c{}+40];\n", word(), id);
  text += wait_at("bars+40", "%phase5", ".cluster") + "xor.b32 %phase5, %phase5, 1;\n";
  return {.before = text + fmt::format("ld.shared.u32 {}, [%tile];\n", word())};
}

Statement Generator::multicast() {
  const uint32_t id = number(), bytes = 16u << below(7), mask = 1 + below((1u << kernel_.cluster) - 1);
  std::string text = cluster_barrier();
  text += fmt::format("shr.u32 %t0, {}, %rank;\nand.b32 %t0, %t0, 1;\nsetp.eq.u32 %q{}, %t0, 0;\n", mask, id);
  text += fmt::format("@%q{0} bra L{0}_expected;\n", id);
  const uint32_t thread = below(kernel_.threads);
  const uint32_t expecting = number();
  text += fmt::format(
      "setp.eq.u32 %q{0}, %thread, {1};\n@%q{0} mbarrier.arrive.expect_tx.shared.b64 _, [bars], {2};\nL{3}_expected:\n",
      expecting, thread, bytes, id);
  const uint32_t issuing = number();
  text += fmt::format("mad.lo.u32 %t0, %rank, {0}, %thread;\nsetp.ne.u32 %q{1}, %t0, {2};\n@%q{1} bra L{1}_issued;\n",
                      kernel_.threads, issuing, below(kernel_.cluster * kernel_.threads));
  text += fmt::format("and.b32 %t0, {}, {};\ncvt.u64.u32 %a0, %t0;\nadd.u64 %a0, %a0, %in;\nmov.u16 %h0, {};\n", word(),
                      (RandomKernel::kInWords * 4 - 1) & ~1023u, mask);
  text += fmt::format(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [stage], [%a0], {}, "
      "[bars], %h0;\nL{}_issued:\n",
      bytes, issuing);
  text += fmt::format("@%q{0} bra L{0}_end;\n", id) + wait_at("bars", "%phase0", ".cluster");
  text += fmt::format(
      "xor.b32 %phase0, %phase0, 1;\nand.b32 %t0, {}, {};\nmov.u32 %t1, stage;\nadd.u32 %t0, %t0, %t1;\n"
      "ld.shared.u32 {}, [%t0];\nL{}_end:\n",
      word(), bytes - 4, word(), id);
  return {.before = text + cluster_barrier()};
}

Statement Generator::copy_between_blocks() {
  const uint32_t id = number(), bytes = kernel_.threads * 4;
  std::string text = fmt::format("st.shared.u32 [%sink], {};\nfence.proxy.async.shared::cta;\n", word());
  text += cluster_barrier();
  text += fmt::format("setp.ne.u32 %q{0}, %thread, {1};\n@%q{0} bra L{0}_issued;\n", id, below(kernel_.threads));
  text += fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bars], {};\n", bytes);
  text += "mov.u32 %t0, stage;\n" + in_another_block();
  text += fmt::format("mov.u32 %c{0}, bars;\nmapa.shared::cluster.u32 %c{0}, %c{0}, %t1;\n", id);
  text += fmt::format(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%t0], [sink], {0}, [%c{1}];\n"
      "L{1}_issued:\n",
      bytes, id);
  text += wait_at("bars", "%phase0", ".cluster");
  text += fmt::format(
      "xor.b32 %phase0, %phase0, 1;\nmad.lo.u32 %t0, %thread, {}, {};\nrem.u32 %t0, %t0, {};\nshl.b32 %t0, %t0, 2;\n"
      "mov.u32 %t1, stage;\nadd.u32 %t0, %t0, %t1;\nld.shared.u32 {}, [%t0];\n",
      1 + below(64), below(64), kernel_.threads, word());
  return {.before = text + cluster_barrier()};
}

Statement Generator::statement_of_cluster() {
  switch (below(8)) {
    case 0: return split_cluster_barrier();
    case 1:
    case 2: return read_remotely();
    case 3: return write_remotely();
    case 4: return arrive_remotely();
    case 5: return store_asynchronously();
    case 6: return multicast();
    default: return kernel_.threads * 4 % 16 == 0 ? copy_between_blocks() : read_remotely();
  }
}

}  // namespace stagecraft::random_kernels
