// What a lane does alone, on a path of its own.
#include <fmt/format.h>

#include "generator.hpp"

namespace stagecraft::random_kernels {

Statement Generator::line(const std::string& text) { return {.before = text + ";\n"}; }

Statement Generator::integer() {
  const char* const type = one_of({"u32", "s32"});
  const std::string d = word(), a = word(), b = source(), c = source();
  switch (below(22)) {
    case 0: return line(fmt::format("{}add.{} {}, {}, {}", guard(), type, d, a, b));
    case 1: return line(fmt::format("{}sub.{} {}, {}, {}", guard(), type, d, a, b));
    case 2: return line(fmt::format("{}mul.{}.{} {}, {}, {}", guard(), one_of({"lo", "hi"}), type, d, a, b));
    case 3: return line(fmt::format("{}mad.{}.{} {}, {}, {}, {}", guard(), one_of({"lo", "hi"}), type, d, a, b, c));
    case 4: return line(fmt::format("{}{}.b32 {}, {}, {}", guard(), one_of({"and", "or", "xor"}), d, a, b));
    case 5: return line(fmt::format("{}{}.b32 {}, {}", guard(), one_of({"not", "cnot"}), d, a));
    case 6: return line(fmt::format("{}shl.b32 {}, {}, {}", guard(), d, a, one_in(3) ? b : std::to_string(below(36))));
    case 7:
      return line(fmt::format("{}shr.{} {}, {}, {}", guard(), type, d, a, one_in(3) ? b : std::to_string(below(36))));
    case 8: return line(fmt::format("{}{}.{} {}, {}, {}", guard(), one_of({"min", "max"}), type, d, a, b));
    case 9: return line(fmt::format("{}{}.s32 {}, {}", guard(), one_of({"abs", "neg"}), d, a));
    case 10: return line(fmt::format("{}{}.b32 {}, {}", guard(), one_of({"popc", "clz", "brev"}), d, a));
    case 11: return line(fmt::format("{}bfe.{} {}, {}, {}, {}", guard(), type, d, a, below(34), below(34)));
    case 12: return line(fmt::format("{}bfi.b32 {}, {}, {}, {}, {}", guard(), d, a, word(), below(34), below(34)));
    case 13: return line(fmt::format("{}prmt.b32 {}, {}, {}, {}", guard(), d, a, word(), b));
    case 14: return line(fmt::format("{}lop3.b32 {}, {}, {}, {}, {}", guard(), d, a, word(), word(), below(256)));
    case 15: return line(fmt::format("{}sad.{} {}, {}, {}, {}", guard(), type, d, a, b, c));
    case 16: return line(fmt::format("{}selp.b32 {}, {}, {}, {}", guard(), d, a, b, truth()));
    case 17:
      return line(fmt::format("{}shf.{}.{}.b32 {}, {}, {}, {}", guard(), one_of({"l", "r"}), one_of({"wrap", "clamp"}),
                              d, a, word(), b));
    case 18:
      return line(fmt::format("{}dp4a.{}.{} {}, {}, {}, {}", guard(), type, one_of({"u32", "s32"}), d, a, word(), c));
    case 19: return line(fmt::format("or.b32 %t0, {}, 1;\n{}.u32 {}, {}, %t0", b, one_of({"div", "rem"}), d, a));
    case 20:  // a signed division whose result always fits
      return line(fmt::format("shr.u32 %t0, {}, 1;\nor.b32 %t0, %t0, 1;\n{}.s32 {}, {}, %t0", word(),
                              one_of({"div", "rem"}), d, a));
    default:
      return line(fmt::format("add.cc.u32 %t0, {}, {};\naddc.cc.u32 {}, {}, {};\naddc.u32 {}, %t0, 0", a, word(), d,
                              word(), word(), word()));
  }
}

Statement Generator::of_64_bits() {
  const char* const type = one_of({"u64", "s64"});
  const std::string d = wide(), a = wide(), b = wide();
  switch (below(9)) {
    case 0: return line(fmt::format("{}{}.{} {}, {}, {}", guard(), one_of({"add", "sub"}), type, d, a, b));
    case 1: return line(fmt::format("{}mul.{}.{} {}, {}, {}", guard(), one_of({"lo", "hi"}), type, d, a, b));
    case 2: return line(fmt::format("{}mul.wide.{} {}, {}, {}", guard(), one_of({"u32", "s32"}), d, word(), source()));
    case 3: return line(fmt::format("{}{}.b64 {}, {}, {}", guard(), one_of({"and", "or", "xor"}), d, a, b));
    case 4: return line(fmt::format("{}shl.b64 {}, {}, {}", guard(), d, a, below(70)));
    case 5: return line(fmt::format("{}shr.{} {}, {}, {}", guard(), type, d, a, below(70)));
    case 6: return line(fmt::format("{}{}.{} {}, {}, {}", guard(), one_of({"min", "max"}), type, d, a, b));
    case 7:
      return line(
          fmt::format("{}cvt.{}.{} {}, {}", guard(), one_of({"u64", "s64"}), one_of({"u32", "s32"}), d, word()));
    default: return line(fmt::format("{}cvt.u32.u64 {}, {}", guard(), word(), a));
  }
}

Statement Generator::floating() {
  const std::string d = real(), a = real(), b = real();
  switch (below(9)) {
    case 0:
    case 1: return line(fmt::format("{}{}.rn.f32 {}, {}, {}", guard(), one_of({"add", "sub", "mul"}), d, a, b));
    case 2: return line(fmt::format("{}fma.rn.f32 {}, {}, {}, {}", guard(), d, a, b, real()));
    case 3: return line(fmt::format("{}{}.f32 {}, {}, {}", guard(), one_of({"min", "max"}), d, a, b));
    case 4: return line(fmt::format("{}div.rn.f32 {}, {}, {}", guard(), d, a, b));
    case 5: return line(fmt::format("{}{}.rn.f32 {}, {}", guard(), one_of({"sqrt", "rcp"}), d, a));
    case 6: return line(fmt::format("{}cvt.rn.f32.{} {}, {}", guard(), one_of({"u32", "s32"}), d, word()));
    case 7: return line(fmt::format("{}cvt.rzi.{}.f32 {}, {}", guard(), one_of({"u32", "s32"}), word(), a));
    default: return line(fmt::format("{}mov.b32 {}, {}", guard(), d, word()));
  }
}

Statement Generator::doubles() {
  const std::string d = wide(), a = wide(), b = wide();
  std::string text;
  switch (below(10)) {
    case 0:
    case 1: text = fmt::format("{}{}.rn.f64 {}, {}, {}", guard(), one_of({"add", "sub", "mul"}), d, a, b); break;
    case 2: text = fmt::format("{}fma.rn.f64 {}, {}, {}, {}", guard(), d, a, b, wide()); break;
    case 3: text = fmt::format("{}{}.f64 {}, {}, {}", guard(), one_of({"min", "max"}), d, a, b); break;
    case 4: text = fmt::format("{}div.rn.f64 {}, {}, {}", guard(), d, a, b); break;
    case 5: text = fmt::format("{}{}.rn.f64 {}, {}", guard(), one_of({"sqrt", "rcp"}), d, a); break;
    case 6: text = fmt::format("{}cvt.rn.f64.{} {}, {}", guard(), one_of({"u32", "s32"}), d, word()); break;
    case 7: text = fmt::format("{}cvt.f64.f32 {}, {}", guard(), d, real()); break;
    case 8: return line(fmt::format("setp.num.f64 %q997, {0}, {0};\n@%q997 cvt.rn.f32.f64 {1}, {0}", a, real()));
    default:
      return line(fmt::format("setp.num.f64 %q997, {0}, {0};\n@%q997 cvt.rzi.{1}.f64 {2}, {0}", a,
                              one_of({"u32", "s32"}), word()));
  }
  // PTX does not say which NaN it is.
  return line(text + fmt::format(";\nsetp.nan.f64 %q997, {0}, {0};\n@%q997 mov.b64 {0}, 0x7ff8000000000000", d));
}

Statement Generator::small_floats() {
  const std::string d = word(), a = word(), b = word();
  const std::string type = one_of({"f16", "bf16"}), packed = type + "x2";
  const std::string saturates = type == "f16" && one_in(4) ? ".sat" : "";
  const std::string halves = fmt::format("mov.b32 {{%h0, %h1}}, {};\nmov.b32 {{%h2, %h3}}, {};\n", a, b);
  switch (below(10)) {
    case 0:
    case 1:
      return line(
          fmt::format("{}{}.rn{}.{} {}, {}, {}", guard(), one_of({"add", "sub", "mul"}), saturates, packed, d, a, b));
    case 2: return line(fmt::format("{}fma.rn{}.{} {}, {}, {}, {}", guard(), saturates, packed, d, a, b, word()));
    case 3:
      return line(
          fmt::format("{}{}{}.{} {}, {}, {}", guard(), one_of({"min", "max"}), one_of({"", ".NaN"}), packed, d, a, b));
    case 4:
      return line(fmt::format("{}cvt.{}.{}.f32 {}, {}, {}", guard(), one_of({"rn", "rz"}), packed, d, real(), real()));
    case 5: return line(halves + fmt::format("{}cvt.f32.{} {}, %h{}", guard(), type, real(), below(4)));
    case 6:
      return line(halves + fmt::format("setp.{}.{} {}, %h0, %h{}",
                                       one_of({"eq", "ne", "lt", "le", "gt", "ge", "ltu", "geu", "num", "nan"}), type,
                                       truth(), 1 + below(3)));
    case 7:
      return line(halves + fmt::format("cvt.{}.{}.f32 %h0, {};\nmov.b32 {}, {{%h0, %h3}}", one_of({"rn", "rz"}), type,
                                       real(), d));
    case 8:
      return line(halves + fmt::format("{}.rn.{} %h1, %h2, %h0;\nmov.b32 {}, {{%h1, %h2}}",
                                       one_of({"add", "sub", "mul"}), type, d));
    default: return line(halves + fmt::format("fma.rn.{} %h3, %h0, %h1, %h2;\nmov.b32 {}, {{%h3, %h0}}", type, d));
  }
}

Statement Generator::comparison() {
  const std::string both = one_in(3) ? fmt::format(".{}", one_of({"and", "or", "xor"})) : "";
  const std::string third = both.empty() ? "" : ", " + truth();
  if (one_in(4)) {
    const char* const how =
        one_of({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
    return line(fmt::format("setp.{}{}.f32 {}, {}, {}{}", how, both, truth(), real(), real(), third));
  }
  if (one_in(6))
    return line(fmt::format("{}.pred {}, {}, {}", one_of({"and", "or", "xor"}), truth(), truth(), truth()));
  if (one_in(6)) {
    const char* const how = one_of({"eq", "ne", "lt", "geu", "num", "nan"});
    return line(fmt::format("setp.{}{}.f64 {}, {}, {}{}", how, both, truth(), wide(), wide(), third));
  }
  const char* const how = one_of({"eq", "ne", "lt", "le", "gt", "ge"});
  if (one_in(4))
    return line(
        fmt::format("setp.{}{}.{} {}, {}, {}{}", how, both, one_of({"u64", "s64"}), truth(), wide(), wide(), third));
  return line(
      fmt::format("setp.{}{}.{} {}, {}, {}{}", how, both, one_of({"u32", "s32"}), truth(), word(), source(), third));
}

Statement Generator::narrow() {
  const char* const to = one_of({"u8", "s8", "u16", "s16"});
  const char* const from = one_of({"u32", "s32"});
  // Through a register of 16 bits, and back by its sign or by zeros.
  const std::string wide_type = to[0] == 's' ? "s16" : "u16";
  const std::string saturates = one_in(3) ? ".sat" : "";
  return line(
      fmt::format("cvt{}.{}.{} %h0, {};\ncvt.{}32.{} {}, %h0", saturates, to, from, word(), to[0], wide_type, word()));
}

Statement Generator::load_input() {
  const std::string address = fmt::format("and.b32 %t0, {}, {};\ncvt.u64.u32 %a0, %t0;\nadd.u64 %a0, %a0, %in;\n",
                                          word(), (RandomKernel::kInWords - 1) * 4 & ~15u);
  switch (below(6)) {
    case 0: return line(address + fmt::format("ld.global.v2.u32 {{{}}}, [%a0+8]", different_words(2)));
    case 1: return line(address + fmt::format("ld.global.v4.u32 {{{}}}, [%a0]", different_words(4)));
    case 2:
      return line(address +
                  fmt::format("{}ld.global.{} {}, [%a0+{}]", guard(), one_of({"u8", "s8"}), word(), below(16)));
    case 3:
      return line(address +
                  fmt::format("{}ld.global.{} {}, [%a0+{}]", guard(), one_of({"u16", "s16"}), word(), below(8) * 2));
    case 4: return line(address + fmt::format("{}ld.global.u64 {}, [%a0+8]", guard(), wide()));
    default: return line(address + fmt::format("{}ld.global.u32 {}, [%a0+{}]", guard(), word(), below(4) * 4));
  }
}

std::string Generator::different_words(uint32_t count) {
  const uint32_t first = below(kWords);
  std::string text;
  for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}%r{}", i == 0 ? "" : ", ", (first + i) % kWords);
  return text;
}

/// The thread's own words of `out` behind its registers, and its own words of shared memory.
Statement Generator::own_memory() {
  const uint32_t at = 96 + below(4) * 4;
  switch (below(6)) {
    case 0: return line(fmt::format("{}st.global.u32 [%own+{}], {}", guard(), at, word()));
    case 1: return line(fmt::format("ld.global.u32 {}, [%own+{}]", word(), at));
    case 2: return line(fmt::format("st.global.v4.u32 [%own+112], {{{}, {}, {}, {}}}", word(), word(), word(), word()));
    case 3:
      return line(fmt::format("{}atom.global.{} {}, [%own+{}], {}", guard(),
                              one_of({"add.u32", "exch.b32", "inc.u32", "dec.u32", "max.u32"}), word(), at, word()));
    case 4:
      return line(fmt::format("{}atom.global.add.noftz.{} {}, [%own+{}], {}", guard(), one_of({"f16x2", "bf16x2"}),
                              word(), at, word()));
    default: return line(fmt::format("atom.global.cas.b32 {}, [%own+{}], {}, {}", word(), at, word(), word()));
  }
}

/// An update whose order does not matter. Each cell is for one operation.
Statement Generator::update() {
  const uint32_t kind = below(8);
  static const char* const kOperations[] = {"add.u32", "min.u32", "max.s32", "and.b32",
                                            "or.b32",  "xor.b32", "add.u32", "max.u32"};
  if (kernel_.cluster > 1 && one_in(2)) {
    return line(fmt::format("mov.u32 %t0, cells;\n{}{}red.shared::cluster.{} [%t0+{}], {}", in_another_block(), guard(),
                            kOperations[kind], kind * 4, word()));
  }
  if (one_in(2))
    return line(fmt::format("{}red.shared.{} [cells+{}], {}", guard(), kOperations[kind], kind * 4, word()));
  return line(fmt::format("{}red.global.{} [%cells+{}], {}", guard(), kOperations[kind], kind * 4, word()));
}

Statement Generator::alone() {
  const uint32_t kind = below(32);
  if (kind < 9) return integer();
  if (kind < 12) return of_64_bits();
  if (kind < 15) return floating();
  if (kind < 18) return doubles();
  if (kind < 23) return small_floats();
  if (kind < 26) return comparison();
  if (kind < 27) return narrow();
  if (kind < 29) return load_input();
  return kind < 30 ? update() : own_memory();
}

std::vector<Statement> Generator::several(uint32_t most, const std::function<Statement()>& make) {
  std::vector<Statement> made;
  for (uint32_t i = 1 + below(most); i != 0; --i) made.push_back(make());
  return made;
}

/// Lanes may take different paths.
Statement Generator::diverging(uint32_t depth) {
  const uint32_t id = number();
  const auto inside = [&] { return depth != 0 && one_in(4) ? diverging(depth - 1) : alone(); };
  if (one_in(3)) {  // a loop with as many rounds as the lane's own data say
    Statement loop{.before = fmt::format("and.b32 %c{0}, {1}, 7;\nL{0}_top:\nsetp.eq.u32 %q{0}, %c{0}, 0;\n@%q{0} "
                                         "bra L{0}_end;\nsub.u32 %c{0}, %c{0}, 1;\n",
                                         id, word()),
                   .after = fmt::format("bra L{0}_top;\nL{0}_end:\n", id)};
    loop.first = several(4, inside);
    if (one_in(3)) {
      loop.between = fmt::format("@{} bra L{}_end;\n", truth(), id);  // a break
      loop.second = several(2, inside);
    }
    return loop;
  }
  Statement branch{
      .before =
          fmt::format("selp.u32 %c{0}, 1, 0, {1};\nsetp.eq.u32 %q{0}, %c{0}, 0;\n@%q{0} bra L{0}_else;\n", id, truth()),
      .between = fmt::format("bra L{0}_end;\nL{0}_else:\n", id),
      .after = fmt::format("L{0}_end:\n", id)};
  branch.first = several(4, inside);
  if (one_in(2)) branch.second = several(4, inside);
  return branch;
}

}  // namespace stagecraft::random_kernels
