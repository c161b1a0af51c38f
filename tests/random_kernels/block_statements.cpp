// What the lanes of a warp or the threads of a block do together, with all the barriers that it needs.
#include <fmt/format.h>

#include "generator.hpp"

namespace stagecraft::random_kernels {

bool Generator::has_whole_warps() const { return kernel_.threads % 32 == 0; }

/// @param mask      the lanes that take part
/// @param partners  bits of its number in which a lane of the mask may differ from another one
Statement Generator::among_lanes(uint32_t mask, uint32_t partners) {
  const std::string m = fmt::format("0x{:x}", mask);
  switch (below(12)) {
    case 0:
      return line(
          fmt::format("shfl.sync.bfly.b32 {}|{}, {}, {}, 31, {}", word(), truth(), word(), below(32) & partners, m));
    case 1:
      if (mask != ~0u) return line("bar.warp.sync " + m);
      return line(fmt::format("shfl.sync.{}.b32 {}|{}, {}, {}, {}", one_of({"up", "down", "idx"}), word(), truth(),
                              word(), below(32),
                              one_of({"0, 0xffffffff", "31, 0xffffffff", "0x1800, 0xffffffff", "0x181f, 0xffffffff"})));
    case 2:
      return line(fmt::format("vote.sync.{}.pred {}, {}, {}", one_of({"all", "any", "uni"}), truth(), truth(), m));
    case 3: return line(fmt::format("vote.sync.ballot.b32 {}, {}, {}", word(), truth(), m));
    case 4: return line(fmt::format("and.b32 %t0, {}, 3;\nmatch.any.sync.b32 {}, %t0, {}", word(), word(), m));
    case 5:
      return line(fmt::format("redux.sync.{}.{} {}, {}, {}", one_of({"add", "min", "max"}), one_of({"u32", "s32"}),
                              word(), word(), m));
    case 6: return line(fmt::format("redux.sync.{}.b32 {}, {}, {}", one_of({"and", "or", "xor"}), word(), word(), m));
    case 7:
      return line(fmt::format("and.b32 %t0, {}, 1;\nmatch.all.sync.b32 {}|{}, %t0, {}", word(), word(), truth(), m));
    case 8: return line(fmt::format("match.any.sync.b64 {}, {}, {}", word(), wide(), m));
    case 9:
      return line(fmt::format("redux.sync.{}{}.f32 {}, {}, {}", one_of({"min", "max"}), one_of({"", ".NaN"}), real(),
                              real(), m));
    case 10:  // one lane is elected, whichever
      return line(
          fmt::format("elect.sync _|%q997, {0};\nvote.sync.ballot.b32 %t0, %q997, {0};\npopc.b32 {1}, %t0", m, word()));
    default: return line("bar.warp.sync " + m);
  }
}

/// Some lanes of each warp go one way, the rest another, and exchange values there.
Statement Generator::parted_warp() {
  const uint32_t id = number(), bit = below(5);
  uint32_t set = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) set |= (lane >> bit & 1) << lane;
  Statement parts{
      .before = fmt::format("and.b32 %c{0}, %lane, {1};\nsetp.eq.u32 %q{0}, %c{0}, 0;\n@%q{0} bra L{0}_else;\n", id,
                            1u << bit),
      .between = fmt::format("bra L{0}_end;\nL{0}_else:\n", id),
      .after = fmt::format("L{0}_end:\n", id)};
  const uint32_t partners = ~(1u << bit);
  parts.first = several(3, [&] { return one_in(2) ? among_lanes(set, partners) : alone(); });
  parts.second = several(3, [&] { return one_in(2) ? among_lanes(~set, partners) : alone(); });
  return parts;
}

/// Each thread writes its own words of shared memory, and reads another thread's.
Statement Generator::exchange_in_block(const std::function<std::string()>& meet) {
  static constexpr struct {
    const char* type;
    uint32_t count;
  } kForms[] = {{"u32", 1}, {"u32", 1}, {"v2.u32", 2}, {"v4.u32", 4}, {"u8", 1}, {"u16", 1}};
  const auto& form = kForms[below(6)];
  const std::string from = different_words(form.count), to = different_words(form.count);
  const bool vector = form.count > 1;
  const auto braced = [&](const std::string& list) { return vector ? "{" + list + "}" : list; };
  std::string text = fmt::format("st.shared.{} [%tile], {};\n{}", form.type, braced(from), meet());
  text += tile_of_another();
  text += fmt::format("ld.shared.{} {}, [%t0];\n{}", form.type, braced(to), meet());
  return {.before = text};
}

std::string Generator::tile_of_another() {
  return fmt::format(
      "mad.lo.u32 %t0, %thread, {}, {};\nrem.u32 %t0, %t0, {};\nshl.b32 %t0, %t0, 4;\nmov.u32 %t1, tile;\n"
      "add.u32 %t0, %t0, %t1;\n",
      1 + below(8) * 2, below(256), kernel_.threads);
}

std::string Generator::barrier() {
  if (one_in(3)) return fmt::format("bar.red.popc.u32 {}, 0, {};\n", word(), truth());
  if (one_in(3)) return fmt::format("bar.red.{}.pred {}, 0, {};\n", one_of({"and", "or"}), truth(), truth());
  return one_in(4) ? fmt::format("bar.sync {}, {};\n", below(4), (kernel_.threads + 31) / 32 * 32) : "bar.sync 0;\n";
}

std::string Generator::wait_at(const std::string& mbarrier, const std::string& parity, const char* scope) {
  const uint32_t id = number();
  const std::string order = scope[0] == '\0' ? std::string() : fmt::format(".acquire{}", scope);
  return fmt::format("L{0}_wait:\nmbarrier.try_wait.parity{3}.shared.b64 %q{0}, [{1}], {2};\n@!%q{0} bra L{0}_wait;\n",
                     id, mbarrier, parity, order);
}

/// All threads arrive at the second mbarrier, and wait there.
std::string Generator::meet_at_mbarrier() {
  std::string arrival = "mbarrier.arrive.shared.b64 _, [bars+8];\n";
  if (has_whole_warps() && one_in(2)) {  // one lane for its warp
    arrival =
        "bar.warp.sync 0xffffffff;\nsetp.eq.u32 %q997, %lane, 0;\n@%q997 mbarrier.arrive.shared.b64 _, [bars+8], 32;\n";
  }
  return arrival + wait_at("bars+8", "%phase1") + "xor.b32 %phase1, %phase1, 1;\n";
}

/// One half of the warps passes values to the other, through a buffer that goes back and forth.
Statement Generator::hand_over() {
  const uint32_t id = number(), half = kernel_.threads / 2;
  std::string text =
      fmt::format("setp.ge.u32 %q{0}, %thread, {1};\n@%q{0} bra L{0}_take;\nxor.b32 %t0, %phase3, 1;\n", id, half);
  text += wait_at("bars+24", "%t0");
  text +=
      fmt::format("st.shared.u32 [%passed], {};\nmbarrier.arrive.shared.b64 _, [bars+16];\nbra L{}_end;\nL{}_take:\n",
                  word(), id, id);
  text += wait_at("bars+16", "%phase2");
  text += fmt::format(
      "sub.u32 %t0, %thread, {};\nxor.b32 %t0, %t0, {};\nshl.b32 %t0, %t0, 2;\nmov.u32 %t1, passed;\nadd.u32 %t0, "
      "%t0, "
      "%t1;\nld.shared.u32 {}, [%t0];\n",
      half, below(32), word());
  text += fmt::format(
      "mbarrier.arrive.shared.b64 _, [bars+24];\nL{}_end:\nxor.b32 %phase2, %phase2, 1;\nxor.b32 %phase3, %phase3, "
      "1;\n",
      id);
  return {.before = text};
}

/// One thread copies a piece of the input to shared memory, and all of them read it.
Statement Generator::bulk_load() {
  const uint32_t id = number(), bytes = 16u << below(7);
  std::string text =
      fmt::format("setp.ne.u32 %q{0}, %thread, {1};\n@%q{0} bra L{0}_issued;\n", id, below(kernel_.threads));
  text += fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bars], {};\n", bytes);
  text += fmt::format("and.b32 %t0, {}, {};\ncvt.u64.u32 %a0, %t0;\nadd.u64 %a0, %a0, %in;\n", word(),
                      (RandomKernel::kInWords * 4 - 1) & ~1023u);
  const uint32_t parts = bytes >= 32 && one_in(2) ? 2 : 1;
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t at = part * bytes / parts;
    text += fmt::format(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [stage+{}], [%a0+{}], {}, [bars];\n", at, at,
        bytes / parts);
  }
  text += fmt::format("L{}_issued:\n", id) + wait_at("bars", "%phase0");
  text += fmt::format(
      "xor.b32 %phase0, %phase0, 1;\nand.b32 %t0, {}, {};\nmov.u32 %t1, stage;\nadd.u32 %t0, %t0, "
      "%t1;\nld.shared.u32 {}, [%t0];\nbar.sync 0;\n",
      word(), bytes - 4, word());
  return {.before = text};
}

/// Each thread writes shared memory, and one thread stores all of it.
Statement Generator::bulk_store() {
  const uint32_t id = number();
  std::string text = fmt::format("st.shared.u32 [%sink], {};\nfence.proxy.async.shared::cta;\nbar.sync 0;\n", word());
  text += fmt::format("setp.ne.u32 %q{0}, %thread, 0;\n@%q{0} bra L{0}_stored;\n", id);
  const std::string operation = one_of({"add.u32", "min.s32", "max.u32", "xor.b32"});
  const bool reduces = one_in(3);
  text += fmt::format(
      "cp.{}async.bulk.global.shared::cta.bulk_group{} [%stored], [sink], "
      "{};\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
      reduces ? "reduce." : "", reduces ? "." + operation : "", kernel_.threads * 4);
  text += fmt::format("L{}_stored:\nbar.sync 0;\n", id);
  return {.before = text};
}

/// Each thread copies a piece of the input to its own words, and reads them after its wait.
Statement Generator::own_copy() {
  std::string text = fmt::format("and.b32 %t0, {}, {};\ncvt.u64.u32 %a0, %t0;\nadd.u64 %a0, %a0, %in;\n", word(),
                                 (RandomKernel::kInWords * 4 - 1) & ~15u);
  text += fmt::format("cp.async.ca.shared.global [%tile], [%a0], {};\n", one_of({4, 8, 16}));
  text += one_in(2) ? "cp.async.commit_group;\ncp.async.wait_group 0;\n" : "cp.async.wait_all;\n";
  text += fmt::format("ld.shared.u32 {}, [%tile];\nbar.sync 0;\n", word());
  return {.before = text};
}

/// Rounds and conditions that are the same for all threads of the block.
Statement Generator::together(uint32_t depth, bool of_cluster) {
  const uint32_t id = number();
  const bool loops = one_in(2);
  const auto inside = [&] { return statement_of_all(depth - 1, of_cluster && loops); };
  if (loops) {
    Statement loop{
        .before = fmt::format("mov.u32 %c{0}, {1};\nL{0}_top:\n", id, 1 + below(4)),
        .after = fmt::format("sub.u32 %c{0}, %c{0}, 1;\nsetp.ne.u32 %q{0}, %c{0}, 0;\n@%q{0} bra L{0}_top;\n", id)};
    loop.first = several(5, inside);
    return loop;
  }
  Statement branch{
      .before = fmt::format("and.b32 %c{0}, %block, 1;\nsetp.eq.u32 %q{0}, %c{0}, {1};\n@%q{0} bra L{0}_else;\n", id,
                            below(2)),
      .between = fmt::format("bra L{0}_end;\nL{0}_else:\n", id),
      .after = fmt::format("L{0}_end:\n", id)};
  branch.first = several(3, inside);
  branch.second = several(3, inside);
  return branch;
}

Statement Generator::statement_of_all(uint32_t depth, bool of_cluster) {
  if (of_cluster && kernel_.cluster > 1 && one_in(4)) return statement_of_cluster();
  const uint32_t kind = below(24);
  if (kind < 9) return alone();
  if (kind < 13) return diverging(2);
  if (kind < 16 && has_whole_warps()) return one_in(3) ? parted_warp() : among_lanes(~0u, ~0u);
  if (kind < 18) return exchange_in_block([&] { return barrier(); });
  if (kind < 19) return exchange_in_block([&] { return meet_at_mbarrier(); });
  if (kind < 20) return bulk_load();
  if (kind < 21 && kernel_.threads * 4 % 16 == 0) return bulk_store();
  if (kind < 22 && kernel_.threads % 64 == 0) return hand_over();
  if (kind < 23 && depth != 0) return together(depth, of_cluster);
  return own_copy();
}

}  // namespace stagecraft::random_kernels
